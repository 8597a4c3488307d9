"""Run chapters with other parameters: ``python tools/variants.py notebooks/04_problem.md ...``

Every chapter has a cell tagged ``parameters``.  Each set of changes below is applied to the parameters that the chapter
has, and the chapter must run to its end.  The first run has all cells; the second has only those that the page shows.
"""

import re
import sys
import time
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


def changed(source: Path, changes: dict[str, str], hidden: bool):
    """Return a chapter as a notebook with other parameters, and which were changed."""
    notebook = jupytext.read(source)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    tags = {id(cell): set(cell.metadata.get("tags", [])) for cell in notebook.cells}
    (parameters,) = [cell for cell in notebook.cells if "parameters" in tags[id(cell)]]
    found = {
        name: value
        for name, value in changes.items()
        if re.search(rf"^{name} = ", parameters.source, re.M)
    }
    for name, value in found.items():
        parameters.source = re.sub(
            rf"^{name} = .*", f"{name} = {value}", parameters.source, flags=re.M
        )
    if not found:
        raise ValueError(f"{source}: no parameter among {', '.join(changes)}")
    if not hidden:
        notebook.cells = [
            cell for cell in notebook.cells if not tags[id(cell)] & HIDDEN
        ]
    return notebook, found


def main(chapters: list[str]) -> None:
    for chapter in map(Path, chapters):
        for changes, hidden in zip(CHANGES, (True, False), strict=True):
            notebook, found = changed(chapter, changes, hidden)
            start = time.perf_counter()
            NotebookClient(
                notebook,
                timeout=600,
                resources={"metadata": {"path": str(chapter.parent)}},
            ).execute()
            what = ", ".join(f"{name} = {value}" for name, value in found.items())
            cells = "all cells" if hidden else "visible cells alone"
            print(
                f"{chapter.stem}: {what}, {cells}: {time.perf_counter() - start:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
