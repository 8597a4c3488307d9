r"""Tuning a policy so that its cost is the budget, as the paper does before it compares leakages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale.policies import Policy
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
        cost must be continuous in the parameter and cross the budget once.
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
        If some lane's cost cannot be brought to its budget: the message names the lane, and nothing is returned.
    """
    lanes = Lanes(problem, *statistics)
    if guess is None:
        guess = policy.guess(problem) if isinstance(policy, type) and issubclass(policy, Policy) else 1.0

    def excess(log_parameter: FloatArray, lane: NDArray[np.intp]) -> FloatArray:
        return lanes.excess(policy, lane, np.exp(log_parameter))

    start = np.log(np.broadcast_to(np.asarray(guess, dtype=float), problem.lanes)).ravel()
    found = find_roots(excess, widen(excess, start, 0.5, _FARTHEST), _FINER * tolerance)
    missed = ~(np.abs(found.residual) <= tolerance)
    if missed.any():
        raise BudgetNotReached(f"no parameter brings {lanes.name(int(np.argmax(missed)))} to its budget")
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
        self._known = [self._row(np.asarray(each, dtype=float)) for each in statistics]
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
        cost = np.mean(problem.scenario.noise_scale / eta - problem.floor, axis=-1)
        return np.asarray(cost / problem.budget - 1)

    def name(self, lane: int) -> str:
        """What an error calls this lane."""
        place = tuple(int(i) for i in np.unravel_index(lane, self.shape))
        return f"the cost of lane {place}" if place else "the cost"
