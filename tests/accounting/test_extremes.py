"""The ends of every range: digits, order, shapes, time; a number or one clear error, never NaN and never infinity."""

import math
import re
import time
import tracemalloc
from random import Random

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from adascale import accounting
from adascale.accounting import kernels

from . import exact

rates = st.floats(-12, 0).map(lambda x: min(10.0**x, 1.0)) | st.floats(-12, -0.01).map(lambda x: 1 - 10.0**x)
multipliers = st.floats(-6, 12).map(lambda x: 10.0**x) | st.floats(-1.5, 1).map(lambda x: 10.0**x)
orders = (
    st.floats(-7, 0).map(lambda x: 1 + 10.0**x)
    | st.floats(2, 256)
    | st.integers(2, 256).map(float)
    | st.floats(2.4, 12).map(lambda x: 10.0**x)
)
schedules = st.lists(multipliers, min_size=1, max_size=6)
deltas = st.floats(-300, -0.001).map(lambda x: 10.0**x)
positive = st.floats(0, exclude_min=True, allow_infinity=False)

# Two values that differ by less than their rounding are not ordered: 1e-12 is the worst error that was found, and from
# order 1e6 on the rounding of 1 / sigma^2 alone moves a leakage by 1e-16 times the order.
NOISE = 4e-12


def slack(alpha):
    return NOISE + 1e-15 * alpha


def rdp(q, sigma, alpha):
    return float(accounting.rdp(q, sigma, alpha))


# for tests of something else
at_any_order = pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")


# Digits --------------------------------------------------------------------------------------------------------------


def draw(rng, kind):
    """A point of the whole range, often where one expression gives way to another."""
    q = 10 ** rng.uniform(-12, 0) if rng.random() < 0.8 else 1 - 10 ** rng.uniform(-12, -0.3)
    alpha = {
        "towards 1": lambda: 1 + 10 ** rng.uniform(-10, 0),
        "ordinary": lambda: rng.uniform(2, 256) if rng.random() < 0.6 else float(rng.randint(2, 512)),
        "large": lambda: 10 ** rng.uniform(2.5, 6),
        "huge": lambda: 10 ** rng.uniform(6, 12),
    }[kind]()
    where = rng.random()
    if where < 0.4:
        sigma = 10 ** rng.uniform(-6, 12)
    elif where < 0.7:
        sigma = 10 ** rng.uniform(-1.7, 1)
    else:  # where the last term of Lemma 1 begins to rule
        sigma = (-2 * math.log(q) / (alpha - 1) * 10 ** rng.uniform(-1, 1)) ** -0.5
    if alpha > 300 and rng.random() < 0.5:
        alpha = float(round(alpha))
    return q, min(max(sigma, 1e-6), 1e12), alpha


KINDS = ["towards 1", "ordinary", "large", "huge"]


@pytest.mark.parametrize("kind", KINDS)
def test_leakage_has_the_digits_of_mpmath_over_its_whole_range(kind):
    rng = Random(kind)
    for _ in range(10):
        point = draw(rng, kind)
        assert rdp(*point) == pytest.approx(exact.rdp(*point), rel=1e-12, abs=0), point


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", KINDS)
def test_leakage_has_the_digits_of_mpmath_at_hundreds_of_points(kind):
    rng = Random()
    for _ in range(300):
        point = draw(rng, kind)
        assert rdp(*point) == pytest.approx(exact.rdp(*point), rel=1e-12, abs=0), point


SEAMS = [
    # (q, sigma, order): where the finite sum ends, Gaussians come apart, one of them is left alone, two peaks are equal
    (0.01, 1.0, 512.0),
    (0.01, 1.0, 513.0),
    (0.01, 1.0, 512.5),
    (1e-12, 9.0, 512.0),
    (1e-12, 9.0, 513.0),
    (0.5, 1 / 18.0001, 1.01),
    (0.5, 1 / 17.9999, 1.01),
    (1e-12, 0.0418, 1.0001),
    (1e-12, 0.042, 1.0001),
    (1 - 1e-12, 0.042, 1.0001),
    (0.5, 3e-6, 1.0000000001),
    (1e-12, 0.001, 1.0000001),
    (1e-3, 1e-5, 1 + 2.0**-52),
    (1e-12, 1.9, 200.5),
    (1e-9, 12.0, 6000.0),
    (0.01, 330.0, 1e6),
    (0.01, 329.0, 1e6),
    (0.5, 1e4, 1e9),
    (0.0025, 3.0, 2e11),
    (1e-150, 190**-0.5, 3.0),
    (1e-200, 0.02, 2.5),
    (1e-306, 0.03125, 1.5),
    (0.3, 1e100, 1.5),
    (0.3, 1e100, 1e6),
]


