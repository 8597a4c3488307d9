"""Execute chapters and write the .ipynb beside each: ``python tools/notebooks.py notebooks/01_system_model.md ...``

The same chapter gives the same file: what differs between two runs or two machines (times, the interpreter's version)
is left out.  Jupyter knows neither ``{glue:text}`` nor ``{eq}``: numbers in prose are filled in, and what is MyST
becomes plain Markdown (``plain_markdown.py``).  A first cell makes the notebook run where there is no repository.  With
``--keep-outputs`` nothing is executed: the prose alone has changed, and outputs stay as stored.
"""

import argparse
import os
from ast import literal_eval
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import jupytext
import nbformat
import yaml
from nbclient import NotebookClient
from plain_markdown import Chapter, places, references

from adascale.files import write_atomically
from companion.figures.files import KEY, unpacked

ROOT = Path(__file__).resolve().parents[1]
GROUND = 'style="background: white"'  # where the README is dark, too
INSTALL = """\
# Numbers in the text are those of the stored run; what a cell prints is of yours.
# For a notebook away from its repository, as in Colab; beside it, this does nothing.
import importlib.util

if importlib.util.find_spec("companion") is None:
{how}
from companion import results

results.stand_in()"""
FROM_WHEEL = """\
    from glob import glob

    library, companion = sorted(glob("adascale*.whl"))  # two wheels, to be put beside this notebook before
    %pip install --quiet "{library}[book]" {companion}
"""
FROM_REPOSITORY = """\
    %pip install --quiet "adascale[book] @ git+{url}" "adascale-companion @ git+{url}#subdirectory=companion"
"""
# What the book hides or folds, JupyterLab folds, except for the setup.
FOLDED = {"source": ("cell", "input"), "outputs": ("cell", "output")}


@cache
def install() -> nbformat.NotebookNode:
    """Return the first cell: ``repository.url`` of the book's settings, or else a wheel, brings the package."""
    url = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]["url"]
    how = FROM_REPOSITORY.format(url=url) if url else FROM_WHEEL
    metadata = {"jupyter": {"source_hidden": True}}
    source = INSTALL.format(how=how)
    return nbformat.v4.new_code_cell(source, id="install", metadata=metadata)


def convert(source: Path) -> nbformat.NotebookNode:
    """Read a MyST chapter as a notebook without outputs."""
    notebook = jupytext.read(source)
    del notebook.metadata["jupytext"]
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        tags = cell.metadata.get("tags", [])
        for part, kinds in FOLDED.items():
            folding = {
                f"{verb}-{kind}" for verb in ("hide", "remove") for kind in kinds
            }
            if folding & {*tags} and "setup" not in tags:
                cell.metadata.setdefault("jupyter", {})[f"{part}_hidden"] = True
    kinds = [cell.cell_type for cell in notebook.cells]
    notebook.cells.insert(kinds.index("code"), install())
    return notebook


def glued(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Return what the stored outputs of a notebook have for each name that its cells glue."""
    values = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if glue := output.get("metadata", {}).get("scrapbook"):
                shown = output.data[glue["mime_prefix"] + "text/plain"]
                values[glue["name"]] = str(literal_eval(shown))
    return values


def fill(
    notebook: nbformat.NotebookNode, values: dict[str, str], source: Path
) -> nbformat.NotebookNode:
    """Make a chapter readable as it is, with the values of ``{glue:text}``."""
    chapter = Chapter(f"notebooks/{source.stem}", values)
    cells = []
    new_cell = nbformat.v4.new_markdown_cell
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            cell.source = chapter.prose(cell.source)
        elif figure := cell.metadata.get("mystnb", {}).get("figure"):
            text = f"**{places()[figure['name']].text}.** {figure['caption']}"
            cells.append(new_cell(chapter.prose(text), id=f"caption-{cell.id}"))
    if chapter.cited:
        cells.append(new_cell(references(chapter.cited), id="references"))
    notebook.cells = cells
    return notebook


def write(notebook: nbformat.NotebookNode, source: Path) -> Path:
    """Fill in the numbers, write the .ipynb next to the chapter, and the picture of the cell tagged ``headline``."""
    fill(notebook, glued(notebook), source)
    for cell in notebook.cells:
        if "headline" in cell.metadata.get("tags", []):
            (output,) = (each for each in cell.outputs if "data" in each)
            svg = unpacked(output.metadata[KEY])["svg"]
            picture = ROOT / "book" / "_static" / "headline.svg"
            write_atomically(picture, svg.replace("<svg ", f"<svg {GROUND} ", 1))
    nbformat.validate(notebook)
    target = source.with_suffix(".ipynb")
    write_atomically(target, nbformat.writes(notebook).rstrip("\n") + "\n")
    return target


def execute(source: Path) -> Path:
    """Execute one chapter where it is, as JupyterLab does, and write its .ipynb."""
    notebook = convert(source)
    metadata = notebook.metadata.copy()
    NotebookClient(
        notebook,
        timeout=600,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(source.parent)}},
    ).execute()
    notebook.metadata = metadata
    return write(notebook, source)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Return the code cells of a notebook, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def keep_outputs(source: Path) -> Path:
    """Write the .ipynb of a chapter of which the prose alone has changed; ``ValueError`` if a code cell has."""
    notebook = convert(source)
    stored = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    new, old = code_cells(notebook), code_cells(stored)
    if [cell.source for cell in new] != [cell.source for cell in old]:
        raise ValueError(f"{source}: its code cells have changed; execute the chapter")
    for cell, before in zip(new, old, strict=True):
        cell.outputs, cell.execution_count = before.outputs, before.execution_count
    return write(notebook, source)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="+", type=Path, metavar="CHAPTER.md")
    parser.add_argument("--keep-outputs", action="store_true", help="execute nothing")
    options = parser.parse_args()
    work = keep_outputs if options.keep_outputs else execute
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for path in pool.map(work, options.chapters):
            print(path, flush=True)
