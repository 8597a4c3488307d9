r"""Moments of a whole schedule, interpolated in :math:`\ln u` by :eq:`eq:complex-noise` (:ref:`app-exact`)."""

import math
from typing import NamedTuple

import numpy as np

from adascale.accounting.exact.moments import (
    ULP,
    ComplexArray,
    line,
    log_moments,
    log_moments_above,
)
from adascale.accounting.kernels import FloatArray

_MOST = 65  # a panel must have fewer nodes
_ELLIPSES = np.array(
    [1.4, 1.7, 2.1, 2.6, 3.4, 4.8, 7.0, 11.0]
)  # the parameters rho to try
_STEEP = (
    6.0  # ln of the largest growth of a moment over a panel, as rounding grows with it
)
_DEPTH = 6  # largest number of halvings of the range of ln u
_NARROW = 1e-3  # width of a range of ln u below which rounding dominates
_KEPT = 48  # binary digits of u
# Change of M(z) from this rounding, over u |z (z - 1)| M(c), where dM/du = z (z - 1) E[p^2 (1 - q + q e^L)^z] / 2
MOVED = 0.505 * (2.0**-_KEPT + 4 * ULP)
_BLOCK = 2048  # rounds at a time, to bound the memory
_ONE_CORE = (
    2**17
)  # multiplications in each product of matrices: for larger ones OpenBLAS uses several threads


class Atoms(NamedTuple):
    """A round whose loss has finitely many values."""

    loss: FloatArray  # y, the logarithms of the likelihood ratio, ascending
    mass: FloatArray  # the masses under the null, which sum to 1
    loss_off: FloatArray  # bounds on the error of each loss
    mass_off: FloatArray  # bounds on the relative error of each mass
    lost: float  # the mass under the mixture that lies on no atom
    lost_off: float  # a bound on its error


class Rounds(NamedTuple):
    """A schedule as its moments need it; equal rounds appear once."""

    rates: tuple[float, ...]  # the sampling rates in (0, 1)
    energies: tuple[
        FloatArray, ...
    ]  # for each rate, the distinct u = 1 / sigma^2, ascending
    counts: tuple[FloatArray, ...]  # how often each u appears in the schedule
    gaussian: float  # the sum of u over the rounds without sampling, which are one Gaussian mechanism together
    size: int  # total number of rounds
    atoms: tuple[
        tuple[Atoms, float], ...
    ] = ()  # rounds of finitely many losses, and how often each appears

    @property
    def kinds(self) -> list[tuple[float, float, float]]:
        """Rate, u and count of every distinct sampled round."""
        each = zip(self.rates, self.energies, self.counts, strict=True)
        return [
            (q, u, n)
            for q, us, ns in each
            for u, n in zip(us.tolist(), ns.tolist(), strict=True)
        ]

    @property
    def expected(self) -> float:
        """Expected number of rounds that use a sample."""
        return sum(
            q * float(n.sum()) for q, n in zip(self.rates, self.counts, strict=True)
        )

    @property
    def lost(self) -> float:
        """Bound the mass under the mixture that lies on no atom from above."""
        return sum(n * (atom.lost + atom.lost_off) for atom, n in self.atoms) * (
            1 + 1e-12
        )


class Line(NamedTuple):
    """Moments of the schedule on the points c + i k h of a vertical line."""

    log_moment: float  # ln M(c), without the Gaussian rounds
    share: ComplexArray  # M(c + i k h) / M(c), shape (count,)
    error: float  # bound on the error of ln M(c)
    off: FloatArray  # bound on the error of each share


def rounds_of(
    rate: FloatArray, sigma: FloatArray, count: FloatArray | None = None
) -> Rounds:
    """Collect the rounds, given as arrays of equal length, and drop those that are never sampled."""
    mantissa, exponent = np.frexp(
        sigma**-2.0
    )  # so that rounds that differ only by rounding are merged
    u = np.ldexp(np.round(mantissa * 2.0**_KEPT) * 2.0**-_KEPT, exponent)
    n = np.ones(u.shape) if count is None else count
    rates = tuple(float(q) for q in np.unique(rate[n > 0]) if 0 < q < 1)
    masks = [(rate == q) & (n > 0) for q in rates]
    found = [(*np.unique(u[here], return_inverse=True), n[here]) for here in masks]
    energies = tuple(distinct for distinct, *_ in found)
    counts = tuple(
        np.bincount(place, number).astype(float) for _, place, number in found
    )
    return Rounds(
        rates, energies, counts, math.fsum((n * u)[rate == 1]), int(n[rate > 0].sum())
    )


