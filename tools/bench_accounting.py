"""Time the exact accountant beside its peers: ``python tools/bench_accounting.py results/benchmarks``

On schedules of 500 and 720 different noise multipliers, in one run: the sharp and the certified epsilon of this
package, Opacus' PRV accountant, and the PLD accountant of dp-accounting.  Writes
``accounting.csv`` (a row a schedule and accountant: lower and upper end, their relative distance, CPU seconds, how many
times faster the certified and the sharp epsilon were) and ``accounting.provenance.toml``.  Each schedule has a process
of its own.  The peers take minutes of CPU.
"""

import math
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from dp_accounting.pld import privacy_loss_distribution
from opacus.accountants import PRVAccountant

from adascale import ReceiveScalingProblem, accounting, channel, policies, presets
from adascale.accounting.exact.sharp import sharp_epsilon
from adascale.comparison import TunedOnRealisation
from adascale.files import write_atomically
from adascale.runs.provenance import write_provenance

DELTA = 1e-5
SCHEDULES = (("mnist", 0.04, policies.AdaScale), ("cifar10", 0.08, policies.AdaScale))
"""With a noise multiplier of its own in every round."""


def schedule(preset, nu, policy, seed=7):
    """Rate and noise multipliers."""
    scenario = presets.load(preset).scenario
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, seed).gain
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(gain), nu)
    sigma = problem.noise_multiplier(TunedOnRealisation(policy)(problem).schedule(problem))[0]
    assert np.unique(sigma).size == sigma.size
    return scenario.sampling_rate, sigma


def timed(function, repeats=1):
    """The least CPU seconds of some runs, and the result."""
    best = math.inf
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        best = min(best, time.process_time() - start)
    return best, result


def sharp(q, sigma):
    """This package, uncertified."""
    value = float(sharp_epsilon(q, sigma, DELTA))
    return value, value


def certified(q, sigma):
    """This package, with its bracket."""
    found = accounting.exact_epsilon(q, sigma, DELTA)
    return found.lower, found.upper


def renyi(q, sigma):
    """The Rényi conversion at Opacus' orders."""
    return 0.0, float(accounting.schedule_epsilon(q, sigma, DELTA).epsilon)


def opacus(q, sigma):
    """Opacus' PRV accountant with its default error of 0.01, both of its bounds."""
    accountant = PRVAccountant()
    for each in sigma:
        accountant.step(noise_multiplier=float(each), sample_rate=q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = accountant._get_dprv(eps_error=0.01, delta_error=DELTA / 1000)
        low, _, high = found.compute_epsilon(DELTA, DELTA / 1000, 0.01)
    return float(low), float(high)


def pld(pessimistic):
    """dp-accounting's privacy loss distributions, every noise multiplier as it is, at its default interval of 1e-4.

    They are composed two by two, as a balanced tree.
    """

    def run(q, sigma):
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
        return (0.0, value) if pessimistic else (value, math.inf)

    return run


def accountants():
    """What is timed, with how often."""
    yield "adascale, certified", certified, 5
    yield "adascale, sharp", sharp, 20
    yield "adascale, Renyi", renyi, 5
    yield "Opacus PRV", opacus, 1
    yield "dp-accounting PLD, connect the dots", pld(True), 1
    yield "dp-accounting PLD, optimistic", pld(False), 1


def rows(schedule_of):
    """A row an accountant."""
    preset, nu, policy = schedule_of
    q, sigma = schedule(preset, nu, policy)
    certified(q, sigma), sharp(q, sigma)  # compiles
    own, found = {}, []
    for name, run, repeats in accountants():
        seconds, (low, high) = timed(lambda run=run: run(q, sigma), repeats)
        own[name] = seconds
        width = (high - low) / high if low > 0 and high < math.inf else math.nan
        print(f"{preset} {nu:g} {policy.__name__}, {name}: {low:.6f} ... {high:.6f}, {seconds:.3g} s", flush=True)
        found.append(
            {
                "schedule": f"{preset}, nu = {nu:g}, {policy.__name__}",
                "rounds": sigma.size,
                "accountant": name,
                "lower": f"{low:.6f}" if low > 0 else "",
                "upper": f"{high:.6f}" if high < math.inf else "",
                "relative_gap": "" if math.isnan(width) else f"{width:.1e}",
                "cpu_seconds": f"{seconds:.2g}",
                "times_certified": f"{seconds / own['adascale, certified']:.3g}",
                "times_sharp": f"{seconds / own['adascale, sharp']:.3g}" if "adascale, sharp" in own else "",
            }
        )
    return found


def many(count=500):
    """CPU seconds of the sharp epsilon of many schedules of T rounds; nothing is set up before."""
    found = []
    for preset, nu in (("mnist", 0.04), ("cifar10", 0.08)):
        scenario = presets.load(preset).scenario
        gain = channel.draw(scenario.num_devices, scenario.num_rounds, range(count)).gain
        problem = ReceiveScalingProblem(scenario, scenario.min_gain(gain), nu)
        sigma = problem.noise_multiplier(TunedOnRealisation(policies.AdaScale)(problem).schedule(problem))[..., 0, :]
        seconds, _ = timed(lambda q=scenario.sampling_rate, sigma=sigma: sharp_epsilon(q, sigma, DELTA))
        found.append(
            {
                "schedule": f"{preset}, nu = {nu:g}, AdaScale, {count} schedules",
                "rounds": scenario.num_rounds,
                "accountant": "adascale, sharp",
                "cpu_seconds": f"{seconds:.2g}",
            }
        )
    return found


def main(folder):
    """Do it."""
    first = many()
    print(pd.DataFrame(first).to_string(), flush=True)
    with ProcessPoolExecutor(len(SCHEDULES)) as pool:
        table = pd.DataFrame([*(row for part in pool.map(rows, SCHEDULES) for row in part), *first]).fillna("")
    print(table.to_string())
    write_atomically(Path(folder) / "accounting.csv", table)
    packages = "numpy", "scipy", "numba", "opacus", "dp-accounting"
    write_provenance(Path(folder) / "accounting.csv", "make bench", *packages)


if __name__ == "__main__":
    main(*sys.argv[1:])
