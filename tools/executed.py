"""A Sphinx extension: what the execution of the chapters leaves for a reader.

The download button of a chapter offers the executed ``.ipynb`` beside it, too, copied into ``_sources``.
``{executed} chapters`` is a table of the chapters with their seconds, ``{executed} versions`` one of what ran them.
``{committed} FILE.csv`` is a committed table with the columns that its lines name, as ``column: what a reader sees``.
"""

import csv
import platform
import re
import shutil
from importlib.metadata import version
from pathlib import Path

import jupytext
from docutils import nodes
from docutils.parsers.rst import directives
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

from companion.formatting import number

PACKAGES = ["adascale", "numpy", "scipy", "numba", "pandas", "torch", "opacus", "cvxpy", "matplotlib", "jupyter-book"]

DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


class Times(nodes.General, nodes.Element):
    """Where the chapters' times will stand, once all are executed."""


def table(heads, rows):
    """A table of rows of nodes or texts."""
    built = nodes.table(classes=["colwidths-auto"])
    group = nodes.tgroup(cols=len(heads))
    group += [nodes.colspec(colwidth=1) for _ in heads]
    parts = nodes.thead(), nodes.tbody()
    for part, each in ((parts[0], [heads]), (parts[1], rows)):
        for row in each:
            line = nodes.row()
            for place, content in enumerate(row):
                shown = nodes.Text(content) if isinstance(content, str) else content
                classes = ["text-right", "seconds"] if heads[place] == "seconds" else []
                line += nodes.entry("", nodes.paragraph("", "", shown), classes=classes)
            part += line
    group += parts
    built += group
    return built


def topics(source, results):
    """The folders of ``results/`` that the cells of a chapter read."""
    cells = jupytext.read(source, fmt="md:myst").cells
    lines = [line for cell in cells if cell.cell_type == "code" for line in cell.source.splitlines()]
    read = "\n".join(line for line in lines if "results" in line.lower())
    names = sorted(path.name for path in results.iterdir() if path.is_dir())
    return [name for name in names if re.search(rf"""["'/]{re.escape(name)}["'/]""", read)]


class Executed(SphinxDirective):
    """``chapters`` or ``versions``."""

    required_arguments = 1

    def run(self):
        what = directives.choice(self.arguments[0], ("chapters", "versions"))
        if what == "chapters":
            return [Times()]
        ran = f"{platform.system()}, {platform.machine()}"
        rows = [["Python", platform.python_version()], ["system", ran], *([name, version(name)] for name in PACKAGES)]
        return [table(["what", "version"], rows)]


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
        return [table(list(columns.values()), rows)]


class FillInTimes(SphinxPostTransform):
    """The table of the chapters, in the order of the contents."""

    default_priority = 8

    def run(self, **kwargs):
        for place in self.document.findall(Times):
            rows, root = [], Path(self.app.srcdir)
            known = NbMetadataCollector.get_doc_data(self.env)
            for name in self.env.toctree_includes[self.config.root_doc]:
                if not (ran := known[name].get("exec_data")):
                    continue
                title = self.env.titles[name].astext()
                link = make_refnode(self.app.builder, self.env.docname, name, None, nodes.Text(title))
                read = ", ".join(topics(root / f"{name}.md", root / "results"))
                rows.append([link, read or "none", "" if ran["runtime"] is None else f"{ran['runtime']:.0f}"])
            total = sum(int(row[-1] or 0) for row in rows)
            rows.append([nodes.strong("", "all chapters"), "", f"{total}"])
            place.replace_self(table(["chapter", "committed results that it reads", "seconds"], rows))


def offer_notebook(app, pagename, templatename, context, doctree):
    """Hand the notebook to the theme's download button."""
    notebook = Path(app.srcdir) / f"{pagename}.ipynb"
    if app.builder.format == "html" and notebook.exists():
        target = Path(app.outdir) / "_sources" / f"{pagename}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(notebook, target)
        context["ipynb_source"] = f"{pagename}.ipynb"


def setup(app):
    app.add_node(Times)
    app.add_directive("executed", Executed)
    app.add_directive("committed", Committed)
    app.add_post_transform(FillInTimes)
    app.connect("html-page-context", offer_notebook, priority=400)  # the theme makes its buttons at 501
    return {"parallel_read_safe": True, "parallel_write_safe": True}
