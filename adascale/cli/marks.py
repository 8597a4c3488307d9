"""The column ``made_with`` of a table: the scenario, interference, policy and version that it was made with.

Its text has no blanks and no usual separators, so that any tool reads the table as it is, for example::

    scenario=mnist|digest=8f14e45fceea167a|interference=none|policy=Learn:budget_mode=hard|nu=0.04|adascale=0.3.0

The digest is that of all the constants of the scenario, with the interference, on which an epsilon depends.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import asdict, replace

import numpy as np

from adascale import __version__
from adascale.errors import InvalidFile
from adascale.scenario import Scenario
from adascale.tables import Table
from adascale.text import MOST_SHOWN, short

COLUMN = "made_with"

_VERSION = "adascale"
_SAME = 1e-6  # relative difference that is none, as a table may have been written with fewer digits


def mark(scenario: Scenario, interference: float | None, **more: object) -> str:
    """Return the text of the column.

    ``interference`` is in dB, and ``more`` is what else the table says, such as its policy; what is None is left out.
    """
    values = {
        "scenario": scenario.name,
        "digest": digest(scenario),
        "interference": _decibels(interference),
    }
    facts = values | more | {_VERSION: __version__}
    return "|".join(
        f"{name}={_plain(value)}" for name, value in facts.items() if value is not None
    )


def digest(scenario: Scenario) -> str:
    """Return a digest of what epsilon depends on, the same for the same devices: no name, horizon or Renyi order."""
    constants = asdict(replace(scenario, name="any", num_rounds=1, order=2))
    for name, value in constants.items():
        # one number for each device may be given as one for all
        if isinstance(value, tuple) and len({*value}) == 1:
            constants[name] = value[0]
    # None says that all of the noise protects
    if constants["privacy_noise_power"] == scenario.noise_power:
        constants["privacy_noise_power"] = None
    if constants["weights"] is None:  # as before scenarios could have weights
        del constants["weights"]
    return hashlib.sha256(repr(constants).encode()).hexdigest()[:16]


def differences(texts: Iterable[str]) -> str:
    """Return the first fact in which marks differ, with two of its values; "" if at most their versions differ."""
    first, *others = map(_facts, texts)
    for facts in others:
        # the digest last: a reader knows the other facts
        names = sorted({**first, **facts}, key=lambda name: name == "digest")
        for name in names:
            values = [marked.get(name) for marked in (first, facts)]
            if name != _VERSION and values[0] != values[1]:
                return " and ".join(short(f"{name}={value}") for value in values)
    return ""


def check(
    table: Table, marks: dict[str, int], scenario: Scenario, interference: float | None
) -> None:
    """Raise an ``InvalidFile`` unless all rows have one mark, which is of this scenario, and no row is missing.

    A table has only numbers, so its column has the number that ``marks`` gives to each text.
    """
    texts, column = list(marks), table.names.index(COLUMN)
    two = differences(texts)
    if two:
        others = [i for i, text in enumerate(texts) if differences((texts[0], text))]
        row = int(np.isin(table.values[:, column], others).argmax())
        raise table.error(row, f"expected rows made with one thing, got {two}")
    facts = _facts(texts[0])
    if "digest" not in facts:
        text = short(texts[0])
        message = f"expected {COLUMN} as 'adascale schedule' writes it, got {text}"
        raise table.error(0, message)
    message = ""
    # short() is for the length alone here, without its quotes
    rounds, number = facts.get("rounds"), len(table.values)
    if facts["digest"] != digest(scenario):
        there = f"{facts.get('scenario')} with interference {facts.get('interference')}"
        here = f"{_plain(scenario.name)} with interference {_decibels(interference)}"
        constants = ", with other constants" if there == here else ""
        message = (
            f"the scenario {short(there)[1:-1]}, and is read with {here}{constants}"
        )
    elif rounds not in (None, str(number)):
        message = f"{short(str(rounds))[1:-1]} rounds, and has {number}"
    if message:
        raise InvalidFile(f"{table.path} was made with {message}", table.path)


def check_rounds(
    table: Table, scenario: Scenario, first: tuple[int, ...]
) -> str | None:
    """Raise an ``InvalidFile`` unless the rounds begin with one of ``first``; return a note if not all T are there."""
    # a table without a column round counts as right
    begins = table.places.get("round", np.array(first))[0]
    if begins not in first:
        raise table.error(
            0, f"expected the rounds from {first[0]} on, got {begins:g} as the first"
        )
    number = len(table.values)
    if number == scenario.num_rounds:
        return None
    return f"{table.path} has {number} rounds, where {scenario.name} has {scenario.num_rounds}"


def check_columns(table: Table, scenario: Scenario) -> None:
    """Raise an ``InvalidFile`` where a noise energy or a floor is not that of its scaling in this scenario.

    The noise energy is d sigma_n^2 / eta, and the floor is that at the largest eta, x_max times ``min_gain``.
    """
    columns = dict(zip(table.names, table.values.T, strict=True))
    pairs = [("noise_energy times eta", "noise_energy", columns["eta"])]
    if "min_gain" in columns:
        max_eta = scenario.x_max * columns["min_gain"]
        pairs.append(("floor times the largest eta", "floor", max_eta))
    for what, name, scaling in pairs:
        if name not in columns:
            continue
        energy, scale = columns[name], scenario.noise_scale
        # infinity times 0 is no number
        is_skipped = (scaling == 0) & (energy == np.inf)
        with np.errstate(over="ignore", invalid="ignore"):
            product = np.where(is_skipped, scale, energy * scaling)
            off = ~(abs(product / scale - 1) <= _SAME)
        if off.any():
            row = int(off.argmax())
            raise table.error(
                row,
                f"{what} is {product[row]:.6g}, but d sigma_n^2 of {scenario.name} is {scale:.6g}: "
                "the table is of another scenario",
            )


def _decibels(interference: float | None) -> str:
    return "none" if interference is None else f"{interference:g}dB"


def _plain(value: object) -> str:
    """Return a value without the blanks and separators that would split a field or a mark."""
    return re.sub(r"[|,;\s\"'#\x00-\x1f\x7f-\x9f]+", "_", str(value))[:MOST_SHOWN]


def _facts(text: str) -> dict[str, str]:
    """Return the names and values in a mark."""
    return {
        name: value
        for name, equals, value in (fact.partition("=") for fact in text.split("|"))
        if equals
    }
