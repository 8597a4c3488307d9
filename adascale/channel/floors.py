r"""Distributions :math:`H` of the noise floor :math:`w_{\min,t} = d \sigma_n^2 / (x_{\max} h_{\min,t}^2)`.

A level costs :math:`g(\ell) = \mathbb E[\max(\ell - w_{\min}, 0)] = \int_0^\ell H(w)\, dw` (:eq:`eq:law-of-floors`).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from adascale import checks as check
from adascale.checks import FloatArray, IndexArray
from adascale.errors import InvalidInput
from adascale.scenario import Scenario

# FadingFloors tabulates this many levels, the knots, from H = 1e-14 to 1 - H = 1e-8
_KNOTS, _LEAST, _MOST = 600, 1e-14, 1e-8
# Gauss-Legendre quadrature on (0, 1)
_NODES = (np.polynomial.legendre.leggauss(5)[0] + 1) / 2
_WEIGHTS = np.polynomial.legendre.leggauss(5)[1] / 2


class FloorLaw:
    """The distribution of one round's floor; subclasses define ``cdf``, ``mean_cost`` and ``quantile``."""

    batch_shape: tuple[int, ...] = ()
    """Shape of the leading axes, with one distribution per entry; all arguments broadcast against it."""

    def cdf(self, floor: ArrayLike) -> FloatArray:
        r"""Return :math:`H(w) = P(w_{\min} \le w)` for w > 0."""
        raise NotImplementedError("the class defines no cdf")

    def mean_cost(self, level: ArrayLike) -> FloatArray:
        r"""Return :math:`g(\ell) = \int_0^\ell H`, the mean cost of a round at the level :math:`\ell > 0`."""
        raise NotImplementedError("the class defines no mean_cost")

    def quantile(self, share: ArrayLike) -> FloatArray:
        """Return :math:`H^{-1}(p)` for p in (0, 1)."""
        raise NotImplementedError("the class defines no quantile")

    def level(self, budget: ArrayLike) -> FloatArray:
        r"""Return the constant level at which :math:`g(\ell) = \nu` for a budget > 0, to a relative 1e-12."""
        budget = check.positive("budget", budget)
        shape = check.broadcast(budget=budget.shape, law=self.batch_shape)
        return self.shared_level(np.broadcast_to(budget, shape), None, np.ones(()))

    def shared_level(
        self,
        budget: ArrayLike,
        floor: ArrayLike | None,
        rounds: ArrayLike,
        start: ArrayLike | None = None,
    ) -> FloatArray:
        r"""Return the level at which this round and n later ones spend b, to a relative 1e-13; 0 if b is 0.

        .. math:: \max(\ell - w_{\min,t}, 0) + n\, g(\ell) = b

        Parameters
        ----------
        budget : array_like, >= 0, :math:`b`
        floor : array_like, > 0, optional
            :math:`w_{\min,t}`; without it the first term is 0, and n must be > 0.
        rounds : array_like, >= 0, :math:`n`
        start : array_like, optional
            Start of the search.

        If the mean cost has so few digits that this cannot be reached, the level is to a relative 1e-10.

        Raises
        ------
        RuntimeError
            If the level overflows or underflows, or ``cdf``, ``mean_cost`` and ``quantile`` contradict each other.
        """
        budget = np.asarray(budget, dtype=float)
        rounds = np.asarray(rounds, dtype=float)
        with np.errstate(all="ignore"):
            # this round alone would reach its floor plus b, and g(l) >= (l - m) / 2 at the median m
            most: Any = np.inf if floor is None else np.asarray(floor) + budget
            later = np.where(rounds > 0, 2 * budget / rounds + self.quantile(0.5), most)
            highest = np.minimum(most, later)
            level = highest if start is None else np.minimum(start, highest)
            # Newton's steps on a convex function: from above the root they stay above it, and from below one gets there
            for turn in range(1000):  # a few are enough unless digits are lost
                spent = rounds * self.mean_cost(level)
                slope = rounds * self.cdf(level)
                if floor is not None:
                    spent = spent + np.maximum(level - floor, 0)
                    slope = slope + (level > floor)
                over = spent - budget
                step = np.where(slope > 0, over / slope, -np.inf)
                done = (np.abs(over) <= 1e-13 * budget) | (budget == 0)
                # the last steps may be rounding errors of a mean cost that has fewer digits than the level
                close = 4e-16 if turn < 900 else 1e-10
                done |= np.abs(step) <= close * level
                # at most, this round alone spends b, up to rounding
                done |= (level == most) & (over <= 0)
                done &= np.isfinite(level)
                if done.all():
                    return np.where(budget > 0, level, 0.0)
                # the bound is too low if the median is wrong, as that of a distribution of your own may be
                short = (level == highest) & (over < 0)
                highest = np.where(short, np.minimum(2 * highest, most), highest)
                level = np.where(done, level, np.minimum(level - step, highest))
        raise RuntimeError(
            f"no level found by {type(self).__name__}: it is beyond floating point, "
            "or cdf, mean_cost and quantile contradict each other"
        )

    def draw(self, rng: np.random.Generator, *shape: int) -> FloatArray:
        """Draw independent floors; the result has the shape ``(*batch_shape, *shape)``."""
        # a share of 0 has no quantile
        share = np.clip(rng.random((*self.batch_shape, *shape)), 1e-300, None)
        front, back = range(len(self.batch_shape)), range(len(shape), share.ndim)
        floor = self.quantile(np.moveaxis(share, front, back))
        return np.ascontiguousarray(np.moveaxis(floor, back, front))

    def _row(self, value: FloatArray) -> IndexArray:
        """Return which distribution, numbered along flattened leading axes, each entry of a value is for."""
        number = np.arange(math.prod(self.batch_shape)).reshape(self.batch_shape)
        return np.broadcast_to(
            number, np.broadcast_shapes(value.shape, self.batch_shape)
        )


