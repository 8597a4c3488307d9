"""TOML, presets, JSON, and atomic writing of files."""

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from adascale.errors import InvalidFile, InvalidInput
from adascale.text import short, shown

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    import pandas as pd

Made = TypeVar("Made")
_PRESETS = Path(__file__).parent / "presets"

_NESTED, _LONG = re.compile(r"(?:[\[{][^\[\]{}]*){90}"), re.compile(r"[0-9_]{4301}")

TABLES = ("scenario", "channel", "training")
"""The tables of a preset."""


def from_mapping(cls: type[Made], table: Mapping[str, Any], where: str = "") -> Made:
    """Make a dataclass of its fields by name; ``where`` locates a bad key in errors."""
    known = {field.name: field for field in fields(cast("Any", cls)) if field.init}
    required = {
        name
        for name, each in known.items()
        if each.default is each.default_factory is MISSING
    }
    for what, found in (
        ("unknown", table.keys() - known.keys()),
        ("missing", required - table.keys()),
    ):
        if found:
            raise InvalidInput(
                f"{what} key {short(min(found))}{where}; expected {', '.join(known)}",
                min(found),
            )
    return cls(**table)


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a text file in UTF-8, with or without a byte order mark."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidFile(
            f"{path} is not UTF-8 text; save it as UTF-8", str(path)
        ) from None


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file; raise :class:`~adascale.errors.InvalidFile` if it is not valid."""
    text = read_text(path)
    with _naming_place(path, "TOML", text):
        return tomllib.loads(text)


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file without equal keys in an object, NaN and Infinity, as :func:`read_toml` reads TOML."""
    text = read_text(path)
    with _naming_place(path, "JSON", text):
        return json.loads(
            text, object_pairs_hook=_without_equal_keys, parse_constant=_no_number
        )


def _without_equal_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"duplicate key {short(next(name for name in names if names.count(name) > 1))}"
        )
    return table


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


@contextlib.contextmanager
def _naming_place(path: str | os.PathLike[str], form: str, text: str) -> Iterator[None]:
    """Turn an error of a parser into one that names the file, and the line where the parser does not."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        reason, line = short(str(error))[1:-1], None
        for said, pattern in (
            ("brackets are nested too deeply", _NESTED),
            ("a number is too long", _LONG),
        ):
            if (place := pattern.search(text)) and not isinstance(
                error, json.JSONDecodeError | tomllib.TOMLDecodeError
            ):
                reason, line = said, text.count("\n", 0, place.end()) + 1
        where = f", line {line}" * bool(line)
        raise InvalidFile(
            f"{path}{where} is not valid {form}: {reason}", str(path), line
        ) from None


def preset_names() -> tuple[str, ...]:
    """Return the names of the presets in alphabetical order."""
    return tuple(sorted(path.stem for path in _PRESETS.glob("*.toml")))


def read_preset(name: str) -> tuple[Path, dict[str, Any]]:
    """Return the path of a preset (name or file) and its content, merged with its bases."""
    chain = preset_chain(name)
    merged: dict[str, Any] = {"levels": []} | {table: {} for table in TABLES}
    for _, content in reversed(chain):
        merged |= content | {table: merged[table] | content[table] for table in TABLES}
    return chain[0][0], merged


def preset_chain(name: str) -> list[tuple[Path, dict[str, Any]]]:
    """Return path and own content of a preset and its bases, resolved from the folder of the file that names them."""
    chain: list[tuple[Path, dict[str, Any]]] = []
    folder, following = Path(), cast("str | None", name)
    while following is not None:
        own, known = str(following), preset_names()
        path = _PRESETS / f"{own}.toml" if own in known else folder / own
        if not path.is_file():
            raise InvalidInput(
                f"preset {own!r} is unknown: neither one of {', '.join(known)} nor a file",
                "name",
            )
        if path.resolve() in [each.resolve() for each, _ in chain]:
            raise InvalidFile(f"preset {str(path)!r} has itself as its base", str(path))
        content = read_toml(path)
        if unknown := sorted(content.keys() - {*TABLES, "base", "levels"}):
            expected = f"expected {', '.join(TABLES)}, base, levels"
            raise InvalidFile(
                f"{path}: unknown key {short(unknown[0])}; {expected}", str(path)
            )
        for table in TABLES:
            if not isinstance(content.setdefault(table, {}), dict):
                raise InvalidFile(
                    f"{path}: {table} must be a table, got {shown(content[table])}",
                    str(path),
                )
        content["scenario"].setdefault("name", path.stem)
        folder, following = path.parent, content.pop("base", None)
        chain.append((path, content))
    return chain


def json_text(value: Any) -> str:
    """Format a value as JSON, with ``null`` for NaN and ``"Infinity"`` for infinity."""
    finite = json.loads(
        json.dumps(value), parse_constant=lambda name: None if name == "NaN" else name
    )
    return json.dumps(finite, indent=1).replace("\x7f", "\\u007f")


def write_atomically(path: Path, content: "pd.DataFrame | str | bytes") -> None:
    """Write a file completely or not at all, following links; a table is written as CSV."""
    write_together({path: content})


def write_together(files: "Mapping[Path, pd.DataFrame | str | bytes]") -> None:
    """Write files as :func:`write_atomically` does, all of them to disk before the first is replaced."""
    ready = []
    with contextlib.ExitStack() as stack:
        try:
            for path, content in files.items():
                if not isinstance(content, str | bytes):
                    content = str(content.to_csv(index=False))
                target = Path(os.path.realpath(path))
                _remove_halves(target)
                half = target.with_name(f".{_mark(target)}.{secrets.token_hex(4)}.half")
                file = stack.enter_context(
                    open(half, "xb", buffering=0)
                )  # closing it writes nothing
                stack.callback(
                    half.unlink, missing_ok=True
                )  # unless it has been moved by then
                while (
                    hold_lock(file.fileno()) and not os.fstat(file.fileno()).st_nlink
                ):  # removed before it was locked
                    file = stack.enter_context(open(half, "xb", buffering=0))
                left = memoryview(
                    content.encode() if isinstance(content, str) else content
                )
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
                with contextlib.suppress(
                    FileNotFoundError
                ):  # a new file keeps the default permissions
                    os.chmod(half, stat.S_IMODE(target.stat().st_mode))
                ready.append((path, target, half))
            for path, target, half in ready:  # noqa: B007 (named in an error)
                os.replace(half, target)
        except OSError as error:
            if error.errno is None:
                raise
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from None
        for folder in {target.parent for _, target, _ in ready}:
            with contextlib.suppress(
                OSError
            ):  # where a folder cannot be synchronised, its entries are on the disk
                held = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, held)
                os.fsync(held)


@contextlib.contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Lock a folder inside the context, so that processes take turns."""
    with contextlib.ExitStack() as stack:
        if sys.platform != "win32":
            held = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, held)
            with contextlib.suppress(OSError):  # the file system may have no locks
                fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _mark(target: Path) -> str:
    """Return what the names of a file's temporary files have in common, however long its own name is."""
    return hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]


def _remove_halves(target: Path) -> None:
    """Remove the unlocked temporary files of killed processes."""
    for half in target.parent.glob(f".{_mark(target)}.????????.half"):
        with contextlib.suppress(OSError), open(half, "rb") as file:
            if hold_lock(file.fileno()):
                half.unlink()


def hold_lock(file: int) -> bool:
    """Lock the file until it is closed or the process ends; return False if it is locked."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
