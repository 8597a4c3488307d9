"""Tuning of a policy so that its cost equals the noise budget."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.checks import FloatArray, IndexArray
from adascale.errors import BudgetNotReached as BudgetNotReached
from adascale.policies.adascale import NoRoot
from adascale.policies.base import scheduled
from adascale.problem import Problem
from adascale.rootfind import find_roots, widen
from adascale.scenario import Scenario

# largest logarithm of a parameter: its exponential is far from overflow
_FARTHEST = 600.0
_FINER = 1e-3  # share of the tolerance to reach, which is nearly free because steps are so large near the root


def match_budget(
    policy: Callable[..., Any],
    problem: Problem,
    *statistics: ArrayLike,
    guess: ArrayLike | None = None,
    tolerance: float = 1e-9,
) -> FloatArray:
    r"""Find the parameter of a policy whose mean cost equals :math:`\nu` in every instance.  It **sees all rounds**.

    Parameters
    ----------
    policy : callable
        It makes a policy from parameters > 0 and the statistics, for example :class:`~adascale.policies.AdaScale`.  The
        cost must be continuous and cross :math:`\nu` once (:prf:ref:`thm-one-penalty`).
    *statistics : array_like, shape (..., M)
        Further arguments of the policy, for example ``mean_gain``.
    guess : array_like, > 0, optional
        Start of the search; default: the ``guess`` of a :class:`~adascale.policies.Policy` class, else 1.
    tolerance : float, > 0, largest :math:`|\mathrm{cost} / \nu - 1|`

    Raises
    ------
    BudgetNotReached
        If the cost of some instance cannot be brought to its budget.
    """
    return _match(Instances(problem, *statistics), policy, guess, tolerance)


def match_law(
    policy: Callable[..., Any],
    scenario: Scenario,
    budget: ArrayLike,
    law: FloorLaw,
    *statistics: ArrayLike,
    draws: int = 30,
    seed: int = 0,
    guess: ArrayLike | Callable[[Problem], ArrayLike] | None = None,
    tolerance: float = 1e-6,
) -> FloatArray:
    r"""Find the parameter whose cost equals :math:`\nu` on average over drawn floors (:func:`draw_floors`).

    What it shares with :func:`match_budget` is as there: statistics of shape (..., M) give parameters of shape (...).
    Only ``policy`` sees them with one more axis, of length 1, for the draws.  ``guess`` may be a function of the
    problem of all draws, whose mean over the draws is used.
    """
    budget = check.positive("budget", budget)
    check.broadcast(budget=budget.shape, law=law.batch_shape)
    floor = draw_floors(scenario, law, draws, seed)
    problem = Problem(
        scenario, scenario.noise_scale / (scenario.x_max * floor), budget[..., None]
    )
    instances = Instances(problem, *statistics, averaged=True)
    return _match(instances, policy, guess, tolerance)


def _match(
    instances: "Instances", policy: Callable[..., Any], guess: Any, tolerance: float
) -> FloatArray:
    """Find the parameter of each instance whose cost is the budget, to the tolerance."""
    check.number("tolerance", tolerance, 1e-300)
    start = _log_guess(instances, policy, guess)

    excess = partial(instances.excess, policy)
    try:
        ends = widen(excess, start, 0.5, _FARTHEST)
        x, residual = find_roots(excess, *ends, _FINER * tolerance)
    except NoRoot as error:  # at an extreme penalty
        raise BudgetNotReached(
            f"no parameter brings the cost to its budget: {error}"
        ) from None
    missed = np.flatnonzero(~(np.abs(residual) <= tolerance))
    if missed.size:
        raise BudgetNotReached(_why_missed(instances, missed[:1], tolerance))
    return np.exp(x).reshape(instances.shape)


def _log_guess(
    instances: "Instances", policy: Callable[..., Any], guess: Any
) -> FloatArray:
    """Return the logarithm of the parameter at which the search of each instance starts."""
    if guess is None:
        guess = getattr(policy, "guess", 1.0)
    with np.errstate(all="ignore"):
        if callable(guess):
            problem = instances.problem(instances.index)
            values = np.broadcast_to(guess(problem), problem.batch_shape).astype(float)
            start = np.log(values.reshape(instances.index.size, -1).mean(axis=1))
        else:
            values = check.positive("guess", guess)
            start = np.log(np.broadcast_to(values, instances.shape).ravel())
    return np.clip(np.nan_to_num(start), -_FARTHEST, _FARTHEST)


def _why_missed(instances: "Instances", index: IndexArray, tolerance: float) -> str:
    problem = instances.problem(index)
    budget = float(problem.budget.flat[0])
    floor = float(problem.min_noise_energy.max())
    message = (
        f"no parameter brings {instances.name(index)} to its budget, nu = {budget:g}"
    )
    if np.spacing(floor) > tolerance * budget:
        message += (
            f": a floor of {floor:.3g} is rounded by more than {tolerance:g} of it"
        )
    return message


class Instances:
    """Problem instances by flat index, with the statistics of each; costs may be averaged over a last axis of draws."""

    def __init__(
        self,
        problem: Problem,
        *statistics: ArrayLike,
        averaged: bool = False,
    ) -> None:
        self.scenario = problem.scenario
        self.draws_axis = (1,) if averaged else ()
        self.shape = problem.batch_shape[:-1] if averaged else problem.batch_shape
        self.index = np.arange(math.prod(self.shape))
        inner_shape = problem.min_gain.shape[-1 - averaged :]
        self._gain = self._in_rows(problem.min_gain, inner_shape)
        self._budget = self._in_rows(problem.budget, self.draws_axis)
        self._statistics = []
        for statistic in statistics:
            array = check.as_floats("statistics", statistic)
            devices = array.shape[-1:]
            rows = self._in_rows(array, devices)
            self._statistics.append(rows.reshape(-1, *self.draws_axis, *devices))
        self._last = np.array([-1]), problem

    def _in_rows(self, array: FloatArray, inner_shape: tuple[int, ...]) -> FloatArray:
        """Return the array with one row per instance."""
        entries = np.broadcast_to(array, (*self.shape, *inner_shape))
        return entries.reshape(-1, *inner_shape)

    def problem(self, index: IndexArray) -> Problem:
        """Return the problem of these instances, in one row."""
        if not np.array_equal(index, self._last[0]):
            budget = self._budget[index]
            problem = Problem(self.scenario, self._gain[index], budget)
            self._last = index, problem
        return self._last[1]

    def policy(
        self, policy: Callable[..., Any], log_parameter: FloatArray, index: IndexArray
    ) -> Any:
        """Return the policy of these instances with these parameters."""
        statistics = [rows[index] for rows in self._statistics]
        parameter = np.exp(log_parameter).reshape(-1, *self.draws_axis)
        return policy(parameter, *statistics)

    def excess(
        self, policy: Callable[..., Any], log_parameter: FloatArray, index: IndexArray
    ) -> FloatArray:
        r"""Return :math:`\mathrm{cost} / \nu - 1` of these instances with these parameters."""
        problem = self.problem(index)
        w = scheduled(self.policy(policy, log_parameter, index), problem)
        with np.errstate(over="ignore"):  # the cost may be infinitely above the budget
            cost = np.mean(w - problem.min_noise_energy, axis=tuple(range(1, w.ndim)))
            return cost / self._budget[index].ravel() - 1

    def name(self, index: IndexArray) -> str:
        """Name the cost of the first of these instances in a message."""
        cost = "the mean cost" if self.draws_axis else "the cost"
        if not self.shape:
            return cost
        place = tuple(int(i[0]) for i in np.unravel_index(index, self.shape))
        return f"{cost} of instance {place}"


def draw_floors(scenario: Scenario, law: FloorLaw, draws: int, seed: int) -> FloatArray:
    """Draw realisations of the floors, shape (..., draws, T), at the same quantiles for all instances."""
    T = scenario.num_rounds
    shape = *law.batch_shape, check.whole("draws", draws), T
    check.entries("floors of instances x draws x rounds", *shape)
    streams = np.random.SeedSequence(check.whole("seed", seed, 0)).spawn(draws)
    share = np.stack([np.random.default_rng(stream).random(T) for stream in streams])
    share = np.maximum(share, 2.0**-54)  # a zero has no quantile
    floor = law.quantile(share.reshape(*share.shape, *[1] * len(law.batch_shape)))
    return np.ascontiguousarray(np.moveaxis(floor, (0, 1), (-2, -1)))