class RayleighFloors(FloorLaw):
    r"""Floors under Rayleigh fading, in closed form (:eq:`eq:floor-law`, :eq:`eq:stationary-level`).

    .. math:: H(w) = e^{-\omega / w}, \qquad g(\ell) = \ell\, E_2(\omega/\ell)

    Parameters
    ----------
    scale : array_like, shape ``batch_shape``, > 0
        :math:`\omega = \frac{d\sigma_n^2}{x_{\max}} \sum_m \frac{k_m^2}{\mathbb E|h_m|^2}`.
    """

    def __init__(self, scale: ArrayLike) -> None:
        self.scale = check.positive("scale", scale)
        self.batch_shape = self.scale.shape

    @classmethod
    def of(cls, scenario: Scenario, mean_gain: ArrayLike) -> "RayleighFloors":
        r"""Make the distribution from the devices' mean gains :math:`\mathbb E|h_m|^2 / k_m^2 > 0`, shape (..., M)."""
        gain = check.per_device("mean_gain", mean_gain, scenario.num_devices)
        return cls(scenario.noise_scale / scenario.x_max * (1 / gain).sum(axis=-1))

    def cdf(self, floor: ArrayLike) -> FloatArray:
        return np.exp(-self.scale / np.asarray(floor))

    def mean_cost(self, level: ArrayLike) -> FloatArray:
        return level * special.expn(2, self.scale / np.asarray(level))

    def quantile(self, share: ArrayLike) -> FloatArray:
        return self.scale / -np.log(share)


