"""Objects by name: those of this package, or ``module:object`` of your own code."""

import ast
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from adascale.text import short

NAMES: dict[str, dict[str, str]] = {
    "policies": {
        "Optimal": "adascale.policies:Optimal",
        "AdaScale": "adascale.policies:AdaScale",
        "EqualAlloc": "adascale.policies:EqualAlloc",
        "EstimFuture": "adascale.policies:EstimFuture",
        "ConstantLevel": "adascale.policies:ConstantLevel",
        "ReSolve": "adascale.policies:ReSolve",
        "Learn": "adascale.policies:Learn",
        "PrivacyBudget": "adascale.policies:PrivacyBudget",
        "DynamicProgramme": "adascale.policies:DynamicProgramme",
        "Truncated": "adascale.policies:Truncated",
        "Joint": "adascale.policies:Joint",
        "Best": "adascale.policies:Best",
        "PowerControl": "adascale.policies:PowerControl",
        "LyapunovPowerControl": "adascale.comparison.shi_tuning:BEST_LYAPUNOV",
    },
    "channels": {
        "rayleigh": "adascale.channel:Rayleigh",
        "rician": "adascale.channel:Rician",
        "nakagami": "adascale.channel:Nakagami",
        "gauss-markov": "adascale.channel:GaussMarkov",
        "jakes": "adascale.channel:Jakes",
        "shadowed": "adascale.channel:Shadowed",
        "moving": "adascale.channel:Moving",
        "urban-micro": "adascale.channel:UrbanMicro",
        "block-fading": "adascale.channel:BlockFading",
        "tapped-delay-line": "adascale.channel:TappedDelayLine",
        "antenna-selection": "adascale.channel:AntennaSelection",
        "beamforming": "adascale.channel:Beamforming",
    },
    "accountants": {
        "renyi": "adascale.accounting:RenyiAccountant",
        "exact": "adascale.accounting:ExactAccountant",
    },
    "datasets": {
        "digits": "adascale.learning.data:read_digits",
        "mnist": "adascale.learning.data:read_mnist",
        "cifar10": "adascale.learning.data:read_cifar10",
    },
    "models": {
        "mnist_cnn": "adascale.learning.models:mnist_cnn",
        "digits_cnn": "adascale.learning.models:digits_cnn",
        "tanh_cnn": "adascale.learning.models:tanh_cnn",
        "resnet32": "adascale.learning.models:resnet32",
    },
}
"""The names of this package by kind, and what they stand for.  A name is imported when it is looked up, not before."""

FUNCTION = (
    "a function without arguments, written in Python outside the standard library"
)
KINDS = {
    "policies": "a subclass of adascale.policies.Policy",
    "channels": "a subclass of adascale.channel.ChannelModel",
    "accountants": "a class with a method epsilon, see adascale.accounting.Accountant",
    "datasets": FUNCTION,
    "models": f"a subclass of torch.nn.Module, or {FUNCTION}",
}
"""What your own object of each kind must be.  This is checked before anything is called."""

# by name, as a class can be recognised by it without an import
_BASES = {
    "policies": "adascale.policies.base.Policy",
    "channels": "adascale.channel.model.ChannelModel",
    "models": "torch.nn.modules.module.Module",
}

CACHED = type(cache(str))
"""The type of a function under ``functools.cache``, which has no public name."""

SINGULAR = {
    "policies": "policy",
    "channels": "channel",
    "accountants": "accountant",
    "datasets": "dataset",
    "models": "model",
}


class Found(NamedTuple):
    """A class or function, its canonical name, and its label in tables."""

    name: str
    label: str
    value: Any


def names(kind: str) -> tuple[str, ...]:
    """Return the names of a kind without importing anything."""
    return tuple(NAMES[kind])


def find(kind: str, name: str) -> Found:
    """Import an object of one of the :data:`KINDS`; in names of this package, case, ``-`` and ``_`` do not matter."""
    if ":" not in name:
        name = _registered(kind, name)
        module, _, attribute = NAMES[kind][name].partition(":")
        return Found(name, name, getattr(importlib.import_module(module), attribute))
    _refuse_standard_library(kind, name)
    what = f"{SINGULAR[kind]} {name!r}"
    module, _, attribute = name.partition(":")
    try:
        with _working_directory():
            namespace = vars(importlib.import_module(module))
    except ImportError as error:
        raise ValueError(f"{what}: cannot import {module!r}: {error}") from error
    if attribute not in namespace:
        raise ValueError(f"{what}: module {module!r} has no {attribute!r}")
    value = namespace[attribute]
    if not _fits(kind, value):
        raise ValueError(f"{what} must be {KINDS[kind]}, got {type(value).__name__}")
    return Found(name, label(name), value)


def canonical(kind: str, text: str) -> str:
    """Return a name with its arguments, a registered one spelled as in :data:`NAMES`."""
    name, _ = parse_options(text)
    return (name if ":" in name else _registered(kind, name)) + text[len(name) :]


