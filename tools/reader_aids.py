"""A Sphinx extension: ``{exercise} Title`` asks the reader; the solution follows in a ``{dropdown} Solution``."""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Exercise(SphinxDirective):
    """A box that asks the reader."""

    has_content, required_arguments, final_argument_whitespace = True, 1, True

    def run(self) -> list[nodes.Node]:
        titles, messages = self.state.inline_text(f"Exercise. {self.arguments[0]}", self.lineno)
        box = nodes.admonition("", nodes.title("", "", *titles), *messages, classes=["exercise"])
        self.state.nested_parse(self.content, self.content_offset, box)
        return [box]


def setup(app):
    app.add_directive("exercise", Exercise)
    return {"parallel_read_safe": True}
