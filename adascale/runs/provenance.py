"""With what a result was made: the same words in every row of a table and beside every table."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from adascale import __version__
from adascale.files import write_atomically


def provenance(*packages: str) -> dict[str, str | None]:
    """``version`` and ``commit`` of this package, ``machine``, ``python``, and the versions of the packages named.

    The commit is None outside a git checkout, and ends in ``+`` where a tracked file was changed that is no result.
    """
    known: dict[str, str | None] = {
        "version": __version__,
        "commit": _commit(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    }
    return known | {name: version(name) for name in packages}


def write_provenance(table: Path, command: str, *packages: str, **more: Any) -> Path:
    """Write ``NAME.provenance.toml`` beside a table: the command that makes it, :func:`provenance`, and what else.

    Returns
    -------
    pathlib.Path
        The file.
    """
    lines = {"command": command} | more | provenance(*packages)
    path = table.with_suffix(".provenance.toml")
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items() if value is not None)
    write_atomically(path, text)
    return path


@lru_cache(maxsize=1)
def _commit() -> str | None:
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():
        return None

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
