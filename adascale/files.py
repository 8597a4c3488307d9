"""Files: written whole or not at all, TOML read with errors that name the file, and where the presets lie."""

from __future__ import annotations

import os
import tempfile
import tomllib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


TABLES = ("scenario", "channel", "training")
"""The tables of a preset."""


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file; ``ValueError`` with its name where it is not one."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None


def preset_names() -> tuple[str, ...]:
    """The data sets that have a preset, in alphabetical order."""
    folder = resources.files("adascale") / "presets"
    return tuple(sorted(each.name.removesuffix(".toml") for each in folder.iterdir() if each.name.endswith(".toml")))


def read_preset(name: str) -> tuple[Path, dict[str, Any]]:
    """Where a preset lies, by its name or as a file of one's own, and its tables and levels over those of its base.

    Raises
    ------
    ValueError
        If it is neither a name nor a file, no TOML, has an unknown key or itself as its base; it names the file.
    """
    return _read_preset(name, ())


def _read_preset(name: str, seen: tuple[str, ...]) -> tuple[Path, dict[str, Any]]:
    if name in seen:
        raise ValueError(f"preset {name!r} has itself as its base")
    path = Path(name)
    if name in preset_names():
        path = Path(str(resources.files("adascale") / "presets" / f"{name}.toml"))
    if not path.is_file():
        raise ValueError(f"preset {name!r} is unknown: neither one of {', '.join(preset_names())} nor a file")
    content = read_toml(path)
    known = (*TABLES, "base", "levels")
    if unknown := sorted(set(content) - set(known)):
        raise ValueError(f"{path}: unknown key {unknown[0]!r}; expected {', '.join(known)}")
    for table in TABLES:
        if not isinstance(content.setdefault(table, {}), dict):
            raise ValueError(f"{path}: {table} must be a table, got {content[table]!r}")
    if (base := content.pop("base", None)) is not None:
        _, below = _read_preset(str(base), (*seen, name))
        content = below | content | {table: below[table] | content[table] for table in TABLES}
    return path, {"levels": []} | content


def write_atomically(path: Path, content: pd.DataFrame | str | bytes) -> None:
    """All of the file or none of it, whatever happens; a table becomes CSV."""
    if not isinstance(content, str | bytes):
        content = str(content.to_csv(index=False))
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
