"""Events with a discrete privacy loss."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting.exact.moments import ULP
from adascale.accounting.exact.rounds import Atoms
from adascale.errors import InvalidInput

_LARGEST = 600.0  # largest privacy loss, so that e^loss times a mass that is not negligible is a float
_LEAST = 1e-280  # masses under Q below this count as 0
_MOST_OFF = 1e-9  # largest relative error of the sums of the masses
_MOST_UNBALANCED = 0.25  # up to here no mass is off by more than 4/3 of |balance - 1| + |scale - 1|; twice is taken


@dataclass(frozen=True, eq=False)
class DiscreteLoss:
    """A mechanism with a discrete privacy loss, made by :func:`from_pmf`; it is an event."""

    atoms: Atoms


def from_pmf(loss: ArrayLike, mass: ArrayLike) -> DiscreteLoss:
    r"""Make an event from the distribution of the privacy loss :math:`\ln(P / Q)` under P.

    P and Q are the outputs with and without the sample. The event stands for both directions, P against Q and Q
    against P, and goes among other events alone or as ``(event, count)``.

    Parameters
    ----------
    loss : array_like, shape (N,), within -600 ... 600, or inf or -inf
        An infinite loss is an output that is impossible without the sample, or with it (-inf).
    mass : array_like, shape (N,), >= 0; at a loss of -inf the mass under Q
        The masses under P, which sum to 1, as do the masses ``mass * exp(-loss)`` under Q.  They must be right to
        rounding, as an error in a single mass is not seen in the sums.  Only a factor that all losses > 0 have in
        common, or all losses < 0, is corrected.  Masses under Q below 1e-280 count as 0, so that bounds on delta below
        1e-250 are not certified.

    Examples
    --------
    Randomised response with a probability of 0.75, a hundred times:

    >>> response = from_pmf([math.log(3), -math.log(3)], [0.75, 0.25])
    >>> float(epsilon([(response, 100)], delta=1e-5))
    90.7...
    """
    y = check.as_floats("loss", loss)
    p = check.at_least("mass", mass, 0.0)
    if y.ndim != 1 or y.shape != p.shape:
        raise InvalidInput(
            f"loss and mass must be of one shape (N,), got {y.shape} and {p.shape}",
            "loss",
        )
    if (bad := ~((np.abs(y) <= _LARGEST) | np.isinf(y))).any():
        raise InvalidInput(
            f"loss must be within -600 ... 600 or infinite, got {y[bad][0]:g}", "loss"
        )
    q_only = math.fsum(p[y == -math.inf])
    y, p = y[y > -math.inf], p[y > -math.inf]
    order = np.argsort(y, kind="stable")
    y = y[order]
    p = p[order]
    q = p * np.exp(-y)
    has_mass = q >= _LEAST
    p_only = math.fsum(p[~has_mass])
    y = y[has_mass]
    q = q[has_mass]
    if not y.size:
        raise InvalidInput("loss must have a finite entry with mass", "loss")
    # of P - Q: what is gained where P is larger, and what is lost where Q is; p_only and q_only are the masses of
    # outputs that are impossible under the other one
    change = q * np.expm1(y)
    gain = math.fsum(change[y > 0]) + p_only
    decline = -math.fsum(change[y < 0])
    decline += q_only
    of_p = math.fsum(p)
    of_q = math.fsum(q) + q_only
    if not max(abs(of_q - 1), abs(gain - decline), abs(of_p - 1)) <= _MOST_OFF:
        sums = f"{of_p:.12g} and {of_q:.12g}"
        raise InvalidInput(
            f"mass and mass * exp(-loss) must each sum to 1, got {sums}", "mass"
        )
    # P and Q must both sum to 1: the first factor balances P and Q, the second one scales both
    balance = gain / decline if decline > 0 else math.inf if gain > 0 else 1.0
    if not abs(balance - 1) <= _MOST_UNBALANCED:
        sums = f"{gain:.3g} for losses > 0 and {-decline:.3g} for losses < 0"
        raise InvalidInput(f"mass * (1 - exp(-loss)) must sum to 0, got {sums}", "mass")
    q = np.where(y < 0, balance * q, q)
    q_only *= balance
    scale = math.fsum(q) + q_only
    off = abs(balance - 1) + abs(scale - 1)
    loss_error = 2 * ULP * np.abs(y)
    mass_error = ULP * (16 + 2 * np.abs(y)) + 2 * off
    infinite = np.array([p_only, q_only]) / scale
    infinite_error = infinite * (16 * ULP + 2 * off)
    atoms = Atoms(y, q / scale, loss_error, mass_error, infinite, infinite_error)
    return DiscreteLoss(atoms)
