"""The certified intervals: against losses on a grid, over the whole domain, and each proof against the others."""

import math

import numpy as np
import pytest

from adascale import accounting
from adascale.accounting.exact import certify
from adascale.accounting.exact.rounds import rounds_of

from .exact import gaussian_delta

MIXED = [(0.02, 0.5, 100), (0.01, 2.0, 900)]
RARE = [(1e-6, 0.5, 10_000)]
# Rounds, delta, and epsilon from below and above: by losses on a grid, whose masses are spread to the ends of every
# cell, tilted and convolved in long doubles, and extrapolated from two grids or rounded to either side; by the Gaussian
# mechanism of the same chi-squared divergence; by optimistic and pessimistic PLDs of dp_accounting; by the number of
# rounds times the closed form of one, as a second use adds less than 1e-10 of delta. The first is
# tests/accounting/losses.py of commit 2326c12, and none shares code with the package
KNOWN = [
    (RARE, 1e-12, 0.948489, 0.948508),
    (MIXED, 1e-5, 9.72175, 9.72194),
    ([(3e-6, 0.5, 250), (3e-6, 0.7, 250), (3e-6, 1.9, 250)], 1e-10, 0.335783, 0.335789),
    ([(1e-4, 0.7, 1000)], 1e-6, 0.0766345, 0.076636),
    ([(1e-9, 1.0, 2**53)], 1e-5, 0.4321, 0.4322),
    ([(1e-3, 1.0, 100), (0.7, 24.0, 1)], 1e-12, 0.6974047, 0.6976068),
    ([(1e-3, 2.0, 10)], 1e-5, 0.0045194, 0.0045295),
    ([(3.6e-8, 0.435, 27579)], 2.6e-25, 7.2798, 7.2799),
]


LEAKAGE = accounting.CertifiedInterval(1.25, 1.5049, ("a", "b"), "add", 1.3, 1.5049)
MISS_RATE = accounting.CertifiedInterval(0.2, 0.3, ("a", "b"), "both", 0.25, 0.2)


def test_an_interval_is_formatted_and_rounded_as_its_safe_end():
    assert (f"{LEAKAGE:.2f}", f"{MISS_RATE:.0%}") == ("1.50", "20%")
    assert (round(LEAKAGE), round(LEAKAGE, 3)) == (2, 1.505)
    assert f"{LEAKAGE}" == str(LEAKAGE) == "[1.25, 1.5049]"


@pytest.mark.parametrize("number", [float, np.float64])
def test_an_interval_is_compared_by_its_safe_end(number):
    assert number(1) < LEAKAGE < number(2)
    assert number(1) <= LEAKAGE <= number(2)
    assert sorted([LEAKAGE, number(1), MISS_RATE]) == [MISS_RATE, number(1), LEAKAGE]


def rounds(kinds):
    q, sigma, count = (np.array(each) for each in zip(*kinds, strict=True))
    return rounds_of(
        np.repeat(q, count).astype(float), np.repeat(sigma, count).astype(float)
    )


@pytest.mark.parametrize("case", KNOWN)
def test_intervals_hold_the_values_of_peers(case):
    events, delta, low, high = case
    found = accounting.epsilon(events, delta)
    assert found.certified
    assert found.lower <= high
    assert low <= found.upper
    most, least = (accounting.delta(events, epsilon) for epsilon in (low, high))
    assert least.lower <= delta <= most.upper


