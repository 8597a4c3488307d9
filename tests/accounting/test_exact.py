"""The exact accountant: closed forms, other numerical methods, and the bracket."""

import math
import warnings

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

from adascale import ReceiveScalingProblem, Scenario, accounting, channel, policies
from adascale.accounting import exact_delta, exact_epsilon, trade_off
from adascale.accounting.exact import certify as bracket
from adascale.accounting.exact import inversion, moments, rounds
from adascale.accounting.exact.sharp import SharpAccountant, sharp_epsilon

BOOK = Scenario.mnist()


@pytest.fixture(scope="module")
def distinct():
    """500 different noise multipliers of the book."""
    problem = ReceiveScalingProblem(BOOK, BOOK.min_gain(channel.draw(BOOK.num_devices, BOOK.num_rounds, 7).gain), 0.04)
    sigma = problem.noise_multiplier(policies.EqualAlloc().schedule(problem))[0]
    assert np.unique(sigma).size == 500
    return sigma


def gaussian_delta(mu, epsilon):
    """The Gaussian mechanism, in multi-precision."""
    with mp.workdps(40):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        return float(mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu))


def one_round(q, sigma, epsilon, direction):
    """Delta of one sampled Gaussian at any real epsilon, by the set on which the loss is above it; multi-precision."""
    with mp.workdps(60):
        q, root, epsilon = mp.mpf(q), 1 / mp.mpf(sigma), mp.mpf(epsilon)
        level = (mp.exp(epsilon if direction == "add" else -epsilon) - 1 + q) / q
        if level <= 0:  # everywhere, or nowhere
            return 1 - mp.exp(epsilon) if direction == "add" else mp.mpf(0)
        x = (mp.log(level) + root**2 / 2) / root
        if direction == "add":
            return (1 - q) * mp.ncdf(-x) + q * mp.ncdf(root - x) - mp.exp(epsilon) * mp.ncdf(-x)
        return mp.ncdf(x) - mp.exp(epsilon) * ((1 - q) * mp.ncdf(x) + q * mp.ncdf(x - root))


@pytest.mark.parametrize("q", [0.9, 0.3, 0.05])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 4.0])
@pytest.mark.parametrize("fraction", [1e-4, 0.03, 0.7])
@pytest.mark.parametrize("way", [bracket.by_inversion, bracket.by_atoms])
def test_one_round_lies_between_the_ends_of_the_inversion(q, sigma, fraction, way):
    delta = float(fraction * one_round(q, sigma, 0, "add"))
    if way is bracket.by_atoms and q > 0.5:
        pytest.skip("atoms are for rare samples")
    _, lower, upper, _ = way(rounds.rounds_of(np.array([q]), np.array([sigma])), delta)
    both = [max(one_round(q, sigma, end, name) for name in inversion.DIRECTIONS) for end in (lower, upper)]
    assert both[0] >= delta >= both[1]
    assert upper - lower <= 1e-2 * upper


@pytest.mark.parametrize("direction", inversion.DIRECTIONS)
def test_both_directions_of_delta_are_those_of_one_round(direction):
    _, lower, upper = bracket.delta_of(rounds.rounds_of(np.array([0.2]), np.array([1.5])), direction, 0.15)
    assert lower <= one_round(0.2, 1.5, 0.15, direction) <= upper < 1.01 * lower


@pytest.mark.parametrize(("q", "sigma"), [((0.2, 0.05), (1.0, 0.7)), ((0.01, 0.01), (0.5, 0.8)), ((0.5, 1e-3), (3, 1))])
def test_two_different_rounds_are_their_convolution(q, sigma):
    epsilon = 0.6

    def composed(direction):
        def integrand(x):
            loss = math.log1p(q[0] * math.expm1(x / sigma[0] - 0.5 / sigma[0] ** 2))
            null = math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
            if direction == "add":
                return null * math.exp(loss) * float(one_round(q[1], sigma[1], epsilon - loss, "add"))
            return null * float(one_round(q[1], sigma[1], epsilon + loss, "remove"))

        return quad(integrand, -9, 9 + 1 / sigma[0], limit=400, epsrel=1e-8, epsabs=0)[0]

    found = exact_delta(q, sigma, epsilon)
    expected = max(composed("add"), composed("remove"))
    assert found.lower <= expected * (1 + 1e-7)
    assert found.upper >= expected * (1 - 1e-7)
    assert found.upper <= 1.01 * found.lower
    assert found.delta == pytest.approx(expected, rel=2e-3)


