r"""Noise that reacts to the broadcast models, within a Rényi budget: ``python -m companion make reactive``.

The server sees the mean :math:`\tilde{\mathbf r}_t` that it receives, and everybody the model that it then broadcasts.
A rule that looks at nothing else keeps the guarantee if the leakage of all rounds, at an order chosen before, is within
one budget on every path (:ref:`sec-reactive`).
"""

import numpy as np

from adascale.accounting import RenyiAccountant
from adascale.accounting.renyi import conversion_offset
from adascale.problem import RoundLeakage
from adascale.scenario import FloatArray, Scenario
from companion.results import Rows
from companion.training.weighted_trainings import SETTINGS, Digits

EPSILON, DELTA = 4.0, 1e-5
RULES = {"even": 0.0, "less noise when large": 1.0, "more noise when large": -1.0}
"""Exponents: how the leakage of a round follows the square norm of what was received before."""
SEEDS = range(12)
_MEMORY = 10
"""Rounds over which the square norm is averaged."""
_ENERGY = np.geomspace(1e-2, 1e8, 6_001)


def budget_at_best_order(scenario: Scenario) -> tuple[float, float, FloatArray]:
    """Return the order at which equal rounds need the least noise, its budget in nats, and a device's leakage.

    The leakage is that of :data:`_ENERGY`.
    """
    orders = np.arange(2.0, 34.0)
    budgets = EPSILON - conversion_offset(orders, DELTA)
    per_round = np.maximum(budgets, 1e-9) / scenario.num_rounds
    leakages = [
        RoundLeakage(scenario, order)(_ENERGY) / scenario.num_devices
        for order in orders
    ]
    best = np.argmin([*map(_noise, per_round, leakages)])
    return orders[best], budgets[best], leakages[best]


def _noise(leaked, leakage):
    """Return ln of the noise energy at which a device leaks so much, within the range of :data:`_ENERGY`."""
    return np.interp(-np.log(leaked), -np.log(leakage), np.log(_ENERGY))


def reactive_rows(seed: int) -> Rows:
    r"""Train with each rule: a row, with its accuracy, its mean noise energy and the epsilon of what it sent.

    With n rounds and R nats left, a round may leak :math:`\frac Rn \min(1.25, \max(0.8, (s_t / \bar s_t)^a))`, where
    :math:`s_t` is the received square norm without the mean energy of its noise, over the last rounds, and
    :math:`\bar s_t` over all.
    """
    digits = Digits.at(SETTINGS["no momentum"], seed)
    problem = digits.problem
    order, budget, leakage = budget_at_best_order(problem.scenario)
    leaks = RoundLeakage(problem.scenario, order)
    for rule, exponent in RULES.items():
        state = digits.federation.start()
        remaining = budget
        react = 1.0
        energies = []
        squares = []
        for n, floor in zip(
            range(problem.num_rounds, 0, -1), problem.min_noise_energy, strict=True
        ):
            # the margin is more than the error of the table
            share = min(react * remaining / n, remaining) * (1 - 1e-5)
            energy = max(np.exp(_noise(share, leakage)), floor)
            remaining -= float(leaks(energy)) / problem.scenario.num_devices
            (state,) = digits.run(state, np.array([energy]))
            energies.append(energy)
            # without momentum, the velocity is what was received
            squares.append(float(state.velocity.square().sum()) - energy / 2)
            recent, all_rounds = (
                max(np.mean(rounds), 1e-9) for rounds in (squares[-_MEMORY:], squares)
            )
            react = np.clip((recent / all_rounds) ** exponent, 0.8, 1.25)
        w = np.array(energies)
        yield {
            "seed": seed,
            "rule": rule,
            "first": w[: len(w) // 4].mean(),
            "last": w[-len(w) // 4 :].mean(),
            "epsilon": float(problem.epsilon(w, RenyiAccountant((order,)))),
        } | digits.evaluate(state)
