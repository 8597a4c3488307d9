r"""What policies without the future can reach when rounds are independent (:ref:`chap-causal`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.problem import RoundLeakage, slopes
from adascale.scenario import FloatArray

_GAUSS, _GAUSS_WEIGHT = np.polynomial.legendre.leggauss(4)
_GAUSS = (_GAUSS + 1) / 2
_GAUSS_WEIGHT = _GAUSS_WEIGHT / 2
# integrals from 0 to each node of the polynomial through the values at the nodes: of powers, times the coefficients
_PARTIAL = (
    np.vander(_GAUSS, 5, increasing=True)[:, 1:] / np.arange(1, 5)
) @ np.linalg.inv(np.vander(_GAUSS, increasing=True))
# of ln(x / level), for integrals above the level
_EDGES = np.concatenate([[0.0], np.geomspace(1e-3, 40.0, 160)])
_WIDTH = np.diff(_EDGES)


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
    budget, level = check.positive("budget", budget), law.level(budget)
    wet = law.cdf(level)
    x, step = _above(level)
    leaked = np.sum(step * x * -leakage.slope(x) * law.cdf(x), axis=0)
    first, second = both_slopes(leakage, level)
    spread = np.maximum(_mean_square(law, level) - budget**2, 0)
    return LevelValue(level, wet, -first, spread, leaked, second * spread / (2 * wet))


def empty_queue_regret(
    leakage: RoundLeakage,
    law: FloorLaw,
    budget: ArrayLike,
    penalty: ArrayLike,
    rounds: int,
) -> FloatArray:
    r"""Compute what AdaScale loses to the constant level from an empty queue, in two leading terms (:eq:`eq:cold`).

    An expansion for large V and T/V, not a bound: the first term is the way of the queue from 0 to :math:`V\mu`, the
    second its scatter there.
    """
    penalty = check.positive("penalty", penalty)
    approach = approach_constant(leakage, law, budget)
    spread = level_value(leakage, law, budget).spread
    return approach * penalty + spread * rounds / (4 * penalty)


def approach_constant(
    leakage: RoundLeakage, law: FloorLaw, budget: ArrayLike
) -> FloatArray:
    r"""Return :math:`c_1` of :func:`empty_queue_regret`, in square nats."""
    budget, level = check.positive("budget", budget), law.level(budget)
    price = -both_slopes(leakage, level)[0]
    x, step = _above(level)
    first, second = both_slopes(leakage, x)
    # the inner integral up to each node: whole pieces, and part of its own
    rise = ((first + price) * law.cdf(x) * x).reshape(
        len(_WIDTH), len(_GAUSS), *level.shape
    )
    pieces = np.sum(
        step.reshape(len(_WIDTH), len(_GAUSS), *(1,) * level.ndim) * rise, axis=1
    )
    before = np.cumsum(pieces, axis=0) - pieces
    within = (
        np.einsum("ij,kj...->ki...", _PARTIAL, rise) * _across(_WIDTH, level)[:, None]
    )
    inner = (before[:, None] + within).reshape(x.shape)
    return np.sum(step * x * second * inner / (law.mean_cost(x) - budget), axis=0)


def _above(level):
    """Return nodes above a level, on a leading axis, and their weights in the logarithm."""
    u = _EDGES[:-1, None] + _WIDTH[:, None] * _GAUSS
    weight = _WIDTH[:, None] * _GAUSS_WEIGHT
    return level * np.exp(_across(u.ravel(), level)), _across(weight.ravel(), level)


def _across(nodes, values):
    """Return nodes on a leading axis before the lanes."""
    return nodes.reshape(nodes.shape + (1,) * values.ndim)


def _mean_square(law, level):
    r"""Return :math:`\mathbb E (\ell - w_{\min})_+^2 = 2 \int_0^\ell g`, by pieces in equal ratios."""
    edges = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 40)])
    x = (edges[:-1, None] + np.diff(edges)[:, None] * _GAUSS).ravel()
    weight = (np.diff(edges)[:, None] * _GAUSS_WEIGHT).ravel()
    return (
        2
        * level
        * np.sum(
            _across(weight, level) * law.mean_cost(_across(x, level) * level), axis=0
        )
    )


def both_slopes(
    leakage: RoundLeakage, energy: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """F' and F''."""
    both = np.array([slopes(float(w), leakage.terms, False) for w in np.ravel(energy)])
    first, second = both.T.reshape(2, *np.shape(energy))
    return first, second
