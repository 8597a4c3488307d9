r"""Tuning a policy so that its cost is the budget, as the paper does before it compares leakages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.policies import Policy
from adascale.policies.adascale_rounds import NoRoot
from adascale.problem import ReceiveScalingProblem
from adascale.rootfind import find_roots, widen

FloatArray = NDArray[np.float64]

_FARTHEST = 600.0  # a logarithm whose exponential is far from overflow
_FINER = 1e-3  # of the tolerance: steps are so large near the root that this is nearly free


class BudgetNotReached(RuntimeError):
    """No parameter of a policy brings its cost to the budget."""


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
    if check.positive("tolerance", tolerance).ndim:
        raise ValueError(f"tolerance must be one number, got {tolerance}")
    if guess is not None:
        guess = check.positive("guess", guess)
    elif isinstance(policy, type) and issubclass(policy, Policy):
        with np.errstate(all="ignore"):
            guess = policy.guess(problem)
    else:
        guess = 1.0

    def excess(log_parameter: FloatArray, lane: NDArray[np.intp]) -> FloatArray:
        return lanes.excess(policy, lane, np.exp(log_parameter))

    with np.errstate(divide="ignore"):
        start = np.log(np.broadcast_to(np.asarray(guess, dtype=float), problem.lanes)).ravel()
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
    return np.exp(found.x).reshape(problem.lanes)


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
