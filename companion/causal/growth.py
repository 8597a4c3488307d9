r"""How regret without the future grows with the horizon: ``python -m companion make growth``.

One law of floors, Rayleigh fading with the median scale of the paper's MNIST cell, and horizons of its own.  What a
schedule leaks beyond the constant level, at that level's price, is a sum of terms that are never negative
(:prf:ref:`lem-accounting`); their mean over independent draws needs no difference of large numbers.
"""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from adascale import channel, policies
from adascale.channel import RayleighFloors
from adascale.policies import Policy, water_level
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import FloatArray, Scenario
from companion.bounds import empty_queue_regret, level_value
from companion.bounds.causal import LevelValue, approach_constant

HORIZONS = (50, 158, 500, 1_581, 5_000)
DRAWS = 400
BUDGET = 0.04
CELLS = 301
"""How many cells are drawn, whose median scale is taken."""
CURVES = (
    "offline optimum",
    "re-solving, hard",
    "level of the past",
    "learning, hard",
    "AdaScale, empty queue",
    "AdaScale, warm queue",
)
"""The policies of the committed table."""


def cell_law(scenario: Scenario) -> RayleighFloors:
    """Return the law of one cell: of that with the median scale among :data:`CELLS` drawn."""
    path_loss = channel.draw(scenario.num_devices, 1, range(CELLS)).path_loss
    return RayleighFloors(
        np.median(RayleighFloors.of(scenario, scenario.mean_gain(path_loss)).scale)
    )


def surplus(
    leakage: RoundLeakage, value: LevelValue, floor: FloatArray, energy: FloatArray
) -> FloatArray:
    r"""Return :math:`\Delta_t = F(w_t) - F(w^\circ_t) + \mu\,(w_t - w^\circ_t) \ge 0` (:prf:ref:`lem-accounting`)."""
    steady = np.maximum(value.level, floor)
    return leakage(energy) - leakage(steady) + value.price * (energy - steady)


class LevelOfThePast(Policy):
    r"""The policy of :prf:ref:`thm-learning`: the water level of the floors of the rounds before.

    The first two rounds spend :math:`\nu` each.  It looks at no budget: what it has spent does not matter to it.
    """

    def schedule(self, problem: Problem) -> FloatArray:
        r"""Return :math:`w_t`, shape (..., T)."""
        floor = problem.min_noise_energy
        energy = floor + problem.budget[..., None]
        for t in range(2, problem.num_rounds):
            energy[..., t] = np.maximum(
                water_level(floor[..., :t], problem.budget), floor[..., t]
            )
        return energy


def _methods(leakage, law, value, scenario):
    """Return each policy for a scenario of T rounds, and its expected growth of regret."""
    T = scenario.num_rounds
    A, spread = float(value.log_coefficient), float(value.spread)
    approach = float(approach_constant(leakage, law, BUDGET))
    penalty = np.sqrt(spread * T / (4 * approach))
    cold = float(empty_queue_regret(leakage, law, BUDGET, penalty, T))
    warm = policies.AdaScale.from_law(scenario, BUDGET, law=law, stiffness=30.0)
    resolve = partial(policies.ReSolve, law=law, budget_mode="hard")
    growing = A * np.log(T)
    return {
        "offline optimum": (policies.Optimal(), A),
        "re-solving, hard": (resolve(), growing),
        "re-solving, hard, no reserve": (resolve(safety_margin=0.0), growing),
        "level of the past": (LevelOfThePast(), growing),
        "learning, hard": (policies.Learn(budget_mode="hard"), 2 * growing),
        "AdaScale, empty queue": (policies.AdaScale(penalty), cold),
        "AdaScale, warm queue": (warm, spread * T / (4 * float(warm.penalty))),
    }


def growth_table(
    horizons: Iterable[int] = HORIZONS,
    draws: int = DRAWS,
    *,
    only: Sequence[str] = CURVES,
) -> pd.DataFrame:
    r"""Measure the regret of policies over horizons, in the MNIST scenario at ``BUDGET``.

    A row per policy and T: ``regret, half``, the mean of :math:`\sum_t \Delta_t` over draws in nats, and half its 95 %
    interval; ``predicted``; ``cost``, the mean cost over :math:`\nu`.
    """
    scenario = Scenario.mnist()
    leakage = RoundLeakage(scenario)
    law = cell_law(scenario)
    value = level_value(leakage, law, BUDGET)
    rng = np.random.default_rng(0)
    rows = []
    for T in horizons:
        problem = Problem(scenario, scenario.floor(law.draw(rng, draws, T)), BUDGET)
        by_name = _methods(leakage, law, value, problem.scenario)
        for name in only:
            policy, predicted = by_name[name]
            w = policy.schedule(problem)
            total = surplus(leakage, value, problem.min_noise_energy, w).sum(axis=-1)
            row = {
                "policy": name,
                "T": T,
                "draws": draws,
                "regret": total.mean(),
                "half": 1.96 * total.std(ddof=1) / np.sqrt(draws),
                "predicted": predicted,
                "cost": problem.cost(w).mean() / BUDGET,
            }
            rows.append(row)
    return pd.DataFrame(rows)
