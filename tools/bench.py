"""Time the package beside its peers, in one run and on the same numbers: ``python tools/bench.py results/benchmarks``

Writes ``leakage.csv`` (a row a benchmark: seconds, the peer's seconds, their ratio, and how far the results differ) and
``leakage.provenance.toml`` (where and with what it ran).
"""

import math
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numba import njit
from opacus.accountants import RDPAccountant
from scipy import optimize

from adascale import ReceiveScalingProblem, Scenario, accounting, channel, policies, presets, tuning
from adascale.comparison import leakage_table
from adascale.files import write_atomically
from adascale.problem import RoundLeakage
from adascale.runs.provenance import write_provenance
from companion.methods import METHODS
from companion.theory import optimal_cvxpy

MNIST, CIFAR10 = Scenario.mnist(), Scenario.cifar10()
BUDGETS = list(presets.load("mnist").levels)


def timed(function, repeats=1):
    """The best of some runs, and the result."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def significant(value):
    """Two digits, as text, with a power of ten where many zeros would stand; nothing for what was not measured."""
    if np.isnan(value):
        return ""
    return f"{value:.1e}" if value < 1e-3 else np.format_float_positional(value, 2, fractional=False, trim="-")


def opacus_epsilon(sigmas):
    accountant = RDPAccountant()
    for sigma in sigmas:
        accountant.step(noise_multiplier=sigma, sample_rate=MNIST.sampling_rate)
    return accountant.get_epsilon(delta=1e-5)


def epsilons():
    """One schedule of 500 different noise multipliers, alone and among 500 schedules, against Opacus."""
    gain = channel.draw(MNIST.num_devices, MNIST.num_rounds, range(100)).gain
    problem = ReceiveScalingProblem(MNIST, MNIST.min_gain(gain), np.array(BUDGETS)[:, None])
    sigma = problem.noise_multiplier(policies.EqualAlloc().schedule(problem))[..., 0, :]
    q = MNIST.sampling_rate
    accounting.schedule_epsilon(q, sigma[0, 0])  # compiles
    peer, expected = timed(lambda: opacus_epsilon(sigma[2, 0]))
    alone, found = timed(lambda: accounting.schedule_epsilon(q, sigma[2, 0]).epsilon, 5)
    yield "epsilon of one schedule of 500 rounds", alone, "Opacus", peer, abs(found / expected - 1)
    together, found = timed(lambda: accounting.schedule_epsilon(q, sigma).epsilon)
    yield "the same, one of 500 schedules", together / 500, "Opacus", peer, abs(found[2, 0] / expected - 1)


def optimum():
    """The offline optimum of one realisation, against CVXPY with Clarabel."""
    gain = channel.draw(MNIST.num_devices, MNIST.num_rounds, 0).gain
    problem = ReceiveScalingProblem(MNIST, MNIST.min_gain(gain), 0.04)
    optimal_cvxpy.OptimalCvxpy().schedule(problem)  # loads CVXPY
    peer, expected = timed(lambda: optimal_cvxpy.OptimalCvxpy().schedule(problem))
    own, found = timed(lambda: policies.Optimal().schedule(problem), 5)
    differ = problem.rdp(found) / problem.rdp(expected) - 1
    yield "offline optimum, 500 rounds", own, "CVXPY, Clarabel", peer, abs(differ)


@njit
def plain_newton(floor, budget, penalty, unit, count, weight):
    """AdaScale at order 3 with devices all alike, by Newton's method from the last root: what it takes at the least."""
    energy, queue, w = np.empty(floor.size), 0.0, 0.0
    for t in range(floor.size):
        w = max(w, floor[t])
        for _ in range(60):
            s = unit / w
            once = math.exp(s)
            two, three = weight[0] * once, 3 * weight[1] * once**3
            moment = 1 + two + three / 3 - weight[0] - weight[1]
            slope = (two + three) / moment
            curvature = (two + 3 * three) / moment - slope**2
            pressure = queue + w - floor[t] - penalty * count * slope * s / (2 * w)
            if w == floor[t] and pressure >= 0:
                break
            step = pressure / (1 + penalty * count * s * (2 * slope + s * curvature) / (2 * w * w))
            w = max(w - step, floor[t])
            if abs(step) < 1e-9 * w:
                break
        energy[t] = w
        queue = max(queue + w - floor[t] - budget, 0.0)
    return energy


