"""Learn: re-solving with the floors seen so far, without channel statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.compiled import njit
from adascale.policies.base import CompiledPolicy, FloatArray, HorizonPolicy, in_rows, renamed, whole_budget
from adascale.policies.coherence import check_coherence, next_coherence
from adascale.policies.resolve import check_budget_mode
from adascale.problem import scaling
from adascale.scenario import Scenario

_LONG = 4096  # a run of this many floors is not copied in later rounds


class LearnState(NamedTuple):
    """Floors seen, remaining budget and horizon, and the last water level."""

    scenario: Scenario
    seen: FloatArray
    """Floors and their sums, shape (instances, 2, t): a sorted run per bit of t, longest first."""
    before: FloatArray  # the first floors in the same form, kept apart so that few rounds copy a long array
    moments: FloatArray  # a row per instance, from which the coherence is estimated
    later: int
    left: FloatArray
    level: FloatArray

    @property
    def lanes(self) -> tuple[int, ...]:
        return self.left.shape


@renamed(promise="budget_mode", reserve="safety_margin")
@dataclass(frozen=True)
class Learn(CompiledPolicy, HorizonPolicy):
    r"""Re-solving as :class:`ReSolve` with the distribution of the floors seen so far.

    .. math::
        w_t = \max(\ell_t, w_{\min,t}), \qquad
        \max(\ell_t - w_{\min,t}, 0) + \frac{m}{t + 2} \sum_{i \le t} \max(\ell_t - w_{\min,i}, 0)
        = T\nu - \sum_{i<t} (w_i - w_{\min,i})

    with m and ``coherence`` as there.  The divisor t + 2 counts the floors seen and one imaginary round at its floor; a
    prior replaces this round by ``weight`` floors at its quantiles.

    Parameters
    ----------
    budget_mode, safety_margin, hold, coherence : see :class:`ReSolve`
    prior : FloorLaw, optional
        Distribution of the floors that is assumed before the first round.
    weight : int, >= 1
    """

    label: ClassVar[str] = "learning"

    budget_mode: str = "average"
    safety_margin: float = 2.0
    hold: float = 0.1
    prior: FloorLaw | None = None
    weight: int = 20
    coherence: float | str = 1.0

    def __post_init__(self) -> None:
        check_budget_mode(self.budget_mode, self.safety_margin, self.hold)
        check_coherence(self.coherence)
        check.whole("weight", self.weight)
        if self.prior is not None and not isinstance(self.prior, FloorLaw):
            raise ValueError(f"prior must be a FloorLaw, got {self.prior!r}")

    def start(self, scenario: Scenario, budget: FloatArray) -> LearnState:
        assumed = np.empty(0)  # with a prior: floors at its quantiles, shape (..., weight)
        if self.prior is not None:
            share = (np.arange(self.weight) + 0.5) / self.weight
            assumed = np.moveaxis(self.prior.quantile(share.reshape(-1, *[1] * len(self.prior.lanes))), 0, -1)
        lanes = check.broadcast(lanes_of_prior=assumed.shape[:-1], lanes=np.shape(budget))
        left = whole_budget(scenario, budget, lanes)
        seen = np.repeat(in_rows(assumed, lanes, assumed.shape[-1])[:, None], 2, axis=1)
        for row in seen:
            for number in range(1, assumed.shape[-1] + 1):
                _add(row, number)
        moments = np.zeros((left.size, 6))
        return LearnState(scenario, seen, seen[..., :0], moments, scenario.num_rounds - 1, left, np.zeros(lanes))

    def rounds(self, state: LearnState, max_eta: FloatArray) -> tuple[LearnState, FloatArray]:
        floor, lanes, rounds = state.scenario.noise_scale / max_eta, state.lanes, max_eta.shape[-1]
        later = self.count_down(state, rounds)
        new = in_rows(floor, lanes, rounds)[:, None]
        seen, before, moments = np.concatenate([state.seen, new.repeat(2, 1)], -1), state.before, state.moments.copy()
        left, level = in_rows(state.left, lanes), in_rows(state.level, lanes)
        margin = float(self.safety_margin) if self.budget_mode == "hard" else -1.0
        coherence = 0.0 if isinstance(self.coherence, str) else float(self.coherence)
        held, dry = self.hold * state.scenario.num_rounds, int(self.prior is None)
        spend = _spend(seen, before, moments, rounds, state.later, left, level, margin, held, dry, coherence)
        if (number := seen.shape[-1]) >= _LONG and number & (number - 1) == 0:  # all floors are in one run
            before, seen = np.concatenate([before, seen], -1), seen[..., :0]
            for row in before:
                _add(row, row.shape[-1])
        eta = scaling(floor + spend.reshape(floor.shape), floor, max_eta, state.scenario.noise_scale)
        left, level = left.reshape(lanes), level.reshape(lanes)
        return LearnState(state.scenario, seen, before, moments, later, left, level), eta


@njit(cache=True, nogil=True, error_model="numpy")
def _spend(
    seen: FloatArray,
    before: FloatArray,
    moments: FloatArray,
    rounds: int,
    later: int,
    left: FloatArray,
    level: FloatArray,
    margin: float,
    held: float,
    dry: int,
    coherence: float,
) -> FloatArray:
    """Return what the last ``rounds`` of every instance spend, and update the arrays."""
    # a margin below 0 stands for none, and a coherence of 0 for an estimate
    known = seen.shape[2] - rounds
    spend = np.zeros((seen.shape[0], rounds))
    for lane in range(seen.shape[0]):
        for t in range(rounds):
            n, now, floor, c = later - t + 1, known + t + 1, seen[lane, 0, known + t], coherence
            if coherence == 0:
                c = next_coherence(moments[lane], seen[lane, 0, now - 1 : now])
            _add(seen[lane], now)
            if margin >= 0 or n > held:
                own = min(c, n)
                m = n - own + (margin * (1 + c) / 2 * np.log(max(n / c, 1.0)) if margin >= 0 else 0.0)
                each = m / (before.shape[2] + now + dry)
                level[lane] = _level(seen[lane], now, before[lane], floor, own, each, left[lane], level[lane])
            y = max(level[lane] - floor, 0.0)
            if margin >= 0:
                y = min(y, left[lane]) if n > 1 else left[lane]
            spend[lane, t] = y
            left[lane] = max(left[lane] - y, 0.0)
    return spend


@njit(cache=True, nogil=True, error_model="numpy")
def _level(
    seen: FloatArray, now: int, before: FloatArray, floor: float, own: float, each: float, left: float, start: float
) -> float:
    r"""Return :math:`\ell` with :math:`a \sum_i \max(\ell - w_i, 0) + c \max(\ell - w_t, 0) = b`."""
    # Newton's steps on a convex, piecewise linear function: from the second on they decrease to the root's piece
    highest = floor + left / own  # with this floor alone
    level = min(start, highest)
    for turn in range(now + before.shape[1] + 3):
        below, total = _below(seen, now, before, level)
        over, slope = -left, each * below
        if below > 0:
            over += slope * (level - total / below)
        if floor < level:
            over += own * (level - floor)
            slope += own
        following = highest if slope == 0.0 else min(level - over / slope, highest)
        if following == level or (turn > 1 and following > level):
            break
        level = following
    found: float = level
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _below(seen: FloatArray, now: int, before: FloatArray, level: float) -> tuple[int, float]:
    below, total = 0, 0.0
    for runs, number in ((seen, now), (before, before.shape[1])):
        while number > 0:
            first = number & (number - 1)
            found, step = first, number - first
            while step > 0:
                if found + step <= number and runs[0, found + step - 1] < level:
                    found += step
                step >>= 1
            if found > first:
                below, total = below + found - first, total + runs[1, found - 1]
            number = first
    return below, total


@njit(cache=True, nogil=True, error_model="numpy")
def _add(seen: FloatArray, number: int) -> None:
    """Add the last of ``number`` floors to the runs: merge runs of equal length."""
    floor, sums, size, total = seen[0], seen[1], 1, 0.0
    while size < number & -number:
        first, i, j = number - 2 * size, number - 2 * size, number - size
        for k in range(first, number):
            if j == number or (i < number - size and floor[i] <= floor[j]):
                sums[k], i = floor[i], i + 1
            else:
                sums[k], j = floor[j], j + 1
        for k in range(first, number):
            floor[k] = sums[k]
        size *= 2
    for k in range(number - size, number):
        total += floor[k]
        sums[k] = total
