r"""Lower bounds on :math:`\varepsilon` from what an auditor guessed right: no mechanism may be below them.

Each holds with the stated confidence, whatever the mechanism is, under its assumption:

* :func:`one_run_bound`: the coins of the canaries are fair and independent.
* :func:`rates_bound`: alarms are also independent trials, each by its own training or a canary on its own axis.
* :func:`scaled_bound`: the mechanism is also a sequence of sampled Gaussians whose noise is the claimed one times one
  unknown factor.
"""

from __future__ import annotations

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
"""No epsilon above this is refuted: it would take more canaries than there are atoms."""

LEAST_SCALE, MOST_SCALE, _STEP = 0.2, 5.0, 1.25
"""The scales of noise among which :func:`scaled_bound` looks; at an end, the bound is what is shown there."""


class Counts(NamedTuple):
    """Canaries that were in the data, the number of these called in, canaries that were not, and of these called in."""

    present: int
    found: int
    absent: int
    false: int


def clopper_pearson(hits: int, trials: int, confidence: float) -> tuple[float, float]:
    """Return the exact two-sided interval of a probability, each end one-sided at ``(1 + confidence) / 2``."""
    check.fraction("confidence", confidence)
    if not 0 <= hits <= trials:
        raise ValueError(f"hits must be 0 ... {trials}, got {hits}")
    miss = (1 - confidence) / 2
    low = stats.beta.ppf(miss, hits, trials - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1 - miss, hits + 1, trials - hits) if hits < trials else 1.0
    return float(low), float(high)


def one_run_tail(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    r"""Bound the probability of ``right`` correct guesses or more, for any :math:`(\varepsilon, \delta)`-DP mechanism.

    .. math::
        \Pr[\text{right} \ge v] \le f(v) + 2 m \delta \max_{1 \le i \le m} \frac{f(v - i) - f(v)}{i}, \qquad
        f(v) = \Pr\Big[\mathrm{Bin}\Big(r, \frac{e^\varepsilon}{1 + e^\varepsilon}\Big) \ge v\Big]

    Each of m canaries is in by a fair coin; r of them are guessed, in or out.  It is Theorem 5.2 of Steinke, Nasr and
    Jagielski (2023), "Privacy Auditing with One (1) Training Run".

    Parameters
    ----------
    canaries, guesses, right : int
        :math:`m \ge r \ge v \ge 0`; r is fixed before the scores are seen, and :math:`2 m \delta \le 1`.
    epsilon : float, >= 0
    delta : float, in [0, 1)
    """
    if not 0 <= right <= guesses <= canaries:
        raise ValueError(f"expected 0 <= right <= guesses <= canaries, got {right}, {guesses}, {canaries}")
    check.at_least("epsilon", epsilon, 0)
    if not 0 <= check.at_least("delta", delta, 0) < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta}")
    if 2 * canaries * delta > 1:
        raise ValueError(f"canaries must be at most 1 / (2 delta) = {1 / (2 * delta):g}, got {canaries}")
    if not right:
        return 1.0
    chance = 1 / (1 + math.exp(-epsilon))
    beyond = float(stats.binom.sf(right - 1, guesses, chance))
    # f(v - i) - f(v) is the probability of v - i ... v - 1; more than v steps add nothing to it
    below = np.cumsum(stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, chance))
    steepest = float((below / np.arange(1, right + 1)).max())
    return min(1.0, beyond + 2 * canaries * delta * steepest)


def one_run_bound(canaries: int, guesses: int, right: int, delta: float, confidence: float) -> float:
    r"""Return the largest :math:`\varepsilon` that one run refutes: :func:`one_run_tail` = 1 - confidence, or 0.

    Parameters
    ----------
    canaries, guesses, right, delta
        As for :func:`one_run_tail`.
    confidence : float, in (0, 1)
    """
    doubt = 1 - check.fraction("confidence", confidence)

    def over(epsilon: float) -> float:
        return one_run_tail(canaries, guesses, right, epsilon, delta) - doubt

    # with 2 m delta <= 1 the tail is a maximum of convex combinations of f(v) and f(v - i), which all grow with epsilon
    return 0.0 if over(0) >= 0 else float(optimize.brentq(over, 0, LARGEST, xtol=1e-9))


def rates_bound(counts: Counts, delta: float, confidence: float) -> float:
    r"""Return the lower bound from the rates of true and of false alarms, in independent trials, or 0.

    .. math::
        \varepsilon \ge \ln \frac{\mathrm{TPR} - \delta}{\mathrm{FPR}} , \qquad
        \varepsilon \ge \ln \frac{1 - \mathrm{FPR} - \delta}{1 - \mathrm{TPR}}

    with the ends of Clopper and Pearson's intervals for the rates, which hold together with the confidence.

    Parameters
    ----------
    counts : Counts
        Trials with the sample and without; the threshold is fixed before they are seen.
    delta : float, in [0, 1)
    confidence : float, in (0, 1)
    """
    true, false = _rates(counts, confidence)
    bounds = [0.0]
    for many, few in ((true[0], false[1]), (1 - false[1], 1 - true[0])):
        if many > delta and few > 0:
            bounds.append(math.log((many - delta) / few))
    return max(bounds)


def scaled_bound(
    counts: Counts, rate: float, sigma: FloatArray, delta: float, confidence: float, threshold: float = 0.0
) -> float:
    r"""Return the lower bound of a mechanism that is known but for the scale of its noise; 0 if nothing is shown.

    A test with the rates TPR and FPR shows that :math:`\delta(\tau) \ge \mathrm{TPR} - e^\tau\, \mathrm{FPR}` at every
    :math:`\tau`.  Among schedules with the noise multipliers :math:`c\,\sigma_t`, this leaves :math:`c \le c_1`, and
    the bound is the exact :math:`\varepsilon` at :math:`c_1`, in the spirit of the tight audits of Nasr et al. (2023),
    who assume a Gaussian trade-off curve.

    Parameters
    ----------
    counts : Counts
        As for :func:`rates_bound`, by the test "the likelihood ratio is above :math:`e^\tau`", which is the best.
    rate, sigma
        :math:`q` in (0, 1], and :math:`\sigma_t > 0` as claimed, shape (T,).
    delta, confidence : float, in (0, 1)
    threshold : float, >= 0
        :math:`\tau`.
    """
    check.at_least("threshold", threshold, 0)
    true, false = _rates(counts, confidence)
    shown = true[0] - math.exp(threshold) * false[1]

    def over(scale: float) -> float:
        return accounting.exact_delta(rate, scale * sigma, threshold).upper - shown

    scale = MOST_SCALE
    if shown <= 0 or over(scale) > 0:
        return 0.0
    # noise may be so weak that the accountant gives up: the last scale stands, and more noise is less epsilon
    with contextlib.suppress(ValueError, ArithmeticError):
        while scale > LEAST_SCALE and over(scale / _STEP) < 0:
            scale /= _STEP
        if scale > LEAST_SCALE:
            scale = float(optimize.brentq(over, scale / _STEP, scale, xtol=1e-3 * scale)) * (1 + 2e-3)
    while scale < MOST_SCALE:
        with contextlib.suppress(ValueError, ArithmeticError):
            return accounting.exact_epsilon(rate, scale * sigma, delta).lower
        scale *= _STEP
    return 0.0


def _rates(counts: Counts, confidence: float) -> list[tuple[float, float]]:
    """Clopper and Pearson's intervals of both rates; one end of each is used, at half of the doubt."""
    pairs = ((counts.found, counts.present), (counts.false, counts.absent))
    return [clopper_pearson(hits, trials, confidence) for hits, trials in pairs]
