"""Every error bound of the sum without its 1 holds and, where it is no rounding, would fail if it were halved."""

import mpmath as mp
import numpy as np
import pytest

from adascale.accounting.exact import discrete
from adascale.accounting.exact.rounds import Atoms
from adascale.errors import CannotCertify

from .coins import RISING, infinite, only


def largest_and_stated(atom, tilt, add):
    """The error of one atom at the worse end of all that it is off by, and its bound."""
    z = 1 + tilt if add else -tilt
    value, stated = discrete.moment_less_one(atom, discrete.segments(tilt, add, 1.0, 1))
    moved = []
    with mp.workdps(40):
        for way in (-1, 1):
            y = mp.mpf(atom.loss[0]) + way * atom.loss_off[0]
            p = mp.mpf(atom.mass[0]) * (1 + way * atom.mass_off[0])
            lost = mp.mpf(atom.infinite[0]) + way * atom.infinite_off[0]
            moment = p * (mp.expm1(z * y) - z * mp.expm1(y)) - z * lost
            moved.append(abs(moment - value[0].real))
    return float(max(moved)), stated[0]


@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize(
    ("loss", "tilt"),
    [(0.9, 0.05), (-0.9, 0.05), (1e-3, 900.0), (1.5, 8.0), (-1.5, 8.0)],
)
@pytest.mark.parametrize("what", ["loss_off", "mass_off", "infinite_off"])
def test_what_losses_and_masses_are_off_by_is_covered_and_not_twice_over(
    what, loss, tilt, add
):
    """One atom, near or far; of the signs of its error and of the loss, the worse one counts."""
    zero = np.zeros(1)
    atom = Atoms(np.array([loss]), np.array([0.3]), zero, zero, *infinite(0.01))
    off = infinite(0.0, 1e-7)[1] if what == "infinite_off" else np.array([1e-7])
    moved, stated = largest_and_stated(atom._replace(**{what: off}), tilt, add)
    assert moved < stated
    z = 1 + tilt if add else -tilt
    # where the growing part is nearly all, nothing cancels
    if z * loss > 4 or what == "infinite_off":
        assert stated < 2 * moved


@pytest.mark.parametrize("tilt", [0.3, 30.0])
@pytest.mark.parametrize("number", [1.0, 1000.0])
def test_an_error_of_a_moment_is_carried_to_the_product(number, tilt):
    """In front of G(a) - 1 near 0 and of G(a) beyond e, at real orders; covered, and not twice over."""
    atom = Atoms(*np.array([[1e-3], [0.3], [0.0], [1e-6]]), *infinite(0.0))
    schedule = only(0.0, (atom, number))
    found = discrete.line_of_atoms(schedule, tilt, True, 1.0, 1)
    with mp.workdps(40):
        z, y = 1 + mp.mpf(tilt), mp.mpf(1e-3)
        one = 0.3 * (mp.expm1(z * y) - z * mp.expm1(y))
        right, moved = (
            mp.expm1(number * mp.log1p(one * (1 + way))) / mp.exp(found.log_moment)
            for way in (0, mp.mpf(1e-6))
        )
        assert abs(right - found.share[0].real) < found.off[0]
        assert moved - right < found.off[0] < 2.2 * (moved - right)


def test_a_point_at_which_a_moment_is_unsure_is_bounded_by_its_modulus():
    """Losses off by a per cent of a turn or more: the product is no larger than what is left of every factor."""
    off = np.full(2, 1e-3)
    atoms = Atoms(np.log(RISING), np.array([0.75, 0.25]), off, off, *infinite(0.0))
    once, often = (only(0.0, (atoms, n)) for n in (1.0, 40.0))
    found = discrete.line_of_atoms(once, 0.5, True, 1.0, 10)
    assert (
        found.off <= np.abs(found.share) + discrete.largest_share(found.log_moment)
    ).all()
    with pytest.raises(CannotCertify):
        discrete.line_of_atoms(often, 5.0, True, 1.0, 10)