class FadingFloors(FloorLaw):
    r"""Floors of independent devices with any fading distribution, by quadrature.

    .. math:: H(w) = \prod_m S\Big(\frac{d\sigma_n^2}{x_{\max}\, w\, g_m}\Big), \qquad S(x) = P(|f|^2 > x)

    Parameters
    ----------
    scenario : Scenario
    mean_gain : array_like, shape (..., M), > 0, :math:`g_m = \mathbb E|h_m|^2 / k_m^2`
    survival : callable
        :math:`S` of an array of x > 0; it must be continuous and decrease from 1 at 0 to 0.
        Where its density is infinite, the distribution is off by up to 0.01.
    """

    def __init__(
        self,
        scenario: Scenario,
        mean_gain: ArrayLike,
        survival: Callable[[FloatArray], ArrayLike],
    ) -> None:
        from scipy import interpolate  # slow to import

        gain = check.per_device("mean_gain", mean_gain, scenario.num_devices)
        _check_survival(survival)
        self.batch_shape, self._survival = gain.shape[:-1], survival
        unit = scenario.noise_scale / scenario.x_max
        # the floor of each device alone if its gain is the mean, shape (distributions, M)
        self._rows = unit / gain.reshape(-1, gain.shape[-1])
        # knots are in equal steps of ln w
        self._start = self._where(np.log(_LEAST))
        end = self._where(np.log1p(-_MOST))
        self._step = (end - self._start) / (_KNOTS - 1)
        start, step = self._start[:, None], self._step[:, None]
        knots = start + step * np.arange(_KNOTS)
        self._log_cdf = self._log_product(knots)
        # g, the integral of H, between neighbouring knots
        inner = knots[:, :-1, None] + step[..., None] * _NODES
        log_inner = self._log_product(inner.reshape(len(knots), -1))
        density = np.exp(log_inner.reshape(inner.shape) + inner)
        pieces = step * np.sum(_WEIGHTS * density, axis=-1)
        # below the first knot, H continues as the power of w that fits it there
        log_cdf = self._log_cdf
        power = np.maximum((log_cdf[:, 1] - log_cdf[:, 0]) / self._step, 0)
        first = np.exp(log_cdf[:, 0] + knots[:, 0]) / (1 + power)
        spent = np.cumsum(np.column_stack([first, pieces]), axis=1)
        # ln g between knots is a cubic with the slopes w H / g at both ends
        slope = step * (np.exp(log_cdf + knots) / spent)
        number = np.arange(_KNOTS)
        spline = interpolate.CubicHermiteSpline(number, np.log(spent).T, slope.T)
        self._cubics = spline.c
        self._last = np.exp(knots[:, -1])

    def _log_product(self, log_floor: FloatArray) -> FloatArray:
        """Return ln H of every row at floors given by their logarithms."""
        total, floor = np.zeros(log_floor.shape), np.exp(log_floor)
        with np.errstate(divide="ignore"):
            for device in self._rows.T:
                total += np.log(
                    np.asarray(self._survival(device[:, None] / floor), dtype=float)
                )
        return total

    def _where(self, target: float) -> FloatArray:
        """Return ln w of every row at which ln H is ``target``."""
        # the target is within a factor of e^60 of a typical floor
        middle = np.log(self._rows.sum(axis=1))
        low, high = middle - 60.0, middle + 60.0
        for _ in range(60):
            half = (low + high) / 2
            above = self._log_product(half[:, None])[:, 0] > target
            low, high = np.where(above, low, half), np.where(above, half, high)
        return high

    def _at(self, level: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return g and H at levels that broadcast against the leading axes."""
        level = np.asarray(level, dtype=float)
        row = self._row(level)
        # position of the level among the knots: u is how far it is beyond the knot below
        x = (np.log(level) - self._start[row]) / self._step[row]
        knot = np.clip(x, 0, _KNOTS - 2).astype(np.intp)
        u = np.clip(x - knot, 0, 1)
        cubic, square, slope, constant = self._cubics[:, knot, row]
        log_cost = ((cubic * u + square) * u + slope) * u + constant
        growth = (3 * cubic * u + 2 * square) * u + slope
        # below the first knot, the logarithm goes on in a straight line; above the last, H is 1
        cost = np.exp(log_cost + np.minimum(x, 0) * slope)
        share = np.minimum(cost * growth / (self._step[row] * level), 1.0)
        beyond = np.maximum(level - self._last[row], 0)
        return cost + beyond, np.where(beyond > 0, 1.0, share)

    def cdf(self, floor: ArrayLike) -> FloatArray:
        return self._at(floor)[1]

    def mean_cost(self, level: ArrayLike) -> FloatArray:
        return self._at(level)[0]

    def quantile(self, share: ArrayLike) -> FloatArray:
        share = np.asarray(share, dtype=float)
        row = self._row(share)
        target = np.log(np.broadcast_to(share, row.shape))
        log_floor = np.empty(row.shape)
        for i, log_cdf in enumerate(self._log_cdf):
            in_row = row == i
            knot = np.interp(target[in_row], log_cdf, np.arange(_KNOTS))
            log_floor[in_row] = self._start[i] + self._step[i] * knot
        return np.exp(log_floor)


def _check_survival(survival: Callable[[FloatArray], ArrayLike]) -> None:
    """Refuse a function that is clearly not one minus a distribution function, by its values at 400 points."""
    share = np.asarray(survival(np.geomspace(1e-12, 1e3, 400)), dtype=float)
    falls = share.shape == (400,) and (np.diff(share) <= 1e-12).all()
    if not (falls and 0.99 <= share[0] <= 1 + 1e-12 and 0 <= share[-1] <= 0.01):
        expected = "fall from 1 at 0 to 0 at large arguments, as P(|f|^2 > x) does for E|f|^2 = 1"
        raise InvalidInput(f"survival must {expected}", "survival")


class EmpiricalFloors(FloorLaw):
    """The empirical distribution of given floors > 0, shape (..., N)."""

    def __init__(self, floor: ArrayLike) -> None:
        floors = check.positive("floor", floor, "floors")
        self.batch_shape = floors.shape[:-1]
        self._rows = np.sort(floors.reshape(-1, floors.shape[-1]), axis=-1)
        self._below = np.pad(np.cumsum(self._rows, axis=-1), [(0, 0), (1, 0)])

    @classmethod
    def of(cls, scenario: Scenario, min_gain: ArrayLike) -> "EmpiricalFloors":
        r"""Make the distribution from bottleneck gains :math:`h_{\min}^2 > 0` of earlier rounds, shape (..., N)."""
        return cls(scenario.floor(check.positive("min_gain", min_gain)))

    def _under(self, level: ArrayLike) -> tuple[FloatArray, IndexArray, IndexArray]:
        """Return the levels, the flat index of their distribution, and the number of its floors up to each level."""
        level = np.asarray(level, dtype=float)
        row = self._row(level)
        level = np.broadcast_to(level, row.shape)
        count = np.empty(row.shape, dtype=np.intp)
        for i, floors in enumerate(self._rows):
            in_row = row == i
            count[in_row] = np.searchsorted(floors, level[in_row], side="right")
        return level, row, count

    def cdf(self, floor: ArrayLike) -> FloatArray:
        return self._under(floor)[2] / self._rows.shape[1]

    def mean_cost(self, level: ArrayLike) -> FloatArray:
        level, row, count = self._under(level)
        cost = (count * level - self._below[row, count]) / self._rows.shape[1]
        return np.maximum(cost, 0)

    def quantile(self, share: ArrayLike) -> FloatArray:
        share = np.asarray(share, dtype=float)
        row, size = self._row(share), self._rows.shape[1]
        rank = (np.broadcast_to(share, row.shape) * size).astype(np.intp)
        return self._rows[row, np.minimum(rank, size - 1)]


class SelectionFloors(FloorLaw):
    r"""The smallest of N independent floors under Rayleigh fading.

    .. math:: H(w) = 1 - \big(1 - e^{-\omega/w}\big)^N, \qquad
        g(\ell) = \ell \sum_{n=1}^N \binom Nn (-1)^{n+1} E_2(n \omega / \ell)

    Parameters
    ----------
    scale : array_like, shape ``batch_shape``, > 0, :math:`\omega` of one antenna
    antennas : int, in [1, 16], :math:`N`
    """

    def __init__(self, scale: ArrayLike, antennas: int) -> None:
        self.scale = check.positive("scale", scale)
        # digits cancel in longer alternating sums
        self.antennas = check.whole("antennas", antennas, most=16)
        self.batch_shape = self.scale.shape

    def cdf(self, floor: ArrayLike) -> FloatArray:
        share = np.exp(-self.scale / np.asarray(floor))
        with np.errstate(divide="ignore"):
            return -np.expm1(self.antennas * np.log1p(-share))

    def mean_cost(self, level: ArrayLike) -> FloatArray:
        number = np.arange(1, self.antennas + 1)
        weight = special.binom(self.antennas, number) * (-1.0) ** (number + 1)
        ratio = np.asarray(self.scale / np.asarray(level))[..., None]
        cost = weight * special.expn(2, number * ratio)
        return level * cost.sum(axis=-1)

    def quantile(self, share: ArrayLike) -> FloatArray:
        above = np.log1p(-np.asarray(share, dtype=float)) / self.antennas
        return self.scale / -np.log(-np.expm1(above))