def test_rounds_without_sampling_are_gaussian_privacy():
    sigma = np.array([3.0, 5.0, 20.0])
    mu = math.sqrt((sigma**-2.0).sum())
    for delta in (1e-10, 1e-5, 0.05):
        found = exact_epsilon(1.0, sigma, delta)
        assert gaussian_delta(mu, found.lower) >= delta >= gaussian_delta(mu, found.upper)
        assert found.upper - found.lower < 1e-9 * found.upper


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_the_inversion_itself_meets_gaussian_privacy_as_the_rate_nears_one(delta):
    closed = exact_epsilon(1.0, [3.0, 5.0, 20.0], delta)
    found = exact_epsilon(1 - 1e-13, [3.0, 5.0, 20.0], delta)
    assert found.lower <= closed.epsilon <= found.upper
    assert found.epsilon == pytest.approx(closed.epsilon, rel=1e-6)


def test_a_round_without_sampling_beside_sampled_ones_is_the_limit_of_its_rate():
    mixed, near = (exact_epsilon([0.01] * 50 + [rate], [0.8] * 50 + [4.0]) for rate in (1.0, 1 - 1e-12))
    assert mixed.epsilon == pytest.approx(near.epsilon, rel=1e-6)


def test_the_ends_enclose_what_prv_of_opacus_encloses():
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(0.8, 0.01, 200), (1.5, 0.01, 300)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = accountant._get_dprv(eps_error=0.01, delta_error=1e-8)
        low, _, high = peer.compute_epsilon(1e-5, 1e-8, 0.01)
    found = exact_epsilon(0.01, [0.8] * 200 + [1.5] * 300)
    assert low <= found.upper
    assert found.lower <= high
    assert found.upper - found.lower < 0.1 * (high - low)


def test_a_schedule_of_the_book_is_certified_below_a_thousandth(distinct):
    found = exact_epsilon(BOOK.sampling_rate, distinct)
    assert found.lower <= found.epsilon <= found.upper <= found.lower * 1.001
    assert sharp_epsilon(BOOK.sampling_rate, distinct) == pytest.approx(found.epsilon, rel=1e-9)
    renyi = accounting.schedule_epsilon(BOOK.sampling_rate, distinct).epsilon
    assert 1.05 < renyi / found.upper < 1.5


def test_delta_and_epsilon_are_inverse(distinct):
    found = exact_delta(BOOK.sampling_rate, distinct, exact_epsilon(BOOK.sampling_rate, distinct).epsilon)
    assert found.lower <= 1e-5 <= found.upper


def test_the_order_of_rounds_does_not_matter(distinct):
    assert exact_epsilon(BOOK.sampling_rate, distinct[::-1]) == exact_epsilon(BOOK.sampling_rate, distinct)


def test_a_rate_for_every_round_is_taken_as_such(distinct):
    found = exact_epsilon([0.01, 0.02], [0.6, 0.9])
    assert found == exact_epsilon([0.02, 0.01], [0.9, 0.6])
    assert found != exact_epsilon([0.01, 0.02], [0.9, 0.6])


def test_rounds_in_which_nothing_is_sampled_leak_nothing():
    assert exact_epsilon([0.01, 0.0, 0.0], [0.6, 0.1, 3.0]) == exact_epsilon(0.01, [0.6])
    assert exact_epsilon(0.0, [1.0, 2.0])[:3] == (0, 0, 0)
    assert exact_delta(0.0, [1.0], 0.0)[:3] == (0, 0, 0)


