r"""When receiver noise hurts: the weight of a round's noise in the final loss (:ref:`sec-weights`).

Closed forms for quadratic losses.  The trainings that go with them are in :mod:`companion.training.weighted_trainings`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from adascale import channel
from adascale.accounting import RenyiAccountant, order_grid
from adascale.policies import Optimal
from adascale.problem import Problem
from adascale.rootfind import find_roots, widen
from adascale.scenario import FloatArray, Scenario
from companion.bounds.convergence import Real
from companion.training.weighted_optimal import WeightedOptimal, mean_one


def impulse_response(
    curvature: Real, learning_rate: float, rounds: int, momentum: float = 0.0
) -> FloatArray:
    r"""Return :math:`\psi_k` of :eq:`eq:impulse-response`, for k from 0, at curvatures :math:`h \ge 0` of any shape.

    It is what is left of a disturbance after k further rounds, in units of :math:`-\lambda`, shape (..., rounds); with
    weight decay, give :math:`h + \beta`.
    """
    # one more before the first, which is 0
    psi = np.ones((*np.shape(curvature), rounds + 1))
    psi[..., 0] = 0
    keep = 1 + momentum - learning_rate * curvature
    for k in range(2, rounds + 1):
        psi[..., k] = keep * psi[..., k - 1] - momentum * psi[..., k - 2]
    return psi[..., 1:]


def loss_weights(
    curvature: ArrayLike,
    learning_rate: float,
    rounds: int,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> FloatArray:
    r"""Compute what a unit of :math:`w_t` adds to a quadratic's final loss, shape (T,) (:prf:ref:`prop-weights`)."""
    h = np.atleast_1d(curvature)
    psi = impulse_response(h + weight_decay, learning_rate, rounds, momentum)
    return learning_rate**2 / 4 * np.mean(h[:, None] * psi**2, axis=0)[::-1]


def saving(forgetting: Real) -> FloatArray:
    r"""Return the share of :eq:`eq:saving` at :math:`x \ge 0`, which is :math:`2 \lambda h T` for one curvature."""
    x = np.asarray(forgetting) / 4
    return np.divide(np.tanh(x), x, out=np.ones_like(x), where=x > 0)


ORDERS = (1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0)
"""At which :func:`compare` tries the weighted optimum, since it depends on the order."""


def compare(
    problem: Problem, weights: ArrayLike, orders: Sequence[float] = ORDERS
) -> dict[str, FloatArray]:
    r"""Compare the optimum under weights, shape (T,), with Optimal at the budget: ratios, one for every lane.

    At the same final loss, ``leakage`` is that of the RDP, ``epsilon`` of the same schedules, and ``best_epsilon`` of
    the order, of those tried, with the least epsilon.  At the same RDP, ``excess`` is that of what all noise, floors
    included, adds to the final loss.
    """
    flat = Optimal().schedule(problem)
    policy = WeightedOptimal(weights)
    c = mean_one(weights)
    spent = np.mean(c * problem.spend(flat), axis=-1)
    equal_loss = Problem(problem.scenario, problem.min_gain, spent)
    w = policy.schedule(equal_loss)
    account = RenyiAccountant(tuple(order_grid(4096)))
    base = problem.epsilon(flat, account)
    best = epsilon = problem.epsilon(w, account)
    for order in orders:
        scenario = replace(problem.scenario, order=order)
        tried = policy.schedule(Problem(scenario, problem.min_gain, spent))
        best = np.minimum(best, problem.epsilon(tried, account))
    leakage = problem.rdp(flat)
    needed = equal_leakage(problem, policy, leakage)
    ground = np.mean(c * problem.min_noise_energy, axis=-1)
    return {
        "leakage": problem.rdp(w) / leakage,
        "epsilon": epsilon / base,
        "best_epsilon": best / base,
        "excess": (ground + needed) / (ground + spent),
    }


def equal_leakage(
    problem: Problem, policy: WeightedOptimal, leakage: FloatArray
) -> FloatArray:
    """Find the weighted budget at which a policy's RDP is ``leakage`` in nats, for every lane."""
    gain = np.atleast_2d(problem.min_gain)
    aim = np.atleast_1d(leakage)

    def excess(log_budget, lane):
        tried = Problem(problem.scenario, gain[lane], np.exp(log_budget))
        return np.log(tried.rdp(policy.schedule(tried)) / aim[lane])

    start = np.broadcast_to(np.log(problem.budget), aim.shape)
    log_budget, _ = find_roots(excess, *widen(excess, start, 1.0, 60.0), 1e-12)
    return np.exp(log_budget).reshape(problem.batch_shape)


NU = (0.01, 0.16, 2.56)
FORGETTING = (2.0, 6.0, 20.0)
SEEDS = range(20)
"""Of the committed table."""


def table(
    nu: Sequence[float] = NU,
    forgetting: Sequence[float] = FORGETTING,
    seeds: Sequence[int] = SEEDS,
) -> pd.DataFrame:
    r"""Return :func:`compare` for quadratics of one curvature on MNIST's channels, :math:`x = 2\lambda hT`."""
    scenario = Scenario.mnist()
    T = scenario.num_rounds
    drawn = channel.draw(scenario.num_devices, T, seeds)
    min_gain = scenario.min_gain(drawn.gain)
    tables = []
    for budget, x in product(nu, forgetting):
        weights = loss_weights(1.0, -math.expm1(-x / (2 * T)), T)
        ratios = compare(Problem(scenario, min_gain, budget), weights)
        case = {"nu": budget, "forgetting": x, "seed": seeds}
        tables.append(pd.DataFrame(case | ratios))
    return pd.concat(tables, ignore_index=True)
