"""DynamicProgramme: the causal optimum that never exceeds the budget."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.checks import FloatArray, IndexArray
from adascale.compiled import compiled, inlined
from adascale.policies.base import (
    CompiledPolicy,
    HorizonState,
    check_law,
    in_rows,
    quantiles,
)
from adascale.problem import LeakageTerms, RoundLeakage, slopes
from adascale.rootfind import power_law_step, search_from
from adascale.scenario import Scenario

_STEP = 0.05  # difference of the logarithms of the budgets in a table, about 5 %
_LEAST = 1e-3  # the smallest of these budgets, in units of nu
_FLOORS = 2000  # floors at which a distribution is tabulated
# Gauss-Legendre quadrature on (0, 1)
_NODES = (np.polynomial.legendre.leggauss(12)[0] + 1) / 2
_WEIGHTS = np.polynomial.legendre.leggauss(12)[1] / 2


class FloorTable(NamedTuple):
    """The distribution H of the floors, at floors in equal ratios."""

    start: float
    """Logarithm of the lowest floor."""
    step: float
    """Difference of the logarithms of neighbouring floors."""
    share: FloatArray
    """H at each floor."""


@dataclass(frozen=True)
class ProgrammeState(HorizonState):
    """Tables of levels that do not change, one for each pair of a distribution and a budget."""

    table: FloatArray
    r""":math:`\ell_n(b)`, the level with :math:`|F'(\ell_n(b))| = v_n(b)`, shape (tables, T, points).

    n is the number of later rounds, and the budgets b are in equal ratios up to :math:`T \nu`.
    """
    table_of: IndexArray
    """The number of each instance's table, shape (instances,)."""


@dataclass(frozen=True)
class DynamicProgramme(CompiledPolicy):
    r"""The causal optimum that knows the floors' distribution and never exceeds :math:`T\nu`.

    With n later rounds and b left, the price of budget is

    .. math::
        v_n(b) = \mathbb E \max\{v_{n-1}(b), \Lambda_n(b + w_{\min})\}, \qquad
        \Lambda_n(s) = |F'(w)| \text{ where } |F'(w)| = v_{n-1}(s - w), \qquad v_0 = 0,

    and :math:`\Lambda_n(s) = |F'(s)|` where all is spent.  Prices are tabulated at budgets in ratios of 5 %.

    Parameters
    ----------
    law : see :class:`ConstantLevel`
    """

    needs_law: ClassVar[bool] = True
    label: ClassVar[str] = "dynamic programme"
    budget_mode = "hard"

    law: FloorLaw

    def start(self, scenario: Scenario, budget: FloatArray) -> ProgrammeState:
        law = check_law("law", self.law)
        instances = np.broadcast_shapes(np.shape(budget), law.batch_shape)
        budget = np.broadcast_to(budget, instances)
        tables = _tables(scenario, law, budget * scenario.num_rounds)
        return ProgrammeState.begin(scenario, budget, *tables)

    def decide_rounds(
        self, state: ProgrammeState, floor: FloatArray
    ) -> tuple[ProgrammeState, FloatArray]:
        *batch, rounds = floor.shape
        rows = in_rows(floor, batch, rounds)
        remaining = in_rows(state.remaining, batch)
        horizon_budget = in_rows(state.budget * state.scenario.num_rounds, batch)
        spend = _spend(
            rows, state.table, state.table_of, horizon_budget, remaining, state.later
        )
        after = state.after(rounds, remaining=remaining.reshape(batch))
        return after, floor + spend.reshape(floor.shape)


def _tables(
    scenario: Scenario, law: FloorLaw, horizon_budget: FloatArray
) -> tuple[FloatArray, IndexArray]:
    """Return one table for each pair of a distribution and a budget of all rounds, and the table of every instance."""
    laws = _tabulated(law)
    number = np.arange(len(laws)).reshape(law.batch_shape)
    instances = np.broadcast_arrays(number, horizon_budget)
    pairs, table_of = np.unique(
        np.stack(instances, axis=-1).reshape(-1, 2), axis=0, return_inverse=True
    )
    T = scenario.num_rounds
    terms = RoundLeakage(scenario).terms
    points = math.ceil(math.log(T / _LEAST) / _STEP) + 1
    check.entries("the tables of budgets x rounds x points", len(pairs), T, points)
    table = np.empty((len(pairs), T, points))
    for i, (k, total) in enumerate(pairs):
        table[i] = _levels(total, table.shape[1:], laws[int(k)], terms)
        check.finite(f"the price of a budget of {total / T:.3g}", table[i, 1:])
    return table, table_of.ravel()


