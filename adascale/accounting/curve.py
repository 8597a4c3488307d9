"""The whole curve of delta over epsilon: the trade-off function, and the Gaussian mechanism that leaks as much."""

import math
from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting.events import Events, compose_events
from adascale.accounting.exact import gaussian
from adascale.accounting.exact.certify import delta_interval, epsilon
from adascale.accounting.exact.moments import ULP
from adascale.accounting.exact.rounds import Rounds
from adascale.accounting.interval import CertifiedInterval
from adascale.checks import FloatArray

_TOLERANCE = 1e-3  # relative, of beta
_LARGEST = 700.0  # largest epsilon of a point of the trade-off curve, as e^epsilon overflows beyond
_MOST_POINTS = 60  # of the trade-off curve
_FIRST, _MOST = 9, 40  # of mu: evaluations of delta
_STEPS = 50  # between two of them
_NEAR = 4e-3  # relative width of mu to aim for


@overload
def beta(events: Events, alpha: float) -> CertifiedInterval: ...


@overload
def beta(
    events: Events, alpha: Sequence[float] | FloatArray
) -> NDArray[np.object_]: ...


def beta(events: Events, alpha: ArrayLike) -> CertifiedInterval | NDArray[np.object_]:
    r"""Compute the smallest miss rate of a test with false-alarm rate :math:`\alpha`, between proven bounds.

    .. math::
        \beta(\alpha) = \sup_{\varepsilon \ge 0} \max\big\{0,\; 1 - \delta(\varepsilon) - e^{\varepsilon} \alpha,\;
        e^{-\varepsilon} (1 - \delta(\varepsilon) - \alpha)\big\}

    Parameters
    ----------
    events
        As in :func:`~adascale.accounting.epsilon`.
    alpha : array_like, in [0, 1]
        With many, the trade-off curve: an array of intervals, whose ``astype(float)`` are the lower bounds.

    Examples
    --------
    >>> beta([(0.01, 1.0, 1000)], alpha=[0.01, 0.1]).astype(float)
    array([0.970..., 0.805...])
    """
    rates = check.between("alpha", alpha, 0.0, 1.0)
    curve = _Curve(compose_events(events).to_rounds())
    intervals = np.array([curve.miss_rate(rate) for rate in rates.ravel().tolist()])
    return intervals.reshape(rates.shape) if rates.ndim else intervals[0]


class _Curve:
    """Proven points of m(k) = 1 - delta(ln k), which is concave with m(k) = k m(1 / k)."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.points: list[tuple[float, ...]] = [(0.0, 0.0, 0.0, 0.0)]
        self.proofs = {0.0: "exact"}
        self.add(0.0)

    def add(self, log_k: float) -> None:
        """Evaluate delta, which gives the points at k and 1 / k."""
        interval = delta_interval(self.rounds, abs(log_k))
        values = (interval.upper, interval.lower, interval.estimate)
        for k in {math.exp(log_k), math.exp(-log_k)}:
            self.points.append((k, *(min(k, 1.0) * (1 - value) for value in values)))
            self.proofs[k] = interval.ends[1]

    def miss_rate(self, alpha: float) -> CertifiedInterval:
        """Bound the supremum of m(k) - alpha k over k > 0, and add points until the bounds are near."""
        if alpha == 0 and math.exp(_LARGEST) not in self.proofs:
            self.add(_LARGEST)
        last = len(self.points) + _MOST_POINTS
        while True:
            k, lower, upper, value = np.array(sorted(self.points)).T
            proven = lower - alpha * k - 8 * ULP * (lower + alpha * k)
            best = int(proven.argmax())
            high, top = _concave_maximum(k, lower, upper, alpha)
            near = _TOLERANCE * min(high, 1 - proven[best])
            near = max(near, 1.5 * (upper[best] - lower[best]))
            if high - proven[best] <= near or len(self.points) > last:
                break
            top = min(max(top, -_LARGEST), _LARGEST)
            if math.isnan(top) or math.exp(top) in self.proofs:
                break
            self.add(top)
        low = max(float(proven[best]), 0.0)
        high = min(high, 1 - alpha)  # a test that guesses misses 1 - alpha
        estimate = min(max(float((value - alpha * k).max()), low), high)
        ends = self.proofs[float(k[best])], "concavity"
        return CertifiedInterval(low, high, ends, "both", estimate, low)


def _concave_maximum(
    k: FloatArray, lower: FloatArray, upper: FloatArray, alpha: float
) -> tuple[float, float]:
    """Bound the maximum of m(k) - alpha k from above; return also ln of its k, or NaN if that is one of the points.

    As m is concave, it lies below lines through the upper bounds at both ends of an interval, whose slopes are
    bounded by the points beyond them.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = (upper[:, None] - lower) / (k[:, None] - k)
    is_before = np.tri(k.size, k=-1, dtype=bool)
    rise = np.where(is_before, slopes, 1.0).min(axis=1)  # m is at most 1
    fall = np.where(is_before.T, slopes, 0.0).max(axis=1)[1:]
    # of every interval its ends, and where both lines meet
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = k[:-1] + (np.diff(upper) - fall * np.diff(k)) / (rise[:-1] - fall)
    meet = np.where(rise[:-1] > fall, np.clip(meet, k[:-1], k[1:]), k[:-1])
    x = np.array([k[:-1], meet, k[1:]])
    from_left = upper[:-1] + rise[:-1] * (x - k[:-1])
    from_right = upper[1:] - fall * (k[1:] - x)
    x = x.ravel()
    bound = np.minimum(from_left, from_right).ravel()
    # beyond the last point
    last = k[-1]
    if rise[-1] > alpha:
        last += (1 - upper[-1]) / rise[-1]
    x = np.append(x, last)
    bound = np.append(bound, upper[-1] + rise[-1] * (last - k[-1])) - alpha * x
    bound += 16 * ULP * (np.abs(bound) + 2 * alpha * x)
    best = int(bound.argmax())
    is_point = bool((k == x[best]).any())
    return float(bound[best]), math.nan if is_point else math.log(x[best])


