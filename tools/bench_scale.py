"""Time every policy against the rounds and against the devices: ``python tools/bench_scale.py results/benchmarks``

Writes ``scale.csv``: seconds to tune a policy to nu = .04 on one realisation of MNIST and to choose all its scalings,
with 10 devices where the rounds grow, and with 500 rounds where the devices do.  ``floors`` is the draw of the channel,
a block at a time, and ``Best`` takes 80 % of the devices.  Each is measured in a process of its own, as the best of up
to three runs.  ``exponent`` is the slope of log seconds over the last three sizes, so 1 is linear; ``megabytes`` is the
growth of that process at the largest size.
"""

import multiprocessing
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from bench import significant, timed, write

from adascale import Problem, Scenario, channel, registry
from adascale.comparison import find_method
from adascale.errors import InvalidInput
from adascale.policies import Best, Truncated

AXES = {"rounds": [10**k for k in range(2, 7)], "devices": [10**k for k in range(1, 6)]}
MODEL = channel.Rayleigh()
LONGEST = 60  # seconds, after which no larger size is tried
SELECTING = {
    "Truncated": lambda scenario, gain, total: Truncated.of_total(
        scenario, gain, total
    ).select(scenario, gain),
    "Best": lambda scenario, gain, total: Best.of_total(
        scenario, gain, total, scenario.num_devices * 4 // 5
    ).select(scenario, gain),
}


def sized(axis, size):
    """Return MNIST with so many rounds or devices."""
    return replace(Scenario.mnist(), **{f"num_{axis}": size})


def peak():
    """Return the most kilobytes that this process has held."""
    return int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])


def measure(name, axis, size):
    """Return the seconds, and the megabytes by which the process has grown."""
    scenario = sized(axis, size)
    if name == "floors":
        work = lambda: MODEL.min_gains(scenario, 0)  # noqa: E731
    elif name in SELECTING:
        gain = MODEL.draw(scenario.num_devices, scenario.num_rounds, 0).gain
        total = (
            0.04
            + Problem(scenario, scenario.min_gain(gain), 0.04).min_noise_energy.mean()
        )
        work = lambda: SELECTING[name](scenario, gain, total)  # noqa: E731
    else:
        gain, path_loss = MODEL.min_gains(scenario, 0)
        problem, mean_gain = (
            Problem(scenario, gain, 0.04),
            scenario.mean_gain(path_loss),
        )
        method = find_method(name)[1]
        work = lambda: method(problem, mean_gain, MODEL).schedule(problem)  # noqa: E731
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak()
    first, _ = timed(work)
    grown = peak() - before
    return min(first, timed(work, 2)[0]) if first < 10 else first, grown / 1024


def row(name, axis):
    """Return a row of the table: every size in a process of its own."""
    seconds, context = {}, multiprocessing.get_context("fork")
    for size in AXES[axis]:
        with ProcessPoolExecutor(1, context) as own:
            try:
                seconds[size], grown = own.submit(measure, name, axis, size).result()
            except InvalidInput as error:  # an array would have too many entries
                print(name, axis, size, error)
                break
        print(name, axis, size, seconds[size], grown, flush=True)
        if seconds[size] > LONGEST:
            break
    last = list(seconds)[-3:]
    slope = np.polyfit(np.log(last), np.log([seconds[each] for each in last]), 1)[0]
    times = {f"seconds_{size}": each for size, each in seconds.items()}
    return {
        "policy": name,
        "growing": axis,
        **times,
        "exponent": slope,
        "megabytes": grown,
    }


def table(rows, folder):
    """Write and print the rows."""
    columns = [
        "policy",
        "growing",
        *(f"seconds_{10**k}" for k in range(1, 7)),
        "exponent",
        "megabytes",
    ]
    formats = dict.fromkeys(columns[2:-2], significant) | {
        "exponent": "{:.2f}".format,
        "megabytes": "{:.0f}".format,
    }
    write(
        pd.DataFrame(rows)[columns],
        Path(folder, "scale.csv"),
        "scipy",
        "numba",
        formats=formats,
    )


if __name__ == "__main__":
    names = [*dict.fromkeys(["floors", *registry.names("policies"), *SELECTING])]
    for each in names:
        measure(each, "rounds", 100)  # compiles
    table([row(name, axis) for axis in AXES for name in names], sys.argv[1])
