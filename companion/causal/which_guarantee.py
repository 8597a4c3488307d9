"""What is guaranteed on which channel: every theorem on policies against every kind of channel.

A cell holds, with the label of a theorem whose proof covers it; or fails, with a counterexample that the tests run
(``companion/tests/counterexamples.py``); or is open.
"""

import pandas as pd

KINDS = (
    "independent, law known",
    "independent, law unknown",
    "one law, correlated (ergodic)",
    "no law stays",
    "independent, another law believed",
    "coefficients estimated",
)
"""The kinds of channels, columns of the table."""

GUARANTEES = """\
the offline optimum is a water level
    thm-water-filling | = | = | = | = | = | ?
a hard budget is kept on every path
    thm-learning-hard | = | = | = | = | = | =
AdaScale's queue and violation are bounded on every path
    thm-queue-sharp | = | = | = | = | = | =
AdaScale's regret is bounded on every path
    thm-regret | = | = | = | = | = | ?
AdaScale's mean regret is at most D/2V
    thm-regret-iid | = | = | !blocks | !two halves | = | ?
the same, with a lag
    thm-correlated | = | = | = | ? the bound needs one law | = | ?
AdaScale's regret vanishes with T
    cor-vanish | = | = | thm-correlated | !two halves, longer | = | ?
from any start, with V mu >= nu, AdaScale loses at most (T s^2 + (Q0 + nu - V mu)^2)/2V
    thm-warm-start | = | = | !warm blocks | !two halves, warm | = | ?
the constant level costs nu in the mean, and leaks least
    thm-constant-level | = | !wrong law | = | !two halves, level | !wrong law | ?
its cost scatters about nu with the variance s^2/T
    thm-constant-level | = | !wrong law | !scatter | !two halves, level | !wrong law | =
re-solving pays A ln T for a hard budget
    thm-hard-budget | = | !wrong law, hard | !hard blocks | !two halves, hard | !wrong law, hard | ?
learning pays 2A ln T for a hard budget
    thm-learning-hard | = | = | !hard blocks | !two halves, hard | = | ?
the bound on the training counts all its noise
    thm-convergence | = | = | = | = | = | !estimated sum
epsilon is what is accounted for
    prop-composition | = | = | = | = | = | !estimated leakage
"""
"""Statements, each above the label of its theorem and a cell for each of :data:`KINDS`.

A cell is a label, for holds, ``=`` for the theorem's; ``!name`` of a counterexample, for fails; or ``? what is known``,
and without words that the accounted leakage alone is proved.

:meta hide-value:
"""


def guarantees_table() -> pd.DataFrame:
    """Return :data:`GUARANTEES` as text: statements in rows, kinds of channels in columns."""
    rows = {}
    lines = GUARANTEES.splitlines()
    for statement, line in zip(lines[::2], lines[1::2], strict=True):
        label, *cells = line.strip().split(" | ")
        rows[statement] = [_verdict(cell, label) for cell in cells]
    return pd.DataFrame.from_dict(rows, orient="index", columns=KINDS)


def _verdict(cell, label):
    if cell.startswith("?"):
        return "open: " + (cell[2:] or "proved of the accounted leakage only")
    return (
        f"fails: {cell[1:]}" if cell[0] == "!" else f"holds: {cell.replace('=', label)}"
    )