def _tabulated(law: FloorLaw) -> list[FloorTable]:
    """Return every distribution of a law at floors from H = 1e-14 to 1 - 1e-6."""
    ends = np.log(quantiles(law, np.array([1e-14, 1 - 1e-6])))
    start = ends[..., 0]
    step = np.maximum(ends[..., 1] - start, 1e-6) / (_FLOORS - 1)
    column = np.arange(_FLOORS).reshape(-1, *[1] * len(law.batch_shape))
    share = law.cdf(np.exp(start + step * column)).reshape(_FLOORS, -1).T.copy()
    return [*map(FloorTable, np.ravel(start), np.ravel(step), share)]


@compiled
def _levels(
    horizon_budget: float,
    shape: tuple[int, int],
    law: FloorTable,
    terms: LeakageTerms,
) -> FloatArray:
    r"""Return the table :math:`\ell_n(b)` of :class:`ProgrammeState`, n = 0 ... T - 1, for one budget of all rounds.

    With the distribution H of the floors, integration by parts gives

    .. math:: v_n(b) = v_{n-1}(b) + \int H(w)\, \Big|\frac{d \Lambda_n(b + w)}{d w}\Big|\, dw

    over the floors w at which :math:`\Lambda_n(b + w) > v_{n-1}(b)`.
    """
    rounds, points = shape
    table = np.full(shape, np.inf)
    price = np.empty(points)
    budget = horizon_budget * np.exp(_STEP * (np.arange(points) - (points - 1.0)))
    for n in range(1, rounds):
        level = table[n - 1]
        before = price.copy()  # of n - 1 later rounds
        for j in range(points - 1, -1, -1):
            b = budget[j]
            if n == 1:
                price[j] = _last_price(b, law, terms)
                guess = table[n, j + 1] if j + 1 < points else b
            else:
                value = before[j]
                value = _with_all_spent(value, b, level, law, terms)
                price[j] = _with_some_saved(
                    value, b, level, before, law, horizon_budget
                )
                guess = level[j]
            table[n, j] = _inverse(price[j], guess, terms)
    return table


@compiled
def _last_price(b: float, law: FloorTable, terms: LeakageTerms) -> float:
    r"""Return :math:`v_1(b) = \mathbb E|F'(b + w_{\min})| = \int H(w) F''(b + w)\, dw`."""
    total, stride = 0.0, 4  # every fourth floor is enough for the trapezoidal rule
    last = (law.share.size - 1) // stride * stride
    for i in range(0, last + 1, stride):
        w = np.exp(law.start + i * law.step)
        weight = 0.5 if i == 0 or i == last else 1.0
        width = weight * stride * law.step * w
        total += width * law.share[i] * slopes(b + w, terms)[1]
    # above the highest floor, H is 1
    highest = np.exp(law.start + last * law.step)
    return total - slopes(b + highest, terms)[0]


@compiled
def _with_all_spent(
    price: float,
    b: float,
    level: FloatArray,
    law: FloorTable,
    terms: LeakageTerms,
) -> float:
    r"""Add the integral over floors so low that this round spends all of b, where :math:`\Lambda_n(s) = |F'(s)|`.

    These are the w with b + w below ``level[0]``, the level of the smallest budget.
    """
    lowest = np.exp(law.start)
    width = level[0] - b - lowest
    if width > 0:
        for i in range(_NODES.size):
            w = lowest + width * _NODES[i]
            curvature = slopes(b + w, terms)[1]
            price += width * _WEIGHTS[i] * _share(w, law) * curvature
    return price


