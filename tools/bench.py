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

from adascale import Problem, Scenario, accounting, channel, policies, presets, tuning
from adascale.comparison import leakage_table
from adascale.problem import RoundLeakage
from adascale.runs.provenance import write_provenance
from companion.methods import METHODS
from companion.theory.optimal_cvxpy import OptimalCvxpy

MNIST = Scenario.mnist()
BUDGETS = {name: np.array(presets.load(name).levels) for name in ("mnist", "cifar10")}


def timed(function, clock=time.perf_counter):
    """Return the least time of a run, among as many as take five seconds, and the result."""
    times = []
    while sum(times) < 5:
        start = clock()
        result = function()
        times.append(clock() - start)
    return min(times), result


def write(table, name, *packages, **more):
    """Print a table, and write it into the folder that the command names, with where it was measured."""
    print(table.to_string(index=False, float_format="{:.3g}".format))
    path = Path(sys.argv[1], f"{name}.csv")
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False, float_format="%.8g")
    write_provenance(path, "make bench", "numpy", *packages, **more)


def mnist(rounds=500, seeds=0, budget=0.04):
    """Return the problem of MNIST, for one realisation or more."""
    gain = channel.draw(MNIST.num_devices, rounds, seeds).gain
    return Problem(MNIST, MNIST.min_gain(gain), budget)


def row(benchmark, own, peer, reference, count=1, of=np.asarray):
    """Return a row of the table, for one of so many things; the results differ in what ``of`` takes from each."""
    (seconds, result), (peer_seconds, expected) = timed(own), timed(reference)
    difference = np.abs(of(result) / of(expected) - 1).max()
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
    opacus = timed(lambda: opacus_epsilon(sigma[2, 0]))
    for benchmark, rows, place in (
        ("epsilon of one schedule of 500 rounds", sigma[2, :1], 0),
        ("the same, one of 500 schedules", sigma.reshape(500, -1), 200),
    ):
        seconds, own = timed(lambda rows=rows: epsilon(rows).epsilon)
        difference = abs(own[place] / opacus[1] - 1)
        yield benchmark, seconds / len(rows), "Opacus", opacus[0], difference


def optimum():
    """The offline optimum of one realisation, against CVXPY with Clarabel."""
    problem = mnist()
    own, cvxpy = (
        partial(p.schedule, problem) for p in (policies.Optimal(), OptimalCvxpy())
    )
    name = "offline optimum, 500 rounds"
    yield row(name, own, "CVXPY, Clarabel", cvxpy, of=problem.rdp)


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
    constants = (
        0.04,
        0.03,
        terms.unit_energy[0],
        terms.number[0],
        terms.moments.weight[0],
    )

    def newton(problem):
        floors = np.atleast_2d(problem.min_noise_energy)
        return np.array([plain_newton(floor, *constants) for floor in floors])

    for problem, setting in (
        (mnist(), "alone, T = 500"),
        (mnist(1_000_000), "alone, T = 1,000,000"),
        (mnist(seeds=range(100)), "among 100 realisations"),
    ):
        own, peer = partial(policy.schedule, problem), partial(newton, problem)
        count = problem.min_noise_energy.size
        yield row(f"AdaScale a round, {setting}", own, "plain Newton", peer, count)


def adascale_steps():
    """The same one round at a time, as a server runs it."""
    problem, policy = mnist(), policies.AdaScale(0.03)
    steps = partial(policies.OnlinePolicy.schedule, policy, problem)
    own = partial(policy.schedule, problem)
    yield row("AdaScale, a whole horizon of 500 rounds", own, "round by round", steps)


def tuning_one():
    """The penalty of one realisation, against brentq of SciPy on the same schedule."""
    problem = mnist()

    def excess(log_penalty):
        policy = policies.AdaScale(np.exp(log_penalty))
        return problem.cost(policy.schedule(problem)) / 0.04 - 1

    def brentq():
        return np.exp(optimize.brentq(excess, centre - 3, centre + 3, xtol=1e-12))

    centre = np.log(policies.AdaScale.guess(problem))
    own = partial(tuning.match_budget, policies.AdaScale, problem)
    yield row("tuning AdaScale to one realisation", own, "brentq", brentq)


def figures():
    """Both figures of the paper, all six methods, 100 realisations, tuning and accounting included."""
    panels = [(presets.load(name).scenario, levels) for name, levels in BUDGETS.items()]
    seconds, _ = timed(
        lambda: [leakage_table(*panel, range(100), METHODS) for panel in panels]
    )
    name = "both leakage figures, 100 realisations"
    yield name, seconds, "", math.nan, math.nan


if __name__ == "__main__":
    benchmarks = epsilons, optimum, adascale_rounds, adascale_steps, tuning_one, figures
    rows = [row for benchmark in benchmarks for row in benchmark()]
    table = pd.DataFrame(
        rows, columns=["benchmark", "seconds", "peer", "peer_seconds", "difference"]
    )
    table.insert(4, "ratio", table.peer_seconds / table.seconds)
    write(table, "leakage", "scipy", "numba", "opacus", "cvxpy", "clarabel")