@pytest.mark.parametrize("point", SEAMS)
def test_leakage_has_the_digits_of_mpmath_on_both_sides_of_a_seam(point):
    assert rdp(*point) == pytest.approx(exact.rdp(*point), rel=1e-12, abs=0)


@pytest.mark.parametrize("point", SEAMS[:-5])
def test_the_derivative_is_that_of_the_leakage_on_both_sides_of_a_seam(point):
    q, sigma, alpha = point
    with exact.mp.workdps(60):
        h = exact.mp.mpf(sigma) * exact.mp.mpf(10) ** -10  # leaves ten digits of the thirty
        rise = exact.log_moment(q, sigma + h, alpha) - exact.log_moment(q, sigma - h, alpha)
        slope = float(rise / (2 * h) / (exact.mp.mpf(alpha) - 1))
    # the truncation: (1e-10)^2 times a third derivative of up to alpha^2 / sigma^4
    assert float(accounting.rdp_derivative(q, sigma, alpha)) == pytest.approx(slope, rel=1e-9, abs=0)


def test_the_judge_does_not_depend_on_its_nodes():
    for point in [(0.5, 1.0, 1.01), (1e-9, 0.02, 1.3), (1 - 1e-9, 0.05, 1.0001), (0.01, 3.0, 2e4), (1e-12, 12.0, 3e5)]:
        coarse, fine = (exact.log_moment(*point, nodes=nodes) for nodes in (12, 24))
        assert float(abs(coarse / fine - 1)) < 1e-16


# Any input -----------------------------------------------------------------------------------------------------------


@given(st.floats(0, 1, exclude_min=True), positive, st.floats(1, exclude_min=True, allow_infinity=False))
@example(0.5, 3e-6, 1.0000000001)
@example(0.5, 1.7e308, 2.5)
@example(0.5, 1.7e308, 3.0)
@example(0.5, 1e-308, 3.0)
@example(0.5, 1e-160, 2.5)
@example(1.0, 5e-324, 1e12)
@example(5e-324, 1e-3, 3.0)
@example(5e-324, 0.03125, 1.5)
@example(5e-324, 1.0, 1e6)
@example(0.01, 1.0, 1e18)
@example(0.01, 1.0, 1e5)
@example(1 - 2.0**-53, 1.0, 1 + 2.0**-52)
def test_any_input_is_a_number_or_one_clear_error(q, sigma, alpha):
    for function, sign in ((accounting.rdp, 1), (accounting.rdp_derivative, -1)):
        try:
            value = float(function(q, sigma, alpha))
        except ValueError as error:
            assert str(error).startswith(("noise_multiplier", "order must be at most 1e+12"))  # noqa: PT017
            assert alpha > 1e12 or sigma < 1e-90
        else:
            assert math.isfinite(value)
            assert sign * value >= 0


@pytest.mark.parametrize("alpha", [1.0000001, 1.5, 2.0, 3.0, 63.0, 512.0, 1e9])
def test_what_floating_point_cannot_hold_is_refused_by_name_or_zero(alpha):
    for function in (accounting.rdp, accounting.rdp_derivative):
        with pytest.raises(
            ValueError, match=re.escape(f"noise_multiplier 1e-160 is too small: at order {alpha:g} the")
        ):
            function(0.5, [1.0, 1e-160], alpha)
        assert float(function(0.5, 1.7e308, alpha)) == 0  # 1e-616 in truth
    with pytest.raises(ValueError, match=r"^noise_multiplier 1e-160 is too small: epsilon exceeds"):
        accounting.schedule_epsilon(0.5, [1.0, 1e-160])


