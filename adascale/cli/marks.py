"""The column ``made_with`` of a table: the scenario, interference, policy and version that it was made with.

Its text has no blanks and no usual separators, so that any tool reads the table as it is, for example::

    scenario=mnist|digest=8f14e45fceea167a|interference=none|policy=learn:budget_mode=hard|adascale=0.3.0

The digest is that of all the constants of the scenario, with the interference, on which an epsilon depends.
"""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

from adascale import __version__
from adascale.errors import InvalidFile
from adascale.scenario import Scenario
from adascale.tables import Table

COLUMN = "made_with"


def mark(scenario: Scenario, interference: float | None, **more: object) -> str:
    """Return the text of the column; ``more`` is what else the table says, such as its policy."""
    values = {"scenario": scenario.name, "digest": digest(scenario), "interference": _decibels(interference)}
    facts = values | more | {"adascale": __version__}
    return "|".join(f"{name}={_plain(value)}" for name, value in facts.items())


def digest(scenario: Scenario) -> str:
    """Return a digest of what epsilon depends on: neither the name nor the horizon nor the order."""
    constants = replace(scenario, name="any", num_rounds=1, order=2)
    return hashlib.sha256(constants.to_toml().encode()).hexdigest()[:16]


def check(table: Table, marks: dict[str, int], scenario: Scenario, interference: float | None) -> None:
    """Raise an ``InvalidFile`` unless all rows were made with one thing, which is this scenario, and are all there."""
    texts = list(marks)
    if len(texts) > 1:
        m = table.names.index(COLUMN)
        row = int((table.values[:, m] != table.values[0, m]).argmax())
        raise table.error(row, f"expected rows made with one thing, got {texts[0]} and {texts[1]}", m)
    facts = dict(fact.partition("=")[::2] for fact in texts[0].split("|"))
    if facts.get("digest") != digest(scenario):
        made = f"{facts.get('scenario')} with interference {facts.get('interference')}"
        here = f"{_plain(scenario.name)} with interference {_decibels(interference)}"
        constants = ", with other constants" if made == here else ""
        raise InvalidFile(
            f"{table.path} was made with the scenario {made}, and is read with {here}{constants}", table.path
        )
    rounds = facts.get("rounds")
    if rounds is not None and rounds != str(len(table.values)):
        raise InvalidFile(f"{table.path} was made with {rounds} rounds, and has {len(table.values)}", table.path)


def check_energies(table: Table, scenario: Scenario) -> None:
    """Raise an ``InvalidFile`` where the noise energy times eta is not that of the scenario."""
    eta, energy = (table.values[:, table.names.index(name)] for name in ("eta", "noise_energy"))
    sent = eta > 0
    product = eta[sent] * energy[sent]
    off = abs(product / scenario.noise_scale - 1) > 1e-6
    if off.any():
        row = int(sent.nonzero()[0][off.argmax()])
        found = f"noise_energy times eta is {product[off.argmax()]:.6g}"
        expected = f"d sigma_n^2 of {scenario.name} is {scenario.noise_scale:.6g}"
        raise table.error(row, f"{found}, but {expected}: the table is of another scenario")


def note_missing(path: Path) -> str:
    """Return a note on a table without the column."""
    return f"{path} has no column {COLUMN}, so that only its numbers were checked against the scenario"


def _decibels(interference: float | None) -> str:
    return "none" if interference is None else f"{interference:g}dB"


def _plain(value: object) -> str:
    return re.sub(r"[|,;\s\"'#\x00-\x1f\x7f-\x9f]+", "_", str(value))
