"""Certified regrets at the paper's horizon: ``python -m companion make certificate``."""

from itertools import product

import numpy as np
import pandas as pd

from adascale import policies
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import Scenario
from companion.bounds import certify_regret, level_value
from companion.causal.growth import cell_law, surplus

BUDGETS = (0.01, 0.04, 0.16)
MARGINS = (1.0, 2.0, 3.0)
"""Safety margins."""
DRAWS = 2_000
HORIZONS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 400, 500)
"""Rounds of the second table."""


def certificate_tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    r"""Certified and simulated regrets of re-solving over the rounds of the MNIST scenario.

    At the scenario's horizon, for the placement with the median scale (``placement`` is its quantile), a row per
    :math:`\nu` and safety margin: the bounds ``optimum`` and ``policy`` of :func:`~companion.bounds.certify_regret`;
    ``constant``, the least c with a bound of at most A ln T + c for every shorter horizon T as well; ``regret``, the
    mean over ``DRAWS`` simulations, and ``half`` its 95 % interval, in nats.  For the margin 2, a row per :math:`\nu`
    and horizon ``T`` of :data:`HORIZONS`.
    """
    scenario = Scenario.mnist()
    F = RoundLeakage(scenario)
    law = cell_law(scenario)
    T = np.arange(1, scenario.num_rounds + 1)
    floor = law.draw(np.random.default_rng(0), DRAWS, T.size)
    rows = []
    shorter = []
    for nu, margin in product(BUDGETS, MARGINS):
        value = level_value(F, law, nu)
        A = float(value.log_coefficient)
        certified = certify_regret(scenario, law, nu, T.size, margin)
        policy = policies.ReSolve(law=law, budget_mode="hard", safety_margin=margin)
        energy = policy.schedule(Problem(scenario, scenario.floor(floor), nu))
        loss = surplus(F, value, floor, energy).sum(axis=-1)
        row = {
            "placement": 0.5,
            "scale": float(law.scale),
            "nu": nu,
            "margin": margin,
            "rounds": T.size,
            "A": A,
            "optimum": certified.optimum[-1],
            "policy": certified.policy[-1],
            "constant": np.max(certified.policy - A * np.log(T)),
            "regret": loss.mean(),
            "half": 1.96 * loss.std(ddof=1) / DRAWS**0.5,
        }
        rows.append(row)
        if margin == 2:
            bounds = {"nu": nu, "T": T, "A": A}
            bounds |= {"optimum": certified.optimum, "policy": certified.policy}
            shorter.append(pd.DataFrame(bounds).query("T in @HORIZONS"))
    return pd.DataFrame(rows), pd.concat(shorter)
