"""Check certified intervals and the installed peers on known epsilons: ``python -m adascale.accounting.selfcheck``."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from adascale.accounting.certified import epsilon
from adascale.accounting.interval import round_outward

Phases = list[tuple[float, float, int]]
CASES: dict[str, tuple[Phases, float, float]] = {
    "rare samples": ([(1e-6, 0.5, 10_000)], 1e-12, 0.948498),
    "one phase": ([(0.01, 1.0, 1000)], 1e-5, 1.828237),
    "two phases": ([(0.02, 0.5, 100), (0.01, 2.0, 900)], 1e-5, 9.721837),
    "large epsilon": ([(0.2, 0.3, 2000)], 1e-5, 1844.0946),
}
"""Events, delta and epsilon, to the last digit, from an inversion and a tilted convolution that share no code."""


def _by_history(module: str, name: str, events: Phases, delta: float) -> float:
    accountant = getattr(import_module(module), name)()
    accountant.history = [(sigma, rate, count) for rate, sigma, count in events]
    return float(accountant.get_epsilon(delta=delta))


def _dp_accounting(module: str, name: str, events: Phases, delta: float) -> float:
    dp = import_module("dp_accounting")
    accountant = getattr(import_module(f"dp_accounting.{module}"), name)()
    for rate, sigma, count in events:
        accountant.compose(
            dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), count
        )
    return float(accountant.get_epsilon(delta))


def _prv_accountant(events: Phases, delta: float) -> float:
    prv, counts = import_module("prv_accountant"), [count for *_, count in events]
    make = prv.PoissonSubsampledGaussianMechanism
    mechanisms = [
        make(sampling_probability=rate, noise_multiplier=sigma)
        for rate, sigma, _ in events
    ]
    return float(
        prv.PRVAccountant(mechanisms, 0.01, 1e-3 * delta, counts).compute_epsilon(
            delta, counts
        )[2]
    )


PEERS: dict[str, tuple[bool, Callable[[Phases, float], float]]] = {
    "opacus rdp": (True, partial(_by_history, "opacus.accountants", "RDPAccountant")),
    "opacus prv": (False, partial(_by_history, "opacus.accountants", "PRVAccountant")),
    "dp_accounting rdp": (True, partial(_dp_accounting, "rdp", "RdpAccountant")),
    "dp_accounting pld": (True, partial(_dp_accounting, "pld", "PLDAccountant")),
    "prv_accountant": (False, _prv_accountant),
    "riskcal ctd": (
        False,
        partial(_by_history, "riskcal.accountants", "CTDAccountant"),
    ),
}
"""Whether the accountant answers within half a minute for a large epsilon, and its epsilon."""


def rows(
    peers: dict[str, tuple[bool, Callable[[Phases, float], float]]],
) -> Iterator[tuple[str, ...]]:
    """Yield case, accountant, epsilon, CPU seconds and remark, the certified interval first in each case."""
    for case, (events, delta, value) in CASES.items():
        start = time.process_time()
        interval = epsilon(events, delta)
        seconds = f"{time.process_time() - start:.2f}"
        is_inside = interval.lower / (1 + 1e-6) <= value <= interval.upper / (1 - 1e-6)
        remark = f"within {interval}" + ("" if is_inside else "; MISSED")
        upper = f"{round_outward(interval.upper, up=True):.6g}"
        yield case, "adascale", upper, seconds, remark
        for name, (is_quick, peer) in peers.items():
            if case == "large epsilon" and not is_quick:
                yield case, name, "", "", "not run, as it takes more than half a minute"
                continue
            start = time.process_time()
            with warnings.catch_warnings(action="ignore"):
                try:
                    answer = peer(events, delta)
                except Exception as error:  # whatever a peer raises is its answer
                    text = " ".join(str(error).split())[:60]
                    yield case, name, "", "", f"{type(error).__name__}: {text}"
                    continue
            seconds = f"{time.process_time() - start:.2f}"
            remark = f"{100 * (answer / value - 1):+.3f} %"
            if answer < interval.lower:
                remark = "below the lower bound"
            yield case, name, f"{answer:.6f}", seconds, remark


def main() -> int:
    """Print the table; return 1 if a certified interval misses the known epsilon."""
    installed = {
        name: peer for name, peer in PEERS.items() if find_spec(name.split()[0])
    }
    heading, failed = ("case", "accountant", "epsilon", "seconds", "remark"), 0
    for row in (heading, *rows(installed)):
        print("{:<14} {:<18} {:>12} {:>8}  {}".format(*row), flush=True)
        failed |= row[-1].endswith("MISSED")
    return failed


if __name__ == "__main__":
    sys.exit(main())
