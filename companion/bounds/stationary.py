r"""What holds in the mean under Rayleigh fading: independent rounds, and correlated ones (:ref:`chap-guarantees`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from adascale import checks as check
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
from adascale.scenario import FloatArray


def stationary_level(scale: ArrayLike, budget: ArrayLike) -> FloatArray:
    r"""Return :math:`\ell_\infty` of :eq:`eq:stationary-level`, the water level of the long run."""
    return RayleighFloors(scale).level(budget)


def stationary_square(scale: ArrayLike, level: ArrayLike) -> FloatArray:
    r"""Return :math:`\mathbb E\max(\ell - w_{\min}, 0)^2 = 2\ell^2 (E_2 - E_3)(\omega/\ell)`, what a level spends."""
    scale, level = check.positive("scale", scale), check.positive("level", level)
    check.broadcast(scale=scale.shape, level=level.shape)
    with np.errstate(over="ignore"):
        ratio = scale / level
        square: FloatArray = 2 * level**2 * (special.expn(2, ratio) - special.expn(3, ratio))
    check.finite("the square for such scales and levels", square)
    return square


def stationary_spread(scale: ArrayLike, budget: ArrayLike) -> FloatArray:
    r"""Return :math:`\mathbb E(y^\circ - \nu)_+^2 + \nu^2`, what a round of AdaScale loses to chance, times 2V."""
    level, budget = stationary_level(scale, budget), np.asarray(budget, dtype=float)
    above = np.maximum(level - budget, np.finfo(float).tiny)  # floors far below the budget: hardly above it
    with np.errstate(over="ignore"):
        spread: FloatArray = stationary_square(scale, above) + budget**2
    check.finite("this bound for such scales and budgets", spread)
    return spread


def stationary_regret_bound(scale: ArrayLike, budget: ArrayLike, penalty: ArrayLike) -> FloatArray:
    r"""Bound the expected regret over independent rounds, in nats (:prf:ref:`thm-regret-iid`).

    V must be chosen without the floors.  ``scale, budget, penalty`` are :math:`\omega, \nu, V`; they broadcast.
    """
    penalty, spread = check.positive("penalty", penalty), stationary_spread(scale, budget)
    check.broadcast(penalty=penalty.shape, scale_and_budget=spread.shape)
    with np.errstate(over="ignore"):
        bound: FloatArray = spread / (2 * penalty)
    check.finite("this bound for such scales, budgets and penalties", bound)
    return bound


def stationary_queue_bound(leakage: RoundLeakage, scale: float, budget: float, penalty: ArrayLike) -> FloatArray:
    """Bound AdaScale's expected queue after any number of rounds: the least over 512 levels (:prf:ref:`thm-queue-iid`).

    V must be chosen without the floors; the bound has the shape of ``penalty``.
    """
    penalty, top = check.positive("penalty", penalty), float(stationary_level(scale, budget))
    lower = top * (1 - np.geomspace(1e-6, 1 - 1e-3, 513))  # downwards from the level
    node, weight = np.polynomial.legendre.leggauss(8)
    upper = np.append(top, lower[:-1])
    x = (upper + lower)[:, None] / 2 + (upper - lower)[:, None] / 2 * node
    share = np.exp(-scale / x) * weight * (upper - lower)[:, None] / 2
    saved = np.cumsum(share.sum(axis=-1))
    leaked = np.cumsum((-leakage.slope(x) * share).sum(axis=-1))
    square = stationary_square(scale, np.maximum(lower - budget, np.finfo(float).tiny)) + budget**2
    some = saved > np.finfo(float).tiny
    bounds = (penalty[..., None] * leaked[some] + square[some] / 2) / saved[some]
    return np.asarray(np.min(bounds, axis=-1))


def correlated_regret_bound(
    leakage: RoundLeakage,
    scale: ArrayLike,
    budget: ArrayLike,
    penalty: ArrayLike,
    rounds: int,
    lag: ArrayLike = 0,
    mixing: ArrayLike = 0.0,
) -> FloatArray:
    r"""Bound the expected regret over correlated rounds, in nats, by any lag (:prf:ref:`thm-correlated`).

    ``lag`` is :math:`\tau`, and ``mixing`` the strong-mixing coefficient :math:`\chi(\tau + 1) \le 1/4` across it.  For
    independent rounds both are 0; for blocks of b equal rounds they are :math:`b - 1` and 0.
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
