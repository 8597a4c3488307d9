"""The boxes that open a chapter and that ask: what is in them, and how the reading time is found."""

import sys
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import directives

sys.path.append(str(Path(__file__).parents[1] / "tools"))
import reader_aids


def read(text):
    return publish_doctree(text, settings_overrides={"report_level": 2, "halt_level": 2})


PAGE = """
.. opener::
   :needs: the *normal* distribution.

   * compute a noise multiplier;

.. exercise:: The deepest *fade*

   Which round is it?
"""


def test_boxes_have_their_title_their_text_and_the_minutes(monkeypatch):
    monkeypatch.setitem(directives._directives, "opener", reader_aids.Opener)
    monkeypatch.setitem(directives._directives, "exercise", reader_aids.Exercise)
    document = read(PAGE)
    reader_aids.fill_in_minutes(None, document)
    opener, exercise = ([each.astext() for each in box] for box in document.findall(nodes.admonition))
    assert opener[:2] == ["After this chapter you can", "compute a noise multiplier;"]
    assert opener[2:] == ["You need the normal distribution.", "Reading takes about 5 minutes."]
    assert exercise == ["Exercise. The deepest fade", "Which round is it?"]
    assert len(list(document.findall(nodes.emphasis))) == 2


@pytest.mark.parametrize(
    ("words", "formulas", "expected"), [(10, 0, 5), (1000, 0, 5), (1001, 0, 10), (2000, 20, 15), (2000, 21, 20)]
)
def test_reading_takes_a_minute_per_200_words_or_four_formulas(words, formulas, expected):
    code = "\n\nCode::\n\n" + "   x = 1\n" * 5000  # is not read word by word
    text = " ".join(["word"] * (words - 1)) + "\n\n" + ".. math:: a = b\n\n" * formulas + code
    assert reader_aids.minutes(read(text)) == expected
