r"""What the paper says of test accuracy, evaluated on trainings; and the leakage that there is to gain beside it.

Accuracies are evaluated in percentage points, by Student's 95 % t interval over the realisations, paired where two of
the same realisation are compared.  Every interval stands for itself: nothing is corrected for their number.
"""

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import gmean

from adascale.accounting import OrdersTooFew
from adascale.comparison import leakage_table
from adascale.statistics import Interval, interval, log_interval
from companion.claims import CLOSE, MARKS
from companion.figures.style import label_of
from companion.formatting import fixed
from companion.methods import METHODS
from companion.summary import with_ends

if TYPE_CHECKING:
    from adascale.runs.sweep import Entry

CLOSE_POINTS = 1.0
"""Points within which we read accuracies as the same, and one that is quoted without decimals as met."""

FALL_POINTS = 2 * CLOSE_POINTS
"""Points within which we read a fall between two accuracies that are quoted as met, since either may be off by one."""

_NONE = Interval(np.nan, np.nan, np.nan)
_ENDS = {name: METHODS[name] for name in ("Optimal", "EqualAlloc")}


def _verdict_within(low, high, least, most):
    """``holds`` if an interval [low, high] lies in [least, most], ``fails`` if outside, else ``not settled``."""
    if least <= low and high <= most:
        return "holds"
    return "fails" if high < least or low > most else "not settled"


def accuracy_claims(table: pd.DataFrame, quoted: tuple[float, float]) -> pd.DataFrame:
    r"""Return the paper's statements on accuracy, each with its verdict, from a table of trainings.

    In percentage points, with ``quoted`` accuracies (0 ... 1) for the smallest and for the largest :math:`\nu`:

    * *ends*, the mean accuracy there is within one point of what is quoted.
    * *falls*, the paired fall from the smallest :math:`\nu` to this one is above 0.
    * *amount*, that fall at the largest :math:`\nu` is within two points of the quoted one.
    * *same*, the paired difference of a method's accuracy from AdaScale's is within one point of 0.

    The first three are about AdaScale; ``NoiseFree``, which no receiver has, is left out of the last.  An accuracy
    is NaN where a run has not been finished.
    """
    points = 100 * table.pivot(
        index="seed", columns=["policy", "nu"], values="test_accuracy"
    )
    own = points["AdaScale"]
    first, *later = sorted(own)
    last = max(own)
    fall = 100 * (quoted[0] - quoted[1])
    rows = []

    def state(claim, policy, nu, values, least, most):
        """Evaluate a statement: the mean of the values that are known lies between two ends."""
        known = values.dropna()
        mean = interval(known) if len(known) else Interval(np.nan, -np.inf, np.inf)
        verdict = _verdict_within(mean.low, mean.high, least, most)
        rows.append((claim, policy, nu, len(known), *mean, verdict))

    for nu, accuracy in zip((first, last), quoted, strict=True):
        state("ends", "AdaScale", nu, own[nu], *_around(100 * accuracy, CLOSE_POINTS))
    for nu in later:
        state("falls", "AdaScale", nu, own[first] - own[nu], 0, np.inf)
    fallen = own[first] - own[last]
    state("amount", "AdaScale", last, fallen, *_around(fall, FALL_POINTS))
    for policy, nu in points:
        if policy not in ("AdaScale", "NoiseFree") and nu in own:
            apart = points[policy, nu] - own[nu]
            state("same", policy, nu, apart, *_around(0, CLOSE_POINTS))
    columns = ["claim", "policy", "nu", "realisations", "points", "low", "high"]
    return pd.DataFrame(rows, columns=[*columns, "verdict"])


def _around(value, slack):
    return value - slack, value + slack


def accuracy_verdicts(claims: pd.DataFrame) -> pd.DataFrame:
    """Return the claims as a table to read: points and mark, with a row per statement and method, a column per budget.

    ✓ holds, ✗ fails, ? not settled; without points where no run has been finished.
    """
    known = claims.points.map(lambda value: fixed(value, ".2f"), na_action="ignore")
    points = (known + "\N{NO-BREAK SPACE}").fillna("")
    text = points + claims.verdict.map(MARKS)
    wide = claims.assign(text=text).pivot(
        index=["claim", "policy"], columns="nu", values="text"
    )
    wide = wide.reindex(claims[["claim", "policy"]].drop_duplicates()).fillna("")
    wide = wide.rename(label_of, level="policy").rename(columns="ν = {:g}".format)
    return wide.rename_axis(index=["statement", "method"], columns=None)


