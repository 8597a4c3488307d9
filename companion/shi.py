r"""The method of Shi et al. brought to a cost, and plain drift-plus-penalty, whose first round has no minimiser.

One condition for two parameters leaves a curve of pairs, which :mod:`adascale.comparison.shi_tuning` searches.  The
plain method is AdaScale without its quadratic term (:func:`plain_lyapunov`).
"""

import numpy as np
from numpy.typing import ArrayLike

from adascale.comparison.shi_tuning import match_lyapunov
from adascale.policies import LyapunovPowerControl, Optimal
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import FloatArray
from adascale.tuning import match_budget


def plain_lyapunov(problem: Problem, penalty: float, caps: ArrayLike) -> FloatArray:
    r"""Drift-plus-penalty without the quadratic term, on one lane under K caps on the noise energy, shape (K, T).

    .. math:: \min_{w_{\min,t} \le w \le \max(W, w_{\min,t})} V F(w) + Q_t (w - w_{\min,t})

    See :eq:`eq:plain-round`.
    """
    leakage = RoundLeakage(problem.scenario)
    queue = np.zeros(np.shape(caps))
    energy = []
    for floor in problem.min_noise_energy:
        high = np.maximum(caps, floor)
        low = np.full_like(high, floor)
        for _ in range(60):  # a bisection in the logarithm of w
            middle = np.sqrt(low * high)
            falling = penalty * leakage.slope(middle) + queue < 0
            low = np.where(falling, middle, low)
            high = np.where(falling, high, middle)
        energy.append(high)
        queue = np.maximum(queue + high - floor - problem.budget, 0)
    return np.stack(energy, axis=-1)


def capped_level(
    caps: FloatArray, mean: FloatArray, weight: ArrayLike = 1.0
) -> FloatArray:
    r"""Return the :math:`\tau` at which :math:`\min(\tau v_t, \mathrm{cap}_t)` has this mean, or infinity.

    ``caps`` >= 0 have the shape (..., T), ``mean`` > 0 the shape (...), and ``weight``, :math:`v_t > 0`, one or T.
    """
    low = np.zeros_like(mean)
    high = low + np.max(caps / np.asarray(weight), axis=-1)
    out_of_reach = caps.mean(axis=-1) < mean
    for _ in range(80):
        level = (low + high) / 2
        capped = np.minimum(level[..., None] * weight, caps).mean(axis=-1)
        low = np.where(capped < mean, level, low)
        high = np.where(capped < mean, high, level)
    return np.where(out_of_reach, np.inf, high)


def filled_lyapunov(
    problem: Problem,
    mean_gain: FloatArray | None = None,
    multiple: ArrayLike | None = None,
    *,
    capped: bool = False,
) -> LyapunovPowerControl:
    r"""Tune a variant of Shi et al. whose queue does not start empty (:ref:`chap-benchmarks`).

    :math:`V = k\,\bar\eta^3` and :math:`Q_0 = V / \bar\eta^2`, where the queue would rest if no cap bound; the rate
    :math:`\bar\eta` is tuned.  ``multiple`` is k, a number or one for each lane.  Without it each lane keeps the
    :math:`V / \bar\eta^3` of its kindest pair with an empty queue (:mod:`adascale.comparison.shi_tuning`), and
    nothing but the start changes.  With ``capped`` it starts at :math:`Q_0 = V / \tau^2`, where it rests under the caps
    of the realisation, :math:`\tau` being their :func:`capped_level` at the rate.
    """

    def build(rate, multiple, caps):
        penalty = multiple[..., 0] * rate**3
        rest = capped_level(caps, rate) if capped else rate
        return LyapunovPowerControl(penalty, rate, initial_queue=penalty / rest**2)

    if multiple is None:
        match = match_lyapunov(problem)
        multiple = match.penalty / match.rate**3
    lanes = problem.batch_shape
    multiples = np.broadcast_to(multiple, lanes)[..., None]
    caps = np.broadcast_to(problem.max_eta, (*lanes, problem.num_rounds))
    guess = problem.eta(Optimal().schedule(problem)).mean(axis=-1)
    rate = match_budget(build, problem, multiples, caps, guess=guess)
    return build(rate, multiples, caps)