def thinned(
    rounds: Rounds, width: float = 0.2
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Approximate the schedule by few distinct noises (u, rates, counts); no proof uses it."""
    u, q, n = [np.empty(0)], [np.empty(0)], [np.empty(0)]
    for rate, energy, count in zip(*rounds[:3], strict=True):
        if energy.size > 12:
            v = np.log(energy)
            size = int((v[-1] - v[0]) / width) + 2
            place = (v - v[0]) / max(v[-1] - v[0], 1e-300) * (size - 1)
            left = np.minimum(place.astype(int), size - 2)
            number: FloatArray = np.bincount(
                left, count * (1 - place + left), size
            ).astype(float)
            number += np.bincount(left + 1, count * (place - left), size)
            energy, count = (
                np.exp(np.linspace(v[0], v[-1], size))[number > 0],
                number[number > 0],
            )
        u.append(energy)
        q.append(np.full(energy.size, rate))
        n.append(count)
    return np.concatenate(u), np.concatenate(q), np.concatenate(n)


def proven_log_moment(rounds: Rounds, c: float) -> float:
    """Bound ln M(c) of the sampled Gaussian rounds from above, quadrature and rounding included."""
    total, moved = 0.0, 0.0
    for q, u, number in zip(*rounds[:3], strict=True):
        each = number * log_moments_above(u, q, c)
        total += float(each.sum() + ULP * (u.size + 4.0) * np.abs(each).sum()) * (
            1 + 4 * ULP
        )
        moved += 1.05 * float((number * u).sum()) * MOVED * abs(c * (c - 1))
    return total + moved


def moments_on_line(
    rounds: Rounds, c: float, h: float, count: int, digits: float
) -> Line:
    """Multiply the moments of all rounds; ``digits`` is -ln of the interpolation error, where there is one."""
    total, share, error, drift, magnitude = (
        0.0,
        np.ones(count, dtype=complex),
        0.0,
        0.0,
        0.0,
    )
    moved, worst, worst_k, failed = (
        0.0,
        0.0,
        0.0,
        Line(math.nan, share, math.inf, np.full(count, math.inf)),
    )
    for q, energy, number in zip(*rounds[:3], strict=True):
        logs = np.log(energy)
        for first, last, nodes in _panels(q, logs, c, digits):
            u, n = energy[first:last], number[first:last]
            for start in range(0, u.size, _BLOCK):
                part = slice(start, start + _BLOCK)
                matrix = np.empty((0, 0))
                if nodes:
                    matrix, values, scale, off, off_k = interpolated(
                        q, logs[first:last], part, nodes, c, h, count
                    )
                else:
                    values, scale, off, off_k = line(u[part], q, c, h, count)
                if not (math.isfinite(off.sum()) and (values[:, 0].real > 0).all()):
                    return failed
                each = n[part] * (
                    np.log(_multiply(share, matrix, values, n[part])) + scale
                )
                total += float(each.sum())
                magnitude += float(np.abs(each).sum())
                worst, worst_k = (
                    max(worst, float(off.max())),
                    max(worst_k, float(off_k.max())),
                )
                error += float((n[part] * (2.1 * off + 8 * ULP)).sum())
                moved += 2.1 * float((n[part] * u[part]).sum()) * MOVED
                drift += float((n[part] * 2.1 * off_k).sum())
    if not math.isfinite(total):
        return failed
    k = np.arange(count)
    order = (abs(c) + 1 + h * k) ** 2
    error += ULP * (40 * magnitude + 60)
    off = np.expm1(np.minimum(error + drift * k + moved * order, 700.0))
    # a larger error of a quotient of two is not covered by the 2.1; both are at most 1 and the computed value
    largest = max((u[-1] for u in rounds.energies), default=0.0)
    unsure = worst + worst_k * k + MOVED * largest * order > 0.04
    off = np.where(unsure, math.inf, off)
    return Line(
        total,
        share,
        error + moved * float(order[0]),
        np.minimum(off, 1 + np.abs(share)),
    )


def _multiply(
    share: ComplexArray, matrix: FloatArray, values: ComplexArray, number: FloatArray
) -> FloatArray:
    """Multiply ``share`` by every round, a row of ``matrix @ values`` or of ``values``; return M(c) of each."""
    real, block = np.empty(number.size), 4 + 2**18 // share.size * 4
    for start in range(0, number.size, block):
        part = slice(start, start + block)
        row = values[part].view(float)
        if matrix.size:
            row = _product(matrix[part], values.view(float))
        real[part] = row[:, 0]
        row = (row / row[:, :1]).view(complex)
        for n in np.unique(number[part]):
            share *= row[number[part] == n].prod(axis=0) ** n
    return real


def _product(a: FloatArray, b: FloatArray) -> FloatArray:
    """Multiply matrices in pieces of four rows and some columns, each so small that it is computed by one thread."""
    rows = np.pad(a, ((0, -len(a) % 4), (0, 0))).reshape(-1, 4, a.shape[1])
    width = _ONE_CORE // rows[0].size
    columns = [
        rows @ b[:, start : start + width] for start in range(0, b.shape[1], width)
    ]
    return np.concatenate(columns, axis=-1).reshape(-1, b.shape[1])[: len(a)]


def _panels(
    q: float, logs: FloatArray, c: float, digits: float
) -> list[tuple[int, int, int]]:
    """Return runs of rounds and their numbers of nodes, 0 where there are fewer rounds than nodes."""
    found: list[tuple[int, int, int]] = []

    def nodes(first: int, last: int) -> int:
        number = last - first
        return (
            nodes_needed(q, logs[first], logs[last - 1], c, digits, min(number, _MOST))
            if number > 4
            else 0
        )

    def split(first: int, last: int, now: int, depth: int) -> None:
        cut = first + int(
            np.searchsorted(logs[first:last], 0.5 * (logs[first] + logs[last - 1]))
        )
        if first < cut < last and depth:
            left, right = nodes(first, cut), nodes(cut, last)
            if (left or cut - first) + (right or last - cut) < (
                now or last - first
            ) or not now:
                split(first, cut, left, depth - 1)
                split(cut, last, right, depth - 1)
                return
        found.append((first, last, now))

    split(0, logs.size, nodes(0, logs.size), _DEPTH if logs.size > 12 else 0)
    return found


def nodes_needed(
    q: float, low: float, high: float, c: float, digits: float, most: int
) -> int:
    """Find the smallest number of nodes on [low, high] of ln u; return 0 if it is ``most`` or more."""
    if high - low < _NARROW:  # interpolation would magnify the rounding of ln u
        return 0
    at_low, at_high = log_moments(np.exp([low, high]), q, c)[0]
    if not at_high - at_low < _STEEP:
        return 0
    least = (
        np.ceil(
            (digits + _log_bounds(q, low, high, c) - at_low) / np.log(_ELLIPSES)
        ).min()
        + 1
    )
    return max(int(least), 2) if least < most else 0


def _log_bounds(q: float, low: float, high: float, c: float) -> FloatArray:
    """Bound ln of 4 M / (rho - 1) on the Bernstein ellipses rho, by the rectangles around them."""
    half, bound = 0.5 * (high - low), np.full(_ELLIPSES.shape, math.inf)
    angle = 0.5 * half * (_ELLIPSES - 1 / _ELLIPSES)
    narrow = angle < 1.45
    angle, rho = angle[narrow], _ELLIPSES[narrow]
    # the 1.01 of interpolated covers all rounding below except the moment's own
    size = np.exp(high + half * (0.5 * (rho + 1 / rho) - 1))
    more = 0.125 * size * np.tan(angle) * np.sin(angle) - 0.5 * np.log(np.cos(angle))
    bound[narrow] = (
        np.log(4 / (rho - 1)) + more + log_moments_above(size / np.cos(angle), q, c)
    )
    return bound


def interpolated(
    q: float, logs: FloatArray, part: slice, nodes: int, c: float, h: float, count: int
) -> tuple[FloatArray, ComplexArray, FloatArray, FloatArray, FloatArray]:
    """Return the interpolation weights, and :func:`line` at the Chebyshev points of the rounds' interval."""
    low, high = float(logs[0]), float(logs[-1])
    v = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(
        np.pi * np.arange(nodes) / (nodes - 1)
    )
    values, scale, off, off_k = line(np.exp(v), q, c, h, count)
    reference = float(scale[-1])
    values = values * np.exp(scale - reference)[:, None]
    weight = (-1.0) ** np.arange(nodes)
    weight[[0, -1]] *= 0.5
    gap = logs[part, None] - v
    hit = gap == 0
    gap[hit.any(axis=1)] = np.inf
    gap[hit] = 1.0
    matrix = weight / gap
    matrix /= matrix.sum(axis=1, keepdims=True)
    least = float(values[-1, 0].real)  # M increases with u
    if not least > 0:  # it is smaller than the last digit of the largest
        return np.empty((0, 0)), values, scale, np.full(off.shape, np.inf), off_k
    bound = float(
        (_log_bounds(q, low, high, c) - (nodes - 1) * np.log(_ELLIPSES)).min()
    )
    truncated = math.exp(min(bound - reference, 700.0)) / least
    ratio = float(values[0, 0].real) / least * (2 + 0.64 * math.log(nodes))
    rounding = ULP * (
        10 * nodes
        + 2 * nodes**2 / max(high - low, 1e-300) * max(abs(low), abs(high), 1.0)
    )
    error = 1.01 * truncated + ratio * (float(off.max()) + rounding)
    size = matrix.shape[0]
    return (
        matrix,
        values,
        np.full(size, reference),
        np.full(size, error),
        np.full(size, ratio * float(off_k.max())),
    )
