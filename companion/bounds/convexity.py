r"""How the exact :math:`\delta(\varepsilon)` of a schedule changes with the noise of each round: slopes and curvatures.

With :math:`s = 1/\sigma^2`, :math:`y = 1 - q + q e^L` and :math:`p = q e^L / y`, as in :ref:`app-privacy-theorems`,

.. math::
    \delta(\varepsilon) = \frac{1}{2 \pi i} \int \frac{e^{\sum_t A_z(s_t) - (z - 1) \varepsilon}}{z (z - 1)}\, dz ,
    \qquad A_z(s) = \ln \mathbb E[y^z] ,

on a vertical line, and every derivative in :math:`s_t` goes under the integral.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import barycentric_interpolate
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from adascale.scenario import FloatArray

ComplexArray = NDArray[np.complex128]

_ROOT = math.sqrt(2 * math.pi)
_GAUSS = np.polynomial.legendre.leggauss(24)
_NODES = 32  # noises at which the moments of a long schedule are computed; the others are interpolated
_SMALL = 16.0  # -ln of what the aliases may be, relative to delta


class DeltaSlopes(NamedTuple):
    r"""An exact :math:`\delta(\varepsilon)` and its derivatives in the noise variances :math:`v_t = \sigma_t^2`."""

    delta: float
    """The value itself, in the one direction that was asked for."""
    slope: FloatArray
    r""":math:`\partial\delta/\partial v_t`, shape (T,), negative."""
    curvature: FloatArray
    r""":math:`\partial^2\delta/\partial v_t^2`, shape (T,)."""
    mixed: FloatArray
    r""":math:`\partial^2\delta/\partial v_t\,\partial v_r` for another round r of the same noise as t, shape (T,)."""


def delta_slopes(
    sampling_rate: float, noise_multiplier: ArrayLike, epsilon: float
) -> DeltaSlopes:
    r"""Derivatives of the exact :math:`\delta(\varepsilon)` of mixture against null, uncertified.

    For :math:`q` in (0, 1), :math:`\sigma_t > 0` and :math:`\varepsilon \ge 0`: some five digits, for schedules of tens
    of rounds and more.  The exact accountant has a certified delta.
    """
    q, sigma = sampling_rate, np.asarray(noise_multiplier)
    s, kind_of, count = np.unique(sigma**-2.0, return_inverse=True, return_counts=True)

    at, spread = _few(np.log(s))

    def moments(
        z,
    ):
        """Return the sum of A_z over rounds, and per noise the tilted means of p^2 and the second derivative."""
        top, share, p2, bend = (
            np.array(moment)
            for moment in zip(*(_moments(q, x, z) for x in np.exp(at)), strict=True)
        )
        total = count @ (spread @ top) + count @ np.log(spread @ share)
        return total, spread @ p2, spread @ bend, 0.5 * z * (z - 1)

    def exponent(a):
        total = moments(np.array([1.0 + a + 0j]))[0][0].real
        return float(total) - a * epsilon - math.log(a * (a + 1))

    best = minimize_scalar(
        lambda x: exponent(math.exp(x)),
        bounds=(-4.0, 6.0),
        method="bounded",
        options={"xatol": 0.1},
    )
    a = math.exp(best.x)
    # the sum over the line is that of e^{a m period} delta(epsilon + m period) over all m
    beyond = min(
        (_SMALL + exponent(b * a) - best.fun) / ((b - 1) * a)
        for b in (1.3, 1.6, 2.0, 3.0, 5.0)
    )
    step = 2 * math.pi / max((_SMALL - best.fun) / a, beyond)
    points = 64
    total = np.zeros(1)
    while math.exp(total[-1].real - total[0].real) * points > 1e-8:
        points *= 2
        if points > 1 << 16:
            raise ValueError("the integral over the line does not settle")
        z = 1.0 + a + 1j * step * np.arange(points)
        total, p2, bend, pairs = moments(z)
        total = total - (z - 1) * epsilon
    weight = np.exp(total) * (step / math.pi)
    weight[0] *= 0.5

    def integral(values):
        return float((weight * values).real.sum())

    first, second = (np.array([integral(0.5 * row) for row in of]) for of in (p2, bend))
    mixed = np.array([integral(0.5 * pairs * row * row) for row in p2])
    # s = 1 / v
    slope = -(s**2) * first
    curvature = s**4 * second + 2 * s**3 * first
    mixed = s**4 * mixed
    return DeltaSlopes(
        integral(0.5 / pairs), slope[kind_of], curvature[kind_of], mixed[kind_of]
    )


def _few(x):
    """Chebyshev points, both ends among them, and the matrix that interpolates from there to x; or x itself."""
    if x.size <= _NODES:
        return x, np.eye(x.size)
    at = 0.5 * (x[0] + x[-1]) - 0.5 * (x[-1] - x[0]) * np.cos(
        np.pi * np.arange(_NODES) / (_NODES - 1)
    )
    at[0], at[-1] = x[0], x[-1]
    return at, np.asarray(barycentric_interpolate(at, np.eye(_NODES), x))


def _moments(q, s, z):
    """Of one round: A at the real part c, M(z) / M(c), the tilted mean of p^2, and what is behind A'' + A'^2."""
    root = math.sqrt(s)
    c = float(z[0].real)
    width = 2 * math.pi / (abs(z[-1].imag) * root + 45.0)
    x = np.arange(-9.0, c * root + 9.0, width)
    loss = root * x - s / 2
    y = np.where(
        loss > 0,
        loss + np.log(q + (1 - q) * np.exp(-np.abs(loss))),
        np.log1p(q * np.expm1(np.minimum(loss, 0))),
    )
    p = q * np.exp(loss - y)
    log_mass = c * y - x * x / 2
    top = log_mass.max()
    matters = log_mass > top - 36
    y = y[matters]
    p = p[matters]
    mass = np.exp(log_mass[matters] - top)
    turned = np.exp(1j * np.outer(z.imag, y))
    means = turned @ (np.stack([p**0, p**2, p**3, p**4], axis=1) * mass[:, None])
    total, (p2, p3, p4) = means[:, 0], means[:, 1:].T / means[:, 0]
    pairs = 0.5 * z * (z - 1)
    bend = pairs * p4 + 2 * (z - 1) * (p3 - p4) + (p2 - 2 * p3 + p4)
    size = float(total[0].real)
    return math.log(size * width / _ROOT) + float(top), total / size, p2, bend


