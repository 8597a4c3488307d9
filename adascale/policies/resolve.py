"""ReSolve: a new plan for the horizon in every round, given the distribution of the floors."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.checks import FloatArray
from adascale.compiled import compiled
from adascale.policies.base import HorizonState, OnlinePolicy, check_law
from adascale.scenario import Scenario

BUDGET_MODES = ("average", "hard")
"""Budget modes, by which the budget is met on average, or never exceeded in any realisation."""
SEEN = "seen"
"""The coherence that is estimated from the floors seen so far."""


@dataclass(frozen=True)
class ReSolveState(HorizonState):
    """The distribution of the floors, the last water level, and statistics of the coherence."""

    law: FloorLaw
    level: FloatArray
    moments: FloatArray
    """What :func:`next_coherence` remembers of the floors seen, shape (instances, 6)."""


@dataclass(frozen=True)
class ReSolve(OnlinePolicy):
    r"""Water-filling over this round's floor and the distribution of the later ones.

    .. math::
        w_t = \max(\ell_t, w_{\min,t}), \qquad
        \max(\ell_t - w_{\min,t}, 0) + m\, g(\ell_t) = T\nu - \sum_{i<t} (w_i - w_{\min,i})

    with :math:`g(\ell) = \mathbb E \max(\ell - w_{\min}, 0)` and n rounds left, including this one.  On average,
    :math:`m = n - 1`; as a hard constraint, :math:`m = n - 1 + \varrho \ln n`.  A ``coherence`` of c counts this floor
    :math:`c' = \min(c, n)` times, with :math:`m = n - c'`, plus :math:`\varrho\,\frac{1+c}{2} \ln(n/c')` if it is hard.

    Parameters
    ----------
    law : see :class:`ConstantLevel`
    budget_mode : {"average", "hard"}
        Whether :math:`\nu` is met on average or never exceeded.
    safety_margin : float, :math:`\varrho \ge 0`, for a hard constraint
    hold : float, in [0, 1)
        Share of rounds at the end whose water level is frozen, with a budget met on average.
    coherence : float or "seen", :math:`c \ge 1`
        How often a floor counts, :math:`s_\infty^2/s^2` of :prf:ref:`thm-markov`: 1 if rounds are independent; "seen"
        is :func:`seen_coherence`.
    """

    needs_law: ClassVar[bool] = True

    law: FloorLaw
    budget_mode: str = "average"
    safety_margin: float = 2.0
    hold: float = 0.1
    coherence: float | str = 1.0

    def __post_init__(self) -> None:
        check_options(self.budget_mode, self.safety_margin, self.hold, self.coherence)

    def start(self, scenario: Scenario, budget: FloatArray) -> ReSolveState:
        law = check_law("law", self.law)
        instances = np.broadcast_shapes(np.shape(budget), law.batch_shape)
        budget = np.broadcast_to(budget, instances)
        moments = np.zeros((budget.size, 6))
        return ReSolveState.begin(scenario, budget, law, np.zeros(instances), moments)

    def decide(
        self, state: ReSolveState, floor: FloatArray
    ) -> tuple[ReSolveState, FloatArray]:
        after = state.after(1)
        n = state.later + 1
        hard = self.budget_mode == "hard"
        level = state.level
        moments = state.moments
        coherence: Any = self.coherence
        if coherence == SEEN:
            moments = moments.copy()  # each call below updates its row
            rows = np.reshape(floor, (-1, 1))
            coherences = [*map(next_coherence, moments, rows)]
            coherence = np.reshape(coherences, np.shape(floor))
        if hard or n > self.hold * state.scenario.num_rounds:
            counted = np.minimum(coherence, n)
            # of the rounds left that count as independent
            log_rounds = np.log(np.maximum(n / coherence, 1.0))
            margin = self.safety_margin if hard else 0.0
            later = n - counted + margin * (1 + coherence) / 2 * log_rounds
            level = state.law.shared_level(
                state.remaining / counted, floor, later / counted, level
            )
        spend = np.maximum(level - floor, 0.0)
        if hard:
            spend = (
                np.minimum(spend, state.remaining) if state.later else state.remaining
            )
        # with a budget met on average, a frozen level may spend more than is left
        remaining = np.maximum(state.remaining - spend, 0.0)
        after = replace(after, remaining=remaining, level=level, moments=moments)
        return after, floor + spend


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
    rows = floor.reshape(-1, floor.shape[-1])
    coherence = [next_coherence(np.zeros(6), row) for row in rows]
    return np.reshape(coherence, floor.shape[:-1])


@compiled
def next_coherence(moments: FloatArray, floor: FloatArray) -> float:
    """Return :func:`seen_coherence` of an instance after more floors, and update its ``moments``, shape (6,)."""
    # number of floors, the least and the last; then, with x = 1 / w in units of its largest, the mean of x and the sums
    # of squares above (variation) and below (steps) the bar of the fraction.  If a floor is the least so far, the unit
    # grows, and with it all earlier x shrink
    number, least, last, mean, variation, steps = moments
    for w in floor:
        if number == 0:
            least = last = w
        unit = min(least, w)
        x = unit / w
        shrink = unit / least
        off = x - mean * shrink
        number += 1
        mean = x - off * (number - 1) / number
        variation = variation * shrink**2 + off**2 * (number - 1) / number
        steps = steps * shrink**2 + (x - unit / last) ** 2
        least = unit
        last = w
    moments[:] = number, least, last, mean, variation, steps
    coherence: float = number
    if steps > 0.0:
        coherence = min(max(6 * variation / steps - 2, 1.0), number)
    return coherence
