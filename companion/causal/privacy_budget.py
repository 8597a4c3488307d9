r"""The noise of policies that guarantee one epsilon on every channel: ``python -m companion make hard-noise``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

import numpy as np

from adascale import channel
from adascale.accounting import ExactAccountant
from adascale.channel import RayleighFloors
from adascale.policies import EqualAlloc, PrivacyBudget, Selection, Truncated
from adascale.problem import Problem
from adascale.scenario import FloatArray, Scenario
from companion.results import Made, tabulate

EPSILONS, SEEDS = (1.0, 2.0, 4.0), range(4)


def guaranteed_rows(
    dataset: str, epsilon: float, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield a row per policy: its noise energies and the exact epsilon that it reached on this channel.

    ``total`` is the mean noise energy of a round, ``extra`` the part above the floors at which all devices send.
    """
    scenario: Scenario = getattr(Scenario, dataset)()
    drawn = channel.draw(scenario.num_devices, scenario.num_rounds, seed)
    problem = Problem(scenario, scenario.min_gain(drawn.gain), 1.0)
    law = RayleighFloors.of(scenario, scenario.mean_gain(drawn.path_loss))
    level = EqualAlloc.budget_for(scenario, epsilon)
    schedules: dict[str, FloatArray | Selection] = {
        "known law": PrivacyBudget(epsilon, law=law).schedule(problem),
        "learning": PrivacyBudget(epsilon).schedule(problem),
        "one level": np.maximum(level, problem.min_noise_energy),
        "truncated": Truncated(epsilon=epsilon).select(scenario, drawn.gain),
    }
    exact = ExactAccountant()
    for name, schedule in schedules.items():
        if isinstance(schedule, Selection):
            total, reached = float(schedule.total), float(schedule.epsilon(exact))
        else:
            total = float(schedule.mean())
            reached = float(problem.epsilon(schedule, exact))
        yield {
            "dataset": dataset,
            "epsilon": epsilon,
            "seed": seed,
            "policy": name,
            "total": total,
            "extra": total - problem.min_noise_energy.mean(),
            "exact": reached,
        }


def committed(executor: Executor | None) -> Made:
    """Return the committed table."""
    tasks = [("mnist", epsilon, seed) for epsilon in EPSILONS for seed in SEEDS]
    text: str = tabulate(guaranteed_rows, tasks, executor).to_csv(
        index=False, float_format="%.7g"
    )
    yield text, {"seeds": f"{SEEDS[0]}-{SEEDS[-1]}"}
