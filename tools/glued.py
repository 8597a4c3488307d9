"""Print each glued number of the stored notebooks that differs from a revision: ``python tools/glued.py REVISION``."""

import subprocess
import sys

import nbformat

from notebooks import ROOT, glued


def before(revision: str, name: str) -> dict[str, str]:
    """What a notebook glued at the revision; nothing where it was not there."""
    found = subprocess.run(["git", "show", f"{revision}:notebooks/{name}"], cwd=ROOT, capture_output=True, text=True)
    return glued(nbformat.reads(found.stdout, as_version=4)) if found.returncode == 0 else {}


if __name__ == "__main__":
    differ = False
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        old, new = before(sys.argv[1], path.name), glued(nbformat.read(path, as_version=4))
        for name in (each for each in dict.fromkeys([*old, *new]) if old.get(each) != new.get(each)):
            print(path.name, name, old.get(name, "nothing"), "->", new.get(name, "nothing"))
            differ = True
    sys.exit(differ)
