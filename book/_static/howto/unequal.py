"""Compare what devices with data sets of different sizes leak, for two weights and two batch sizes."""

import numpy as np

from adascale import Problem, Scenario, accounting, channel, policies

SIZES = (150, 200, 300, 450, 700, 1000, 1500, 2200)  # n_m
RATE, TOTAL = 0.1, 0.3  # mean sampling rate, mean noise energy of a round
gain = channel.draw(len(SIZES), 300, seed=0).gain
print("weights  batches       smallest ε  largest ε  mean floor")
for name, weights in ("1/M", None), ("n/N", SIZES):
    for kind, batches in (
        ("proportional", tuple(RATE * np.array(SIZES))),
        ("equal", RATE * np.mean(SIZES)),
    ):
        s = Scenario(
            "unequal",
            len(SIZES),
            300,
            num_parameters=10_000,
            batch_size=batches,
            dataset_size=SIZES,
            clip_norm=1.0,
            max_power=0.2,
            noise_power=1e-12,
            weights=weights,
        )
        least = s.min_gain(gain)
        floor = s.floor(least).mean()
        problem = Problem(s, least, TOTAL - floor)
        w = policies.Learn(budget_mode="hard").schedule(problem)
        each = problem.epsilons(w, accounting.ExactAccountant())
        print(
            f"{name:<8} {kind:<12} {each.min():11.2f} {each.max():10.2f} {floor:11.3f}"
        )
