"""The first line of a state: what the stream decides with, by which the state of another one is refused."""

import contextlib
import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from adascale.channel import FloorLaw
from adascale.streaming.journal import Journal

FORM = "adascale stream 2"


def check_heading(journal: Journal, about: dict[str, Any]) -> None:
    """Refuse the state of another stream."""
    path, heading, there = journal.path, journal.heading, None
    with contextlib.suppress(ValueError):
        there = (
            json.loads(heading.removeprefix(FORM)) if heading.startswith(FORM) else None
        )
    if not isinstance(there, dict):
        raise ValueError(
            f"{path} is not a stream state of this version: it begins with {heading[:40]!r}"
        )
    for key in {**about, **there}:
        was, now = (
            json.dumps(heading.get(key)).strip('"') for heading in (there, about)
        )
        if was != now:
            raise ValueError(
                f"{path} is the state of another stream: {key} is {was} there, and {now} here"
            )


def described(policy: Any) -> dict[str, Any]:
    """Return the class of a policy and its parameters."""
    names = (
        [field.name for field in fields(policy)]
        if is_dataclass(policy)
        else sorted(vars(policy))
    )
    parameters = {
        name: _plain(getattr(policy, name))
        for name in names
        if not name.startswith("_")
    }
    return {
        "policy": f"{type(policy).__module__}:{type(policy).__qualname__}"
    } | parameters


def _plain(value: Any) -> Any:
    """Return a policy's parameter as JSON can hold it, a long one by its digest."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, FloorLaw):
        quantiles = value.quantile((np.arange(100) + 0.5) / 100)
        return f"law {digest(' '.join(f'{quantile:.9g}' for quantile in quantiles))}"
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iuf":
        return (
            value.tolist()
            if value.size < 5
            else f"array {digest(repr(value.tolist()))}"
        )
    return (
        value
        if value is None or isinstance(value, bool | int | float | str)
        else type(value).__qualname__
    )


def digest(text: str) -> str:
    """Return sixteen digits of a hash."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
