"""Proven bounds on delta in closed form or by real moments, where an inversion is not enough (:ref:`app-exact`)."""

import contextlib
import math
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import erf, gammaln, log_ndtr, logsumexp

from adascale.accounting.exact import discrete, gaussian
from adascale.accounting.exact.inversion import (
    DIRECTIONS,
    chernoff_offset,
    gaussian_log_moment,
    lost_in,
    moments_at,
    scan_tilts,
)
from adascale.accounting.exact.moments import ULP
from adascale.accounting.exact.rounds import Rounds
from adascale.checks import FloatArray
from adascale.errors import CannotCertify

Bound = Callable[[float], float]
"""A function of epsilon that bounds delta from one side."""
_SAFE = 1e-9  # relative margin for the rounding of closed forms
_MOST_HITS = 2e5  # on either side of their mean
_MOST_BLOCKS = 4000  # of hits


def total_variation(rounds: Rounds) -> float:
    """Bound the total variation delta(0) between both outputs, by a sum over rounds or by chi-squared."""
    total = math.erf(math.sqrt(rounds.gaussian) / math.sqrt(8)) + discrete.apart(rounds)
    divergence = math.inf if rounds.atoms else rounds.gaussian
    for q, u, n in rounds.by_rate():
        total += q * float((n * erf(np.sqrt(u / 8))).sum())
        growth = q * q * np.expm1(np.minimum(u, 700.0))
        divergence += float((n * np.log1p(growth)).sum())
    if divergence < 1e-280:  # it may have lost all its digits
        return total * (1 + 1e-9)
    return min(total, math.sqrt(-math.expm1(-divergence - 1e-290))) * (1 + 1e-9)


def all_bounds(
    rounds: Rounds, log_delta: float | None, epsilon: float
) -> tuple[list[tuple[str, tuple[str, ...], Bound]], list[tuple[str, Bound]]]:
    """Return the upper bounds, each with the directions for which it holds, and the lower bounds."""
    kinds = rounds.kinds
    uppers: list[tuple[str, tuple[str, ...], Bound]] = []
    lowers: list[tuple[str, Bound]] = []
    if not rounds.atoms:
        energy = (rounds.gaussian + sum(u * n for _, u, n in kinds)) * (1 + _SAFE)
        uppers += [("Gaussian", DIRECTIONS, partial(_gaussian, energy, 2))]
        # with the largest rate and the least noise in all rounds, delta is no lower
        q, u, n = zip(*kinds, strict=True)
        uppers += [("hits", DIRECTIONS, _hits(max(q), max(u), sum(n), rounds.gaussian))]
    if rounds.gaussian:
        energy = rounds.gaussian * (1 - _SAFE)
        lowers += [("Gaussian", partial(_gaussian, energy, 1))]
    if kinds:
        lowers += [("one round", partial(_one_round, kinds))]
        weight = [q * n * math.expm1(min(u, 700.0)) for q, u, n in kinds]
        for i in {int(np.argmax(weight)), int(np.argmax([u for _, u, _ in kinds]))}:
            lowers += [("threshold", _threshold(*kinds[i]))]
    for direction in DIRECTIONS:
        with contextlib.suppress(ArithmeticError):
            tilt = scan_tilts(rounds, direction, log_delta, epsilon).tilt
            low, high = _log_moments(rounds, direction, tilt)
            lost = lost_in(rounds, direction)
            uppers += [("Renyi", (direction,), partial(_renyi, tilt, high, lost))]
            lowers += [("tilted", _tilted(tilt, low, high))]
    return uppers, lowers


def _gaussian(energy: float, side: int, epsilon: float) -> float:
    """Bound delta by that of all rounds without sampling, or of those that have none; side 1 is below, 2 above."""
    return float(gaussian.delta(energy, epsilon)[side])


def _one_round(kinds: list[tuple[float, float, float]], epsilon: float) -> float:
    """Bound delta from below by that of the round that leaks most."""
    return max(
        gaussian.sampled_delta(q, u * (1 - _SAFE), epsilon)[1] for q, u, _ in kinds
    )


