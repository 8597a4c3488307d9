"""ReSolve: a new plan for the horizon in every round, given the distribution of the floors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.policies.base import FloatArray, HorizonPolicy, LawPolicy, renamed, whole_budget
from adascale.policies.coherence import check_coherence, next_coherence
from adascale.problem import scaling
from adascale.scenario import Scenario

PROMISES = ("average", "hard")
"""Budget modes, by which the budget is met on average, or never exceeded in any realisation."""


class ReSolveState(NamedTuple):
    """Remaining budget and horizon, the last water level, and statistics of the coherence."""

    scenario: Scenario
    law: FloorLaw
    later: int
    left: FloatArray
    level: FloatArray
    seen: FloatArray

    @property
    def lanes(self) -> tuple[int, ...]:
        return self.left.shape


@renamed(promise="budget_mode", reserve="safety_margin")
@dataclass(frozen=True)
class ReSolve(LawPolicy, HorizonPolicy):
    r"""Water-filling over this round's floor and the distribution of the later ones.

    .. math::
        w_t = \max(\ell_t, w_{\min,t}), \qquad
        \max(\ell_t - w_{\min,t}, 0) + m\, g(\ell_t) = T\nu - \sum_{i<t} (w_i - w_{\min,i})

    with :math:`g(\ell) = \mathbb E \max(\ell - w_{\min}, 0)` and n rounds left, including this one.  On average,
    :math:`m = n - 1`; as a hard constraint, :math:`m = n - 1 + \varrho \ln n`.  A ``coherence`` of c counts this floor
    :math:`\min(c, n)` times, with :math:`m = n - c`, plus :math:`\varrho\,\frac{1+c}{2} \ln(n/c)` if it is hard.

    Parameters
    ----------
    mean_gain, law : see :class:`ConstantLevel`
    budget_mode : {"average", "hard"}
        Whether :math:`\nu` is met on average or never exceeded.
    safety_margin : float, :math:`\varrho \ge 0`, for a hard constraint
    hold : float, in [0, 1)
        Share of rounds at the end whose water level is frozen, with a budget met on average.
    coherence : float or "seen", :math:`c \ge 1`
        Number of rounds for which a floor counts: 1 if rounds are independent; "seen" is :func:`seen_coherence`.
    """

    label: ClassVar[str] = "re-solving"

    budget_mode: str = "average"
    safety_margin: float = 2.0
    hold: float = 0.1
    coherence: float | str = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget_mode(self.budget_mode, self.safety_margin, self.hold)
        check_coherence(self.coherence)

    def start(self, scenario: Scenario, budget: FloatArray) -> ReSolveState:
        law, lanes = self.known(scenario, budget)
        left = whole_budget(scenario, budget, lanes)
        return ReSolveState(scenario, law, scenario.num_rounds - 1, left, np.zeros(lanes), np.zeros((left.size, 6)))

    def step(self, state: ReSolveState, min_gain_t: FloatArray) -> tuple[ReSolveState, FloatArray]:
        scenario, later = state.scenario, self.count_down(state)
        max_eta = scenario.x_max * min_gain_t
        floor = scenario.noise_scale / max_eta
        level, seen, hard, n = state.level, state.seen, self.budget_mode == "hard", state.later + 1
        coherence: Any = self.coherence
        if isinstance(coherence, str):
            seen, each = seen.copy(), floor.reshape(-1, 1)
            coherence = np.reshape([next_coherence(*pair) for pair in zip(seen, each, strict=True)], floor.shape)
        if hard or n > self.hold * scenario.num_rounds:
            own = np.minimum(coherence, n)
            margin = self.safety_margin * (1 + coherence) / 2 * np.log(np.maximum(n / coherence, 1.0)) if hard else 0.0
            level = state.law.shared_level(state.left / own, floor, (n - own + margin) / own, state.level)
        spend = np.maximum(level - floor, 0.0)
        if hard:
            spend = np.minimum(spend, state.left) if state.later else state.left
        left = np.maximum(state.left - spend, 0.0)  # a frozen level may spend more than is left
        eta = scaling(floor + spend, floor, max_eta, scenario.noise_scale)
        return state._replace(later=later, left=left, level=level, seen=seen), eta


def check_budget_mode(budget_mode: str, safety_margin: float, hold: float) -> None:
    """Validate the budget mode and its parameters."""
    if budget_mode not in PROMISES:
        raise ValueError(f"budget_mode must be one of {PROMISES}, got {budget_mode!r}")
    for name, value in (("safety_margin", safety_margin), ("hold", hold)):
        if check.at_least(name, value, 0).ndim:
            raise ValueError(f"{name} must be one number, got {value!r}")
    if hold >= 1:
        raise ValueError(f"hold must be a share of the rounds in [0, 1), got {hold}")
