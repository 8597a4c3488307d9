"""Objects by name: entry points of the group ``adascale.KIND``, or ``module:object`` of user code."""

import ast
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_FUNCTION = "a function without arguments, written in Python outside the standard library"
KINDS = {
    "policies": "a subclass of adascale.policies.Policy",
    "channels": "a subclass of adascale.channel.ChannelModel",
    "accountants": "a class with a method epsilon, see adascale.accounting.Accountant",
    "datasets": _FUNCTION,
    "models": f"a subclass of torch.nn.Module, or {_FUNCTION}",
}
"""Kinds of objects that can be registered, each with its requirement."""

FAILURES = (Exception, SystemExit)
"""Errors that user code may raise."""

_FOLDERS = (str(Path(__file__).parent), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))
_NOT_THE_USERS = ("<", *(os.path.join(each, "") for each in _FOLDERS))  # beginnings of paths that are not a user's
_CACHED, _NOTHING = type(cache(str)), object()


class Found(NamedTuple):
    """A class or function, its canonical name, and its label in tables."""

    name: str
    label: str
    value: Any


def names(kind: str) -> tuple[str, ...]:
    """Return the registered names of a kind without importing anything."""
    return tuple(_entries(kind))


def find(kind: str, name: str) -> Found:
    """Import an object of one of the :data:`KINDS`; in registered names, case, ``-`` and ``_`` do not matter."""
    entry, what = None if ":" in name else _registered(kind, name), f"{_one(kind)} {name!r}"
    if entry is None:
        _refuse_foreign(kind, name)
    module, _, wanted = (entry.value if entry else name).partition(":")
    try:
        with nullcontext() if entry else _working_directory():
            found = entry.load() if entry else getattr(importlib.import_module(module), wanted, _NOTHING)
    except FAILURES as error:  # importing a third-party module may raise anything
        raise ValueError(f"{what}: cannot import {module!r}: {_said(error)}") from error
    if found is _NOTHING:
        raise ValueError(f"{what}: module {module!r} has no {wanted!r}")
    if not _fits(kind, found) and not (entry and kind == "policies"):  # a package may register a method, too
        raise ValueError(f"{what} must be {KINDS[kind]}, got {type(found).__name__}")
    return Found(entry.name, entry.name, found) if entry else Found(name, label(name), found)


def canonical(kind: str, text: str) -> str:
    """Return a name as registered or ``module:object``, with its arguments."""
    name, _ = parse_options(text)
    return (name if ":" in name else _registered(kind, name).name) + text[len(name) :]


def label(text: str) -> str:
    """Return a name for tables: the object without its module, with its arguments."""
    name, _ = parse_options(text)
    return name.rpartition(":")[2] + text[len(name) :]


@contextmanager
def naming_own_code() -> Iterator[None]:
    """Turn any error of a user's class into a ``ValueError`` with its method, file and line."""
    try:
        yield
    except FAILURES as error:
        if not own_place(error):
            raise
        raise ValueError(_said(error)) from error


