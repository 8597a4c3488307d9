"""What every page gets in the end: a description, an index without accents, marks put right."""

import sys
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from sphinx import addnodes

from adascale import errors

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
import api_pages  # noqa: E402
import site_pages  # noqa: E402

THEOREM = (
    '<div class="proof theorem admonition" id="thm-a">\n<p class="admonition-title"><span>Theorem 1.1 </span> (A)</p>'
)


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (r"\nu", "ν"),
        (r"\eta_t \le 1", "η_t ≤ 1"),
        (r"\mathbf{w}_t", "w_t"),
        ("T = 500", "T = 500"),
        (r"10^{-5}", "10^-5"),
    ],
)
def test_a_short_formula_becomes_text(formula, text):
    assert site_pages.plain(formula) == text


def page(text):
    return publish_doctree(f"Title\n=====\n\n{text}\n", settings_overrides={"doctitle_xform": False})


def test_a_page_is_described_by_its_first_paragraph_with_formulas_as_text():
    document = page("**Question.** How loud is :math:`w_t`?\n\nAnother paragraph.")
    before = document.pformat()
    assert site_pages.described(document) == "How loud is w_t?"
    assert document.pformat() == before


def test_a_description_ends_with_a_sentence_or_with_a_whole_word():
    assert site_pages.described(page("This is a sentence. " * 40)).endswith("sentence.")
    cut = site_pages.described(page("word " * 200))
    assert cut.endswith(" word…")
    assert len(cut) <= 300


def test_a_page_without_a_paragraph_has_no_description():
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


def test_words_are_indexed_without_accents_and_compounds_as_two():
    split = site_pages.FoldedEnglish({}).split
    assert split("Rényi's Waterfilling, water-filling") == ["Renyi", "s", "water", "filling", "water", "filling"]


MAP = """
.. |br| raw:: html

   <br>

.. list-table::

   * - Equation 30\\ |br|\\ *the problem of a round*
     - code
   * - Equations 4–6
     - code
   * - Assumption A1
     - code
   * - Something else
     - code
"""


def items(docname):
    """The entries of a page that has the table, each with its target, and the page."""
    document, entries = publish_doctree(MAP), {}

    def process_doc(env, docname, document):
        for node in document.findall(addnodes.index):
            entries.update((name, target) for _, name, target, *_ in node["entries"])

    env = SimpleNamespace(docname=docname, get_domain=lambda name: SimpleNamespace(process_doc=process_doc))
    site_pages.index_items(SimpleNamespace(env=env), document)
    return entries, document


def test_every_item_of_the_paper_map_is_in_the_index_and_a_range_with_each_number():
    entries, document = items("book/paper-map")
    assert set(entries) == {"Equation 30", "Equation 4", "Equation 5", "Equation 6", "Assumption A1"}
    named = {name for row in document.findall(nodes.row) for name in row["ids"]}
    assert set(entries.values()) == named


def test_tables_of_other_pages_are_left_alone():
    assert items("book/notation")[0] == {}


def test_a_theorem_gets_one_permanent_link_however_often_a_page_is_put_right():
    once = site_pages.put_right(THEOREM)
    assert once.count('<a class="headerlink" href="#thm-a" title="Link to this theorem">#</a></p>') == 1
    assert site_pages.put_right(once) == once


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<th class="blank" >&nbsp;</th>', '<td class="blank" ></td>'),
        ("<th></th><th>nu</th>", "<td></td><th>nu</th>"),
        ('<thead><tr><th class="a"> </th>', '<thead><tr><td class="a"></td>'),
        ('<div class="proof admonition" id="proof">', '<div class="proof admonition">'),
        ('<section class="theorem-content" id="proof-content">', '<section class="theorem-content">'),
        ('<summary aria-label="Toggle hidden content">', "<summary>"),
        ('<a>\n<script defer src="../_static/scripts/fontawesome.js?digest=1"></script>', "<a>"),
    ],
)
def test_marks_are_put_right(before, after):
    assert site_pages.put_right(before) == after


def test_only_the_page_that_searches_loads_the_index_of_all_words():
    scripts = '<script src="_static/searchtools.js"></script>\n<script src="searchindex.js"></script>'
    assert "<script" not in site_pages.put_right(scripts)
    kept = site_pages.put_right(scripts, is_search=True)
    assert 'src="searchindex.js"' in kept
    assert kept.index("SHOW_SEARCH_SUMMARY = false") < kept.index("searchtools.js")


def test_fields_of_named_tuples_lose_the_words_that_say_nothing_and_no_others(monkeypatch):
    pair = namedtuple("pair", ["low", "high"])
    pair.high.__doc__ = "The upper end."
    monkeypatch.setattr(errors, "pair", pair, raising=False)
    monkeypatch.setattr(api_pages, "walk", lambda root: [SimpleNamespace(name="adascale.errors")])
    api_pages.without_aliases(None)
    assert (pair.low.__doc__, pair.high.__doc__) == ("", "The upper end.")


def test_the_general_index_has_letters_for_their_names():
    assert site_pages.with_letters(r"<b>noise allowance, \nu</b> \unknown") == r"<b>noise allowance, ν</b> \unknown"
