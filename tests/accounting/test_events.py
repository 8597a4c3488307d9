"""Certified intervals of events: what they enclose, their calibration, their trade-off curve, and bad arguments."""

import dataclasses
import doctest
import json
import math
import sys
import tracemalloc
from fractions import Fraction

import dp_accounting as dp
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from adascale import accounting
from adascale.accounting import (
    advantage,
    beta,
    calibrate,
    calibration,
    curve,
    delta,
    epsilon,
    events,
    from_pmf,
    largest_count,
    losses,
    report,
)
from adascale.accounting.events import compose_events
from adascale.accounting.exact import certify
from adascale.errors import InvalidInput

PHASES = [(0.01, 1.0, 500), (0.02, 1.5, 500)]


def gaussian_delta(mu, epsilon):
    above = np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    return ndtr(mu / 2 - epsilon / mu) - above


def test_float_is_the_safe_end_and_json_restores_the_interval():
    found = epsilon(PHASES, 1e-5)
    assert found.lower <= found.estimate <= found.upper == float(found)
    assert found.upper - found.lower <= 0.01 * found.upper
    assert found.certified
    text = json.dumps(dataclasses.asdict(found))
    assert accounting.CertifiedInterval(**json.loads(text)) == found
    assert not dataclasses.replace(found, lower=0.98 * found.lower).certified
    negligible = dataclasses.replace(found, lower=0.0, upper=1e-7)
    assert negligible.certified
    miss = beta(PHASES, 0.01)
    assert float(miss) == miss.lower <= miss.estimate <= miss.upper


def test_counts_equal_repeated_rounds():
    repeated = [(0.01, 1.0)] * 40 + [(1, 30.0)] * 40
    counted = [(0.01, 1, 30), (0.5, 1, 0), (0.01, 1, 10), (1, 30, 40), (0, 1, 9)]
    one_by_one = epsilon(repeated, 1e-5).upper
    assert epsilon(counted, 1e-5).upper == pytest.approx(one_by_one, rel=1e-9)
    rate, sigma = np.transpose(repeated)
    assert accounting.exact_epsilon(rate, sigma, 1e-5).upper == one_by_one


def test_a_million_rounds_take_no_memory_and_no_rounds_leak_nothing():
    tracemalloc.start()
    assert epsilon([(1e-4, 1.0, 10**6), (1e-4, 3.0, 10**6)], 1e-6).certified
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()
    for none in ([], [(0.0, 1.0, 5)], [(0.1, 1.0, 0)]):
        assert epsilon(none, 1e-5).upper == advantage(none).upper == 0.0
        assert beta(none, 0.0).lower == pytest.approx(1.0)
        assert beta(none, 0.25).lower == pytest.approx(0.75)


FORM = "must be (sampling rate, noise multiplier, count), got"
NOISE = "within 1e-6 ... 1e150, as delta is 1 without noise"
BAD = {
    "sampling rate of events[1] must be in [0, 1], got 1.0000001": [
        (0.1, 1.0),
        (1.0000001, 1.0),
    ],
    f"noise multiplier of events[0] must be {NOISE}, got 0.0": [(0.1, 0.0)],
    "count of events[0] must be whole, from 0 to 2^53, got 1.5": [(0.1, 1.0, 1.5)],
    "from 0 to 2^53, got 9007199254740994.0": [(0.1, 1.0, 2**53 + 2)],
    f"events[0] {FORM} 0.1": (0.1, 1.0, 3),
    f"events[1] {FORM} (0.1,)": [(0.1, 1.0), (0.1,)],
    f"events[0] {FORM} (0.1, '1')": [(0.1, "1")],
    f"events[0] {FORM} (True, 1.0)": [(True, 1.0)],
    f"events[0] {FORM} (0.1, 1.0, {2 * 10**400}"[:90]: [(0.1, 1.0, 2 * 10**400)],
    "events must be a sequence of (sampling rate, noise multiplier, count), got 3": 3,
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_event_is_named_with_its_value(message):
    with pytest.raises(InvalidInput) as error:
        epsilon(BAD[message], 1e-5)
    assert message in str(error.value)
    assert error.value.argument == "events"


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("delta", lambda: epsilon(PHASES, 1.0)),
        ("epsilon", lambda: delta(PHASES, -0.1)),
        ("epsilon", lambda: delta(PHASES, math.inf)),
        ("alpha", lambda: beta(PHASES, [0.1, 1.1])),
        ("epsilon", lambda: calibrate(PHASES, 0.0, 1e-5)),
        ("events", lambda: calibrate([(0, 1.0)], 1.0, 1e-5)),
    ],
)
def test_a_bad_number_is_named(name, call):
    with pytest.raises(InvalidInput) as error:
        call()
    assert error.value.argument == name


@pytest.mark.parametrize(
    ("events", "target", "at"),
    [
        ([(0.01, 1.0, 1000)], 1.0, 1e-5),
        (PHASES, 1e-3, 1e-5),
        ([(0.2, 1.0, 2000)], 1800.0, 1e-5),
        ([(0.3, 1e6, 1), (1.0, 1e8, 3)], 0.1, 1e-9),
    ],
)
def test_calibrated_noise_meets_the_target_within_a_thousandth(events, target, at):
    found = calibrate(events, target, at)
    assert 0.999 * target <= found.epsilon.upper <= target
    again = [(rate, found.scale * sigma, count) for rate, sigma, count in events]
    assert found.noise_multiplier == tuple(sigma for _, sigma, _ in again)
    assert epsilon(again, at) == found.epsilon


def test_no_noise_is_warned_of_where_sampling_is_rarer_than_delta():
    with pytest.warns(UserWarning, match="least noise multiplier"):
        none = calibrate([(1e-9, 1.0, 100), (1e-9, 5.0, 1)], 1e-3, 1e-5)
    assert (none.epsilon.upper, none.scale) == (0.0, pytest.approx(1e-6))


