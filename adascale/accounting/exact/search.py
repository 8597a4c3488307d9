"""The sharp epsilon of a schedule, without proof: the root of a converged sum."""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erf

from adascale.accounting.exact import minus_one
from adascale.accounting.exact.inversion import (
    ADD,
    REMOVE,
    Inversion,
    Tilts,
    look,
    plan,
)
from adascale.accounting.exact.rounds import Rounds
from adascale.errors import CannotCertify
from adascale.rootfind import solve

_PLAIN = math.log(1e-7)  # ln of the aliases, relative to delta
_DIGITS = 20.0  # -ln of the interpolation error
_SOON = 600  # points on the line after which a sum that has not converged is smoothed


def largest_loss(rounds: Rounds) -> float:
    """Compute the largest loss against the mixture, which bounds epsilon in the direction ``remove``."""
    if rounds.gaussian:
        return math.inf
    loss = -sum(
        float(n.sum()) * math.log1p(-q)
        for q, n in zip(rounds.rates, rounds.counts, strict=True)
    )
    loss += sum(
        n * float((atom.loss_off - atom.loss).max()) for atom, n in rounds.atoms
    )
    return loss * (1 + 1e-12)


def most_apart(rounds: Rounds) -> float:
    """Bound the total variation delta(0) between both outputs, by a sum over rounds or by chi-squared."""
    total = math.erf(math.sqrt(rounds.gaussian) / math.sqrt(8)) + minus_one.apart(
        rounds
    )
    divergence = math.inf if rounds.atoms else rounds.gaussian
    for q, u, n in zip(*rounds[:3], strict=True):
        total += q * float((n * erf(np.sqrt(u / 8))).sum())
        divergence += float(
            (n * np.log1p(q * q * np.expm1(np.minimum(u, 700.0)))).sum()
        )
    if divergence < 1e-280:  # it may have lost all its digits
        return total * (1 + 1e-9)
    return min(total, math.sqrt(-math.expm1(-divergence - 1e-290))) * (1 + 1e-9)


def settled(
    rounds: Rounds, tilts: Tilts, low: float, high: float, log_delta: float, tau: float
) -> Inversion:
    """Find a converged sum for these epsilons, smoothed by ``tau``; without smoothing, raise an error if it is slow."""
    where = plan(tilts, low, high, log_delta, _PLAIN)
    step = 2 * math.pi / where.period
    size = log_delta + _PLAIN
    if tau:
        lead = (
            float(np.interp(where.tilt, tilts.tilt, tilts.log_moment))
            - where.tilt * low
            - size
        )
        end = (
            math.sqrt(
                2 * max(lead + 0.5 * tau * tau * where.tilt * (where.tilt + 1), 2.0)
            )
            / tau
        )
        return Inversion(
            rounds, tilts.direction, where, int(end / step) + 2, tau, _DIGITS
        )
    count = int(math.sqrt(2 * 20 / where.curvature) / step) + 12
    while count < _SOON:
        found = Inversion(rounds, tilts.direction, where, count, 0.0, _DIGITS)
        with np.errstate(divide="ignore"):  # the last terms may be zero
            last = np.log(np.abs(found.terms[-3:]).max() * count * step)
        if last < size + where.tilt * low - found.log_moment:
            return found
        count = int(1.6 * count)
    raise CannotCertify("the plain sum is slow to converge")


def one_direction(rounds: Rounds, tilts: Tilts, delta: float) -> float:
    """Compute the sharp epsilon in one direction, with decreasing smoothing if the plain sum is slow to converge."""
    with contextlib.suppress(CannotCertify):
        return _root(rounds, tilts, delta, 0.0)
    slope = float(
        tilts.tilt[np.argmin(tilts.log_bound(tilts.top))]
    )  # smoothing adds about slope * tau^2 / 2
    soon = math.sqrt(0.04 * max(tilts.top, 0.01 / slope) / slope)
    tau = min(0.1 * max(tilts.top, 1e-3 / float(tilts.tilt[-1])), soon, 0.5)
    before = math.inf
    for _ in range(12):
        try:
            root = _root(rounds, tilts, delta, tau)
        except CannotCertify:
            if math.isinf(before):
                raise
            return before
        if abs(before - root) <= 1e-3 * root:
            return (
                root + (root - before) / 15
            )  # the effect of smoothing grows with the square of tau
        before, tau = root, 0.25 * tau
    return before


def about(rounds: Rounds, tilts: Tilts, delta: float) -> float:
    """Find epsilon in one direction by one sum, whose smoothing raises it by about a thousandth."""
    slope = float(tilts.tilt[np.argmin(tilts.log_bound(tilts.top))])
    tau = min(math.sqrt(0.002 * max(tilts.top, 0.01 / slope) / slope), 0.5)
    return _root(rounds, tilts, delta, tau, (0.2, 0.0))


def _root(
    rounds: Rounds,
    tilts: Tilts,
    delta: float,
    tau: float,
    parts: tuple[float, ...] = (0.8, 0.55, 0.3, 0.0),
) -> float:
    """Find where the sum equals delta; return 0 if it is smaller at 0."""
    high = 1.02 * max(
        tilts.top, 0.0
    )  # the Renyi value, which the thinned rounds approximate within one per cent
    for part in parts:
        low = part * max(tilts.top, 0.0)
        value = settled(rounds, tilts, low, high, math.log(delta), tau).value
        if value(low) > delta:
            if value(high) > delta:
                raise CannotCertify("the sum does not converge")

            def excess(epsilon: float, value: Callable[[float], Any] = value) -> float:
                return float(value(epsilon)) - delta

            return solve(excess, low, high)
    return 0.0


def sharp(rounds: Rounds, delta: float) -> tuple[float, str, dict[str, float]]:
    """Compute the sharp epsilon, its direction, and the epsilon of each direction that can determine it."""
    found = {ADD: one_direction(rounds, look(rounds, ADD, math.log(delta)), delta)}
    if largest_loss(rounds) > found[ADD]:
        other = look(rounds, REMOVE, math.log(delta))
        if other.top > 0.99 * found[ADD]:
            found[REMOVE] = one_direction(rounds, other, delta)
    direction = max(found, key=lambda name: found[name])
    return found[direction], direction, found
