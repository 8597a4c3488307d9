"""Learn: re-solving with the floors seen so far, without channel statistics."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.checks import FloatArray
from adascale.compiled import compiled
from adascale.policies.base import (
    CompiledPolicy,
    HorizonState,
    check_law,
    in_rows,
    quantiles,
)
from adascale.policies.resolve import check_options, next_coherence
from adascale.scenario import Scenario


@dataclass(frozen=True)
class LearnState(HorizonState):
    """The floors seen, and the last water level."""

    runs: FloatArray
    """The t floors of a prior and of rounds, in sorted runs, and their sums in each run, shape (instances, 2, t).

    The lengths of the runs are the powers of 2 that add up to t, the longest first: so a floor is added, and the floors
    below a level are counted, without sorting all of them again.
    """
    moments: FloatArray
    """What :func:`~adascale.policies.resolve.next_coherence` remembers of the floors seen, shape (instances, 6)."""
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
        if self.prior is not None:
            check_law("prior", self.prior)

    def start(self, scenario: Scenario, budget: FloatArray) -> LearnState:
        # with a prior: floors at its quantiles, shape (..., weight)
        assumed = np.empty(0)
        if self.prior is not None:
            share = (np.arange(self.weight) + 0.5) / self.weight
            assumed = quantiles(self.prior, share)
        instances = np.broadcast_shapes(np.shape(budget), assumed.shape[:-1])
        runs = _with_sums(in_rows(assumed, instances, assumed.shape[-1]))
        for row in runs:
            for number in range(1, assumed.shape[-1] + 1):
                _add(row, number)
        moments = np.zeros((len(runs), 6))
        level = np.zeros(instances)
        budget = np.broadcast_to(budget, instances)
        return LearnState.begin(scenario, budget, runs, moments, level)

    def decide_rounds(
        self, state: LearnState, floor: FloatArray
    ) -> tuple[LearnState, FloatArray]:
        *batch, rounds = floor.shape
        rows = in_rows(floor, batch, rounds)
        moments = state.moments.copy()
        runs = np.concatenate([state.runs, _with_sums(rows)], axis=-1)
        remaining = in_rows(state.remaining, batch)
        level = in_rows(state.level, batch)
        hard = self.budget_mode == "hard"
        options = _Options(
            hard,
            float(self.safety_margin) if hard else 0.0,
            0.0 if hard else self.hold * float(state.scenario.num_rounds),
            int(self.prior is None),
            0.0 if isinstance(self.coherence, str) else float(self.coherence),
        )
        spend = _spend(rows, state.later, runs, moments, remaining, level, options)
        remaining = remaining.reshape(batch)
        level = level.reshape(batch)
        state = state.after(
            rounds, remaining=remaining, runs=runs, moments=moments, level=level
        )
        return state, floor + spend.reshape(floor.shape)


class _Options(NamedTuple):
    hard: bool
    """Whether the budget is a hard constraint, not met on average."""
    margin: float
    """The safety margin; 0 if the budget is met on average."""
    num_frozen: float
    """Number of rounds at the end whose level is frozen; 0 with a hard constraint."""
    imaginary: int
    """Number of imaginary rounds in the divisor, 0 with a prior."""
    coherence: float
    """0 if it is estimated from the floors seen."""


def _with_sums(floor: FloatArray) -> FloatArray:
    """Return floors, shape (instances, n), with room for their sums, shape (instances, 2, n)."""
    return np.repeat(floor[:, None], 2, axis=1)


@compiled
def _spend(
    floor: FloatArray,
    later: int,
    runs: FloatArray,
    moments: FloatArray,
    remaining: FloatArray,
    level: FloatArray,
    options: _Options,
) -> FloatArray:
    """Return what each round of every row spends, and update ``runs, moments, remaining`` and ``level``.

    The last entries of ``runs`` are the floors of these rounds, which are added one by one.
    """
    spend = np.empty(floor.shape)
    before = runs.shape[2] - floor.shape[1]
    for i in range(floor.shape[0]):
        for t in range(floor.shape[1]):
            w = floor[i, t]
            n = later - t + 1  # rounds left, with this one
            number = before + t + 1  # floors seen, with this one
            coherence = options.coherence
            if coherence == 0:
                coherence = next_coherence(moments[i], floor[i, t : t + 1])
            _add(runs[i], number)
            if n > options.num_frozen:
                counted = min(coherence, n)
                # of the rounds left that count as independent
                log_rounds = np.log(max(n / coherence, 1.0))
                m = n - counted + options.margin * (1 + coherence) / 2 * log_rounds
                share = m / (number + options.imaginary)
                level[i] = _level(
                    runs[i], number, w, counted, share, remaining[i], level[i]
                )
            y = max(level[i] - w, 0.0)
            if options.hard:
                y = min(y, remaining[i]) if n > 1 else remaining[i]
            spend[i, t] = y
            remaining[i] = max(remaining[i] - y, 0.0)
    return spend


@compiled
def _level(
    runs: FloatArray,
    number: int,
    floor: float,
    counted: float,
    share: float,
    remaining: float,
    start: float,
) -> float:
    r"""Return the :math:`\ell` with :math:`a \sum_i \max(\ell - w_i, 0) + c \max(\ell - w_t, 0) = b`.

    Here a is the ``share``, c how often this ``floor`` is ``counted``, and b what is ``remaining``.
    """
    # Newton's steps on a convex, piecewise linear function: after the first one, levels decrease until they are on the
    # piece of the root
    highest = floor + remaining / counted  # with this floor alone
    level: float = min(start, highest)
    for turn in range(number + 3):  # a step at most for each piece
        below, total = _below(runs, number, level)
        over = -remaining
        slope = share * below
        if below > 0:
            over += slope * (level - total / below)
        if floor < level:
            over += counted * (level - floor)
            slope += counted
        following = highest if slope == 0.0 else min(level - over / slope, highest)
        # an increase later on is rounding at the root
        if following == level or (turn > 1 and following > level):
            break
        level = following
    return level


@compiled
def _below(runs: FloatArray, number: int, level: float) -> tuple[int, float]:
    """Return the number of floors below a level, and their sum, by binary search in every run."""
    below, total = 0, 0.0
    while number > 0:
        # the last run is as long as the lowest bit of number, without which it begins
        first = number & (number - 1)
        last_below = first
        step = number - first
        while step > 0:
            if last_below + step <= number and runs[0, last_below + step - 1] < level:
                last_below += step
            step >>= 1
        if last_below > first:
            below += last_below - first
            total += runs[1, last_below - 1]
        number = first
    return below, total


@compiled
def _add(runs: FloatArray, number: int) -> None:
    """Add the last of ``number`` floors to the runs of an instance: merge the last two runs while they are as long.

    The row of sums serves as the place to merge, and then gets the sums of the new run.
    """
    floor = runs[0]
    sums = runs[1]
    size = 1
    total = 0.0
    while size < number & -number:
        first = number - 2 * size
        i = number - 2 * size
        j = number - size
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
