"""The exact accountant: closed forms, other numerical methods, its bounds, and the ends of its range."""

import math
import tracemalloc

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adascale import accounting
from adascale.accounting import CertifiedInterval, exact_delta, exact_epsilon
from adascale.accounting.exact import certify, moments
from adascale.errors import RoundingFloor

from .coins import equal
from .exact import epsilon_by, moment, one_round

RATES = st.floats(-6, 0).map(lambda x: 10**x)
SIGMAS = st.floats(math.log10(0.3), 4).map(lambda x: 10**x)
DELTAS = st.floats(-12, -1e-3).map(lambda x: 10**x)
FEW = settings(
    max_examples=settings.default.max_examples // 3
)  # an example takes up to a second
BAD = [
    ("sampling_rate", 1.5, [1.0], "1.5"),
    ("sampling_rate", [0.1, 0.2], [1.0] * 3, ""),
    ("noise_multiplier", 0.1, [3.0, 0.99e-6, 0.5], "9.9e-07"),
    ("noise_multiplier", 0.1, [1e151], "1e+151"),
    ("noise_multiplier", 0.1, [], ""),
    ("noise_multiplier", 0.1, [[1.0]], ""),
]
DISTINCT = np.random.default_rng(0).uniform(0.8, 3.0, 500)


def test_distinct_noises_are_certified_below_a_thousandth():
    found = exact_epsilon(0.01, DISTINCT)
    assert found.lower <= found.estimate <= found.upper <= found.lower * 1.001
    assert exact_epsilon(0.01, DISTINCT[::-1]) == found
    assert 1.05 < accounting.schedule_epsilon(0.01, DISTINCT).epsilon / found.upper < 2
    # negative control: with a share of 1e-3 more noise energy, the interval misses the value of the true schedule
    assert exact_epsilon(0.01, DISTINCT * 1.002).upper < found.estimate


def test_each_round_has_its_own_rate():
    found = exact_epsilon([0.01, 0.02], [0.6, 0.9])
    assert found == exact_epsilon([0.02, 0.01], [0.9, 0.6])
    assert found != exact_epsilon([0.01, 0.02], [0.9, 0.6])
    assert exact_epsilon([0.01, 0.0], [0.6, 0.1]) == exact_epsilon(0.01, [0.6])


def test_epsilon_is_zero_where_delta_reaches_the_total_variation():
    variation = float(one_round(0.3, 2.0, 0.0, "add"))
    assert exact_epsilon(0.3, [2.0], 1.001 * variation).upper < 1e-2
    assert exact_epsilon(0.3, [2.0], 1.5 * variation).upper == 0
    assert exact_epsilon(0.3, [2.0], 0.9 * variation).lower > 0  # control


@pytest.mark.parametrize("scatter", [1e-15, 1e-8, 1e-5])
def test_noises_that_differ_by_rounding_or_little_more_are_certified(scatter):
    sigma = 1.3 * (1 + scatter * np.random.default_rng(0).standard_normal(20))
    found = exact_epsilon(0.01, sigma, 1e-5)
    same = exact_epsilon(0.01, np.full(20, 1.3), 1e-5)
    assert found.estimate == pytest.approx(same.estimate, rel=30 * scatter + 1e-9)
    assert found.certified


def test_the_accountant_gives_the_upper_end():
    lanes = np.stack([DISTINCT[:100], 1.3 * DISTINCT[:100]])
    accountant = accounting.ExactAccountant()
    assert accountant.epsilon(0.01, lanes, 1e-5).tolist() == [
        exact_epsilon(0.01, lane, 1e-5).upper for lane in lanes
    ]
    assert isinstance(accountant, accounting.Accountant)


