"""Execute chapters and write the .ipynb beside each: ``python tools/notebooks.py notebooks/01_system_model.md ...``

The same chapter gives the same file: cell ids come from the cells, and what differs between two runs or two machines
(times, the interpreter's version) is left out.
"""

import os
import sys
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


def write_headline(notebook: nbformat.NotebookNode, target: Path) -> None:
    """The README's figure: the picture of the cell tagged ``headline``."""
    for cell in notebook.cells:
        if "headline" in cell.metadata.get("tags", []):
            (picture,) = (output.data["image/png"] for output in cell.outputs if "data" in output)
            write_atomically(target, b64decode(picture))


def execute(source: Path) -> Path:
    """Execute one chapter where it lies, as JupyterLab does, and write its .ipynb."""
    notebook = convert(source)
    metadata = notebook.metadata.copy()
    NotebookClient(
        notebook, timeout=600, record_timing=False, resources={"metadata": {"path": str(source.parent)}}
    ).execute()
    notebook.metadata = metadata
    merge_streams(notebook)
    target = source.with_suffix(".ipynb")
    nbformat.validate(notebook)
    write_atomically(target, nbformat.writes(notebook).rstrip("\n") + "\n")
    write_headline(notebook, source.resolve().parents[1] / "book" / "_static" / "headline.png")
    return target


if __name__ == "__main__":
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for written in pool.map(execute, map(Path, sys.argv[1:])):
            print(written, flush=True)
