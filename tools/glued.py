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


def texts(place: str) -> dict[str, str]:
    """The notebooks of a folder or of a revision's ``notebooks/``, by name."""
    if (folder := Path(place)).is_dir():
        return {path.name: path.read_text() for path in sorted(folder.glob("*.ipynb"))}
    git = ["git", "-C", str(ROOT)]
    names = subprocess.check_output([*git, "ls-tree", "--name-only", f"{place}:notebooks"], text=True).split()
    found = [name for name in names if name.endswith(".ipynb")]
    return {name: subprocess.check_output([*git, "show", f"{place}:notebooks/{name}"], text=True) for name in found}


def values(text: str) -> dict[str, dict[str, str]]:
    """The glued values of a notebook in every form but pictures, by name."""
    outputs = [each for cell in nbformat.reads(text, as_version=4).cells for each in cell.get("outputs", [])]
    found = [each for each in outputs if "scrapbook" in each.get("metadata", {})]
    shown = [{kind: each.data[kind] for kind in each.data if "image/" not in kind} for each in found]
    return {each.metadata["scrapbook"]["name"]: data for each, data in zip(found, shown, strict=True)}


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """A line for each name that differs, for the notebooks of the second set."""
    lines = [f"{name}: no such notebook before" for name in after.keys() - before.keys()]
    for name in sorted(before.keys() & after.keys()):
        old, new = values(before[name]), values(after[name])
        for key in dict.fromkeys([*old, *new]):
            if old.get(key) != new.get(key):
                shown = [str((side.get(key) or {"": "nothing"}).popitem()[1])[:300] for side in (old, new)]
                lines.append(f"{name} {key}: {' -> '.join(shown)}")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--execute", nargs="+", type=Path, default=[], metavar="CHAPTER.md")
    options = parser.parse_args()
    for source in options.execute:
        nbformat.write(notebooks.executed(source), Path(options.after) / source.with_suffix(".ipynb").name)
    found = differences(texts(options.before), texts(options.after))
    print("\n".join(found) or "no glued value differs")
    sys.exit(bool(found))