def test_epsilon_is_zero_where_delta_reaches_the_total_variation():
    variation = float(one_round(0.3, 2.0, 0.0, "add"))
    assert exact_epsilon(0.3, [2.0], 1.001 * variation).upper < 1e-2
    assert exact_epsilon(0.3, [2.0], 1.5 * variation)[:3] == (0, 0, 0)
    assert exact_epsilon(0.3, [2.0], 0.9 * variation).lower > 0  # control


def test_epsilon_is_zero_wherever_a_bound_by_kullback_and_leibler_says_so():
    rate, sigma = 0.01, np.full(100, 2.0)
    divergence = 100 * float(accounting.rdp(rate, 2.0, 1 + 1e-6))
    assert exact_epsilon(rate, sigma, math.sqrt(-math.expm1(-divergence)) * 1.0001)[:3] == (0, 0, 0)


def test_the_trade_off_curve_is_a_guarantee_near_the_gaussian_one():
    alpha = np.linspace(0, 1, 21)
    gaussian = ndtr(ndtri(1 - alpha) - 0.5)
    found = trade_off(1.0, [2.0], alpha, points=200)
    assert (found <= gaussian + 1e-12).all()
    assert np.abs(found - gaussian).max() < 1e-3
    assert (trade_off(0.1, [2.0], alpha, points=8) > found - 1e-12).all()  # sampling can only help


def test_a_trade_off_curve_is_of_48_points_unless_told_otherwise():
    of = trade_off(1.0, [2.0], [0.1, 0.5]), trade_off(1.0, [2.0], [0.1, 0.5], points=48)
    np.testing.assert_array_equal(*of)


def test_a_trade_off_curve_has_rates_in_the_unit_interval_and_at_least_two_points():
    with pytest.raises(ValueError, match=r"alpha must be in \[0, 1\], got 1.5"):
        trade_off(1.0, [2.0], [0.1, 1.5])
    with pytest.raises(ValueError, match="points must be at least 2, got 1"):
        trade_off(1.0, [2.0], [0.1], points=1)
    assert trade_off(1.0, [2.0], [0.1], points=2) > 0


def test_without_a_leak_every_test_is_a_guess():
    alpha = np.linspace(0, 1, 5)
    np.testing.assert_array_equal(trade_off(0.0, [2.0], alpha), 1 - alpha)


def test_the_accountant_is_certified_unless_told_otherwise_and_stays_as_it_is(distinct):
    accountant = accounting.ExactAccountant()
    assert accountant.epsilon(0.01, distinct, 1e-5) == exact_epsilon(0.01, distinct, 1e-5).upper
    with pytest.raises(AttributeError):
        accountant.certified = False


def test_the_accountant_gives_the_upper_end_or_the_sharp_value(distinct):
    lanes = np.stack([distinct, 1.3 * distinct])
    ends, sharp = (each.epsilon(0.01, lanes, 1e-5) for each in (accounting.ExactAccountant(), SharpAccountant()))
    assert ends.shape == sharp.shape == (2,)
    assert (sharp < ends).all()
    assert (ends < 1.001 * sharp).all()
    assert isinstance(accounting.ExactAccountant(), accounting.Accountant)


def test_retired_names_warn_the_caller_and_still_work(distinct):
    with pytest.warns(DeprecationWarning, match="exact_epsilon") as warned:
        assert accounting.sharp_epsilon is sharp_epsilon
    with pytest.warns(DeprecationWarning, match="certified") as again:
        accountant = accounting.ExactAccountant(certified=False)
    assert warned[0].filename == again[0].filename == __file__
    assert accountant.epsilon(0.01, distinct, 1e-5) == exact_epsilon(0.01, distinct, 1e-5).upper
    assert "sharp_epsilon" not in accounting.__all__
    with pytest.raises(AttributeError, match="sharper"):
        accounting.sharper  # noqa: B018


