"""ReSolve: a new plan for the horizon in every round, given the distribution of the floors."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.compiled import njit
from adascale.policies.base import HorizonState, OnlinePolicy, check_law, find_law
from adascale.scenario import FloatArray, Scenario

BUDGET_MODES = ("average", "hard")
"""Budget modes, by which the budget is met on average, or never exceeded in any realisation."""
SEEN = "seen"
"""The coherence that is estimated from the floors seen so far."""


@dataclass(frozen=True)
class ReSolveState(HorizonState):
    """The distribution of the floors, the last water level, and statistics of the coherence."""

    law: FloorLaw
    level: FloatArray
    seen: FloatArray


@dataclass(frozen=True)
class ReSolve(OnlinePolicy):
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

    needs_law: ClassVar[bool] = True

    mean_gain: FloatArray | None = None
    law: FloorLaw | None = None
    budget_mode: str = "average"
    safety_margin: float = 2.0
    hold: float = 0.1
    coherence: float | str = 1.0

    def __post_init__(self) -> None:
        check_law(self.mean_gain, self.law)
        check_options(self.budget_mode, self.safety_margin, self.hold, self.coherence)

    def start(self, scenario: Scenario, budget: FloatArray) -> ReSolveState:
        law = find_law(scenario, self.mean_gain, self.law)
        budget = np.broadcast_to(
            budget, np.broadcast_shapes(np.shape(budget), law.lanes)
        )
        return ReSolveState.begin(
            scenario, budget, law, np.zeros(budget.shape), np.zeros((budget.size, 6))
        )

    def decide(
        self, state: ReSolveState, floor: FloatArray
    ) -> tuple[ReSolveState, FloatArray]:
        after = state.after(1)
        hard, n = self.budget_mode == "hard", state.later + 1
        level, seen = state.level, state.seen
        coherence: Any = self.coherence
        if isinstance(coherence, str):
            seen, each = seen.copy(), np.reshape(floor, (-1, 1))
            coherence = np.reshape(
                [next_coherence(*pair) for pair in zip(seen, each, strict=True)],
                np.shape(floor),
            )
        if hard or n > self.hold * state.scenario.num_rounds:
            own = np.minimum(coherence, n)
            margin = (
                self.safety_margin
                * (1 + coherence)
                / 2
                * np.log(np.maximum(n / coherence, 1.0))
                if hard
                else 0.0
            )
            level = state.law.shared_level(
                state.left / own, floor, (n - own + margin) / own, state.level
            )
        spend = np.maximum(level - floor, 0.0)
        if hard:
            spend = np.minimum(spend, state.left) if state.later else state.left
        left = np.maximum(
            state.left - spend, 0.0
        )  # a frozen level may spend more than is left
        return replace(after, left=left, level=level, seen=seen), floor + spend

    def skip(self, state: ReSolveState) -> ReSolveState:
        return state.after(1)


def check_options(
    budget_mode: str, safety_margin: float, hold: float, coherence: float | str
) -> None:
    """Validate the options of :class:`ReSolve`."""
    check.one_of("budget_mode", budget_mode, *BUDGET_MODES)
    check.number("safety_margin", safety_margin, 0)
    check.number("hold", hold, 0, math.nextafter(1, 0))
    if not isinstance(coherence, str) or coherence != SEEN:
        check.number("coherence", coherence, 1)


def seen_coherence(min_noise_energy: ArrayLike) -> FloatArray:
    r"""Estimate by von Neumann's ratio for how many rounds a floor counts, shape (...).

    .. math::
        \hat c = 1 + \tfrac32 \Big(\frac{1 + \hat\varrho_1}{1 - \hat\varrho_1} - 1\Big)
        = \frac{6 \sum_i (x_i - \bar x)^2}{\sum_i (x_{i+1} - x_i)^2} - 2, \qquad x_i = \frac{1}{w_{\min,i}}

    with the correlation :math:`\hat\varrho_1` of consecutive floors; the estimate is clipped to 1 ... n.

    Parameters
    ----------
    min_noise_energy : array_like, shape (..., n), :math:`w_{\min,i} > 0`
    """
    floor = check.positive("min_noise_energy", min_noise_energy, "rounds")
    rows = np.ascontiguousarray(floor.reshape(-1, floor.shape[-1]))
    return np.array([next_coherence(np.zeros(6), row) for row in rows]).reshape(
        floor.shape[:-1]
    )


@njit(cache=True, nogil=True, error_model="numpy")
def next_coherence(moments: FloatArray, floor: FloatArray) -> float:
    """Return :func:`seen_coherence` after more floors of a row, and update ``moments``."""
    # moments: count, least and last floor; and, with x in units of its largest, its mean and both sums of squares
    for w in floor:
        n, mean = moments[0] + 1, moments[3]
        least, last = (moments[1], moments[2]) if n > 1 else (w, w)
        unit = min(least, w)
        x, shrink = unit / w, unit / least
        off = x - mean * shrink
        moments[0], moments[1], moments[2], moments[3] = (
            n,
            unit,
            w,
            x - off * (n - 1) / n,
        )
        moments[4] = moments[4] * shrink**2 + off**2 * (n - 1) / n
        moments[5] = moments[5] * shrink**2 + (x - unit / last) ** 2
    coherence: float = moments[0]
    return (
        coherence
        if moments[5] == 0.0
        else min(max(6 * moments[4] / moments[5] - 2, 1.0), coherence)
    )