def reading_table(
    entries: "Iterable[Entry]", results: pd.DataFrame, seeds: Sequence[int]
) -> pd.DataFrame:
    r"""For every reading of a sweep what it does to accuracy, and what there is to gain in leakage.

    ``entries`` are those of :func:`adascale.runs.sweep.read_sweep`, ``results`` their rows, of which the trainings with
    AdaScale are used, and ``seeds`` realisations of the channel for the leakage, which needs no training.

    Rows are per reading and :math:`\nu`, in the sweep's order: ``accuracy, accuracy_low, accuracy_high`` (mean and 95 %
    t interval, in per cent); ``fall, fall_low, fall_high`` (paired, in points, from the smallest :math:`\nu`, or NaN);
    ``gap, gap_low, gap_high``, EqualAlloc's RDP leakage over the optimum's, geometric mean; ``gap_means``, the ratio of
    the mean leakages; ``epsilon_gap``, as ``gap`` but of epsilon; and ``epsilon``, the optimum's, geometric mean, at
    Opacus' orders as in the paper.
    """
    rows = []
    runs = {}
    for reading, run in entries:
        if run.policy == "AdaScale" and run.nu is not None:
            runs.setdefault(reading, {}).setdefault(run.nu, run)
    for reading, levels in runs.items():
        any_run = next(iter(levels.values()))
        budgets = {nu: nu * run.budget_factor for nu, run in levels.items()}
        # at the paper's orders on purpose, though some budgets call for larger ones
        with warnings.catch_warnings(action="ignore", category=OrdersTooFew):
            leaked = leakage_table(
                any_run.scenario,
                budgets.values(),
                seeds,
                _ENDS,
                channel=any_run.channel,
                delta=any_run.delta,
            ).pivot(index="seed", columns=["nu", "policy"])
        trained = results[(results.reading == reading) & (results.policy == "AdaScale")]
        points = 100 * trained.pivot(index="seed", columns="nu", values="test_accuracy")
        for nu, budget in budgets.items():
            rdp, epsilon = leaked["rdp"][budget], leaked["epsilon"][budget]
            fall = points[min(levels)] - points[nu]
            rows.append(
                {"reading": reading, "nu": nu, "budget": budget}
                | with_ends("accuracy", interval(points[nu]))
                | with_ends("fall", interval(fall) if nu > min(levels) else _NONE)
                | with_ends("gap", log_interval(rdp.EqualAlloc / rdp.Optimal))
                | {
                    "gap_means": rdp.EqualAlloc.mean() / rdp.Optimal.mean(),
                    "epsilon_gap": gmean(epsilon.EqualAlloc / epsilon.Optimal),
                    "epsilon": gmean(epsilon.Optimal),
                }
            )
    return pd.DataFrame(rows)


def reading_verdicts(
    readings: pd.DataFrame, quoted: tuple[float, float]
) -> pd.DataFrame:
    r"""Return both headlines side by side, for every reading of a table, at the ends of the range of :math:`\nu`.

    ``small, large``, the mean accuracy at that end is what is quoted, within a point; ``fall``, the paired fall is what
    these two allow, the quoted one within two points; ``gap``, EqualAlloc leaks more than 20 % beyond the optimum at
    the small end; ``narrows``, and more than at the large end; and ``both``, all of these.
    """
    small, large = (100 * accuracy for accuracy in quoted)
    rows = {}
    for reading, levels in readings.groupby("reading", sort=False):
        first, *_, last = levels.sort_values("nu").itertuples()
        narrows = first.gap_low / last.gap_high, first.gap_high / last.gap_low
        # the ends of intervals, and between what they are to lie
        parts = (
            (first.accuracy_low, first.accuracy_high, *_around(small, CLOSE_POINTS)),
            (last.accuracy_low, last.accuracy_high, *_around(large, CLOSE_POINTS)),
            (last.fall_low, last.fall_high, *_around(small - large, FALL_POINTS)),
            (first.gap_low, first.gap_high, CLOSE, np.inf),
            (*narrows, 1, np.inf),
        )
        verdicts = [_verdict_within(*ends) for ends in parts]
        both = max(verdicts, key=["holds", "not settled", "fails"].index)
        rows[reading] = [*verdicts, both]
    columns = ["small", "large", "fall", "gap", "narrows", "both"]
    return pd.DataFrame(rows, columns).T.rename_axis("reading")
