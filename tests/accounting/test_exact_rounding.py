"""What the certificate of the exact accountant says of its own rounding, against multi-precision; and its atoms."""

import math

import mpmath as mp
import numpy as np
import pytest

from adascale.accounting.exact import discretize as atoms
from adascale.accounting.exact import inversion, moments, rounds
from adascale.accounting.exact.inversion import Inversion, Plan
from adascale.errors import CannotCertify

from . import exact
from .test_exact import gaussian_delta, one_round

ULP = 2.0**-52


@pytest.mark.parametrize(
    ("q", "sigma", "order"),
    [(0.01, 1.0, 4.0), (1e-4, 0.5, 12.0), (0.3, 0.02, 3.0), (0.9, 0.005, 1.5), (1e-6, 50.0, 300.0)],
)
def test_the_proven_moment_is_above_the_true_one_by_no_more_than_rounding(q, sigma, order):
    """Up to u = 40,000, where the plain moment, good to some units of an exponent of 15,000, may be below."""
    u = sigma**-2.0
    with mp.workdps(40):
        truth = exact.log_moment(q, 1 / mp.sqrt(mp.mpf(u)), order)
        above = mp.mpf(moments.log_moment_above(u, q, order))
        assert above >= truth
        assert above - truth < 1e-9 + 400 * ULP * truth
        many = rounds.Rounds((q,), (np.array([u]),), (np.array([700.0]),), 0.0, 700)
        assert rounds.proven_log_moment(many, order) >= 700 * truth


def of_gaussian(energy, tilt, beyond, period, count):
    found = Inversion(rounds.Rounds((), (), (), energy, 1), "add", Plan(tilt, beyond, period, 1.0), count, 0.0, 27.0)
    found.prove()
    return found


@pytest.mark.parametrize("off_saddle", [0.4, 1.0, 2.0])
@pytest.mark.parametrize("mu", [0.01, 1.0, 30.0, 1000.0])
def test_a_gaussian_round_alone_lies_between_the_bounds_wherever_the_line_runs(mu, off_saddle):
    """Phases of up to a million radians at the largest mu: what they lose is in the bound, and only just."""
    epsilon = 0.5 * mu * mu + 2 * mu
    tilt = off_saddle * (epsilon / mu**2 - 0.5)
    found = of_gaussian(
        mu * mu, tilt, 3 * tilt + 1 / mu, epsilon + 20 * mu, int(10 / mu * (epsilon + 20 * mu) / 6.28) + 8
    )
    low, high = (float(each) for each in found.bounds(epsilon))
    truth = gaussian_delta(mu, epsilon)
    assert low <= truth <= high
    size = math.exp(found.log_moment - tilt * epsilon)
    aliases = math.exp(epsilon - (tilt + 1) * (epsilon + 20 * mu))
    assert high - low < 2e-9 * size + 2 * aliases + math.exp(-tilt * (epsilon + 20 * mu))


def test_without_the_phase_of_gaussian_rounds_the_bound_would_be_broken():
    """Negative control: energy that is off by a few units moves a term by more than what is left of the bound."""
    true, wrong = (of_gaussian(1e6 * factor, 2.0, 7.0, 6e5, 1000) for factor in (1.0, 1 + 64 * ULP))
    moved = np.abs(true.terms - wrong.terms) / true.weights
    claimed = ULP * 4 * 1e6 * true.xi * (2.5 + true.xi) + 0.5 * (2.0**-48 + 4 * ULP) * 1e6 * np.abs(
        (2 + 1j * true.xi) * (3 + 1j * true.xi)
    )
    assert (moved[1:] > 0).all()
    assert (moved < 64 * claimed + 1e-12).all()
    assert moved.max() > 100 * ULP


