r"""What the chapter on the benchmarks shows: two protocols side by side, where a schedule leaks, what a choice does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adascale import channel, policies, presets
from adascale import checks as check
from adascale.comparison import Method, TunedOnRealisation, leakage_table
from adascale.comparison.shi_tuning import match_lyapunov
from adascale.problem import ReceiveScalingProblem, RoundLeakage
from adascale.statistics import log_interval
from companion.causal.fresh import HINDSIGHT
from companion.claims import compare
from companion.methods import METHODS
from companion.shi import filled_lyapunov
from companion.summary import promises

FloatArray = NDArray[np.float64]

CHOICES: dict[str, tuple[str, Method]] = {
    "EstimFuture: reading devices": ("EstimFuture", TunedOnRealisation(policies.EstimFuture, estimate="devices")),
    "PowerControl: reading minimum": ("PowerControl", TunedOnRealisation(policies.PowerControl, estimate="minimum")),
    "PowerControl: r = 0.999": ("PowerControl", TunedOnRealisation(policies.PowerControl, contraction=0.999)),
    "PowerControl: r = 0.99": ("PowerControl", TunedOnRealisation(policies.PowerControl, contraction=0.99)),
    "PowerControl: not subtracted": ("PowerControl", TunedOnRealisation(policies.PowerControl, subtract=False)),
}
"""Choices that change a method of the figures, each with the method it changes.