@pytest.mark.parametrize("refused", [1e18, 1.0000001e12])
def test_every_function_refuses_an_order_without_meaning(refused):
    for call in (
        lambda: accounting.rdp(0.1, 1.0, refused),
        lambda: accounting.rdp_derivative(0.1, 1.0, refused),
        lambda: accounting.schedule_epsilon(0.1, [1.0], orders=[2, refused]),
        lambda: accounting.to_dp([1.0, 1.0], [2, refused]),
        lambda: accounting.RenyiAccountant((2, refused)),
        lambda: kernels.moment_terms(0.1, refused),
    ):
        with pytest.raises(ValueError, match=r"at most 1e\+12"):
            call()


SLOWEST = [(0.5, 3e-6, 1.0000000001), (0.01, 1.0, 1e5), (0.5, 0.045, 1.0), (0.01, 0.3, 512.0), (0.01, 1e3, 1e12)]
SLOWEST += [
    (0.3, (4 / 1e12 * 1.0000001) ** -0.5, 1e12),
    (1e-300, 0.03, 2.5),
    (1e-12, 1e-6, 1 + 1e-10),
    (1e-12, 1.0, 511.5),
]


@pytest.mark.parametrize(("q", "sigma", "alpha"), SLOWEST)
def test_no_value_takes_a_tenth_of_a_second(q, sigma, alpha):
    alpha = max(alpha, 1 + 1e-7)
    accounting.rdp(q, sigma, alpha)  # compiles
    accounting.rdp_derivative(q, sigma, alpha)
    # the least of five: a busy machine is no slow function. Measured: 20 ms for the flattest peak, else under 2 ms
    least = math.inf
    for _ in range(5):
        start = time.perf_counter()
        accounting.rdp(q, sigma, alpha)
        accounting.rdp_derivative(q, sigma, alpha)
        least = min(least, time.perf_counter() - start)
    assert least < 0.2


@at_any_order
def test_a_million_multipliers_of_every_size_take_seconds_and_little_memory():
    sigma = 10 ** np.random.default_rng(0).uniform(-6, 12, 1_000_000)
    accounting.rdp(0.01, sigma[:9], 3)  # compiles
    accounting.schedule_epsilon(0.01, sigma[:6000])
    tracemalloc.start()
    start = time.perf_counter()
    assert np.isfinite(accounting.rdp(0.01, sigma, 3)).all()
    assert np.isfinite(accounting.schedule_epsilon(0.01, sigma).epsilon)
    assert time.perf_counter() - start < 10
    assert tracemalloc.get_traced_memory()[1] < 300e6  # thirty-odd copies of the argument
    tracemalloc.stop()


# Order ---------------------------------------------------------------------------------------------------------------


@given(rates, rates, multipliers, orders)
def test_leakage_grows_with_the_sampling_rate(p, q, sigma, alpha):
    assume(p < q)
    assert rdp(p, sigma, alpha) <= rdp(q, sigma, alpha) * (1 + slack(alpha))


@given(rates, multipliers, multipliers, orders)
def test_leakage_falls_with_the_noise(q, low, high, alpha):
    assume(low < high)
    assert rdp(q, high, alpha) <= rdp(q, low, alpha) * (1 + slack(alpha))
    assert accounting.rdp_derivative(q, low, alpha) < 0


@given(rates, multipliers, orders, orders)
def test_leakage_grows_with_the_order(q, sigma, alpha, beta):
    assume(alpha < beta)
    assert rdp(q, sigma, alpha) <= rdp(q, sigma, beta) * (1 + slack(beta))


@given(rates, multipliers, orders)
def test_leakage_lies_between_its_bounds(q, sigma, alpha):
    r"""Above: no sampling. Below: the upper part of the mixture alone; and above order 2 the closed form of order 2."""
    found, s = rdp(q, sigma, alpha), sigma**-2.0
    assert 0 < found <= alpha / 2 * s * (1 + slack(alpha))
    alone = alpha * math.log(q) / (alpha - 1) + alpha / 2 * s
    # two terms that cancel leave the rounding of either
    assert found >= alone - slack(alpha) * alpha / 2 * s
    two = math.log1p(q * q * math.expm1(s)) if s < 700 else 2 * math.log(q) + s
    assert found >= two * (1 - slack(alpha)) if alpha >= 2 else found <= two * (1 + slack(alpha))