def label(text: str) -> str:
    """Return a name for tables: the object without its module, with its arguments."""
    name, _ = parse_options(text)
    return name.rpartition(":")[2] + text[len(name) :]


def name_of(kind: str, value: Any) -> str:
    """Return the name by which :func:`find` returns a class, function or method."""
    for name in NAMES[kind]:
        if find(kind, name).value is value:
            return name
    return f"{value.__module__}:{value.__qualname__}"


def parse_options(text: str) -> tuple[str, dict[str, Any]]:
    """Split ``name:key=value,key=value`` into a name and its arguments (Python literals or words)."""
    match = re.fullmatch("([^=]*):([^:=]*=.*)", text, re.DOTALL)
    if not match:
        return text, {}
    options: dict[str, Any] = {}
    # a comma ends an argument if a key and = follow
    for part in re.split(r",(?=[^,=]*=)", match[2]):
        key, equals, value = (field.strip() for field in part.partition("="))
        if not equals or not key.isidentifier():
            raise ValueError(f"expected name:key=value,key=value, got {short(text)}")
        if key in options:
            raise ValueError(f"duplicate key {key!r} in {short(text)}")
        options[key] = _literal_or_word(value)
    return match[1], options


def _literal_or_word(text: str) -> Any:
    """Return the value of a Python literal, whose numbers are decimal, or else the text itself."""
    # numbers such as 1_000 and 0x10 are Python, but not decimal
    quoted = {"'", '"'} & {*text}
    if not quoted and re.search(r"\d_\d|\b0[xob]", text, re.IGNORECASE):
        raise ValueError(
            f"expected decimal numbers without underscores, got {short(text)}"
        )
    try:
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        if text.startswith(("'", '"', "(", "[", "{")):  # a truncated literal
            raise ValueError(
                f"expected a Python literal or a word, got {short(text)}"
            ) from None
        return text


def source_digest(kind: str, name: str) -> str | None:
    """Hash the file of your own module; None for this package's code, of which results record the version.

    Other files that the module imports are not in the digest: keep what changes in the module itself.
    """
    if ":" not in name or _top(name) == "adascale":
        return None
    _refuse_standard_library(kind, name)
    module = name.partition(":")[0]
    try:
        with _working_directory():
            spec = importlib.util.find_spec(module)
    except ImportError:  # there is no such package
        spec = None
    origin = Path((spec and spec.origin) or "")
    if origin.suffix != ".py":
        raise ValueError(
            f"{name!r}: module {module!r} has no source file, so results could not record it"
        )
    ending = "/__init__.py" if origin.stem == "__init__" else ".py"
    content = origin.read_bytes()
    header = f"{module.replace('.', '/')}{ending}\0{len(content)}\0"
    return hashlib.sha256(header.encode() + content).hexdigest()[:16]


def _registered(kind: str, name: str) -> str:
    """Return a name as it is spelled in :data:`NAMES`, or raise a ``ValueError`` that lists all."""
    for registered in NAMES[kind]:
        if _plain(registered) == _plain(name):
            return registered
    expected = ", ".join(NAMES[kind]).lower()
    raise ValueError(
        f"{SINGULAR[kind]} {name!r} is unknown; expected one of {expected}, or module:object"
    )


def _plain(name: str) -> str:
    """Return what of a name matters."""
    return name.replace("-", "").replace("_", "").lower()


def _refuse_standard_library(kind: str, name: str) -> None:
    """Refuse a module of the standard library, or a malformed name."""
    word = r"(?!__)\w+"  # no name such as __import__
    if _top(name) in sys.stdlib_module_names or not re.fullmatch(
        rf"{word}(\.{word})*:{word}", name
    ):
        expected = "a registered name, or module:object of a module that is not one of Python's standard library"
        raise ValueError(f"{SINGULAR[kind]} {name!r} must be {expected}")


def _fits(kind: str, value: Any) -> bool:
    """Return whether an object is of a kind, without calling it or importing a higher layer."""
    if isinstance(value, type):
        bases = {f"{base.__module__}.{base.__qualname__}" for base in value.__mro__}
        if kind == "accountants":
            return any("epsilon" in vars(base) for base in value.__mro__)
        return _BASES.get(kind) in bases
    if kind not in ("datasets", "models"):
        return False
    function = value.__wrapped__ if isinstance(value, CACHED) else value
    if not isinstance(function, FunctionType):
        return False
    # of this package's functions, those in the table alone
    if _top(function.__module__) == "adascale":
        place = f"{function.__module__}:{function.__qualname__}"
        return place in NAMES[kind].values()
    return _top(function.__module__) not in sys.stdlib_module_names


def _top(name: str) -> str:
    """Return the top package of ``package.module:object`` or ``package.module``."""
    return re.split("[.:]", name)[0]


@contextmanager
def _working_directory() -> Iterator[None]:
    """Import from the working directory first, where your own code is."""
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
