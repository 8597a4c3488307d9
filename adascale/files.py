"""Files: written whole or not at all, TOML read with errors that name the file, and where the presets lie."""

from __future__ import annotations

import contextlib
import glob
import json
import math
import os
import secrets
import stat
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    import pandas as pd


TABLES = ("scenario", "channel", "training")
"""The tables of a preset."""


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file; ``ValueError`` with its name where it is no TOML, ``OSError`` where there is none."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not only TOMLDecodeError: bytes, numbers of 5000 digits, depths
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
    chain = preset_chain(name)
    tables: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    whole: dict[str, Any] = {"levels": []}
    for _, content in reversed(chain):
        whole |= content
        tables = {table: tables[table] | content[table] for table in TABLES}
    return chain[0][0], whole | tables


def preset_chain(name: str) -> list[tuple[Path, dict[str, Any]]]:
    """The files that a preset is read from, each with what it says itself: its own, that of its base, and so on.

    A base that is a file is named by its path from the folder of the file that names it.
    """
    chain: list[tuple[Path, dict[str, Any]]] = []
    folder, following = Path(), cast("str | None", name)
    while following is not None:
        path, content = _read_one(str(following), folder)
        if path.resolve() in [each.resolve() for each, _ in chain]:
            raise ValueError(f"preset {str(path)!r} has itself as its base")
        folder, following = path.parent, content.pop("base", None)
        chain.append((path, content))
    return chain


def _read_one(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    path = folder / name
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
    return path, content


def json_text(value: Any) -> str:
    """JSON, which knows neither NaN nor infinity: NaN becomes ``null``, infinity the string ``"Infinity"``.

    ``float`` of that string is infinity again, in Python as in other languages.
    """
    return json.dumps(_plain(value), indent=1, allow_nan=False).replace("\x7f", "\\u007f")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def write_atomically(path: Path, content: pd.DataFrame | str | bytes) -> None:
    """All of the file or none of it, whatever happens; a table becomes CSV.

    Where the path is a link, the file that it leads to is replaced.  What a process that was killed has left of the
    same file is removed.

    Raises
    ------
    OSError
        If it cannot be written; it names the path, and what was there before is there still.
    """
    write_together({path: content})


def write_together(files: Mapping[Path, pd.DataFrame | str | bytes]) -> None:
    """Files that belong together, in their order: all are on the disk before the first one takes its place.

    Raises
    ------
    OSError
        As for :func:`write_atomically`; where it is for want of space or permission, every file is as it was before.
    """
    with contextlib.ExitStack() as stack:
        ready = []
        for path, content in files.items():
            if not isinstance(content, str | bytes):
                content = str(content.to_csv(index=False))
            data = content.encode() if isinstance(content, str) else content
            with _naming(path):
                target = Path(os.path.realpath(path))
                _remove_halves(target)
                half = target.with_name(f".{target.name}.{secrets.token_hex(4)}.half")
                stack.callback(_discard, half)  # unless it has its place by then
                file = stack.enter_context(open(half, "xb", buffering=0))  # closing it writes nothing
                while _hold(file.fileno()) and not os.fstat(file.fileno()).st_nlink:  # removed before it was held
                    file = stack.enter_context(open(half, "xb", buffering=0))
                left = memoryview(data)
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
                os.chmod(half, _mode(target))
                ready.append((path, target, half))
        for path, target, half in ready:
            with _naming(path):
                os.replace(half, target)
        for folder in {target.parent for _, target, _ in ready}:
            with contextlib.suppress(OSError):  # where a folder cannot be synchronised, its entries are on the disk
                held = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, held)
                os.fsync(held)


@contextlib.contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """One process after the other, among those that ask for their turn in this folder; nothing is written for it."""
    if sys.platform == "win32":
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of the system name the file that was asked for, and no other."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from None


def _discard(half: Path) -> None:
    with contextlib.suppress(OSError):
        half.unlink()


def _remove_halves(target: Path) -> None:
    """What processes that were killed have left: whoever still writes holds a lock on it."""
    for half in target.parent.glob(f".{glob.escape(target.name)}.????????.half"):
        with contextlib.suppress(OSError), open(half, "rb") as file:
            if _hold(file.fileno()):
                half.unlink()


def _hold(file: int) -> bool:
    """Whether this process holds the file now: until it is closed, or the process dies."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _mode(target: Path) -> int:
    """The permissions of a file: those it has, or those that a new one gets here."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
