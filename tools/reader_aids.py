"""A Sphinx extension: ``{exercise} Title`` asks the reader, with a ``{dropdown} Solution``; names number appendices."""

import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles as Collector


class Exercise(SphinxDirective):
    """A box that asks the reader."""

    has_content, required_arguments, final_argument_whitespace = True, 1, True

    def run(self) -> list[nodes.Node]:
        title = f"Exercise. {self.arguments[0]}"
        words, messages = self.state.inline_text(title, self.lineno)
        heading = nodes.title("", "", *words)
        box = nodes.admonition("", heading, *messages, classes=["exercise"])
        self.state.nested_parse(self.content, self.content_offset, box)
        return [box]


def appendices_by_name(app):
    """Number A3_causal_proofs, and what is in it, A3 instead of by how many chapters come before."""
    by_place = Collector.assign_section_numbers

    def by_name(self, env):
        pages = by_place(self, env)
        for page, numbers in env.toc_secnumbers.items():
            if match := re.match(r"notebooks/(A\d+b?)_", page):
                for place, number in numbers.items():
                    numbers[place] = (match[1], *number[1:])
                title, entries = env.titles[page], env.tocs[page]
                for node in (title, *entries.findall(nodes.reference)):
                    node["secnumber"] = [match[1], *node["secnumber"][1:]]
        return pages

    Collector.assign_section_numbers = by_name


def setup(app):
    app.add_directive("exercise", Exercise)
    app.connect("builder-inited", appendices_by_name)
    return {"parallel_read_safe": True}
