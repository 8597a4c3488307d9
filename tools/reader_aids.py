"""A Sphinx extension: what helps a reader of a chapter to choose and to practise.

``{opener}`` opens a chapter: what one can do after it, what one needs, and how long it takes, which is computed.
``{exercise} Title`` asks something; its solution follows in a ``{dropdown} Solution`` and a cell tagged ``hide-cell``.
"""

from math import ceil
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

WORDS_A_MINUTE = 200
MINUTES_A_FORMULA = 0.25


class Box(SphinxDirective):
    """A titled box of its own kind."""

    has_content = True
    kind = ""

    def box(self, title: str) -> nodes.admonition:
        titles, messages = self.state.inline_text(title, self.lineno)
        box = nodes.admonition("", nodes.title(title, "", *titles), *messages, classes=[self.kind])
        self.state.nested_parse(self.content, self.content_offset, box)
        return box


class Opener(Box):
    """What a chapter gives: the content lists what one can do after it; ``needs`` says what one needs before."""

    kind = "opener"
    option_spec: ClassVar = {"needs": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        box = self.box("After this chapter you can")
        needs, messages = self.state.inline_text(self.options["needs"], self.lineno)
        box += nodes.paragraph("", "", nodes.strong("", "You need "), *needs, *messages)
        box += nodes.paragraph("", "", nodes.strong("", "Reading takes "), nodes.inline("", "", classes=["minutes"]))
        return [box]


class Exercise(Box):
    """A question to the reader."""

    kind = "exercise"
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        return [self.box(f"Exercise. {self.arguments[0]}")]


def minutes(document: nodes.document) -> int:
    """How long a page takes at 200 words and four displayed formulas a minute, in steps of five."""
    words = sum(len(each.astext().split()) for each in document.findall(nodes.paragraph))
    formulas = sum(1 for _ in document.findall(nodes.math_block))
    return 5 * ceil((words / WORDS_A_MINUTE + formulas * MINUTES_A_FORMULA) / 5)


def fill_in_minutes(app, document):
    for place in document.findall(lambda node: isinstance(node, nodes.inline) and "minutes" in node["classes"]):
        place += nodes.Text(f"about {minutes(document)} minutes.")


def setup(app):
    app.add_directive("opener", Opener)
    app.add_directive("exercise", Exercise)
    app.connect("doctree-read", fill_in_minutes)
    return {"parallel_read_safe": True}