def test_the_sharp_value_of_rare_samples_is_wrong():
    """If it no longer is, its docstring is; the exact value is within its own bounds."""
    rare = 1e-5, np.linspace(1, 5, 50), 1e-8
    found = exact_epsilon(*rare)
    assert found.lower <= found.epsilon <= found.upper < 0.0003 < 0.0019 < sharp_epsilon(*rare)


@pytest.mark.parametrize(
    ("u", "q", "c", "h"), [(0.5, 0.01, 4.0, 2.0), (9.0, 0.08, -3.0, 1.0), (0.04, 1e-4, 300.0, 30.0)]
)
def test_a_moment_is_as_near_to_forty_digits_as_it_says(u, q, c, h):
    out, scale, error, drift = moments.line(np.array([u]), q, c, h, 9)

    def exact(z):
        root = mp.sqrt(u)
        edges = np.linspace(-10 + min(c, 0) * float(root), 12 + max(c, 0) * float(root), 50).tolist()
        density = lambda x: mp.exp(z * mp.log(1 + mp.mpf(q) * mp.expm1(root * x - mp.mpf(u) / 2)) - x * x / 2)  # noqa: E731
        return mp.quad(density, [-40, *edges, 60 + max(c, 0) * float(root)]) / mp.sqrt(2 * mp.pi)

    with mp.workdps(30):
        whole = exact(mp.mpf(c)).real
        for k in (0, 1, 8):
            got = mp.mpc(complex(out[0, k])) * mp.exp(mp.mpf(float(scale[0])))
            assert abs(got - exact(mp.mpc(c, k * h))) / whole < error[0] + k * drift[0] < 1e-12


@pytest.mark.parametrize("c", [1.5, 6.0, -4.0])
def test_interpolated_rounds_are_as_near_to_their_own_moments_as_they_say(distinct, c):
    schedule = rounds.rounds_of(np.full(500, 0.01), distinct)
    own, scale, *_ = moments.line(schedule.energies[0], 0.01, c, 2.0, 30)
    total, share = float((np.log(own[:, 0].real) + scale).sum()), (own / own[:, :1].real).prod(axis=0)
    for digits, worst in ((27.0, 1e-5), (9.0, 1.0)):
        found = rounds.moments_on_line(schedule, c, 2.0, 30, digits)
        off = abs(found.log_moment - total)
        assert off < found.error < worst
        assert (np.abs(found.share - share) < found.off).all()
        off = max(off, np.abs(found.share - share).max())
    assert off > 1e-12  # the second one is seen to be coarse


def test_the_weights_of_the_lower_bound_are_those_of_a_mean():
    for tau in (1e-8, 1e-3, 0.3):
        at, weight = inversion.hats(tau)
        assert (weight > 0).all()
        assert weight.sum() == pytest.approx(1 - ndtr(at[0] + tau / 2), rel=1e-13)


def test_the_bounds_of_a_sum_notice_a_moment_that_is_wrong(distinct):
    """Negative control: with a share of 1e-3 more noise energy, the bracket misses the value of the true schedule."""
    true = exact_epsilon(BOOK.sampling_rate, distinct)
    wrong = exact_epsilon(BOOK.sampling_rate, distinct * 1.002)
    assert wrong.upper < true.epsilon


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.5, [1.0]), r"sampling_rate must be in \[0, 1\], got 1.5"),
        ((-0.1, [1.0]), r"sampling_rate must be in \[0, 1\], got -0.1"),
        ((0.1, [0.0]), "noise_multiplier must be finite and > 0, got 0.0 at index 0"),
        ((0.1, [math.inf]), "noise_multiplier must be finite and > 0, got inf at index 0"),
        ((0.1, []), r"noise_multiplier must have a last axis of rounds, got shape \(0,\)"),
        ((0.1, [[1.0]]), r"noise_multiplier must have shape \(T,\), got shape \(1, 1\)"),
        (([0.1, 0.2], [1.0, 1.0, 1.0]), "sampling_rate must be one number or one per round"),
        ((0.1, [1e-9]), "noise_multiplier must be within 1e-6 ... 1e150, got 1e-09"),
        ((0.1, [1.0], 0.0), "delta must be one number strictly between 0 and 1, got 0.0"),
        ((0.1, [1.0], 1.0), "delta must be one number strictly between 0 and 1, got 1.0"),
    ],
)
def test_a_bad_argument_is_named_with_its_value(arguments, message):
    with pytest.raises(ValueError, match=message):
        exact_epsilon(*arguments)


