"""Compare the glued values of two sets of chapters: ``python tools/glued.py BEFORE AFTER``.

Each side is a folder of ``.ipynb`` or a git revision.  With ``--execute CHAPTER.md ...``, the chapters are executed
here, and AFTER is where their notebooks are written.  Prints each name whose value differs, is new or is gone.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))
import notebooks  # noqa: E402


def glued(place: str) -> dict[tuple[str, str], str]:
    """Return the glued texts of the notebooks of a folder or of a revision, by notebook and name."""
    if (folder := Path(place)).is_dir():
        texts = {path.name: path.read_text() for path in folder.glob("*.ipynb")}
    else:
        git = ["git", "-C", str(ROOT)]
        names = subprocess.check_output([*git, "ls-tree", "--name-only", f"{place}:notebooks"], text=True).split()
        show = {name: [*git, "show", f"{place}:notebooks/{name}"] for name in names if name.endswith(".ipynb")}
        texts = {name: subprocess.check_output(command, text=True) for name, command in show.items()}
    found = {name: notebooks.glued(nbformat.reads(text, as_version=4)) for name, text in sorted(texts.items())}
    return {(name, key): value for name, values in found.items() for key, value in values.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--execute", nargs="+", type=Path, default=[], metavar="CHAPTER.md")
    options = parser.parse_args()
    for source in options.execute:
        nbformat.write(notebooks.executed(source), Path(options.after) / source.with_suffix(".ipynb").name)
    before, after = glued(options.before), glued(options.after)
    chapters = {name for name, _ in after}  # a folder may have some of them only
    names = [each for each in dict.fromkeys([*before, *after]) if each[0] in chapters]
    differ = [each for each in names if before.get(each) != after.get(each)]
    for each in differ:
        print(*each, before.get(each, "nothing"), "->", after.get(each, "nothing"))
    if differ:
        sys.exit(f"{len(differ)} glued values differ")
    print("no glued value differs")
