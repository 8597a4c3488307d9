"""The column ``made_with`` of a table: the scenario, interference, policy and version that it was made with.

Its text has no blanks and no usual separators, so that any tool reads the table as it is, for example::

    scenario=mnist|digest=8f14e45fceea167a|interference=none|policy=Learn:budget_mode=hard|nu=0.04|adascale=0.3.0

The digest is that of all the constants of the scenario, with the interference, on which an epsilon depends.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from adascale import __version__
from adascale.errors import InvalidFile
from adascale.scenario import Scenario
from adascale.tables import Table
from adascale.text import MOST_SHOWN, short

COLUMN = "made_with"

_VERSION = "adascale"
_SAME = 1e-6  # relative, as a table may have been written with fewer digits


def mark(scenario: Scenario, interference: float | None, **more: object) -> str:
    """Return the text of the column; ``more`` is what else the table says, such as its policy, without what is None."""
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
    """Return a digest of what epsilon depends on: neither the name nor the horizon nor the order."""
    constants = asdict(replace(scenario, name="any", num_rounds=1, order=2))
    for name, value in constants.items():
        if (
            isinstance(value, tuple) and len({*value}) == 1
        ):  # devices that do not differ
            constants[name] = value[0]
    if (
        constants["privacy_noise_power"] == scenario.noise_power
    ):  # 0 dB, all of the noise
        constants["privacy_noise_power"] = None
    return hashlib.sha256(repr(constants).encode()).hexdigest()[:16]


def differences(texts: Iterable[str]) -> str:
    """Return the first fact in which marks differ, with two of its values; "" if only their versions differ."""
    first, *others = map(_facts, texts)
    for facts in others:
        for name in sorted(
            {**first, **facts}, key=lambda name: name == "digest"
        ):  # what a reader knows comes first
            if name != _VERSION and first.get(name) != facts.get(name):
                return " and ".join(
                    short(f"{name}={each.get(name)}") for each in (first, facts)
                )
    return ""


def check(
    table: Table, marks: dict[str, int], scenario: Scenario, interference: float | None
) -> None:
    """Raise an ``InvalidFile`` unless all rows were made with one thing, which is this scenario, and are all there."""
    texts, m = list(marks), table.names.index(COLUMN)
    if two := differences(texts):
        row = next(
            t
            for t, i in enumerate(table.values[:, m])
            if differences((texts[0], texts[int(i)]))
        )
        raise table.error(row, f"expected rows made with one thing, got {two}")
    facts = _facts(texts[0])
    if "digest" not in facts:
        raise table.error(
            0,
            f"expected {COLUMN} as 'adascale schedule' writes it, got {short(texts[0])}",
        )
    if facts["digest"] != digest(scenario):
        made = f"{facts.get('scenario')} with interference {facts.get('interference')}"
        here = f"{_plain(scenario.name)} with interference {_decibels(interference)}"
        constants = ", with other constants" if made == here else ""
        message = f"was made with the scenario {short(made)[1:-1]}, and is read with {here}{constants}"
        raise InvalidFile(f"{table.path} {message}", table.path)
    rounds = facts.get("rounds")
    if rounds is not None and rounds != str(len(table.values)):
        message = (
            f"was made with {short(rounds)[1:-1]} rounds, and has {len(table.values)}"
        )
        raise InvalidFile(f"{table.path} {message}", table.path)


def check_rounds(
    table: Table, scenario: Scenario, first: tuple[int, ...]
) -> str | None:
    """Raise an ``InvalidFile`` unless the rounds begin with one of ``first``; return a note if they are not T."""
    begins = table.places.get("round", np.array(first))[0]
    if begins not in first:
        raise table.error(
            0, f"expected the rounds from {first[0]} on, got {begins:g} as the first"
        )
    if len(table.values) == scenario.num_rounds:
        return None
    return f"{table.path} has {len(table.values)} rounds, where {scenario.name} has {scenario.num_rounds}"


def check_columns(table: Table, scenario: Scenario) -> None:
    """Raise an ``InvalidFile`` where columns contradict each other or the scenario."""
    columns = dict(zip(table.names, table.values.T, strict=True))
    eta = columns["eta"]
    expected = f"d sigma_n^2 of {scenario.name} is {scenario.noise_scale:.6g}"
    pairs = {"noise_energy times eta": (columns.get("noise_energy"), eta)}
    if "min_gain" in columns:
        most = scenario.x_max * columns["min_gain"]
        pairs["floor times the largest eta"] = (columns.get("floor"), most)
    for name, (energy, scaling) in pairs.items():
        if energy is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                product = np.where(scaling > 0, energy * scaling, scenario.noise_scale)
                off = ~(abs(product / scenario.noise_scale - 1) <= _SAME)
            if off.any():
                row = int(off.argmax())
                raise table.error(
                    row,
                    f"{name} is {product[row]:.6g}, but {expected}: the table is of another scenario",
                )
    energy = columns.get("noise_energy", np.full(eta.size, np.inf))
    if (off := (eta == 0) & (energy < np.inf)).any():
        row = int(off.argmax())
        raise table.error(
            row,
            f"eta is 0, a round that was skipped, but noise_energy is {energy[row]:g}, not inf",
        )


def note_missing(path: Path) -> str:
    """Return a note on a table without the column."""
    return f"{path} has no column {COLUMN}, so that only its numbers were checked against the scenario"


def _decibels(interference: float | None) -> str:
    return "none" if interference is None else f"{interference:g}dB"


def _plain(value: object) -> str:
    return re.sub(r"[|,;\s\"'#\x00-\x1f\x7f-\x9f]+", "_", str(value))[:MOST_SHOWN]


def _facts(text: str) -> dict[str, str]:
    return {
        name: value
        for name, equals, value in (fact.partition("=") for fact in text.split("|"))
        if equals
    }
