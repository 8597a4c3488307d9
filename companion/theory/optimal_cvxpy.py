"""The offline optimum as the paper states it: a convex program, solved through CVXPY."""

from dataclasses import dataclass
from importlib import import_module
from typing import cast

import numpy as np
from scipy.stats import binom

from adascale.policies.base import Policy
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import FloatArray


@dataclass(frozen=True)
class OptimalCvxpy(Policy):
    r"""The offline optimum as the paper poses it (problem (28)), a convex program solved by Clarabel through CVXPY.

    The variable is :math:`v_t = x_t / x^{\mathrm{equal}}_t`, since :math:`x_t` in its own unit is of order :math:`10^5`
    and solvers fail on it.  The constraint is divided by :math:`\nu T` and the objective is the sum over rounds;
    neither changes the solution.  Integer orders only: there :math:`\rho_\alpha` is a log-sum-exp of affine functions
    of :math:`x_t`.
    """

    def schedule(self, problem: Problem) -> FloatArray:
        r"""Return :math:`w^\star_t`, shape (..., T), or a ``RuntimeError`` if the solver does not report an optimum.

        At order 3 it does; at orders and budgets where next to nothing is left to minimise, it may stop short of one.
        """
        order = problem.scenario.order
        if order != int(order):
            raise ValueError(f"order must be an integer for OptimalCvxpy, got {order}")
        shape = problem.batch_shape + (problem.num_rounds,)
        floor = np.broadcast_to(problem.min_noise_energy, shape)
        budget = np.broadcast_to(problem.budget, problem.batch_shape)
        energy = np.empty(shape)
        leakage = RoundLeakage(problem.scenario)
        for lane in np.ndindex(problem.batch_shape):
            energy[lane] = _solve(floor[lane], float(budget[lane]), leakage)
        return np.maximum(energy, floor)


def _solve(floor, budget, leakage):
    """Return the optimal noise energies of one lane, at the tolerance of the interior-point method."""
    cp = import_module("cvxpy")  # an import statement would bring its partial types

    equal = floor + budget  # w = equal / v
    v = cp.Variable(floor.size)
    alpha = int(leakage.order)
    k = np.arange(alpha + 1)
    objective = 0
    for q, unit, count in zip(
        leakage.rate, leakage.unit_energy, leakage.multiplicity, strict=True
    ):
        weight = binom.logpmf(k, alpha, q)
        counts = np.isfinite(weight)  # q = 1 leaves k = alpha alone
        exponent = np.outer(unit / equal, k * (k - 1) / 2)[:, counts]
        column = cp.reshape(v, (floor.size, 1), order="C")
        terms = weight[counts][None, :] + cp.multiply(exponent, column)
        logarithms = cp.sum(cp.log_sum_exp(terms, axis=1))
        objective = objective + count / (alpha - 1) * logarithms
    # a scaled objective: Clarabel's tolerances are absolute, too
    objective = 100 / leakage(equal).sum() * objective
    share = 1 / (budget * floor.size)
    cost = (share * equal) @ cp.inv_pos(v) - share * floor.sum()
    program = cp.Problem(cp.Minimize(objective), [cost <= 1, v <= equal / floor])
    program.solve(solver=cp.CLARABEL)
    if program.status != cp.OPTIMAL:
        raise RuntimeError(
            f"Clarabel reported {program.status!r} instead of an optimum"
        )
    return cast(FloatArray, np.maximum(equal / v.value, floor))
