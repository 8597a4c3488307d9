"""Discrete privacy losses: closed forms, dp_accounting's distributions, and bad arguments."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from adascale.accounting import (
    calibrate,
    delta,
    epsilon,
    fixed_batches,
    from_pmf,
    truncated_batches,
)
from adascale.accounting.events import compose_events
from adascale.accounting.exact import certify
from adascale.errors import InvalidInput


def response(p):
    """Randomised response with probability p of the truth."""
    loss = math.log(p / (1 - p))
    return from_pmf([loss, -loss], [p, 1 - p])


def response_delta(p, count, at):
    k = np.arange(count + 1)
    loss = (2 * k - count) * math.log(p / (1 - p))
    return float(binom.pmf(k, count, p) @ np.maximum(-np.expm1(at - loss), 0))


@pytest.mark.parametrize("at", [0.1, 0.5, 1.5])
def test_infinite_losses_compose_as_in_their_closed_form(at):
    """Of the (epsilon, delta) mechanism of Kairouz, Oh and Viswanath; more such loss than delta has no epsilon."""
    true, lost = 1 / (1 + math.exp(-0.1)), 1e-7
    mass = [(1 - lost) * true, (1 - lost) * (1 - true), lost, lost]
    events = [(from_pmf([0.1, -0.1, math.inf, -math.inf], mass), 30)]
    kept = (1 - lost) ** 30
    exact = 1 - kept + kept * response_delta(true, 30, at)
    found, back = delta(events, at), epsilon(events, exact)
    assert found.lower <= exact * (1 + 1e-9) <= found.upper * (1 + 2e-9)
    assert back.lower - 1e-9 <= at <= back.upper + 1e-9
    assert found.certified
    assert back.certified
    assert epsilon(events, 0.99 * (1 - kept)).lower == math.inf


# epsilon of composed pairs whose losses above 0 are those of sampling in both directions, on a grid of 2e-4, rounded
# down and up: by test_discrete.py of commit aa102264
@pytest.mark.parametrize(
    ("case", "low", "high"),
    [((0.01, 2.0, 200), 1.00746, 1.01136), ((0.2, 6.0, 40), 1.90783, 1.91143)],
)
def test_fixed_batches_are_bounded_by_their_pair_on_a_grid(case, low, high):
    found = fixed_batches([case], 1e-5)
    assert low < found.upper < 1.005 * high
    q, sigma, count = case
    least = epsilon([(q, sigma / 2, count)], 1e-5)
    assert found.lower == least.lower < found.upper
    # one round is exact, and without sampling all are
    for exact in ((q, sigma, 1), (1, sigma, count)):
        of_event = epsilon([(exact[0], exact[1] / 2, exact[2])], 1e-5)
        assert fixed_batches([exact], 1e-5) == of_event
    # cells are proven up to an energy of 100 only
    assert fixed_batches([(0.1, 0.1, 2)], 1e-5).ends[1] == "closed form"
    assert found.ends[1] == "substitution"


def test_truncated_batches_pay_for_their_cuts_with_delta():
    q, sigma, count, samples, largest = 0.02, 1.5, 300, 2000, 86
    found = truncated_batches([(q, sigma, count)], 1e-5, samples, largest)
    longer = binom.sf(largest - 1, samples - 1, q)
    paid = count * (1 + math.exp(found)) * longer
    assert 0.001 * 1e-5 < paid < 0.5 * 1e-5
    spent = delta([(q, sigma, count)], found)
    assert 1e-5 * 0.97 < spent.lower + paid <= 1e-5
    # no batch is longer than the data
    alone = truncated_batches([(q, sigma, count)], 1e-5, samples, samples + 1)
    assert alone == epsilon([(q, sigma, count)], 1e-5).upper


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"samples": 0}, "samples must be a whole number >= 1, got 0"),
        ({"largest": 60}, "largest must be so large"),
        # e^epsilon would overflow, and nothing bound what cut batches add
        (
            {"events": [(0.5, 0.02, 10)]},
            "events must have an epsilon of at most 700, got ",
        ),
    ],
)
def test_truncated_batches_refuse_what_they_cannot_bound(options, reason):
    defaults = {"events": [(0.02, 1.5, 300)], "delta": 1e-5, "samples": 2000}
    assert truncated_batches(**{**defaults, "largest": 86}) > 0
    with pytest.raises(InvalidInput, match=f"^{reason}"):
        truncated_batches(**{**defaults, "largest": 86, **options})


def discrete_gaussian(sigma):
    x = np.arange(-int(20 * sigma), int(20 * sigma) + 1)
    mass = np.exp(-(x**2) / (2 * sigma**2))
    return from_pmf((1 - 2 * x) / (2 * sigma**2), mass / mass.sum())


@pytest.mark.parametrize(("p", "count"), [(0.75, 40), (0.6, 1), (0.5001, 10**5)])
def test_randomised_response_is_a_binomial(p, count):
    events, loss = [(response(p), count)], math.log(p / (1 - p))
    for at in (0.0, 0.3 * loss, min(0.7 * loss * count, 3.0)):
        found, exact = delta(events, at), response_delta(p, count, at)
        # every bound of delta is on its side of the truth
        with np.errstate(divide="ignore"):
            uppers, _ = certify.all_bounds(compose_events(events).to_rounds(), None, at)
        above = [found.upper, *(bound(at) for *_, bound in uppers)]
        assert found.lower <= exact * (1 + 1e-9)
        assert min(above) >= exact * (1 - 1e-9)
        assert found.certified
    found = epsilon(events, 1e-5)
    assert response_delta(p, count, found.lower * (1 - 1e-9)) >= 1e-5
    assert response_delta(p, count, found.upper * (1 + 1e-9)) <= 1e-5
    assert found.certified


def test_losses_of_every_kind_compose():
    """A lattice so fine that it is continuous, beside sampled and plain Gaussian rounds."""
    sampled = [(0.01, 1.0, 1000), (1, 20.0, 3)]
    fine = [(discrete_gaussian(30.0), 500), *sampled]
    near = [(1, 30.0, 500), *sampled]
    for function, given, rel in ((epsilon, 1e-6, 2e-3), (delta, 1.0, 5e-3)):
        found = function(fine, given)
        assert found.certified
        assert found.estimate == pytest.approx(function(near, given).estimate, rel=rel)


@pytest.mark.parametrize(
    ("loss", "mass", "argument"),
    [
        ([0.1], [0.5, 0.5], "loss"),
        ([math.nan], [1.0], "loss"),
        ([-math.inf, 0.0], [0.5, 0.5], "mass"),
        ([-math.inf, math.inf], [1.0, 1.0], "loss"),
        ([0.0], [-1.0], "mass"),
        ([0.0], [0.9], "mass"),
        ([1.0, -1.0], [0.5, 0.5], "mass"),
        ([math.inf, 0.0], [0.1, 0.9], "mass"),
        # sums of 1 to ten digits whose difference is the whole total variation
        ([1.0, 0.0], [5e-10, 1 - 5e-10], "mass"),
    ],
)
def test_what_is_no_privacy_loss_is_refused(loss, mass, argument):
    with pytest.raises(InvalidInput) as error:
        from_pmf(loss, mass)
    assert error.value.argument == argument


@pytest.mark.parametrize("balance", [0.76, 1.0, 1.24])
def test_total_variation_of_unbalanced_masses_lies_in_its_interval(balance):
    """The masses of a total variation of 1e-10 sum to 1 to ten digits: either side may be the true one."""
    up, down = 1e-10 / -math.expm1(-0.5), 1e-10 / (balance * math.expm1(0.5))
    event = from_pmf([0.5, 0.0, -0.5], [up, 1 - up - down, down])
    found = delta([event], 0.0)
    assert found.lower <= min(1e-10, 1e-10 / balance) * (1 + 1e-9)
    assert found.upper >= max(1e-10, 1e-10 / balance) * (1 - 1e-9)


def test_a_discrete_event_is_counted_and_has_no_noise():
    one = response(0.6)
    assert epsilon([one], 1e-5) == epsilon([(one, 1)], 1e-5)
    assert epsilon([(one, 0), (1, 5.0)], 1e-5) == epsilon([(1, 5.0)], 1e-5)
    for bad in ([(one, -1)], [(one, 1, 2)]):
        with pytest.raises(InvalidInput):
            epsilon(bad, 1e-5)
    with pytest.raises(InvalidInput):
        calibrate([(one, 3)], 1.0, 1e-5)


@pytest.mark.parametrize("count", [1, 10**15])
def test_loss_whose_mass_under_q_is_none_counts_in_every_bound(count):
    """At 600 the mass under Q underflows: what P has there is lost for the moments, and delta for ADD all the same."""
    rest = 3e-20 / -math.expm1(-1)
    events = [(from_pmf([600.0, 0.0, -1.0], [3e-20, 1.0, rest * math.exp(-1)]), count)]
    # at least: one such loss is above any epsilon here
    truth = -math.expm1(count * math.log1p(-3e-20)) * (1 - 1e-9)
    uppers, _ = certify.all_bounds(compose_events(events).to_rounds(), None, 100.0)
    (of_added,) = [bound for _, names, bound in uppers if "add" in names]
    assert of_added(100.0) >= truth
    assert delta(events, 100.0).upper >= truth
    assert epsilon(events, truth / 2).upper > 100
