r"""When receiver noise hurts: the weight of a round's noise in the final loss (:ref:`sec-weights`).

Closed forms for quadratic losses.  The trainings that go with them are in :mod:`companion.training.weighted_trainings`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, nnls

from adascale import channel
from adascale.accounting import RenyiAccountant, order_grid
from adascale.policies import Optimal
from adascale.problem import Problem
from adascale.scenario import FloatArray, Scenario
from companion.bounds.convergence import Real
from companion.training.weighted_optimal import WeightedOptimal, mean_one, weighted_cost


def impulse_response(
    curvature: Real, learning_rate: float, rounds: int, momentum: float = 0.0
) -> FloatArray:
    r"""Return :math:`\psi_k` of :eq:`eq:impulse-response`, for k from 0, at curvatures :math:`h \ge 0` of any shape.

    It is what is left of a disturbance after k further rounds, in units of :math:`-\lambda`, shape (..., rounds); with
    weight decay, give :math:`h + \beta`.
    """
    psi = np.ones((*np.shape(curvature), rounds))
    keep = 1 + momentum - learning_rate * curvature
    for k in range(1, rounds):
        psi[..., k] = keep * psi[..., k - 1] - (
            momentum * psi[..., k - 2] if k > 1 else 0
        )
    return psi


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
    x = forgetting / 4
    with np.errstate(invalid="ignore"):
        return np.where(x > 0, np.tanh(x) / np.where(x > 0, x, 1), 1.0)


ORDERS = (1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0)
"""At which :func:`compare` tries the weighted optimum, since it depends on the order."""


class Comparison(NamedTuple):
    """Weighted against unweighted optimum, ratios with an entry for every lane.

    At the same final loss, ``leakage`` is that of the RDP, ``epsilon`` of the same schedules, and ``best_epsilon`` of
    the order, of those tried, with the least epsilon.  At the same RDP, ``excess`` is that of what all noise, floors
    included, adds to the final loss.
    """

    leakage: FloatArray
    epsilon: FloatArray
    best_epsilon: FloatArray
    excess: FloatArray


def compare(
    problem: Problem, weights: ArrayLike, orders: Sequence[float] = ORDERS
) -> Comparison:
    r"""Compare the optimum under weights, shape (T,), with Optimal at the budget; the lanes have one axis."""
    budget = np.broadcast_to(problem.budget, problem.batch_shape)
    flat = Optimal().schedule(problem)
    policy = WeightedOptimal(weights)
    budget_spent = weighted_cost(problem, flat, weights)
    target = problem.rdp(flat)
    needed = np.empty(problem.batch_shape)
    scenario = problem.scenario
    account = RenyiAccountant(tuple(order_grid(4096)))
    equal_loss = policy.schedule(Problem(scenario, problem.min_gain, budget_spent))
    for lane in np.ndindex(problem.batch_shape):
        alone = Problem(scenario, problem.min_gain[lane], budget[lane])
        needed[lane] = equal_leakage(alone, policy, float(target[lane]))
    base = problem.epsilon(flat, account)
    best = epsilon = problem.epsilon(equal_loss, account)
    for order in orders:
        tried = Problem(replace(scenario, order=order), problem.min_gain, budget_spent)
        best = np.minimum(best, problem.epsilon(policy.schedule(tried), account))
    ground = np.mean(mean_one(weights) * problem.min_noise_energy, axis=-1)
    return Comparison(
        problem.rdp(equal_loss) / target,
        epsilon / base,
        best / base,
        (ground + needed) / (ground + budget_spent),
    )


def equal_leakage(problem: Problem, policy: WeightedOptimal, leakage: float) -> float:
    """Find the weighted budget at which a policy's RDP is ``leakage`` in nats, on one lane."""

    def above(log_budget):
        tried = Problem(problem.scenario, problem.min_gain, np.exp(log_budget))
        return float(np.log(problem.rdp(policy.schedule(tried)) / leakage))

    low = high = float(np.log(problem.budget))
    while above(low) < 0:
        low -= 1
    while above(high) > 0:
        high += 1
    return (
        float(np.exp(brentq(above, low, high, xtol=1e-12)))
        if low < high
        else float(problem.budget)
    )


def fitted_weights(
    later: NDArray[np.int64],
    response: FloatArray,
    error: FloatArray,
    learning_rate: float,
    rounds: int,
    momentum: float = 0.0,
) -> FloatArray:
    r"""Return weights of the form that :prf:ref:`prop-weights` gives, nearest to measured responses, shape (rounds,).

    Non-negative amounts of 60 curvatures, by least squares in units of the standard errors.  ``response`` is what a
    unit of noise energy added to the loss when ``later`` rounds came after it.
    """
    grid = np.geomspace(
        0.05 * (1 - momentum) / (learning_rate * rounds), 1.0 / learning_rate, 60
    )
    psi = impulse_response(grid, learning_rate, rounds, momentum) ** 2
    measured = psi[:, later]
    amount, _ = nnls((measured / error).T, response / error)
    return (amount @ psi)[::-1]


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
    gain = scenario.min_gain(
        channel.draw(scenario.num_devices, scenario.num_rounds, list(seeds)).gain
    )
    rows = []
    for budget, x in product(nu, forgetting):
        weights = loss_weights(
            1.0, -math.expm1(-x / (2 * scenario.num_rounds)), scenario.num_rounds
        )
        ratios = compare(Problem(scenario, gain, budget), weights)
        rows.append(
            pd.DataFrame(
                {"nu": budget, "forgetting": x, "seed": list(seeds)} | ratios._asdict()
            )
        )
    return pd.concat(rows, ignore_index=True)
