"""The offline optimum as the paper states it: a convex program, solved through CVXPY."""

from importlib import import_module

import numpy as np
from scipy.stats import binom

from adascale.problem import Problem, RoundLeakage
from adascale.scenario import FloatArray


def optimum_by_cvxpy(problem: Problem) -> FloatArray:
    r"""Solve problem (28) of one realisation by Clarabel, and return :math:`w^\star_t`, shape (T,).

    The variable is :math:`v_t = x_t / x^{\mathrm{equal}}_t`, as :math:`x_t` in its own unit is of order :math:`10^5`
    and solvers fail on it.  At integer orders, and only there, :math:`\rho_\alpha` is a log-sum-exp of affine functions
    of :math:`x_t`.  Raises ``RuntimeError`` if the solver does not report an optimum.
    """
    cp = import_module("cvxpy")  # an import statement would bring its partial types
    floor = problem.min_noise_energy
    equal = floor + problem.budget  # the noise energy is equal / v
    leakage = RoundLeakage(problem.scenario)
    k = np.arange(int(leakage.order) + 1)
    v = cp.Variable((floor.size, 1))
    logarithms = 0
    kinds = zip(leakage.rate, leakage.unit_energy, leakage.multiplicity, strict=True)
    for rate, unit, number_alike in kinds:
        weight = binom.logpmf(k, k[-1], rate)
        counts = np.isfinite(weight)  # a rate of 1 leaves the last k alone
        exponent = (unit * k * (k - 1) / 2 / equal[:, None])[:, counts]
        terms = weight[counts][None, :] + cp.multiply(exponent, v)
        logarithms += number_alike * cp.sum(cp.log_sum_exp(terms, axis=1))
    # the solver's tolerances are absolute
    scale = 100 / (k[-1] - 1) / leakage(equal).sum()
    cost = (equal @ cp.inv_pos(v) - floor.sum()) / (problem.budget * floor.size)
    power = v <= (equal / floor)[:, None]
    program = cp.Problem(cp.Minimize(scale * logarithms), [cost <= 1, power])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-7, tol_gap_rel=1e-7)
    if program.status != cp.OPTIMAL:
        raise RuntimeError(f"Clarabel reported {program.status!r}, not an optimum")
    return np.maximum(equal / v.value[:, 0], floor)
