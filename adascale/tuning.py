r"""Tuning a policy so that its cost is the budget, as the paper does before it compares leakages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.errors import BudgetNotReached as BudgetNotReached
from adascale.policies import Policy
from adascale.policies.adascale import NoRoot
from adascale.problem import ReceiveScalingProblem
from adascale.rootfind import find_roots, widen
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]

_FARTHEST = 600.0  # a logarithm whose exponential is far from overflow
_FINER = 1e-3  # of the tolerance: steps are so large near the root that this is nearly free


def match_budget(
    policy: Callable[..., Any],
    problem: ReceiveScalingProblem,
    *statistics: ArrayLike,
    guess: ArrayLike | None = None,
    tolerance: float = 1e-9,
) -> FloatArray:
    r"""The parameter of a policy whose mean cost equals :math:`\nu` in every lane.

    It runs the policy over the whole horizon again and again: it **sees the whole future**.  The paper tunes "for
    each value of nu"; a parameter for each realisation is how this book reads it.  For AdaScale it is the penalty V.

    Parameters
    ----------
    policy : callable
        From an array of positive parameters, one a lane, to a policy with ``schedule``: ``policies.AdaScale``.  The
        cost must be continuous in the parameter and cross the budget once, as AdaScale's does
        (:prf:ref:`thm-one-penalty`).
    problem : ReceiveScalingProblem
        The lanes to match.
    *statistics : array_like
        What else the policy needs to know of its lanes, each of shape (..., M), for example ``mean_gain``: its leading
        axes broadcast against the lanes.  The policy is called with the parameters and then these, lane by lane.
    guess : array_like, optional
        Where the search starts and widens from, by ratio: positive, broadcasts against the lanes.  Default: the
        ``guess`` of a :class:`~adascale.policies.Policy` class, else 1.
    tolerance : float
        Largest :math:`|\mathrm{cost} / \nu - 1|`.

    Returns
    -------
    numpy.ndarray
        The parameter of each lane, shape ``problem.lanes``.

    Raises
    ------
    BudgetNotReached
        If some lane's cost cannot be brought to its budget: the message names the lane, and nothing is returned.  A
        budget that is no more than the rounding of the floors over the tolerance cannot be told from its neighbours.
    ValueError
        If a statistic is not a number, or a guess or the tolerance is not finite and positive.
    """
    lanes = Lanes(problem, *statistics)
    if guess is not None:
        guess = check.positive("guess", guess)
    elif isinstance(policy, type) and issubclass(policy, Policy):
        with np.errstate(all="ignore"):
            guess = policy.guess(problem)
    else:
        guess = 1.0

    return _matched(lanes, policy, guess, tolerance)


def match_law(
    policy: Callable[..., Any],
    scenario: Scenario,
    budget: ArrayLike,
    law: FloorLaw,
    *statistics: ArrayLike,
    draws: int = 30,
    seed: int = 0,
    guess: ArrayLike | Callable[[ReceiveScalingProblem], ArrayLike] | None = None,
    tolerance: float = 1e-6,
) -> FloatArray:
    r"""The parameter of a policy whose cost is :math:`\nu` **on average over the law of the floors**, in every lane.

    What a server can do before round 0: it draws realisations of its own and tunes on these.  The mean cost of
    ``draws`` realisations is brought to :math:`\nu`; that of the law is met up to their sampling error.  Nothing of a
    realisation that is judged is seen.

    All lanes are tuned on the same draws, at the quantiles of their own laws, so a lane's parameter does not depend on
    the lanes beside it.

    Parameters
    ----------
    policy : callable
        From an array of positive parameters to a policy, see :func:`match_budget`: parameters and statistics have an
        axis of length 1 where the problem has the draws.
    scenario : Scenario
        The constants, and the horizon T of a draw.
    budget : array_like
        :math:`\nu > 0`; broadcasts against the lanes of the law.
    law : FloorLaw
        The law of the floors of every lane; rounds are drawn independently.
    *statistics : array_like
        See :func:`match_budget`.
    draws : int
        :math:`\ge 1`, realisations of T rounds.  All floors together are at most 1e8.
    seed : int
        :math:`\ge 0`; each draw has a random stream of its own, so more of them extend fewer.
    guess : array_like or callable, optional
        As for :func:`match_budget`; or a function of the problem of all draws, whose mean over the draws is taken.
    tolerance : float
        Largest :math:`|\text{mean cost} / \nu - 1|`.

    Returns
    -------
    numpy.ndarray
        The parameter of each lane: the shape of the budget broadcast against the law's lanes.

    Raises
    ------
    BudgetNotReached
        If some lane's mean cost cannot be brought to its budget.
    ValueError
        If an argument is out of range.
    """
    lanes = _Draws(scenario, check.positive("budget", budget), law, check.whole("draws", draws), seed, *statistics)
    if guess is None and isinstance(policy, type) and issubclass(policy, Policy):
        guess = policy.guess
    if callable(guess):
        with np.errstate(all="ignore"):
            guess = lanes.mean_of(guess)
    return _matched(lanes, policy, 1.0 if guess is None else check.positive("guess", guess), tolerance)


def _matched(lanes: Lanes | _Draws, policy: Callable[..., Any], guess: ArrayLike, tolerance: float) -> FloatArray:
    """The parameter of every lane at which its excess is zero."""
    if check.positive("tolerance", tolerance).ndim:
        raise ValueError(f"tolerance must be one number, got {tolerance}")

    def excess(log_parameter: FloatArray, lane: NDArray[np.intp]) -> FloatArray:
        return lanes.excess(policy, lane, np.exp(log_parameter))

    with np.errstate(divide="ignore"):
        start = np.log(np.broadcast_to(np.asarray(guess, dtype=float), lanes.shape)).ravel()
    start = np.clip(np.nan_to_num(start, posinf=_FARTHEST, neginf=-_FARTHEST), -_FARTHEST, _FARTHEST)
    try:
        found = find_roots(excess, widen(excess, start, 0.5, _FARTHEST), _FINER * tolerance)
    except NoRoot as error:  # at a penalty beyond all that could be
        raise BudgetNotReached(f"no parameter brings the cost to its budget: {error}") from None
    missed = ~(np.abs(found.residual) <= tolerance)
    if missed.any():
        lane = int(np.argmax(missed))
        raise BudgetNotReached(
            f"no parameter brings {lanes.name(lane)} to its budget, {lanes.why_not(lane, tolerance)}"
        )
    return np.exp(found.x).reshape(lanes.shape)


class Lanes:
    r"""The lanes of a problem in one row, to be chosen by their flat index, with what is known of each.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        The lanes.
    *statistics : array_like
        See :func:`match_budget`.

    Attributes
    ----------
    index : numpy.ndarray
        :math:`0, 1, \dots`: all lanes.
    """

    def __init__(self, problem: ReceiveScalingProblem, *statistics: ArrayLike) -> None:
        self.shape, self.scenario = problem.lanes, problem.scenario
        self.index = np.arange(int(np.prod(problem.lanes)))
        self._budget = np.broadcast_to(problem.budget, problem.lanes).ravel()
        self._gain = self._row(problem.min_gain)
        self._known = [self._row(check.as_floats("statistics", each)) for each in statistics]
        self._last = self.index, ReceiveScalingProblem(self.scenario, self._gain, self._budget)

    def _row(self, array: FloatArray) -> FloatArray:
        return np.broadcast_to(array, (*self.shape, array.shape[-1])).reshape(self.index.size, -1)

    def problem(self, lane: NDArray[np.intp]) -> ReceiveScalingProblem:
        """The problem of these lanes, in one row."""
        if not np.array_equal(lane, self._last[0]):
            self._last = lane, ReceiveScalingProblem(self.scenario, self._gain[lane], self._budget[lane])
        return self._last[1]

    def excess(self, policy: Callable[..., Any], lane: NDArray[np.intp], *parameters: FloatArray) -> FloatArray:
        r"""How far the cost of the policy with these parameters exceeds the budget: :math:`\mathrm{cost} / \nu - 1`."""
        problem = self.problem(lane)
        eta = policy(*parameters, *(each[lane] for each in self._known)).schedule(problem)
        with np.errstate(over="ignore"):  # infinitely above the budget
            cost = np.mean(problem.scenario.noise_scale / eta - problem.floor, axis=-1)
            return np.asarray(cost / problem.budget - 1)

    def name(self, lane: int) -> str:
        """What an error calls this lane."""
        place = tuple(int(i) for i in np.unravel_index(lane, self.shape))
        return f"the cost of lane {place}" if place else "the cost"

    def why_not(self, lane: int, tolerance: float) -> str:
        """What an error says of a budget that was not reached: its value, and whether the lane's floors drown it."""
        budget, floor = float(self._budget[lane]), float(self.problem(self.index).floor[lane].max())
        if np.spacing(floor) > tolerance * budget:
            return f"nu = {budget:g}: a floor of {floor:.3g} is rounded by more than {tolerance:g} of it"
        return f"nu = {budget:g}"


