r"""Policies that guarantee one epsilon on every channel: their noise, and hostile channels.

``python -m companion make hard-noise`` and ``hard-paths``.
"""

from dataclasses import replace
from itertools import product

import numpy as np

from adascale import channel
from adascale.accounting import ExactAccountant, RenyiAccountant, order_grid
from adascale.channel import RayleighFloors
from adascale.comparison import measure
from adascale.policies import Best, EqualAlloc, PrivacyBudget, Truncated
from adascale.problem import Problem
from adascale.scenario import Scenario
from companion.results import Rows

EPSILONS = (1.0, 2.0, 4.0)
SEEDS = range(4)
PATHS, ROUNDS, TARGET = 1_000, 20, 2.0
"""Hostile channels of each kind for each policy, their rounds, and the Rényi epsilon that none may exceed."""
TASKS = [*product(EPSILONS, SEEDS)]


def noise_rows(epsilon: float, seed: int) -> Rows:
    """Yield a row per policy: its noise energies and the exact epsilon that it reached on this channel.

    ``total`` is the mean noise energy of a round, ``extra`` the part above the floors at which all devices send.
    """
    scenario = Scenario.mnist()
    realisation = channel.draw(scenario.num_devices, scenario.num_rounds, seed)
    problem = Problem(scenario, scenario.min_gain(realisation.gain), 1.0)
    law = RayleighFloors.of(scenario, scenario.mean_gain(realisation.path_loss))
    level = EqualAlloc.budget_for(scenario, epsilon)
    every = {
        "known law": PrivacyBudget(epsilon, law=law),
        "learning": PrivacyBudget(epsilon),
        "one level": Best(scenario.num_devices, level),
        "truncated": Truncated(epsilon=epsilon),
    }
    exact = ExactAccountant()
    for name, policy in every.items():
        found = measure(policy, problem, realisation.gain, exact)
        yield {
            "epsilon": epsilon,
            "seed": seed,
            "policy": name,
            "total": float(found["total"]),
            "extra": float(found["cost"]),
            "exact": float(found["epsilon"]),
        }


_FADE, _CLEAR = 1e3, 1e-6  # floors far above and far below the distribution
_LATE = np.arange(ROUNDS) >= ROUNDS // 2
HOSTILE = {
    "independent": lambda floor: floor,
    "ever weaker": lambda floor: np.sort(floor, axis=-1),
    "deep fades late": lambda floor: np.where(_LATE, _FADE, floor),
    "no floors late": lambda floor: np.where(_LATE, _CLEAR, floor),
    "one good round": lambda floor: np.where(
        floor == floor.min(axis=-1, keepdims=True), floor, _FADE
    ),
}
"""Sequences of floors that the distribution of the first rounds does not foretell."""


HOSTILE_TASKS = [*product(HOSTILE, ("known law", "learning"))]


def path_rows(kind: str, policy: str) -> Rows:
    """Yield how much of its Rényi epsilon a policy spends on channels of one kind, at most and at least."""
    scenario = replace(Scenario.mnist(), num_rounds=ROUNDS)
    drawn = channel.draw(scenario.num_devices, 1, 0)
    law = RayleighFloors.of(scenario, scenario.mean_gain(drawn.path_loss))
    floor = law.draw(np.random.default_rng(0), PATHS, ROUNDS)
    problem = Problem(scenario, scenario.floor(HOSTILE[kind](floor)), 1.0)
    accountant = RenyiAccountant(order_grid(1e5, 1.01))
    known = law if policy == "known law" else None
    w = PrivacyBudget(TARGET, law=known, accountant=accountant).schedule(problem)
    spent = problem.epsilon(w, accountant) / TARGET
    yield {
        "kind": kind,
        "policy": policy,
        "paths": PATHS,
        "most": spent.max(),
        "least": spent.min(),
    }
