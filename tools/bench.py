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

MNIST, CIFAR10 = Scenario.mnist(), Scenario.cifar10()
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
    shown = table.assign(
        **{
            name: table[name].map(form, na_action="ignore")
            for name, form in formats.items()
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, shown.to_csv(index=False, float_format="%.1g"))
    write_provenance(path, "make bench", "numpy", *packages, **more)


def mnist(rounds=500, seeds=0, budget=0.04):
    """Return the problem of MNIST, for one realisation or more."""
    return Problem(
        MNIST,
        MNIST.min_gain(channel.draw(MNIST.num_devices, rounds, seeds).gain),
        budget,
    )


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
    peer, expected = timed(lambda: opacus_epsilon(sigma[2, 0]))
    alone, found = timed(lambda: epsilon(sigma[2, 0]).epsilon, 5)
    yield (
        "epsilon of one schedule of 500 rounds",
        alone,
        "Opacus",
        peer,
        abs(found / expected - 1),
    )
    together, found = timed(lambda: epsilon(sigma).epsilon)
    yield (
        "the same, one of 500 schedules",
        together / 500,
        "Opacus",
        peer,
        abs(found[2, 0] / expected - 1),
    )


def optimum():
    """The offline optimum of one realisation, against CVXPY with Clarabel."""
    problem = mnist()
    OptimalCvxpy().schedule(problem)  # loads CVXPY
    peer, expected = timed(lambda: OptimalCvxpy().schedule(problem))
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
    policy, terms = policies.AdaScale(0.03), RoundLeakage(MNIST).terms
    newton = partial(
        plain_newton,
        budget=0.04,
        penalty=0.03,
        unit=terms.unit[0],
        count=terms.number[0],
    )
    newton = partial(newton, weight=terms.moments.weight[0])
    policy.schedule(mnist(2)), newton(mnist(2).min_noise_energy.ravel())  # compiles
    for problem, repeats, what in (
        (mnist(), 50, "alone, T = 500"),
        (mnist(1_000_000), 4, "alone, T = 1,000,000"),
        (mnist(seeds=range(100)), 4, "among 100 realisations"),
    ):
        floors = problem.min_noise_energy.reshape(
            -1, problem.min_noise_energy.shape[-1]
        )
        own, w = timed(partial(policy.schedule, problem), repeats)
        peer, expected = timed(
            lambda floors=floors: np.array([*map(newton, floors)]), repeats
        )
        differ = np.abs(w.reshape(floors.shape) / expected - 1).max()
        yield (
            f"AdaScale a round, {what}",
            own / floors.size,
            "plain Newton",
            peer / floors.size,
            differ,
        )


def adascale_steps():
    """The same one round at a time, as a server runs it."""
    problem, policy = mnist(), policies.AdaScale(0.03)
    peer, expected = timed(lambda: policies.OnlinePolicy.schedule(policy, problem), 5)
    own, found = timed(lambda: policy.schedule(problem), 50)
    differ = np.abs(found / expected - 1).max()
    yield "AdaScale, a whole horizon of 500 rounds", own, "round by round", peer, differ


def tuning_one():
    """The penalty of one realisation, against brentq of SciPy on the same schedule."""
    problem = mnist()

    def excess(log_penalty):
        return (
            problem.cost(policies.AdaScale(np.exp(log_penalty)).schedule(problem))
            / 0.04
            - 1
        )

    centre = np.log(policies.AdaScale.guess(problem))
    tuning.match_budget(policies.AdaScale, problem)  # compiles
    peer, expected = timed(
        lambda: np.exp(optimize.brentq(excess, centre - 3, centre + 3, xtol=1e-12)), 20
    )
    own, found = timed(lambda: tuning.match_budget(policies.AdaScale, problem), 20)
    yield (
        "tuning AdaScale to one realisation",
        own,
        "brentq",
        peer,
        abs(found / expected - 1),
    )


def figures():
    """Both figures of the paper, all six methods, 100 realisations, tuning and accounting included."""
    both = (MNIST, BUDGETS["mnist"]), (CIFAR10, BUDGETS["cifar10"])
    seconds, _ = timed(
        lambda: [leakage_table(*each, range(100), METHODS) for each in both]
    )
    yield "both leakage figures, 100 realisations", seconds, "", np.nan, np.nan


if __name__ == "__main__":
    benchmarks = epsilons, optimum, adascale_rounds, adascale_steps, tuning_one, figures
    rows = [row for benchmark in benchmarks for row in benchmark()]
    found = pd.DataFrame(
        rows, columns=["benchmark", "seconds", "peer", "peer_seconds", "difference"]
    )
    found.insert(4, "ratio", found.peer_seconds / found.seconds)
    packages = "scipy", "numba", "opacus", "cvxpy", "clarabel"
    formats = dict.fromkeys(("seconds", "peer_seconds", "ratio"), significant)
    write(found, Path(sys.argv[1], "leakage.csv"), *packages, formats=formats)
