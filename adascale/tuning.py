"""Tuning of a policy so that its cost equals the noise budget."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.checks import FloatArray, IndexArray
from adascale.errors import BudgetNotReached as BudgetNotReached
from adascale.policies.adascale import NoRoot
from adascale.policies.base import NamedFailures
from adascale.problem import Problem
from adascale.rootfind import bounded, find_roots, widen
from adascale.scenario import Scenario

# largest logarithm of a parameter: its exponential is far from overflow
_FARTHEST = 600.0
_FIRST_STEP = 0.5  # of the logarithm of a parameter, from its guess
# share of the tolerance at which the search ends: near the root, a step gains so many digits that this is nearly free
_FINER = 1e-3


def match_budget(
    policy: Callable[..., Any],
    problem: Problem,
    *statistics: ArrayLike,
    guess: ArrayLike | Callable[[Problem], ArrayLike] | None = None,
    tolerance: float = 1e-9,
    averaged: bool = False,
) -> FloatArray:
    r"""Find the parameter of a policy whose mean cost equals :math:`\nu` in every instance.  It **sees all rounds**.

    Parameters
    ----------
    policy : callable
        It makes a policy from parameters > 0 and the statistics, for example :class:`~adascale.policies.AdaScale`.
        It is called with those of some instances, one row each.  The cost must be continuous and cross :math:`\nu` once
        (:prf:ref:`thm-one-penalty`).
    *statistics : array_like, shape (..., M)
        Further arguments of the policy, for example ``mean_gain``.
    guess : array_like, > 0, or a function of a problem, optional
        Start of the search; default: the ``guess`` of a :class:`~adascale.policies.Policy` class, else 1.
    tolerance : float, > 0, largest :math:`|\mathrm{cost} / \nu - 1|`
    averaged : bool
        Whether the problem has draws of each instance on its last axis before the rounds.  They share a budget and a
        parameter, and their mean cost is matched.

    Raises
    ------
    BudgetNotReached
        If the cost of some instance cannot be brought to its budget.
    """
    check.number("tolerance", tolerance, 1e-300)
    shape = problem.batch_shape[:-1] if averaged else problem.batch_shape
    # of budgets and parameters, which all draws share
    draws_axis = (1,) if averaged else ()

    def in_rows(array: FloatArray, *inner_shape: int) -> FloatArray:
        """Return an array of shape (instances, *inner_shape), whose first axis joins all axes of instances."""
        entries = np.broadcast_to(array, (*shape, *inner_shape))
        return entries.reshape(-1, *inner_shape)

    # the last axes are (T,), or with draws (draws, T)
    gain = in_rows(problem.min_gain, *problem.min_gain.shape[-1 - averaged :])
    whole = Problem(problem.scenario, gain, in_rows(problem.budget, *draws_axis))
    number = len(whole.budget)
    statistic_rows = []
    for statistic in statistics:
        array = check.as_floats("statistics", statistic)
        devices = array.shape[-1:]
        rows = in_rows(array, *devices).reshape(number, *draws_axis, *devices)
        statistic_rows.append(rows)

    def excess(log_parameter: FloatArray, index: IndexArray) -> FloatArray:
        r"""Return :math:`\mathrm{cost} / \nu - 1` of the instances in some rows, each with its own parameter."""
        part = whole
        if index.size < number:
            part = Problem(problem.scenario, gain[index], whole.budget[index])
        parameter = np.exp(log_parameter).reshape(-1, *draws_axis)
        chosen = policy(parameter, *[rows[index] for rows in statistic_rows])
        with NamedFailures(chosen, "in its schedule"):
            w = chosen.schedule(part)
        with np.errstate(over="ignore"):  # the cost may be infinitely above the budget
            cost = np.mean(w - part.min_noise_energy, axis=tuple(range(1, w.ndim)))
            return bounded(cost / part.budget.ravel() - 1)

    if guess is None:
        guess = getattr(policy, "guess", 1.0)
    start = _log_guess(guess, whole, shape)
    try:
        ends = widen(excess, start, _FIRST_STEP, _FARTHEST)
        x, residual = find_roots(excess, *ends, _FINER * tolerance)
    except NoRoot as error:  # of AdaScale, if the search gets to extreme penalties
        raise BudgetNotReached(
            f"no parameter brings the cost to its budget: {error}"
        ) from None
    missed = np.flatnonzero(~(np.abs(residual) <= tolerance))
    if missed.size:
        i = int(missed[0])
        cost_name = f"the {'mean ' * averaged}cost{of_instance(i, shape)}"
        raise BudgetNotReached(_why_missed(whole, i, cost_name, tolerance))
    return np.exp(x).reshape(shape)


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

    Parameters and errors are those of :func:`match_budget`, and statistics of shape (..., M) give parameters of shape
    (...).  Only ``policy`` gets them with an additional axis of length 1 for the ``draws`` of the floors, which is
    before M in statistics and last in parameters.  If ``guess`` is a function, it gets the problem with all draws, and
    the mean of its values over the draws is used.
    """
    budget = check.positive("budget", budget)
    check.broadcast(budget=budget.shape, law=law.batch_shape)
    floor = draw_floors(scenario, law, draws, seed)
    gain = scenario.noise_scale / (scenario.x_max * floor)
    problem = Problem(scenario, gain, budget[..., None])
    return match_budget(
        policy, problem, *statistics, guess=guess, tolerance=tolerance, averaged=True
    )


