"""Time the certified epsilon of seeded random schedules: ``python tools/bench_tail.py 2000``

Rates are log-uniform in 1e-7 ... 1, noise multipliers in 0.2 ... 50, counts up to 1e6 and delta in 1e-15 ... 1e-2, and
1 to 30 events are distinct.  Prints a row per proof of the upper bound, and one of all.
"""

import argparse
import math
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


def summary(rows):
    seconds = rows.cpu_seconds
    return pd.Series(
        {
            "schedules": len(rows),
            "not_certified": rows.is_open.sum(),
            "median_width": rows.width.median(),
            "median_seconds": seconds.median(),
            "seconds_of_99_percent": seconds.quantile(0.99),
            "most_seconds": seconds.max(),
        }
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("number", nargs="?", type=int, default=100)
    number = parser.parse_args().number
    epsilon([(0.01, 1.0, 10)], 1e-5)  # imports
    columns = ["proof", "is_open", "width", "cpu_seconds"]
    rows = pd.DataFrame([row(*each) for each in schedules(number)], columns=columns)
    table = rows.groupby("proof").apply(summary, include_groups=False)
    table.loc["all"] = summary(rows)
    print(table.to_string(float_format="{:.2g}".format))