@pytest.mark.parametrize(
    "case", [(0.5, 0.01, 4.0, 2.0), (9.0, 0.08, -3.0, 1.0), (0.04, 1e-4, 300.0, 30.0)]
)
def test_a_moment_is_as_near_to_thirty_digits_as_it_says(case):
    u, q, c, h = case
    out, scale, error, drift = moments.complex_moments(np.array([u]), q, c, h, 9)
    with mp.workdps(40):
        whole = moment(u, q, mp.mpf(c))
        for k in (0, 1, 8):
            right = moment(u, q, mp.mpc(c, k * h))
            off = abs(complex(out[0, k]) * mp.exp(mp.mpf(scale[0])) - right) / whole
            assert off < error[0] + k * drift[0] < 1e-12


@pytest.mark.parametrize("case", BAD)
def test_bad_argument_is_named_with_its_value(case):
    name, rate, sigma, value = case
    with pytest.raises(ValueError, match=f"^{name} must ") as error:
        exact_epsilon(rate, sigma, 0.5)
    assert value in str(error.value)


def test_old_names_refuse_wide_intervals_and_name_the_schedule(monkeypatch):
    wide = CertifiedInterval(0.9, 1.0, ("a", "b"), "both", 0.95, 1.0)
    for function, within in (
        (exact_epsilon, "epsilon_interval"),
        (exact_delta, "delta_interval"),
    ):
        monkeypatch.setattr(
            f"adascale.accounting.exact.certify.{within}", lambda *_: wide
        )
        with pytest.raises(ValueError, match=r"of 2 rounds .* 0\.01 .* \[0\.9, 1\]"):
            function(0.1, [1.0, 2.0], 0.01)


def test_rounding_floor_is_an_error():
    with pytest.raises(RoundingFloor):
        epsilon_by(certify.by_inversion, equal(1e-6, 0.5, 10_000), 1e-12)


@pytest.mark.parametrize(
    "case", [(1e-170, 1.0, 1e-172), (1e-14, 1e149, 1e-165), (1e-155, 1.0, 1e-170)]
)
def test_where_floating_point_ends_nothing_is_called_proven(case):
    """The total variation, which is delta at epsilon = 0, is above delta in each: epsilon is not 0."""
    rate, sigma, delta = case
    for count in (1, 2):  # one round has a closed form
        found = certify.epsilon_interval(equal(rate, sigma, count), delta)
        assert 0 <= found.lower <= found.upper
        assert found.upper > 0


@pytest.mark.parametrize(
    ("rate", "sigma"),
    [(1.0, [1e-6]), (1.0, [1e149]), (0.5, [1.0]), (1e-9, [1.0, 1e100])],
)
def test_delta_is_a_probability_at_any_epsilon_or_refused_in_little_memory(rate, sigma):
    tracemalloc.start()
    for epsilon in (0.0, 1e-300, 30.0, 1e4, 1.7e308):
        try:
            found = exact_delta(rate, sigma, epsilon)
        except ValueError as refused:
            assert "cannot be certified" in str(refused)  # noqa: PT017
        else:
            assert 0 <= found.lower <= found.upper <= 1
            assert not np.signbit([found.lower, found.upper]).any()  # no -0
    assert tracemalloc.get_traced_memory()[1] < 1e8  # five times what any of them takes
    tracemalloc.stop()


@st.composite
def schedules(draw):
    """Up to three distinct noise multipliers, each often."""
    kinds = draw(st.lists(SIGMAS, min_size=1, max_size=3))
    return draw(RATES), np.repeat(kinds, int(10 ** draw(st.floats(0, 4.5))))


def certified(*arguments):
    """An interval; a draw that cannot be certified is left out, if that is what the error says."""
    try:
        return exact_epsilon(*arguments)
    except ValueError as error:
        assume("cannot be certified" not in str(error))
        raise


@FEW
@given(schedules(), DELTAS, st.floats(1.001, 3), st.integers(0, 3))
def test_more_noise_less_sampling_fewer_rounds_and_more_delta_leak_no_more(
    schedule, delta, factor, way
):
    rate, sigma = schedule
    less = [
        (rate / factor, sigma, delta),
        (rate, sigma * factor, delta),
        (rate, sigma[: -(-sigma.size // 2)], delta),
        (rate, sigma, min(factor * delta, 0.999)),
    ]
    assert certified(*less[way]).lower <= certified(rate, sigma, delta).upper