def drawn(seed, count):
    """Rounds of one to three kinds, log-uniform over the domain, and a delta."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        size = int(rng.integers(1, 4))
        rates = 10 ** rng.uniform(-6, -0.01, size)
        sigmas, number = 10 ** rng.uniform(-0.5, 2, size), 10 ** rng.uniform(0, 5)
        yield (
            list(zip(rates, sigmas, [max(int(number / size), 1)] * size, strict=True)),
            10 ** rng.uniform(-12, -0.5),
        )


# q, sigma, number and delta
EXTREME = """
    1e-6 0.5 1e4 1e-12, 2e-6 1 3e5 1e-15, 1e-4 1 1e6 1e-30, 0.01 0.001 100 1e-5, 0.9 1e4 1e6 1e-100, 0.01 1 1000 1e-100,
    1e-7 1e4 1e6 1e-12, 0.01 0.05 1000 1e-10, 1e-5 0.1 1e6 1e-20, 1 1e-6 1e6 1e-100, 1 1e4 1 1e-100, 0.999 1e-6 1 0.9,
    1e-7 1e-6 1 1e-8, 0.5 0.1 1e5 1e-60, 1e-5 0.3 10 1e-7, 0.2 5 1e6 0.9"""
EXTREME = [list(map(float, case.split())) for case in EXTREME.split(",")]
EXTREME = [([(q, sigma, int(number))], delta) for q, sigma, number, delta in EXTREME]
EXTREME += [
    ([(1e-3, 0.2, 3), (1e-4, 3, 1000), (1, 10, 5)], delta) for delta in (0.9, 1e-9)
]
SLOW = [([(1e-7, 1e-6, 10**6)], 1e-9), ([(0.3, 1e-6, 10**6)], 1e-8)]  # ten seconds each


@pytest.mark.parametrize(
    ("cases", "most"),
    [
        ([*drawn(1, 5), *EXTREME], 3),
        pytest.param([*SLOW, *drawn(2, 2000)], 8, marks=pytest.mark.fuzz),
    ],
)
def test_nearly_all_schedules_of_the_domain_are_certified(cases, most):
    """All are answered, nearly all within one per cent."""
    wide = []
    for kinds, delta in cases:
        found = certify.epsilon_interval(rounds(kinds), delta)
        assert 0 <= found.lower <= found.estimate <= found.upper < math.inf
        if not found.certified:
            wide.append((kinds, delta, found))
    assert len(wide) <= most, wide


@pytest.mark.parametrize(
    "kinds",
    [
        RARE,
        MIXED,
        [(0.3, 0.5, 10)],
        [(1e-3, 3.0, 1000)],
        [(0.05, 1.0, 3), (1.0, 2.0, 2)],
    ],
)
def test_no_proof_contradicts_another(kinds):
    """Every bound of delta lies on its side of the certified interval of delta."""
    schedule = rounds(kinds)
    for target in (1e-3, 1e-11):
        at = certify.epsilon_interval(schedule, target).estimate
        known = certify.delta_interval(schedule, at)
        uppers, lowers = certify.all_bounds(schedule, None, at)
        most = {}  # of both directions, by the name of the bound
        for name, _, bound in uppers:
            most[name] = max(most.get(name, 0.0), bound(at))
        assert {"Gaussian", "Renyi"} <= most.keys()
        assert min(most.values()) >= known.lower
        assert "one round" in dict(lowers)
        assert all(bound(at) <= known.upper for _, bound in lowers)


def test_the_largest_count_is_answered():
    found = accounting.epsilon([(1 - 1e-12, 1e3, 2**53)] * 3000, 1e-30)
    assert 0 < found.lower < found.upper < math.inf


def test_one_gaussian_round_has_proven_ends_where_delta_underflows():
    found = accounting.epsilon([(1, 1.0, 1)], 1e-305)
    assert gaussian_delta(1, found.lower) > 1e-305 > gaussian_delta(1, found.upper)
    assert found.upper < 38
    # 1e-300 for the underflow of delta, and once more for that of q times delta
    for rate, sigma, at in ((1, 1e100, 1.5e54), (0.5, 1.0, 1.5e154), (1e-200, 1, 1)):
        assert 0 < accounting.delta([(rate, sigma, 1)], at).upper < 3e-300


def test_an_epsilon_of_zero_is_no_negative_number():
    """Its plain sum is slow to converge, and of two smoothed ones only the rougher is above 0."""
    events = [(1.27e-7, 0.2167, 1), (0.0013, 19.7, 3854), (0.0013, 1.276, 22)]
    found = accounting.epsilon(events, 0.00819)
    assert found.lower == found.estimate == 0 <= found.upper < 1e-6
