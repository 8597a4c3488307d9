"""The parts of the exact accountant, each against an independent reference, and the rounding that they state."""

import math

import mpmath as mp
import numpy as np
import pytest

from adascale.accounting.exact import (
    discrete,
    inversion,
    moments,
    rounds,
)
from adascale.accounting.exact.inversion import Inversion, Plan
from adascale.errors import CannotCertify

from . import exact
from .coins import coins, equal, only, sampled
from .exact import gaussian_delta, moment
from .test_error_bounds import cells

ULP = 2.0**-52
# the last one has ratios near 1 at losses L that are differences of some hundred
PROVEN = [
    (0.01, 1.0, 4.0),
    (1e-4, 0.5, 12.0),
    (0.3, 0.02, 3.0),
    (0.9, 0.005, 1.5),
    (1e-6, 50.0, 300.0),
]


@pytest.mark.parametrize(
    ("number", "count", "step", "spread"),
    [(30, 7, 0.3, 1), (90, 3000, 0.02, 40), (40, 50, 11, 9)],
)
@pytest.mark.parametrize("way", [moments.waves_by_products, moments.waves_by_transform])
def test_a_sum_of_waves_is_right_to_what_it_says(way, number, count, step, spread):
    """By either way, whatever the number of terms; the phases lose 1.2 units of themselves."""
    rng = np.random.default_rng(number)
    loss = spread * rng.normal(size=number)
    weight = rng.random(number) - 0.5j * rng.random(number)
    value, lost = way(weight, loss, step, count)
    for k in (0, 1, count - 1):
        with mp.workdps(40):
            turns = [mp.expj(k * mp.mpf(step) * mp.mpf(each)) for each in loss.tolist()]
            right = complex(mp.fdot(weight.tolist(), turns))
        lost_by_phases = 1.2 * k * step * np.abs(weight * loss).sum()
        allowed = ULP * (lost * np.abs(weight).sum() + lost_by_phases)
        assert abs(value[k] - right) < allowed < 1e-6


@pytest.mark.parametrize("tau", [1e-6, 1e-2, 0.5, 8.0, 40.0])
def test_the_weights_of_hats_are_their_integrals(tau):
    """Each is linear in k between the points, and ln k / tau is standard normal."""
    points, weights = inversion.hats(tau)
    x = np.linspace(points[0], 9, 400_001)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    for hat, weight in zip(np.eye(points.size), weights, strict=True):
        height = np.interp(np.exp(tau * x), np.exp(tau * points), hat)
        assert np.trapezoid(height * density, x) == pytest.approx(weight, rel=1e-5)


@pytest.mark.parametrize(
    ("energy", "tau", "tilt", "epsilon"),
    [
        (1.0, 0.01, 4.0, 4.5),
        (1.0, 0.1, 4.5, 0.5),
        (0.01, 0.005, 30.0, 0.35),
        (1e4, 3.0, 0.02, 5e3),
    ],
)
def test_both_ends_of_a_smoothed_sum_enclose_a_gaussian_round(
    energy, tau, tilt, epsilon
):
    """The last one is smoothed so much that what lies below the last point is a share of it that is seen."""
    size = math.sqrt(energy + tau**2)
    period = epsilon + 30 * size
    count = int(9 / size * period / (2 * math.pi)) + 8
    schedule = only(energy)
    where = Plan(tilt, 3 * tilt + 1, period, 1.0)
    found = Inversion(schedule, "add", where, count, tau, 27.0)
    found.prepare_bounds()
    truth = gaussian_delta(math.sqrt(energy), epsilon)
    assert 0.94 * truth < found.lower(epsilon) < truth
    assert truth < found.upper(epsilon) < 1.04 * truth


@pytest.mark.parametrize(("order", "unsure"), [(-2e6, False), (-5e6, True)])
def test_where_the_digits_of_u_move_a_moment_by_four_per_cent_its_shares_are_unknown(
    order, unsure
):
    """By u c^2 2^-49, as the appendix has it: .007 and .044 at sigma = 1."""
    found = rounds.moments_on_line(equal(1e-9, 1.0), order, 1.0, 2, 27.0)
    assert (found.off >= 1).all() == unsure


@pytest.mark.parametrize("order", [1e8, 2196385372.4165516, 1e12, -1e12])
def test_where_the_exponent_of_a_moment_cancels_more_than_it_has_the_moment_is_not_known(
    order,
):
    """At 1e8 ln M is 2e16, and its unit in the last place is four: at some orders no node is left."""
    u, q = 10**0.625, 1e-6
    assert moments.log_moments_above(u, q, order) == math.inf
    assert not moments.complex_moments(np.array([u]), q, order, 1.0, 3)[2][0] < 0.04


def test_a_moment_of_atoms_that_overflows_is_not_known():
    assert math.isfinite(discrete.log_moment_above(coins(), 500.0, True))
    assert discrete.log_moment_above(coins(), 1e13, True) == math.inf


