"""A Sphinx extension: what helps a reader of a chapter to choose and to practise.

``{opener}`` opens a chapter: what one can do after it, what one needs, and how long it takes, which is computed.
``{exercise} Title`` asks something; its solution follows in a ``{dropdown} Solution`` and a cell tagged ``hide-cell``.
"""

from math import ceil
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

WORDS_PER_MINUTE = 200
FORMULAS_PER_MINUTE = 4


class Exercise(SphinxDirective):
    """A box that asks the reader."""

    has_content, required_arguments, final_argument_whitespace, kind = True, 1, True, "exercise"

    def run(self) -> list[nodes.Node]:
        return [self.box(f"Exercise. {self.arguments[0]}")]

    def box(self, title: str) -> nodes.admonition:
        titles, messages = self.state.inline_text(title, self.lineno)
        box = nodes.admonition("", nodes.title(title, "", *titles), *messages, classes=[self.kind])
        self.state.nested_parse(self.content, self.content_offset, box)
        return box


class Opener(Exercise):
    """What a chapter gives: the content lists what one can do after it; ``needs`` says what one needs before."""

    required_arguments, kind = 0, "opener"
    option_spec: ClassVar = {"needs": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        box = self.box("After this chapter you can")
        needs, messages = self.state.inline_text(self.options["needs"], self.lineno)
        box += nodes.paragraph("", "", nodes.strong("", "You need "), *needs, *messages)
        box += nodes.paragraph("", "", nodes.strong("", "Reading takes "), nodes.inline("", "", classes=["minutes"]))
        return [box]


def minutes(document: nodes.document) -> int:
    """Return how long a page takes at 200 words and four displayed formulas a minute, in steps of five."""
    words = sum(len(each.astext().split()) for each in document.findall(nodes.paragraph))
    formulas = len([*document.findall(nodes.math_block)])
    return 5 * ceil((words / WORDS_PER_MINUTE + formulas / FORMULAS_PER_MINUTE) / 5)


def fill_in_minutes(app, document):
    for place in document.findall(nodes.inline):
        if "minutes" in place["classes"]:
            place += nodes.Text(f"about {minutes(document)} minutes.")


def setup(app):
    app.add_directive("opener", Opener)
    app.add_directive("exercise", Exercise)
    app.connect("doctree-read", fill_in_minutes)
    return {"parallel_read_safe": True}
