"""A Sphinx extension: a figure is SVG on its page, and has SVG, PNG and CSV to download in a line under it.

The files come from the outputs of the notebook (:mod:`companion.figures.files`); where one has none, such as a
picture, nothing is added.
"""

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

from companion.figures.files import KEY, LARGE, unpacked


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
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if KEY in output.get("metadata", {}):
            picture = b64decode(output["data"]["image/png"])
            found[f"{sha256(picture).hexdigest()}.png"] = unpacked(output["metadata"][KEY])
    return found


def pictures(document: nodes.document) -> list[tuple[nodes.container, nodes.image]]:
    """Return the bundles of outputs that have a PNG, with it."""
    kinds = (each for each in document.findall(nodes.container) if each.get("mime_type") == "image/png")
    return [(kind.parent, image) for kind in kinds for image in kind.findall(nodes.image)]


class FigureFiles(SphinxTransform):
    """Put the SVG of each figure next to its PNG, and under the figure a line with its files."""

    default_priority = 300  # before the images and the downloads of a page are collected

    def apply(self) -> None:
        page = Path(self.env.doc2path(self.env.docname))
        notebook = Path(self.app.outdir).parent / "jupyter_execute" / f"{self.env.docname}.ipynb"
        if not notebook.exists():
            return
        files, names = stored_files(executed(notebook, self.env.mystnb_config.execution_cache_path)), set()
        for number, (bundle, image) in enumerate(pictures(self.document), 1):
            picture = Path(self.env.relfn2path(image["uri"])[1])
            if picture.name not in files:
                continue
            figure, texts = bundle.parent, files[picture.name]
            name = figure["names"][0] if figure.get("names") else f"{page.stem}-{number}"
            name = name if name not in names else f"{name}-{number}"  # a cell with two figures has one name
            names.add(name)
            shutil.copyfile(picture, picture.with_name(f"{name}.png"))
            line = nodes.paragraph("", "Download: ", classes=["figure-files"])
            for kind in ("svg", "png", "csv"):
                uri = str(Path(image["uri"]).with_name(f"{name}.{kind}"))
                if kind in texts:
                    picture.with_name(f"{name}.{kind}").write_text(texts[kind])
                if kind == "svg" and len(texts["svg"]) <= LARGE:
                    drawn = nodes.image(**{**image.attributes, "uri": uri})
                    bundle.insert(0, nodes.container("", drawn, mime_type="image/svg+xml"))
                link = addnodes.download_reference("", kind.upper(), reftarget=uri, classes=["download"])
                line += [link, nodes.Text(" ")]
            at = len(figure.children) if isinstance(figure, nodes.figure) else figure.index(bundle) + 1
            figure.insert(at, addnodes.only("", line, expr="html"))


def setup(app):
    app.add_transform(FigureFiles)
    return {"parallel_read_safe": True}
