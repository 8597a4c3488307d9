"""The software and machine of a result, stored in every row of a table and next to every table."""

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
    """Return ``version``, ``commit`` (with ``+`` if changed), ``machine``, ``python`` and versions of packages."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    found = {
        "version": __version__,
        "commit": _commit(),
        "machine": machine,
        "python": platform.python_version(),
    }
    return found | {name: version(name) for name in packages}


def write_provenance(table: Path, command: str, *packages: str, **more: Any) -> Path:
    """Write ``NAME.provenance.toml`` next to a table: its command, :func:`provenance` and more; return the path."""
    lines = {"command": command} | more | provenance(*packages)
    path = table.with_suffix(".provenance.toml")
    write_atomically(
        path,
        "".join(
            f"{key} = {json.dumps(each)}\n"
            for key, each in lines.items()
            if each is not None
        ),
    )
    return path


@lru_cache(maxsize=1)
def _commit() -> str | None:
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():
        return None

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", folder, *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = git(
            "status",
            "--porcelain",
            "--untracked-files=no",
            "--",
            ".",
            ":(exclude)results",
        )
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
