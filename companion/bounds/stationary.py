r"""What holds in the long run under independent Rayleigh fading (:ref:`chap-guarantees`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from adascale import checks as check
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage

FloatArray = NDArray[np.float64]


def stationary_level(scale: ArrayLike, budget: ArrayLike) -> FloatArray:
    r"""The water level of the long run under Rayleigh fading: it needs path losses and no future.

    .. math:: \mathbb E\big[\max(\ell_\infty - w_{\min}, 0)\big]
        = \ell_\infty\, E_2(\omega/\ell_\infty) = \nu

    with the exponential integrals :math:`E_n(r) = \int_1^\infty u^{-n} e^{-ru}\,du`.

    Parameters
    ----------
    scale : array_like
        :math:`\omega > 0`, the scale of the floors (:eq:`eq:floor-law`).
    budget : array_like
        :math:`\nu > 0`; the two broadcast.

    Returns
    -------
    numpy.ndarray
        :math:`\ell_\infty` (:eq:`eq:stationary-level`), which lies above :math:`\nu`.
    """
    return RayleighFloors(scale).level(budget)


def stationary_square(scale: ArrayLike, level: ArrayLike) -> FloatArray:
    r"""The mean square of what a constant level spends under Rayleigh fading (:eq:`eq:stationary-level`).

    .. math:: \mathbb E\big[\max(\ell - w_{\min}, 0)^2\big] = 2\ell^2 \big(E_2(\omega/\ell) - E_3(\omega/\ell)\big)

    Parameters
    ----------
    scale, level : array_like
        :math:`\omega > 0` and :math:`\ell > 0`; they broadcast.

    Returns
    -------
    numpy.ndarray
        In the unit of :math:`\nu^2`.
    """
    scale, level = check.positive("scale", scale), check.positive("level", level)
    check.broadcast(scale=scale.shape, level=level.shape)
    with np.errstate(over="ignore"):
        ratio = scale / level
        square: FloatArray = 2 * level**2 * (special.expn(2, ratio) - special.expn(3, ratio))
    check.finite("the square for such scales and levels", square)
    return square


def stationary_spread(scale: ArrayLike, budget: ArrayLike) -> FloatArray:
    r"""What a round of AdaScale loses to chance, times 2V: :math:`\mathbb E(y^\circ - \nu)_+^2 + \nu^2`.

    Since :math:`(y^\circ - \nu)_+ = (\ell_\infty - \nu - w_{\min})_+`, this is :func:`stationary_square` of the level
    less the budget, plus :math:`\nu^2`.  At most :math:`\nu\,\ell_\infty`.

    Parameters and errors as in :func:`~companion.bounds.stationary_level`.

    Returns
    -------
    numpy.ndarray
        In the unit of :math:`\nu^2`.
    """
    level = stationary_level(scale, budget)
    budget = np.asarray(budget, dtype=float)
    above = np.maximum(level - budget, np.finfo(float).tiny)  # floors far below the budget: hardly above it
    with np.errstate(over="ignore"):
        spread: FloatArray = stationary_square(scale, above) + budget**2
    check.finite("this bound for such scales and budgets", spread)
    return spread


def stationary_regret_bound(scale: ArrayLike, budget: ArrayLike, penalty: ArrayLike) -> FloatArray:
    r"""Expected regret under Rayleigh fading, the right side only (:prf:ref:`thm-regret-iid`).

    .. math::
        \mathbb E\Big[\frac1T \sum_{t=0}^{T-1} \big(F(w_t) - F(w_t^\star)\big)\Big]
        \;\le\; \frac{\mathbb E[(y^\circ - \nu)_+^2] + \nu^2}{2V}, \qquad y^\circ = \max(\ell_\infty - w_{\min}, 0)

    It holds for every T: the floors must be independent across rounds and identically distributed, and V chosen
    without them.

    Parameters
    ----------
    scale, budget, penalty : array_like
        :math:`\omega`, :math:`\nu` and V, all positive; they broadcast.

    Returns
    -------
    numpy.ndarray
        Nats, summed over devices.
    """
    penalty, spread = check.positive("penalty", penalty), stationary_spread(scale, budget)
    check.broadcast(penalty=penalty.shape, scale_and_budget=spread.shape)
    with np.errstate(over="ignore"):
        bound: FloatArray = spread / (2 * penalty)
    check.finite("this bound for such scales, budgets and penalties", bound)
    return bound


def stationary_queue_bound(leakage: RoundLeakage, scale: float, budget: float, penalty: ArrayLike) -> FloatArray:
    r"""The expected queue of AdaScale under Rayleigh fading, after any number of rounds (:prf:ref:`thm-queue-iid`).

    .. math::
        \mathbb E[Q_R] \;\le\; \frac{V \int_l^{\ell_\infty} |F'(x)|\, e^{-\omega/x}\, dx
        + \frac12 \mathbb E[(l - \nu - w_{\min})_+^2] + \frac12 \nu^2}{\int_l^{\ell_\infty} e^{-\omega/x}\, dx}

    for every level :math:`0 < l < \ell_\infty`: the constant level l spends less than :math:`\nu` on average, by the
    denominator.  The least of 512 levels is taken; each is a bound.

    Parameters
    ----------
    leakage : RoundLeakage
    scale, budget : float
        :math:`\omega > 0` and :math:`\nu > 0`.
    penalty : array_like
        V > 0, any shape, chosen without the floors.

    Returns
    -------
    numpy.ndarray
        Of the shape of ``penalty``, in the unit of :math:`\nu`.
    """
    penalty, top = check.positive("penalty", penalty), float(stationary_level(scale, budget))
    edges = top * (1 - np.geomspace(1e-6, 1 - 1e-3, 513))  # downwards from the level
    node, weight = np.polynomial.legendre.leggauss(8)
    upper, lower = np.concatenate([[top], edges[:-1]]), edges
    x = (upper + lower)[:, None] / 2 + (upper - lower)[:, None] / 2 * node
    share = np.exp(-scale / x) * weight * (upper - lower)[:, None] / 2
    saved = np.cumsum(share.sum(axis=-1))
    leaked = np.cumsum((-leakage.slope(x) * share).sum(axis=-1))
    above = np.maximum(lower - budget, np.finfo(float).tiny)
    square = stationary_square(scale, above) + budget**2
    some = saved > np.finfo(float).tiny
    bounds = (penalty[..., None] * leaked[some] + square[some] / 2) / saved[some]
    least: FloatArray = np.min(bounds, axis=-1)
    return least
