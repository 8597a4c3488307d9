"""Certified regrets at the paper's horizon: ``python -m companion make certificate``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from adascale import channel, policies
from adascale.channel import RayleighFloors
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import Scenario
from companion.bounds import certify_regret, level_value
from companion.causal.growth import CELLS, surplus
from companion.results import Made

BUDGETS = (0.01, 0.04, 0.16)
PLACEMENTS = (0.05, 0.5, 0.95, 1.0)
"""Quantiles of the floors' scale over the placements drawn; all but the median for the second budget alone."""
MARGINS = (1.0, 2.0, 3.0)
"""Safety margins, for the placement with the median scale."""
DRAWS = 2_000
HORIZONS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 400, 500)
"""Rounds of the second table."""


def certificate_tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    r"""Certified and simulated regrets of re-solving over the rounds of the MNIST scenario.

    At the scenario's horizon, a row per placement (a quantile), :math:`\nu` and safety margin: the bounds ``optimum``
    and ``policy`` of :func:`~companion.bounds.certify_regret`; ``constant``, the least c with a bound of at most A ln T
    + c for every shorter horizon T as well; ``regret``, the mean over ``DRAWS`` simulations, and ``half`` its 95 %
    interval, in nats.  For the median placement and the margin 2, a row per :math:`\nu` and horizon ``T`` of
    :data:`HORIZONS`.
    """
    scenario = Scenario.mnist()
    F = RoundLeakage(scenario)
    rounds = scenario.num_rounds
    path_loss = channel.draw(scenario.num_devices, 1, range(CELLS)).path_loss
    scales = RayleighFloors.of(scenario, scenario.mean_gain(path_loss)).scale
    rows = []
    shorter = []
    for place in PLACEMENTS:
        scale = float(np.quantile(scales, place, method="nearest"))
        law = RayleighFloors(scale)
        floor = law.draw(np.random.default_rng(0), DRAWS, rounds)
        gain = scenario.floor(floor)
        for nu in BUDGETS if place == 0.5 else BUDGETS[1:2]:
            value = level_value(F, law, nu)
            problem = Problem(replace(scenario, num_rounds=rounds), gain, nu)
            for margin in MARGINS if place == 0.5 else (2.0,):
                certified = certify_regret(scenario, law, nu, rounds, margin)
                policy = policies.ReSolve(
                    law=law, budget_mode="hard", safety_margin=margin
                )
                loss = surplus(F, value, floor, policy.schedule(problem)).sum(axis=-1)
                half = 1.96 * loss.std(ddof=1) / DRAWS**0.5
                A = float(value.log_coefficient)
                constant = np.max(
                    certified.policy - A * np.log(np.arange(1, rounds + 1))
                )
                bounds = A, certified.optimum[-1], certified.policy[-1], constant
                rows.append(
                    (place, scale, nu, margin, rounds, *bounds, loss.mean(), half)
                )
                if (place, margin) == (0.5, 2.0):
                    shorter += [
                        (nu, T, A, certified.optimum[T - 1], certified.policy[T - 1])
                        for T in HORIZONS
                    ]
    columns = [
        "placement",
        "scale",
        "nu",
        "margin",
        "rounds",
        "A",
        "optimum",
        "policy",
        "constant",
        "regret",
        "half",
    ]
    return pd.DataFrame(rows, columns=columns), pd.DataFrame(
        shorter, columns=["nu", "T", "A", "optimum", "policy"]
    )


def committed() -> Made:
    """Return the committed tables."""
    for table in certificate_tables():
        provenance = {"scenario": "mnist", "nu": list(BUDGETS), "draws": DRAWS}
        yield table.to_csv(index=False, float_format="%.7g"), provenance
