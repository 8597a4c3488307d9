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
    facts = {
        "version": __version__,
        "commit": _commit(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    }
    return facts | {name: version(name) for name in packages}


def write_provenance(table: Path, command: str, *packages: str, **more: Any) -> Path:
    """Write ``NAME.provenance.toml`` next to a table: its command, :func:`provenance` and more; return the path."""
    facts = {"command": command} | more | provenance(*packages)
    lines = [
        f"{name} = {json.dumps(value)}\n"
        for name, value in facts.items()
        if value is not None
    ]
    path = table.with_suffix(".provenance.toml")
    write_atomically(path, "".join(lines))
    return path


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """Return the commit of the repository that this package is in, with ``+`` if files were changed."""
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():
        return None

    git = ["git", "-C", str(folder)]
    status = ["status", "--porcelain", "--untracked-files=no", "--", "."]
    quiet: dict[str, Any] = {"text": True, "stderr": subprocess.DEVNULL}
    try:
        # the tables that commands write are no change of the code
        changes = subprocess.check_output([*git, *status, ":(exclude)results"], **quiet)
        commit = subprocess.check_output([*git, "rev-parse", "HEAD"], **quiet)
    except (OSError, subprocess.CalledProcessError):
        return None
    return str(commit).strip() + "+" * bool(changes)