@pytest.mark.parametrize("above", [True, False])
def test_gathered_rounds_leak_more_or_less_each(above):
    u = np.geomspace(0.4, 3.0, 2500)
    many = sampled(0.01, u, 2)
    few = discrete.gathered(many, above, 150)
    assert few.u.size <= 150
    change = np.repeat(few.u, few.number.astype(int)) / np.repeat(u, 2) - 1
    change *= 1 if above else -1
    assert change.min() >= 0
    assert change[-1000:].max() < 0.03  # of large energies


@pytest.mark.parametrize("q", [0.7, 0.99, 1 - 1e-6])
def test_losses_of_cells_at_large_rates_are_right_to_what_they_say(q):
    """Near 1 - q the logarithm magnifies what its argument is off by."""
    with mp.workdps(40):
        pairs = list(cells(discrete, q, 2.0, 6.0, 0.02))
    assert all(error <= bound for error, bound in pairs)


def test_moments_are_left_out_where_others_make_the_product_negligible(monkeypatch):
    """They are computed at the other points; the bounds hold at every one."""
    schedule = sampled([0.2, 0.3], [0.5, 2.0], [40, 2e4])
    sizes, whole = [], rounds.complex_moments
    monkeypatch.setattr(
        rounds, "complex_moments", lambda *args: sizes.append(args[-1]) or whole(*args)
    )
    found = rounds.moments_on_line(schedule, 1.01, 0.04, 8, 27.0)
    assert 1 < sizes[1] < sizes[0] == 8

    def product(z):
        return moment(2.0, 0.3, z) ** 20_000 * moment(0.5, 0.2, z) ** 40

    with mp.workdps(40):
        for k in range(8):
            share = product(mp.mpc(1.01, k * mp.mpf(0.04))) / product(1.01)
            assert abs(complex(share) - found.share[k]) <= found.off[k]
    assert found.off[7] < 1e-24  # relative to themselves, not to the first


def fine_cut(schedule, above, log_lost):
    options = {"width": 0.02, "log_lost": log_lost, "seldom": 1e-300, "most": 200}
    return discrete.discretised(schedule, above, math.inf, **options)


@pytest.mark.parametrize(
    ("above", "least", "largest"), [(True, 1.005, 8.0), (False, -8.0, -1.005)]
)
def test_atoms_are_of_a_round_with_more_or_less_energy_than_its_digits_leave_open(
    monkeypatch, above, least, largest
):
    """Its energy is kept to 48 binary digits, half a unit to either side, and delta rises with it."""
    of = []
    monkeypatch.setattr(discrete, "atoms_of", lambda q, u, *rest: of.append(u))
    schedule = rounds.rounds_of(np.full(3, 0.1), np.array([2.0, 3.0, 1.7]))
    fine_cut(schedule, above, -20.0)
    moved = (np.array(of) / schedule.u - 1) * 2.0**48
    assert ((moved >= least) & (moved <= largest)).all()


@pytest.mark.parametrize("case", PROVEN)
def test_proven_moment_is_above_the_true_one_by_rounding(case):
    """Up to u = 40,000, where the plain moment, good to some units of an exponent of 15,000, may be below."""
    q, sigma, order = case
    u = sigma**-2.0
    with mp.workdps(40):
        truth = exact.log_moment(q, 1 / mp.sqrt(mp.mpf(u)), order)
        above = mp.mpf(float(moments.log_moments_above(u, q, order)))
        assert above >= truth
        assert above - truth < 1e-9 + 400 * ULP * truth
        many = sampled(q, u, 700)
        assert rounds.proven_log_moment(many, order) >= 700 * truth


def test_atoms_whose_masses_floating_point_cannot_hold_are_refused_by_name():
    """Beyond 37 standard deviations masses lose digits, and then are zero: what was proven of them would not hold."""
    held = discrete.atoms_of(0.01, 1.0, True, 0.01, 35.5)
    assert held.mass.min() > np.finfo(float).tiny  # a control
    assert np.isfinite(held.loss).all()
    with pytest.raises(CannotCertify, match="beyond floating point"):
        discrete.atoms_of(0.01, 1.0, True, 0.01, 36.5)


def test_a_narrow_panel_states_what_a_logarithm_off_by_two_units_moves_it_by():
    """At u = 1e-300 two units of ln u are 3e-13 in it; ln M = (q c)^2 u / 2 is 300, and moves by as much of itself."""
    q, u = 0.9, 1e-300 * np.linspace(1, 1.0015, 40)
    c = math.sqrt(600 / u[-1]) / q
    schedule = sampled(q, u, 1)
    stated = rounds.moments_on_line(schedule, c, 1.0, 2, 24.0).error
    assert stated > (2 * ULP * np.abs(np.log(u)) * 0.5 * (q * c) ** 2 * u).sum()
