"""Execute chapters and write the .ipynb beside each: ``python tools/notebooks.py notebooks/01_system_model.md ...``

The same chapter gives the same file: cell ids come from the cells of the chapter, and what differs between two runs or
two machines (times, the interpreter's version) is left out.  Jupyter knows neither ``{glue:text}`` nor ``{eq}``:
numbers in prose are filled in, and what is MyST becomes plain Markdown (``plain_markdown.py``).  A first cell makes the
notebook run where there is no repository.  With ``--keep-outputs`` nothing is executed: the prose alone has changed,
and outputs stay as stored.
"""

import os
import sys
from ast import literal_eval
from base64 import b64decode
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path

import jupytext
import nbformat
import yaml
from nbclient import NotebookClient

from adascale.cli.options import Parser
from adascale.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(
    str(ROOT / "tools")
)  # for whoever loads this file by its path, as tests do
from plain_markdown import Book, Chapter, figure_of, references  # noqa: E402

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
# What the book hides or folds, JupyterLab folds.
FOLDED = {
    "remove-cell": ("source", "outputs"),
    "hide-cell": ("source", "outputs"),
    "remove-input": ("source",),
    "hide-input": ("source",),
    "remove-output": ("outputs",),
    "hide-output": ("outputs",),
}


@cache
def book() -> Book:
    """The book of this repository."""
    return Book(ROOT)


@cache
def install() -> str:
    """The first cell: ``repository.url`` of the book's settings, or else a wheel, brings the package."""
    url = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]["url"]
    return INSTALL.format(how=FROM_REPOSITORY.format(url=url) if url else FROM_WHEEL)


def convert(source: Path) -> nbformat.NotebookNode:
    """Read a MyST chapter as a notebook without outputs."""
    notebook = jupytext.read(source)
    kernel = notebook.metadata["kernelspec"]
    notebook.metadata = {
        "kernelspec": {key: kernel[key] for key in ("display_name", "name")}
        | {"language": "python"},
        "language_info": {"name": "python"},
    }
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        digest = sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
        seen[digest] = seen.get(digest, 0) + 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
        folded = {
            part
            for tag in cell.metadata.get("tags", [])
            for part in FOLDED.get(tag, ())
        }
        if folded:
            cell.metadata["jupyter"] = {
                f"{part}_hidden": True for part in sorted(folded)
            }
    notebook.metadata["adascale"] = {"chapter": source.name}
    first = next(
        place for place, cell in enumerate(notebook.cells) if cell.cell_type == "code"
    )
    cell = nbformat.v4.new_code_cell(
        install(), id="install", metadata={"jupyter": {"source_hidden": True}}
    )
    notebook.cells.insert(first, cell)
    return notebook


def glued(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What the stored outputs of a notebook have for each name that its cells glue."""
    values = {}
    for output in (
        output for cell in notebook.cells for output in cell.get("outputs", [])
    ):
        if "scrapbook" in output.get("metadata", {}):
            glue = output.metadata["scrapbook"]
            shown = output.data[glue["mime_prefix"] + "text/plain"]
            values[glue["name"]] = literal_eval(shown) if shown[0] in "'\"" else shown
    return values


def fill(
    notebook: nbformat.NotebookNode, values: dict[str, str]
) -> nbformat.NotebookNode:
    """Make a chapter readable as it is, with the values of ``{glue:text}``; ``ValueError`` if one is missing."""
    chapter = Chapter(
        book(), ROOT / "notebooks" / notebook.metadata["adascale"]["chapter"], values
    )
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            cell.source = "\n".join(chapter.prose(cell.source.splitlines()))
        elif (figure := figure_of(cell))[0]:
            number = book().places.get(figure[1])
            caption = "\n".join(
                chapter.prose(
                    [f"**{number.text}.** {figure[0]}" if number else f"*{figure[0]}*"]
                )
            )
            cells.append(
                nbformat.v4.new_markdown_cell(caption, id=f"caption-{cell.id}")
            )
    if chapter.cited:
        cells.append(
            nbformat.v4.new_markdown_cell(
                references(book(), chapter.cited), id="references"
            )
        )
    notebook.cells = cells
    return notebook


def write(notebook: nbformat.NotebookNode, source: Path) -> Path:
    """Fill in the numbers, write the .ipynb next to the chapter, and the picture of the cell tagged ``headline``."""
    target = source.with_suffix(".ipynb")
    fill(notebook, glued(notebook))
    for cell in notebook.cells:
        if "headline" in cell.metadata.get("tags", []):
            data = (
                item
                for output in cell.outputs
                for item in output.get("data", {}).items()
            )
            (picture,) = {
                value for kind, value in data if kind.endswith("image/png")
            }  # shown, glued or both
            write_atomically(
                source.resolve().parents[1] / "book" / "_static" / "headline.png",
                b64decode(picture),
            )
    nbformat.validate(notebook)
    write_atomically(target, nbformat.writes(notebook).rstrip("\n") + "\n")
    return target


def execute(source: Path) -> Path:
    """Execute one chapter where it is, as JupyterLab does, and write its .ipynb."""
    notebook = convert(source)
    metadata, resources = (
        notebook.metadata.copy(),
        {"metadata": {"path": str(source.parent)}},
    )
    NotebookClient(
        notebook,
        timeout=600,
        record_timing=False,
        coalesce_streams=True,
        resources=resources,
    ).execute()
    notebook.metadata = metadata
    return write(notebook, source)


def keep_outputs(source: Path) -> Path:
    """Write the .ipynb of a chapter of which the prose alone has changed; ``ValueError`` if a code cell has."""
    notebook, stored = (
        convert(source),
        nbformat.read(source.with_suffix(".ipynb"), as_version=4),
    )
    new, old = (
        [cell for cell in each.cells if cell.cell_type == "code"]
        for each in (notebook, stored)
    )
    if [cell.id for cell in new] != [cell.id for cell in old]:
        first = [
            cell.source.partition("\n")[0]
            for cell in new
            if cell.id not in {each.id for each in old}
        ]
        reason = "its code cells stand in another order, or one has gone"
        if first:
            reason = (
                f"no output is stored for the code cell that begins with {first[0]!r}"
            )
        raise ValueError(f"{source}: {reason}; execute the chapter")
    for cell, kept in zip(new, old, strict=True):
        cell.outputs, cell.execution_count = kept.outputs, kept.execution_count
    return write(notebook, source)


if __name__ == "__main__":
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="+", type=Path, metavar="CHAPTER.md")
    parser.add_argument(
        "--keep-outputs",
        action="store_true",
        help="execute nothing: only prose has changed",
    )
    options = parser.parse_args()
    try:
        with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
            for written in pool.map(
                keep_outputs if options.keep_outputs else execute, options.chapters
            ):
                print(written, flush=True)
    except ValueError as error:
        sys.exit(str(error))
