"""The offline optimum as the paper states it: a convex program, solved through CVXPY."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import cast

import numpy as np

from adascale.accounting import kernels
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


def _solve(floor: FloatArray, budget: float, leakage: RoundLeakage) -> FloatArray:
    """Return the optimal noise energies of one lane, at the tolerance of the interior-point method."""
    cp = import_module("cvxpy")  # an import statement would bring its partial types

    equal = floor + budget  # w = equal / v
    v = cp.Variable(floor.size)
    alpha = leakage.order
    # k = 0 and 1 do not depend on v: one term
    k = np.concatenate([[0], np.arange(2, int(alpha) + 1)])
    objective = 0
    for q, unit, count in zip(leakage.rate, leakage.unit, leakage.count, strict=True):
        log_weights = np.concatenate(
            [
                [np.logaddexp(*_first_log_weights(q, alpha))],
                kernels.moment_terms(q, alpha).log_weight[0],
            ]
        )
        is_finite = np.isfinite(log_weights)  # q = 1 leaves k = alpha alone
        exponent = np.outer(unit / equal, k * (k - 1) / 2)[:, is_finite]
        rows = log_weights[is_finite][None, :] + cp.multiply(
            exponent, cp.reshape(v, (floor.size, 1), order="C")
        )
        objective = objective + count / (alpha - 1) * cp.sum(
            cp.log_sum_exp(rows, axis=1)
        )
    share = 1 / (budget * floor.size)
    limits = [
        (share * equal) @ cp.inv_pos(v) - share * floor.sum() <= 1,
        v <= equal / floor,
    ]
    # Clarabel's own tolerances first; where it does not reach them, 1e-7 of an objective scaled up to 100 or 1000
    loose = {"tol_gap_abs": 1e-7, "tol_gap_rel": 1e-7, "tol_feas": 1e-7}
    for size, settings in ((None, {}), (100, loose), (1000, loose)):
        scale = 1 if size is None else size / leakage(equal).sum()
        program = cp.Problem(cp.Minimize(scale * objective), limits)
        with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
            # "may be inaccurate": the status says so too
            warnings.simplefilter("ignore", UserWarning)
            program.solve(solver=cp.CLARABEL, **settings)
        if program.status == cp.OPTIMAL:
            return cast(FloatArray, np.maximum(equal / v.value, floor))
    raise RuntimeError(
        f"Clarabel reported {program.status!r} instead of an optimum at order {leakage.order:g}"
    )


def _first_log_weights(q: float, alpha: float) -> FloatArray:
    """Return the terms k = 0 and 1 that the cancellation-free form leaves out."""
    with np.errstate(divide="ignore"):
        log_miss = np.log1p(-q)
    return np.array(
        [alpha * log_miss, np.log(alpha) + np.log(q) + (alpha - 1) * log_miss]
    )
