"""The boxes that open a chapter and that ask: what is in them, and how the reading time is found."""

import sys
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import directives

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
import reader_aids  # noqa: E402


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """The directives, known to docutils while a test runs."""
    monkeypatch.setitem(directives._directives, "opener", reader_aids.Opener)
    monkeypatch.setitem(directives._directives, "exercise", reader_aids.Exercise)


def read(text):
    return publish_doctree(text, settings_overrides={"report_level": 2, "halt_level": 2})


OPENER = """
.. opener::
   :needs: the *normal* distribution.

   * compute a noise multiplier;
   * say to whom a round leaks.
"""


def test_an_opener_says_what_one_can_do_what_one_needs_and_how_long_it_takes():
    document = read(OPENER)
    reader_aids.fill_in_minutes(None, document)
    (box,) = document.findall(nodes.admonition)
    assert box["classes"] == ["opener"]
    assert box[0].astext() == "After this chapter you can"
    assert [item.astext() for item in box.findall(nodes.list_item)] == [
        "compute a noise multiplier;",
        "say to whom a round leaks.",
    ]
    assert [each.astext() for each in box.children[2:]] == [
        "You need the normal distribution.",
        "Reading takes about 5 minutes.",
    ]
    assert list(box.findall(nodes.emphasis))  # what is needed may have links and emphasis


def test_an_exercise_has_its_title_and_its_question():
    (box,) = read(".. exercise:: The deepest *fade*\n\n   Which round is it?\n").findall(nodes.admonition)
    assert box["classes"] == ["exercise"]
    assert box[0].astext() == "Exercise. The deepest fade"
    assert box[1].astext() == "Which round is it?"


@pytest.mark.parametrize(
    ("words", "formulas", "expected"), [(10, 0, 5), (1000, 0, 5), (1001, 0, 10), (2000, 20, 15), (2000, 21, 20)]
)
def test_reading_takes_a_minute_for_200_words_or_four_formulas_in_steps_of_five(words, formulas, expected):
    text = " ".join(["word"] * words) + "\n\n" + ".. math:: a = b\n\n" * formulas
    assert reader_aids.minutes(read(text)) == expected


def test_code_is_not_read_word_by_word():
    assert reader_aids.minutes(read("Short.\n\n::\n\n" + "   x = 1\n" * 5000)) == 5


def test_a_page_without_an_opener_stays_as_it_is():
    document = read("A page.\n\nOf two paragraphs.\n")
    before = document.pformat()
    reader_aids.fill_in_minutes(None, document)
    assert document.pformat() == before
