"""The API pages show every public name, once; tests/book looks at the pages as they were built."""

import ast

import pytest

from . import api_page


def test_every_public_name_stands_on_a_page_exactly_once():
    shown = api_page.documented()
    assert {f"{each.module}.{each.name}" for each in api_page.public() if shown[each] != 1} == set()


def test_every_module_is_on_a_page_or_inside_a_package_that_is():
    shown = {each.target for each in api_page.directives() if each.kind == "module"}
    faces = tuple(f"{face}." for face in api_page.faces())
    outside = {each for each in api_page.modules() if not each.startswith((*faces, "companion"))}
    exporting = {"adascale", "adascale.learning", "adascale.runs"}  # their modules are each shown as such
    assert outside - shown == {*exporting, *api_page.INSIDE}


def test_a_name_that_is_missing_or_doubled_or_without_words_is_noticed(tmp_path, monkeypatch):
    text, whole = "\n".join(page.read_text() for page in api_page.PAGES), api_page.tree
    directive = next(block for block in text.split("```") if "automodule:: adascale.policies\n" in block)
    silent = {"adascale.policies.adascale": ast.parse('"""A module."""\ndef adascale_energies(): return 0')}
    for altered, trees in ((text.replace(directive, ""), {}), (text + f"\n```{directive}```\n", {}), (text, silent)):
        (tmp_path / "api.md").write_text(altered)
        monkeypatch.setattr(api_page, "PAGES", [tmp_path / "api.md"])
        monkeypatch.setattr(api_page, "tree", lambda name, trees=trees: trees.get(name) or whole(name))
        with pytest.raises(AssertionError):
            test_every_public_name_stands_on_a_page_exactly_once()
