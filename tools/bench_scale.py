"""Time every policy against the rounds and against the devices: ``python tools/bench_scale.py results/benchmarks``

Writes ``scale.csv``: seconds to tune a policy to nu = .04 on one realisation of MNIST and to choose all its scalings,
with 10 devices where the rounds grow, and with 500 rounds where the devices do.  ``floors`` is the draw of the channel,
a block at a time, and ``Best`` takes 80 % of the devices.  Each is measured in a process of its own.  ``exponent`` is
the slope of log seconds over the last three sizes, so 1 is linear; ``megabytes`` is the growth of that process at the
largest size.
"""

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from bench import timed, write

from adascale import Problem, Scenario, channel, registry
from adascale.comparison import find_method
from adascale.errors import InvalidInput

AXES = {"rounds": [10**k for k in range(2, 7)], "devices": [10**k for k in range(1, 6)]}
MODEL = channel.Rayleigh()
LONGEST = 60  # seconds, after which no larger size is tried
ARGUMENTS = {"Best": ":number={}", "PrivacyBudget": ":epsilon=8"}


def work_of(name, scenario):
    """Return what is timed: the draw of the floors, or to tune a policy and choose all its scalings."""
    if name == "floors":
        return lambda: MODEL.min_gains(scenario, 0)
    number = scenario.num_devices * 4 // 5
    _, method = find_method(name + ARGUMENTS.get(name, "").format(number))
    if method.chooses_senders:
        gain = MODEL.draw(scenario.num_devices, scenario.num_rounds, 0).gain
        total = 0.04 + scenario.floor(scenario.min_gain(gain)).mean()
        return lambda: method(scenario, gain, total).select(scenario, gain)
    min_gain, path_loss = MODEL.min_gains(scenario, 0)
    problem = Problem(scenario, min_gain, 0.04)
    mean_gain = scenario.mean_gain(path_loss)
    return lambda: method(problem, mean_gain, MODEL).schedule(problem)


def peak():
    """Return the most kilobytes that this process has held."""
    return int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])


def measure(name, axis, size):
    """Return the seconds, and the megabytes by which the process has grown."""
    work = work_of(name, replace(Scenario.mnist(), **{f"num_{axis}": size}))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak()
    seconds, _ = timed(work)
    return seconds, (peak() - before) / 1024


def row(name, axis):
    """Return a row of the table: every size in a process of its own."""
    context = multiprocessing.get_context("fork")
    seconds = {}
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
    last = [*seconds.items()][-3:]
    exponent, _ = np.polyfit(*np.log(last).T, 1)
    times = {f"seconds_{size}": value for size, value in seconds.items()}
    line = {"policy": name, "growing": axis, **times}
    return line | {"exponent": exponent, "megabytes": grown}


if __name__ == "__main__":
    names = ["floors", *registry.names("policies")]
    for name in names:
        measure(name, "rounds", 100)  # compiles
    table = pd.DataFrame([row(name, axis) for axis in AXES for name in names])
    seconds = sorted(table.filter(like="seconds_"), key=len)
    columns = ["policy", "growing", *seconds, "exponent", "megabytes"]
    write(table[columns], "scale", "scipy", "numba")
