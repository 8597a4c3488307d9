"""The exact accountant over drawn schedules, beside Gaussian privacy and one round in 60 digits.

Tests that leave out what is not certified count what they have compared, so that none can pass by refusing.
"""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adascale.accounting import exact_delta, exact_epsilon, interval
from adascale.accounting.exact import certify
from adascale.errors import CannotCertify

from .coins import equal
from .exact import epsilon_by, gaussian_delta, one_round
from .test_exact import DELTAS, RATES, SIGMAS


def by_closed_form(rounds, proof):
    interval = certify.epsilon_interval(rounds, proof.delta)
    proof.raise_lower(interval.lower, "closed form")
    proof.reduce_upper(interval.upper, "closed form")


@given(st.lists(SIGMAS, min_size=1, max_size=5), DELTAS)
def test_without_sampling_the_ends_hold_gaussian_privacy_in_multi_precision(
    sigma, delta
):
    found = exact_epsilon(1.0, sigma, delta)
    mu = math.sqrt(math.fsum(each**-2.0 for each in sigma))
    assert gaussian_delta(mu, found.lower) >= delta * (1 - 1e-15) or found.lower == 0
    assert gaussian_delta(mu, found.upper) <= delta * (1 + 1e-15)
    assert found.upper - found.lower <= 1e-9 * found.upper + 1e-9


# each way of a sum, and the share of rounds that it has to certify
@pytest.mark.hypothesis
@pytest.mark.parametrize(
    ("way", "least", "slow"),
    [
        (by_closed_form, 1.0, 1),
        (certify.by_inversion, 0.1, 15),
        (certify.by_discretisation, 0.6, 15),
    ],
)
def test_one_round_in_sixty_digits_lies_between_the_ends(way, least, slow):
    certified = []

    @settings(max_examples=settings.default.max_examples // slow)
    @given(
        RATES.filter(lambda q: q < 0.5),
        SIGMAS,
        st.floats(-9, -0.05).map(lambda x: 10**x),
    )
    @example(0.1, 0.1, 1e-3)  # an epsilon of 69
    def compare(q, sigma, fraction):
        delta = float(fraction * one_round(q, sigma, 0, "add"))
        certified.append(False)
        try:
            _, lower, upper, _ = epsilon_by(way, equal(q, sigma), delta)
        except CannotCertify:
            return
        low, high = (
            max(one_round(q, sigma, end, name) for name in interval.DIRECTIONS)
            for end in (lower, upper)
        )
        assert low >= delta >= high
        certified[-1] = True

    compare()
    assert sum(certified) >= least * len(certified)


@given(RATES.filter(lambda q: q < 1), SIGMAS, st.floats(0, 6))
@example(
    0.0003152118512629508, 2.7399803878363183, 5.853888478217723
)  # so small that its digits are cut
@example(
    1e-12, 1 / 7, 60.0
)  # ln(1 + (e^epsilon - 1) / q), where e^-epsilon / q is small, and where it is large
@example(1e-20, 1 / 7, 31.0)
def test_delta_of_one_round_in_sixty_digits_lies_between_the_ends(q, sigma, epsilon):
    found = exact_delta(q, [sigma], epsilon)
    truth = max(one_round(q, sigma, epsilon, name) for name in interval.DIRECTIONS)
    assert found.lower <= truth <= found.upper
    assert found.upper <= 1.01 * found.lower or found.upper < 1e-250
    assert found.lower <= found.upper
