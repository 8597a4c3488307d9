"""Time the certified epsilon of seeded random schedules: ``python tools/bench_tail.py 2000``

Rates are log-uniform in 1e-7 ... 1, noise multipliers in 0.2 ... 50, counts up to 1e6 and delta in 1e-15 ... 1e-2, and
1 to 30 events are distinct.  Prints a row per proof of the upper bound, and one of all.
"""

import math
import sys
import time

import numpy as np
import pandas as pd

from adascale.accounting import epsilon


def schedules(number):
    rng = np.random.default_rng(4)
    for _ in range(number):
        size = int(np.exp(rng.uniform(0, math.log(31))))
        q = 10 ** rng.uniform(-7, 0, size)
        sigma = 10 ** rng.uniform(-0.7, 1.7, size)
        count = np.floor(10 ** rng.uniform(0, 6, size))
        yield np.column_stack([q, sigma, count]), 10 ** rng.uniform(-15, -2)


def row(events, delta):
    start = time.process_time()
    interval = epsilon(events, delta)
    seconds = time.process_time() - start
    is_open = not interval.certified and interval.upper < 1e4
    width = (interval.upper - interval.lower) / max(interval.upper, 1e-300)
    return interval.ends[1], is_open, width, seconds


SUMMARY = {
    "schedules": ("width", "size"),
    "not_certified": ("is_open", "sum"),
    "median_width": ("width", "median"),
    "median_seconds": ("cpu_seconds", "median"),
    "seconds_of_99_percent": ("cpu_seconds", lambda seconds: seconds.quantile(0.99)),
    "most_seconds": ("cpu_seconds", "max"),
}


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    epsilon([(0.01, 1.0, 10)], 1e-5)  # imports
    columns = ["proof", "is_open", "width", "cpu_seconds"]
    rows = pd.DataFrame([row(*each) for each in schedules(number)], columns=columns)
    table = pd.concat([rows, rows.assign(proof="all")]).groupby("proof").agg(**SUMMARY)
    print(table.to_string(float_format="{:.2g}".format))