def own_place(error: BaseException) -> str:
    """Return the method, file and line of the user's code that raised an error, and a colon; "" if there is none."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith(_NOT_THE_USERS):
            place = f"{code.co_qualname} in {os.path.basename(code.co_filename)}, line {line}: "
    return place.removeprefix("<module> in ")


def _said(error: BaseException) -> str:
    message, place = " ".join(str(error).split()), own_place(error)
    return f"{place}{type(error).__name__}: {message}" if place or isinstance(error, SystemExit) else message


def _refuse_foreign(kind: str, name: str) -> None:
    """Refuse a module of the standard library, or a malformed name."""
    if _top(name) in sys.stdlib_module_names or not re.fullmatch(r"(?!__)\w+(\.(?!__)\w+)*:(?!__)\w+", name):
        expected = "a registered name, or module:object of a module that is not one of Python's standard library"
        raise ValueError(f"{_one(kind)} {name!r} must be {expected}")


def _fits(kind: str, value: Any) -> bool:
    """Return whether an object is of a kind, without importing a higher layer."""
    if isinstance(value, type):
        above = {f"{each.__module__}.{each.__qualname__}" for each in value.__mro__}
        has = {name for each in value.__mro__[:-1] for name in vars(each)}
        return {
            "policies": "adascale.policies.base.Policy" in above,
            "channels": "adascale.channel.model.ChannelModel" in above,
            "accountants": "epsilon" in has,
            "models": "torch.nn.modules.module.Module" in above,
        }.get(kind, False)
    value = value.__wrapped__ if isinstance(value, _CACHED) else value
    if kind not in ("datasets", "models") or not isinstance(value, FunctionType):
        return False
    place = f"{value.__module__}:{value.__qualname__}"
    if _top(place) == "adascale":  # functions of this package must be registered
        return place in {entry.value for entry in _entries(kind).values()}
    return _top(place) not in sys.stdlib_module_names


def name_of(kind: str, value: Any) -> str:
    """Return the name by which :func:`find` returns a class or function."""
    for known, entry in _entries(kind).items():
        with suppress(*FAILURES):  # an entry point that cannot be loaded is not this object
            if entry.load() is value:
                return known
    return f"{value.__module__}:{value.__qualname__}"


def parse_options(text: str) -> tuple[str, dict[str, Any]]:
    """Split ``name:key=value,key=value`` into a name and its arguments (Python literals or words)."""
    match = re.fullmatch("([^=]*):([^:=]*=.*)", text, re.DOTALL)
    if not match:
        return text, {}
    options: dict[str, Any] = {}
    for part in re.split(r",(?=[^,=]*=)", match[2]):
        key, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not key.isidentifier():
            raise ValueError(f"expected name:key=value,key=value, got {text!r}")
        if key in options:
            raise ValueError(f"duplicate key {key!r} in {text!r}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                options[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            if value.startswith(("'", '"', "(", "[", "{")):  # a truncated literal
                raise ValueError(f"expected a Python literal or a word, got {value!r}") from None
            options[key] = value
    return match[1], options


def source_digest(kind: str, name: str) -> str | None:
    """Hash the module of a name and all it imports from its folder or package; None for this package's own code."""
    if ":" in name:
        _refuse_foreign(kind, name)
    module = (name if ":" in name else _registered(kind, name).value).partition(":")[0]
    if _top(module) == "adascale":
        return None
    files: dict[str, bytes] = {}
    with _working_directory():
        path = _source(module)
        if path is None:
            raise ValueError(f"{name!r}: module {module!r} has no source file, so results could not record it")
        _collect(module, path.parents[module.count(".") + (path.stem == "__init__")], files)
    digest = hashlib.sha256()
    for place in sorted(files):
        digest.update(f"{place}\0{len(files[place])}\0".encode() + files[place])
    return digest.hexdigest()[:16]


def _source(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except FAILURES:  # there is no such package, or its __init__ fails
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _collect(module: str, top: Path, files: dict[str, bytes]) -> None:
    """Add the module's file and those below ``top`` that it imports, recursively."""
    path = None if _top(module) == "adascale" else _source(module)  # results record the version of this package
    if path is None or not path.is_relative_to(top) or "site-packages" in path.relative_to(top).parts:
        return
    place = path.relative_to(top).as_posix()
    if place in files:
        return
    files[place] = path.read_bytes()
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    with suppress(SyntaxError, ValueError):  # a file that is not Python imports nothing
        for name in _imported(ast.parse(files[place]), package):
            for part in accumulate(name.split("."), "{}.{}".format):  # a package runs its __init__ first
                _collect(part, top, files)


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the modules that a tree may import, and more names below them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # an import from above the package
                base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


@cache
def _entries(kind: str) -> "dict[str, EntryPoint]":
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {tuple(KINDS)}, got {kind!r}")
    found = sorted(_installed().select(group=f"adascale.{kind}"), key=lambda each: _top(each.value) != "adascale")
    return {each.name: each for each in found}  # own first


@cache
def _installed() -> Any:
    from importlib.metadata import entry_points  # slow

    return entry_points()


def _registered(kind: str, name: str) -> "EntryPoint":
    entries = _entries(kind)
    for known, entry in entries.items():
        if _plain(name) == _plain(known):
            return entry
    listed = ", ".join(known.lower() for known in entries)
    others = [_one(each) for each in KINDS if each != kind and _plain(name) in map(_plain, _entries(each))]
    hint = f" ({name} is a {others[0]})" if others else ""
    raise ValueError(f"{_one(kind)} {name!r} is unknown{hint}; expected one of {listed}, or module:object")


def _top(name: str) -> str:
    return re.split("[.:]", name)[0]


@contextmanager
def _working_directory() -> Iterator[None]:
    added = os.getcwd()
    sys.path.insert(0, added)
    try:
        yield
    finally:
        sys.path.remove(added)


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _one(kind: str) -> str:  # in the singular, for messages
    return {"policies": "policy", "datasets": "dataset"}.get(kind, kind.removesuffix("s"))


def call(kind: str, name: str) -> Any:
    """Call the data set or network with this name; errors other than FileNotFoundError become a ``ValueError``."""
    found, what = find(kind, name).value, f"{_one(kind)} {name!r}"
    try:
        return found()
    except FileNotFoundError as error:
        if error.filename is None:  # a reader's message already says what to do
            raise
        raise FileNotFoundError(f"{what}: {error}") from error
    except FAILURES as error:
        raise ValueError(f"{what} failed: {own_place(error)}{type(error).__name__}: {error}") from error
