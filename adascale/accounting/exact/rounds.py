r"""The rounds of a schedule, and their moments, interpolated in :math:`\ln u` by :eq:`eq:complex-noise`."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.accounting.exact.moments import (
    ULP,
    ComplexArray,
    complex_moments,
    log_moments,
    log_moments_above,
)
from adascale.accounting.interval import REMOVE
from adascale.checks import FloatArray
from adascale.errors import CannotCertify

_FEW_KINDS = 12  # more noises of one rate are spread over nodes
_CELL = 0.2  # which are this far apart in ln u
_MOST = 65  # a panel must have fewer nodes
# the parameters rho to try
_ELLIPSES = np.array([1.4, 1.7, 2.1, 2.6, 3.4, 4.8, 7.0, 11.0])
# ln of the largest growth of a moment over a panel, as rounding grows with it
_STEEP = 6.0
_DEPTH = 6  # largest number of halvings of the range of ln u
_NARROW = 1e-3  # width of a range of ln u below which rounding dominates
_BITS_OF_U = 48
# Change of M(z) from this rounding, over u |z (z - 1)| M(c), where dM/du = z (z - 1) E[p^2 (1 - q + q e^L)^z] / 2
MOVED = 0.505 * (2.0**-_BITS_OF_U + 4 * ULP)
TOO_MUCH = "the moments of a round would take too many nodes, or overflow"
_NOTHING = 1e-25  # a product that may be off by itself
_BLOCK = 2048  # rounds at a time, to bound the memory
# multiplications in each product of matrices: for larger ones OpenBLAS uses several threads
_ONE_CORE = 2**17


class Atoms(NamedTuple):
    """A round whose loss has finitely many values."""

    loss: FloatArray  # y, the logarithms of the likelihood ratio, ascending
    mass: FloatArray  # the masses under the null, which sum to 1
    loss_off: FloatArray  # bounds on the error of each loss
    mass_off: FloatArray  # bounds on the relative error of each mass
    infinite: FloatArray  # the masses on no atom, of the mixture (loss inf) and of the null (-inf)
    infinite_off: FloatArray  # bounds on their errors

    def subset(self, where: slice | NDArray[np.bool_]) -> "Atoms":
        """Return some of the atoms."""
        loss, mass, loss_off, mass_off = (column[where] for column in self[:4])
        return self._replace(loss=loss, mass=mass, loss_off=loss_off, mass_off=mass_off)

    @property
    def variance(self) -> float:
        """Approximately the chi-squared divergence."""
        return float((self.mass * np.expm1(self.loss) ** 2).sum())

    def log_moment(self, orders: FloatArray) -> FloatArray:
        """Approximate ln M at these orders."""
        growth = np.expm1(np.multiply.outer(orders, self.loss)) * self.mass
        return np.log1p(growth.sum(axis=-1) - self.infinite[1])

    @property
    def total_variation(self) -> float:
        """Bound the total variation, in the direction in which it is larger."""
        change = np.maximum(-np.expm1(self.loss), 0.0) + 2 * self.loss_off
        total = float((self.mass * (1 + self.mass_off) * change).sum())
        return total + float(self.infinite[1] + self.infinite_off[1])


class Rounds(NamedTuple):
    """A schedule as its moments need it; equal rounds appear once."""

    # of every kind of round sampled at a rate in (0, 1): the rate, u = 1 / sigma^2, both ascending, and how often
    rate: FloatArray
    u: FloatArray
    number: FloatArray
    gaussian: float  # the sum of u over the rounds without sampling, which are one Gaussian mechanism together
    atoms: tuple[
        tuple[Atoms, float], ...
    ] = ()  # rounds of finitely many losses, and how often each appears

    def as_one_gaussian(self) -> tuple[float, float] | None:
        """Return rate and u of a schedule that is one Gaussian mechanism, else None."""
        if self.atoms or self.number.sum() + (self.gaussian > 0) > 1:
            return None
        if self.rate.size:
            return float(self.rate[0]), float(self.u[0])
        return 1.0, self.gaussian

    def by_rate(self) -> Iterator[tuple[float, FloatArray, FloatArray]]:
        """Yield every sampling rate in (0, 1), with u and counts of its rounds."""
        for q in np.unique(self.rate).tolist():
            has_rate = self.rate == q
            yield q, self.u[has_rate], self.number[has_rate]

    def replace_rates(
        self,
        replaced: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]],
    ) -> "Rounds":
        """Return the rounds with other u and numbers of every sampling rate."""
        kinds = [np.empty((3, 0))]
        for q, u, n in self.by_rate():
            kinds.append(np.stack(np.broadcast_arrays(q, *replaced(u, n))))
        rate, u, number = np.concatenate(kinds, axis=1)
        return self._replace(rate=rate, u=u, number=number)

    @property
    def largest_loss(self) -> float:
        """Bound the largest loss against the mixture, and so epsilon in the direction ``remove``."""
        if self.gaussian or any(atom.infinite[1] for atom, _ in self.atoms):
            return math.inf
        loss = -float((self.number * np.log1p(-self.rate)).sum())
        loss += sum(
            n * float((atom.loss_off - atom.loss).max()) for atom, n in self.atoms
        )
        return loss * (1 + 1e-12)

    @property
    def expected(self) -> float:
        """Expected number of rounds that use a sample."""
        return float((self.rate * self.number).sum())

    @property
    def variance(self) -> float:
        """The sum of the chi-squared divergences, those of rounds at most their energies; no proof uses it."""
        growth = self.rate**2 * np.expm1(np.minimum(self.u, 50.0))
        sampled = float((self.number * np.minimum(growth, self.u)).sum())
        return (
            sampled + self.gaussian + sum(n * atom.variance for atom, n in self.atoms)
        )

    @property
    def variation_of_atoms(self) -> float:
        """Bound the total variation of all atoms together."""
        total = sum(n * atom.total_variation for atom, n in self.atoms)
        return min(total * (1 + 1e-9), 1.0)

    def infinite_mass(self, direction: str, sign: int = 1) -> float:
        """Bound what infinite losses, the mass on no atom, add to delta from above (1) or below (-1)."""
        log_kept = 0.0
        of_null = int(direction == REMOVE)
        for atom, n in self.atoms:
            mass = float(atom.infinite[of_null] + sign * atom.infinite_off[of_null])
            part = min(max(mass, 0.0), 1.0)
            log_kept += n * (math.log1p(-part) if part < 1 else -math.inf)
        return -math.expm1(log_kept) * (1 + sign * 1e-12)


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
    # so that rounds that differ only by rounding are merged
    mantissa, exponent = np.frexp(sigma**-2.0)
    u = np.ldexp(np.round(mantissa * 2.0**_BITS_OF_U) * 2.0**-_BITS_OF_U, exponent)
    n = np.ones(u.shape) if count is None else count
    sampled = (n > 0) & (rate > 0) & (rate < 1)
    # complex numbers are ordered by their real parts, and then by their imaginary parts
    kinds, place = np.unique((rate + 1j * u)[sampled], return_inverse=True)
    number = np.bincount(place, n[sampled]).astype(float)
    gaussian = math.fsum((n * u)[rate == 1])
    return Rounds(kinds.real.copy(), kinds.imag.copy(), number, gaussian)


def thinned(rounds: Rounds) -> Rounds:
    """Spread many noises of a rate over few between the least and the largest one; no proof uses it."""

    def spread(u: FloatArray, n: FloatArray) -> tuple[FloatArray, FloatArray]:
        if u.size <= _FEW_KINDS:
            return u, n
        logs = np.log(u)
        nodes = np.linspace(logs[0], logs[-1], int((logs[-1] - logs[0]) / _CELL) + 2)
        place = np.interp(logs, nodes, np.arange(nodes.size))
        left = np.minimum(place.astype(int), nodes.size - 2)
        number = np.bincount(left, n * (1 - place + left), nodes.size).astype(float)
        number += np.bincount(left + 1, n * (place - left), nodes.size)
        return np.exp(nodes)[number > 0], number[number > 0]

    return rounds.replace_rates(spread)


def proven_log_moment(rounds: Rounds, c: float) -> float:
    """Bound ln M(c) of the sampled Gaussian rounds from above, quadrature and rounding included."""
    logs = rounds.number * log_moments_above(rounds.u, rounds.rate, c)
    rounding = ULP * (logs.size + 8.0) * np.abs(logs).sum()
    energy = float((rounds.number * rounds.u).sum())
    return float(logs.sum() + rounding) + 1.05 * energy * MOVED * abs(c * (c - 1))


def moments_on_line(
    rounds: Rounds, c: float, h: float, count: int, accuracy: float
) -> Line:
    """Multiply the moments of all rounds; ``accuracy`` is -ln of the interpolation error, where there is one."""
    share = np.ones(count, dtype=complex)
    least = np.ones(count)
    end = count  # from here on the rounds so far make the product nothing
    log_moment = error = drift = magnitude = moved = worst = worst_k = 0.0
    for q, u, n, low, high, nodes in _parts(rounds, c, accuracy):
        if nodes:
            matrix, values, scale, off, off_k = interpolated(
                q, low, high, np.log(u), nodes, c, h, end
            )
        else:
            matrix = np.empty((0, 0))
            values, scale, off, off_k = complex_moments(u, q, c, h, end)
        if not (math.isfinite(off.sum()) and (values[:, 0].real > 0).all()):
            raise CannotCertify(TOO_MUCH)
        real = _multiply(share[:end], least[:end], matrix, values, n)
        terms = n * (np.log(real) + scale)
        log_moment += float(terms.sum())
        magnitude += float(np.abs(terms).sum())
        worst = max(worst, float(off.max()))
        worst_k = max(worst_k, float(off_k.max()))
        error += float((n * (2.1 * off + 8 * ULP)).sum())
        moved += 2.1 * float((n * u).sum()) * MOVED
        drift += float((n * 2.1 * off_k).sum())
        end = 1 + int(np.flatnonzero(np.abs(share[:end]) > _NOTHING).max(initial=0))
    if not math.isfinite(log_moment):
        raise CannotCertify(TOO_MUCH)
    k = np.arange(count)
    order = (abs(c) + 1 + h * k) ** 2
    error += ULP * (40 * magnitude + 60)
    total = error + drift * k + moved * order
    with np.errstate(divide="ignore"):
        of_share = np.expm1(np.minimum(total / least, 700.0)) * np.abs(share)
    off = np.minimum(np.expm1(np.minimum(total, 700.0)), of_share)
    off[end:] += 2 * np.abs(share[end:])  # the other rounds can only make it smaller
    # a larger error of a quotient of two is not covered by the 2.1; both are at most 1 and the computed value
    largest = rounds.u.max(initial=0.0)
    unsure = worst + worst_k * k + MOVED * largest * order > 0.04
    off = np.minimum(np.where(unsure, math.inf, off), 1 + np.abs(share))
    return Line(log_moment, share, error + moved * float(order[0]), off)


def _parts(
    rounds: Rounds, c: float, accuracy: float
) -> list[tuple[float, FloatArray, FloatArray, float, float, int]]:
    """Return rate, u and counts of runs of rounds, those that leak most first.

    A run has not too many rounds; with it are the ends of its panel in ln u and the number of nodes of the panel.
    """
    parts = []
    for q, u, n in rounds.by_rate():
        logs = np.log(u)
        for first, last, nodes in _panels(q, logs, c, accuracy):
            ends = float(logs[first]), float(logs[last - 1])
            for start in range(first, last, _BLOCK):
                part = slice(start, min(start + _BLOCK, last))
                parts.append((q, u[part], n[part], *ends, nodes))
    leak = [q * q * n @ np.expm1(np.minimum(u, 50.0)) for q, u, n, *_ in parts]
    return [parts[i] for i in np.argsort(leak)[::-1]]


def _multiply(
    share: ComplexArray,
    least: FloatArray,
    matrix: FloatArray,
    values: ComplexArray,
    counts: FloatArray,
) -> FloatArray:
    """Multiply ``share`` by every round, a row of ``matrix @ values`` or of ``values``; return M(c) of each.

    ``least`` becomes the least modulus of the shares of one round.
    """
    real = np.empty(counts.size)
    block = 4 + 2**18 // share.size * 4
    for start in range(0, counts.size, block):
        part = slice(start, start + block)
        rows = values[part].view(float)
        if matrix.size:
            rows = _product(matrix[part], values.view(float))
        real[part] = rows[:, 0]
        shares = (rows / rows[:, :1]).view(complex)
        np.minimum(least, np.abs(shares).min(axis=0), out=least)
        for n in np.unique(counts[part]):
            share *= shares[counts[part] == n].prod(axis=0) ** n
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
    q: float, logs: FloatArray, c: float, accuracy: float
) -> list[tuple[int, int, int]]:
    """Return runs of rounds and their numbers of nodes, 0 where there are fewer rounds than nodes."""
    panels: list[tuple[int, int, int]] = []

    def nodes(first: int, last: int) -> int:
        if last - first <= 4:
            return 0
        most = min(last - first, _MOST)
        return nodes_needed(q, logs[first], logs[last - 1], c, accuracy, most)

    def split(first: int, last: int, number: int, depth: int) -> None:
        middle = 0.5 * (logs[first] + logs[last - 1])
        cut = first + int(np.searchsorted(logs[first:last], middle))
        if first < cut < last and depth:
            left = nodes(first, cut)
            right = nodes(cut, last)
            work = (left or cut - first) + (right or last - cut)
            if not number or work < number:
                split(first, cut, left, depth - 1)
                split(cut, last, right, depth - 1)
                return
        panels.append((first, last, number))

    split(0, logs.size, nodes(0, logs.size), _DEPTH if logs.size > 12 else 0)
    return panels


def nodes_needed(
    q: float, low: float, high: float, c: float, accuracy: float, most: int
) -> int:
    """Find the smallest number of nodes on [low, high] of ln u; return 0 if it is ``most`` or more."""
    if high - low < _NARROW:  # interpolation would magnify the rounding of ln u
        return 0
    at_low, at_high = log_moments(np.exp([low, high]), q, c)[0]
    if not at_high - at_low < _STEEP:
        return 0
    logs = accuracy + _log_bounds(q, low, high, c) - at_low
    least = np.ceil(logs / np.log(_ELLIPSES)).min() + 1
    return max(int(least), 2) if least < most else 0


def _log_bounds(q: float, low: float, high: float, c: float) -> FloatArray:
    """Bound ln of 4 M / (rho - 1) on the Bernstein ellipses rho, by the rectangles around them."""
    half = 0.5 * (high - low)
    bound = np.full(_ELLIPSES.shape, math.inf)
    angle = 0.5 * half * (_ELLIPSES - 1 / _ELLIPSES)
    narrow = angle < 1.45
    angle = angle[narrow]
    rho = _ELLIPSES[narrow]
    # the 1.01 of interpolated covers all rounding below except the moment's own
    size = np.exp(high + half * (0.5 * (rho + 1 / rho) - 1))
    more = 0.125 * size * np.tan(angle) * np.sin(angle) - 0.5 * np.log(np.cos(angle))
    log_moment = log_moments_above(size / np.cos(angle), q, c)
    bound[narrow] = np.log(4 / (rho - 1)) + more + log_moment
    return bound


def interpolated(
    q: float,
    low: float,
    high: float,
    logs: FloatArray,
    nodes: int,
    c: float,
    h: float,
    count: int,
) -> tuple[FloatArray, ComplexArray, FloatArray, FloatArray, FloatArray]:
    """Return weights of rounds, and :func:`complex_moments` at the Chebyshev points of low ... high in ln u."""
    angle = np.pi * np.arange(nodes) / (nodes - 1)
    v = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(angle)
    values, scale, off, off_k = complex_moments(np.exp(v), q, c, h, count)
    reference = float(scale[-1])
    values = values * np.exp(scale - reference)[:, None]
    least = float(values[-1, 0].real)  # M increases with u
    if not least > 0:  # it is smaller than the last digit of the largest
        raise CannotCertify(TOO_MUCH)
    log_bounds = _log_bounds(q, low, high, c) - (nodes - 1) * np.log(_ELLIPSES)
    truncated = math.exp(min(float(log_bounds.min()) - reference, 700.0)) / least
    ratio = float(values[0, 0].real) / least * (2 + 0.64 * math.log(nodes))
    of_logs = 2 * nodes**2 / max(high - low, 1e-300) * max(abs(low), abs(high), 1.0)
    rounding = ULP * (10 * nodes + of_logs)
    error = 1.01 * truncated + ratio * (float(off.max()) + rounding)
    return (
        _barycentric(logs, v),
        values,
        np.full(logs.size, reference),
        np.full(logs.size, error),
        np.full(logs.size, ratio * float(off_k.max())),
    )


def _barycentric(x: FloatArray, nodes: FloatArray) -> FloatArray:
    """Return the weights of the values at Chebyshev nodes in the polynomial through them, for every x."""
    weight = (-1.0) ** np.arange(nodes.size)
    weight[[0, -1]] *= 0.5
    gap = x[:, None] - nodes
    hit = gap == 0
    gap[hit.any(axis=1)] = np.inf
    gap[hit] = 1.0
    matrix: FloatArray = weight / gap
    matrix /= matrix.sum(axis=1, keepdims=True)
    return matrix
