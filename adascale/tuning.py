"""Tuning of a policy so that its cost equals the noise budget."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.errors import BudgetNotReached as BudgetNotReached
from adascale.errors import FlatCost
from adascale.policies import Policy
from adascale.policies.adascale import NoRoot
from adascale.problem import ReceiveScalingProblem
from adascale.rootfind import find_roots, widen
from adascale.scenario import FloatArray, Scenario

Index = NDArray[np.intp]

_FARTHEST = (
    600.0  # largest logarithm of a parameter: its exponential is far from overflow
)
_STEP = 0.01  # of the logarithm of a parameter, over which the cost must change
_FLAT = 1e-6  # distance of the cost from nu, in nu, that is none
_FINER = 1e-3  # share of the tolerance to reach, which is nearly free because steps are so large near the root


def match_budget(
    policy: Callable[..., Any],
    problem: ReceiveScalingProblem,
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

    Warns
    -----
    FlatCost
        If the cost of a policy of one's own is the budget for a range of parameters, as with one that stops there.
    """
    return _matched(Lanes(problem, *statistics), policy, guess, tolerance)


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
    r"""Find the parameter whose cost equals :math:`\nu` on average over drawn floors (:func:`draw_floors`).

    What it shares with :func:`match_budget` is as there, but parameters and statistics have an axis of length 1 for the
    draws, and ``guess`` may be a function of the problem of all draws, whose mean over the draws is used.
    """
    budget = check.positive("budget", budget)
    check.broadcast(budget=budget.shape, lanes_of_law=law.lanes)
    floor = draw_floors(scenario, law, draws, seed)
    problem = ReceiveScalingProblem(
        scenario, scenario.noise_scale / (scenario.x_max * floor), budget[..., None]
    )
    return _matched(
        Lanes(problem, *statistics, averaged=True), policy, guess, tolerance
    )


def _matched(
    lanes: "Lanes", policy: Callable[..., Any], guess: Any, tolerance: float
) -> FloatArray:
    check.number("tolerance", tolerance, 1e-300)
    if guess is None:
        guess = (
            policy.guess
            if isinstance(policy, type) and issubclass(policy, Policy)
            else 1.0
        )
    with np.errstate(all="ignore"):
        if callable(guess):
            problem = lanes.problem(lanes.index)
            each = np.broadcast_to(
                np.asarray(guess(problem), dtype=float), problem.lanes
            )
            start = np.log(each.reshape(lanes.index.size, -1).mean(axis=1))
        else:
            start = np.log(
                np.broadcast_to(check.positive("guess", guess), lanes.shape).ravel()
            )
    start = np.clip(np.nan_to_num(start), -_FARTHEST, _FARTHEST)

    def excess(log_parameter: FloatArray, lane: Index) -> FloatArray:
        return lanes.excess(
            lanes.policy(policy, lane, np.exp(log_parameter)).schedule(
                lanes.problem(lane)
            ),
            lane,
        )

    try:
        x, residual = find_roots(
            excess, *widen(excess, start, 0.5, _FARTHEST), _FINER * tolerance
        )
    except NoRoot as error:  # at an extreme penalty
        raise BudgetNotReached(
            f"no parameter brings the cost to its budget: {error}"
        ) from None
    missed = np.flatnonzero(~(np.abs(residual) <= tolerance))
    if missed.size:
        first = lanes.problem(missed[:1])
        budget, floor = float(first.budget.flat[0]), float(first.min_noise_energy.max())
        lost = f": a floor of {floor:.3g} is rounded by more than {tolerance:g} of it"
        why = f"nu = {budget:g}{lost if np.spacing(floor) > tolerance * budget else ''}"
        raise BudgetNotReached(
            f"no parameter brings {lanes.name(int(missed[0]))} to its budget, {why}"
        )
    _warn_if_flat(lanes, policy, x, min(tolerance, _FLAT))
    return np.exp(x).reshape(lanes.shape)