@pytest.mark.parametrize(("tilt", "period"), [(1e-7, 5.0), (1e-3, 30.0), (0.5, 3.0), (20.0, 1.7)])
@pytest.mark.parametrize("epsilon", [0.0, 1.3, 9.0])
def test_the_aliases_to_the_left_are_right_to_what_is_allowed_for_cancellation(tilt, period, epsilon):
    found = of_gaussian(1.0, tilt, 3 * tilt + 1, period, 16)
    low, high = found.aliases_left(np.array(epsilon))
    with mp.workdps(40):
        a, length, eps = mp.mpf(tilt), 2 * mp.pi / mp.mpf(found.step), mp.mpf(epsilon)
        m = max(math.ceil(epsilon / period), 1)
        ones = mp.exp(-a * m * length) / (1 - mp.exp(-a * length))
        less = mp.exp(eps - (a + 1) * m * length) / (1 - mp.exp(-(a + 1) * length))
        allowed = 8 * ULP * high * (4 + (tilt + 1) * (period + epsilon))
        assert abs(mp.mpf(float(low)) - (ones - less)) <= allowed
        assert abs(mp.mpf(high) - 1 / (mp.exp(a * length) - 1)) <= allowed


@pytest.mark.parametrize("above", [True, False])
def test_moments_of_atoms_are_as_near_to_forty_digits_as_they_say(above):
    atom = atoms.atoms_of(1e-3, 0.7, above, 0.2, 6.0)
    values, scale, error, drift = atoms.line_of_atoms(*atom[:4], 40.0, 3.0, 6)
    with mp.workdps(40):
        for k in (0, 1, 5):
            terms = [
                mp.exp(mp.mpf(m) + mp.mpc(40, 3 * k) * mp.mpf(y)) for y, m in zip(atom.loss, atom.log_mass, strict=True)
            ]
            whole = mp.fsum(mp.fabs(term) for term in terms)
            got = mp.mpc(complex(values[k])) * mp.exp(mp.mpf(scale))
            assert abs(got - mp.fsum(terms)) / whole < error + k * drift < 1e-11


@pytest.mark.parametrize(("q", "sigma"), [(1e-6, 0.5), (1e-3, 3.0), (0.2, 1.0), (0.4, 40.0)])
def test_delta_of_atoms_is_on_its_side_of_the_round_and_near(q, sigma):
    """Both directions, from the masses themselves, without an inversion."""
    below, above = (atoms.atoms_of(q, sigma**-2.0, side, 0.02, 9.0) for side in (False, True))
    for scale in (0.3, 1.0, 4.0):
        epsilon = math.log1p(q * math.expm1(scale / sigma))
        for direction in ("add", "remove"):
            truth = float(one_round(q, sigma, epsilon, direction))
            low, high = (delta_of(each, epsilon, direction) for each in (below, above))
            assert low * (1 - 1e-12) <= truth <= (high + above.lost) * (1 + 1e-12)
            assert high - low <= 0.01 * high + 1e-18


def delta_of(atom, epsilon, direction):
    add = np.expm1(atom.loss) - math.expm1(epsilon)
    return math.fsum(
        np.exp(atom.log_mass) * np.maximum(add if direction == "add" else -np.expm1(epsilon + atom.loss), 0)
    )


def test_what_atoms_lose_is_what_was_asked_for():
    schedule = rounds.rounds_of(np.full(50, 1e-4), np.full(50, 2.0))
    cut = rounds.cut(schedule, True, 0.02, math.log(1e-13))
    assert 1e-14 < cut.lost <= 1.001e-13
    assert rounds.cut(schedule, False, 0.02, math.log(1e-13)).lost == 0
    assert inversion.look(cut, "add", math.log(1e-8)).top > 0


def test_atoms_whose_masses_floating_point_cannot_hold_are_refused_by_name():
    """Beyond 37 standard deviations masses lose digits, and then are zero: what was proven of them would not hold."""
    held = atoms.atoms_of(0.01, 1.0, True, 0.01, 35.5)
    assert held.log_mass.min() > np.log(np.finfo(float).tiny)  # a control
    assert np.isfinite(held.loss).all()
    with pytest.raises(CannotCertify, match="beyond floating point"):
        atoms.atoms_of(0.01, 1.0, True, 0.01, 36.5)
