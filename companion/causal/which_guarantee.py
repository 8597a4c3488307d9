"""What is guaranteed on which channel: every theorem on policies against every kind of channel.

A cell holds, with the label of a theorem whose proof covers it; or fails, with a counterexample that the tests run
(``companion/tests/counterexamples.py``); or is open.
"""

from __future__ import annotations

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

_ACCOUNTED = "? proved of the accounted leakage only"
_HALVES = "!two halves, level"

GUARANTEES: dict[str, tuple[str, ...]] = {
    "the offline optimum is a water level": ("thm-water-filling", *"=====", _ACCOUNTED),
    "a hard budget is kept on every path": ("eq:resolving", *["thm-learning-hard"] * 6),
    "AdaScale's queue and violation are bounded on every path": (
        "thm-queue-sharp",
        *"======",
    ),
    "AdaScale's regret is bounded on every path": ("thm-regret", *"=====", _ACCOUNTED),
    "AdaScale's mean regret is at most D/2V": (
        *("thm-regret-iid", "=", "=", "!blocks", "!two halves", "=", _ACCOUNTED),
    ),
    "the same, with a lag": (
        "thm-correlated",
        *"===",
        "? the bound needs one law",
        "=",
        _ACCOUNTED,
    ),
    "AdaScale's regret vanishes with T": (
        *(
            "cor-vanish",
            "=",
            "=",
            "thm-correlated",
            "!two halves, longer",
            "=",
            _ACCOUNTED,
        ),
    ),
    "from any start, with V mu >= nu, AdaScale loses at most (T s^2 + (Q0 + nu - V mu)^2)/2V": (
        *(
            "thm-warm-start",
            "=",
            "=",
            "!warm blocks",
            "!two halves, warm",
            "=",
            _ACCOUNTED,
        ),
    ),
    "the constant level costs nu in the mean, and leaks least": (
        *(
            "thm-constant-level",
            "=",
            "!wrong law",
            "=",
            _HALVES,
            "!wrong law",
            _ACCOUNTED,
        ),
    ),
    "its cost scatters about nu with the variance s^2/T": (
        *(
            "thm-constant-level",
            "=",
            "!wrong law",
            "!scatter",
            _HALVES,
            "!wrong law",
            "=",
        ),
    ),
    "re-solving pays A ln T for a hard budget": (
        *(
            "thm-hard-budget",
            "=",
            "!wrong law, hard",
            "!hard blocks",
            "!two halves, hard",
            "!wrong law, hard",
        ),
        _ACCOUNTED,
    ),
    "learning pays 2A ln T for a hard budget": (
        *(
            "thm-learning-hard",
            "=",
            "=",
            "!hard blocks",
            "!two halves, hard",
            "=",
            _ACCOUNTED,
        ),
    ),
    "the bound on the training counts all its noise": (
        "thm-convergence",
        *"=====",
        "!estimated sum",
    ),
    "epsilon is what is accounted for": (
        "prop-composition",
        *"=====",
        "!estimated leakage",
    ),
}
"""Each statement with the label of its theorem and a cell for each of :data:`KINDS`.

A cell is a label, for holds, ``=`` for the row's; ``!name`` of a counterexample, for fails; or ``? what is known``.

:meta hide-value:
"""


def guarantees_table() -> pd.DataFrame:
    """Return :data:`GUARANTEES` as text: statements in rows, kinds of channels in columns."""
    verdicts = {"!": "fails: ", "?": "open: "}
    rows = {
        statement: [
            verdicts.get(cell[0], "holds: ") + cell.lstrip("!? ").replace("=", label)
            for cell in cells
        ]
        for statement, (label, *cells) in GUARANTEES.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=KINDS)
