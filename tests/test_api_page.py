"""The API page shows every public name, once; tests/book looks at the page as it was built."""

import ast

import pytest

from . import api_page
from .api_page import Home
from .test_architecture import LAYERS


def test_every_public_name_stands_on_the_page_exactly_once():
    shown = api_page.documented()
    assert {f"{each.module}.{each.name}" for each in api_page.public() if shown[each] != 1} == set()


def test_every_module_is_on_the_page_or_inside_a_package_that_is():
    shown = {each.target for each in api_page.directives() if each.kind == "module"}
    inside = {
        module for module in api_page.modules() if any(module.startswith(f"{face}.") for face in api_page.faces())
    }
    exporting = {"adascale", "adascale.learning", "adascale.runs", "companion"}  # their modules are each shown as such
    exporting |= {f"companion.{each}" for each in ("causal", "leakage", "privacy", "theory", "training")}
    assert set(api_page.modules()) - inside - shown == exporting


def test_what_computes_equation_30_and_the_optimum_stand_there():
    shown = api_page.documented()
    assert shown[Home("adascale.policies.adascale", "best_energy")] == 1
    assert shown[Home("adascale.policies.optimal", "water_level")] == 1


def test_page_lists_modules_in_order_of_layers():
    layer = {part: height for height, parts in enumerate(LAYERS) for part in parts}
    targets = [each.target for each in api_page.directives() if each.kind == "module"]
    parts = [target.split(".")[1] for target in targets if target.startswith("adascale.")]
    assert [layer[part] for part in parts] == sorted(layer[part] for part in parts)


@pytest.mark.parametrize("lost", ["adascale.policies", "adascale.scenario", "adascale.learning.gradients"])
def test_a_name_that_is_missing_or_doubled_is_noticed(tmp_path, monkeypatch, lost):
    text = api_page.PAGE.read_text()
    directive = next(block for block in text.split("```") if f"automodule:: {lost}\n" in block)
    for altered in (text.replace(directive, ""), text + f"\n```{directive}```\n"):
        (tmp_path / "api.md").write_text(altered)
        monkeypatch.setattr(api_page, "PAGE", tmp_path / "api.md")
        with pytest.raises(AssertionError):
            test_every_public_name_stands_on_the_page_exactly_once()


def test_a_name_without_words_is_noticed(monkeypatch):
    silent = ast.parse('"""A module."""\ndef best_energy(): return 0')
    whole = api_page.tree
    monkeypatch.setattr(api_page, "tree", lambda name: silent if name == "adascale.policies.adascale" else whole(name))
    with pytest.raises(AssertionError, match="best_energy"):
        test_every_public_name_stands_on_the_page_exactly_once()
