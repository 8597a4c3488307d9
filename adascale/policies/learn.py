r"""Learn: re-solving by the floors seen, with nothing known but the budget and the horizon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.compiled import njit
from adascale.policies.base import OnlinePolicy, in_rows, rounds_left, within_limit
from adascale.policies.coherence import check_coherence, coherence_of
from adascale.policies.resolve import promised, whole_budget
from adascale.problem import ReceiveScalingProblem, scaling
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]


class LearnState(NamedTuple):
    """The floors seen, what is left of the budget, in noise energy, and of the horizon; and the level before."""

    scenario: Scenario
    seen: FloatArray
    later: int
    left: FloatArray
    level: FloatArray

    @property
    def lanes(self) -> tuple[int, ...]:
        """The shape of a round's gains."""
        return self.left.shape


@dataclass(frozen=True)
class Learn(OnlinePolicy):
    r"""As :class:`ReSolve`, with the law that the floors seen so far have: no channel statistics, no leakage.

    .. math::
        w_t = \max(\ell_t, w_{\min,t}), \qquad
        \max(\ell_t - w_{\min,t}, 0) + \frac{m}{t + 2} \sum_{i \le t} \max(\ell_t - w_{\min,i}, 0)
        = T\nu - \sum_{i<t} (w_i - w_{\min,i})

    with :math:`m = n - 1` on average and :math:`m = n - 1 + \varrho \ln n` under a hard promise, n rounds left.  The
    divisor counts one imaginary dry round beside the t + 1 floors seen.  With a prior law, ``weight`` floors at its
    quantiles take that round's place.  A ``coherence`` of c rounds changes the first term and m as in
    :class:`ReSolve`.

    Parameters
    ----------
    promise : {"average", "hard"}
        Whether :math:`\nu` is kept on average, or never exceeded on any path.
    reserve : float
        :math:`\varrho \ge 0`, of a hard promise.
    hold : float
        The share of rounds at the end, in [0, 1), whose level is frozen; of a promise on average.
    prior : FloorLaw, optional
        What is believed of the floors before the first round; its lanes broadcast against the lanes.
    weight : int
        :math:`\ge 1`, as many floors as the prior counts for.
    coherence : float or "seen"
        :math:`c \ge 1`, for how many rounds a floor counts, as in :class:`ReSolve`; ``"seen"`` takes it from the floors
        seen so far, and so needs nothing to be known still.
    """

    label: ClassVar[str] = "learning"

    promise: str = "average"
    reserve: float = 2.0
    hold: float = 0.1
    prior: FloorLaw | None = None
    weight: int = 20
    coherence: float | str = 1.0

    def __post_init__(self) -> None:
        promised(self.promise, self.reserve, self.hold)
        check_coherence(self.coherence)
        check.whole("weight", self.weight)
        if self.prior is not None and not isinstance(self.prior, FloorLaw):
            raise ValueError(f"prior must be a FloorLaw, got {self.prior!r}")

    def start(self, scenario: Scenario, budget: FloatArray) -> LearnState:
        believed = self._believed()
        lanes = check.broadcast(lanes_of_prior=believed.shape[:-1], lanes=np.shape(budget))
        seen = np.broadcast_to(believed, (*lanes, believed.shape[-1]))
        return LearnState(
            scenario, seen, scenario.num_rounds - 1, whole_budget(scenario, budget, lanes), np.zeros(lanes)
        )

    def step(self, state: LearnState, min_gain_t: FloatArray) -> tuple[LearnState, FloatArray]:
        scenario = state.scenario
        rounds_left(self, scenario, state.later + 1)
        max_eta = scenario.x_max * min_gain_t
        floor = scenario.noise_scale / max_eta
        seen = np.concatenate([state.seen, floor[..., None]], axis=-1)
        spend, left, level = self._rounds(seen, 1, state.later, state.left, state.level, scenario.num_rounds)
        eta = scaling(floor + spend[..., 0], floor, max_eta, scenario.noise_scale)
        return LearnState(scenario, seen, state.later - 1, left, level), eta

    def skip(self, state: LearnState) -> LearnState:
        """A round that spends nothing and shows no floor: its share of the budget is for the rounds that are left."""
        rounds_left(self, state.scenario, state.later + 1)
        return state._replace(later=state.later - 1)

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        r""":math:`\eta_t`, shape (..., T): all rounds in one compiled loop; errors as ``start`` and ``step``."""
        state = self.start(problem.scenario, np.broadcast_to(problem.budget, problem.lanes))
        T, before = problem.num_rounds, state.seen.shape[-1]
        if state.lanes != problem.lanes:
            raise ValueError(f"prior must have lanes that broadcast against {problem.lanes}, got {state.lanes}")
        floor = np.broadcast_to(problem.floor, (*problem.lanes, T))
        seen = np.concatenate([state.seen, floor], axis=-1)
        spend, _, _ = self._rounds(seen, T, T - 1, state.left, state.level, T)
        eta = scaling(seen[..., before:] + spend, floor, problem.max_eta, problem.scenario.noise_scale)
        return within_limit(eta, problem, "Learn")

    def _believed(self) -> FloatArray:
        """The floors at the quantiles of the prior, shape (..., weight), or none."""
        if self.prior is None:
            return np.empty(0)
        share = (np.arange(self.weight) + 0.5) / self.weight
        return np.moveaxis(self.prior.quantile(share.reshape(-1, *[1] * len(self.prior.lanes))), 0, -1)

    def _rounds(
        self, seen: FloatArray, rounds: int, later: int, left: FloatArray, level: FloatArray, horizon: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What the last ``rounds`` of the floors seen spend, shape (..., rounds), and what is left, and the level."""
        lanes = left.shape
        rows, left, level = in_rows(seen, lanes, seen.shape[-1]), in_rows(left, lanes), in_rows(level, lanes)
        believed = 0 if self.prior is None else self.weight
        reserve = float(self.reserve) if self.promise == "hard" else -1.0
        coherence = 0.0 if isinstance(self.coherence, str) else float(self.coherence)
        spend = _spend(rows, rounds, later, left, level, reserve, self.hold * horizon, believed, coherence)
        return spend.reshape(*lanes, rounds), left.reshape(lanes), level.reshape(lanes)


@njit(cache=True, error_model="numpy")
def _spend(
    seen: FloatArray, rounds: int, later: int, left: FloatArray, level: FloatArray, reserve: float, held: float,
    believed: int, coherence: float,
) -> FloatArray:  # fmt: skip
    """What each round of every lane spends.  A reserve below 0 is none, a coherence of 0 is seen; the first floors are
    ``believed``.  ``left`` and ``level`` follow the rounds."""
    known, dry = seen.shape[1] - rounds, 0 if believed else 1
    spend = np.zeros((seen.shape[0], rounds))
    for lane in range(seen.shape[0]):
        for t in range(rounds):
            n, floor = later - t + 1, seen[lane, known + t]
            if reserve >= 0 or n > held:
                now = known + t + 1
                c = coherence if coherence > 0 else coherence_of(seen[lane, believed:now])
                own = min(c, n)
                m = n - own + (reserve * (1 + c) / 2 * np.log(max(n / c, 1.0)) if reserve >= 0 else 0.0)
                level[lane] = _level(seen[lane, :now], own, m / (now + dry), left[lane], level[lane])
            y = max(level[lane] - floor, 0.0)
            if reserve >= 0:
                y = min(y, left[lane]) if n > 1 else left[lane]
            spend[lane, t] = y
            left[lane] = max(left[lane] - y, 0.0)
    return spend


@njit(cache=True, error_model="numpy")
def _level(seen: FloatArray, own: float, each: float, left: float, start: float) -> float:
    r"""The level :math:`\ell` with :math:`a \sum_i \max(\ell - w_i, 0) + c \max(\ell - w_t, 0) = b`, w_t the last seen.

    Newton's method on a convex function of straight pieces: from the second step on it falls, and ends on the piece
    of the root.
    """
    floor = seen[-1]
    highest = floor + left / own  # this floor alone
    level = min(start, highest)
    for turn in range(seen.size + 3):
        over, slope = -left, 0.0
        for i in range(seen.size):
            if seen[i] < level:
                over += each * (level - seen[i])
                slope += each
        if floor < level:
            over += own * (level - floor)
            slope += own
        if slope == 0.0:
            following = highest
        else:
            following = min(level - over / slope, highest)
        if following == level or (turn > 1 and following > level):
            break
        level = following
    found: float = level
    return found
