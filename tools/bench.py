"""Time the package next to its peers, in one run and on the same numbers: ``python tools/bench.py results/benchmarks``

Writes ``leakage.csv``: seconds of the package and of the peer, their ratio, and how far the two results differ.
"""

import math
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numba import njit
from opacus.accountants import RDPAccountant
from scipy import optimize

from adascale import (
    Problem,
    Scenario,
    accounting,
    channel,
    policies,
    presets,
    tuning,
)
from adascale.comparison import leakage_table
from adascale.files import write_atomically
from adascale.problem import RoundLeakage
from adascale.runs.provenance import write_provenance
from companion.methods import METHODS
from companion.theory.optimal_cvxpy import OptimalCvxpy

MNIST = Scenario.mnist()
CIFAR10 = Scenario.cifar10()
BUDGETS = {name: np.array(presets.load(name).levels) for name in ("mnist", "cifar10")}


def timed(function, repeats=1, clock=time.perf_counter):
    """Return the least time of some runs, and the result."""
    best = math.inf
    for _ in range(repeats):
        start = clock()
        result = function()
        best = min(best, clock() - start)
    return best, result


def significant(value):
    """Format two digits, with a power of ten where many zeros would be."""
    return (
        f"{value:.1e}"
        if value < 1e-3
        else np.format_float_positional(value, 2, fractional=False, trim="-")
    )


def write(table, path, *packages, formats, **more):
    """Write and print a table with its columns in these formats, and where it was measured."""
    print(table.to_string(index=False))
    for name, form in formats.items():
        table[name] = table[name].map(form, na_action="ignore")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, table.to_csv(index=False, float_format="%.1g"))
    write_provenance(path, "make bench", "numpy", *packages, **more)


def mnist(rounds=500, seeds=0, budget=0.04):
    """Return the problem of MNIST, for one realisation or more."""
    gain = channel.draw(MNIST.num_devices, rounds, seeds).gain
    return Problem(MNIST, MNIST.min_gain(gain), budget)


def row(benchmark, own, peer, reference, count=1):
    """Return a row of the table, given what ``timed`` says of the package and of the peer, for so many things each."""
    (seconds, result), (peer_seconds, expected) = own, reference
    difference = np.abs(np.divide(result, expected) - 1).max()
    return benchmark, seconds / count, peer, peer_seconds / count, difference


def opacus_epsilon(sigmas):
    accountant = RDPAccountant()
    for sigma in sigmas:
        accountant.step(noise_multiplier=sigma, sample_rate=MNIST.sampling_rate)
    return accountant.get_epsilon(delta=1e-5)


def epsilons():
    """One schedule of 500 different noise multipliers, alone and among 500 schedules, against Opacus."""
    problem = mnist(seeds=range(100), budget=BUDGETS["mnist"][:, None])
    sigma = problem.noise_multiplier(policies.EqualAlloc().schedule(problem))[..., 0, :]
    epsilon = partial(accounting.schedule_epsilon, MNIST.sampling_rate)
    epsilon(sigma[0, 0])  # compiles
    opacus = timed(lambda: opacus_epsilon(sigma[2, 0]))
    alone = timed(lambda: epsilon(sigma[2, 0]).epsilon, 5)
    yield row("epsilon of one schedule of 500 rounds", alone, "Opacus", opacus)
    seconds, together = timed(lambda: epsilon(sigma).epsilon)
    one = seconds / 500, together[2, 0]
    yield row("the same, one of 500 schedules", one, "Opacus", opacus)


def optimum():
    """The offline optimum of one realisation, against CVXPY with Clarabel."""
    problem = mnist()
    OptimalCvxpy().schedule(problem)  # loads CVXPY
    cvxpy = timed(lambda: OptimalCvxpy().schedule(problem))
    own = timed(lambda: policies.Optimal().schedule(problem), 5)
    own, cvxpy = ((seconds, problem.rdp(w)) for seconds, w in (own, cvxpy))
    yield row("offline optimum, 500 rounds", own, "CVXPY, Clarabel", cvxpy)


