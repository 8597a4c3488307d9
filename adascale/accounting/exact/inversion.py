"""delta(epsilon) by inversion on a vertical line (:eq:`eq:inversion`), bounded from both sides (:ref:`app-exact`).

:math:`G(s) = M(1 + s)` for mixture against null ("add"), :math:`M(-s)` for null against mixture ("remove").
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import ndtr

from adascale.accounting.exact import gaussian, minus_one
from adascale.accounting.exact.moments import QUIET, ULP, log_moments
from adascale.accounting.exact.rounds import (
    Rounds,
    moments_on_line,
    proven_log_moment,
    thinned,
)
from adascale.accounting.kernels import FloatArray
from adascale.errors import CannotCertify

ADD, REMOVE = DIRECTIONS = (
    "add",
    "remove",
)  # mixture against null (one sample is added), and null against mixture
_MOVED = (
    2.0**-48 + 4 * ULP
)  # relative error of the energy of the Gaussian rounds: u has 48 binary digits
_RATIO = 1.25  # ratio of successive tilts to try
_MOST_TILTS = 150
_AT_ONCE = 8  # tilts at which moments are computed together
MOST_POINTS = 100_000  # largest number of points on a line


def real_order(direction: str, tilt: Any) -> Any:
    """Return the real part of z for a tilt a > 0."""
    return 1.0 + tilt if direction == ADD else -tilt


def chernoff_offset(tilt: Any) -> Any:
    """Compute ln of the maximum of (1 - e^{-x})_+ e^{-a x}, which the Renyi conversion adds."""
    return -tilt * np.log1p(1 / tilt) - np.log1p(tilt)


def proven_log_moment_at(rounds: Rounds, direction: str, tilt: float) -> float:
    """Bound ln G(tilt) of all rounds but the Gaussian ones from above."""
    return (minus_one.log_moment_above if rounds.atoms else proven_log_moment)(
        rounds, real_order(direction, tilt)
    )


class Tilts(NamedTuple):
    """Approximate ln G at some tilts, from fewer rounds; no proof uses it."""

    direction: str
    tilt: FloatArray
    log_moment: FloatArray
    top: float  # approximately the epsilon of the Renyi conversion

    def log_bound(self, epsilon: float) -> FloatArray:
        """Compute ln of the Chernoff bound of delta at every tilt."""
        return np.asarray(
            self.log_moment - self.tilt * epsilon + chernoff_offset(self.tilt)
        )


@QUIET
def look(
    rounds: Rounds, direction: str, log_delta: float | None, epsilon: float = 0.0
) -> Tilts:
    """Evaluate tilts around the best one for this delta, or for this epsilon if ``log_delta`` is None."""
    u, q, n = thinned(rounds)
    variance = (
        float((n * np.minimum(q * q * np.expm1(np.minimum(u, 50.0)), u)).sum())
        + rounds.gaussian
    )
    variance += sum(
        n * float((atom.mass * np.expm1(atom.loss) ** 2).sum())
        for atom, n in rounds.atoms
    )
    known: dict[int, list[float]] = {}  # tilt, ln G and what is minimised
    digits = max(
        9.0, 4.0 + math.log(max(rounds.size, 1))
    )  # 4 digits for all rounds together
    start = (
        max(0.1, epsilon / variance)
        if log_delta is None
        else math.sqrt(-2 * min(log_delta, -0.1) / variance)
    )

    def at(i: int) -> float:
        if i not in known:
            near = (
                (i + _AT_ONCE // 2) // _AT_ONCE * _AT_ONCE
                + np.arange(_AT_ONCE)
                - _AT_ONCE // 2
            )
            a = start * _RATIO ** near.astype(float)
            a = np.where(1 + a > 1, (1 + a) - 1, a)  # so that 1 + a is not rounded
            orders = real_order(direction, a)
            if rounds.atoms:
                value = minus_one.log_moment_of_atoms(rounds, orders)
            else:
                value = (n * log_moments(u, q, orders[:, None], digits)[0]).sum(axis=-1)
            value = value + 0.5 * rounds.gaussian * a * (a + 1)
            score = value + chernoff_offset(a)
            score = (
                score - a * epsilon if log_delta is None else (score - log_delta) / a
            )
            found = a, value, np.where(np.isfinite(score), score, math.inf)
            known.update(zip(near.tolist(), np.transpose(found).tolist(), strict=True))
        return known[i][2]

    best = 0
    while math.isinf(at(best)) and best > -_MOST_TILTS:
        best -= 1
    for way in (1, -1):
        while abs(best) < _MOST_TILTS and at(best + way) < at(best):
            best += way
    kept = [
        i for i in range(min(best - 6, 0), max(best + 6, 0) + 1) if math.isfinite(at(i))
    ]
    if len(kept) < 3:
        raise CannotCertify("its moments overflow near the best order")
    a, log_moment, _ = np.transpose([known[i] for i in kept])
    return Tilts(direction, a, log_moment, known[best][2])


class Plan(NamedTuple):
    """The line to sum on, and its period."""

    tilt: float
    beyond: float  # a larger tilt, which bounds the aliases from above
    period: float
    curvature: float  # approximately the second derivative of ln G at the tilt: how fast the terms decay


def plan(
    tilts: Tilts,
    low: float,
    high: float,
    log_delta: float,
    log_tolerance: float,
    tau: float = 0.0,
) -> Plan:
    """Find the shortest period whose aliases are below the tolerance for every epsilon in ``low ... high``."""
    a = tilts.tilt
    bound = tilts.log_bound(low) + 0.5 * tau * tau * a * (a + 1)
    want = log_delta + log_tolerance
    near = np.flatnonzero(bound[1:-1] < bound.min() + 6.0) + 1
    if near.size == 0:
        raise CannotCertify("its moments overflow near the best order")
    found = []
    for j in near:
        reach = (bound[j + 1 :] - want) / (a[j + 1 :] - a[j])
        i = int(np.argmin(reach))
        left = min(-want / a[j], (high - want) / (a[j] + 1))
        period = float(max(left, reach[i], 0.5 * high, 1e-3 / a[j]))
        slope = np.diff(tilts.log_moment[j - 1 : j + 2]) / np.diff(a[j - 1 : j + 2])
        curvature = float((slope[1] - slope[0]) / (0.5 * (a[j + 1] - a[j - 1])))
        found.append(
            Plan(float(a[j]), float(a[j + 1 + i]), period, max(curvature, 1e-300))
        )
    return min(found, key=lambda plan: plan.period)


class Inversion:
    """The sum on one line: plain, or with an added Gaussian round of noise 1 / smoothing and bounds on every error."""

    def __init__(
        self,
        rounds: Rounds,
        direction: str,
        where: Plan,
        count: int,
        smoothing: float,
        digits: float,
    ):
        if count > MOST_POINTS:
            raise CannotCertify(
                f"it would take {count:,} points on the line, more than {MOST_POINTS:,}"
            )
        self.direction, self.where, self.smoothing = direction, where, smoothing
        self.step = 2 * math.pi / where.period
        a = where.tilt
        if rounds.atoms:
            self.line = minus_one.line_of_atoms(
                rounds, a, direction == ADD, self.step, count
            )
        else:
            self.line = moments_on_line(
                rounds, real_order(direction, a), self.step, count, digits
            )
        if not math.isfinite(self.line.error):
            raise CannotCertify(
                "the moments of a round would take too many nodes, or overflow"
            )
        self.gaussian = rounds.gaussian + smoothing**2
        self.xi = self.step * np.arange(count)
        s = a + 1j * self.xi
        kernel = np.exp(-0.5 * self.gaussian * self.xi**2) / (s * (s + 1))
        kernel[0] *= 0.5
        share = (
            self.line.share
            if direction == ADD or rounds.atoms
            else self.line.share.conj()
        )
        self.size = np.abs(share) + self.line.off
        # e^{(s (s + 1) - a (a + 1)) u / 2} = e^{-u xi^2 / 2} e^{i u xi (a + 1/2)}
        self.terms = share * kernel * np.exp(1j * self.gaussian * self.xi * (a + 0.5))
        self.weights = np.abs(kernel)
        self.log_moment = self.line.log_moment + 0.5 * self.gaussian * a * (a + 1)
        self.rounds, self.apart = rounds, minus_one.apart(rounds)

    def value(self, epsilon: FloatArray | float) -> FloatArray:
        """Compute the sum minus the aliases at negative epsilons, plus what the Gaussian rounds have alone."""
        eps = np.asarray(epsilon, dtype=float)
        value: FloatArray = self.partial_sum(eps) - self.aliases_left(eps)[0]
        return (
            value + gaussian.delta(self.gaussian, eps)[0]
            if self.rounds.atoms
            else value
        )

    def _scale(self, epsilon: FloatArray) -> FloatArray:
        return self.step / math.pi * np.exp(self.log_moment - self.where.tilt * epsilon)

    def partial_sum(self, epsilon: FloatArray) -> FloatArray:
        phase = np.multiply.outer(epsilon, self.xi)
        terms = np.cos(phase) * self.terms.real + np.sin(phase) * self.terms.imag
        return cast("FloatArray", self._scale(epsilon) * terms.sum(axis=-1))

    def aliases_left(
        self, epsilon: FloatArray
    ) -> tuple[FloatArray, FloatArray | float]:
        """Bound the aliases at epsilon - m * period by geometric series, as delta is within (1 - e^epsilon)_+ ... 1."""
        a, period = self.where.tilt, self.where.period
        ones = 1 / math.expm1(min(a * period, 700.0))
        if self.rounds.atoms:  # without the 1 it is within 0 ... min(1, e^epsilon) times the total variation
            once = np.exp(np.minimum(epsilon - (a + 1) * period, 700.0)) / -math.expm1(
                -(a + 1) * period
            )
            return np.zeros(epsilon.shape), self.apart * np.minimum(ones, once)
        m = np.maximum(np.ceil(epsilon / period), 1.0)
        first = np.exp(-a * m * period) / -math.expm1(-a * period)
        less = np.exp(
            np.minimum(epsilon, m * period) - (a + 1) * m * period
        ) / -math.expm1(-(a + 1) * period)
        return first - less, ones

    def prove(self) -> None:
        """Compute once what all bounds need."""
        a, b, period = self.where.tilt, self.where.beyond, self.where.period
        end, kappa = float(self.xi[-1]), self.gaussian
        tail = (
            math.exp(-0.5 * kappa * end**2)
            / end
            * min(1.0, 1 / (kappa * end**2))
            * (1 + 1e-10)
        )
        # errors of the pairwise sum, every factor, e^{-kappa xi^2 / 2 + i kappa xi (a + 1/2)}, and the rounded kappa
        turned = kappa * self.xi * (a + 0.5 + self.xi)
        moved = (
            0.5
            * _MOVED
            * self.rounds.gaussian
            * np.hypot(a, self.xi)
            * np.hypot(a + 1, self.xi)
        )
        rounding = ULP * (54.0 + 8 * abs(self.log_moment) + 4 * turned) + moved
        # relative to the scale: errors of the moments, of their sum, of the phases, and the omitted terms
        each, most = (
            self.weights * self.size,
            minus_one.most(self.line.log_moment) if self.rounds.atoms else 1.0,
        )
        summed = 1.1 * float(
            (each * (rounding + math.expm1(min(self.line.error, 700.0)))).sum()
        )
        self.error = (
            1.1 * float((self.weights * self.line.off).sum())
            + summed
            + most * tail / self.step
        )
        self.phase = 4 * ULP * float((each * (a + self.xi)).sum())
        top = proven_log_moment_at(self.rounds, self.direction, b)
        if self.rounds.atoms:  # their aliases to the right may be negative, but not below those of the Gaussian rounds
            top = max(top, 0.0)
        top += 0.5 * kappa * b * (b + 1)
        gap = (b - a) * period
        self.log_right = top + chernoff_offset(b) - gap - math.log(-math.expm1(-gap))
        self.log_right += 16 * ULP * (
            abs(top) + gap + 4.0
        ) + 0.5 * _MOVED * self.rounds.gaussian * b * (b + 1)

    def bounds(self, epsilon: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Bound the smoothed delta from below and above."""
        eps = np.asarray(epsilon, dtype=float)
        middle = self.partial_sum(eps)
        a, b, period = self.where.tilt, self.where.beyond, self.where.period
        off = self._scale(eps) * (self.error + self.phase * np.abs(eps))
        right = np.exp(
            np.minimum(self.log_right - b * eps + 8 * ULP * b * np.abs(eps), 700.0)
        )
        left_low, left_high = self.aliases_left(eps)
        if self.rounds.atoms:
            off += (
                self.rounds.lost / math.expm1(min(a * period, 700.0))
                + 1e-12 * left_high
            )
            low, high = (
                gaussian.delta(self.gaussian * (1 + way * 2 * _MOVED), eps)[i]
                for i, way in ((1, -1), (2, 1))
            )
            return middle + low - left_high - right - off, middle + high + right + off
        # errors of both series and of the period in them; the two parts that cancel are at most left_high
        off += 8 * ULP * left_high * (4 + (a + 1) * (period + np.abs(eps)))
        return middle - left_high - right - off, middle - left_low + off

    def upper(self, epsilon: float) -> float:
        """Bound delta from above by the smoothed one, as one more round can only raise it."""
        return float(self.bounds(epsilon)[1])

    def lower(self, epsilon: float) -> float:
        """Bound delta from below, from the known mean of a convex function and upper bounds at other points."""
        tau, a = self.smoothing, self.where.tilt
        at, weight = hats(tau)
        low, high = self.bounds(epsilon + tau * at)
        others = np.minimum(high, 1.0) * weight
        others[_LEFT] = 0.0
        # below the last point delta is at most its Chernoff bound, whose mean is known
        smooth = 0.5 * tau * tau * a * (a + 1)
        log_tail = (
            self.log_moment
            - smooth
            + chernoff_offset(a)
            - a * epsilon
            + self.line.error
            + smooth
        )
        tail = math.exp(min(log_tail, 700.0)) * float(
            ndtr(float(at[0]) + 0.5 * tau + a * tau)
        )
        return (float(low[_LEFT]) - (float(others.sum()) + tail) * (1 + 1e-10)) / (
            float(weight[_LEFT]) * (1 + 1e-10)
        )


_LEFT, _RIGHT, _SPACING = 5, 3, 1.7
_GAUSS = np.polynomial.legendre.leggauss(24)


@lru_cache(maxsize=64)
def hats(tau: float) -> tuple[FloatArray, FloatArray]:
    """Return points in units of tau, and the weights of hat functions linear in k under the log-normal distribution."""
    at = _SPACING * np.arange(-_LEFT, _RIGHT + 1, dtype=float)
    weight = np.zeros(at.size)
    for j in range(at.size - 1):
        x = 0.5 * (at[j] + at[j + 1]) + 0.5 * _SPACING * _GAUSS[0]  # ln k / tau
        z = x + 0.5 * tau
        mass = (
            0.5 * _SPACING * _GAUSS[1] * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        )
        share = np.expm1(tau * (x - at[j])) / math.expm1(tau * _SPACING)
        weight[j] += float((mass * (1 - share)).sum())
        weight[j + 1] += float((mass * share).sum())
    weight[-1] += float(ndtr(-(at[-1] + 0.5 * tau)))
    return at, weight
