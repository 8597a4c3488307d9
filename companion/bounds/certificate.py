r"""What re-solving under a hard budget loses to the constant level at a finite horizon, from both sides.

With n rounds and b left, :math:`J_n(b)` is what the policy leaks in the mean, and :math:`V_n(b)` the least that any
causal policy leaks.  Both obey a recursion in n.  A convex polygon on a grid of b, moved outward in every round by a
bound on its error, stays above the first and below the second (:prf:ref:`thm-certificate`).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from adascale.channel import RayleighFloors
from adascale.compiled import njit
from adascale.problem import LeakageTerms, RoundLeakage, slopes
from adascale.scenario import FloatArray, Scenario
from companion.bounds.causal import both_slopes

_ROUNDING = 1e-11  # outward, relative to the sum of the sizes of all terms; leaked() errs by 7e-13
_LAW = RayleighFloors(1.0)  # of floors in units of their scale
# its largest -H'', H' and H''
_DIP = 0.42
_STEEP = 0.5414
_BEND = 2.55


class CertifiedRegret(NamedTuple):
    r"""Bounds on what is leaked beyond :math:`n \Phi(\nu)` over n = 1 ... T rounds, in nats, each of shape (T,)."""

    policy: FloatArray
    """Above what ``ReSolve(budget_mode="hard")`` leaks."""
    optimum: FloatArray
    """Below what every causal policy leaks that never exceeds the budget."""


def certify_regret(
    scenario: Scenario,
    distribution: RayleighFloors,
    nu: float,
    rounds: int,
    safety_margin: float = 2.0,
) -> CertifiedRegret:
    r"""Bound what a hard budget costs at a finite horizon, for the policy that runs and for every other.

    The recursions and their polygons are those of :prf:ref:`thm-certificate`.  Proven up to the accuracy of F, g, its
    inverse and the quadrature of :math:`\Phi`, and for ``optimum`` up to an interpolated F'' and its trapezoids; every
    round allows for rounding and the interpolated :math:`\Phi` by 1e-11 of the sum of the sizes of all terms.
    """
    scale = float(distribution.scale)
    budget = nu / scale
    in_units = replace(scenario, clip_norm=scenario.clip_norm / np.sqrt(scale))
    floors = Floors(RoundLeakage(in_units))
    level = float(_LAW.level(budget))
    nodes = [0.0]  # from 0 to beyond the budget, denser near 0
    while nodes[-1] <= rounds * budget:
        step = min(level / 45, 1 / 256 + nodes[-1] / 200)
        nodes.append(nodes[-1] + step)
    grid = np.array(nodes)
    above, below = floors.last_round(grid)
    price = float(floors.leaked(level))
    regret = np.empty((rounds, 2))
    for n in range(1, rounds + 1):
        if n > 1:
            end = int(np.searchsorted(grid, (3 * n + 16) * budget)) + 1
            above[:end] = floors.above(above[:end], grid[:end], n, safety_margin)
            above[end:] = above[:end][-1]  # what is left to leak falls in b
            below = floors.below(below, grid)
        regret[n - 1] = [
            np.interp(n * budget, grid, bound) - n * price for bound in (above, below)
        ]
    return CertifiedRegret(*regret.T)


class Floors:
    """The recursions for Rayleigh floors on a grid, all noise energies in units of the floors' scale."""

    def __init__(self, leakage: RoundLeakage) -> None:
        self.F = leakage
        # the integral of |F'| H above the edges, by Gauss's rule between them; far above the last F falls as 1/w
        self.edges = np.geomspace(1 / 60, 1e6, 4_001)
        node, mass = np.polynomial.legendre.leggauss(8)
        half = np.diff(self.edges)[:, None] / 2
        x = self.edges[:-1, None] + half * (1 + node)
        weight = half * mass * _LAW.cdf(x)
        cells = (weight * -leakage.slope(x)).sum(axis=1)
        last = self.edges[-1]
        beyond = -leakage.slope(last) * last
        self.value = np.append(cells[::-1].cumsum()[::-1], 0.0) + beyond
        self.x = x[:2_000].ravel()
        self.weight = weight[:2_000].ravel()
        # the integral's slope and curvature at the edges
        self.first, second = both_slopes(leakage, self.edges)
        H = _LAW.cdf(self.edges)
        self.density = H / self.edges**2
        slope = self.first * H
        bend = second * H + self.first * self.density
        self.spline = scipy.interpolate.BPoly.from_derivatives(
            self.edges,
            np.column_stack([self.value, slope, bend]),
        )
        # the largest F'' from there on: it may rise
        self.second = np.maximum.accumulate(second[::-1])[::-1]

    def leaked(self, level: ArrayLike) -> FloatArray:
        r"""Return :math:`\int_\ell^\infty |F'| H`, by quintic interpolation with its known slope and curvature."""
        x = np.maximum(level, self.edges[0])
        return self.spline(np.minimum(x, self.edges[-1]))

    def largest_second(self, level: FloatArray) -> FloatArray:
        """Return the largest F'' from each level on."""
        return np.interp(level, self.edges, self.second)

    def last_round(self, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds of E F(W + b), from above and below."""
        near = np.array([self.weight @ -self.F.slope(self.x + budget) for budget in b])
        end = self.edges[2_000]
        far = self.F(end + b)  # beyond: at most this, and at least H times it
        above = (1 + _ROUNDING) * (near + far)
        below = (1 - _ROUNDING) * (near + _LAW.cdf(end) * far)
        bend = np.array([self.mean_curvature(budget) for budget in b[:-1]])
        return above, _lowered(below, bend, b)

    def mean_curvature(self, b: float, most: float = np.inf) -> float:
        """Return the mean of F''(W + b) over floors up to ``most``, or slightly more.

        Floors below the first edge, a share of e^-60, are in the allowance for rounding.
        """
        end = np.searchsorted(self.edges, most) + 1
        edges = self.edges[:end]
        second = self.largest_second(edges + b)
        return 1.001 * float(np.trapezoid(second * self.density[:end], edges))

    def above(self, U: FloatArray, b: FloatArray, n: int, margin: float) -> FloatArray:
        """Bound the policy's leakage over n rounds from above, given such a polygon for n - 1 rounds.

        Arrays of levels begin at the second node: with nothing left, the level is 0.
        """
        h = np.diff(b)
        G = -np.diff(U) / h
        m = n - 1 + margin * np.log(n)
        x = _LAW.level(b[1:] / m)
        H = _LAW.cdf(x)
        rate = x**-2.0  # H'/H
        dx = 1 / (m * H)  # x'
        slope = self.F.slope(x)

        # the two terms of the curvature between nodes, but for the first cell: at x(b), and the one inside
        grown = 1 + m * H[:-1]  # (1 + x')/x'
        under = np.maximum(-slope[:-1] - G[1:], 0)
        at_end = under * rate[:-1] / (m * grown)
        over = np.maximum(G[1:] + slope[1:], 0)
        inside = over * rate[:-1] / (1 + dx[1:]) / grown**2

        # H(x(beta) + beta - b) by trapezoids, and its largest second derivative in beta
        bend = _DIP * (1 + dx[:-1]) ** 2 + _STEEP * rate[:-1] * dx[:-1] ** 2
        remainder = h[1:] ** 2 / 12 * bend
        F = self.F(x)
        image, inside = _image(
            U[1:],
            x,
            F,
            self.leaked(x),
            remainder,
            np.append(inside, 0),
            b[1:],
        )

        # floors below z leave less than the first step
        z = x[0] + b[1] - b[1:]
        short = z > 0
        z = z[short]
        spent = U[0] - F[0] - U[1] + self.F(z)
        gain = _LAW.cdf(z) * spent
        image[short] += gain + self.value[0] - self.leaked(z)
        # the level below which |F'| exceeds the first slope
        cheap = np.searchsorted(self.first, -G[0])
        least = min(self.edges[max(cheap - 1, 0)], x[0])
        first = max(G[0] + slope[0], 0) / least**2 / (1 + dx[0])
        inside[short] = np.maximum(inside[short], first)

        # with nothing left, every round leaks E F(W)
        image = np.append(n * self.value[0] * (1 + _ROUNDING), image)
        lift = (at_end + inside[:-1]) * h[1:] ** 2 / 8
        fall = np.maximum(-np.diff(image), 0)  # a decreasing function needs no more
        lift = np.minimum(np.append(np.inf, lift), fall)
        return _convex(image + _at_nodes(lift), b)

    def below(self, U: FloatArray, b: FloatArray) -> FloatArray:
        """Bound the least leakage over n rounds from below, given such a polygon for n - 1 rounds."""
        G = np.maximum(-np.diff(U) / np.diff(b), 1e-300)
        start = np.interp(-G, self.first, self.edges)
        x = level_of(G, start, self.F.terms)
        image, bend = _least(
            U,
            G,
            x,
            self.F(x),
            self.largest_second(x) * 1.001,
            np.append(self.value[0], self.leaked(x)),
            b,
        )
        # floors at which all is spent: |F'(W + b)| H(W) in steps
        for k in np.flatnonzero(x[0] > b[:-1]):
            W = np.linspace(0, x[0] - b[k], 257)[1:]
            H = _LAW.cdf(W)
            level = W + b[k]
            if k:  # with nothing left the node has all of it
                image[k] += np.sum(H[:-1] * -np.diff(self.F(level)))
            second = self.largest_second(level[:-1])
            bend[k] += np.sum(second * np.diff(H)) * 1.001
            bend[k] += self.mean_curvature(b[k], W[0])
        return _lowered(image, bend[:-1], b)


def _at_nodes(of_cells):
    """Return the larger value of the cells at both sides of each node."""
    return np.maximum(np.append(of_cells, 0), np.append(0, of_cells))


def _lowered(image, bend, b):
    """Return a polygon below a convex function with these values at the nodes and F'' at most ``bend`` in cells."""
    return hull(image - _at_nodes(bend * np.diff(b) ** 2 / 8), b)


@njit(cache=True, nogil=True)
def level_of(price: FloatArray, x: FloatArray, terms: LeakageTerms) -> FloatArray:
    """Return the levels at which |F'| is the price > 0, by Newton's method on its logarithm from near ``x``."""
    for k in range(price.size):
        for _ in range(20):
            first, second = slopes(x[k], terms)
            step = first / second / x[k] * np.log(-first / price[k])
            x[k] *= np.exp(-min(max(step, -0.5), 0.5))
            if abs(step) < 1e-14:
                break
    return x


@njit(cache=True, nogil=True)
def _below(w):
    """Return the share of floors below w."""
    return np.exp(-1 / w) if w > 0 else 0.0


@njit(cache=True, nogil=True)
def _image(U, x, F, Lambda, remainder, inside, b):
    """Return the policy's recursion at the nodes from the second on, but for the first cell; the largest ``inside``.

    The latter is over the cells in which a round from each node may end.
    """
    out = np.empty(x.size)
    largest = np.zeros(x.size)
    for k in range(x.size):
        total = U[k] + Lambda[k]
        size = total
        largest[k] = inside[k]
        upper = _below(x[k])
        for i in range(k - 1, -1, -1):
            if x[i + 1] + b[i + 1] - b[k] <= 0:
                break
            largest[k] = max(largest[k], inside[i])
            lower = _below(x[i] + b[i] - b[k])
            # of H over the cell, or more
            mean = min(upper, (upper + lower) / 2 + remainder[i])
            total += (F[i] + U[i] - F[i + 1] - U[i + 1]) * mean
            size += (F[i] + U[i]) * mean
            upper = lower
        out[k] = total + _ROUNDING * size
    return out, largest


@njit(cache=True, nogil=True)
def _least(U, G, x, F, second, Lambda, b):
    """Return the optimum's recursion and a bound on its curvature, but for floors at which all is spent."""
    out = np.empty(U.size)
    bend = np.zeros(U.size)
    for k in range(U.size):
        total = U[k] + Lambda[k]
        size = total
        if 0 < k < x.size:  # floors that begin to spend between this node and the next
            bend[k] = second[k - 1] * (_below(x[k]) - _below(x[k - 1]))
        for i in range(k - 1, -1, -1):
            # what is left lies between nodes i and i + 1, at the level x[i], for floors from a to z
            z = x[i] + b[i + 1] - b[k]
            a = x[i] + b[i] - b[k]
            if z <= 0:
                break
            upper = _below(z)
            lower = _below(a)
            width = min(z - a, z)
            mean = (upper + lower) / 2  # of H over these floors, or less
            if a < 0.5:  # where H is convex, it is below its chord
                mean = max(lower, mean - _BEND * width * width / 12)
            total += G[i] * width * mean
            size += U[i] * mean
            bend[k] += second[i] * (upper - lower)
            if i > 0 and a > 0:  # node i is left, at levels between x[i - 1] and x[i]
                upper = lower
                lower = _below(x[i - 1] + b[i] - b[k])
                total += lower * (F[i - 1] - F[i])
                size += lower * F[i - 1]
                bend[k] += second[i - 1] * (upper - lower)
        out[k] = total - _ROUNDING * size
    return out, bend


@njit(cache=True, nogil=True)
def _convex(values, b):
    """Return the values, raised from the right until their polygon is convex."""
    for k in range(values.size - 3, -1, -1):
        slope = (values[k + 1] - values[k + 2]) / (b[k + 2] - b[k + 1])
        extended = values[k + 1] + slope * (b[k + 1] - b[k])
        values[k] = max(values[k], extended)
    return values


@njit(cache=True, nogil=True)
def hull(values: FloatArray, b: FloatArray) -> FloatArray:
    """Return the lower convex hull of values at nodes, at these nodes.

    SciPy's may be above the values by rounding relative to the largest coordinate, and then it is no bound.
    """
    corners = np.empty(values.size, dtype=np.int64)
    count = 0
    for k in range(values.size):
        while count > 1:
            i = corners[count - 2]
            j = corners[count - 1]
            before = (values[j] - values[i]) / (b[j] - b[i])
            after = (values[k] - values[j]) / (b[k] - b[j])
            if before < after:
                break
            count -= 1
        corners[count] = k
        count += 1
    corners = corners[:count]
    return np.interp(b, b[corners], values[corners])
