"""TOML, presets, JSON, and atomic writing of files."""

import contextlib
import json
import os
import secrets
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from adascale.errors import InvalidFile, InvalidInput
from adascale.text import short, shown
from adascale.units import in_watts

if TYPE_CHECKING:
    import pandas as pd

Record = TypeVar("Record")
_PRESETS = Path(__file__).parent / "presets"  # those of this package

TABLES = ("scenario", "channel", "training")
"""The tables of a preset."""


def from_mapping(
    cls: type[Record], table: Mapping[str, Any], where: str = ""
) -> Record:
    """Make a dataclass of its fields by name; ``where``, such as " in [training]", locates a bad key in errors."""
    expected = {field.name: field for field in fields(cast("Any", cls)) if field.init}
    required = {
        name
        for name, field in expected.items()
        if field.default is field.default_factory is MISSING
    }
    unknown, missing = table.keys() - expected.keys(), required - table.keys()
    if unknown or missing:
        key = min(unknown or missing)
        what = "unknown" if unknown else "missing"
        raise InvalidInput(
            f"{what} key {short(key)}{where}; expected {', '.join(expected)}", key
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
    with _naming_file(path, "TOML"):
        return tomllib.loads(text)


def parse_json(text: str, name: str | os.PathLike[str]) -> Any:
    """Parse JSON without equal keys in an object, NaN and Infinity; errors begin with the name."""
    with _naming_file(name, "JSON"):
        return json.loads(
            text, object_pairs_hook=_without_equal_keys, parse_constant=_no_number
        )


def _without_equal_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise ValueError(f"duplicate key {short(name)}")
        table[name] = value
    return table


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


@contextlib.contextmanager
def _naming_file(path: str | os.PathLike[str], form: str) -> Iterator[None]:
    """Turn an error of a parser into one that names the file."""
    try:
        yield
    except RecursionError:
        raise InvalidFile(
            f"{path} is not valid {form}: brackets are nested too deeply", str(path)
        ) from None
    except ValueError as error:
        reason = short(str(error))[1:-1]  # without its quotes
        raise InvalidFile(f"{path} is not valid {form}: {reason}", str(path)) from None


def preset_names() -> tuple[str, ...]:
    """Return the names of the presets in alphabetical order."""
    return tuple(sorted(path.stem for path in _PRESETS.glob("*.toml")))


def read_preset(name: str) -> tuple[Path, dict[str, Any]]:
    """Return the path of a preset (name or file) and its content, merged with its bases."""
    chain = preset_chain(name)
    merged: dict[str, Any] = {"levels": []} | {table: {} for table in TABLES}
    # a preset extends its base table by table
    for _, content in reversed(chain):
        merged |= content | {table: merged[table] | content[table] for table in TABLES}
    return chain[0][0], merged


def preset_chain(name: str) -> list[tuple[Path, dict[str, Any]]]:
    """Return path and own content of a preset and its bases, resolved from the folder of the file that names them."""
    chain: list[tuple[Path, dict[str, Any]]] = []
    folder, base = Path(), cast("str | None", name)
    while base is not None:
        path = _preset_path(str(base), folder)
        if any(path.samefile(earlier) for earlier, _ in chain):
            raise InvalidFile(f"preset {str(path)!r} has itself as its base", str(path))
        content = _own_content(path)
        folder, base = path.parent, content.pop("base", None)
        chain.append((path, content))
    return chain


def _preset_path(name: str, folder: Path) -> Path:
    """Return the path of a preset of this package, or of a file in a folder."""
    names = preset_names()
    path = _PRESETS / f"{name}.toml" if name in names else folder / name
    if not path.is_file():
        raise InvalidInput(
            f"preset {name!r} is unknown: neither one of {', '.join(names)} nor a file",
            "name",
        )
    return path


def _own_content(path: Path) -> dict[str, Any]:
    """Return what one preset file says, with all of the tables."""
    content = read_toml(path)
    unknown = sorted(content.keys() - {*TABLES, "base", "levels"})
    if unknown:
        expected = f"expected {', '.join(TABLES)}, base, levels"
        raise InvalidFile(
            f"{path}: unknown key {short(unknown[0])}; {expected}", str(path)
        )
    for name in TABLES:
        table = content.setdefault(name, {})
        if not isinstance(table, dict):
            raise InvalidFile(
                f"{path}: {name} must be a table, got {shown(table)}", str(path)
            )
    content["scenario"] = {"name": path.stem} | in_watts(content["scenario"])
    return content


def json_text(value: Any) -> str:
    """Format a value as JSON, with ``null`` for NaN and ``"Infinity"`` for infinity."""
    finite = json.loads(
        json.dumps(value), parse_constant=lambda name: None if name == "NaN" else name
    )
    return json.dumps(finite, indent=1)


def write_atomically(path: Path, content: "pd.DataFrame | str | bytes") -> None:
    """Write a file completely or not at all, following links; a table is written as CSV."""
    write_together({path: content})


def write_together(files: "Mapping[Path, pd.DataFrame | str | bytes]") -> None:
    """Write files as :func:`write_atomically` does, all of them to disk before the first is replaced."""
    with contextlib.ExitStack() as stack:
        halves = []
        for path, content in files.items():
            target = Path(os.path.realpath(path))
            with _naming(path):
                half = _write_beside(target, _as_bytes(content), stack)
            halves.append((path, half, target))
        for path, half, target in halves:
            with _naming(path):
                os.replace(half, target)
        for folder in {target.parent for _, _, target in halves}:
            synchronise(folder)


def _as_bytes(content: "pd.DataFrame | str | bytes") -> bytes:
    if isinstance(content, bytes):
        return content
    return (
        content if isinstance(content, str) else content.to_csv(index=False)
    ).encode()


def _write_beside(target: Path, content: bytes, stack: contextlib.ExitStack) -> Path:
    """Write a new file into the folder of ``target``; the stack removes it at its end, unless it was moved by then."""
    half = target.with_name(f".{secrets.token_hex(8)}.half")
    with open(half, "xb") as file:
        stack.callback(half.unlink, missing_ok=True)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if target.exists():
        os.chmod(half, stat.S_IMODE(target.stat().st_mode))
    return half


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let an error of the system name the file that was asked for."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def synchronise(folder: Path) -> None:
    """Bring the entries of a folder to disk, where the system can; some file systems need not."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
