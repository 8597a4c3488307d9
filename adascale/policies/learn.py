"""Learn: re-solving with the floors seen so far, without channel statistics."""

from dataclasses import dataclass

import numpy as np

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.compiled import njit
from adascale.policies.base import CompiledPolicy, HorizonState, in_rows
from adascale.policies.resolve import check_options, next_coherence
from adascale.scenario import FloatArray, Scenario


@dataclass(frozen=True)
class LearnState(HorizonState):
    """The floors seen, and the last water level."""

    seen: FloatArray
    """Floors and their sums, shape (instances, 2, t): a sorted run per bit of t, longest first."""
    moments: FloatArray  # a row per instance, from which the coherence is estimated
    level: FloatArray


@dataclass(frozen=True)
class Learn(CompiledPolicy):
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

    budget_mode: str = "average"
    safety_margin: float = 2.0
    hold: float = 0.1
    prior: FloorLaw | None = None
    weight: int = 20
    coherence: float | str = 1.0

    def __post_init__(self) -> None:
        check_options(self.budget_mode, self.safety_margin, self.hold, self.coherence)
        check.whole("weight", self.weight)
        if self.prior is not None and not isinstance(self.prior, FloorLaw):
            raise ValueError(f"prior must be a FloorLaw, got {self.prior!r}")

    def start(self, scenario: Scenario, budget: FloatArray) -> LearnState:
        assumed = np.empty(
            0
        )  # with a prior: floors at its quantiles, shape (..., weight)
        if self.prior is not None:
            share = (np.arange(self.weight) + 0.5) / self.weight
            assumed = np.moveaxis(
                self.prior.quantile(share.reshape(-1, *[1] * len(self.prior.lanes))),
                0,
                -1,
            )
        batch = np.broadcast_shapes(np.shape(budget), assumed.shape[:-1])
        seen = np.repeat(in_rows(assumed, batch, assumed.shape[-1])[:, None], 2, axis=1)
        for row in seen:
            for number in range(1, assumed.shape[-1] + 1):
                _add(row, number)
        moments, level = np.zeros((len(seen), 6)), np.zeros(batch)
        return LearnState.begin(
            scenario, np.broadcast_to(budget, batch), seen, moments, level
        )

    def decide_rounds(
        self, state: LearnState, floor: FloatArray
    ) -> tuple[LearnState, FloatArray]:
        *batch, rounds = floor.shape
        moments = state.moments.copy()
        seen = np.concatenate(
            [state.seen, in_rows(floor, batch, rounds)[:, None].repeat(2, 1)], -1
        )
        left, level = in_rows(state.left, batch), in_rows(state.level, batch)
        margin = float(self.safety_margin) if self.budget_mode == "hard" else -1.0
        coherence = 0.0 if isinstance(self.coherence, str) else float(self.coherence)
        options = (
            margin,
            self.hold * float(state.scenario.num_rounds),
            int(self.prior is None),
            coherence,
        )
        spend = np.empty((len(seen), rounds))
        _spend(spend, state.later, seen, moments, left, level, options)
        left, level = left.reshape(batch), level.reshape(batch)
        state = state.after(rounds, left=left, seen=seen, moments=moments, level=level)
        return state, floor + spend.reshape(floor.shape)


@njit(cache=True, nogil=True, error_model="numpy")
def _spend(
    spend: FloatArray,
    later: int,
    seen: FloatArray,
    moments: FloatArray,
    left: FloatArray,
    level: FloatArray,
    options: tuple[float, float, int, float],
) -> None:
    """Fill in what the last rounds of every instance spend, and update the arrays."""
    margin, frozen, imaginary, coherence = (
        options  # a margin below 0 stands for none, a coherence of 0 for an estimate
    )
    rounds = spend.shape[1]
    known = seen.shape[2] - rounds
    for i in range(seen.shape[0]):
        for t in range(rounds):
            n, now, floor, c = (
                later - t + 1,
                known + t + 1,
                seen[i, 0, known + t],
                coherence,
            )
            if coherence == 0:
                c = next_coherence(moments[i], seen[i, 0, now - 1 : now])
            _add(seen[i], now)
            if margin >= 0 or n > frozen:
                own = min(c, n)
                m = (
                    n
                    - own
                    + (
                        margin * (1 + c) / 2 * np.log(max(n / c, 1.0))
                        if margin >= 0
                        else 0.0
                    )
                )
                level[i] = _level(
                    seen[i], now, floor, own, m / (now + imaginary), left[i], level[i]
                )
            y = max(level[i] - floor, 0.0)
            if margin >= 0:
                y = min(y, left[i]) if n > 1 else left[i]
            spend[i, t] = y
            left[i] = max(left[i] - y, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _level(
    seen: FloatArray,
    now: int,
    floor: float,
    own: float,
    each: float,
    left: float,
    start: float,
) -> float:
    r"""Return :math:`\ell` with :math:`a \sum_i \max(\ell - w_i, 0) + c \max(\ell - w_t, 0) = b`."""
    # Newton's steps on a convex, piecewise linear function: from the second on they decrease to the root's piece
    highest = floor + left / own  # with this floor alone
    level = min(start, highest)
    for turn in range(now + 3):
        below, total = _below(seen, now, level)
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
def _below(seen: FloatArray, number: int, level: float) -> tuple[int, float]:
    """Return the number of floors below a level, and their sum, by binary search in every run."""
    below, total = 0, 0.0
    while number > 0:
        first = number & (number - 1)
        found, step = first, number - first
        while step > 0:
            if found + step <= number and seen[0, found + step - 1] < level:
                found += step
            step >>= 1
        if found > first:
            below, total = below + found - first, total + seen[1, found - 1]
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
