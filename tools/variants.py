"""Run chapters with other parameters: ``python tools/variants.py notebooks/04_problem.md ...``

Every chapter has a cell tagged ``parameters``.  Each set of changes below is applied to the parameters that the chapter
has, and the chapter must run to its end.  The first run has all cells; the second has only those that the page shows.
"""

import re
import sys
from pathlib import Path

import jupytext
from nbclient import NotebookClient

CHANGES = (
    {"nu": "0.1", "seed": "3", "rounds": "200", "realisations": "5"},
    {
        "nu": "0.5",
        "seed": "7",
        "rounds": "100",
        "dataset": '"cifar10"',
        "realisations": "5",
    },
)
HIDDEN = {"remove-cell", "remove-input"}


def changed(chapter, changes, left_out):
    """Return a chapter as a notebook with other parameters, without cells of some tags."""
    notebook = jupytext.read(chapter)
    for cell in [*notebook.cells]:
        tags = {*cell.metadata.get("tags", [])}
        if tags & left_out:
            notebook.cells.remove(cell)
        elif "parameters" in tags:
            for name, value in changes.items():
                line = re.compile(rf"^{name} = .*", re.MULTILINE)
                cell.source = line.sub(f"{name} = {value}", cell.source)
    return notebook


if __name__ == "__main__":
    for chapter in map(Path, sys.argv[1:]):
        for changes, left_out in zip(CHANGES, (set(), HIDDEN), strict=True):
            print(chapter, changes, "without", left_out or "nothing", flush=True)
            resources = {"metadata": {"path": str(chapter.parent)}}
            notebook = changed(chapter, changes, left_out)
            NotebookClient(notebook, timeout=600, resources=resources).execute()
