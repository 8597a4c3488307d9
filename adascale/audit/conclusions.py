"""Claims about a schedule, scores of canaries, and conclusions from scores."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting import ExactAccountant, RenyiAccountant
from adascale.audit.bounds import Counts, one_run_bound, rates_bound, scaled_bound
from adascale.checks import BoolArray, FloatArray
from adascale.problem import Problem

# shares of the canaries that a plan considers guessing
_SHARES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


class Audit(NamedTuple):
    r"""Joint lower bounds on :math:`\varepsilon` from training runs, and the accounted :math:`\varepsilon`.

    The bounds are :func:`~adascale.audit.one_run_bound`, :func:`~adascale.audit.rates_bound` and
    :func:`~adascale.audit.scaled_bound`; the last two are None if only the final model was observed.
    """

    kind: str
    """What was observed, such as ``gradients``: all that the server receives."""
    runs: int
    canaries: int
    """m, the number of canaries in all runs; one per run if runs are paired."""
    guesses: int
    """r, the number of guesses of ``one_run``, of which v are ``right``."""
    right: int
    delta: float
    confidence: float
    renyi: float
    """Epsilon of :class:`~adascale.accounting.RenyiAccountant`."""
    accounted: float
    """Exact epsilon, which no lower bound may exceed."""
    one_run: float
    rates: float | None
    scaled: float | None
    accuracy: float
    """Mean test accuracy of the trained models."""

    @property
    def lower(self) -> float:
        """The larger of ``one_run`` and ``rates``."""
        return max(self.one_run, self.rates or 0.0)

    @property
    def refuted(self) -> dict[str, float]:
        """The bounds that exceed ``accounted``."""
        bounds = {"one_run": self.one_run, "rates": self.rates, "scaled": self.scaled}
        return {name: e for name, e in bounds.items() if e and e > self.accounted}


class Claim(NamedTuple):
    """The claim about the audited devices that an audit tries to refute, see :class:`Audit`."""

    rate: float
    sigma: FloatArray
    delta: float
    confidence: float
    renyi: float
    accounted: float

    @property
    def bound_confidence(self) -> float:
        """Confidence of one bound at one threshold, so that all 3 bounds at 2 thresholds hold jointly (Bonferroni)."""
        return 1 - (1 - self.confidence) / 6


def noise_of(problem: Problem, w: ArrayLike) -> tuple[float, FloatArray]:
    """Return sampling rate and noise multipliers of the audited devices, which are those of device 0."""
    rate = float(np.ravel(problem.scenario.sampling_rate)[0])
    return rate, problem.noise_multiplier(w)[0]


def claimed(problem: Problem, w: ArrayLike, delta: float, confidence: float) -> Claim:
    """Return the claim about a schedule."""
    check.fraction("confidence", confidence)
    rate, sigma = noise_of(problem, w)
    renyi = float(RenyiAccountant().epsilon(rate, sigma, delta))
    exact = float(ExactAccountant().epsilon(rate, sigma, delta))
    return Claim(rate, sigma, delta, confidence, renyi, exact)


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
    exponent = (np.asarray(heard) - 0.5) / np.square(sigma)
    with np.errstate(divide="ignore"):  # the logarithm of 1 - q if q = 1
        ratio: FloatArray = np.logaddexp(np.log1p(-rate), np.log(rate) + exponent)
    return ratio


def simulated_scores(
    rng: np.random.Generator, rate: float, sigma: FloatArray, count: int, present: bool
) -> FloatArray:
    """Simulate scores of independent canaries under the claimed mechanism, shape (count,)."""
    score = np.zeros(count)
    for sigma_t in sigma:
        heard = sigma_t * rng.standard_normal(count)
        if present:
            heard += rng.random(count) < rate
        score += log_likelihood_ratio(heard, rate, sigma_t)
    return score


class Plan(NamedTuple):
    """Decisions made before any score is seen, for the claimed mechanism and for one without noise."""

    guesses: tuple[int, int]
    """r, the number of highest scores that are guessed to be in."""
    thresholds: tuple[float, float]
    """Scores above which an alarm is raised."""


def plan(
    rate: float, sigma: FloatArray, canaries: int, delta: float, confidence: float
) -> Plan:
    """Plan guesses and alarms for the claimed mechanism, and for one without noise.

    The plan depends only on simulated scores, so the bounds keep their confidence.  It needs at least 10 ``canaries``.
    """
    check.whole("canaries", canaries, 10)
    rng = np.random.default_rng(0)
    draws = 20_000
    half = canaries // 2
    inside = np.sort(simulated_scores(rng, rate, sigma, draws, present=True))
    outside = np.sort(simulated_scores(rng, rate, sigma, draws, present=False))
    both = np.sort(np.concatenate([inside, outside]))
    one_run = []
    rates = []
    for share in _SHARES:
        # above it is this share of all scores
        threshold = float(both[-round(share * both.size)])
        tpr = 1 - np.searchsorted(inside, threshold) / draws
        fpr = 1 - np.searchsorted(outside, threshold) / draws
        guesses = max(round(share * canaries), 1)
        right = int(guesses * tpr / (tpr + fpr))  # expected
        bound = one_run_bound(canaries, guesses, right, delta, confidence)
        one_run.append((bound, guesses))
        counts = Counts(half, int(tpr * half), half, int(np.ceil(fpr * half)))
        # of equal bounds, that of the smallest share
        rates.append((rates_bound(counts, delta, confidence), -share, threshold))
    # without noise, the score of a canary that is in no batch, and half of what a batch adds in the noisiest round
    silence = float(log_likelihood_ratio(np.zeros(sigma.shape), rate, sigma).sum())
    absent, sent = log_likelihood_ratio([0.0, 1.0], rate, sigma.max())
    noiseless = silence + float(sent - absent) / 2
    # two fifths are guessed then, fewer than the half that is in the data, so that nearly all guesses are right
    return Plan((max(one_run)[1], 2 * canaries // 5), (max(rates)[2], noiseless))


def from_scores(
    kind: str,
    runs: int,
    claim: Claim,
    planned: Plan,
    score: FloatArray,
    present: BoolArray,
    accuracy: float,
) -> Audit:
    """Compute all bounds from the scores and coins of independent trials, each of shape (m,).

    ``kind, runs`` and ``accuracy`` are fields of the :class:`Audit`, which has the best bound of each sort.
    """
    delta = claim.delta
    confidence = claim.bound_confidence
    one_run = []
    for guesses in planned.guesses:
        right = right_guesses(score, present, guesses)
        bound = one_run_bound(score.size, guesses, right, delta, confidence)
        one_run.append((bound, guesses, right))
    bound, guesses, right = max(one_run)
    by_rates = []
    by_scale = []
    for threshold in planned.thresholds:
        counts = alarms(score, present, threshold)
        by_rates.append(rates_bound(counts, delta, confidence))
    for threshold in (0.0, planned.thresholds[1]):  # 0: where the likelihood ratio is 1
        counts = alarms(score, present, threshold)
        scaled = scaled_bound(counts, claim.rate, claim.sigma, delta, confidence)
        by_scale.append(scaled)
    # in the order of the fields of Audit; of the claim, delta and what follows
    counted = kind, runs, score.size, guesses, right
    return Audit(*counted, *claim[2:], bound, max(by_rates), max(by_scale), accuracy)


def alarms(score: FloatArray, present: BoolArray, threshold: float) -> Counts:
    """Count the canaries, and those whose score is above a threshold, in the data and not in it."""
    inside = score[present]
    outside = score[~present]
    true = int((inside > threshold).sum())
    false = int((outside > threshold).sum())
    return Counts(inside.size, true, outside.size, false)


def right_guesses(score: FloatArray, present: BoolArray, highest: int) -> int:
    """Count the canaries that are in among the ``highest`` scores."""
    order = np.argsort(score, kind="stable")
    return int(present[order[score.size - highest :]].sum())
