"""Scores of canaries, and the plan of guesses and alarms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.audit.bounds import Counts, one_run_bound, rates_bound

FloatArray = NDArray[np.float64]

SHARES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Shares of the canaries that :func:`plan` considers guessing."""


def log_likelihood_ratio(heard: ArrayLike, rate: float, sigma: ArrayLike) -> FloatArray:
    r"""Return one round's log-likelihood ratio of "in" to "out".

    .. math::
        \ell(y) = \ln\Big(1 - q + q \exp\frac{2y - 1}{2\sigma^2}\Big), \qquad
        y \sim \begin{cases} b + \sigma \xi & \text{in} \\ \sigma \xi & \text{out} \end{cases},
        \quad b \sim \mathrm{Bernoulli}(q), \ \xi \sim \mathcal N(0, 1)

    Parameters
    ----------
    heard : array_like, :math:`y` in units of the sensitivity
    rate : float, :math:`q` in (0, 1]
    sigma : array_like, > 0
    """
    check.sampling_rate("rate", rate)
    sigma = check.positive("sigma", sigma)
    exponent = (np.asarray(heard) - 0.5) / sigma**2
    with np.errstate(divide="ignore"):  # the logarithm of 1 - q if q = 1
        ratio: FloatArray = np.logaddexp(np.log1p(-rate), np.log(rate) + exponent)
    return ratio


def simulated_scores(rng: np.random.Generator, rate: float, sigma: FloatArray, count: int, present: bool) -> FloatArray:
    """Simulate scores of independent canaries under the claimed mechanism, shape (count,)."""
    score = np.zeros(count)
    for each in sigma:
        heard = each * rng.standard_normal(count)
        if present:
            heard += rng.random(count) < rate
        score += log_likelihood_ratio(heard, rate, each)
    return score


class Plan(NamedTuple):
    """Decisions made before any score is seen, for the claimed mechanism and for one without noise."""

    guesses: tuple[int, int]
    """r, the number of highest scores that are guessed to be in."""
    thresholds: tuple[float, float]
    """Scores above which an alarm is raised."""


def plan(
    rate: float, sigma: FloatArray, canaries: int, delta: float, confidence: float, seed: int = 0, draws: int = 20_000
) -> Plan:
    """Plan guesses and alarms for the claimed mechanism, and for one without noise.

    The plan depends only on simulated scores, so the bounds keep their confidence.  It needs at least 10 ``canaries``.
    """
    if check.whole("canaries", canaries) < 10:
        raise ValueError(f"canaries must be at least 10, got {canaries}")
    rng = np.random.default_rng(seed)
    inside, outside = (np.sort(simulated_scores(rng, rate, sigma, draws, each)) for each in (True, False))
    both, half = np.sort(np.concatenate([inside, outside])), canaries // 2
    one_run, rates = [], []
    for share in SHARES:
        guesses = max(round(share * canaries), 1)
        threshold = float(both[-round(share * both.size)])
        true, false = (1 - np.searchsorted(each, threshold) / draws for each in (inside, outside))
        right = int(guesses * true / (true + false))
        one_run.append((one_run_bound(canaries, guesses, right, delta, confidence), guesses))
        counts = Counts(half, int(true * half), half, int(np.ceil(false * half)))
        rates.append((rates_bound(counts, delta, confidence), -share, threshold))
    silence = float(log_likelihood_ratio(np.zeros(sigma.shape), rate, sigma).sum())
    step = float(log_likelihood_ratio(1.0, rate, sigma.max()) - log_likelihood_ratio(0.0, rate, sigma.max()))
    return Plan((max(one_run)[1], 2 * canaries // 5), (max(rates)[2], silence + step / 2))


def count_alarms(score: FloatArray, present: NDArray[np.bool_], threshold: float) -> Counts:
    """Count true and false alarms above a threshold."""
    alarm = score > threshold
    return Counts(int(present.sum()), int(alarm[present].sum()), int((~present).sum()), int(alarm[~present].sum()))


def right_guesses(score: FloatArray, present: NDArray[np.bool_], highest: int, lowest: int = 0) -> int:
    """Count the canaries that are in among the ``highest`` scores, and those that are out among the ``lowest``."""
    order = np.argsort(score, kind="stable")
    return int(present[order[score.size - highest :]].sum() + (~present[order[:lowest]]).sum())