def two_round_delta(
    sampling_rate: float,
    noise_multiplier: tuple[float, float],
    epsilon: float,
    removed: bool = False,
) -> float:
    r"""Return the exact :math:`\delta(\varepsilon)` of two rounds: one integral over closed forms, no inversion.

    Given the other round, :math:`(y_1 y_2 - K)_+ = q\,y_2\,(e^{L_1} - k)_+` with :math:`k = (K/y_2 - 1 + q)/q`: a call
    on a log-normal variable, whose price is known.  With ``removed`` null against mixture, by default mixture against
    null: there some twelve digits, in the other direction :math:`e^\varepsilon` times the rounding of 1.
    """
    q = sampling_rate
    strike = math.exp(-epsilon if removed else epsilon)
    s1, s2 = (float(sigma) ** -2 for sigma in noise_multiplier)
    root = math.sqrt(s2)
    if strike <= (1 - q) ** 2:  # y_1 y_2 is never less
        if removed:
            return 0.0
        call = 1 - strike
    else:

        def place(y):
            return (np.log((y - 1 + q) / q) + s2 / 2) / root

        end = float(place(strike / (1 - q)))  # beyond it every e^{L_1} counts
        other = strike / (1 - q + q * np.exp(np.linspace(-30, 60, 181)))
        other = other[other > 1 - q]
        edges = np.r_[place(other), end, np.arange(-10, 10 + root, 0.5)]
        edges = np.unique(edges[(edges >= -10) & (edges <= end)])
        half = np.diff(edges)[:, None] / 2
        x = edges[:-1, None] + half * (1 + _GAUSS[0])
        y = 1 - q + q * np.exp(root * x - s2 / 2)
        k = np.maximum((strike / y - 1 + q) / q, 1e-300)
        d = (s1 / 2 - np.log(k)) / math.sqrt(s1)
        price = ndtr(d) - k * ndtr(d - math.sqrt(s1))
        inner = (half * _GAUSS[1] * np.exp(-x * x / 2) / _ROOT * q * y * price).sum()
        call = inner + (1 - q - strike) * ndtr(-end) + q * ndtr(root - end)
    return float(math.exp(epsilon) * (call - 1 + strike) if removed else call)