@given(rates, schedules, schedules, orders)
def test_leakages_of_two_schedules_add(q, first, second, alpha):
    parts = [accounting.compose(accounting.rdp(q, each, alpha)) for each in (first, second)]
    # the same numbers, added in another order
    assert accounting.compose(accounting.rdp(q, first + second, alpha)) == pytest.approx(sum(parts), rel=1e-14, abs=0)


@at_any_order
@given(rates, schedules, deltas, deltas)
def test_epsilon_falls_with_delta_and_is_never_negative(q, sigma, small, large):
    assume(small < large)
    strict, loose = (accounting.schedule_epsilon(q, sigma, delta) for delta in (small, large))
    assert 0 <= loose.epsilon <= strict.epsilon * (1 + NOISE)
    assert math.isfinite(strict.epsilon)


@at_any_order
@given(rates, schedules, multipliers, deltas)
def test_another_round_never_lowers_epsilon(q, sigma, another, delta):
    before, after = (accounting.schedule_epsilon(q, each, delta).epsilon for each in (sigma, [*sigma, another]))
    assert before <= after * (1 + NOISE)


@at_any_order
@given(rates, schedules, deltas, st.lists(orders, min_size=1, max_size=5))
def test_more_orders_never_raise_epsilon(q, sigma, delta, more):
    few = accounting.schedule_epsilon(q, sigma, delta, orders=[2, 10.5])
    many = accounting.schedule_epsilon(q, sigma, delta, orders=[2, 10.5, *more])
    assert many.epsilon <= few.epsilon * (1 + slack(max(more)))


@at_any_order
@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-12, 0.5, 1 - 2.0**-53])
def test_the_conversion_holds_at_either_end_of_delta(delta):
    for orders in (accounting.DEFAULT_ORDERS, accounting.order_grid(1e12, 1 + 2.0**-52)):
        for leakage in (0.0, 1e-300, 1.0, 1e300):
            found = accounting.to_dp(np.full(len(orders), leakage), orders, delta)
            assert math.isfinite(found.epsilon)
            assert 0 <= found.epsilon <= leakage + 1e3
    if delta > 0.9:
        assert accounting.to_dp([1e-9, 1e-9, 1e-9], [1.5, 2, 3], delta).epsilon == 0


# Arguments of every make ---------------------------------------------------------------------------------------------


def makes(values):
    """The same numbers in other arrays."""
    plain = np.asarray(values, dtype=float)
    frozen = plain.copy()
    frozen.flags.writeable = False
    return {
        "read-only": frozen,
        "strided": np.repeat(plain, 3)[::3],
        "reversed": plain[::-1].copy()[::-1],
        "a list": plain.tolist(),
        "big-endian": plain.astype(">f8"),
    }


@at_any_order
@given(st.lists(multipliers, min_size=1, max_size=5), rates, orders)
def test_the_make_of_an_array_does_not_matter(sigma, q, alpha):
    expected, epsilon = accounting.rdp(q, sigma, alpha), accounting.schedule_epsilon(q, sigma)
    for make, given_ in makes(sigma).items():
        np.testing.assert_array_equal(accounting.rdp(q, given_, alpha), expected, err_msg=make)
        assert accounting.schedule_epsilon(q, given_) == epsilon, make


def test_float32_is_taken_for_the_numbers_that_it_holds():
    sigma = np.geomspace(0.3, 30, 7, dtype=np.float32)
    for alpha in (1.5, 3, 600.5):
        found = accounting.rdp(np.float32(0.01), sigma, np.float32(alpha))
        assert found.dtype == np.float64
        expected = accounting.rdp(float(np.float32(0.01)), sigma.astype(float), float(np.float32(alpha)))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4), (1, 1, 1, 1, 5)])
def test_every_shape_is_kept(shape):
    sigma = np.random.default_rng(0).uniform(0.5, 5, shape)
    for order in (1.5, 3, 600):
        for array in (sigma, np.array(sigma, order="F"), np.broadcast_to(sigma, shape)):
            found = accounting.rdp(0.01, array, order)
            assert np.shape(found) == shape
            for index in np.ndindex(shape):
                assert np.asarray(found)[index] == accounting.rdp(0.01, float(sigma[index]), order)


