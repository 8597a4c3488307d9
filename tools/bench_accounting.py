"""Time the exact accountant next to its peers: ``python tools/bench_accounting.py results/benchmarks``

Writes ``accounting.csv``: the bounds of epsilon by each accountant, their relative gap, CPU seconds, and these over the
certified interval's.  Two schedules have one noise multiplier, and two another one in every round; of the first kind
every accountant composes equal rounds at once.  The peers take minutes.
"""

import math
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
from bench import timed, write
from dp_accounting.pld import privacy_loss_distribution
from opacus.accountants import PRVAccountant

from adascale import Problem, accounting, channel, policies, presets
from adascale.comparison import TunedOnRealisation

DELTA = 1e-5
CONSTANT = {
    "q = 0.01, sigma = 1": (0.01, 1.0, 1000),
    "q = 0.004, sigma = 1.1": (0.004, 1.1, 14_000),
}
BUDGETS = {"mnist": 0.04, "cifar10": 0.08}
COLUMNS = ["schedule", "rounds", "accountant", "lower", "upper"]
COLUMNS += ["relative_gap", "cpu_seconds"]


def schedule(preset, budget):
    """Return the title and the events of AdaScale, tuned to the realisation."""
    scenario = presets.load(preset).scenario
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, 7).gain
    problem = Problem(scenario, scenario.min_gain(gain), budget)
    sigma = problem.noise_multiplier(
        TunedOnRealisation(policies.AdaScale)(problem).schedule(problem)
    )[0]
    title = f"{preset}, nu = {budget:g}, AdaScale"
    return title, [(scenario.sampling_rate, sigma_t, 1) for sigma_t in sigma]


def certified(events):
    interval = accounting.epsilon(events, DELTA)
    return interval.lower, interval.upper


def renyi(events):
    q, sigma, count = zip(*events, strict=True)
    sigmas = np.repeat(sigma, count)
    return math.nan, accounting.schedule_epsilon(q[0], sigmas, DELTA).epsilon


def opacus(events):
    """Both bounds of Opacus' PRV accountant, at its default error of 0.01."""
    accountant = PRVAccountant()
    accountant.history = [(sigma, q, count) for q, sigma, count in events]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = accountant._get_dprv(eps_error=0.01, delta_error=DELTA / 1000)
        low, _, high = loss.compute_epsilon(DELTA, DELTA / 1000, 0.01)
    return low, high


def pld(events, pessimistic):
    """dp-accounting at its default interval of 1e-4, a distribution per event, composed as a balanced tree."""
    parts = [
        privacy_loss_distribution.from_gaussian_mechanism(
            sigma,
            sampling_prob=q,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        ).self_compose(count)
        for q, sigma, count in events
    ]
    while len(parts) > 1:
        pairs = [a.compose(b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    value = parts[0].get_epsilon_for_delta(DELTA)
    return (math.nan, value) if pessimistic else (value, math.nan)


ACCOUNTANTS = {
    "adascale, certified": certified,
    "adascale, Renyi": renyi,
    "Opacus PRV": opacus,
    "dp-accounting PLD, connect the dots": partial(pld, pessimistic=True),
    "dp-accounting PLD, optimistic": partial(pld, pessimistic=False),
}


def measured(title, events):
    """Return one row per accountant."""
    rounds = sum(count for *_, count in events)
    rows = []
    for name, run in ACCOUNTANTS.items():
        seconds, ends = timed(partial(run, events), time.process_time)
        rows.append((title, rounds, name, *ends, math.nan, seconds))
    table = pd.DataFrame(rows, columns=COLUMNS)
    table["relative_gap"] = 1 - table.lower / table.upper
    return table.assign(times=table.cpu_seconds / table.cpu_seconds[0])


if __name__ == "__main__":
    schedules = {title: [event] for title, event in CONSTANT.items()}
    schedules |= map(schedule, BUDGETS, BUDGETS.values())
    table = pd.concat([measured(*titled) for titled in schedules.items()])
    write(table, "accounting", "scipy", "opacus", "dp-accounting")
