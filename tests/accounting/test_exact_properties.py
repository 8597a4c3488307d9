"""The exact accountant anywhere: rates 1e-6 ... 1, noise 0.3 ... 1e4, rounds 1 ... 1e5, delta 1e-12 ... 1."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from adascale import accounting
from adascale.accounting import exact_delta, exact_epsilon

RATES = st.floats(-6, 0).map(lambda x: 10**x)
SIGMAS = st.floats(math.log10(0.3), 4).map(lambda x: 10**x)
COUNTS = st.floats(0, 5).map(lambda x: int(10**x))
DELTAS = st.floats(-12, -1e-3).map(lambda x: 10**x)


@st.composite
def schedules(draw):
    """Up to three distinct noise multipliers, each often."""
    kinds = draw(st.lists(SIGMAS, min_size=1, max_size=3))
    return draw(RATES), np.repeat(np.array(kinds), -(-draw(COUNTS) // len(kinds)))


def certified(rate, sigma, delta):
    """The bracket; a draw that cannot be certified is left out, if that is what the error says."""
    try:
        return exact_epsilon(rate, sigma, delta)
    except ValueError as error:
        assume("cannot be certified" not in str(error))
        raise


@given(schedules(), DELTAS)
def test_the_ends_are_ordered_narrow_and_below_the_renyi_value(schedule, delta):
    found = certified(*schedule, delta)
    assert found.upper < math.inf
    assert 0 <= found.lower <= found.epsilon <= found.upper
    assert found.upper - found.lower <= max(0.01 * found.upper, 1e-6) * (1 + 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", accounting.OrdersTooFew)
        renyi = accounting.schedule_epsilon(*schedule, delta).epsilon
    assert found.lower <= renyi * (1 + 1e-9)


@given(schedules(), DELTAS, st.floats(1.001, 3))
def test_more_noise_less_sampling_fewer_rounds_and_more_delta_leak_no_more(schedule, delta, factor):
    rate, sigma = schedule
    most = certified(rate, sigma, delta).upper
    kept = sigma[: -(-sigma.size // 2)]
    for less in (
        (rate / factor, sigma, delta),
        (rate, sigma * factor, delta),
        (rate, kept, delta),
        (rate, sigma, min(factor * delta, 0.999)),
    ):
        assert certified(*less).lower <= most


@given(st.lists(st.tuples(st.floats(0.001, 0.5), st.floats(0.5, 20)), min_size=1, max_size=3), st.floats(0, 2))
def test_delta_is_ordered_and_falls(kinds, epsilon):
    rate, sigma = map(np.array, zip(*kinds, strict=True))
    try:
        here, there = (exact_delta(rate, sigma, each) for each in (epsilon, epsilon + 0.1))
    except ValueError as error:
        assume("cannot be certified" not in str(error))
        raise
    assert 0 <= here.lower <= here.delta <= here.upper <= 1
    assert there.lower <= here.upper


@pytest.mark.slow
def test_hardly_a_schedule_of_the_domain_is_refused():
    """Sixty draws in which epsilon is not 0; before atoms stood in for rare samples, a fifth of them were errors."""
    rng, refused, certified_count = np.random.default_rng(2), [], 0
    while certified_count + len(refused) < 60:
        rate, sigma, count, delta = 10 ** rng.uniform((-6, math.log10(0.3), 0, -12), (0, 4, 5, 0))
        try:
            certified_count += exact_epsilon(rate, np.full(int(count), sigma), delta).upper > 0
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) <= 2, refused