FIXED = [
    (0.02, 1.2, 300),
    (from_pmf([0.1, -0.1], [0.52497918747894, 0.47502081252106]), 3),
]


def test_noise_calibrated_beside_randomised_response_has_its_closed_form():
    """Delta of three answers and a Gaussian mechanism is a mean of that of the mechanism at shifted epsilons."""
    true = math.e / (1 + math.e)
    response = from_pmf([1.0, -1.0], [true, 1 - true])
    found = calibrate([(1, 1.0, 10)], 4.0, 1e-5, fixed=[(response, 3)])
    mu = math.sqrt(10) / found.scale
    truths = np.arange(4)

    def closed_form(at):
        loss = 2 * truths - 3
        return binom.pmf(truths, 3, true) @ gaussian_delta(mu, at - loss)

    assert closed_form(4.0) <= 1e-5 < closed_form(0.995 * 4.0)


@pytest.mark.parametrize(
    ("events", "fixed", "target"),
    [
        ([(0.01, 1.0, 1)], (), 2.0),
        ([(0.2, 0.7, 3), (1, 30.0, 1)], FIXED, 12.0),
        ([(0.5, 0.3, 1)], (), 0.1),
    ],
)
def test_largest_count_meets_the_target_and_more_would_exceed_it(events, fixed, target):
    """By the lower bound of a count that is larger by the width of an interval."""
    found = largest_count(events, target, 1e-5, fixed)
    more = math.ceil(1.003 * found.count) + 1
    meets, exceeds = (
        epsilon([*((q, sigma, times * n) for q, sigma, n in events), *fixed], 1e-5)
        for times in (found.count, more)
    )
    assert meets == found.epsilon
    assert meets.upper <= target < exceeds.lower


@pytest.mark.parametrize("function", [calibrate, largest_count])
def test_a_target_that_fixed_events_exceed_is_refused(function):
    with pytest.raises(InvalidInput, match="epsilon of fixed must be below") as error:
        function(PHASES, 1.0, 1e-5, fixed=[(0.5, 1.0, 100)])
    assert error.value.argument == "fixed"


NUMBERS = [
    (torch.tensor(0.01), torch.tensor(1.0), torch.tensor(500)),
    (np.array(0.02), Fraction(3, 2), np.int32(500)),
]


def test_numbers_of_any_library_make_an_event():
    found, expected = (compose_events(events) for events in (NUMBERS, PHASES))
    for ours, theirs in zip(found[:3], expected[:3], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7)  # of a tensor's float32


@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.01, 0.2, 0.8, 1.0])
@settings(max_examples=settings.default.max_examples // 10)
@given(st.floats(-3, 0), st.floats(-0.3, 1), st.integers(1, 300))
@example(0.0, 0.3, 1)
def test_miss_rates_are_consistent(alpha, log_rate, log_sigma, count):
    """The curve is symmetric, above that without sampling, which is exact, and at most that of guessing."""
    events = [(10**log_rate, 10**log_sigma, count)]
    found = beta(events, alpha)
    assert 0 <= found.lower <= found.upper <= 1 - alpha
    if found.upper > 1e-12:
        assert beta(events, found.upper).lower <= alpha * (1 + 1e-9)
    unsampled = ndtr(ndtri(1 - alpha) - math.sqrt(count) / 10**log_sigma)
    assert found.upper >= unsampled * (1 - 1e-9)
    if log_rate == 0:
        assert found.lower <= unsampled * (1 + 1e-9)
        assert (
            found.upper - found.lower
            <= 1.01e-3 * min(found.upper, 1 - found.lower) + 1e-14
        )


def test_beta_and_advantage_agree_with_the_distribution_of_dp_accounting():
    loss = dp.pld.privacy_loss_distribution.from_gaussian_mechanism(
        1.0, sampling_prob=0.02, value_discretization_interval=2e-4
    ).self_compose(300)
    events = [(0.02, 1.0, 300)]
    found, theirs = advantage(events), loss.get_delta_for_epsilon(0.0)
    assert found.lower <= theirs <= found.upper * (1 + 1e-3)
    at = np.linspace(0, 6, 2001)
    kept = 1 - np.array(loss.get_delta_for_epsilon(at))
    for alpha in (1e-3, 0.05, 0.5):
        both = kept - np.exp(at) * alpha, np.exp(-at) * (kept - alpha)
        found = beta(events, alpha)
        assert found.lower * (1 - 2e-4) <= np.max(both) <= found.upper * (1 + 2e-4)


def test_independent_micro_batches_leak_more_than_one_batch():
    """Of dp_accounting is the distribution of a step that has the sample as often as its micro-batches do."""
    q, parts, steps = 0.01, 4, 100
    times = np.arange(parts + 1)
    chance = binom.pmf(times, parts, q)
    step = dp.pld.privacy_loss_distribution.from_mixture_gaussian_mechanism(
        1.0, times.tolist(), chance.tolist(), value_discretization_interval=2e-3
    )
    truth = step.self_compose(steps).get_epsilon_for_delta(1e-5)
    assert epsilon([(parts * q, 1.0, steps)], 1e-5).upper < 0.97 * truth
    assert truth < epsilon([(q, 1 / math.sqrt(parts), parts * steps)], 1e-5).lower


def test_examples_of_the_docstrings_are_right():
    given = {"epsilon": epsilon, "math": math, "read_events": events.read_events}
    for module in (
        certify,
        calibration,
        curve,
        events,
        losses,
        sys.modules[report.__module__],
    ):
        found = doctest.testmod(module, extraglobs=given, optionflags=doctest.ELLIPSIS)
        assert found.attempted > 0 == found.failed
