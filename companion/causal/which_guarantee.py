"""What is guaranteed on which channel: every theorem on policies against every kind of channel.

A cell holds, with the label of a theorem whose proof covers it; or fails, with a counterexample that the tests run
(``companion/tests/counterexamples.py``); or is open.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

KINDS = {
    "known": "independent, law known",
    "unknown": "independent, law unknown",
    "correlated": "one law, correlated (ergodic)",
    "moving": "no law stays",
    "believed": "independent, another law believed",
    "estimated": "coefficients estimated",
}
"""The kinds of channels, columns of the table."""


class Cell(NamedTuple):
    """One theorem on one kind of channel."""

    verdict: str
    """``holds``, ``fails`` or ``open``."""
    why: str
    """The label of a proof, the name of a counterexample, or what is known."""


class Guarantee(NamedTuple):
    """One statement on every kind of channel."""

    statement: str
    """In words."""
    label: str
    """Of its theorem in the book."""
    cells: dict[str, Cell]
    """By the keys of :data:`KINDS`."""


def _row(statement: str, label: str, *cells: str) -> Guarantee:
    """A cell is a label, for holds, ``=`` for the row's; ``!name`` of a counterexample; or ``? what is known``."""
    read = {"!": "fails", "?": "open"}
    found = [Cell(read.get(cell[0], "holds"), label if cell == "=" else cell.lstrip("!? ")) for cell in cells]
    return Guarantee(statement, label, dict(zip(KINDS, found, strict=True)))


_ACCOUNTED = "? proved of the accounted leakage only"
_HALVES = "!two halves, level"

GUARANTEES: tuple[Guarantee, ...] = (
    _row("the offline optimum is a water level", "thm-water-filling", *"=====", _ACCOUNTED),
    _row("a hard budget is kept on every path", "eq:resolving", *["thm-learning-hard"] * 6),
    _row("AdaScale's queue and violation are bounded on every path", "thm-queue-sharp", *"======"),
    _row("AdaScale's regret is bounded on every path", "thm-regret", *"=====", _ACCOUNTED),
    _row("AdaScale's mean regret is at most D/2V", "thm-regret-iid", *"==", "!blocks", "!two halves", "=", _ACCOUNTED),
    _row("the same, with a lag", "thm-correlated", *"===", "? the bound needs one law", "=", _ACCOUNTED),
    _row(
        "AdaScale's regret vanishes with T",
        *("cor-vanish", "=", "=", "thm-correlated", "!two halves, longer", "=", _ACCOUNTED),
    ),
    _row(
        "from any start, with V mu >= nu, AdaScale loses at most (T s^2 + (Q0 + nu - V mu)^2)/2V",
        *("thm-warm-start", "=", "=", "!warm blocks", "!two halves, warm", "=", _ACCOUNTED),
    ),
    _row(
        "the constant level costs nu in the mean, and leaks least",
        *("thm-constant-level", "=", "!wrong law", "=", _HALVES, "!wrong law", _ACCOUNTED),
    ),
    _row(
        "its cost scatters about nu with the variance s^2/T",
        *("thm-constant-level", "=", "!wrong law", "!scatter", _HALVES, "!wrong law", "="),
    ),
    _row(
        "re-solving pays A ln T for a hard budget",
        *("thm-hard-budget", "=", "!wrong law, hard", "!hard blocks", "!two halves, hard", "!wrong law, hard"),
        _ACCOUNTED,
    ),
    _row(
        "learning pays 2A ln T for a hard budget",
        *("thm-learning-hard", "=", "=", "!hard blocks", "!two halves, hard", "=", _ACCOUNTED),
    ),
    _row("the bound on the training counts all its noise", "thm-convergence", *"=====", "!estimated sum"),
    _row("epsilon is what is accounted for", "prop-composition", *"=====", "!estimated leakage"),
)
"""The table.

:meta hide-value:
"""


def guarantees_table() -> pd.DataFrame:
    """:data:`GUARANTEES` as a table of text: statements in rows, kinds of channels in columns."""
    rows = {each.statement: [f"{cell.verdict}: {cell.why}" for cell in each.cells.values()] for each in GUARANTEES}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(KINDS.values()))
