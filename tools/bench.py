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
from opacus.accountants import RDPAccountant
from scipy import optimize

from adascale import Problem, Scenario, accounting, channel, policies, presets, tuning
from adascale.comparison import leakage_table
from adascale.runs.provenance import write_provenance
from companion.methods import METHODS
from companion.theory.optimum_by_cvxpy import optimum_by_cvxpy

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


def mnist(seeds=0, budget=0.04):
    """Return the problem of MNIST, for one realisation or more."""
    gain = channel.draw(MNIST.num_devices, MNIST.num_rounds, seeds).gain
    return Problem(MNIST, MNIST.min_gain(gain), budget)


def row(benchmark, own, peer, reference, count=1, of=np.asarray):
    """Return a row of the table; our own run does so many things, and results differ in what ``of`` takes from each."""
    (seconds, result), (peer_seconds, expected) = timed(own), timed(reference)
    difference = np.abs(of(result) / of(expected) - 1).max()
    return benchmark, seconds / count, peer, peer_seconds, difference


def opacus_epsilon(sigmas):
    accountant = RDPAccountant()
    for sigma in sigmas:
        accountant.step(noise_multiplier=sigma, sample_rate=MNIST.sampling_rate)
    return accountant.get_epsilon(delta=1e-5)


def epsilons(name, count):
    """One schedule of 500 different noise multipliers, the last of so many, against Opacus."""
    problem = mnist(seeds=range(100), budget=BUDGETS["mnist"][:, None])
    sigma = problem.noise_multiplier(policies.EqualAlloc().schedule(problem))
    sigmas = sigma[..., 0, :].reshape(500, -1)[:count]
    q = MNIST.sampling_rate

    def own():
        return accounting.schedule_epsilon(q, sigmas).epsilon[-1]

    return row(name, own, "Opacus", partial(opacus_epsilon, sigmas[-1]), count)


def optimum(name):
    """The offline optimum of one realisation, against CVXPY with Clarabel."""
    problem = mnist()
    own = partial(policies.Optimal().schedule, problem)
    cvxpy = partial(optimum_by_cvxpy, problem)
    return row(name, own, "CVXPY, Clarabel", cvxpy, of=problem.rdp)


def adascale_steps(name):
    """AdaScale's compiled horizon, against one round at a time, as a server runs it."""
    problem, policy = mnist(), policies.AdaScale(0.03)
    steps = partial(policies.OnlinePolicy.schedule, policy, problem)
    return row(name, partial(policy.schedule, problem), "round by round", steps)


def tuning_one(name):
    """The penalty of one realisation, against brentq of SciPy on the same schedule."""
    problem = mnist()

    def excess(log_penalty):
        policy = policies.AdaScale(np.exp(log_penalty))
        return problem.cost(policy.schedule(problem)) / 0.04 - 1

    def brentq():
        return np.exp(optimize.brentq(excess, centre - 3, centre + 3, xtol=1e-12))

    centre = np.log(policies.AdaScale.guess(problem))
    own = partial(tuning.match_budget, policies.AdaScale, problem)
    return row(name, own, "brentq", brentq)


def figures(name):
    """Both figures of the paper, all six methods, 100 realisations, tuning and accounting included."""
    panels = [(presets.load(name).scenario, levels) for name, levels in BUDGETS.items()]

    def tables():
        return [leakage_table(*panel, range(100), METHODS) for panel in panels]

    return name, timed(tables)[0], "", math.nan, math.nan


if __name__ == "__main__":
    rows = [
        epsilons("epsilon of one schedule of 500 rounds", 1),
        epsilons("the same, one of 500 schedules", 500),
        optimum("offline optimum, 500 rounds"),
        adascale_steps("AdaScale, a whole horizon of 500 rounds"),
        tuning_one("tuning AdaScale to one realisation"),
        figures("both leakage figures, 100 realisations"),
    ]
    table = pd.DataFrame(
        rows, columns=["benchmark", "seconds", "peer", "peer_seconds", "difference"]
    )
    table.insert(4, "ratio", table.peer_seconds / table.seconds)
    write(table, "leakage", "scipy", "numba", "opacus", "cvxpy", "clarabel")
