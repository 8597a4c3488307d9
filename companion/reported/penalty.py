"""The numbers that the chapter on AdaScale tells; see :mod:`companion.reported`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from adascale.policies import Optimal, water_level
from adascale.problem import ReceiveScalingProblem
from adascale.statistics import log_interval
from companion.formatting import Texts
from companion.shi import plain_lyapunov

FloatArray = NDArray[np.float64]


def of_collapse(problem: ReceiveScalingProblem, penalty: float, over: Mapping[float, float]) -> Texts:
    """Of the plain method's leakage over the optimum's by cap, and of a cap a fifth above the water level."""
    budget = float(problem.budget)
    near = plain_lyapunov(problem, penalty, [1.2 * float(water_level(problem.min_noise_energy, budget))]).energy[0]
    eta = problem.scenario.noise_scale / near
    return {
        "cap-safe": f"{problem.min_noise_energy.size * budget:.0f}",
        "leak-10": f"{over[10]:.1f}",
        "leak-last": f"{over[max(over)]:,.0f}",
        "leak-good": f"{problem.rdp(eta) / problem.rdp(Optimal().schedule(problem)):.2f}",
        "cost-good": f"{problem.cost(eta) / budget:.2f}",
    }


def of_sweep(problem: ReceiveScalingProblem, cost: FloatArray, rdp: FloatArray) -> Texts:
    """Of cost and leakage at rising penalties, shape (K,)."""
    own = ReceiveScalingProblem(problem.scenario, problem.min_gain, cost)
    return {
        "cost-low": f"{cost[0] / problem.budget:.2f}",
        "cost-high": f"{cost[-1] / problem.budget:.1f}",
        "sweep-worst": f"{(rdp / own.rdp(Optimal().schedule(own))).max():.2f}",
    }


def of_queue(problem: ReceiveScalingProblem, eta: FloatArray, queue: FloatArray) -> Texts:
    """Of one realisation's schedule and queue, shapes (T,) and (T + 1,)."""
    return {
        "queue-mean": f"{queue.mean() / problem.budget:.1f}",
        "queue-max": f"{queue.max() / problem.budget:.1f}",
        "ratio-0": f"{problem.rdp(eta) / problem.rdp(Optimal().schedule(problem)):.2f}",
    }


def of_closeness(nus: FloatArray, ratio: Mapping[str, FloatArray], optimum: FloatArray) -> Texts:
    """Of leakages over the optimum's, and of the optimum's own, shape (levels, realisations)."""
    ada, equal = (np.array([log_interval(row).centre for row in ratio[name]]) for name in ("AdaScale", "EqualAlloc"))
    return {
        "nu-low": f"{nus[0]:g}",
        "nu-high": f"{nus[-1]:g}",
        "excess-low": f"{100 * (ada[0] - 1):.0f}",
        "excess-high": f"{100 * (ada[-1] - 1):.1f}",
        "equal-low": f"{equal[0]:.0f}",
        "equal-high": f"{equal[-1]:.2f}",
        "worst": f"{ratio['AdaScale'].max():.2f}",
        "optimum-low": f"{optimum[0].min():.1f}",
        "optimum-high": f"{optimum[0].max():.0f}",
    }


def of_tuned(penalty: FloatArray, scaled: FloatArray, path_loss: FloatArray) -> Texts:
    """Of tuned penalties, raw and scaled, shape (levels, realisations), and of the summed path losses."""
    spread = penalty.max(axis=1) / penalty.min(axis=1)
    return {
        "path-correlation": f"{np.corrcoef(np.log(penalty[0]), np.log(path_loss))[0, 1]:.2f}",
        "spread-low": f"{round(spread[0], -3):,.0f}",
        "spread-high": f"{spread[-1]:.1f}",
        "scaled-min": f"{scaled.min():.1f}",
        "scaled-max": f"{scaled.max():.0f}",
    }


def of_rules(
    share: Mapping[str, FloatArray], leaked: Mapping[str, FloatArray], at_cost: Mapping[str, FloatArray]
) -> Texts:
    """Of two rules: cost over nu, leakage over the optimum's at nu and at that cost, shape (levels, realisations)."""
    blind, informed = share["other realisations"], share["path losses"]
    excess, paid = ([100 * (log_interval(row).centre - 1) for row in each["path losses"]] for each in (leaked, at_cost))
    return {
        "blind-low": f"{blind[0].min():.1f}",
        "blind-high": f"{blind[0].max():.1f}",
        "blind-end": f"{100 * np.abs(blind[-1] - 1).max():.0f}",
        "rule-low": f"{informed.min():.2f}",
        "rule-high": f"{informed.max():.2f}",
        "rule-excess": f"{excess[0]:.0f}",
        "rule-end": f"{excess[-1]:.1f}",
        "rule-paid": f"{paid[0]:.0f}",
        "rule-paid-end": f"{paid[-1]:.1f}",
        "rule-spent": f"{informed[0].mean():.2f}",
        "rule-spent-end": f"{informed[-1].mean():.3f}",
        "same-cost": f"{max(values.max() for values in at_cost.values()):.2f}",
    }