def _log_moments(
    rounds: Rounds, direction: str, tilt: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound ln G at every tilt from both sides."""
    low, high = np.full(tilt.size, -math.inf), np.full(tilt.size, math.inf)
    for i, a in enumerate(tilt.tolist()):
        with contextlib.suppress(CannotCertify):
            line = moments_at(rounds, direction, a, 1.0, 1, 27.0)
            if line.error < 1:
                middle = line.log_moment + gaussian_log_moment(rounds.gaussian, a)
                off = line.error + 1e-13 * (abs(middle) + 1)
                low[i], high[i] = middle - off, middle + off
    return low, high


def _renyi(
    tilt: FloatArray, log_moment: FloatArray, lost: float, epsilon: float
) -> float:
    """Bound delta by the best Chernoff bound, and by what is lost."""
    rounding = 1e-13 * (tilt * epsilon + 10)
    log_bound = log_moment + chernoff_offset(tilt) - tilt * epsilon + rounding
    return min(math.exp(min(float(log_bound.min()), 0.0)) + lost, 1.0)


def _tilted(tilt: FloatArray, low: FloatArray, high: FloatArray) -> Bound:
    """Bound the mass between two losses under the tilted distribution by Chernoff's bounds at both neighbours."""
    i, j, k = np.array(list(combinations(range(tilt.size), 3))).T
    with np.errstate(invalid="ignore"):
        first = (low[j] - high[i] - math.log(4)) / (tilt[j] - tilt[i])
        first = first * (1 - 1e-12) - 1e-300
        last = (high[k] - low[j] + math.log(4)) / (tilt[k] - tilt[j]) * (1 + 1e-12)
    finite = np.isfinite(first) & np.isfinite(last)
    first, last = first[finite], last[finite]
    a, moment = tilt[j][finite], low[j][finite]

    def bound(epsilon: float) -> float:
        beyond = (first > epsilon) & (last > epsilon)
        if not beyond.any():
            return 0.0
        ends = [
            -a[beyond] * loss
            + np.log(-np.expm1(epsilon - loss))
            - 1e-12 * (a[beyond] * loss + 1)
            for loss in (first[beyond], last[beyond])
        ]
        log_bound = float((moment[beyond] + np.minimum(*ends)).max())
        return 0.5 * math.exp(min(log_bound, 0.0)) * (1 - _SAFE)

    return bound


def _log_binomial(n: float, k: FloatArray, log_p: Any, log_rest: Any) -> FloatArray:
    return np.asarray(
        gammaln(n + 1.0)
        - gammaln(k + 1.0)
        - gammaln(n - k + 1.0)
        + k * log_p
        + (n - k) * log_rest
    )


def _hits(q: float, u: float, n: float, gaussian_energy: float) -> Bound:
    """Average Gaussian deltas over the rounds that use the sample, as delta is convex in the mixture."""
    reach = 40 * math.sqrt(q * (1 - q) * n) + 800  # beyond lies less than 1e-300
    if reach > _MOST_HITS:
        return lambda _: 1.0
    k = np.arange(max(0.0, np.floor(q * n - reach)), min(n, np.ceil(q * n + reach)) + 1)
    log_p, log_rest = math.log(q), math.log1p(-q)
    off = 16 * ULP * (3 * float(gammaln(n + 2)) - n * log_rest - k * log_p + 10)
    mass = np.exp(_log_binomial(n, k, log_p, log_rest) + off)
    energy = (gaussian_energy + u * k) * (1 + _SAFE)
    mass, energy = mass[energy > 0], energy[energy > 0]
    # in blocks, each with the energy of its last number
    first = np.arange(0, mass.size, math.ceil(mass.size / _MOST_BLOCKS))
    mass = np.add.reduceat(mass, first)
    energy = energy[np.append(first[1:], energy.size) - 1]

    def bound(epsilon: float) -> float:
        mean = float((mass * gaussian.delta(energy, epsilon)[2]).sum())
        return min(mean * (1 + _SAFE) + 1e-300, 1.0)

    return bound


def _threshold(q: float, u: float, n: float) -> Bound:
    """Tell the adversary of each of these rounds only whether it exceeds a threshold, and count."""
    root = math.sqrt(u) * (1 - _SAFE)
    thresholds = [root - np.linspace(-9, 9, 37), root * np.linspace(0, 2, 25)]
    t = np.unique(np.concatenate(thresholds))[:, None, None]
    log_null, log_not = log_ndtr(-t), log_ndtr(t)
    log_p = np.logaddexp(math.log(q) + log_ndtr(root - t), math.log1p(-q) + log_null)
    log_rest = np.logaddexp(math.log(q) + log_ndtr(t - root), math.log1p(-q) + log_not)
    # counts k at and above which the adversary decides, from the smallest to twenty deviations above the mean
    mean = n * np.exp(log_p)
    deviations = np.linspace(-3, 20, 47)[None, :, None]
    k = np.clip(np.round(mean + (np.sqrt(mean) + 1) * deviations), 1, n)
    k[:, :8] = np.clip(np.arange(1, 9.0), 1, n)[None, :, None]
    margin = 1e-12 * (3 * gammaln(n + 2) + n * 1e-3) + _SAFE
    above = k + np.arange(120.0)
    terms = _log_binomial(n, np.minimum(above, n), log_p, log_rest)
    terms = np.where(above <= n, terms, -math.inf)
    log_true = logsumexp(terms, axis=2) * (1 + 1e-12) - margin
    # false alarms: a geometric series from the first term
    log_first = _log_binomial(n, k, log_null, log_not)[..., 0]
    log_ratio = (np.log(n - k + 1e-300) - np.log(k + 1) + log_null - log_not)[..., 0]
    log_false = log_first - np.log(-np.expm1(np.minimum(log_ratio, -1e-300)))
    log_false = np.where(log_ratio < 0, np.minimum(log_false, 0.0), 0.0)
    log_false = log_false * (1 - 1e-12) + margin

    def bound(epsilon: float) -> float:
        false = np.exp(np.minimum(epsilon + log_false, 700.0))
        return max(0.0, float((np.exp(log_true) - false).max()) - 1e-300)

    return bound
