"""Execute chapters and write the .ipynb beside each: ``python tools/notebooks.py notebooks/01_system_model.md ...``

The same chapter gives the same file: cell ids come from the cells of the chapter, and what differs between two runs or
two machines (times, the interpreter's version) is left out.  Numbers in prose are filled in, since Jupyter knows no
``{glue:text}``.  With ``--keep-outputs`` nothing is executed: the prose alone has changed, and outputs stay as stored.
"""

import argparse
import os
import re
import sys
from ast import literal_eval
from base64 import b64decode
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

from adascale.files import write_atomically


def convert(source: Path) -> nbformat.NotebookNode:
    """Read a MyST chapter as a notebook without outputs."""
    notebook = jupytext.read(source)
    kernel = notebook.metadata["kernelspec"]
    notebook.metadata = {
        "kernelspec": {key: kernel[key] for key in ("display_name", "name")} | {"language": "python"},
        "language_info": {"name": "python"},
    }
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        digest = sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
        seen[digest] = seen.get(digest, 0) + 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
    return notebook


def merge_streams(notebook: nbformat.NotebookNode) -> None:
    """Join neighbouring pieces of one stream: how a kernel cuts them depends on timing."""
    for cell in notebook.cells:
        joined = []
        for output in cell.get("outputs", []):
            last = joined[-1] if joined else None
            if last and output.output_type == "stream" == last.output_type and output.name == last.name:
                last.text += output.text
            else:
                joined.append(output)
        if cell.cell_type == "code":
            cell.outputs = joined


def glued(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What the stored outputs of a notebook have for each name that its cells glue."""
    values = {}
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if "scrapbook" in output.get("metadata", {}):
            shown = output.data["application/papermill.record/text/plain"]
            values[output.metadata["scrapbook"]["name"]] = literal_eval(shown) if shown[0] in "'\"" else shown
    return values


def fill(notebook: nbformat.NotebookNode, values: dict[str, str]) -> nbformat.NotebookNode:
    """Put the values where the prose has ``{glue:text}`` and their name; ``ValueError`` if one is missing."""

    def value(role: re.Match[str]) -> str:
        if role[1] not in values:
            raise ValueError(f"{role[0]} has no value in the outputs: execute the chapter")
        return values[role[1]]

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\{glue:text\}`([^`]+)`", value, cell.source)
    return notebook


def write_headline(notebook: nbformat.NotebookNode, target: Path) -> None:
    """The README's figure: the picture of the cell tagged ``headline``."""
    for cell in notebook.cells:
        if "headline" in cell.metadata.get("tags", []):
            (picture,) = (output.data["image/png"] for output in cell.outputs if "data" in output)
            write_atomically(target, b64decode(picture))


def write(notebook: nbformat.NotebookNode, source: Path) -> Path:
    """Fill in the numbers and write the .ipynb beside the chapter."""
    target = source.with_suffix(".ipynb")
    fill(notebook, glued(notebook))
    nbformat.validate(notebook)
    write_atomically(target, nbformat.writes(notebook).rstrip("\n") + "\n")
    write_headline(notebook, source.resolve().parents[1] / "book" / "_static" / "headline.png")
    return target


def execute(source: Path) -> Path:
    """Execute one chapter where it lies, as JupyterLab does, and write its .ipynb."""
    notebook = convert(source)
    metadata = notebook.metadata.copy()
    NotebookClient(
        notebook, timeout=600, record_timing=False, resources={"metadata": {"path": str(source.parent)}}
    ).execute()
    notebook.metadata = metadata
    merge_streams(notebook)
    return write(notebook, source)


def keep_outputs(source: Path) -> Path:
    """Write the .ipynb of a chapter of which the prose alone has changed; ``ValueError`` if a code cell has."""
    notebook, stored = convert(source), nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    new, old = ([cell for cell in each.cells if cell.cell_type == "code"] for each in (notebook, stored))
    known = {cell.id: cell for cell in old}
    for cell in new:
        if cell.id not in known:
            raise ValueError(f"{source}: no output is stored for the code cell that begins with "
                             f"{cell.source.partition(chr(10))[0]!r}; execute the chapter")  # fmt: skip
        cell.outputs, cell.execution_count = known[cell.id].outputs, known[cell.id].execution_count
    if [cell.id for cell in new] != [cell.id for cell in old]:
        raise ValueError(f"{source}: its code cells stand in another order, or one has gone; execute the chapter")
    return write(notebook, source)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="+", type=Path, metavar="CHAPTER.md")
    parser.add_argument("--keep-outputs", action="store_true", help="execute nothing: only prose has changed")
    options = parser.parse_args()
    if options.keep_outputs:
        try:
            for source in options.chapters:
                print(keep_outputs(source))
        except ValueError as error:
            sys.exit(str(error))
    else:
        with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
            for written in pool.map(execute, options.chapters):
                print(written, flush=True)
