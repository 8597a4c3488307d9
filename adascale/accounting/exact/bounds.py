"""Proven bounds on delta in closed form or by real moments, where an inversion is not enough (:ref:`app-exact`)."""

import contextlib
import math
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp

from adascale.accounting.exact import gaussian, minus_one
from adascale.accounting.exact.inversion import (
    ADD,
    DIRECTIONS,
    chernoff_offset,
    look,
    real_order,
)
from adascale.accounting.exact.moments import ULP
from adascale.accounting.exact.rounds import Rounds, moments_on_line
from adascale.accounting.kernels import FloatArray

Bound = Callable[[float], float]
_SAFE = 1e-9  # relative margin for the rounding of closed forms
_MOST_HITS = 2e5  # on either side of their mean


def all_of(
    rounds: Rounds, log_delta: float | None, epsilon: float
) -> tuple[list[tuple[str, tuple[str, ...], Bound]], list[tuple[str, Bound]]]:
    """Return the upper bounds, each with the directions for which it holds, and the lower bounds."""
    kinds = rounds.kinds
    uppers: list[tuple[str, tuple[str, ...], Bound]] = []
    lowers: list[tuple[str, Bound]] = []
    if not rounds.atoms:
        total = (rounds.gaussian + sum(u * n for _, u, n in kinds)) * (1 + _SAFE)
        uppers += [
            ("Gaussian", DIRECTIONS, lambda at: float(gaussian.delta(total, at)[2]))
        ]
        q, u, n = zip(
            *kinds, strict=True
        )  # with the largest rate and the least noise in all rounds, delta is no lower
        uppers += [("hits", DIRECTIONS, _hits(max(q), max(u), sum(n), rounds.gaussian))]
    if rounds.gaussian:
        lowers += [
            (
                "Gaussian",
                lambda at: float(gaussian.delta(rounds.gaussian * (1 - _SAFE), at)[1]),
            )
        ]
    if kinds:
        less = [(q, u * (1 - _SAFE)) for q, u, _ in kinds]
        lowers += [
            (
                "one round",
                lambda at: max(gaussian.sampled_delta(q, u, at)[1] for q, u in less),
            )
        ]
        weight = [q * n * math.expm1(min(u, 700.0)) for q, u, n in kinds]
        for i in {int(np.argmax(weight)), int(np.argmax([u for _, u, _ in kinds]))}:
            lowers += [("threshold", _threshold(*kinds[i]))]
    for direction in DIRECTIONS:
        with contextlib.suppress(ArithmeticError):
            tilt = look(rounds, direction, log_delta, epsilon).tilt
            low, high = _log_moments(rounds, direction, tilt)
            uppers += [
                (
                    "Renyi",
                    (direction,),
                    partial(
                        _renyi, tilt, high, rounds.lost if direction == ADD else 0.0
                    ),
                )
            ]
            lowers += [("tilted", _tilted(tilt, low, high))]
    return uppers, lowers


