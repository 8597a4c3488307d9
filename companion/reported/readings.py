r"""The numbers that the appendix on readings of the benchmarks tells; see :mod:`companion.reported`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adascale import policies
from adascale.comparison.shi_tuning import LyapunovMatch, match_lyapunov
from adascale.problem import ReceiveScalingProblem
from companion.formatting import Texts
from companion.leakage.benchmarks import full_power

FloatArray = NDArray[np.float64]

NAMED = {
    "devices-mnist": ("EstimFuture: reading devices", "mnist"),
    "devices-cifar": ("EstimFuture: reading devices", "cifar10"),
    "contracted-low": ("LyapunovPowerControl: r = 0.99", "mnist"),
    "contracted-cifar": ("LyapunovPowerControl: r = 0.99", "cifar10"),
}
"""The choices whose effect at the smallest nu is told, each with the data set."""


def of_choices(effect: pd.DataFrame) -> Texts:
    """Of choices, data sets and levels, as an index: ratio with its interval."""
    texts: Texts = {}
    for name, (choice, data) in NAMED.items():
        rows = effect.loc[(choice, data)].sort_index()
        ends = {name: rows.iloc[0]} | ({"contracted-high": rows.iloc[-1]} if name == "contracted-low" else {})
        texts |= {key: f"{row.ratio:.2f} [{row.low:.2f}, {row.high:.2f}]" for key, row in ends.items()}
    still = effect.loc["LyapunovPowerControl: r = 0.999"].ratio
    return texts | {"contracted-little": f"{100 * abs(still - 1).max():.0f}"}


def of_options(ratio: pd.DataFrame, overspent: FloatArray, rounds: int) -> Texts:
    r"""Of the ratio of epsilon to the optimum's for options of power control.

    Parameters
    ----------
    ratio : pandas.DataFrame
        A row a level of :math:`\nu`, a column an option.
    overspent : numpy.ndarray
        The sum of the scalings over what was promised, without subtraction.
    rounds : int
        T.
    """
    texts = {"offline-99": f"{ratio['offline, r = 0.99'].max():.1f}"}
    for name, each in {"pc": "devices, r = 1", "pc-minimum": "minimum, r = 1"}.items():
        texts |= {f"{name}-low": f"{ratio[each].iloc[0]:.2f}", f"{name}-high": f"{ratio[each].iloc[-1]:.2f}"}
    for name, each in {"pc-99": "devices, r = 0.99", "pc-not": "devices, r = 1, not subtracted"}.items():
        texts |= {f"{name}-low": f"{ratio[each].min():.1f}", f"{name}-high": f"{ratio[each].max():.0f}"}
    return texts | {
        "overspent-low": f"{overspent.min():.1f}",
        "overspent-high": f"{overspent.max():.1f}",
        "growth-99": f"{0.99 ** (-0.5 * (rounds - 1)):.0f}",
        "growth-999": f"{0.999 ** (-0.5 * (rounds - 1)):.2f}",
    }


class Scan(NamedTuple):
    """Where the cost of Lyapunov power control rises with V, although a larger V weighs noise more."""

    relative_penalty: FloatArray
    r""":math:`V / \bar\eta^3`, increasing, shape (P,)."""
    cost: FloatArray
    r"""Cost over :math:`\nu`, a row a rate, shape (R, P)."""

    @property
    def rises_below(self) -> FloatArray:
        """The share of steps up to one quarter that rise, for each rate."""
        return self._rises(self.relative_penalty[1:] <= 0.25)

    @property
    def rises_above(self) -> FloatArray:
        """The same of the steps beyond."""
        return self._rises(self.relative_penalty[1:] > 0.25)

    @property
    def crossings(self) -> NDArray[np.bool_]:
        r"""In which steps the cost passes :math:`\nu`, shape (R, P - 1)."""
        above: NDArray[np.bool_] = self.cost > 1
        passed: NDArray[np.bool_] = above[:, 1:] != above[:, :-1]
        return passed

    def plateau(self, rate: int) -> FloatArray:
        """The cost of one rate within the decade of V beyond the cubed rate."""
        decade: FloatArray = self.cost[rate, (self.relative_penalty > 1) & (self.relative_penalty < 10)]
        return decade

    def _rises(self, steps: NDArray[np.bool_]) -> FloatArray:
        share: FloatArray = (np.diff(self.cost, axis=-1) > 0)[:, steps].mean(axis=-1)
        return share


def of_scan(scan: Scan, at_least: int) -> Texts:
    r"""Of a scan: shares of rises, and how flat the plateau is of the rate in row ``at_least``, :math:`S^\star/T`."""
    return {
        "rise-below": f"{100 * scan.rises_below.mean():.0f}",
        "rise-above": f"{100 * scan.rises_above.mean():.1f}",
        "plateau": f"{100 * abs(scan.plateau(at_least) - 1).max():.0f}",
        "most-crossings": f"{scan.crossings.sum(axis=-1).max()}",
    }


class Opening(NamedTuple):
    """How a training begins with a penalty that is constant, and with one that grows."""

    start: FloatArray
    r"""Median :math:`V / \bar\eta^3` of the kindest pairs, at each level of :math:`\nu`."""
    early: FloatArray
    """The share of the leakage that needless full power in the first ten rounds carries, at each level."""


def openings(problem: ReceiveScalingProblem, contractions: tuple[float, ...] = (1.0, 0.99)) -> dict[float, Opening]:
    r"""The kindest pairs of Lyapunov power control for each contraction; lanes are levels of :math:`\nu` and seeds."""
    found = {}
    for r in contractions:
        matched = match_lyapunov(problem, contraction=r)
        eta = policies.LyapunovPowerControl(matched.penalty, matched.rate, r).schedule(problem)
        start = np.median(matched.penalty / matched.rate**3, axis=-1)
        found[r] = Opening(start, full_power(problem, eta).early.mean(axis=-1))
    return found


def of_pairs(
    problem: ReceiveScalingProblem, matched: LyapunovMatch, pairs: pd.DataFrame, opened: Mapping[float, Opening]
) -> Texts:
    r"""Of the pairs that cost :math:`\nu`: where the kindest one is, what it overspends, and why growth may help."""
    best = pairs.loc[pairs.groupby("lane").over.idxmin()]
    half = pairs[(pairs.nu == pairs.nu.max()) & (pairs.relative_rate == 0.5)].groupby("lane").over.min()
    flat = half.to_numpy() / best[best.lane.isin(half.index)].over.to_numpy() - 1
    eta = policies.LyapunovPowerControl(matched.penalty, matched.rate).schedule(problem)
    over_rate, rounds = eta.mean(axis=-1) / matched.rate, problem.num_rounds
    growing, constant = opened[0.99], opened[1.0]
    return {
        "at-one": f"{100 * best.relative_rate.between(0.97, 1.03).mean():.0f}",
        "flat": f"{(flat < 0.025).sum()}",
        "overspend": f"{100 * (np.median(over_rate) - 1):.1f}",
        "overspending": f"{(over_rate > 1).sum()}",
        "of-pairs": f"{over_rate.size}",
        "start-99": f"{growing.start[0]:.0f}",
        "start-1": f"{constant.start[0]:.0f}",
        "end-99": f"{growing.start[0] * 0.99**-rounds:.0f}",
        "early-99": f"{100 * growing.early[0]:.0f}",
        "early-1": f"{100 * constant.early[0]:.0f}",
        "growth": f"{0.99**-rounds:.0f}",
        "growth-cifar": f"{0.99**-720.0:,.0f}",
    }
