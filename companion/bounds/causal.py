r"""What policies without the future can reach when rounds are independent (:ref:`chap-causal`)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import cumulative_simpson, simpson

from adascale.channel import FloorLaw
from adascale.problem import RoundLeakage, slopes
from adascale.scenario import FloatArray
from companion.bounds.convergence import Real

# nodes of Simpson's rule: of ln(x / level) above the level, and of x / level below it
_ABOVE = np.append(1e-9, np.geomspace(1e-4, 40, 2000))
_BELOW = np.append(1e-9, np.geomspace(1e-4, 1, 2000))


class LevelValue(NamedTuple):
    r"""The constant level of a law and a budget, and what it stands for; each of the shape of the lanes."""

    level: FloatArray
    r""":math:`\ell` with :math:`g(\ell) = \nu`."""
    wet: FloatArray
    r""":math:`p = H(\ell)`, the share of rounds below their power limit."""
    price: FloatArray
    r""":math:`\mu = |F'(\ell)|`, in nats per unit of :math:`\nu`."""
    spread: FloatArray
    r""":math:`s^2`, the variance of what a round spends."""
    leakage: FloatArray
    r""":math:`\Phi(\nu) = \mathbb E F(\max(\ell, w_{\min}))` of a round, in nats, summed over devices."""
    log_coefficient: FloatArray
    r""":math:`A = F''(\ell)\, s^2 / (2p)`, in nats."""


def level_value(leakage: RoundLeakage, law: FloorLaw, budget: ArrayLike) -> LevelValue:
    r"""Return what the constant level costs and leaks in a round, and what a hard budget adds, to about 1e-8.

    See :prf:ref:`thm-hard-budget`; ``budget`` is :math:`\nu > 0`, and broadcasts against the lanes of the law.
    """
    budget = np.asarray(budget)
    level = law.level(budget)
    wet = law.cdf(level)
    below = np.multiply.outer(_BELOW, level)
    square = 2 * level * simpson(law.mean_cost(below), x=_BELOW, axis=0)
    x = np.multiply.outer(np.exp(_ABOVE), level)
    leaked = simpson(x * -leakage.slope(x) * law.cdf(x), x=_ABOVE, axis=0)
    first, second = both_slopes(leakage, level)
    spread = np.maximum(square - budget**2, 0)
    return LevelValue(level, wet, -first, spread, leaked, second * spread / (2 * wet))


def empty_queue_regret(
    leakage: RoundLeakage,
    law: FloorLaw,
    budget: ArrayLike,
    penalty: Real,
    rounds: int,
) -> FloatArray:
    r"""Compute what AdaScale loses to the constant level from an empty queue, in two leading terms (:eq:`eq:cold`).

    An expansion for large V and T/V, not a bound: the first term is the way of the queue from 0 to :math:`V\mu`, the
    second its scatter there.
    """
    approach = approach_constant(leakage, law, budget)
    spread = level_value(leakage, law, budget).spread
    return approach * penalty + spread * rounds / (4 * penalty)


def approach_constant(
    leakage: RoundLeakage, law: FloorLaw, budget: ArrayLike
) -> FloatArray:
    r"""Return :math:`c_1` of :func:`empty_queue_regret`, in square nats."""
    budget = np.asarray(budget)
    level = law.level(budget)
    price = -both_slopes(leakage, level)[0]
    x = np.multiply.outer(np.exp(_ABOVE), level)
    first, second = both_slopes(leakage, x)
    rise = (first + price) * law.cdf(x) * x
    inner = cumulative_simpson(rise, x=_ABOVE, axis=0, initial=0)
    over = law.mean_cost(x) - budget
    return simpson(x * second * inner / over, x=_ABOVE, axis=0)


def both_slopes(
    leakage: RoundLeakage, energy: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """F' and F''."""
    # not np.vectorize: it warns of a power that overflows after the last term that needs it
    both = np.array([slopes(float(w), leakage.terms) for w in np.ravel(energy)])
    first, second = both.T.reshape(2, *np.shape(energy))
    return first, second
