"""A Sphinx extension: ``{exercise} Title`` asks the reader, with a ``{dropdown} Solution``; names number appendices.

A fold says what it holds: *Setup* by the tag of its cell, *Code of Fig. 5.1*, or the title of its section.
"""

import re

from docutils import nodes
from docutils.parsers.rst.directives.admonitions import Admonition
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles as Collector

BY_TAG = {"parameters": "Values to change", "own-policy": "A policy", "setup": "Setup"}


class Exercise(Admonition):
    """A box that asks the reader."""

    def run(self) -> list[nodes.Node]:
        self.arguments[0] = f"Exercise. {self.arguments[0]}"
        self.options["class"] = ["exercise"]
        return super().run()


def appendices_by_name(app):
    """Number A3_causal_proofs, and what is in it, A3 instead of by how many chapters come before."""
    by_place = Collector.assign_section_numbers

    def by_name(self, env):
        pages = by_place(self, env)
        for page, numbers in env.toc_secnumbers.items():
            if match := re.match(r"notebooks/(A\d+b?)_", page):
                for place, number in numbers.items():
                    numbers[place] = (match[1], *number[1:])
                title = env.titles[page]
                entries = env.tocs[page]
                for node in (title, *entries.findall(nodes.reference)):
                    node["secnumber"] = [match[1], *node["secnumber"][1:]]
        return pages

    Collector.assign_section_numbers = by_name


class NameFolds(SphinxPostTransform):
    """Name each fold of a cell that myst-nb has left unnamed."""

    # after myst-nb has made the folds
    default_priority = 200
    formats = ("html",)

    def run(self, **_) -> None:
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") == "cell_code":
                for fold in cell.findall(HideCodeCellNode):
                    if "code cell" in fold["prompt_show"]:
                        name = self.name_of(cell, fold)
                        fold["prompt_show"] = fold["prompt_hide"] = name

    def name_of(self, cell, fold) -> str:
        """Return what is in the fold, and of which figure or section it is."""
        for tag in cell["cell_metadata"].get("tags", ()):
            if tag in BY_TAG:
                is_import = tag == "setup" and "\nfrom myst_nb" in cell.astext()
                return "Imports" if is_import else BY_TAG[tag]
        if "above-input" in fold["classes"]:
            kind = "Code"
        else:
            kind = "Table" if any(fold.findall(is_table)) else "Output"
        numbers = self.env.toc_fignumbers.get(self.env.docname, {}).get("figure", {})
        for figure in cell.findall(nodes.figure):
            for label in numbers.keys() & {*figure["ids"]}:
                return f"{kind} of Fig. {'.'.join(map(str, numbers[label]))}"
        section = cell.parent
        while not isinstance(section, nodes.section):
            section = section.parent
        return f"{kind}: {section.next_node(nodes.title).astext()}"


def is_table(node) -> bool:
    """Return whether a node is a table, of the text or of an output."""
    is_raw = isinstance(node, nodes.raw)
    return isinstance(node, nodes.table) or (is_raw and "<table" in node.astext())


def setup(app):
    app.add_post_transform(NameFolds)
    app.add_directive("exercise", Exercise)
    app.connect("builder-inited", appendices_by_name)
    return {"parallel_read_safe": True}
