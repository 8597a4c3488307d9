"""Discrete rounds that bound a sampled Gaussian round from either side, for rare samples (:ref:`app-exact`)."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from adascale.accounting.exact.moments import MOST_WORK, ULP, ComplexArray, powers
from adascale.accounting.kernels import FloatArray
from adascale.errors import CannotCertify

_START = -9.5  # the null has a mass of 1e-21 below this
_WIDEST = 0.03  # largest width of a cell, in standard deviations
_FARTHEST = 37.0  # up to here the mass of a cell of the null keeps all its digits
_RULE = np.polynomial.legendre.leggauss(12)


class Atoms(NamedTuple):
    """A round whose loss has finitely many values."""

    loss: FloatArray  # y, the logarithms of the likelihood ratio, ascending
    log_mass: FloatArray  # logarithms of the masses under the null
    loss_off: FloatArray  # bounds on the error of each loss
    mass_off: FloatArray  # bounds on the relative error of each mass
    lost: float  # the mass under the mixture that lies on no atom


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
    tail = float(ndtr(root - x[-1]))  # mass of the sampled part beyond the last cell
    if above:
        share = np.expm1(root * half * (1 + _RULE[0])) / np.expm1(2 * root * half)
        mass = np.zeros(size + 1)
        mass[1:-1] += (density * (1 - share)).sum(axis=1)
        mass[2:] += (density * share).sum(axis=1)
        # below the first cell lies less than 1e-20; placing all of it at either end overestimates it
        mass[0], mass[1], mass[-1] = left, mass[1] + left, mass[-1] + right
        ratio = q * np.expm1(root * x - 0.5 * u)
        loss = np.concatenate([[math.log1p(-q)], np.log1p(ratio)])
        at = np.concatenate([x[:1], x])
    else:
        mass = np.concatenate([[left], density.sum(axis=1), [right]])
        mean = (density * np.expm1(root * inner - 0.5 * u)).sum(axis=1) / mass[1:-1]
        ends = [float(log_ndtr(x[0] - root) - log_ndtr(x[0])), float(log_ndtr(root - x[-1]) - log_ndtr(-x[-1]))]
        ratio = q * np.concatenate([[math.expm1(ends[0])], mean, [math.expm1(ends[1])]])
        loss, at = np.log1p(ratio), np.concatenate([x, x[-1:]])
    share_of = q * np.exp(np.minimum(root * at - 0.5 * u, 700.0)) * np.exp(-loss)
    off = 32 * ULP * (np.abs(loss) + share_of * (4 + 4 * root * np.abs(at) + u + at * at))
    mass_off = ULP * (24 + 2 * at * at)
    return Atoms(loss, np.log(mass), off, mass_off, q * tail * (1 + 1e-10) if above else 0.0)


def log_moment_of_atoms(loss: FloatArray, log_mass: FloatArray, c: float) -> float:
    """Compute ln M(c) of one round of atoms."""
    exponent = log_mass + c * loss
    peak = exponent.max()
    return float(peak + math.log(np.exp(exponent - peak).sum()))


def line_of_atoms(
    loss: FloatArray, log_mass: FloatArray, loss_off: FloatArray, mass_off: FloatArray, c: float, h: float, count: int
) -> tuple[ComplexArray, float, float, float]:
    """Compute :func:`~adascale.accounting.exact.moments.line` of one round of atoms."""
    out = np.zeros(count, dtype=np.complex128)
    if not loss.size * count < MOST_WORK:
        return out, 0.0, math.inf, 0.0
    exponent = log_mass + c * loss
    peak = exponent.max()
    real = np.exp(exponent - peak)
    rounding = real * (mass_off + abs(c) * loss_off + 4 * ULP * (np.abs(c * loss) + np.abs(log_mass) + abs(peak)))
    phase = real * h * (loss_off + 4 * ULP * np.abs(loss))
    out = powers(real, h * loss, count)
    off = rounding.sum() / out[0].real + ULP * (1.5 * loss.size + 16.0)
    return out, peak, off, phase.sum() / out[0].real + 6 * ULP