def _warn_if_flat(
    lanes: "Lanes", policy: Callable[..., Any], x: FloatArray, tolerance: float
) -> None:
    """Warn if a policy of one's own costs the budget for other parameters as well; the package's policies do not."""
    kind = type(lanes.policy(policy, lanes.index, np.exp(x)))
    for step in () if kind.__module__.startswith("adascale.") else (-_STEP, _STEP):
        chosen = lanes.policy(policy, lanes.index, np.exp(x + step))
        flat = (
            np.abs(
                lanes.excess(chosen.schedule(lanes.problem(lanes.index)), lanes.index)
            )
            <= tolerance
        )
        for i in np.flatnonzero(flat)[:1].tolist():
            ends = " and ".join(
                f"{np.exp(end):.6g}" for end in sorted((x[i], x[i] + step))
            )
            what = f"{lanes.name(i)} of {kind.__name__} is the budget for the parameters {ends} alike"
            warnings.warn(
                FlatCost(
                    f"{what}: nu does not determine them, and their leakages may differ"
                ),
                stacklevel=4,
            )
            return


class Lanes:
    """Problem instances in one row with their statistics, by flat index; ``averaged`` over a last axis of draws."""

    def __init__(
        self,
        problem: ReceiveScalingProblem,
        *statistics: ArrayLike,
        averaged: bool = False,
    ) -> None:
        self.scenario, self._draws_axis = problem.scenario, [1] * averaged
        self.shape = problem.lanes[:-1] if averaged else problem.lanes
        self.index = np.arange(int(np.prod(self.shape)))
        self._budget = np.broadcast_to(
            problem.budget[..., 0] if averaged else problem.budget, self.shape
        ).ravel()
        lead = problem.min_gain.shape[
            : -1 - averaged
        ]  # several budgets may share gains
        self._gain = problem.min_gain.reshape(-1, *problem.min_gain.shape[len(lead) :])
        self._row = np.broadcast_to(
            np.arange(len(self._gain)).reshape(lead), self.shape
        ).ravel()
        known = (check.as_floats("statistics", each) for each in statistics)
        per_lane = (
            np.broadcast_to(each, (*self.shape, *each.shape[-1:])) for each in known
        )
        self._known = [
            each.reshape(self.index.size, *self._draws_axis, *each.shape[-1:])
            for each in per_lane
        ]
        self._last = np.array([-1]), problem

    def problem(self, lane: Index) -> ReceiveScalingProblem:
        """Return the problem of these instances, in one row."""
        if not np.array_equal(lane, self._last[0]):
            budget = self._budget[lane].reshape(-1, *self._draws_axis)
            self._last = (
                lane,
                ReceiveScalingProblem(
                    self.scenario, self._gain[self._row[lane]], budget
                ),
            )
        return self._last[1]

    def policy(
        self, policy: Callable[..., Any], lane: Index, parameter: FloatArray
    ) -> Any:
        """Return the policy of these instances with these parameters."""
        return policy(
            parameter.reshape(-1, *self._draws_axis),
            *(each[lane] for each in self._known),
        )

    def excess(self, w: FloatArray, lane: Index) -> FloatArray:
        r"""Return :math:`\mathrm{cost} / \nu - 1` of a schedule of these instances."""
        problem = self.problem(lane)
        with np.errstate(over="ignore"):  # the cost may be infinitely above the budget
            spent = w - problem.min_noise_energy
            return np.asarray(
                np.mean(spent, axis=tuple(range(1, self._gain.ndim)))
                / self._budget[lane]
                - 1
            )

    def name(self, lane: int) -> str:
        """Name the cost of this instance in a message."""
        place = tuple(int(i) for i in np.unravel_index(lane, self.shape))
        cost = "the mean cost" if self._draws_axis else "the cost"
        return f"{cost} of lane {place}" if place else cost


def draw_floors(scenario: Scenario, law: FloorLaw, draws: int, seed: int) -> FloatArray:
    """Draw realisations of the floors, shape (..., draws, T), at the same quantiles for all instances."""
    check.entries(
        "floors of lanes x draws x rounds",
        *law.lanes,
        check.whole("draws", draws),
        scenario.num_rounds,
    )
    streams = np.random.SeedSequence(check.whole("seed", seed, 0)).spawn(draws)
    share = np.stack(
        [
            np.random.default_rng(stream).random(scenario.num_rounds)
            for stream in streams
        ]
    )
    share = np.maximum(share, 2.0**-54)  # a zero has no quantile
    floor = law.quantile(share.reshape(*share.shape, *[1] * len(law.lanes)))
    return np.ascontiguousarray(np.moveaxis(floor, (0, 1), (-2, -1)))