@at_any_order
@given(schedules, st.lists(orders, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_orders_may_come_unsorted_and_twice(sigma, alphas, rng):
    shuffled = [*alphas, *alphas]
    rng.shuffle(shuffled)
    expected = accounting.schedule_epsilon(0.01, sigma, orders=sorted({*alphas}))
    assert accounting.schedule_epsilon(0.01, sigma, orders=shuffled) == expected
    curve = [accounting.compose(accounting.rdp(0.01, sigma, alpha)) for alpha in shuffled]
    assert accounting.to_dp(curve, shuffled).epsilon == pytest.approx(float(expected.epsilon), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ([], "shape (0,)"),
        ([2.0, math.nan], "nan"),
        ([[2.0]], "shape (1, 1)"),
        ([2.0, 1.0], "1.0"),
        ([math.inf], "inf"),
        ("many", "'many'"),
    ],
)
def test_orders_that_are_none_are_refused_by_their_value(bad, word):
    for call in (
        lambda: accounting.schedule_epsilon(0.1, [1.0], orders=bad),
        lambda: accounting.RenyiAccountant(bad),
        lambda: accounting.at_end(accounting.DpGuarantee(np.ones(1), np.ones(1)), bad),
    ):
        with pytest.raises(ValueError, match=r"^orders must be") as error:
            call()
        assert word in str(error.value)


@pytest.mark.parametrize("bad", [math.nan, -1e-300, -math.inf])
def test_a_sum_of_leakages_refuses_what_is_none(bad):
    with pytest.raises(ValueError, match=r"^leakage must be >= 0, got"):
        accounting.compose([1.0, bad])


# Orders that are too few ---------------------------------------------------------------------------------------------

# what a schedule for a hundred devices is like: 0.1207 at order 63, and a third less at 150
MANY_DEVICES = np.full(500, 94.0)
LITTLE_NOISE = np.full(500, 0.05)


def test_epsilon_at_the_last_order_says_so_with_what_is_to_be_won():
    with pytest.warns(accounting.OrdersTooFew, match=r"last one given, 63, .*order_grid\(256\)") as caught:
        short = accounting.schedule_epsilon(0.1, MANY_DEVICES)
    (warning,) = (each.message for each in caught)
    assert (warning.end, warning.epsilon, warning.number, warning.total) == (63, short.epsilon, 1, 1)
    longer = accounting.schedule_epsilon(0.1, MANY_DEVICES, orders=accounting.order_grid(256))  # no warning
    assert longer.epsilon < 0.7 * short.epsilon
    # orders in steps of a square root of two and of 5 %: the valley is flat
    assert warning.better == pytest.approx(float(longer.epsilon), rel=0.02)
    assert accounting.at_end(short) == 1
    assert accounting.at_end(longer, accounting.order_grid(256)) == 0


def test_epsilon_at_the_first_order_says_so_too():
    with pytest.warns(accounting.OrdersTooFew, match=r"first one given, 1.1, .*order_grid\(smallest=1.0") as caught:
        short = accounting.schedule_epsilon(0.1, LITTLE_NOISE)
    (warning,) = (each.message for each in caught)
    assert accounting.at_end(short) == -1
    longer = accounting.schedule_epsilon(0.1, LITTLE_NOISE, orders=accounting.order_grid(smallest=1.0001))
    assert longer.epsilon < 0.9 * short.epsilon
    assert warning.better == pytest.approx(float(longer.epsilon), rel=0.02)


def test_an_accountant_warns_once_for_many_schedules():
    sigma = np.stack([MANY_DEVICES, MANY_DEVICES / 30, 1.1 * MANY_DEVICES])
    with pytest.warns(accounting.OrdersTooFew, match="best order of 2 of 3 schedules") as caught:
        accounting.RenyiAccountant().epsilon(0.1, sigma, 1e-5)
    assert len(caught) == 1
    assert caught[0].message.epsilon == pytest.approx(0.118, abs=0.002)  # of the one with most to win


def test_what_is_told_of_an_order_beyond_is_a_bound_for_a_schedule_of_many_multipliers():
    sigma = MANY_DEVICES[0] * np.random.default_rng(0).uniform(0.9, 1.1, 5000)
    with pytest.warns(accounting.OrdersTooFew) as caught:
        accounting.schedule_epsilon(0.03, sigma)
    best = accounting.schedule_epsilon(0.03, sigma, orders=accounting.order_grid(4096)).epsilon
    assert best <= caught[0].message.better * 1.001  # the grids differ
    assert caught[0].message.better == pytest.approx(float(best), rel=0.02)


def test_an_end_without_a_word():
    """Where nothing is to be won: an order inside, one order alone, an epsilon of zero, less than one percent."""
    accounting.schedule_epsilon(0.01, np.full(500, 1.0))
    accounting.schedule_epsilon(0.1, MANY_DEVICES, orders=[63])
    accounting.to_dp([1.0], [63])
    assert accounting.schedule_epsilon(0.01, [1e8], delta=0.5).epsilon == 0
    best = accounting.schedule_epsilon(0.1, MANY_DEVICES, orders=accounting.order_grid(1024)).order
    accounting.schedule_epsilon(0.1, MANY_DEVICES, orders=[2, best - 0.5])


def test_a_curve_whose_best_order_is_an_end_says_so():
    curve = accounting.rdp(0.1, 94.0, 2) * np.arange(2, 64)
    with pytest.warns(accounting.OrdersTooFew, match="last one given, 63, and larger ones may") as caught:
        accounting.to_dp(500 * curve / 2, range(2, 64))
    assert caught[0].message.order is caught[0].message.better is None
    with pytest.warns(accounting.OrdersTooFew, match=r"first one given, 2, .*order_grid\(smallest=") as caught:
        accounting.to_dp([9.0, 90.0], [2, 3])


@given(st.floats(0.01, 12).map(lambda x: 1 + 10.0**x), st.floats(-15, -0.1).map(lambda x: 1 + 10.0**x))
def test_a_grid_has_its_ends_and_no_gap(largest, smallest):
    assume(smallest < largest <= 1e12)
    grid = np.array(accounting.order_grid(largest, smallest))
    assert (grid[0], grid[-1]) == (smallest, largest)
    assert (np.diff(grid) > 0).all()
    gap = grid - 1
    assert (gap[1:] <= np.maximum(2.0 * gap[:-1], gap[:-1] + 1.1)).all()  # from 1.1 to 1.2, and from 10.9 to 12
    assert len(grid) < 1000


def test_the_grid_goes_on_where_the_usual_orders_end():
    assert accounting.order_grid(63) == accounting.DEFAULT_ORDERS
    assert accounting.order_grid(1024)[: len(accounting.DEFAULT_ORDERS)] == accounting.DEFAULT_ORDERS
    assert accounting.order_grid(1024, 1.01)[0] == 1.01


@pytest.mark.parametrize(
    ("largest", "smallest"), [(1e13, 1.1), (1.05, 1.1), (2, 2), (math.nan, 1.1), (64, 1.0), (64, "1")]
)
def test_a_grid_without_meaning_is_refused(largest, smallest):
    with pytest.raises(ValueError, match=r"largest|smallest"):
        accounting.order_grid(largest, smallest)


def test_an_accountant_takes_a_list_of_orders_from_its_name():
    made = accounting.find("renyi:orders=[1.5,2,64]")
    assert made == accounting.RenyiAccountant((1.5, 2, 64))
    assert made.orders == (1.5, 2.0, 64.0)
    with pytest.raises(ValueError, match="orders must be"):
        accounting.find("renyi:orders=many")


# Accountants of one's own --------------------------------------------------------------------------------------------


class Own:
    def __init__(self, result):
        self.result = result

    def epsilon(self, sampling_rate, noise_multiplier, delta):
        return self.result


@pytest.mark.parametrize(
    "result", [math.nan, -0.1, [1.0, 2.0], [[1.0]], None, "0.5", 1j, [1.0, math.nan, 2.0]], ids=repr
)
def test_an_accountant_whose_result_is_no_epsilon_is_named(result):
    with pytest.raises(ValueError, match=r"^epsilon of the accountant Own must be|have shape") as error:
        accounting.epsilon_by(Own(result), 0.1, np.ones((3, 4)), 1e-5)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("result", [[0.0, 1.5, math.inf], np.float32([1, 2, 3]), [1, 2, 3]], ids=repr)
def test_an_accountant_whose_result_is_one_is_believed(result):
    found = accounting.epsilon_by(Own(result), 0.1, np.ones((3, 4)), 1e-5)
    assert found.tolist() == list(result)
    assert accounting.epsilon_by(Own(1), 0.1, np.ones(4), 1e-5) == 1
