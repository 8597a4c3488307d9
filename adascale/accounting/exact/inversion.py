"""delta(epsilon) by inversion on a vertical line (:eq:`eq:inversion`), bounded from both sides (:ref:`app-exact`).

:math:`G(s) = M(1 + s)` for mixture against null ("add"), :math:`M(-s)` for null against mixture ("remove").
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import ndtr

from adascale.accounting.exact import discrete, gaussian
from adascale.accounting.exact.moments import QUIET, ULP, log_moments
from adascale.accounting.exact.rounds import (
    Line,
    Rounds,
    moments_on_line,
    proven_log_moment,
    thinned,
)
from adascale.accounting.interval import ADD
from adascale.checks import FloatArray
from adascale.errors import CannotCertify

# relative error of the energy of the Gaussian rounds: u has 48 binary digits
_MOVED = 2.0**-48 + 4 * ULP
_RATIO = 1.25  # ratio of successive tilts to try
_MOST_TILTS = 150
_AT_ONCE = 8  # tilts at which moments are computed together
_NEAR = 6  # tilts on either side of the best one
MOST_POINTS = 100_000  # largest number of points on a line
_UNDERFLOW = 1e-315  # exceeds the error of every product and exponential near the smallest double
_LARGEST_TAU = 40.0  # up to here the rule of 24 points has ten digits


def real_order(direction: str, tilt: Any) -> Any:
    """Return the real part of z for a tilt a > 0."""
    return 1.0 + tilt if direction == ADD else -tilt


def chernoff_offset(tilt: Any) -> Any:
    """Compute ln of the maximum of (1 - e^{-x})_+ e^{-a x}, which the Renyi conversion adds."""
    return -tilt * np.log1p(1 / tilt) - np.log1p(tilt)


def log_chernoff(tilt: Any, log_moment: Any, epsilon: float) -> Any:
    """Bound ln delta from above at every tilt, by proven ln G of all rounds; infinite losses come on top."""
    rounding = 1e-13 * (np.abs(log_moment) + tilt * epsilon + 10)
    return log_moment + chernoff_offset(tilt) - tilt * epsilon + rounding


def gaussian_log_moment(energy: float, tilt: Any) -> Any:
    """Compute ln G of Gaussian rounds of this energy at a tilt."""
    return 0.5 * energy * tilt * (tilt + 1)


def proven_log_moment_at(rounds: Rounds, direction: str, tilt: float) -> float:
    """Bound ln G(tilt) of all rounds but the Gaussian ones from above."""
    sampled = proven_log_moment(rounds, real_order(direction, tilt))
    if not rounds.atoms:
        return sampled
    return discrete.log_moment_above(rounds, tilt, direction == ADD) + sampled


def moments_at(
    rounds: Rounds,
    direction: str,
    tilt: float,
    step: float,
    count: int,
    accuracy: float,
) -> Line:
    """Compute G, or G - 1 of atoms, at tilt + i k step for k < count, over G(tilt), to exp(-accuracy)."""
    if rounds.atoms:
        return discrete.line_of_atoms(rounds, tilt, direction == ADD, step, count)
    line = moments_on_line(rounds, real_order(direction, tilt), step, count, accuracy)
    return line if direction == ADD else line._replace(share=line.share.conj())


class Tilts(NamedTuple):
    """Approximate ln G at some tilts, from fewer rounds; no proof uses it."""

    direction: str
    tilt: FloatArray
    log_moment: FloatArray
    # of the conversion at the best tilt, approximately, if a delta was given
    renyi_epsilon: float

    def log_bound(self, epsilon: float) -> FloatArray:
        """Compute ln of the Chernoff bound of delta at every tilt."""
        return np.asarray(
            self.log_moment - self.tilt * epsilon + chernoff_offset(self.tilt)
        )

    def best(self, epsilon: float) -> float:
        """Return the tilt of the least Chernoff bound, approximately -d ln delta / d epsilon."""
        return float(self.tilt[np.argmin(self.log_bound(epsilon))])

    def log_size(self, tilt: float, epsilon: float) -> float:
        """Interpolate ln(G(tilt) e^{-tilt epsilon}), the size of the terms of the sum."""
        return float(np.interp(tilt, self.tilt, self.log_moment)) - tilt * epsilon


@QUIET
def scan_tilts(
    rounds: Rounds,
    direction: str,
    log_delta: float | None,
    epsilon: float = 0.0,
    enough: float = -math.inf,
) -> Tilts:
    """Evaluate ln G around the best tilt for this delta, or for this epsilon if ``log_delta`` is None.

    Tilts are a geometric sequence from that of the central limit theorem, which goes on in both directions until the
    best one is not near an end, or is good ``enough``.  The best one has the least epsilon of the Renyi conversion for
    the given delta, or the least ln of Chernoff's bound on delta for the given epsilon; ``enough`` is a value of that.
    """
    few = thinned(rounds)
    variance = few.variance
    if log_delta is None:
        start = max(0.1, epsilon / variance)
    else:
        start = math.sqrt(-2 * min(log_delta, -0.1) / variance)

    def rows(first: int) -> FloatArray:
        """Return some tilts, ln G there and what is to be the least."""
        a = start * _RATIO ** np.arange(first, first + _AT_ONCE, dtype=float)
        a = np.where(1 + a > 1, (1 + a) - 1, a)  # so that 1 + a is not rounded
        log_moment = _approximate_log_moment(few, direction, a)
        score = log_moment + chernoff_offset(a)
        score = score - a * epsilon if log_delta is None else (score - log_delta) / a
        score[~np.isfinite(score)] = math.inf
        return np.stack([a, log_moment, score], axis=1)

    zero = _AT_ONCE // 2  # the index of the first tilt
    table = rows(-zero)
    while True:
        best = int(table[:, 2].argmin())
        least = float(table[best, 2])
        if least <= enough:
            break
        if best < _NEAR and zero < _MOST_TILTS:
            table = np.concatenate([rows(-zero - _AT_ONCE), table])
            zero += _AT_ONCE
        elif best + _NEAR >= len(table) and len(table) - zero < _MOST_TILTS:
            table = np.concatenate([table, rows(len(table) - zero)])
        else:
            table = table[max(min(best - _NEAR, zero), 0) : max(best + _NEAR, zero) + 1]
            break
    table = table[np.isfinite(table[:, 2])]
    if len(table) < 3:
        raise CannotCertify("its moments overflow near the best order")
    return Tilts(direction, table[:, 0], table[:, 1], least)


def _approximate_log_moment(
    rounds: Rounds, direction: str, tilt: FloatArray
) -> FloatArray:
    """Compute ln G at every tilt, to four digits for all rounds together."""
    orders = real_order(direction, tilt)
    n = rounds.number
    # -ln of the error of one round: e^-9 is about four digits, and errors of n rounds add up
    accuracy = max(9.0, 4.0 + math.log(max(n.sum(), 1.0)))
    moments = log_moments(rounds.u, rounds.rate, orders[:, None], accuracy)[0]
    sampled = (n * moments).sum(axis=-1)
    of_atoms = sum(count * atom.log_moment(orders) for atom, count in rounds.atoms)
    gaussian_rounds = gaussian_log_moment(rounds.gaussian, tilt)
    return np.asarray(sampled + of_atoms + gaussian_rounds)


class Plan(NamedTuple):
    """A vertical line to sum on, with the period of the sum.

    The sum repeats delta with this period in epsilon, and its aliases to the right are bounded at a larger tilt.
    """

    tilt: float
    beyond: float  # the larger tilt
    period: float
    curvature: float  # approximately the second derivative of ln G at the tilt: how fast the terms decay


def choose_line(
    tilts: Tilts,
    low: float,
    high: float,
    log_delta: float,
    log_tolerance: float,
    tau: float = 0.0,
) -> Plan:
    """Find the shortest period whose aliases are below the tolerance for every epsilon in ``low ... high``.

    The tolerance is relative to a delta of this logarithm, and ``tau`` the smoothing of the sum.  Tilts are tried whose
    Chernoff bound is within e^6 of the least one.
    """
    a = tilts.tilt
    log_bound = tilts.log_bound(low) + gaussian_log_moment(tau * tau, a)
    log_alias = log_delta + log_tolerance
    near = np.flatnonzero(log_bound[1:-1] < log_bound.min() + 6.0) + 1
    if near.size == 0:
        raise CannotCertify("its moments overflow near the best order")
    plans = []
    for j in near:
        right = (log_bound[j + 1 :] - log_alias) / (a[j + 1 :] - a[j])
        i = int(np.argmin(right))
        left = min(-log_alias / a[j], (high - log_alias) / (a[j] + 1))
        period = float(max(left, right[i], 0.5 * high, 1e-3 / a[j]))
        slope = np.diff(tilts.log_moment[j - 1 : j + 2]) / np.diff(a[j - 1 : j + 2])
        curvature = float((slope[1] - slope[0]) / (0.5 * (a[j + 1] - a[j - 1])))
        plans.append(
            Plan(float(a[j]), float(a[j + 1 + i]), period, max(curvature, 1e-300))
        )
    return min(plans, key=lambda plan: plan.period)


def largest_smoothing(epsilon: float, slope: float) -> float:
    """Return the largest tau at which smoothing moves little, where -ln delta has this slope, but at least 0.5.

    Smoothing moves epsilon by about tau^2 / 2: at most by 4.5e-4 of itself, and so that ln delta changes by 0.3.
    """
    tau = min(0.03 * math.sqrt(epsilon), math.sqrt(0.6 / slope), _LARGEST_TAU)
    return max(tau, 0.5)


class Inversion:
    """The sum on one line: plain, or with an added Gaussian round of noise 1 / smoothing and bounds on every error."""

    def __init__(
        self,
        rounds: Rounds,
        direction: str,
        where: Plan,
        count: int,
        smoothing: float,
        accuracy: float,
    ):
        if count > MOST_POINTS:
            raise CannotCertify(
                f"it would take {count:,} points on the line, more than {MOST_POINTS:,}"
            )
        self.rounds, self.direction = rounds, direction
        self.where, self.smoothing = where, smoothing
        self.step = 2 * math.pi / where.period
        a = where.tilt
        self.line = moments_at(rounds, direction, a, self.step, count, accuracy)
        self.variation = rounds.variation_of_atoms
        self.smoothed_energy = rounds.gaussian + smoothing**2
        self.xi = self.step * np.arange(count)
        s = a + 1j * self.xi
        kernel = np.exp(-0.5 * self.smoothed_energy * self.xi**2) / (s * (s + 1))
        kernel[0] *= 0.5
        self.weights = np.abs(kernel)
        self.size = np.abs(self.line.share) + self.line.off
        # e^{(s (s + 1) - a (a + 1)) u / 2} = e^{-u xi^2 / 2} e^{i u xi (a + 1/2)}
        turn = np.exp(1j * self.smoothed_energy * self.xi * (a + 0.5))
        self.terms = self.line.share * kernel * turn
        self.log_moment = self.line.log_moment + gaussian_log_moment(
            self.smoothed_energy, a
        )

    def value(self, epsilon: FloatArray | float) -> FloatArray:
        """Compute the sum minus the aliases at negative epsilons, plus what the Gaussian rounds have alone."""
        eps = np.asarray(epsilon, dtype=float)
        value: FloatArray = self.partial_sum(eps) - self.aliases_left(eps)[0]
        if self.rounds.atoms:
            value = value + gaussian.delta(self.smoothed_energy, eps)[0]
        return value

    def _scale(self, epsilon: FloatArray) -> FloatArray:
        size: FloatArray = np.exp(self.log_moment - self.where.tilt * epsilon)
        return self.step / math.pi * size

    def partial_sum(self, epsilon: FloatArray) -> FloatArray:
        """Compute the trapezoidal sum on the line, aliases included."""
        phase = np.multiply.outer(epsilon, self.xi)
        terms = np.cos(phase) * self.terms.real + np.sin(phase) * self.terms.imag
        return cast("FloatArray", self._scale(epsilon) * terms.sum(axis=-1))

    def aliases_left(
        self, epsilon: FloatArray
    ) -> tuple[FloatArray, FloatArray | float]:
        """Bound the aliases at epsilon - m * period, m > 0, by geometric series.

        Delta is within 1 - min(1, e^epsilon) ... 1; of atoms, without the 1, it is within 0 ... min(1, e^epsilon)
        times the total variation.
        """
        a = self.where.tilt
        period = self.where.period
        ones = math.exp(-a * period) / -math.expm1(-a * period)
        once = np.exp(np.minimum(epsilon - (a + 1) * period, 700.0))
        below_one = np.minimum(ones, once / -math.expm1(-(a + 1) * period))
        if self.rounds.atoms:
            return np.zeros(epsilon.shape), self.variation * below_one
        return ones - below_one, ones

    def prepare_bounds(self) -> None:
        """Compute once what :meth:`bounds`, :meth:`upper` and :meth:`lower` need; call it before them."""
        a = self.where.tilt
        kappa = self.smoothed_energy
        # errors of the pairwise sum, every factor, e^{-kappa xi^2 / 2 + i kappa xi (a + 1/2)}, and the rounded kappa
        turned = kappa * self.xi * (a + 0.5 + self.xi)
        size_of_kernel = np.hypot(a, self.xi) * np.hypot(a + 1, self.xi)
        moved = 0.5 * _MOVED * self.rounds.gaussian * size_of_kernel
        rounding = ULP * (54.0 + 8 * abs(self.log_moment) + 4 * turned) + moved
        # relative to the scale: errors of the moments, of their sum, of the phases, and the terms beyond the last
        size = self.weights * self.size
        of_moment = math.expm1(min(self.line.error, 700.0))
        summed = 1.1 * float((size * (rounding + of_moment)).sum())
        end = float(self.xi[-1])
        tail = math.exp(-0.5 * kappa * end**2) / end * min(1.0, 1 / (kappa * end**2))
        tail *= 1 + 1e-10
        most = (
            discrete.largest_share(self.line.log_moment) if self.rounds.atoms else 1.0
        )
        of_shares = 1.1 * float((self.weights * self.line.off).sum())
        self.error = of_shares + summed + most * tail / self.step
        self.phase = 4 * ULP * float((size * (a + self.xi)).sum())
        self.underflow = _UNDERFLOW * (1 + float(size.sum()))
        self.log_right = self._log_aliases_right()

    def _log_aliases_right(self) -> float:
        """Bound ln of the aliases to the right at epsilon = 0 by Chernoff's bound at the larger tilt."""
        b = self.where.beyond
        kappa = self.smoothed_energy
        top = proven_log_moment_at(self.rounds, self.direction, b)
        # their aliases may be negative, but not below those of the Gaussian rounds
        if self.rounds.atoms:
            top = max(top, 0.0)
        top += gaussian_log_moment(kappa, b)
        gap = (b - self.where.tilt) * self.where.period
        log_series = top + chernoff_offset(b) - gap - math.log(-math.expm1(-gap))
        rounding = 16 * ULP * (abs(top) + gap + 4.0)
        return float(
            log_series + (rounding + 0.5 * _MOVED * self.rounds.gaussian * b * (b + 1))
        )

    def bounds(self, epsilon: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Bound the smoothed delta from below and above."""
        eps = np.asarray(epsilon, dtype=float)
        middle = self.partial_sum(eps)
        a = self.where.tilt
        b = self.where.beyond
        period = self.where.period
        off = self._scale(eps) * (self.error + self.phase * np.abs(eps))
        log_right = self.log_right - b * eps + 8 * ULP * b * np.abs(eps)
        right = np.exp(np.minimum(log_right, 700.0))
        left_low, left_high = self.aliases_left(eps)
        # errors of both series and of the period in them; the two parts that cancel are at most left_high
        off += 8 * ULP * left_high * (4 + (a + 1) * (period + np.abs(eps)))
        off += self.underflow
        if not self.rounds.atoms:
            return middle - left_high - right - off, middle - left_low + off
        lost = self.rounds.infinite_mass(self.direction)
        off += lost * math.exp(-a * period) / -math.expm1(-a * period)
        low = gaussian.delta(self.smoothed_energy * (1 - 2 * _MOVED), eps)[1]
        high = gaussian.delta(self.smoothed_energy * (1 + 2 * _MOVED), eps)[2]
        return middle + low - left_high - right - off, middle + high + right + off

    def upper(self, epsilon: float) -> float:
        """Bound delta from above by the smoothed one, as one more round can only raise it."""
        return float(self.bounds(epsilon)[1])

    def lower(self, epsilon: float) -> float:
        """Bound delta from below, from the known mean of a convex function and upper bounds at other points.

        The smoothed delta is the mean of delta over k, by which e^epsilon is multiplied.  As delta is convex in it, the
        mean is at most the sum of the values at the points, weighted by :func:`hats`.
        """
        tau = self.smoothing
        a = self.where.tilt
        points, weight = hats(tau)
        # the added round multiplies e^epsilon by a factor whose median is e^{-tau^2 / 2}
        low, high = self.bounds(epsilon + np.append(tau * points, 0.5 * tau * tau))
        others = np.minimum(high[:-1], 1.0) * weight
        others[_CENTRE] = 0.0
        # below the last point delta is at most its Chernoff bound, whose mean is known
        smooth = gaussian_log_moment(tau * tau, a)
        log_bound = self.log_moment - smooth + chernoff_offset(a) - a * epsilon
        log_tail = log_bound + self.line.error + 0.5 * (a * tau) ** 2
        tail = math.exp(min(log_tail, 700.0)) * float(ndtr(points[0] + a * tau))
        above = (float(others.sum()) + tail) * (1 + 1e-10)
        return (float(low[-1]) - above) / (float(weight[_CENTRE]) * (1 + 1e-10))


_LEFT, _RIGHT, _SPACING = 5, 3, 1.7
_CENTRE = _LEFT  # the index of the point 0
_GAUSS = np.polynomial.legendre.leggauss(24)


@lru_cache(maxsize=64)
def hats(tau: float) -> tuple[FloatArray, FloatArray]:
    """Return points x in units of tau, and the mean of the hat function of each under the log-normal k = e^{tau x}.

    A hat function is 1 at its own point, 0 at the others, and linear in k between them; the last one stays 1 beyond its
    point, and the first one begins there.  x is standard normal.
    """
    points = _SPACING * np.arange(-_LEFT, _RIGHT + 1, dtype=float)
    weight = np.zeros(points.size)
    for j in range(points.size - 1):
        middle = 0.5 * (points[j] + points[j + 1])
        x = middle + 0.5 * _SPACING * _GAUSS[0]  # ln k / tau
        mass = 0.5 * _SPACING * _GAUSS[1] * np.exp(-0.5 * x * x)
        mass /= math.sqrt(2 * math.pi)
        share = np.expm1(tau * (x - points[j])) / math.expm1(tau * _SPACING)
        weight[j] += float((mass * (1 - share)).sum())
        weight[j + 1] += float((mass * share).sum())
    weight[-1] += float(ndtr(-points[-1]))
    return points, weight