def _log_guess(guess: Any, whole: Problem, shape: tuple[int, ...]) -> FloatArray:
    """Return the logarithm of the parameter at which the search of each instance starts, 0 if the guess is NaN."""
    with np.errstate(all="ignore"):
        if callable(guess):
            values = np.broadcast_to(guess(whole), whole.batch_shape).astype(float)
            start = np.log(values.reshape(len(whole.budget), -1).mean(axis=1))
        else:
            values = check.positive("guess", guess)
            start = np.log(np.broadcast_to(values, shape).ravel())
    return np.clip(np.nan_to_num(start), -_FARTHEST, _FARTHEST)


def _why_missed(whole: Problem, i: int, cost_name: str, tolerance: float) -> str:
    """Return the message that the cost of the instance in row i cannot be its budget, and the reason if it is known."""
    budget = float(whole.budget[i].flat[0])
    floor = float(whole.min_noise_energy[i].max())
    message = f"no parameter brings {cost_name} to its budget, nu = {budget:g}"
    if np.spacing(floor) > tolerance * budget:
        message += (
            f": a floor of {floor:.3g} is rounded by more than {tolerance:g} of it"
        )
    return message


def of_instance(i: int, shape: tuple[int, ...]) -> str:
    """Return the part of a message that names instance i of a batch of this shape, counted along its flattened axes."""
    place = tuple(map(int, np.unravel_index(i, shape)))
    return f" of instance {place}" if shape else ""


def draw_floors(scenario: Scenario, law: FloorLaw, draws: int, seed: int) -> FloatArray:
    """Draw realisations of the floors, shape (..., draws, T), from one set of uniform numbers for all instances."""
    T = scenario.num_rounds
    shape = *law.batch_shape, check.whole("draws", draws), T
    check.entries("floors of instances x draws x rounds", *shape)
    streams = np.random.SeedSequence(check.whole("seed", seed, 0)).spawn(draws)
    share = np.stack([np.random.default_rng(stream).random(T) for stream in streams])
    # a share of 0 has no quantile; all others are at least 2^-53
    share = np.maximum(share, 2.0**-54)
    floor = law.quantile(share.reshape(*share.shape, *[1] * len(law.batch_shape)))
    return np.ascontiguousarray(np.moveaxis(floor, (0, 1), (-2, -1)))
