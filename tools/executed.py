"""A Sphinx extension: what was executed or committed, on a page.

A figure is SVG, with SVG, PNG and CSV to download in a line under it, from the metadata of its output
(:mod:`companion.figures.files`); a picture that has none stays as it is.  The download button of a chapter has its
``.ipynb``.  ``{committed} FILE.csv`` shows the columns of a table that its lines name, as ``column: heading``.
``{gallery} A`` shows small the figures of all chapters whose files begin with A, each with its finding.
"""

import re
import shutil
from binascii import a2b_base64
from html import escape
from pathlib import Path

import pandas as pd
from docutils import nodes
from myst_nb.core.render import NbElementRenderer
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from companion.figures.files import KEY, unpacked
from companion.formatting import number

DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
UNITS = {"s": 1, "ms": 1e-3, "µs": 1e-6}


def with_files(render_image):
    """Return how myst-nb renders a picture: a figure as SVG, over a line with its files."""

    def render(self, data):
        pictures = render_image(self, data)
        if KEY not in data.output_metadata:
            return pictures
        title = data.cell_metadata["mystnb"]["figure"]["name"]
        files = {
            kind: text.encode()
            for kind, text in unpacked(data.output_metadata[KEY]).items()
        }
        files["png"] = a2b_base64(data.content)
        line = nodes.paragraph("", "Download: ", classes=["figure-files"])
        for kind in ("svg", "png", "csv"):
            uri = self.write_file([f"{title}.{kind}"], files[kind], overwrite=True)
            line += addnodes.download_reference(
                "", kind.upper(), reftarget=uri, classes=["download"]
            )
            line += nodes.Text(" ")
            if kind == "svg":
                pictures[0]["uri"] = uri
        source = self.renderer.nb_client.notebook.cells[data.cell_index].source
        if finding := re.search(r'\bsay\("(.*)"\)', source):
            pictures[0]["finding"] = finding[1]
        return [*pictures, line]

    return render


def files_last(app, doctree):
    """Put the line with the files of a figure under its caption."""
    for figure in doctree.findall(nodes.figure):
        for line in [*figure.findall(nodes.paragraph)]:
            if "figure-files" in line["classes"]:
                line.parent.remove(line)
                figure += line


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
        items = [
            thumbnail(env, page, figure)
            for page in env.toctree_includes[env.config.root_doc]
            if re.match(f"notebooks/{place['of']}", page)
            for figure in env.get_doctree(page).findall(nodes.figure)
        ]
        text = f'<ul class="gallery">{"".join(items)}</ul>'
        place.replace_self(nodes.raw("", text, format="html"))


def thumbnail(env, page, figure):
    """Return a figure as an item of a list that leads to it, for a page in a folder beside the chapters'."""
    numbers = env.toc_fignumbers[page]["figure"]
    label = next(iter(numbers.keys() & {*figure["ids"]}))
    image = next(figure.findall(nodes.image))
    picture = env.images[image["uri"]][1]
    finding = image.get("finding") or next(figure.findall(nodes.caption)).astext()
    number = ".".join(map(str, numbers[label]))
    return (
        f'<li><a href="../{page}.html#{label}">'
        f'<img loading="lazy" src="../_images/{picture}" alt="{escape(image["alt"])}">'
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
    NbElementRenderer.render_image = with_files(NbElementRenderer.render_image)
    app.connect("doctree-read", files_last)
    app.add_directive("committed", Committed)
    app.add_node(gallery)
    app.add_directive("gallery", Gallery)
    app.connect("doctree-resolved", fill_galleries)
    # the theme makes its buttons at 501
    app.connect("html-page-context", offer_notebook, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
