r"""Statistical lower bounds on :math:`\varepsilon` from an auditor's correct guesses."""

import contextlib
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from adascale import accounting
from adascale import checks as check

FloatArray = NDArray[np.float64]
LARGEST = 100.0
"""Largest epsilon that can be refuted."""

LEAST_SCALE, MOST_SCALE, _STEP = 0.2, 5.0, 1.25
"""Range and steps of the noise scales that :func:`scaled_bound` searches."""


class Counts(NamedTuple):
    """Numbers of canaries in the data and of alarms among them, and of canaries not in the data and of false alarms."""

    present: int
    found: int
    absent: int
    false: int


def clopper_pearson(hits: int, trials: int, confidence: float) -> tuple[float, float]:
    """Return Clopper and Pearson's exact two-sided interval for a probability."""
    check.fraction("confidence", confidence)
    if not 0 <= hits <= trials:
        raise ValueError(f"hits must be 0 ... {trials}, got {hits}")
    miss = (1 - confidence) / 2
    low = stats.beta.ppf(miss, hits, trials - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1 - miss, hits + 1, trials - hits) if hits < trials else 1.0
    return float(low), float(high)


def one_run_tail(
    canaries: int, guesses: int, right: int, epsilon: float, delta: float
) -> float:
    r"""Bound the probability of at least ``right`` correct guesses under :math:`(\varepsilon, \delta)`-DP.

    .. math::
        \Pr[\text{right} \ge v] \le f(v) + 2 m \delta \max_{1 \le i \le m} \frac{f(v - i) - f(v)}{i}, \qquad
        f(v) = \Pr\Big[\mathrm{Bin}\Big(r, \frac{e^\varepsilon}{1 + e^\varepsilon}\Big) \ge v\Big]

    This is Theorem 5.2 of Steinke, Nasr and Jagielski (2023), for fair and independent coins and an r fixed in advance.

    Parameters
    ----------
    canaries, guesses, right : int, :math:`m \ge r \ge v \ge 0`
    epsilon : float, >= 0
    delta : float, in [0, 1), :math:`2 m \delta \le 1`
    """
    if not 0 <= right <= guesses <= canaries:
        raise ValueError(
            f"expected 0 <= right <= guesses <= canaries, got {right}, {guesses}, {canaries}"
        )
    check.at_least("epsilon", epsilon, 0)
    if not 0 <= check.at_least("delta", delta, 0) < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta}")
    if 2 * canaries * delta > 1:
        raise ValueError(
            f"canaries must be at most 1 / (2 delta) = {1 / (2 * delta):g}, got {canaries}"
        )
    if not right:
        return 1.0
    chance = 1 / (1 + math.exp(-epsilon))
    beyond = float(stats.binom.sf(right - 1, guesses, chance))
    # f(v - i) - f(v) is the probability of v - i ... v - 1; more than v steps add nothing to it
    below = np.cumsum(stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, chance))
    return min(
        1.0,
        beyond + 2 * canaries * delta * float((below / np.arange(1, right + 1)).max()),
    )


def one_run_bound(
    canaries: int, guesses: int, right: int, delta: float, confidence: float
) -> float:
    r"""Return the largest :math:`\varepsilon` that one run refutes, or 0.

    It solves :func:`one_run_tail` = 1 - ``confidence``, with ``confidence`` in (0, 1) and the other arguments as there.
    """
    doubt = 1 - check.fraction("confidence", confidence)

    def over(epsilon: float) -> float:
        return one_run_tail(canaries, guesses, right, epsilon, delta) - doubt

    # with 2 m delta <= 1 the tail is a maximum of convex combinations of f(v), f(v - i), which increase with epsilon
    return 0.0 if over(0) >= 0 else float(optimize.brentq(over, 0, LARGEST, xtol=1e-9))


def rates_bound(counts: Counts, delta: float, confidence: float) -> float:
    r"""Return the lower bound on :math:`\varepsilon` from the alarm rates in independent trials, or 0.

    .. math::
        \varepsilon \ge \ln \frac{\mathrm{TPR} - \delta}{\mathrm{FPR}} , \qquad
        \varepsilon \ge \ln \frac{1 - \mathrm{FPR} - \delta}{1 - \mathrm{TPR}}

    at the joint ends of Clopper and Pearson's intervals.  The alarms' threshold must be fixed before scores are seen.
    """
    true, false = _joint_ends(counts, confidence)
    ends = ((true, false), (1 - false, 1 - true))
    return max(
        0.0,
        *(
            math.log((many - delta) / few) if many > delta and few > 0 else 0.0
            for many, few in ends
        ),
    )


def scaled_bound(
    counts: Counts, rate: float, sigma: FloatArray, delta: float, confidence: float
) -> float:
    r"""Return the lower bound on :math:`\varepsilon` if only the scale of the Gaussian noise is unknown, or 0.

    The rates show that :math:`\delta(0) \ge \mathrm{TPR} - \mathrm{FPR}` at :math:`\varepsilon = 0`, so the scale is at
    most some :math:`c_1`; the bound is the exact :math:`\varepsilon` at :math:`c_1 \sigma_t` (after Nasr et al. 2023).

    Parameters
    ----------
    counts : Counts
        Counts of the test "the likelihood ratio is above 1", see :func:`rates_bound`.
    rate : float, in (0, 1]
    sigma : numpy.ndarray, shape (T,), claimed :math:`\sigma_t > 0`
    delta, confidence : float, in (0, 1)
    """
    true, false = _joint_ends(counts, confidence)
    shown = true - false

    def over(scale: float) -> float:
        return accounting.exact_delta(rate, scale * sigma, 0.0).upper - shown

    scale = MOST_SCALE
    if shown <= 0 or over(scale) > 0:
        return 0.0
    # the accountant may fail if the noise is weak; the last scale is still valid, as more noise lowers epsilon
    with contextlib.suppress(ValueError, ArithmeticError):
        while scale > LEAST_SCALE and over(scale / _STEP) < 0:
            scale /= _STEP
        if scale > LEAST_SCALE:
            scale = float(
                optimize.brentq(over, scale / _STEP, scale, xtol=1e-3 * scale)
            ) * (1 + 2e-3)
    while scale < MOST_SCALE:
        with contextlib.suppress(ValueError, ArithmeticError):
            return accounting.exact_epsilon(rate, scale * sigma, delta).lower
        scale *= _STEP
    return 0.0


def _joint_ends(counts: Counts, confidence: float) -> tuple[float, float]:
    """Return the lower end of Clopper and Pearson's interval for TPR, and the upper one for FPR."""
    true = clopper_pearson(counts.found, counts.present, confidence)
    return true[0], clopper_pearson(counts.false, counts.absent, confidence)[1]
