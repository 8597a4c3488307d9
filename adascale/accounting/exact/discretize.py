"""Discrete rounds that bound a sampled Gaussian round from either side, for rare samples (:ref:`app-exact`)."""

import math

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from adascale.accounting.exact.moments import ULP
from adascale.accounting.exact.rounds import MOVED, Atoms, Rounds
from adascale.errors import CannotCertify

_START = -9.5  # the null has a mass of 1e-21 below this
_WIDEST = 0.03  # largest width of a cell, in standard deviations
_FARTHEST = 37.0  # up to here the mass of a cell of the null keeps all its digits
_RULE = np.polynomial.legendre.leggauss(12)


def cut(rounds: Rounds, above: bool, width: float, log_lost: float) -> Rounds:
    """Discretise: if ``above``, delta plus ``lost`` (at most e^log_lost) does not fall; else delta does not rise."""
    expected = sum(q * float(n.sum()) for q, n in zip(rounds.rates, rounds.counts, strict=True))
    end = max(-float(ndtri_exp(min(log_lost - math.log(expected), -0.7))), 0.0)
    factor = 1 + (1 if above else -1) * 4 * MOVED  # u was rounded, and delta increases with it
    atoms = tuple((atoms_of(q, factor * u, above, width, end), n) for q, u, n in rounds.kinds)
    return rounds._replace(rates=(), energies=(), counts=(), atoms=rounds.atoms + atoms)


def atoms_of(q: float, u: float, above: bool, width: float, end: float) -> Atoms:
    """Cut L into cells: if ``above``, spread each to its ends (raising delta), else put it at its mean (lowering)."""
    root = math.sqrt(u)
    if end + root > _FARTHEST:
        raise CannotCertify("sampling is rare, and the masses that matter are beyond floating point")
    size = math.ceil((end + root - _START) / min(width / root, _WIDEST)) + 1
    x = np.linspace(_START, end + root, size)
    half = 0.5 * np.diff(x)[:, None]
    inner = x[:-1, None] + half * (1 + _RULE[0])
    density = half * _RULE[1] * np.exp(-0.5 * inner * inner) / math.sqrt(2 * math.pi)
    left, right = float(ndtr(x[0])), float(ndtr(-x[-1]))
    # the mean of e^L below the first cell and beyond the last one, as a logarithm
    low, high = (float(log_ndtr(sign * (x[i] - root)) - log_ndtr(sign * x[i])) for i, sign in ((0, 1), (-1, -1)))
    lost, lost_off, cancelled = 0.0, 0.0, np.zeros(2)
    if above:
        share = np.expm1(root * half * (1 + _RULE[0])) / np.expm1(2 * root * half)
        mass = np.zeros(size + 1)
        mass[1:-1] += (density * (1 - share)).sum(axis=1)
        mass[2:] += (density * share).sum(axis=1)
        first = low - root * x[0] + 0.5 * u  # ln of the share of the first cell's upper end
        mass[0], mass[1], mass[-1] = -left * math.expm1(first), mass[1] + left * math.exp(first), mass[-1] + right
        ratio = q * np.concatenate([[-1.0], np.expm1(root * x - 0.5 * u)])
        at = np.concatenate([x[:1], x])
        tail, top = q * float(ndtr(root - x[-1])), root * x[-1] - 0.5 * u
        if not mass[:2].min() > 0:
            raise CannotCertify("a round has so much noise that the mass of its first cell is lost in rounding")
        cancelled = 400 * ULP * left / mass[:2]
        lost, lost_off = -tail * math.expm1(top - high), tail * ULP * (64 + 4 * x[-1] ** 2 + 4 * abs(top))
    else:
        mass = np.concatenate([[left], density.sum(axis=1), [right]])
        mean = (density * np.expm1(root * inner - 0.5 * u)).sum(axis=1) / mass[1:-1]
        ratio = q * np.concatenate([[math.expm1(low)], mean, [math.expm1(high)]])
        at = np.concatenate([x, x[-1:]])
    loss = np.log1p(ratio)
    share_of = q * np.exp(np.minimum(root * at - 0.5 * u, 700.0)) * np.exp(-loss)
    off = 32 * ULP * (np.abs(loss) + share_of * (4 + 4 * root * np.abs(at) + u + at * at))
    mass_off = ULP * (24 + 2 * at * at)
    mass_off[:2] += cancelled
    return Atoms(loss, mass, off, mass_off, lost, lost_off)