def gaussian_mu(events: Events, delta: float) -> CertifiedInterval:
    r"""Compute the least :math:`\mu` of a Gaussian mechanism that leaks as much at every :math:`\varepsilon`.

    .. math::
        \mu^\star = \sup_{\delta \le \delta(\varepsilon) \le 1 - \delta} \mu(\varepsilon, \delta(\varepsilon)),
        \qquad \delta_\mu(\varepsilon) = \Phi(\mu/2 - \varepsilon/\mu) - e^\varepsilon \Phi(-\mu/2 - \varepsilon/\mu)

    It says nothing where :math:`\delta(\varepsilon)` is below ``delta``: with sampling, no :math:`\mu` holds for every
    :math:`\varepsilon`. (Gomez et al., arXiv 2503.10945.)

    Parameters
    ----------
    events, delta
        As in :func:`~adascale.accounting.epsilon`.

    Examples
    --------
    >>> print(gaussian_mu([(1, 2.0, 1)], delta=1e-5))
    [0.499999, 0.501...]
    """
    start = epsilon(events, 1 - delta).lower if delta < 0.5 else 0.0
    end = epsilon(events, delta).upper
    if end == 0:
        return CertifiedInterval(0.0, 0.0, ("trivial", "trivial"), "both", 0.0, 0.0)
    rounds = compose_events(events).to_rounds()
    points: dict[float, CertifiedInterval] = {}
    missing = np.linspace(start, end, _FIRST).tolist()
    while True:
        points |= {eps: delta_interval(rounds, eps) for eps in missing}
        eps = np.array(sorted(points))
        lower, upper = np.array([(points[x].lower, points[x].upper) for x in eps]).T
        fine = np.linspace(eps[:-1], eps[1:], _STEPS, endpoint=False, axis=1)
        # delta is convex in e^epsilon, and so below its chords
        with np.errstate(over="ignore", invalid="ignore"):
            share = np.expm1(fine - eps[:-1, None]) / np.expm1(np.diff(eps))[:, None]
        chord = upper[:-1, None] + np.nan_to_num(share) * np.diff(upper)[:, None]
        # mu increases with epsilon and with delta
        largest = _mu(np.append(fine.ravel()[1:], end), chord.ravel() * (1 + 1e-12), 1)
        worst = int(largest.argmax())
        least = _mu(eps, lower, 2)
        best = int(least.argmax())
        lowest = float(least[best])
        highest = float(largest[worst])
        if highest - lowest <= _NEAR * highest or len(points) >= _MOST:
            break
        gap = worst // _STEPS
        missing = [float(0.5 * (eps[gap] + eps[gap + 1]))]
    ends = points[float(eps[best])].ends[0], "convexity"
    lowest = min(lowest, highest)
    return CertifiedInterval(lowest, highest, ends, "both", highest, highest)


def _mu(eps: FloatArray, delta: FloatArray, side: int) -> FloatArray:
    """Solve for mu by bisection, with the lower (1) or upper (2) bound of the Gaussian delta."""
    low = np.full(eps.shape, 1e-9)
    high = np.full(eps.shape, 1e6)
    for _ in range(70):
        mu = np.sqrt(low * high)
        is_below = gaussian.delta(mu * mu, eps)[side] < delta
        low = np.where(is_below, mu, low)
        high = np.where(is_below, high, mu)
    return np.where(delta > 0, high if side == 1 else low, 0.0)