:meta hide-value:
"""


def both_protocols(table: pd.DataFrame, levels: Sequence[float]) -> pd.DataFrame:
    r"""The paper's methods and a constant level, tuned in hindsight and without the future.

    A constant tuned in hindsight is Optimal (:prf:ref:`thm-water-filling`); EstimFuture and EqualAlloc have nothing to
    tune.

    Parameters
    ----------
    table : pandas.DataFrame
        As :func:`~companion.causal.fresh.read` gives it.
    levels : sequence of float
        The :math:`\nu` wanted.

    Returns
    -------
    pandas.DataFrame
        A row a method and level: the mean of ``epsilon`` over Optimal's ``in_hindsight``, and ``unseen``, on the same
        realisations; ``cost`` and ``spread``, mean and standard deviation of the cost over :math:`\nu`, unseen.
    """
    kept = promises(table).set_index(["policy", "nu"])
    names = ("ConstantLevel", "AdaScale", "EstimFuture", "PowerControl", "LyapunovPowerControl", "EqualAlloc")
    seen = {"ConstantLevel": "Optimal", "EstimFuture": "EstimFuture", "EqualAlloc": "EqualAlloc"}
    rows = {}
    for name in names:
        for nu in levels:
            tuned, unseen = kept.loc[(seen.get(name, name + HINDSIGHT), nu)], kept.loc[(name, nu)]
            rows[name, nu] = {
                "in_hindsight": tuned.epsilon,
                "unseen": unseen.epsilon,
                "cost": unseen.cost,
                "spread": unseen.spread,
            }
    return pd.DataFrame(rows).T.rename_axis(["policy", "nu"])


def late_share(problem: ReceiveScalingProblem, eta: FloatArray, rounds: int) -> FloatArray:
    """The share of the RDP leakage that the last ``rounds`` rounds carry, of every lane."""
    loss = RoundLeakage(problem.scenario)(problem.noise_energy(eta))
    share: FloatArray = loss[..., -check.whole("rounds", rounds) :].sum(axis=-1) / loss.sum(axis=-1)
    return share


class FullPower(NamedTuple):
    """Rounds at full power, of every lane: as shares of the rounds, and of the RDP leakage."""

    rounds: FloatArray
    """How many rounds are at full power."""
    needless: FloatArray
    """How many of all rounds are, although the optimum is not."""
    carried: FloatArray
    """The leakage of these needless ones."""
    early: FloatArray
    """The leakage of those among the first ten rounds."""
    first: FloatArray
    """The leakage of round 0."""
    optimal: FloatArray
    """How many rounds are at full power under the optimum."""


def full_power(problem: ReceiveScalingProblem, eta: FloatArray) -> FullPower:
    """Where a schedule is at full power, and what it leaks there.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        Lanes of any shape.
    eta : numpy.ndarray
        A schedule, shape (..., T).

    Returns
    -------
    FullPower
        Each of the shape of the lanes.
    """
    loss = RoundLeakage(problem.scenario)(problem.noise_energy(eta))
    full = eta == problem.max_eta
    optimal = policies.Optimal().schedule(problem) == problem.max_eta
    needless = full & ~optimal
    total = loss.sum(axis=-1)
    carried, early = ((loss * needless)[..., :end].sum(axis=-1) / total for end in (None, 10))
    rounds, few, best = (each.mean(axis=-1) for each in (full, needless, optimal))
    return FullPower(rounds, few, carried, early, loss[..., 0] / total, best)


def order_table(dataset: str, levels: Sequence[float], seeds: Iterable[int], orders: Sequence[float]) -> pd.DataFrame:
    r"""The epsilon of AdaScale, tuned at several orders, over that at the first of them.

    Parameters
    ----------
    dataset : str
    levels : sequence of float
    seeds : iterable of int
    orders : sequence of float
        :math:`\alpha`, the reference first.

    Returns
    -------
    pandas.DataFrame
        Index ``nu, seed``; a column an order.
    """
    scenario, seeds = presets.load(dataset).scenario, list(seeds)
    tables = {
        order: leakage_table(replace(scenario, order=order), levels, seeds, {"AdaScale": METHODS["AdaScale"]})
        for order in orders
    }
    wide = pd.DataFrame({order: table.set_index(["nu", "seed"])["epsilon"] for order, table in tables.items()})
    return wide.div(wide[orders[0]], axis=0)


def choices_table(dataset: str, levels: Sequence[float], seeds: Iterable[int]) -> pd.DataFrame:
    """What each choice that the paper leaves open does: epsilon with it, over epsilon as in the figures.

    A row a choice and level: ``choice, nu, ratio, low, high`` (geometric mean and 95 % interval).  Arguments as of
    :func:`order_table`.
    """
    scenario, seeds = presets.load(dataset).scenario, list(seeds)
    methods = {name: METHODS[name] for name in ("EstimFuture", "PowerControl")}
    table = leakage_table(scenario, levels, seeds, methods | {name: each for name, (_, each) in CHOICES.items()})
    rows = []
    for name, (base, _) in CHOICES.items():
        compared = compare(table, "epsilon", name, base)
        rows += [(name, *row) for row in compared[["nu", "ratio", "low", "high"]].itertuples(index=False)]

    gain = channel.draw(scenario.num_devices, scenario.num_rounds, seeds).gain
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(gain), np.array(levels)[:, None])
    matched = match_lyapunov(problem)
    by_lane, kept = matched.pairs.groupby("lane")["epsilon"], matched.penalty / matched.rate**3
    kindest = by_lane.min().to_numpy()
    others = {"worst pair on the grid": by_lane.max().to_numpy()}
    for r in (0.999, 0.99):
        pairs = match_lyapunov(problem, contraction=r).pairs
        others[f"r = {r:g}"] = pairs.groupby("lane")["epsilon"].min().to_numpy()
    for name, multiple in (("queue filled at the start", kept), ("filled, and V = 30 η̄³", 30.0)):
        others[name] = problem.dp_epsilon(filled_lyapunov(problem, multiple=multiple).schedule(problem)).ravel()
    for name, epsilon in others.items():
        ratios = (epsilon / kindest).reshape(problem.lanes)
        rows += [
            (f"LyapunovPowerControl: {name}", nu, *log_interval(row)) for nu, row in zip(levels, ratios, strict=True)
        ]

    by_order = order_table(dataset, levels, seeds, (scenario.order, 32))[32]
    rows += [("AdaScale: order 32", nu, *log_interval(by_order.loc[nu])) for nu in levels]
    return pd.DataFrame(rows, columns=["choice", "nu", "ratio", "low", "high"])
