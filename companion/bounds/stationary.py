r"""What holds in the mean under Rayleigh fading: independent rounds, and correlated ones (:ref:`chap-guarantees`)."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.integrate import cumulative_simpson

from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
from adascale.scenario import FloatArray
from companion.bounds.convergence import Real


def stationary_level(scale: ArrayLike, budget: ArrayLike) -> FloatArray:
    r"""Return :math:`\ell_\infty` of :eq:`eq:stationary-level`, the water level of the long run."""
    return RayleighFloors(scale).level(budget)


def stationary_square(scale: ArrayLike, level: ArrayLike) -> FloatArray:
    r"""Return :math:`\mathbb E\max(\ell - w_{\min}, 0)^2 = 2\ell^2 (E_2 - E_3)(\omega/\ell)`, what a level spends."""
    with np.errstate(over="ignore"):
        ratio = np.divide(scale, level)
        return 2 * np.square(level) * (special.expn(2, ratio) - special.expn(3, ratio))


def stationary_spread(scale: ArrayLike, budget: ArrayLike) -> FloatArray:
    r"""Return :math:`\mathbb E(y^\circ - \nu)_+^2 + \nu^2`, what a round of AdaScale loses to chance, times 2V."""
    return _spread(scale, stationary_level(scale, budget), np.asarray(budget))


def _spread(scale, level, budget):
    """Return the same for any level; floors far below the budget leave it hardly above it."""
    above = np.maximum(level - budget, np.finfo(float).tiny)
    return stationary_square(scale, above) + budget**2


def stationary_regret_bound(
    scale: ArrayLike, budget: ArrayLike, penalty: Real
) -> FloatArray:
    r"""Bound the expected regret over independent rounds, in nats (:prf:ref:`thm-regret-iid`).

    V must be chosen without the floors.  ``scale, budget, penalty`` are :math:`\omega, \nu, V`; they broadcast.
    """
    return stationary_spread(scale, budget) / (2 * penalty)


def stationary_queue_bound(
    leakage: RoundLeakage, scale: float, budget: float, penalty: ArrayLike
) -> FloatArray:
    """Bound AdaScale's expected queue after any number of rounds: the least over 513 levels (:prf:ref:`thm-queue-iid`).

    V must be chosen without the floors; the bound has the shape of ``penalty``.
    """
    top = float(stationary_level(scale, budget))
    # eight nodes of the integrals for each level that is tried
    level = top * (1 - np.append(0, np.geomspace(1e-6, 1 - 1e-3, 4097)))
    share = np.exp(-scale / level)
    saved = cumulative_simpson(share, x=-level)[::8]
    leaked = cumulative_simpson(-leakage.slope(level) * share, x=-level)[::8]
    square = _spread(scale, level[1::8], budget)
    cost = np.multiply.outer(penalty, leaked) + square / 2
    return np.min(cost / saved, axis=-1)


def correlated_regret_bound(
    leakage: RoundLeakage,
    scale: float,
    budget: float,
    penalty: float,
    rounds: int,
    mixing: FloatArray,
) -> float:
    r"""Bound the expected regret over correlated rounds, in nats, by the best lag (:prf:ref:`thm-correlated`).

    ``mixing`` has the strong-mixing coefficient :math:`\chi(\tau + 1) \le 1/4` across each lag
    :math:`\tau = 0, 1, \dots`.  For independent rounds it is 0 from :math:`\tau = 0` on, for blocks of b equal rounds
    from :math:`\tau = b - 1` on.
    """
    level = stationary_level(scale, budget)
    longest = np.maximum(-penalty * leakage.slope(budget) - budget, 0)
    lag = np.arange(mixing.size)
    gained = lag * (level - budget)
    waiting = np.minimum(gained * longest, gained**2 / 2) / rounds
    squares = stationary_spread(scale, budget) / 2 + lag * level * budget + waiting
    return float(np.min(squares + mixing * level * longest) / penalty)
