"""DynamicProgramme: the causal optimum that never exceeds the budget."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale.accounting.kernels import are_few
from adascale.channel import FloorLaw
from adascale.compiled import njit
from adascale.policies.base import (
    CompiledPolicy,
    HorizonState,
    check_law,
    find_law,
    in_rows,
)
from adascale.problem import LeakageTerms, RoundLeakage, slopes
from adascale.rootfind import power_law_step, search_from
from adascale.scenario import FloatArray, Scenario

_STEP, _LEAST, _FLOORS = 0.05, 1e-3, 2000
_NODES = (np.polynomial.legendre.leggauss(12)[0] + 1) / 2
_WEIGHTS = np.polynomial.legendre.leggauss(12)[1] / 2


@dataclass(frozen=True)
class ProgrammeState(HorizonState):
    """Tables that do not change, one for each pair of a distribution and a budget."""

    table: FloatArray
    r""":math:`\ell_n(b)`, shape (tables, T, points), for n later rounds and budgets b in equal ratios."""
    which: NDArray[np.intp]
    """The table of every instance, in one row."""


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
    mean_gain, law : see :class:`ConstantLevel`
    """

    needs_law: ClassVar[bool] = True
    label: ClassVar[str] = "dynamic programme"

    mean_gain: FloatArray | None = None
    law: FloorLaw | None = None

    def __post_init__(self) -> None:
        check_law(self.mean_gain, self.law)

    def start(self, scenario: Scenario, budget: FloatArray) -> ProgrammeState:
        law = find_law(scenario, self.mean_gain, self.law)
        budget = np.broadcast_to(
            budget, np.broadcast_shapes(np.shape(budget), law.lanes)
        )
        with np.errstate(over="ignore"):
            tables = _tables(scenario, law, budget * scenario.num_rounds)
        return ProgrammeState.begin(scenario, budget, *tables)

    def decide_rounds(
        self, state: ProgrammeState, floor: FloatArray
    ) -> tuple[ProgrammeState, FloatArray]:
        *batch, rounds = floor.shape
        left, whole = (
            in_rows(state.left, batch),
            in_rows(state.budget * state.scenario.num_rounds, batch),
        )
        spend = _spend(
            in_rows(floor, batch, rounds),
            state.table,
            state.which,
            whole,
            left,
            state.later,
        )
        return state.after(rounds, left=left.reshape(batch)), floor + spend.reshape(
            floor.shape
        )


def _tables(
    scenario: Scenario, law: FloorLaw, whole: FloatArray
) -> tuple[FloatArray, NDArray[np.intp]]:
    number = np.broadcast_to(
        np.arange(math.prod(law.lanes)).reshape(law.lanes), whole.shape
    )
    pairs, which = np.unique(
        np.stack([number.ravel(), whole.ravel()], axis=1), axis=0, return_inverse=True
    )
    T, points = (
        scenario.num_rounds,
        math.ceil(math.log(scenario.num_rounds / _LEAST) / _STEP) + 1,
    )
    check.entries("the tables of budgets x rounds x points", len(pairs), T, points)
    ends = np.log(
        law.quantile(np.reshape([1e-14, 1 - 1e-6], (2, *[1] * len(law.lanes))))
    )
    start, step = ends[0], np.maximum(ends[1] - ends[0], 1e-6) / (_FLOORS - 1)
    index = np.arange(_FLOORS).reshape(-1, *[1] * len(law.lanes))
    share = np.moveaxis(law.cdf(np.exp(start + step * index)), 0, -1).reshape(
        -1, _FLOORS
    )
    terms, table = RoundLeakage(scenario).terms, np.empty((len(pairs), T, points))
    for levels, (one, total) in zip(table, pairs, strict=True):
        first, width = (float(each.flat[int(one)]) for each in (start, step))
        shares = np.ascontiguousarray(share[int(one)])
        levels[:] = _levels(
            float(total), T, points, first, width, shares, terms, are_few(terms.moments)
        )
        check.finite(f"the price of a budget of {total / T:.3g}", levels[1:])
    return table, which.ravel()


@njit(cache=True, nogil=True, error_model="numpy")
def _levels(
    whole: float,
    rounds: int,
    points: int,
    start: float,
    step: float,
    share: FloatArray,
    terms: LeakageTerms,
    few: bool,
) -> FloatArray:
    r"""Return the table :math:`\ell_n(b)`, with :math:`|F'(\ell_n(b))| = v_n(b)`, n = 0 ... T - 1."""
    table, price, least = (
        np.full((rounds, points), np.inf),
        np.empty(points),
        np.exp(start),
    )
    budget = whole * np.exp(_STEP * (np.arange(points) - (points - 1.0)))
    for n in range(1, rounds):
        level, before = table[n - 1], price.copy()
        lowest = level[0]  # up to here, all of a smaller budget is spent
        for j in range(points - 1, -1, -1):
            b, value = budget[j], before[j]
            if n == 1:
                value = _last_price(b, start, step, share, terms, few)
            elif lowest - b > least:
                width = lowest - b - least
                for i in range(_NODES.size):
                    w = least + width * _NODES[i]
                    value += (
                        width
                        * _WEIGHTS[i]
                        * _share(w, start, step, share)
                        * slopes(b + w, terms, few)[1]
                    )
            if n > 1:
                most = _spent(least, b, level, whole)
                for i in range(_NODES.size):
                    y = most * _NODES[i]
                    x = _at(b - y, points, whole)
                    floor = _curve(level, x)[0] - y
                    if floor > least:
                        saved = max(-_curve(before, x)[1], 0.0) / (
                            _STEP * max(b - y, budget[0])
                        )
                        value += (
                            most
                            * _WEIGHTS[i]
                            * saved
                            * _share(floor, start, step, share)
                        )
            price[j] = value
            guess = level[j] if n > 1 else (table[n, j + 1] if j + 1 < points else b)
            table[n, j] = _inverse(value, guess, terms, few)
    return table