@compiled
def _with_some_saved(
    price: float,
    b: float,
    level: FloatArray,
    before: FloatArray,
    law: FloorTable,
    horizon_budget: float,
) -> float:
    r"""Add the integral over floors at which this round spends a part y of b, as one over y.

    There :math:`w = \ell_{n-1}(b - y) - y` and :math:`\Lambda_n = v_{n-1}(b - y)`, tabulated in ``level``
    and ``before``.
    """
    lowest = np.exp(law.start)
    largest_spend = _spend_of_round(lowest, b, level, horizon_budget)
    least_budget = horizon_budget * np.exp(-_STEP * (level.size - 1.0))
    for i in range(_NODES.size):
        y = largest_spend * _NODES[i]
        x = _at(b - y, level.size, horizon_budget)
        floor = _curve(level, x)[0] - y
        if floor > lowest:
            fall = max(-_curve(before, x)[1], 0.0)
            slope = fall / (_STEP * max(b - y, least_budget))
            price += largest_spend * _WEIGHTS[i] * slope * _share(floor, law)
    return price


@compiled
def _inverse(price: float, guess: float, terms: LeakageTerms) -> float:
    """Return the w at which |F'(w)| is ``price``, searched from ``guess``; NaN if it is not found."""
    search = search_from(guess, 1e-9 * guess)  # the root is not far below the guess
    for _ in range(100):
        slope, curvature = slopes(search.x, terms)
        decay = search.x * curvature / -slope
        search = power_law_step(search, -slope / price, decay)
        if search.converged or not search.x < np.inf:
            break
    return search.x if search.converged else np.nan


@inlined
def _at(b: float, points: int, horizon_budget: float) -> float:
    """Return the position of a budget among those of a table, from 0 to points - 1."""
    share = max(b / horizon_budget, 1e-300)  # 0 has no logarithm
    x = np.log(share) / _STEP + (points - 1)
    return min(max(x, 0.0), points - 1.0)


@inlined
def _curve(values: FloatArray, x: float) -> tuple[float, float]:
    """Return the value and slope at position x of a cubic, whose slopes at the points are central differences."""
    i = min(int(x), values.size - 2)
    u = x - i
    low = values[i]
    high = values[i + 1]
    rise = high - low
    slope_low = (high - values[i - 1]) / 2 if i > 0 else rise
    slope_high = (values[i + 2] - low) / 2 if i + 2 < values.size else rise
    square = 3 * rise - 2 * slope_low - slope_high
    cube = slope_low + slope_high - 2 * rise
    value = low + u * (slope_low + u * (square + u * cube))
    return value, slope_low + u * (2 * square + 3 * u * cube)


@inlined
def _share(floor: float, law: FloorTable) -> float:
    """Return H(floor), linear between the floors of the table."""
    x = (np.log(floor) - law.start) / law.step
    if x < 0:
        return 0.0
    if x >= law.share.size - 1:
        return 1.0
    i = int(x)
    return law.share[i] + (x - i) * (law.share[i + 1] - law.share[i])


@compiled
def _spend_of_round(
    floor: float, remaining: float, level: FloatArray, horizon_budget: float
) -> float:
    r"""Return the spend y in 0 ... b with :math:`w_{\min} + y = \ell(b - y)`, or else the nearer end; b remains."""
    if floor >= _curve(level, _at(remaining, level.size, horizon_budget))[0]:
        return 0.0
    if floor + remaining <= level[0]:
        return remaining
    low = 0.0
    high = remaining
    y = 0.0
    for _ in range(100):
        value, slope = _curve(level, _at(remaining - y, level.size, horizon_budget))
        if floor + y < value:
            low = y
        else:
            high = y
        rise = max(slope, 0.0) / (_STEP * (remaining - y))
        step = y - (floor + y - value) / (1 + rise)
        if not low < step < high:
            step = (low + high) / 2
        if abs(step - y) <= 1e-12 * (floor + y) or high - low <= 1e-15 * high:
            break
        y = step
    return y


@compiled
def _spend(
    floor: FloatArray,
    table: FloatArray,
    table_of: IndexArray,
    horizon_budget: FloatArray,
    remaining: FloatArray,
    later: int,
) -> FloatArray:
    """Return what each round of every row spends, and update what is left of the budgets."""
    spend = np.zeros(floor.shape)
    for i in range(floor.shape[0]):
        for t in range(floor.shape[1]):
            if t == later:
                spend[i, t] = remaining[i]
            elif remaining[i] > 0:
                level = table[table_of[i], later - t]
                spend[i, t] = _spend_of_round(
                    floor[i, t], remaining[i], level, horizon_budget[i]
                )
            remaining[i] = max(remaining[i] - spend[i, t], 0.0)
    return spend
