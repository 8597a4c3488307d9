r"""What goes by a name: policies, channel models, accountants, data sets, networks.

A name is one that an installed package has registered as an entry point of the group ``adascale.KIND``, as this one
does in its ``pyproject.toml``; or ``module:object``, which needs no registration.  A module may lie in the working
directory, but not in the standard library; and an object is looked at before it is called: it has to be of its kind.
"""

from __future__ import annotations

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
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

KINDS = {
    "policies": "a subclass of adascale.policies.Policy, or a class with start and step",
    "channels": "a subclass of adascale.channel.ChannelModel",
    "accountants": "a class with a method epsilon, see adascale.accounting.Accountant",
    "datasets": "a function without arguments, written in Python outside the standard library",
    "models": "a subclass of torch.nn.Module, or a function without arguments, written in Python outside the standard "
    "library",
}
"""What can be registered, and what it has to be."""

FAILURES = (Exception, SystemExit)
"""What is an error when code of the user's raises it."""

_FOLDERS = (str(Path(__file__).parent), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))
_NOT_THE_USERS = ("<", *(os.path.join(each, "") for each in _FOLDERS))
"""What the files of this package, of Python and of installed packages begin with."""


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
        If there is no such name, module or object, in which case it says what is known; if the module is one of the
        standard library, which is not imported then; or if the object is not of that kind (:data:`KINDS`).
    """
    entry = None if ":" in name else _registered(kind, name)
    module, _, wanted = (name if entry is None else entry.value).partition(":")
    if entry is None:
        _refuse_foreign(kind, name)
    with nullcontext() if entry else _working_directory():
        try:
            found = entry.load() if entry else getattr(importlib.import_module(module), wanted, _NOTHING)
        except FAILURES as error:  # whatever a module of the user's, or another package, does when it is imported
            raise ValueError(f"{_one(kind)} {name!r}: cannot import {module!r}: {_said(error)}") from error
    if found is _NOTHING:
        raise ValueError(f"{_one(kind)} {name!r}: module {module!r} has no {wanted!r}")
    if not _fits(kind, found) and not (entry and kind == "policies"):  # a package may register a method, too
        raise ValueError(f"{_one(kind)} {name!r} must be {KINDS[kind]}, got {type(found).__name__}")
    return Found(entry.name, entry.name, found) if entry else Found(name, label(name), found)


def canonical(kind: str, text: str) -> str:
    """A name as it was registered or ``module:object``, with the arguments behind it; nothing is imported for it."""
    name, _ = parse_options(text)
    return (name if ":" in name else _registered(kind, name).name) + text[len(name) :]


def label(text: str) -> str:
    """What a table shows of a name: the object without its module, and the arguments behind it."""
    name, _ = parse_options(text)
    return name.rpartition(":")[2] + text[len(name) :]


@contextmanager
def naming_own_code() -> Iterator[None]:
    """Whatever a class of the user's raises becomes a ``ValueError`` that says where: its method, file and line."""
    try:
        yield
    except FAILURES as error:
        if not own_place(error):
            raise
        raise ValueError(_said(error)) from error


def own_place(error: BaseException) -> str:
    """The method, file and line of the user's own code that an error comes from, with a colon; empty without one."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith(_NOT_THE_USERS):
            place = f"{code.co_qualname} in {os.path.basename(code.co_filename)}, line {line}: "
    return place.removeprefix("<module> in ")


def _said(error: BaseException) -> str:
    """An error in one line; of the user's own code with its place and type."""
    message, place = " ".join(str(error).split()), own_place(error)
    return f"{place}{type(error).__name__}: {message}" if place or isinstance(error, SystemExit) else message


def _refuse_foreign(kind: str, name: str) -> None:
    """A ``ValueError`` for a name whose module is not to be imported: of the standard library, or no module's name."""
    standard = re.split("[.:]", name)[0] in sys.stdlib_module_names
    if standard or not re.fullmatch(r"(?!__)\w+(\.(?!__)\w+)*:(?!__)\w+", name):
        raise ValueError(
            f"{_one(kind)} {name!r} must be a registered name, or module:object of a module that is not "
            "one of Python's standard library"
        )


def _fits(kind: str, value: Any) -> bool:
    """Whether an object is of a kind; nothing is called for it, and no layer above this one imported."""
    if isinstance(value, type):
        above = {f"{each.__module__}.{each.__qualname__}" for each in value.__mro__}
        has = {name for each in value.__mro__[:-1] for name in vars(each)}
        return {
            "policies": "adascale.policies.base.Policy" in above or {"start", "step"} <= has,
            "channels": "adascale.channel.model.ChannelModel" in above,
            "accountants": "epsilon" in has,
            "models": "torch.nn.modules.module.Module" in above,
        }.get(kind, False)
    value = value.__wrapped__ if isinstance(value, _CACHED) else value
    if kind not in ("datasets", "models") or not isinstance(value, FunctionType):
        return False
    place = f"{value.__module__}:{value.__qualname__}"
    if _is_own(place):  # what is not registered here is none
        return place in {entry.value for entry in _entries(kind).values()}
    return re.split("[.:]", place)[0] not in sys.stdlib_module_names


_CACHED, _NOTHING = type(cache(str)), object()


def name_of(kind: str, value: Any) -> str:
    """The name by which :func:`find` gives a class or function back: the registered one, or ``module:object``."""
    for known, entry in _entries(kind).items():
        with suppress(*FAILURES):  # what another package registers may not be there; then it is not this
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
    else:
        _refuse_foreign(kind, name)
    module = name.partition(":")[0]
    if _is_own(module):
        return None
    with _working_directory():
        try:
            spec = importlib.util.find_spec(module)
        except FAILURES:  # there is no such package, or its __init__ fails
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
    except FAILURES:  # what cannot be found, or imported on the way there, cannot be run either
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
        raise ValueError(f"kind must be one of {tuple(KINDS)}, got {kind!r}")
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


def call(kind: str, name: str) -> Any:
    """Call the function or class of a name, of the kind ``datasets`` or ``models``, without arguments.

    Raises
    ------
    FileNotFoundError
        If it raises one.  Any other error becomes a ``ValueError`` with the name and the error.
    """
    found, what = find(kind, name).value, f"{_one(kind)} {name!r}"
    try:
        return found()
    except FileNotFoundError as error:
        if error.filename is None:  # a reader's own message, which says what to do
            raise
        raise FileNotFoundError(f"{what}: {error}") from error
    except FAILURES as error:
        raise ValueError(f"{what} failed: {own_place(error)}{type(error).__name__}: {error}") from error