@njit(cache=True, nogil=True, error_model="numpy")
def _last_price(
    b: float,
    start: float,
    step: float,
    share: FloatArray,
    terms: LeakageTerms,
    few: bool,
) -> float:
    r"""Return :math:`v_1(b) = \mathbb E|F'(b + w_{\min})| = \int H(w) F''(b + w)\, dw`."""
    total, every = 0.0, 4
    last = (share.size - 1) // every * every
    for i in range(0, last + 1, every):
        w = np.exp(start + i * step)
        weight = 0.5 if i == 0 or i == last else 1.0
        total += weight * every * step * w * share[i] * slopes(b + w, terms, few)[1]
    price: float = total - slopes(b + np.exp(start + last * step), terms, few)[0]
    return price


@njit(cache=True, nogil=True, error_model="numpy")
def _inverse(price: float, guess: float, terms: LeakageTerms, few: bool) -> float:
    """Return the w at which |F'(w)| is ``price``; NaN if it is not found."""
    search = search_from(guess, 1e-9 * guess)
    for _ in range(100):
        slope, curvature = slopes(search.x, terms, few)
        search = power_law_step(search, -slope / price, search.x * curvature / -slope)
        if search.converged or not search.x < np.inf:
            break
    return search.x if search.converged else np.nan


@njit(cache=True, inline="always")
def _at(b: float, points: int, whole: float) -> float:
    x: float = min(
        max(np.log(max(b / whole, 1e-300)) / _STEP + (points - 1), 0.0), points - 1.0
    )
    return x


@njit(cache=True, inline="always")
def _curve(values: FloatArray, x: float) -> tuple[float, float]:
    """Return the value and slope at x of a cubic interpolation of the points around it."""
    i = min(int(x), values.size - 2)
    u = x - i
    low, high = values[i], values[i + 1]
    left = (high - values[i - 1]) / 2 if i > 0 else high - low
    right = (values[i + 2] - low) / 2 if i + 2 < values.size else high - low
    square, cube = 3 * (high - low) - 2 * left - right, left + right - 2 * (high - low)
    return low + u * (left + u * (square + u * cube)), left + u * (
        2 * square + 3 * u * cube
    )


@njit(cache=True, inline="always")
def _share(floor: float, start: float, step: float, share: FloatArray) -> float:
    x = (np.log(floor) - start) / step
    if x < 0:
        return 0.0
    if x >= share.size - 1:
        return 1.0
    i = int(x)
    between: float = share[i] + (x - i) * (share[i + 1] - share[i])
    return between


@njit(cache=True, nogil=True, error_model="numpy")
def _spent(floor: float, left: float, level: FloatArray, whole: float) -> float:
    r"""Return the y in 0 ... b with :math:`w_{\min} + y = \ell(b - y)`, or else the nearer end."""
    if floor >= _curve(level, _at(left, level.size, whole))[0]:
        return 0.0
    if floor + left <= level[0]:
        return left
    low, high, y = 0.0, left, 0.0
    for _ in range(100):
        value, slope = _curve(level, _at(left - y, level.size, whole))
        if floor + y < value:
            low = y
        else:
            high = y
        step = y - (floor + y - value) / (1 + max(slope, 0.0) / (_STEP * (left - y)))
        if not low < step < high:
            step = (low + high) / 2
        if abs(step - y) <= 1e-12 * (floor + y) or high - low <= 1e-15 * high:
            break
        y = step
    return y


@njit(cache=True, nogil=True, error_model="numpy")
def _spend(
    floor: FloatArray,
    table: FloatArray,
    which: NDArray[np.intp],
    whole: FloatArray,
    left: FloatArray,
    later: int,
) -> FloatArray:
    spend = np.zeros(floor.shape)
    for i in range(floor.shape[0]):
        for t in range(floor.shape[1]):
            if t == later:
                spend[i, t] = left[i]
            elif left[i] > 0:
                spend[i, t] = _spent(
                    floor[i, t], left[i], table[which[i], later - t], whole[i]
                )
            left[i] = max(left[i] - spend[i, t], 0.0)
    return spend
