r"""Statistical lower bounds on :math:`\varepsilon` from an auditor's correct guesses."""

import contextlib
import math
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

from adascale import accounting
from adascale.checks import FloatArray

LARGEST = 100.0
"""Largest epsilon that can be refuted."""

LEAST_SCALE, MOST_SCALE, STEP = 0.2, 5.0, 1.25
"""Ends and ratio of the noise scales between which :func:`scaled_bound` looks for a sign change."""


class Counts(NamedTuple):
    """Numbers of canaries in the data and of alarms among them, and of canaries not in the data and of false alarms."""

    present: int
    true: int
    absent: int
    false: int


def clopper_pearson(hits: int, trials: int, confidence: float) -> tuple[float, float]:
    """Return Clopper and Pearson's exact two-sided interval for a probability."""
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
    if 2 * canaries * delta > 1:
        raise ValueError(
            f"canaries must be at most 1 / (2 delta) = {1 / (2 * delta):g}, got {canaries}"
        )
    if not right:
        return 1.0
    chance = 1 / (1 + math.exp(-epsilon))
    tail = float(stats.binom.sf(right - 1, guesses, chance))
    # f(v - i) - f(v) is the probability of v - i ... v - 1; more than v steps add nothing to it
    steps = np.arange(1, right + 1)
    below = np.cumsum(stats.binom.pmf(right - steps, guesses, chance))
    return min(1.0, tail + 2 * canaries * delta * float((below / steps).max()))


def one_run_bound(
    canaries: int, guesses: int, right: int, delta: float, confidence: float
) -> float:
    r"""Return the largest :math:`\varepsilon` that one run refutes, or 0.

    It solves :func:`one_run_tail` = 1 - ``confidence``, with ``confidence`` in (0, 1) and the other arguments as there.
    """

    def excess(epsilon: float) -> float:
        tail = one_run_tail(canaries, guesses, right, epsilon, delta)
        return tail - (1 - confidence)

    # with 2 m delta <= 1 the tail is a maximum of convex combinations of f(v), f(v - i), which increase with epsilon
    if excess(0) >= 0:
        return 0.0
    return float(optimize.brentq(excess, 0, LARGEST, xtol=1e-9))


def rates_bound(counts: Counts, delta: float, confidence: float) -> float:
    r"""Return the lower bound on :math:`\varepsilon` from the alarm rates in independent trials, or 0.

    .. math::
        \varepsilon \ge \ln \frac{\mathrm{TPR} - \delta}{\mathrm{FPR}} , \qquad
        \varepsilon \ge \ln \frac{1 - \mathrm{FPR} - \delta}{1 - \mathrm{TPR}}

    at the joint ends of Clopper and Pearson's intervals.  The alarms' threshold must be fixed before scores are seen.
    """
    tpr, fpr = joint_ends(counts, confidence)
    bound = 0.0
    for many, few in ((tpr, fpr), (1 - fpr, 1 - tpr)):
        if many > delta:
            bound = max(bound, math.log((many - delta) / few))
    return bound


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
    tpr, fpr = joint_ends(counts, confidence)

    def excess(scale: float) -> float:
        return accounting.exact_delta(rate, scale * sigma, 0.0).upper - (tpr - fpr)

    scale = MOST_SCALE
    if tpr <= fpr or excess(scale) > 0:
        return 0.0
    # the accountant may fail if the noise is weak; the last scale is still valid, as more noise lowers epsilon
    with contextlib.suppress(ValueError, ArithmeticError):
        while scale > LEAST_SCALE and excess(scale / STEP) < 0:
            scale /= STEP
        if scale > LEAST_SCALE:
            tolerance = 1e-3 * scale
            scale = optimize.brentq(excess, scale / STEP, scale, xtol=tolerance)
            scale *= 1 + 2e-3  # surely above the root
    while scale < MOST_SCALE:
        with contextlib.suppress(ValueError, ArithmeticError):
            return accounting.exact_epsilon(rate, scale * sigma, delta).lower
        scale *= STEP
    return 0.0


def joint_ends(counts: Counts, confidence: float) -> tuple[float, float]:
    """Return the lower end of Clopper and Pearson's interval for TPR, and the upper one for FPR."""
    tpr, _ = clopper_pearson(counts.true, counts.present, confidence)
    _, fpr = clopper_pearson(counts.false, counts.absent, confidence)
    return tpr, fpr
