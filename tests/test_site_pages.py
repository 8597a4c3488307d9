"""What pages get: a description, marks put right, boxes and a reading time; tests/book sees the index and the links."""

import sys
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import directives

from adascale import errors

sys.path.append(str(Path(__file__).parents[1] / "tools"))
import api_pages
import reader_aids
import site_pages


def page(text):
    return publish_doctree(f"Title\n=====\n\n{text}\n", settings_overrides={"doctitle_xform": False})


def test_a_page_is_described_by_its_first_sentences_with_formulas_as_text():
    formulas = r"Are :math:`\nu`, :math:`\eta_t \le 1`, :math:`\mathbf{w}_t` and :math:`10^{-5}` small?"
    assert (
        site_pages.described(page(f"**Question.** {formulas}\n\nAnother paragraph."))
        == "Are ν, η_t ≤ 1, w_t and 10^-5 small?"
    )
    assert site_pages.described(page("This is a sentence. " * 40)).endswith("sentence.")
    cut = site_pages.described(page("word " * 200))
    assert cut.endswith(" word…")
    assert len(cut) <= 300
    assert site_pages.described(publish_doctree("")) == ""


@pytest.mark.parametrize("base", ["", "https://example.org/book/"])
def test_a_picture_stands_on_a_card_where_there_is_an_absolute_address(base):
    app = SimpleNamespace(config=SimpleNamespace(html_title="The book", html_baseurl=base))
    context = {"title": '<span class="number">2. </span>Privacy &amp; "noise"'}
    site_pages.describe(app, "notebooks/02", "page.html", context, page("A < B."))
    marks = context["metatags"]
    assert '<meta name="description" content="A &lt; B." />' in marks
    assert '<meta property="og:title" content="2. Privacy &amp; &quot;noise&quot;" />' in marks
    assert ("og:image" in marks) == bool(base)
    assert ('content="https://example.org/book/_static/card.png"' in marks) == bool(base)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<th class="blank" >&nbsp;</th>', '<td class="blank" ></td>'),
        ("<th></th><th>nu</th>", "<td></td><th>nu</th>"),
        ('<thead><tr><th class="a"> </th>', '<thead><tr><td class="a"></td>'),
        ('<div class="proof admonition" id="proof">', '<div class="proof admonition">'),
        ('<section class="theorem-content" id="proof-content">', '<section class="theorem-content">'),
        ('<summary aria-label="Toggle hidden content">', "<summary>"),
        (
            '<summary><span class="toctree-toggle">',
            '<summary aria-label="Show or hide its pages"><span class="toctree-toggle">',
        ),
        ('<a>\n<script defer src="../_static/scripts/fontawesome.js?digest=1"></script>', "<a>"),
    ],
)
def test_marks_are_put_right_once(before, after):
    assert site_pages.put_right(before) == site_pages.put_right(after) == after


def test_only_the_page_that_searches_loads_the_index_of_all_words():
    scripts = '<script src="_static/searchtools.js"></script>\n<script src="searchindex.js"></script>'
    assert "<script" not in site_pages.put_right(scripts)
    kept = site_pages.put_right(scripts, is_search=True)
    assert 'src="searchindex.js"' in kept
    assert kept.index("SHOW_SEARCH_SUMMARY = false") < kept.index("searchtools.js")


EXERCISE = """
.. exercise:: The deepest *fade*

   Which round is it?
"""


def test_an_exercise_has_its_title_and_its_text(monkeypatch):
    monkeypatch.setitem(directives._directives, "exercise", reader_aids.Exercise)
    document = publish_doctree(EXERCISE, settings_overrides={"report_level": 2, "halt_level": 2})
    (box,) = document.findall(nodes.admonition)
    assert [each.astext() for each in box] == ["Exercise. The deepest fade", "Which round is it?"]
    assert len(list(document.findall(nodes.emphasis))) == 1


def test_fields_of_named_tuples_lose_only_the_words_of_python(monkeypatch):
    pair = namedtuple("pair", ["low", "high"])
    pair.high.__doc__ = "The upper end."
    monkeypatch.setattr(errors, "pair", pair, raising=False)
    monkeypatch.setattr(api_pages, "walk", lambda root: [SimpleNamespace(name="adascale.errors")])
    api_pages.without_aliases(None)
    assert (pair.low.__doc__, pair.high.__doc__, pair(1, 2).low) == ("", "The upper end.", 1)
