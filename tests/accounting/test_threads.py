"""Linear algebra by one thread, whatever their number: on a busy machine others wait for each other."""

import os
import subprocess
import sys

import pytest

# Of each kind of schedule one whose products of matrices, or of long vectors, would be shared among threads.
# Printed are the numbers, and the seconds of other threads: those that are only started take some hundredths.
SCRIPT = """
import time
import numpy as np
from adascale.accounting import beta, calibrate, delta, epsilon, from_pmf, schedule_epsilon

sigma = np.random.default_rng(1).uniform(0.8, 1.6, 12_000).tolist()
response = from_pmf([np.log(3), -np.log(3)], [0.75, 0.25])
time.sleep(0.3)
before = time.process_time() - time.thread_time()
print(epsilon([(0.01, 1, 10)], 1e-5))
print(epsilon([(0.01, each, 1) for each in sigma[:300]], 1e-5))
print(epsilon([(0.01, each, 1) for each in sigma], 1e-5).upper.hex())
print(epsilon([(1e-4, each, 1) for each in sigma[:400]], 1e-6).upper.hex())
print(delta([(0.01, each, 1) for each in sigma[:100]], 0.5).lower.hex())
print(beta([(0.01, 1, 100)], 0.01).lower.hex())
print(calibrate([(0.01, 1, 1000)], 0.01, 1e-5).scale.hex())
print(epsilon([(response, 100), (0.001, 1, 100)], 1e-5).upper.hex())
print(float(schedule_epsilon(0.01, sigma[:4000] * 3, 1e-5, [3.0, 3.5, 8.0, 64.0]).epsilon).hex())
print(f"{time.process_time() - time.thread_time() - before:.3f}", flush=True)
"""


def run(threads, script=SCRIPT):
    """What the script prints, and the seconds of other threads."""
    environment = {
        name: value for name, value in os.environ.items() if "NUM_THREADS" not in name
    }
    environment |= {"OPENBLAS_NUM_THREADS": threads} if threads else {}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    *numbers, seconds = done.stdout.splitlines()
    return numbers, float(seconds)


def test_numbers_are_those_of_one_thread_and_no_other_works():
    alone, _ = run("1")
    for threads in ("4", None):
        numbers, seconds = run(threads)
        assert numbers == alone
        assert seconds < 0.02


@pytest.mark.skipif(os.cpu_count() == 1, reason="OpenBLAS has one thread")
def test_threads_that_do_work_are_seen():
    """The negative control: a product of large matrices."""
    product = "a = np.ones((400, 400)); [a @ a for _ in range(30)]"
    head, tail = SCRIPT.split("print", 1)[0], SCRIPT.splitlines()[-1]
    assert run("2", "\n".join((head, product, tail)))[1] > 0.02
