"""The offline optimum as the paper states it, a convex program, for a test and a benchmark of the closed form."""

import cvxpy as cp
import numpy as np
from scipy.stats import binom

from adascale.problem import RoundLeakage


def optimum_by_cvxpy(problem):
    """Solve problem (28) of one realisation at an integer order, by Clarabel; ``RuntimeError`` if it fails.

    The variable is v_t = x_t / x_equal_t, since x_t in its own unit is of order 1e5 and solvers fail on it.  The
    constraint is divided by nu T and the objective is the sum over rounds; neither changes the solution.  At integer
    orders the leakage is a log-sum-exp of affine functions of x_t.
    """
    floor = problem.min_noise_energy
    equal = floor + problem.budget  # w = equal / v
    leakage = RoundLeakage(problem.scenario)
    alpha = int(leakage.order)
    v = cp.Variable(floor.size)
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
    share = 1 / (problem.budget * floor.size)
    cost = (share * equal) @ cp.inv_pos(v) - share * floor.sum()
    program = cp.Problem(cp.Minimize(objective), [cost <= 1, v <= equal / floor])
    program.solve(solver=cp.CLARABEL)
    if program.status != cp.OPTIMAL:
        raise RuntimeError(
            f"Clarabel reported {program.status!r} instead of an optimum"
        )
    return np.maximum(equal / v.value, floor)
