"""A Sphinx extension: what was executed or committed, on a page.

A figure is SVG, with SVG, PNG and CSV to download in a line under it, from the outputs of the notebook
(:mod:`companion.figures.files`); a picture that has none stays as it is.  The download button of a chapter has its
``.ipynb``.  ``{committed} FILE.csv`` shows the columns of a table that its lines name, as ``column: heading``.
"""

import csv
import re
import shutil
from base64 import b64decode
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import nbformat
from docutils import nodes
from jupyter_cache import get_cache
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from companion.figures.files import KEY, LARGE, unpacked
from companion.formatting import number

DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


def executed(notebook: Path, cache: str) -> nbformat.NotebookNode:
    """Return what was executed for a page: myst-nb writes it without the outputs that come from Jupyter's cache."""
    found = nbformat.read(notebook, as_version=4)
    if not any(cell.get("outputs") for cell in found.cells):
        with suppress(KeyError):
            _, found = get_cache(cache).merge_match_into_notebook(found)
    return found


def stored_files(notebook: nbformat.NotebookNode) -> dict[str, dict[str, str]]:
    """Return SVG and CSV of each figure of an executed notebook, by the name that myst-nb gives to its picture."""
    found = {}
    for output in (
        output for cell in notebook.cells for output in cell.get("outputs", [])
    ):
        if KEY in output.get("metadata", {}):
            picture = b64decode(output["data"]["image/png"])
            found[f"{sha256(picture).hexdigest()}.png"] = unpacked(
                output["metadata"][KEY]
            )
    return found


class FigureFiles(SphinxTransform):
    """Put the SVG of each figure next to its PNG, and under the figure a line with its files."""

    default_priority = (
        300  # before the images and the downloads of a page are collected
    )

    def apply(self) -> None:
        page = Path(self.env.doc2path(self.env.docname))
        notebook = (
            Path(self.app.outdir).parent
            / "jupyter_execute"
            / f"{self.env.docname}.ipynb"
        )
        if not notebook.exists():
            return
        files = stored_files(
            executed(notebook, self.env.mystnb_config.execution_cache_path)
        )
        kinds = (
            node
            for node in self.document.findall(nodes.container)
            if node.get("mime_type") == "image/png"
        )
        pictures = [
            (kind.parent, image)
            for kind in kinds
            for image in kind.findall(nodes.image)
        ]
        names = set()
        for count, (bundle, image) in enumerate(pictures, 1):
            picture = Path(self.env.relfn2path(image["uri"])[1])
            if picture.name in files:
                name = (bundle.parent.get("names") or [f"{page.stem}-{count}"])[0]
                name = (
                    f"{name}-{count}" if name in names else name
                )  # a cell with two figures has one name
                names.add(name)
                self.offer(name, files[picture.name], picture, bundle, image)

    def offer(self, name, texts, picture, bundle, image) -> None:
        """Write the files of a figure beside its picture, show its SVG, and add the line that has them."""
        shutil.copyfile(picture, picture.with_name(f"{name}.png"))
        for kind, text in texts.items():
            picture.with_name(f"{name}.{kind}").write_text(text)
        uris = {
            kind: str(Path(image["uri"]).with_name(f"{name}.{kind}"))
            for kind in ("svg", "png", "csv")
        }
        if len(texts["svg"]) <= LARGE:
            drawn = nodes.image(**{**image.attributes, "uri": uris["svg"]})
            bundle.insert(0, nodes.container("", drawn, mime_type="image/svg+xml"))
        line = nodes.paragraph("", "Download: ", classes=["figure-files"])
        for kind, uri in uris.items():
            link = addnodes.download_reference(
                "", kind.upper(), reftarget=uri, classes=["download"]
            )
            line += [link, nodes.Text(" ")]
        figure = bundle.parent
        place = (
            len(figure.children)
            if isinstance(figure, nodes.figure)
            else figure.index(bundle) + 1
        )
        figure.insert(place, addnodes.only("", line, expr="html"))


def shown(column, text):
    """A committed number for a reader, of two digits, durations with their unit; and a data set by its name."""
    if not text or not re.fullmatch(r"[\d.]+(e[+-]?\d+)?", text):
        return DATA.get(text, text) or "–"
    value = float(text)
    if "seconds" in column:
        unit, size = next(
            ((u, s) for u, s in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)) if value >= s),
            ("µs", 1e-6),
        )
        return f"{number(value / size)}\N{NO-BREAK SPACE}{unit}"
    return number(
        value, 1 if re.fullmatch(r"\de.*", text) else 2
    )  # an error is committed with one


class Committed(SphinxDirective):
    """Columns of a committed table."""

    required_arguments = 1
    has_content = True

    def run(self):
        _, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(path)
        columns = dict(line.split(": ", 1) for line in self.content)
        with open(path, newline="") as file:
            rows = [
                [shown(column, row[column]) for column in columns]
                for row in csv.DictReader(file)
            ]
        lines = [columns.values(), ["---"] * len(columns), *rows]
        return self.parse_text_to_nodes(
            "\n".join(f"| {' | '.join(line)} |" for line in lines)
        )


def offer_notebook(app, pagename, templatename, context, doctree):
    """Hand the notebook to the theme's download button, copied into ``_sources``."""
    notebook = Path(app.srcdir) / f"{pagename}.ipynb"
    if app.builder.format == "html" and notebook.exists():
        target = Path(app.outdir) / "_sources" / f"{pagename}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(notebook, target)
        context["ipynb_source"] = f"{pagename}.ipynb"


def setup(app):
    app.add_transform(FigureFiles)
    app.add_directive("committed", Committed)
    app.connect(
        "html-page-context", offer_notebook, priority=400
    )  # the theme makes its buttons at 501
    return {"parallel_read_safe": True, "parallel_write_safe": True}
