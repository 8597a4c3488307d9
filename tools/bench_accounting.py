"""Time the exact accountant next to its peers: ``python tools/bench_accounting.py results/benchmarks``

Writes ``accounting.csv``: the ends of epsilon by each accountant on two schedules of different noise multipliers, their
relative gap, CPU seconds, and these over the certified and the sharp epsilon's.  The peers take minutes.
"""

import math
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pandas as pd
from bench import timed, write
from dp_accounting.pld import privacy_loss_distribution
from opacus.accountants import PRVAccountant

from adascale import ReceiveScalingProblem, accounting, channel, policies, presets
from adascale.accounting.exact.sharp import sharp_epsilon
from adascale.comparison import TunedOnRealisation

DELTA = 1e-5
MANY = 500  # schedules, of which the sharp epsilon is timed together
BUDGETS = {"mnist": 0.04, "cifar10": 0.08}


def schedules(preset, seeds):
    """Return the sampling rate and the noise multipliers of AdaScale, tuned to each realisation."""
    scenario = presets.load(preset).scenario
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, seeds).gain
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(gain), BUDGETS[preset])
    eta = TunedOnRealisation(policies.AdaScale)(problem).schedule(problem)
    return scenario.sampling_rate, problem.noise_multiplier(eta)[..., 0, :]


def certified(q, sigma):
    found = accounting.exact_epsilon(q, sigma, DELTA)
    return found.lower, found.upper


def sharp(q, sigma):
    return (float(sharp_epsilon(q, sigma, DELTA)),) * 2


def renyi(q, sigma):
    return math.nan, float(accounting.schedule_epsilon(q, sigma, DELTA).epsilon)


def opacus(q, sigma):
    """Both bounds of Opacus' PRV accountant, at its default error of 0.01."""
    accountant = PRVAccountant()
    for each in sigma:
        accountant.step(noise_multiplier=float(each), sample_rate=q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = accountant._get_dprv(eps_error=0.01, delta_error=DELTA / 1000)
        low, _, high = found.compute_epsilon(DELTA, DELTA / 1000, 0.01)
    return float(low), float(high)


def pld(q, sigma, pessimistic):
    """dp-accounting at its default interval of 1e-4, a distribution per round, composed as a balanced tree."""
    parts = [
        privacy_loss_distribution.from_gaussian_mechanism(
            float(each), sampling_prob=q, pessimistic_estimate=pessimistic, use_connect_dots=pessimistic
        )
        for each in sigma
    ]
    while len(parts) > 1:
        pairs = [a.compose(b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    value = float(parts[0].get_epsilon_for_delta(DELTA))
    return (math.nan, value) if pessimistic else (value, math.nan)


ACCOUNTANTS = {
    "adascale, certified": (certified, 5),
    "adascale, sharp": (sharp, 20),
    "adascale, Renyi": (renyi, 5),
    "Opacus PRV": (opacus, 1),
    "dp-accounting PLD, connect the dots": (partial(pld, pessimistic=True), 1),
    "dp-accounting PLD, optimistic": (partial(pld, pessimistic=False), 1),
}
"""What is timed, and how often."""


def measured(preset):
    """Return a row for the sharp epsilon of many schedules, with nothing set up before, and one per accountant."""
    cpu_seconds = partial(timed, clock=time.process_time)
    title = f"{preset}, nu = {BUDGETS[preset]:g}, AdaScale"
    seconds, _ = cpu_seconds(partial(sharp_epsilon, *schedules(preset, range(MANY)), DELTA))
    q, sigma = schedules(preset, 7)
    columns = ["schedule", "rounds", "accountant", "lower", "upper", "cpu_seconds"]
    many = (f"{title}, {MANY} schedules", sigma.size, "adascale, sharp", math.nan, math.nan, seconds)
    certified(q, sigma)  # compiles
    rows = []
    for name, (run, repeats) in ACCOUNTANTS.items():
        seconds, ends = cpu_seconds(partial(run, q, sigma), repeats)
        rows.append((title, sigma.size, name, *ends, seconds))
    table = pd.DataFrame(rows, columns=columns)
    table.insert(5, "relative_gap", (table.upper - table.lower) / table.upper)
    for row, kind in enumerate(("certified", "sharp")):
        table[f"times_{kind}"] = table.cpu_seconds / table.cpu_seconds[row]
    return pd.concat([pd.DataFrame([many], columns=columns), table])


if __name__ == "__main__":
    with ProcessPoolExecutor() as pool:
        found = pd.concat(pool.map(measured, BUDGETS))
    formats = {"relative_gap": "{:.1e}".format, "cpu_seconds": "{:.2g}".format}
    formats |= dict.fromkeys(("lower", "upper"), "{:.6f}".format)
    formats |= dict.fromkeys(("times_certified", "times_sharp"), "{:.3g}".format)
    packages = "scipy", "numba", "opacus", "dp-accounting"
    write(found, Path(sys.argv[1], "accounting.csv"), *packages, formats=formats)
