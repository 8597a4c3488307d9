r"""What goes by a name: policies, channel models, accountants, data sets, networks.

A name is one that an installed package has registered as an entry point of the group ``adascale.KIND``, as this one
does in its ``pyproject.toml``; or ``module:object``, which needs no registration.  A module may lie in the working
directory.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import warnings
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple

KINDS = ("policies", "channels", "accountants", "datasets", "models")
"""What can be registered."""


class Found(NamedTuple):
    """An object by its name."""

    name: str
    """What a specification keeps, as it was registered or ``module:object``."""
    label: str
    """What a table shows, without the module."""
    value: Any
    """The class or function itself."""


def names(kind: str) -> tuple[str, ...]:
    """The registered names of a kind, in the order of registration; nothing is imported for them."""
    return tuple(_entries(kind))


def find(kind: str, name: str) -> Found:
    r"""The object that a name stands for.

    Parameters
    ----------
    kind : str
        One of :data:`KINDS`.
    name : str
        A registered name, in which case, ``-`` and ``_`` do not matter; or ``module:object``.

    Raises
    ------
    ValueError
        If there is no such name, module or object; it says what is known.
    """
    if ":" in name:
        module, _, wanted = name.partition(":")
        found = _import(kind, name, module)
        if not hasattr(found, wanted):
            raise ValueError(f"{_one(kind)} {name!r}: module {module!r} has no {wanted!r}")
        return Found(name, label(name), getattr(found, wanted))
    entry = _registered(kind, name)
    try:
        return Found(entry.name, entry.name, entry.load())
    except Exception as error:  # whatever another package does when it is imported
        raise ValueError(f"{_one(kind)} {name!r}: cannot import {entry.value!r}: {error}") from error


def label(name: str) -> str:
    """What a table shows of a name: the object without its module."""
    return name.rpartition(":")[2]


def name_of(kind: str, value: Any) -> str:
    """The name by which :func:`find` gives a class or function back: the registered one, or ``module:object``."""
    for known, entry in _entries(kind).items():
        with suppress(Exception):  # what another package registers may not be there; then it is not this
            if entry.load() is value:
                return known
    return f"{value.__module__}:{value.__qualname__}"


def parse_options(text: str) -> tuple[str, dict[str, Any]]:
    """``name:key=value,key=value`` as a name and its arguments; values are Python literals, or words.

    Raises
    ------
    ValueError
        If an argument has no ``=`` or stands twice, or a value begins as a literal and is none.
    """
    match = re.fullmatch("([^=]*):([^:=]*=.*)", text, re.DOTALL)
    if not match:
        return text, {}
    name, given = match.groups()
    options: dict[str, Any] = {}
    for part in re.split(r",(?=[^,=]*=)", given):
        key, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not key.isidentifier():
            raise ValueError(f"expected name:key=value,key=value, got {text!r}")
        if key in options:
            raise ValueError(f"{key!r} stands twice in {text!r}")
        options[key] = _literal(value)
    return name, options


def _literal(text: str) -> Any:
    """A Python literal, or the text itself where it does not look like one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        if text[:1] in ("'", '"', "(", "[", "{"):  # a bare string does not begin so: cut, or closed wrongly
            raise ValueError(f"expected a Python literal or a word, got {text!r}") from None
        return text


def source_digest(kind: str, name: str) -> str | None:
    """Sixteen hexadecimal digits of the SHA-256 of the code behind a name; None for this package's own.

    It covers the module's file and, from one to the next, every module of the same folder or package that it imports: a
    result is stale when its code has changed, wherever that code was written down.

    Raises
    ------
    ValueError
        If the module has no source file that could be read.
    """
    if ":" not in name:
        name = _registered(kind, name).value
    module = name.partition(":")[0]
    if _is_own(module):
        return None
    with _working_directory():
        try:
            spec = importlib.util.find_spec(module)
        except Exception:  # there is no such package, or its __init__ fails
            spec = None
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            raise ValueError(f"{name!r}: module {module!r} has no source file; a result could not say what made it")
        top = Path(spec.origin).parents[module.count(".") + (Path(spec.origin).stem == "__init__")]
        files: dict[str, bytes] = {}
        _collect(module, top, files)
    digest = hashlib.sha256()
    for place in sorted(files):
        digest.update(f"{place}\0{len(files[place])}\0".encode() + files[place])
    return digest.hexdigest()[:16]


def _collect(module: str, top: Path, files: dict[str, bytes]) -> None:
    """The module's file and those below ``top`` that it imports, by their place below ``top``.

    Not this package's own: a checkout may be the working directory, and rows name its version.
    """
    if _is_own(module):
        return
    try:
        spec = importlib.util.find_spec(module)
    except Exception:  # what cannot be found, or imported on the way there, cannot be run either
        return
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return
    path = Path(spec.origin)
    if not path.is_relative_to(top) or "site-packages" in path.relative_to(top).parts:
        return
    place = path.relative_to(top).as_posix()
    if place in files:
        return
    files[place] = path.read_bytes()
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    try:
        tree = ast.parse(files[place])
    except (SyntaxError, ValueError):  # what is no Python imports nothing
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            imported = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for each in imported:
            parts = each.split(".")
            for end in range(1, len(parts) + 1):  # a package runs its __init__ first
                _collect(".".join(parts[:end]), top, files)


@cache
def _entries(kind: str) -> dict[str, EntryPoint]:
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    found = entry_points(group=f"adascale.{kind}")
    own = [each for each in found if each.value.startswith("adascale.")]
    return {each.name: each for each in (*own, *(each for each in found if each not in own))}


def _registered(kind: str, name: str) -> EntryPoint:
    entries = _entries(kind)
    for known, entry in entries.items():
        if _plain(name) == _plain(known):
            return entry
    listed = ", ".join(known.lower() for known in entries)
    others = [_one(each) for each in KINDS if each != kind and _plain(name) in map(_plain, _entries(each))]
    hint = f" ({name} is a {others[0]})" if others else ""
    raise ValueError(f"{_one(kind)} {name!r} is unknown{hint}; expected one of {listed}, or module:object")


def _is_own(module: str) -> bool:
    """Whether a module is this package's."""
    return module.partition(".")[0] == __name__.partition(".")[0]


def _import(kind: str, name: str, module: str) -> Any:
    with _working_directory():
        try:
            return importlib.import_module(module)
        except Exception as error:  # whatever the user's module does when it is imported
            raise ValueError(f"{_one(kind)} {name!r}: cannot import {module!r}: {error}") from error


class _working_directory:
    """While it lasts, modules of the working directory can be imported."""

    def __enter__(self) -> None:
        self.added = os.getcwd()
        sys.path.insert(0, self.added)

    def __exit__(self, *raised: object) -> None:
        sys.path.remove(self.added)


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _one(kind: str) -> str:
    """A kind in the singular, for messages."""
    return {"policies": "policy", "datasets": "dataset"}.get(kind, kind.removesuffix("s"))
