"""Mechanisms whose privacy loss has finitely many values."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting.exact.moments import ULP
from adascale.accounting.exact.rounds import Atoms
from adascale.errors import InvalidInput

_LARGEST = 600.0  # largest privacy loss, so that e^loss times a mass that is not negligible is a float
_LEAST = 1e-280  # masses under Q below this are taken for 0
_MOST_OFF = 1e-9  # largest relative error of the sums of the masses


@dataclass(frozen=True, eq=False)
class DiscreteLoss:
    """A mechanism with a discrete privacy loss, made by :func:`from_pmf`; it is an event.

    Parameters
    ----------
    atoms : Atoms
    """

    atoms: Atoms


def from_pmf(loss: ArrayLike, mass: ArrayLike) -> DiscreteLoss:
    r"""Make an event from the distribution of the privacy loss :math:`\ln(P / Q)` under P.

    P and Q are the outputs with and without the sample. The event stands for both directions, P against Q and Q
    against P, and goes among other events alone or as ``(event, count)``.

    Parameters
    ----------
    loss : array_like, shape (N,), within -600 ... 600
    mass : array_like, shape (N,), >= 0
        The masses under P, which sum to 1, as do the masses ``mass * exp(-loss)`` under Q.

    Examples
    --------
    Randomised response with a probability of 0.75, a hundred times:

    >>> response = from_pmf([math.log(3), -math.log(3)], [0.75, 0.25])
    >>> float(epsilon([(response, 100)], delta=1e-5))
    90.7...
    """
    y, p = check.as_floats("loss", loss), check.at_least("mass", mass, 0.0)
    if y.ndim != 1 or y.shape != p.shape:
        raise InvalidInput(f"loss and mass must be of one shape (N,), got {y.shape} and {p.shape}", "loss")
    if (bad := ~(np.abs(y) <= _LARGEST)).any():
        raise InvalidInput(f"loss must be within -600 ... 600, got {y[bad][0]:g}", "loss")
    order = np.argsort(y, kind="stable")
    y, p = y[order], p[order]
    q = p * np.exp(-y)
    kept = q >= _LEAST
    lost = math.fsum(p[~kept])
    y, q = y[kept], q[kept]
    # of P - Q: what is gained where P is larger, and what is lost where Q is
    change = q * np.expm1(y)
    more, less = math.fsum(change[y > 0]) + lost, -math.fsum(change[y < 0])
    total = math.fsum(q)
    if not max(abs(total - 1), abs(more - less), abs(math.fsum(p) - 1)) <= _MOST_OFF:
        sums = f"{math.fsum(p):.12g} and {total:.12g}"
        raise InvalidInput(f"mass and mass * exp(-loss) must each sum to 1, got {sums}", "mass")
    # both sums are made 1: the first factor balances P and Q, the second one scales both
    balance = more / less if less > 0 else 1.0
    q = np.where(y < 0, balance * q, q)
    scale = math.fsum(q)
    off = abs(balance - 1) + abs(scale - 1)
    loss_off, mass_off = 2 * ULP * np.abs(y), ULP * (16 + 2 * np.abs(y)) + 2 * off
    return DiscreteLoss(Atoms(y, q / scale, loss_off, mass_off, lost / scale, lost * (8 * ULP + off)))
