r"""Tuning a policy so that its cost is the budget, as the paper does before it compares leakages."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import elementwise

from adascale import checks as check
from adascale.policies import LyapunovPowerControl, Optimal, schedule
from adascale.policies.optimal import water_level
from adascale.problem import ReceiveScalingProblem


class BudgetNotReached(RuntimeError):
    """No parameter of a policy brings its cost to the budget."""


def match_budget(
    policy: Callable, problem: ReceiveScalingProblem, *statistics, guess=None, tolerance: float = 1e-9
) -> np.ndarray:
    r"""The parameter of a policy whose mean cost equals :math:`\nu` in every lane.

    It runs the policy over the whole horizon again and again: it **sees the whole future**.  The paper tunes "for
    each value of nu"; a parameter for each realisation is how this book reads it.  For AdaScale it is the penalty V.

    Parameters
    ----------
    policy : callable
        From an array of positive parameters, one a lane, to a policy with ``schedule``: ``policies.AdaScale``.  The
        cost must be continuous in the parameter and cross the budget once.
    problem : ReceiveScalingProblem
        The lanes to match.
    *statistics : array_like
        What else the policy needs to know of its lanes, each of shape (..., M), for example ``mean_gain``: its leading
        axes broadcast against the lanes.  The policy is called with the parameters and then these, lane by lane.
    guess : array_like, optional
        Where the search starts and widens from, by ratio: positive, broadcasts against the lanes.  Default:
        ``policy.guess(problem)`` where the policy has one, else 1.
    tolerance : float
        Largest :math:`|\mathrm{cost} / \nu - 1|`.

    Returns
    -------
    numpy.ndarray
        The parameter of each lane, shape ``problem.lanes``.

    Raises
    ------
    BudgetNotReached
        If some lane's cost cannot be brought to its budget: the message names the lane, and nothing is returned.
    """
    lanes = _Lanes(problem, *statistics)

    def excess(log_parameter, lane):
        return lanes.excess(policy, lane, np.exp(np.clip(log_parameter, -600, 600)))

    if guess is None:
        guess = policy.guess(problem) if hasattr(policy, "guess") else 1.0
    centre = np.log(np.broadcast_to(guess, problem.lanes)).ravel()
    bracket = elementwise.bracket_root(excess, centre - 1, centre + 1, args=(lanes.index,), maxiter=60)
    found = _root(excess, bracket.bracket, lanes.index, tolerance)
    missed = ~(np.abs(found.f_x) <= tolerance)
    if missed.any():
        raise BudgetNotReached(f"no parameter brings {lanes.name(np.argmax(missed))} to its budget")
    return np.exp(found.x).reshape(problem.lanes)


class LyapunovMatch(NamedTuple):
    """The kindest pair of every lane, and all pairs found."""

    penalty: np.ndarray
    rate: np.ndarray
    pairs: pd.DataFrame


def match_lyapunov(
    problem: ReceiveScalingProblem,
    relative_rates=None,
    *,
    contraction: float = 1.0,
    delta: float = 1e-5,
    tolerance: float = 1e-9,
) -> LyapunovMatch:
    r"""The pairs :math:`(V, \bar\eta)` of :class:`~adascale.policies.LyapunovPowerControl` that cost :math:`\nu`.

    One condition for two parameters leaves a curve of pairs, and they differ widely in what they leak.  For rates
    :math:`\bar\eta` around the mean scaling of the offline optimum, below which no policy of this cost can stay
    (:prf:ref:`prop-least-scaling`), the cost is scanned in :math:`V`; every crossing of :math:`\nu`
    seen on a grid of two penalties a decade is refined, since the cost is not monotone (where it is jagged some
    crossings are missed); and the search is repeated between the neighbours of the
    rate of the smallest epsilon.  Like :func:`match_budget` it **sees the whole future**.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        The lanes to match.
    relative_rates : array_like, optional
        Try these rates only, each over the optimum's mean scaling.  Default: thirteen from 0.05 to 6, then zoom.
    contraction : float
        The policy's r in (0, 1].
    delta : float
        :math:`\delta` of the epsilon by which pairs are compared.
    tolerance : float
        Largest :math:`|\mathrm{cost} / \nu - 1|` of a pair.

    Returns
    -------
    LyapunovMatch
        ``penalty`` and ``rate`` of the smallest epsilon, each of shape ``problem.lanes``; ``pairs``, a table of all
        pairs with the columns ``lane`` (flat index), ``penalty, rate, relative_rate`` (over the optimum's mean
        scaling), ``epsilon`` and ``full_power`` (the share of rounds at the power limit).

    Raises
    ------
    ValueError
        If delta, contraction or a rate is out of range.
    BudgetNotReached
        If no pair on the grid brings some lane's cost to its budget: the message names the lane.
    """
    lanes = _Lanes(problem)
    mean_eta = Optimal().schedule(problem).mean(axis=-1).ravel()
    natural = (problem.scenario.noise_scale / water_level(problem.floor, problem.budget)).ravel() ** 3
    rates = _RATES if relative_rates is None else np.atleast_1d(check.positive("relative_rates", relative_rates))
    relative = np.broadcast_to(rates, (lanes.index.size, rates.size))
    found = []
    for _ in range(_ZOOMS + 1 if relative_rates is None else 1):
        found.append(_crossings(lanes, natural, mean_eta, relative, contraction, delta, tolerance))
        pairs = pd.concat(found, ignore_index=True)
        best = pairs.loc[pairs.groupby("lane")["epsilon"].idxmin()].set_index("lane")
        missed = np.setdiff1d(lanes.index, best.index)
        if missed.size:
            raise BudgetNotReached(f"no pair of V and rate brings {lanes.name(missed[0])} to its budget")
        relative = np.stack([_between(pairs[pairs.lane == lane], best.loc[lane].relative_rate) for lane in lanes.index])
    best = best.loc[lanes.index]
    return LyapunovMatch(*(best[name].to_numpy().reshape(problem.lanes) for name in ("penalty", "rate")), pairs)


_RATES = np.array([0.05, 0.2, 0.5, 0.7, 0.85, 0.95, 1.0, 1.05, 1.15, 1.3, 1.7, 3.0, 6.0])
_PENALTIES = np.geomspace(1e-5, 1e4, 19)  # in units of the cubed scaling at the water level
_ZOOMS = 2
_SIDE_BY_SIDE = 4000  # schedules at a time: what fits into the cache


def _between(pairs: pd.DataFrame, best: float) -> np.ndarray:
    """Four rates between the best one and its neighbours on either side."""
    known = np.unique(pairs.relative_rate)
    at = np.searchsorted(known, best)
    low = known[at - 1] if at > 0 else best / 2
    high = known[at + 1] if at + 1 < known.size else best * 2
    return np.concatenate([low + (best - low) * np.array([1, 2]) / 3, best + (high - best) * np.array([1, 2]) / 3])


def _crossings(lanes, natural, mean_eta, relative, contraction, delta, tolerance) -> pd.DataFrame:
    """Every pair on the grid of rates whose cost crosses the budget somewhere on the grid of penalties."""

    def policy(penalty, rate):
        return LyapunovPowerControl(penalty, rate, contraction)

    shape = (*relative.shape, _PENALTIES.size)
    lane = np.broadcast_to(lanes.index[:, None, None], shape).ravel()
    rate = np.broadcast_to((relative * mean_eta[:, None])[..., None], shape).ravel()
    penalty = np.broadcast_to(natural[:, None, None] * _PENALTIES, shape).ravel()
    parts = range(_SIDE_BY_SIDE, lane.size, _SIDE_BY_SIDE)
    split = zip(*(np.split(each, parts) for each in (lane, penalty, rate)), strict=True)
    excess = np.concatenate([lanes.excess(policy, *part) for part in split]).reshape(shape)

    i, j, k = np.nonzero((excess[..., 1:] > 0) != (excess[..., :-1] > 0))
    lane, rate, low = lanes.index[i], relative[i, j] * mean_eta[i], np.log(natural[i] * _PENALTIES[k])
    step = np.log(_PENALTIES[1] / _PENALTIES[0])
    root = _root(
        lambda x, lane, rate: lanes.excess(policy, lane, np.exp(x), rate), (low, low + step), (lane, rate), tolerance
    )
    met = np.abs(root.f_x) <= tolerance  # elsewhere the cost jumps over its budget
    lane, penalty, rate = lane[met], np.exp(root.x[met]), rate[met]
    chosen = lanes.problem(lane)
    eta = policy(penalty, rate).schedule(chosen)
    return pd.DataFrame(
        {
            "lane": lane,
            "penalty": penalty,
            "rate": rate,
            "relative_rate": relative[i, j][met],
            "epsilon": chosen.dp_epsilon(eta, delta),
            "full_power": (eta == chosen.max_eta).mean(axis=-1),
        }
    )


class _Lanes:
    """The lanes of a problem in one row, to be chosen by their index, with what is known of each."""

    def __init__(self, problem: ReceiveScalingProblem, *statistics):
        self.shape, self.scenario = problem.lanes, problem.scenario
        self.index = np.arange(int(np.prod(problem.lanes)))
        self.budget = np.broadcast_to(problem.budget, problem.lanes).ravel()
        self.gain = self._row(problem.min_gain)
        self.known = [self._row(np.asarray(each, dtype=float)) for each in statistics]

    def _row(self, array) -> np.ndarray:
        return np.broadcast_to(array, (*self.shape, array.shape[-1])).reshape(self.index.size, -1)

    def problem(self, lane) -> ReceiveScalingProblem:
        return ReceiveScalingProblem(self.scenario, self.gain[lane], self.budget[lane])

    def excess(self, policy, lane, *parameters) -> np.ndarray:
        """How far the cost of the policy with these parameters exceeds the budget, relative to it."""
        chosen = self.problem(lane)
        eta = schedule(policy(*parameters, *(each[lane] for each in self.known)), chosen)
        return chosen.cost(eta) / chosen.budget - 1

    def name(self, lane) -> str:
        lane = tuple(int(i) for i in np.unravel_index(lane, self.shape))
        return f"the cost of lane {lane}" if lane else "the cost"


def _root(excess, bracket, args, tolerance):
    return elementwise.find_root(
        excess,
        bracket,
        args=args if isinstance(args, tuple) else (args,),
        tolerances={"fatol": tolerance / 2, "frtol": 0, "xatol": 0, "xrtol": 0},
        maxiter=60,
    )
