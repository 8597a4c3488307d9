"""Claims about a schedule, and conclusions about them from scores or losses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting import Accountant, ExactAccountant, RenyiAccountant
from adascale.audit import scores
from adascale.audit.bounds import one_run_bound, rates_bound, scaled_bound
from adascale.audit.canaries import audited_devices
from adascale.problem import ReceiveScalingProblem

FloatArray = NDArray[np.float64]

ACCOUNTANT: Accountant = ExactAccountant()
"""Accountant whose epsilon an audit tries to refute."""


class Audit(NamedTuple):
    r"""Joint lower bounds on :math:`\varepsilon` from training runs, and the accounted :math:`\varepsilon`."""

    kind: str
    """``gradients`` (white box), ``samples`` (black box), ``paired`` or ``paired samples``."""
    runs: int
    canaries: int
    """m, the number of canaries in all runs; one per run if runs are paired."""
    guesses: int
    """r, the number of guesses of :attr:`one_run`, of which v are ``right``."""
    right: int
    delta: float
    confidence: float
    renyi: float
    """Epsilon of :class:`~adascale.accounting.RenyiAccountant`."""
    accounted: float
    """Exact epsilon, which no lower bound may exceed."""
    one_run: float
    """See :func:`~adascale.audit.one_run_bound`."""
    rates: float | None
    """See :func:`~adascale.audit.rates_bound`; None for a black box."""
    scaled: float | None
    """See :func:`~adascale.audit.scaled_bound`; None for a black box."""
    accuracy: float
    """Mean test accuracy of the trained models."""

    @property
    def lower(self) -> float:
        """The larger of :attr:`one_run` and :attr:`rates`."""
        return max(self.one_run, self.rates or 0.0)

    @property
    def refuted(self) -> dict[str, float]:
        """The bounds that exceed :attr:`accounted`."""
        bounds = {"one_run": self.one_run, "rates": self.rates, "scaled": self.scaled}
        return {name: each for name, each in bounds.items() if each is not None and each > self.accounted}


class Claim(NamedTuple):
    """The claim about the audited devices that an audit tries to refute, see :class:`Audit`."""

    rate: float
    sigma: FloatArray
    delta: float
    confidence: float
    renyi: float
    accounted: float

    @property
    def each(self) -> float:
        """Confidence of one bound at one threshold, so that three bounds at two thresholds hold jointly."""
        return 1 - (1 - self.confidence) / 6


def noise_of(problem: ReceiveScalingProblem, eta: ArrayLike) -> tuple[float, FloatArray]:
    """Return sampling rate and noise multipliers of the audited devices."""
    if problem.lanes != ():
        raise ValueError(f"problem must have one lane, got lanes {problem.lanes}")
    problem.spend(eta)  # raises an error above the power limit
    device = int(audited_devices(problem.scenario)[0])
    return float(np.ravel(problem.scenario.sampling_rate)[0]), problem.noise_multiplier(eta)[device]


def claimed(problem: ReceiveScalingProblem, eta: ArrayLike, delta: float, confidence: float) -> Claim:
    """Return the claim about a schedule."""
    rate, sigma = noise_of(problem, eta)
    renyi, exact = (float(by.epsilon(rate, sigma, delta)) for by in (RenyiAccountant(), ACCOUNTANT))
    return Claim(rate, sigma, delta, check.fraction("confidence", confidence), renyi, exact)


def from_scores(
    kind: str,
    runs: int,
    claim: Claim,
    plan: scores.Plan,
    score: FloatArray,
    present: NDArray[np.bool_],
    accuracy: float,
) -> Audit:
    """Compute all bounds from the scores and coins of independent trials, each of shape (m,)."""
    m, doubt = score.size, (claim.delta, claim.each)
    guessed = [(r, scores.right_guesses(score, present, r)) for r in plan.guesses]
    best, guesses, right = max((one_run_bound(m, r, v, *doubt), r, v) for r, v in guessed)
    rates, scaled = (
        [scores.count_alarms(score, present, threshold) for threshold in (first, plan.thresholds[1])]
        for first in (plan.thresholds[0], 0.0)
    )
    by_rates = max(rates_bound(counts, *doubt) for counts in rates)
    by_scale = max(scaled_bound(counts, claim.rate, claim.sigma, *doubt) for counts in scaled)
    return Audit(kind, runs, m, guesses, right, *claim[2:], best, by_rates, by_scale, accuracy)


def from_losses(
    kind: str, runs: int, claim: Claim, loss: FloatArray, present: NDArray[np.bool_], accuracy: float
) -> Audit:
    """Compute the bound of a black box: guess the quarter of least loss to be in, and that of largest loss out."""
    m, quarter = loss.size, loss.size // 4
    right = scores.right_guesses(-loss, present, quarter, quarter)
    bound = one_run_bound(m, 2 * quarter, right, claim.delta, claim.confidence)
    return Audit(kind, runs, m, 2 * quarter, right, *claim[2:], bound, None, None, accuracy)
