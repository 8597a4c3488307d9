r"""The offline optimum where noise counts more in some rounds than in others: water-filling with weights."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize.elementwise import find_root

from adascale.policies.base import Policy
from adascale.problem import Problem, RoundLeakage
from adascale.rootfind import find_roots
from adascale.scenario import FloatArray
from companion.bounds.guarantees import kappa_limits


def mean_one(weights: ArrayLike) -> FloatArray:
    r"""Return weights :math:`c_t > 0` of the rounds over their mean, shape (..., T)."""
    weights = np.asarray(weights, dtype=float)
    return weights / weights.mean(axis=-1, keepdims=True)


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
        r"""Return :math:`w_t`, shape (..., T); ``RuntimeError`` where no price is found."""
        shape = (*problem.batch_shape, problem.num_rounds)
        floor, weights, budget = (
            np.broadcast_to(array, shape).reshape(-1, problem.num_rounds)
            for array in (
                problem.min_noise_energy,
                self.weights,
                problem.budget[..., None],
            )
        )
        leakage = RoundLeakage(problem.scenario)
        # w^2 |F'(w)| is between its limits, or both if they are equal
        limits = np.log(kappa_limits(leakage)) + np.array([-1e-3, 1e-3])

        def energy(log_price, lane):
            """Return what the rounds of some lanes buy at a price each."""
            aim = log_price[:, None] + np.log(weights[lane])
            found = find_root(
                lambda x, aim: np.log(-leakage.slope(np.exp(x))) - aim,
                [(limit - aim) / 2 for limit in limits],
                args=(aim,),
            )
            return np.maximum(np.exp(found.x), floor[lane])

        def excess(log_price, lane):
            spend = weights[lane] * (energy(log_price, lane) - floor[lane])
            return spend.mean(axis=-1) / budget[lane, 0] - 1

        # each round's price where it costs nu: the common one lies between
        prices = np.log(-leakage.slope(floor + budget / weights) / weights)
        ends = prices.min(axis=-1) - 1e-6, prices.max(axis=-1) + 1e-6
        log_price, _ = find_roots(excess, *ends, 1e-15)
        if np.isnan(log_price).any():
            raise RuntimeError("no price found")
        return energy(log_price, slice(None)).reshape(shape)