def draw_floors(scenario: Scenario, law: FloorLaw, draws: int, seed: int) -> FloatArray:
    r"""Realisations of the floors of every lane: shape (..., draws, T), the same quantiles in all lanes.

    Parameters
    ----------
    scenario : Scenario
        Its number of rounds is T.
    law : FloorLaw
        The law of every lane.
    draws : int
        :math:`\ge 1`; all floors together are at most 1e8.
    seed : int
        :math:`\ge 0`; each draw has a random stream of its own.
    """
    check.entries("floors of lanes x draws x rounds", *law.lanes, check.whole("draws", draws), scenario.num_rounds)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number >= 0, got {seed!r}")
    streams = np.random.SeedSequence(int(seed)).spawn(draws)
    share = np.stack([np.random.default_rng(stream).random(scenario.num_rounds) for stream in streams])
    share = np.maximum(share, 2.0**-54)  # a zero has no quantile
    floor = law.quantile(share.reshape(*share.shape, *[1] * len(law.lanes)))
    return np.ascontiguousarray(np.moveaxis(floor, (0, 1), (-2, -1)))


class _Draws:
    """As :class:`Lanes`, with the mean cost of several realisations that are drawn from the law of a lane."""

    def __init__(self, scenario: Scenario, budget: FloatArray, law: FloorLaw, draws: int, seed: int, *known: ArrayLike):
        self.shape, self.scenario = check.broadcast(budget=budget.shape, lanes_of_law=law.lanes), scenario
        floor = draw_floors(scenario, law, draws, seed)
        self._gain = (scenario.noise_scale / (scenario.x_max * floor)).reshape(-1, draws, scenario.num_rounds)
        rows = np.arange(len(self._gain)).reshape(law.lanes)
        self._row = np.broadcast_to(rows, self.shape).ravel()
        self._budget = np.broadcast_to(budget, self.shape).ravel()
        self._known = [self._lanewise(check.as_floats("statistics", each)) for each in known]
        self._last = self._row[:0], self._problem(np.zeros(1, dtype=np.intp))

    def _lanewise(self, array: FloatArray) -> FloatArray:
        return np.broadcast_to(array, (*self.shape, array.shape[-1])).reshape(self._budget.size, 1, -1)

    def _problem(self, lane: NDArray[np.intp]) -> ReceiveScalingProblem:
        return ReceiveScalingProblem(self.scenario, self._gain[self._row[lane]], self._budget[lane, None])

    def mean_of(self, guess: Callable[[ReceiveScalingProblem], ArrayLike]) -> FloatArray:
        """The mean over the draws of what a function says of their problem, for every lane."""
        problem = self._problem(np.arange(self._budget.size))
        found = np.broadcast_to(np.asarray(guess(problem), dtype=float), problem.lanes).mean(axis=-1)
        return np.asarray(found.reshape(self.shape))

    def excess(self, policy: Callable[..., Any], lane: NDArray[np.intp], parameter: FloatArray) -> FloatArray:
        r""":math:`\text{mean cost} / \nu - 1` of the policy with these parameters."""
        if not np.array_equal(lane, self._last[0]):
            self._last = lane, self._problem(lane)
        problem = self._last[1]
        eta = policy(parameter[:, None], *(each[lane] for each in self._known)).schedule(problem)
        with np.errstate(over="ignore"):
            cost = np.mean(problem.scenario.noise_scale / eta - problem.floor, axis=(-2, -1))
            return np.asarray(cost / self._budget[lane] - 1)

    def name(self, lane: int) -> str:
        """What an error calls this lane."""
        place = tuple(int(i) for i in np.unravel_index(lane, self.shape))
        return f"the mean cost of lane {place}" if place else "the mean cost"

    def why_not(self, lane: int, tolerance: float) -> str:
        """What an error says of a budget that was not reached."""
        return f"nu = {float(self._budget[lane]):g}, over {self._gain.shape[1]} draws"