@njit
def plain_newton(floor, budget, penalty, unit, count, weight):
    """AdaScale at order 3 with devices all alike, by Newton's method from the last root: what it takes at the least."""
    energy = np.empty(floor.size)
    queue = 0.0
    w = 0.0
    for t in range(floor.size):
        w = max(w, floor[t])
        for _ in range(60):
            s = unit / w
            once = math.exp(s)
            two = weight[0] * once
            three = 3 * weight[1] * once**3
            moment = 1 + two + three / 3 - weight[0] - weight[1]
            slope = (two + three) / moment
            curvature = (two + 3 * three) / moment - slope**2
            pressure = queue + w - floor[t] - penalty * count * slope * s / (2 * w)
            if w == floor[t] and pressure >= 0:
                break
            step = pressure / (
                1 + penalty * count * s * (2 * slope + s * curvature) / (2 * w * w)
            )
            w = max(w - step, floor[t])
            if abs(step) < 1e-9 * w:
                break
        energy[t] = w
        queue = max(queue + w - floor[t] - budget, 0.0)
    return energy


def adascale_rounds():
    """AdaScale per round: alone over a short and a long horizon, and among a hundred realisations."""
    policy = policies.AdaScale(0.03)
    terms = RoundLeakage(MNIST).terms
    constants = 0.04, 0.03, terms.unit[0], terms.number[0], terms.moments.weight[0]

    def newton(problem):
        floors = np.atleast_2d(problem.min_noise_energy)
        return np.array([plain_newton(floor, *constants) for floor in floors])

    policy.schedule(mnist(2)), newton(mnist(2))  # compiles
    for problem, repeats, setting in (
        (mnist(), 50, "alone, T = 500"),
        (mnist(1_000_000), 4, "alone, T = 1,000,000"),
        (mnist(seeds=range(100)), 4, "among 100 realisations"),
    ):
        own = timed(partial(policy.schedule, problem), repeats)
        peer = timed(partial(newton, problem), repeats)
        count = problem.min_noise_energy.size
        yield row(f"AdaScale a round, {setting}", own, "plain Newton", peer, count)


def adascale_steps():
    """The same one round at a time, as a server runs it."""
    problem = mnist()
    policy = policies.AdaScale(0.03)
    by_rounds = timed(lambda: policies.OnlinePolicy.schedule(policy, problem), 5)
    own = timed(lambda: policy.schedule(problem), 50)
    yield row(
        "AdaScale, a whole horizon of 500 rounds", own, "round by round", by_rounds
    )


def tuning_one():
    """The penalty of one realisation, against brentq of SciPy on the same schedule."""
    problem = mnist()

    def excess(log_penalty):
        policy = policies.AdaScale(np.exp(log_penalty))
        return problem.cost(policy.schedule(problem)) / 0.04 - 1

    def brentq():
        return np.exp(optimize.brentq(excess, centre - 3, centre + 3, xtol=1e-12))

    centre = np.log(policies.AdaScale.guess(problem))
    tuning.match_budget(policies.AdaScale, problem)  # compiles
    peer = timed(brentq, 20)
    own = timed(lambda: tuning.match_budget(policies.AdaScale, problem), 20)
    yield row("tuning AdaScale to one realisation", own, "brentq", peer)


def figures():
    """Both figures of the paper, all six methods, 100 realisations, tuning and accounting included."""
    nobody = np.nan, 1.0
    for_paper = (MNIST, BUDGETS["mnist"]), (CIFAR10, BUDGETS["cifar10"])
    seconds, _ = timed(
        lambda: [leakage_table(*panel, range(100), METHODS) for panel in for_paper]
    )
    yield row("both leakage figures, 100 realisations", (seconds, np.nan), "", nobody)


if __name__ == "__main__":
    benchmarks = epsilons, optimum, adascale_rounds, adascale_steps, tuning_one, figures
    rows = [row for benchmark in benchmarks for row in benchmark()]
    table = pd.DataFrame(
        rows, columns=["benchmark", "seconds", "peer", "peer_seconds", "difference"]
    )
    table.insert(4, "ratio", table.peer_seconds / table.seconds)
    packages = "scipy", "numba", "opacus", "cvxpy", "clarabel"
    formats = dict.fromkeys(("seconds", "peer_seconds", "ratio"), significant)
    write(table, Path(sys.argv[1], "leakage.csv"), *packages, formats=formats)
