r"""What holds for channels that are correlated over rounds (:ref:`chap-guarantees`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.problem import RoundLeakage
from companion.bounds.stationary import stationary_level, stationary_spread

FloatArray = NDArray[np.float64]


def correlated_regret_bound(
    leakage: RoundLeakage,
    scale: ArrayLike,
    budget: ArrayLike,
    penalty: ArrayLike,
    rounds: int,
    lag: ArrayLike = 0,
    mixing: ArrayLike = 0.0,
) -> FloatArray:
    r"""Expected regret when Rayleigh floors are correlated, the right side only (:prf:ref:`thm-correlated`).

    .. math::
        \frac1V \Big\{ \tfrac12 \mathbb E[(y^\circ - \nu)_+^2] + \tfrac12 \nu^2 + \tau \ell_\infty \nu
        + \min\Big(\frac{\tau (\ell_\infty - \nu) \bar Q}{T}, \frac{\tau^2 (\ell_\infty - \nu)^2}{2T}\Big) \Big\}
        + \frac{\chi(\tau + 1)\, \ell_\infty \bar Q}{V}, \qquad \bar Q = \max(V |F'(\nu)| - \nu,\ 0)

    for every lag :math:`\tau \ge 0`.  With independent rounds and :math:`\tau = 0` it is
    :func:`~companion.bounds.stationary_regret_bound`; with blocks of b equal rounds, :math:`\tau = b - 1` and
    :math:`\chi = 0`.

    Parameters
    ----------
    leakage, scale, budget, penalty
        As for :func:`~companion.bounds.stationary_queue_bound`; they broadcast.
    rounds : int, >= 1
    lag : array_like
        :math:`\tau \ge 0`, whole numbers.
    mixing : array_like
        :math:`\chi(\tau + 1) \ge 0`, the strong-mixing coefficient across the lag; at most 1/4.

    Returns
    -------
    numpy.ndarray
        Nats, summed over devices.
    """
    penalty, level = check.positive("penalty", penalty), stationary_level(scale, budget)
    lag, mixing = check.at_least("lag", lag, 0), check.at_least("mixing", mixing, 0)
    rounds = check.whole("rounds", rounds)
    if (mixing > 0.25).any():
        raise ValueError(f"mixing must be at most 1/4, got {mixing.max()}")
    shapes = {"penalty": penalty.shape, "scale_and_budget": level.shape, "lag": lag.shape, "mixing": mixing.shape}
    check.broadcast(**shapes)
    nu, over = np.asarray(budget, dtype=float), level - np.asarray(budget, dtype=float)
    longest = np.maximum(-penalty * leakage.slope(nu) - nu, 0)
    waiting = np.minimum(lag * over * longest, (lag * over) ** 2 / 2) / rounds
    squares = stationary_spread(scale, budget) / 2 + lag * level * nu + waiting
    bound: FloatArray = (squares + mixing * level * longest) / penalty
    check.finite("this bound for such values", bound)
    return bound
