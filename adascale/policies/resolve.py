r"""ReSolve: with the law of the floors known, plan the rest of the horizon anew in every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.policies.base import OnlinePolicy, known_law, one_law, rounds_left
from adascale.policies.coherence import check_coherence, next_coherence
from adascale.problem import scaling
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]

PROMISES = ("average", "hard")
"""The budget is kept on average or else no realisation ever exceeds it."""


class ReSolveState(NamedTuple):
    """What is left of the budget, in noise energy, and of the horizon; the level of the round before."""

    scenario: Scenario
    law: FloorLaw
    later: int
    left: FloatArray
    level: FloatArray
    seen: FloatArray
    """What the coherence that is seen follows from, a row for every lane."""

    @property
    def lanes(self) -> tuple[int, ...]:
        """The shape of a round's gains."""
        return self.left.shape


@dataclass(frozen=True)
class ReSolve(OnlinePolicy):
    r"""This round's floor as it is, and those to come as their law has them, fill up to one level.

    .. math::
        w_t = \max(\ell_t, w_{\min,t}), \qquad
        \max(\ell_t - w_{\min,t}, 0) + m\, g(\ell_t) = T\nu - \sum_{i<t} (w_i - w_{\min,i})

    with :math:`g(\ell) = \mathbb E \max(\ell - w_{\min}, 0)` and n rounds left, this one included.  On average
    :math:`m = n - 1`, and the level of the last rounds is frozen.  Under a hard promise
    :math:`m = n - 1 + \varrho \ln n`: a reserve for bad luck, which the last round spends, so that what is spent is
    :math:`T\nu` and never more.

    Where rounds hang together, a floor says something of those to come, and re-solving as if it did not spends too much
    while floors are low.  With a ``coherence`` of c rounds this round's floor counts c times, or n times if fewer are
    left, and :math:`m = n - c` on average; under a hard promise :math:`\varrho\,\frac{1+c}{2} \ln(n/c)` more.

    Parameters
    ----------
    mean_gain : array_like, optional
        :math:`\mathbb E|h_m|^2 / k_m^2`, shape (..., M), of independent Rayleigh fading; its leading axes broadcast
        against the lanes.
    law : FloorLaw, optional
        The law of the floors, if it is another one.  Exactly one of the two is given.
    promise : {"average", "hard"}
        Whether :math:`\nu` is kept on average, or never exceeded on any path.
    reserve : float
        :math:`\varrho \ge 0`, of a hard promise.
    hold : float
        The share of rounds at the end, in [0, 1), whose level is frozen; of a promise on average.
    coherence : float or "seen"
        :math:`c \ge 1`, for how many rounds a floor counts: 1 where they are independent, the length of the blocks of
        block fading; ``"seen"`` takes it from the floors seen so far (:func:`seen_coherence`).

    Raises
    ------
    ValueError
        If a parameter is out of range, or both of ``mean_gain`` and ``law`` are given, or none.
    """

    needs_law: ClassVar[bool] = True
    label: ClassVar[str] = "re-solving"

    mean_gain: FloatArray | None = None
    law: FloorLaw | None = None
    promise: str = "average"
    reserve: float = 2.0
    hold: float = 0.1
    coherence: float | str = 1.0

    def __post_init__(self) -> None:
        one_law(self.mean_gain, self.law)
        promised(self.promise, self.reserve, self.hold)
        check_coherence(self.coherence)

    def start(self, scenario: Scenario, budget: FloatArray) -> ReSolveState:
        law = known_law(scenario, self.mean_gain, self.law)
        lanes = check.broadcast(lanes_of_law=law.lanes, lanes=np.shape(budget))
        left = whole_budget(scenario, budget, lanes)
        return ReSolveState(scenario, law, scenario.num_rounds - 1, left, np.zeros(lanes), np.zeros((left.size, 6)))

    def step(self, state: ReSolveState, min_gain_t: FloatArray) -> tuple[ReSolveState, FloatArray]:
        scenario = state.scenario
        rounds_left(self, scenario, state.later + 1)
        max_eta = scenario.x_max * min_gain_t
        floor = scenario.noise_scale / max_eta
        level, seen, hard, n = state.level, state.seen, self.promise == "hard", state.later + 1
        coherence: Any = self.coherence
        if isinstance(coherence, str):
            seen, each = seen.copy(), floor.reshape(-1, 1)
            coherence = np.reshape([next_coherence(*pair) for pair in zip(seen, each, strict=True)], floor.shape)
        if hard or n > self.hold * scenario.num_rounds:
            own = np.minimum(coherence, n)
            reserve = self.reserve * (1 + coherence) / 2 * np.log(np.maximum(n / coherence, 1.0)) if hard else 0.0
            level = state.law.shared_level(state.left / own, floor, (n - own + reserve) / own, state.level)
        spend = np.maximum(level - floor, 0.0)
        if hard:
            spend = np.minimum(spend, state.left) if state.later else state.left
        energy = floor + spend
        eta = scaling(energy, floor, max_eta, scenario.noise_scale)
        # a held level may spend more than is left
        left = np.maximum(state.left - spend, 0.0)
        return state._replace(later=state.later - 1, left=left, level=level, seen=seen), eta

    def skip(self, state: ReSolveState) -> ReSolveState:
        """A round that spends nothing: its share of the budget is for the rounds that are left."""
        rounds_left(self, state.scenario, state.later + 1)
        return state._replace(later=state.later - 1)


def promised(promise: str, reserve: float, hold: float) -> None:
    """A ``ValueError`` unless the three say what is promised of a budget, and how it is kept."""
    if promise not in PROMISES:
        raise ValueError(f"promise must be one of {PROMISES}, got {promise!r}")
    for name, value in (("reserve", reserve), ("hold", hold)):
        if check.at_least(name, value, 0).ndim:
            raise ValueError(f"{name} must be one number, got {value!r}")
    if hold >= 1:
        raise ValueError(f"hold must be a share of the rounds in [0, 1), got {hold}")


def whole_budget(scenario: Scenario, budget: FloatArray, lanes: tuple[int, ...]) -> FloatArray:
    r""":math:`T \nu` of every lane."""
    with np.errstate(over="ignore"):
        left = np.broadcast_to(np.asarray(budget, dtype=float) * scenario.num_rounds, lanes)
    check.held(f"the budget of all {scenario.num_rounds} rounds", left)
    return left
