"""The certified intervals: against losses on a grid, over the whole domain, and each proof against the others."""

import math

import numpy as np
import pytest

from adascale.accounting.exact import bounds, certify
from adascale.accounting.exact.rounds import rounds_of

from . import losses
from .coins import equal

MIXED = [(0.02, 0.5, 100), (0.01, 2.0, 900)]
RARE = [(1e-6, 0.5, 10_000)]
# rounds, delta, and of the reference: step, tilt, span and largest loss of a round
KNOWN = [
    (RARE, 1e-12, 1e-4, 5.0, 14, 7.0),
    (MIXED, 1e-5, 2e-3, 1.0, 60, 20.0),
    ([(3e-6, 0.5, 250), (3e-6, 0.7, 250), (3e-6, 1.9, 250)], 1e-10, 2e-4, 5.0, 10, 5.0),
    ([(1e-4, 0.7, 1000)], 1e-6, 1e-4, 8.0, 6, 3.0),
]


def rounds(kinds):
    q, sigma, count = (np.array(each) for each in zip(*kinds, strict=True))
    return rounds_of(np.repeat(q, count).astype(float), np.repeat(sigma, count).astype(float))


@pytest.mark.parametrize("case", KNOWN)
def test_interval_holds_losses_on_a_grid(case):
    kinds, delta, *rest = case
    value = losses.extrapolated(kinds, delta, *rest)
    found = certify.epsilon_interval(rounds(kinds), delta)
    assert found.certified
    assert found.lower * (1 - 1e-5) < value < found.upper * (1 + 1e-5)
    back = certify.delta_interval(rounds(kinds), value)
    assert back.certified
    assert back.lower * (1 - 1e-4) < delta < back.upper * (1 + 1e-4)


def drawn(seed, count):
    """Rounds of one to three kinds, log-uniform over the domain, and a delta."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        size = int(rng.integers(1, 4))
        rates = 10 ** rng.uniform(-6, -0.01, size)
        sigmas, number = 10 ** rng.uniform(-0.5, 2, size), 10 ** rng.uniform(0, 5)
        yield list(zip(rates, sigmas, [max(int(number / size), 1)] * size, strict=True)), 10 ** rng.uniform(-12, -0.5)


EXTREME = [
    (RARE, 1e-12),
    ([(2e-6, 1, 300_000)], 1e-15),
    ([(1e-4, 1, 10**6)], 1e-30),
    ([(0.01, 0.001, 100)], 1e-5),
    ([(0.5, 1e-5, 2)], 0.3),
    ([(0.9, 1e4, 10**6)], 1e-100),
    ([(0.01, 1, 1000)], 1e-100),
    ([(0.99, 0.3, 1000)], 0.5),
    ([(1e-7, 1e4, 10**6)], 1e-12),
    ([(0.01, 0.05, 1000)], 1e-10),
    ([(1e-5, 0.1, 10**6)], 1e-20),
    ([(1e-3, 0.2, 3), (1e-4, 3, 1000), (1, 10, 5)], 0.9),
    ([(1e-3, 0.2, 3), (1e-4, 3, 1000), (1, 10, 5)], 1e-9),
    ([(1, 1e-6, 10**6)], 1e-100),
    ([(1, 1e4, 1)], 1e-100),
    ([(0.999, 1e-6, 1)], 0.9),
    ([(1e-7, 1e-6, 1)], 1e-8),
    ([(0.1, 100, 10**6)], 1e-50),
    ([(0.5, 0.1, 10**5)], 1e-60),
    ([(1e-6, 0.7, 100_000)], 1e-13),
    ([(1e-5, 0.3, 10)], 1e-7),
    ([(0.2, 5, 10**6)], 0.9),
]
SLOW = [([(1e-7, 1e-6, 10**6)], 1e-9), ([(0.3, 1e-6, 10**6)], 1e-8)]  # ten seconds each
WIDEST = {([(1e-4, 1, 10**6)][0], 1e-30): (1.86, 4.53), ([(2e-6, 1, 300_000)][0], 1e-15): (0.0027, 1.24)}


@pytest.mark.parametrize(
    ("cases", "most"),
    [([*drawn(1, 14), *EXTREME], 3), pytest.param([*SLOW, *drawn(2, 2000)], 40, marks=pytest.mark.fuzz)],
)
def test_nearly_all_schedules_of_the_domain_are_certified(cases, most):
    """All are answered, nearly all within one per cent, and the widest no wider than known."""
    wide = []
    for kinds, delta in cases:
        found = certify.epsilon_interval(rounds(kinds), delta)
        assert 0 <= found.lower <= found.value <= found.upper < math.inf
        low, high = WIDEST.get((kinds[0], delta), (0.0, math.inf))
        assert low <= found.lower <= found.upper <= high
        if not found.certified:
            wide.append((kinds, delta, found))
    assert len(wide) <= most, wide


@pytest.mark.parametrize("kinds", [RARE, MIXED, [(0.3, 0.5, 10)], [(1e-3, 3.0, 1000)], [(0.05, 1.0, 3), (1.0, 2.0, 2)]])
def test_no_proof_contradicts_another(kinds):
    """Every bound of delta lies on its side of the certified interval of delta."""
    schedule = rounds(kinds)
    for target in (1e-3, 1e-6, 1e-11):
        epsilon = certify.epsilon_interval(schedule, target).value
        known = certify.delta_interval(schedule, epsilon)
        uppers, lowers = bounds.all_of(schedule, None, epsilon)
        both = {}
        for name, directions, bound in uppers:
            for direction in directions:
                both.setdefault(name, {})[direction] = bound(epsilon)
        assert {"Gaussian", "hits", "Renyi"} <= both.keys()
        assert all(max(each.values()) >= known.lower for each in both.values())
        assert {"one round", "threshold", "tilted"} <= {name for name, _ in lowers}
        assert all(bound(epsilon) <= known.upper for _, bound in lowers)


def test_infinite_epsilons_have_an_upper_bound_of_delta():
    for epsilon in (1e4, 1e31, 1.7e308):
        found = certify.delta_interval(equal(0.5, 1.0, 3), epsilon)
        assert found.lower == 0
        assert found.upper < 1e-290
