"""A Sphinx extension: the executed ``.ipynb`` of a chapter in its download button, and tables of committed results.

``{committed} FILE.csv`` shows the columns that its lines name, as ``column: heading``.
"""

import csv
import re
import shutil
from pathlib import Path

from sphinx.util.docutils import SphinxDirective

from companion.formatting import number

DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


def shown(column, text):
    """A committed number for a reader, of two digits, durations with their unit; and a data set by its name."""
    if not text or not re.fullmatch(r"[\d.]+(e[+-]?\d+)?", text):
        return DATA.get(text, text) or "–"
    value = float(text)
    if "seconds" in column:
        unit, size = next(((u, s) for u, s in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)) if value >= s), ("µs", 1e-6))
        return f"{number(value / size)}\N{NO-BREAK SPACE}{unit}"
    return number(value, 1 if re.fullmatch(r"\de.*", text) else 2)  # an error is committed with one


class Committed(SphinxDirective):
    """Columns of a committed table."""

    required_arguments = 1
    has_content = True

    def run(self):
        _, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(path)
        columns = dict(line.split(": ", 1) for line in self.content)
        with open(path, newline="") as file:
            rows = [[shown(column, row[column]) for column in columns] for row in csv.DictReader(file)]
        lines = [columns.values(), ["---"] * len(columns), *rows]
        return self.parse_text_to_nodes("\n".join(f"| {' | '.join(line)} |" for line in lines))


def offer_notebook(app, pagename, templatename, context, doctree):
    """Hand the notebook to the theme's download button, copied into ``_sources``."""
    notebook = Path(app.srcdir) / f"{pagename}.ipynb"
    if app.builder.format == "html" and notebook.exists():
        target = Path(app.outdir) / "_sources" / f"{pagename}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(notebook, target)
        context["ipynb_source"] = f"{pagename}.ipynb"


def setup(app):
    app.add_directive("committed", Committed)
    app.connect("html-page-context", offer_notebook, priority=400)  # the theme makes its buttons at 501
    return {"parallel_read_safe": True, "parallel_write_safe": True}
