r"""The offline optimum where noise counts more in some rounds than in others: water-filling with weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from adascale.compiled import njit
from adascale.policies.base import Policy, in_rows
from adascale.problem import LeakageTerms, Problem, RoundLeakage, slopes
from adascale.rootfind import Search, power_law_step, search_from
from adascale.scenario import FloatArray


def mean_one(weights: ArrayLike) -> FloatArray:
    r"""Return weights :math:`c_t > 0` of the rounds over their mean, shape (..., T)."""
    weights = np.asarray(weights, dtype=float)
    share = weights / weights.max(axis=-1, keepdims=True)  # whose sum float64 holds
    return np.asarray(share / share.mean(axis=-1, keepdims=True))


def weighted_cost(problem: Problem, w: ArrayLike, weights: ArrayLike) -> FloatArray:
    r"""Return :math:`\frac1T \sum_t c_t (w_t - w_{\min,t})` of a schedule, with weights of mean 1, shape (...)."""
    return np.asarray(np.mean(mean_one(weights) * problem.spend(w), axis=-1))


@dataclass(frozen=True, eq=False)
class WeightedOptimal(Policy):
    r"""The least leakage where the noise energy of round t counts :math:`c_t` times (:prf:ref:`thm-weighted`).

    The solution has one price :math:`p` for all rounds: :math:`-F'(w_t) = p\, c_t` above the floor, and
    :math:`-F'(w_t) \le p\, c_t` on it.  Of the weights, shape (T,) or (..., T), only their ratios count.
    """

    weights: ArrayLike = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", mean_one(self.weights))

    def schedule(self, problem: Problem) -> FloatArray:
        r"""Return :math:`\eta_t`, shape (..., T), in watts; ``RuntimeError`` where float64 has no price for a lane."""
        shape = (*problem.batch_shape, problem.num_rounds)
        floor, counts = (
            in_rows(array, problem.batch_shape, problem.num_rounds)
            for array in (problem.min_noise_energy, self.weights)
        )
        leakage = RoundLeakage(problem.scenario)
        nu = in_rows(problem.budget, problem.batch_shape)
        # where every round costs nu
        slope = leakage.slope(floor + nu[:, None] / counts)
        energy, lane = _fill(floor, counts, slope, nu, leakage.terms)
        if lane >= 0:
            raise RuntimeError(
                f"no price found in lane {lane}: budget {nu[lane]}, floors from {floor[lane].min()}"
            )
        return energy.reshape(shape)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(
    floor: FloatArray,
    weights: FloatArray,
    slope: FloatArray,
    budget: FloatArray,
    terms: LeakageTerms,
) -> tuple[FloatArray, int]:
    """Return the optimum of every lane, and the first without one, or -1; ``slope`` is F' where a round costs nu."""
    energy = np.empty(floor.shape)
    for lane in range(floor.shape[0]):
        # each round's price there: the common one lies between
        prices = -slope[lane] / weights[lane]
        low = prices.min()
        high = prices.max()
        energy[lane] = floor[lane] + budget[lane] / weights[lane]
        search = Search(np.sqrt(low) * np.sqrt(high), low, high, np.inf, False)
        if not (low > 0 and high < np.inf):
            return energy, lane
        for _ in range(200):
            cost, fall = _at_price(
                search.x, floor[lane], weights[lane], energy[lane], terms
            )
            if not cost < np.inf:
                return energy, lane
            ratio = cost / (budget[lane] * floor.shape[1])
            search = power_law_step(
                search, ratio, search.x * fall / cost if cost > 0 else 1.0
            )
            if search.converged:
                break
        else:
            return energy, lane
        _at_price(search.x, floor[lane], weights[lane], energy[lane], terms)
    return energy, -1


@njit(cache=True, nogil=True, error_model="numpy")
def _at_price(
    price: float,
    floor: FloatArray,
    weights: FloatArray,
    energy: FloatArray,
    terms: LeakageTerms,
) -> tuple[float, float]:
    """Return the weighted cost of a price and how fast it falls, and write into ``energy`` what the rounds buy."""
    cost = fall = 0.0
    for t in range(floor.size):
        aim = price * weights[t]
        slope, curvature = slopes(floor[t], terms, False)
        if -slope <= aim:
            energy[t] = floor[t]
            continue
        search = search_from(max(energy[t], floor[t]), floor[t])
        for _ in range(100):
            slope, curvature = slopes(search.x, terms, False)
            search = power_law_step(search, -slope / aim, -search.x * curvature / slope)
            if search.converged:
                break
        else:
            return np.inf, 0.0
        energy[t] = search.x
        cost += weights[t] * (search.x - floor[t])
        fall += weights[t] ** 2 / curvature
    return cost, fall
