r"""What causal policies cost and leak where the channel is not what they believe, at one budget."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from adascale import channel, policies
from adascale.problem import Problem
from adascale.scenario import Scenario
from companion.causal.fresh import CAUSAL
from companion.theory.correlated import gauss_markov_floors

BELIEVERS = (
    "ConstantLevel",
    "ReSolve",
    "AdaScale, warm",
    "Learn",
    "ReSolve, hard",
    "Learn, hard",
)
"""Of :data:`~companion.causal.fresh.CAUSAL`; the two that learn believe nothing."""

SEEDS = range(40)
WORLDS = ("as believed", "path losses off by 3 dB", "slow fading, r = 0.99")
"""Independent rounds of known law; each device's path loss wrong by a normal error in dB; rounds correlated."""


def beliefs_table(budget: float = 0.04, seeds: Sequence[int] = SEEDS) -> pd.DataFrame:
    r"""Cost and leakage of :data:`BELIEVERS` on MNIST in three worlds, of which they believe the first.

    A row per world, policy and seed of distances, fading and errors: ``cost`` over :math:`\nu`; ``ratio``, the Rényi
    leakage over that of the offline optimum at :math:`\nu` on the same realisation.
    """
    scenario = Scenario.mnist()
    rounds = scenario.num_rounds
    realisations = channel.draw(scenario.num_devices, rounds, seeds)
    mean_gain = scenario.mean_gain(realisations.path_loss)
    rows = []
    unit = scenario.noise_scale / scenario.x_max
    wrong, slow = [], []
    for seed, gain in zip(seeds, mean_gain, strict=True):
        rng = np.random.default_rng([12, seed])
        wrong.append(gain * 10 ** (0.3 * rng.standard_normal(scenario.num_devices)))
        slow.append(gauss_markov_floors(unit / gain, 0.99, (1, rounds), rng)[0])
    gains = scenario.min_gain(realisations.gain)
    for world, min_gain, believed in zip(
        WORLDS,
        (gains, gains, unit / np.array(slow)),
        (mean_gain, np.array(wrong), mean_gain),
        strict=True,
    ):
        problem = Problem(scenario, min_gain, budget)
        best = problem.rdp(policies.Optimal().schedule(problem))
        for name in BELIEVERS:
            w = CAUSAL[name](problem, believed).schedule(problem)
            columns = {
                "world": world,
                "policy": name,
                "seed": seeds,
                "cost": problem.cost(w) / budget,
                "ratio": problem.rdp(w) / best,
            }
            rows.append(pd.DataFrame(columns))
    return pd.concat(rows, ignore_index=True)
