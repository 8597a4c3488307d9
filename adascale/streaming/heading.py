"""The heading of a stream's file: its policy and settings, by which the file of another stream is refused."""

import hashlib
import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adascale.channel import FloorLaw

FORM = "adascale stream 3"
_LONGEST = 100  # characters of a value; of a longer one, the heading has a digest


def heading(policy: Any, settings: dict[str, Any]) -> str:
    """Return the line: the class of the policy, its public attributes and the settings as text."""
    names = (
        [field.name for field in fields(policy)]
        if is_dataclass(policy)
        else sorted(vars(policy))
    )
    parameters = {
        name: getattr(policy, name) for name in names if not name.startswith("_")
    }
    kind = f"{type(policy).__module__}:{type(policy).__qualname__}"
    facts = {"policy": kind} | parameters | settings
    return f"{FORM} {json.dumps({name: _text(value) for name, value in facts.items()})}"


def check_heading(path: Path, there: str, here: str) -> None:
    """Refuse a file whose heading ``there`` is not that of the stream ``here``, and name the first difference."""
    if not there.startswith(FORM):
        raise ValueError(
            f"{path} is not a stream state of this version: it begins with {there[:40]!r}"
        )
    old, new = (json.loads(line.removeprefix(FORM)) for line in (there, here))
    for name in new | old:
        if old.get(name) != new.get(name):
            raise ValueError(
                f"{path} is the state of another stream: "
                f"{name} is {old.get(name)} there, and {new.get(name)} here"
            )


def _text(value: Any) -> str:
    """Return a value as JSON, or as a digest of it if it is long."""
    text = json.dumps(value, default=_plain).strip('"')
    if len(text) <= _LONGEST:
        return text
    return f"digest {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _plain(value: Any) -> Any:
    """Return what JSON can hold in place of a parameter: of a distribution its quantiles, of other objects the class.

    Quantiles have nine digits, as another machine may round differently.
    """
    if isinstance(value, FloorLaw):
        probabilities = (np.arange(100) + 0.5) / 100
        return [f"{quantile:.9g}" for quantile in value.quantile(probabilities)]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return type(value).__qualname__