def _log_moments(
    rounds: Rounds, direction: str, tilt: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound ln G at every tilt from both sides."""
    low, high = np.full(tilt.size, -math.inf), np.full(tilt.size, math.inf)
    for i, a in enumerate(tilt.tolist()):
        if rounds.atoms:
            line = minus_one.line_of_atoms(rounds, a, direction == ADD, 0.0, 1)
        else:
            line = moments_on_line(rounds, real_order(direction, a), 1.0, 1, 27.0)
        if math.isfinite(line.log_moment) and line.error < 1:
            middle = line.log_moment + 0.5 * rounds.gaussian * a * (a + 1)
            off = line.error + 1e-13 * (abs(middle) + 1)
            low[i], high[i] = middle - off, middle + off
    return low, high


def _renyi(
    tilt: FloatArray, log_moment: FloatArray, lost: float, epsilon: float
) -> float:
    log_delta = (
        log_moment
        + chernoff_offset(tilt)
        - tilt * epsilon
        + 1e-13 * (tilt * epsilon + 10)
    ).min()
    return min(math.exp(min(float(log_delta), 0.0)) + lost, 1.0)


def _tilted(tilt: FloatArray, low: FloatArray, high: FloatArray) -> Bound:
    """Bound the mass between two losses under the tilted distribution by Chernoff's bounds at both neighbours."""
    i, j, k = np.array(list(combinations(range(tilt.size), 3))).T
    with np.errstate(invalid="ignore"):
        first = (low[j] - high[i] - math.log(4)) / (tilt[j] - tilt[i]) * (
            1 - 1e-12
        ) - 1e-300
        last = (high[k] - low[j] + math.log(4)) / (tilt[k] - tilt[j]) * (1 + 1e-12)
    known = np.isfinite(first) & np.isfinite(last)
    first, last, a, moment = first[known], last[known], tilt[j][known], low[j][known]

    def bound(epsilon: float) -> float:
        held = (first > epsilon) & (last > epsilon)
        if not held.any():
            return 0.0
        at, losses = a[held], (first[held], last[held])
        ends = [
            -at * y + np.log(-np.expm1(epsilon - y)) - 1e-12 * (at * y + 1)
            for y in losses
        ]
        return (
            0.5
            * math.exp(min(float((moment[held] + np.minimum(*ends)).max()), 0.0))
            * (1 - _SAFE)
        )

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
    mass, energy = (
        np.exp(_log_binomial(n, k, log_p, log_rest) + off),
        (gaussian_energy + u * k) * (1 + _SAFE),
    )
    mass, energy = mass[energy > 0], energy[energy > 0]

    def bound(epsilon: float) -> float:
        return min(
            float((mass * gaussian.delta(energy, epsilon)[2]).sum()) * (1 + _SAFE)
            + 1e-300,
            1.0,
        )

    return bound


def _threshold(q: float, u: float, n: float) -> Bound:
    """Tell the adversary of each of these rounds only whether it exceeds a threshold, and count."""
    root = math.sqrt(u) * (1 - _SAFE)
    t = np.unique(
        np.concatenate([root - np.linspace(-9, 9, 37), root * np.linspace(0, 2, 25)])
    )[:, None, None]
    log_null, log_not = log_ndtr(-t), log_ndtr(t)
    log_p = np.logaddexp(math.log(q) + log_ndtr(root - t), math.log1p(-q) + log_null)
    log_rest = np.logaddexp(math.log(q) + log_ndtr(t - root), math.log1p(-q) + log_not)
    mean = n * np.exp(log_p)
    spread = np.sqrt(mean) + 1
    k = np.clip(np.round(mean + spread * np.linspace(-3, 20, 47)[None, :, None]), 1, n)
    k[:, :8] = np.clip(np.arange(1, 9.0), 1, n)[None, :, None]
    above = k + np.arange(120.0)
    inside = above <= n
    above = np.minimum(above, n)
    size = 1e-12 * (3 * gammaln(n + 2) + n * 1e-3) + _SAFE
    terms = np.where(inside, _log_binomial(n, above, log_p, log_rest), -math.inf)
    log_true = logsumexp(terms, axis=2) * (1 + 1e-12) - size
    log_first = _log_binomial(n, k, log_null, log_not)[..., 0]
    log_ratio = (np.log(n - k + 1e-300) - np.log(k + 1) + log_null - log_not)[..., 0]
    log_false = log_first - np.log(-np.expm1(np.minimum(log_ratio, -1e-300)))
    log_false = (
        np.where(log_ratio < 0, np.minimum(log_false, 0.0), 0.0) * (1 - 1e-12) + size
    )

    def bound(epsilon: float) -> float:
        return max(
            0.0,
            float(
                (
                    np.exp(log_true) - np.exp(np.minimum(epsilon + log_false, 700.0))
                ).max()
            )
            - 1e-300,
        )

    return bound
