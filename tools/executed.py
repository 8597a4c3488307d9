"""A Sphinx extension: what was executed or committed, on a page.

A figure is SVG, with SVG, PNG and CSV to download in a line under it, from the outputs of the notebook
(:mod:`companion.figures.files`); a picture that has none stays as it is.  The download button of a chapter has its
``.ipynb``.  ``{committed} FILE.csv`` shows the columns of a table that its lines name, as ``column: heading``.
``{gallery} A`` shows small the figures of all chapters whose files begin with A, each with its finding.
"""

import posixpath
import re
import shutil
from base64 import b64decode
from contextlib import suppress
from hashlib import sha256
from html import escape
from pathlib import Path

import nbformat
import pandas as pd
from docutils import nodes
from jupyter_cache import get_cache
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from companion.figures.files import KEY, LARGE, unpacked
from companion.formatting import number

DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
UNITS = {"s": 1, "ms": 1e-3, "µs": 1e-6}


def executed(notebook: Path, cache: str) -> nbformat.NotebookNode:
    """Return what was executed for a page: myst-nb writes it without the outputs that come from Jupyter's cache."""
    written = nbformat.read(notebook, as_version=4)
    if not any(cell.get("outputs") for cell in written.cells):
        with suppress(KeyError):
            return get_cache(cache).merge_match_into_notebook(written)[1]
    return written


def stored_files(notebook: nbformat.NotebookNode) -> dict[str, tuple[str, dict]]:
    """Return the finding of each figure, and its SVG and CSV, by the name that myst-nb gives to its picture."""
    files = {}
    for cell in notebook.cells:
        finding = re.search(r'\bsay\("(.*)"\)', cell.source)
        for output in cell.get("outputs", []):
            if KEY in output.get("metadata", {}):
                picture = sha256(b64decode(output["data"]["image/png"]))
                texts = unpacked(output["metadata"][KEY])
                files[f"{picture.hexdigest()}.png"] = finding and finding[1], texts
    return files


class FigureFiles(SphinxTransform):
    """Put the SVG of each figure next to its PNG, and under the figure a line with its files."""

    default_priority = 300  # before the images and downloads of a page are collected

    def apply(self) -> None:
        name = self.env.docname
        build = Path(self.app.outdir).parent
        notebook = build / "jupyter_execute" / f"{name}.ipynb"
        if not notebook.exists():
            return
        cache = self.env.mystnb_config.execution_cache_path
        files = stored_files(executed(notebook, cache))
        names = set()
        bundles = (
            node.parent
            for node in list(self.document.findall(nodes.container))
            if node.get("mime_type") == "image/png"
        )
        for count, bundle in enumerate(bundles, 1):
            image = next(bundle.findall(nodes.image))
            picture = Path(self.env.relfn2path(image["uri"])[1])
            if picture.name in files:
                default = f"{Path(name).name}-{count}"
                title = (bundle.parent.get("names") or [default])[0]
                if title in names:  # of a cell with two figures
                    title = f"{title}-{count}"
                names.add(title)
                finding, texts = files[picture.name]
                bundle.parent["finding"] = finding
                self.offer(title, texts, picture, bundle, image)

    def offer(self, title, texts, picture, bundle, image) -> None:
        """Write the files of a figure beside its picture, show its SVG, and add the line that has them."""
        shutil.copyfile(picture, picture.with_name(f"{title}.png"))
        for kind, text in texts.items():
            picture.with_name(f"{title}.{kind}").write_text(text)
        line = nodes.paragraph("", "Download: ", classes=["figure-files"])
        for kind in ("svg", "png", "csv"):
            uri = str(Path(image["uri"]).with_name(f"{title}.{kind}"))
            line += addnodes.download_reference(
                "", kind.upper(), reftarget=uri, classes=["download"]
            )
            line += nodes.Text(" ")
            if kind == "svg" and len(texts["svg"]) <= LARGE:
                drawing = nodes.image(**image.attributes | {"uri": uri})
                drawing_of = nodes.container("", drawing, mime_type="image/svg+xml")
                bundle.insert(0, drawing_of)
        figure = bundle.parent
        is_figure = isinstance(figure, nodes.figure)
        place = len(figure) if is_figure else figure.index(bundle) + 1
        figure.insert(place, addnodes.only("", line, expr="html"))


def shown(column, text):
    """Return a committed number for a reader, of two digits, durations with their unit; or a data set's name."""
    if not re.fullmatch(r"[\d.]+(e[+-]?\d+)?", text):
        return DATA.get(text, text) or "–"
    value = float(text)
    if "seconds" in column:
        unit = next((unit for unit, size in UNITS.items() if value >= size), "µs")
        return f"{number(value / UNITS[unit])}\N{NO-BREAK SPACE}{unit}"
    digits = 1 if re.fullmatch(r"\de.*", text) else 2  # an error is committed with one
    return number(value, digits)


class Committed(SphinxDirective):
    """Columns of a committed table."""

    required_arguments = 1
    has_content = True

    def run(self):
        _, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(path)
        columns = dict(line.split(": ", 1) for line in self.content)
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        lines = [columns.values(), ["---"] * len(columns)]
        for row in table[[*columns]].itertuples(index=False):
            lines.append(map(shown, columns, row))
        text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return self.parse_text_to_nodes(text)


class gallery(nodes.Element):
    """Where a gallery will be, of the chapters whose files begin with ``of``."""


class Gallery(SphinxDirective):
    """Figures of chapters, small."""

    required_arguments = 1

    def run(self):
        return [gallery(of=self.arguments[0])]


def fill_galleries(app, doctree, docname):
    """Show each figure by the file of its own page, over its number and its finding."""
    env = app.env
    for place in [*doctree.findall(gallery)]:
        items = []
        for page in env.toctree_includes[env.config.root_doc]:
            if re.match(f"notebooks/{place['of']}", page):
                for figure in env.get_doctree(page).findall(nodes.figure):
                    items.append(thumbnail(app, docname, page, figure))
        text = f'<ul class="gallery">{"".join(items)}</ul>'
        place.replace_self(nodes.raw("", text, format="html"))


def thumbnail(app, docname, page, figure):
    """Return a figure as an item of a list that leads to it."""
    numbers = app.env.toc_fignumbers[page]["figure"]
    label = next(iter(numbers.keys() & {*figure["ids"]}))
    image = next(figure.findall(nodes.image))
    picture = posixpath.join("_images", app.env.images[image["uri"]][1])
    src = posixpath.relpath(picture, posixpath.dirname(docname))
    address = f"{app.builder.get_relative_uri(docname, page)}#{label}"
    finding = figure.get("finding") or next(figure.findall(nodes.caption)).astext()
    number = ".".join(map(str, numbers[label]))
    return (
        f'<li><a href="{address}"><img loading="lazy" src="{src}" alt="{escape(image["alt"])}">'
        f"<b>{number}</b> {escape(finding)}</a></li>"
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
    app.add_node(gallery)
    app.add_directive("gallery", Gallery)
    app.connect("doctree-resolved", fill_galleries)
    # the theme makes its buttons at 501
    app.connect("html-page-context", offer_notebook, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