def test_what_cannot_be_certified_is_one_clear_error_that_says_why_and_what_to_do():
    message = (
        r"10000 rounds with rates 1e-06 .* at delta 1e-12 cannot be certified: what double precision may be off "
        r"is [0-9.]+ times delta; try a larger delta .* or take schedule_epsilon"
    )
    with pytest.raises(ValueError, match=message):
        exact_epsilon(1e-6, np.full(10_000, 0.5), 1e-12)


def test_an_upper_end_that_is_not_found_is_an_error_and_no_infinity():
    one = rounds.rounds_of(np.array([0.5]), np.array([1e-5]))
    with pytest.raises(inversion.CannotCertify):
        bracket.by_inversion(one, 0.3)


@pytest.mark.parametrize(("rate", "sigma", "count", "delta"), [(1e-6, 1.0, 10, 1e-7), (1e-4, 3.0, 100, 1e-9)])
def test_rare_samples_are_certified_by_atoms_where_the_moments_themselves_are_too_large(rate, sigma, count, delta):
    """The inversion alone refuses; delta of the ends, found in the other way of asking, says that both enclose."""
    schedule = rounds.rounds_of(np.full(count, rate), np.full(count, sigma))
    with pytest.raises(inversion.CannotCertify):
        bracket.by_inversion(schedule, delta)
    _, lower, upper, _ = bracket.by_atoms(schedule, delta)
    assert 0 < lower < upper < 1.01 * lower
    most, least = (bracket.delta_by_atoms(schedule, end) for end in (lower, upper))
    assert most[2] >= delta >= least[1]
    # q sums to so little that two draws are rare: one round with the rates together has more, and nearly as much
    together = exact_epsilon(count * rate, [sigma], delta)
    assert lower <= together.upper


def test_delta_and_epsilon_are_each_other_s_inverse_far_within_the_bracket():
    sigma = np.geomspace(0.8, 3.0, 40)
    for target in (1e-3, 1e-6):
        epsilon = exact_epsilon(0.05, sigma, target).epsilon
        there = exact_delta(0.05, sigma, epsilon)
        assert there.delta == pytest.approx(target, rel=1e-6)
        assert there.upper - there.lower > 1e-4 * target  # control: the bracket alone would not say so


@pytest.mark.parametrize("scatter", [1e-15, 1e-12, 1e-8, 1e-5])
def test_noises_that_differ_by_rounding_or_little_more_are_certified(scatter):
    sigma = 1.3 * (1 + scatter * np.random.default_rng(0).standard_normal(60))
    found, equal = exact_epsilon(0.01, sigma, 1e-5), exact_epsilon(0.01, np.full(60, 1.3), 1e-5)
    assert found.epsilon == pytest.approx(equal.epsilon, rel=30 * scatter + 1e-9)
    assert found.lower <= equal.epsilon * (1 + 30 * scatter)
    assert equal.epsilon * (1 - 30 * scatter) <= found.upper
    assert found.upper - found.lower < 0.01 * found.epsilon


@pytest.mark.parametrize(
    ("rate", "sigma", "delta"), [(1e-170, 1.0, 1e-172), (1e-14, 1e149, 1e-165), (0.5, 1e-5, 0.3), (1e-155, 1.0, 1e-170)]
)
def test_where_floating_point_ends_nothing_is_called_proven(rate, sigma, delta):
    """The total variation, which is delta at epsilon = 0, is above delta in each: epsilon is not 0."""
    with pytest.raises(ValueError, match="cannot be certified"):
        exact_epsilon(rate, [sigma, sigma], delta)
    assert exact_epsilon(rate, [sigma], delta).upper > 0  # one round has a closed form
