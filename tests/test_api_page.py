"""The API page shows every public name, once; tests/book looks at the page as it was built."""

import ast

import pytest

from . import api_page


def test_every_public_name_stands_on_the_page_exactly_once():
    shown = api_page.documented()
    assert {f"{each.module}.{each.name}" for each in api_page.public() if shown[each] != 1} == set()


def test_every_module_is_on_the_page_or_inside_a_package_that_is():
    shown = {each.target for each in api_page.directives() if each.kind == "module"}
    faces = tuple(f"{face}." for face in api_page.faces())
    outside = {module for module in api_page.modules() if not module.startswith(faces)}
    exporting = {"adascale", "adascale.learning", "adascale.runs", "companion"}  # their modules are each shown as such
    exporting |= {f"companion.{each}" for each in ("causal", "leakage", "privacy", "theory", "training")}
    assert outside - shown == exporting


def test_a_name_that_is_missing_or_doubled_or_without_words_is_noticed(tmp_path, monkeypatch):
    text, whole = api_page.PAGE.read_text(), api_page.tree
    directive = next(block for block in text.split("```") if "automodule:: adascale.policies\n" in block)
    silent = {"adascale.policies.adascale": ast.parse('"""A module."""\ndef adascale_energies(): return 0')}
    for altered, trees in ((text.replace(directive, ""), {}), (text + f"\n```{directive}```\n", {}), (text, silent)):
        (tmp_path / "api.md").write_text(altered)
        monkeypatch.setattr(api_page, "PAGE", tmp_path / "api.md")
        monkeypatch.setattr(api_page, "tree", lambda name, trees=trees: trees.get(name) or whole(name))
        with pytest.raises(AssertionError):
            test_every_public_name_stands_on_the_page_exactly_once()
