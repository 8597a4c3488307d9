"""Time the package beside its peers, in one run and on the same numbers: ``python tools/bench.py results/benchmarks``

Writes ``leakage.csv`` (a row a benchmark: seconds, the peer's seconds, their ratio, and how far the results differ) and
``leakage.toml`` (where and with what it ran).
"""

import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from opacus.accountants import RDPAccountant

from adascale import ReceiveScalingProblem, Scenario, accounting, channel, policies
from adascale.comparison import leakage_table

MNIST, CIFAR10 = Scenario.mnist(), Scenario.cifar10()
BUDGETS = [0.01, 0.02, 0.04, 0.08, 0.16]


def timed(function, repeats=1):
    """The best of some runs, and the result."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def significant(value):
    """Two digits, as text; nothing for what was not measured."""
    return "" if np.isnan(value) else np.format_float_positional(value, 2, fractional=False, trim="-")


def write_provenance(path, packages, **more):
    """Where and with what a benchmark ran, as TOML."""
    run = {"command": "make bench", "machine": platform.machine(), "cores": os.cpu_count(), **more,
           "system": platform.system(), "python": platform.python_version(),
           **{name: version(name) for name in packages}}  # fmt: skip
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in run.items()]
    path.write_text("\n".join(lines) + "\n")


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
    policies.OptimalCvxpy().schedule(problem)  # loads CVXPY
    peer, expected = timed(lambda: policies.OptimalCvxpy().schedule(problem))
    own, found = timed(lambda: policies.Optimal().schedule(problem), 5)
    differ = problem.rdp(found) / problem.rdp(expected) - 1
    yield "offline optimum, 500 rounds", own, "CVXPY, Clarabel", peer, abs(differ)


def figures():
    """Both figures of the paper, all methods, 100 realisations, tuning and accounting included."""
    seconds = 0.0
    for scenario, budgets in ((MNIST, BUDGETS), (CIFAR10, [*BUDGETS, 0.32])):
        took, _ = timed(lambda s=scenario, b=budgets: leakage_table(s, b, range(100), progress=sys.stderr.isatty()))
        seconds += took
    yield "both leakage figures, 100 realisations", seconds, "", np.nan, np.nan


def main(folder):
    rows = [row for each in (epsilons, optimum, figures) for row in each()]
    table = pd.DataFrame(rows, columns=["benchmark", "seconds", "peer", "peer_seconds", "difference"])
    table.insert(4, "ratio", table.peer_seconds / table.seconds)
    folder.mkdir(parents=True, exist_ok=True)
    plain = table.copy()
    for name in ("seconds", "peer_seconds", "ratio"):
        plain[name] = table[name].map(significant)
    plain.to_csv(folder / "leakage.csv", index=False, float_format="%.1g")
    write_provenance(folder / "leakage.toml", ("numpy", "scipy", "numba", "opacus", "cvxpy", "clarabel"))
    print(table.to_string(index=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