def adascale_rounds():
    """AdaScale a round: alone over a short and a long horizon, and among a hundred realisations."""
    for rounds, seeds, what in (
        (500, 0, "alone, T = 500"),
        (1_000_000, 0, "alone, T = 1,000,000"),
        (500, range(100), "among 100 realisations"),
    ):
        gain = channel.draw(MNIST.num_devices, rounds, seeds).gain
        problem, policy = ReceiveScalingProblem(MNIST, MNIST.min_gain(gain), 0.04), policies.AdaScale(0.03)
        terms = RoundLeakage(MNIST).terms
        constants = 0.04, 0.03, terms.unit[0], terms.number[0], terms.moments.weight[0]
        lanes = problem.floor.reshape(-1, rounds)
        plain_newton(lanes[0, :2], *constants)  # compiles
        policy.schedule(ReceiveScalingProblem(MNIST, problem.min_gain[..., :2], 0.04))
        repeats = 50 if lanes.size == 500 else 4
        own, eta = timed(lambda policy=policy, problem=problem: policy.schedule(problem), repeats)
        peer, expected = timed(
            lambda lanes=lanes, constants=constants: np.array([plain_newton(lane, *constants) for lane in lanes]),
            repeats,
        )
        differ = np.abs(problem.noise_energy(eta).reshape(lanes.shape) / expected - 1).max()
        yield f"AdaScale a round, {what}", own / lanes.size, "plain Newton", peer / lanes.size, differ


def adascale_steps():
    """The same one round at a time, as a server runs it."""
    problem = ReceiveScalingProblem(MNIST, MNIST.min_gain(channel.draw(MNIST.num_devices, 500, 0).gain), 0.04)
    policy = policies.AdaScale(0.03)
    peer, expected = timed(lambda: policies.run(policy, problem), 5)
    own, found = timed(lambda: policy.schedule(problem), 50)
    differ = np.abs(found / expected - 1).max()
    yield "AdaScale, a whole horizon of 500 rounds", own, "start and step", peer, differ


def tuning_one():
    """The penalty of one realisation, against brentq of scipy on the same schedule."""
    problem = ReceiveScalingProblem(MNIST, MNIST.min_gain(channel.draw(MNIST.num_devices, 500, 0).gain), 0.04)

    def excess(log_penalty):
        return problem.cost(policies.AdaScale(np.exp(log_penalty)).schedule(problem)) / 0.04 - 1

    centre = np.log(policies.AdaScale.guess(problem))
    tuning.match_budget(policies.AdaScale, problem)  # compiles
    peer, expected = timed(lambda: np.exp(optimize.brentq(excess, centre - 3, centre + 3, xtol=1e-12)), 20)
    own, found = timed(lambda: tuning.match_budget(policies.AdaScale, problem), 20)
    yield "tuning AdaScale to one realisation", own, "brentq", peer, abs(found / expected - 1)


def figures():
    """Both figures of the paper, all six methods, 100 realisations, tuning and accounting included."""
    seconds = 0.0
    for scenario, budgets in ((MNIST, BUDGETS), (CIFAR10, presets.load("cifar10").levels)):
        took, _ = timed(
            lambda s=scenario, b=budgets: leakage_table(s, b, range(100), METHODS, progress=sys.stderr.isatty())
        )
        seconds += took
    yield "both leakage figures, 100 realisations", seconds, "", np.nan, np.nan


BENCHMARKS = (epsilons, optimum, adascale_rounds, adascale_steps, tuning_one, figures)


def main(folder):
    rows = [row for each in BENCHMARKS for row in each()]
    table = pd.DataFrame(rows, columns=["benchmark", "seconds", "peer", "peer_seconds", "difference"])
    table.insert(4, "ratio", table.peer_seconds / table.seconds)
    folder.mkdir(parents=True, exist_ok=True)
    plain = table.copy()
    for name in ("seconds", "peer_seconds", "ratio"):
        plain[name] = table[name].map(significant)
    write_atomically(folder / "leakage.csv", plain.to_csv(index=False, float_format="%.1g"))
    write_provenance(folder / "leakage.csv", "make bench", "numpy", "scipy", "numba", "opacus", "cvxpy", "clarabel")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
