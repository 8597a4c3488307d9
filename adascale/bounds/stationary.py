r"""What holds in the long run under independent Rayleigh fading (:ref:`chap-guarantees`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.optimize import elementwise

from adascale import checks as check

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

    Raises
    ------
    ValueError
        If a scale or budget is not finite and positive, or their shapes do not broadcast.
    """
    scale, budget = check.positive("scale", scale), check.positive("budget", budget)
    check.broadcast(scale=scale.shape, budget=budget.shape)
    # E max(l - w, 0) >= (l - m) / 2 at the median m of the floors, so the level is below 2 nu + m
    high = np.log(2 * budget + scale / np.log(2)) + 1e-9
    found = elementwise.find_root(
        lambda x, scale, budget: np.exp(x) * special.expn(2, scale / np.exp(x)) / budget - 1,
        (np.log(budget) - 1e-9, high),
        args=(scale, budget),
    )
    if not np.all(found.success):
        raise RuntimeError(f"no level found for scale {scale.tolist()} and budget {budget.tolist()}")
    level: FloatArray = np.exp(found.x)
    return level


def stationary_regret_bound(scale: ArrayLike, budget: ArrayLike, penalty: ArrayLike) -> FloatArray:
    r"""Expected regret under Rayleigh fading, the right side only (:prf:ref:`thm-regret-iid`).

    .. math::
        \mathbb E\Big[\frac1T \sum_{t=0}^{T-1} \big(F(w_t) - F(w_t^\star)\big)\Big]
        \;\le\; \frac{\mathbb E[{y^\circ}^2] + \nu^2}{2V}, \qquad y^\circ = \max(\ell_\infty - w_{\min}, 0)

    It holds for every T: the floors must be independent across rounds and identically distributed.

    Parameters
    ----------
    scale, budget, penalty : array_like
        :math:`\omega`, :math:`\nu` and V, all positive; they broadcast.

    Returns
    -------
    numpy.ndarray
        Nats, summed over devices.

    Raises
    ------
    ValueError
        As :func:`~adascale.bounds.stationary_level`.
    """
    penalty, level = check.positive("penalty", penalty), stationary_level(scale, budget)
    check.broadcast(penalty=penalty.shape, scale_and_budget=level.shape)
    ratio = np.asarray(scale) / level
    # E[y^2] = int_0^l 2 (l - w) exp(-omega / w) dw
    square = 2 * level**2 * (special.expn(2, ratio) - special.expn(3, ratio))
    bound: FloatArray = (square + np.asarray(budget) ** 2) / (2 * penalty)
    return bound
