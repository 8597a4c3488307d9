r"""The exact epsilon, delta and trade-off curve of a schedule of sampled Gaussian mechanisms, between proven bounds."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting.exact.certify import bracket, delta_bracket
from adascale.accounting.exact.rounds import Rounds, rounds_of
from adascale.errors import CannotCertify

FloatArray = NDArray[np.float64]

_ADVICE = "try a larger delta or fewer distinct noise multipliers, or take schedule_epsilon, which is above it"


class ExactEpsilon(NamedTuple):
    r"""The exact :math:`\varepsilon` of a schedule."""

    epsilon: float
    """The sharp value, within the bracket."""
    lower: float
    """A proven lower bound."""
    upper: float
    """A proven upper bound, which is the guarantee."""
    direction: str
    """Which of both directions has the larger value, ``add`` or ``remove``."""


class ExactDelta(NamedTuple):
    r"""The exact :math:`\delta` of a schedule."""

    delta: float
    """The sharp value, within the bracket."""
    lower: float
    """A proven lower bound."""
    upper: float
    """A proven upper bound, which is the guarantee."""
    direction: str
    """Which of both directions has the larger value, ``add`` or ``remove``."""


def exact_epsilon(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, delta: float = 1e-5) -> ExactEpsilon:
    r"""The smallest :math:`\varepsilon` with :math:`\delta(\varepsilon) \le \delta`, and a bracket that is proven.

    Of one schedule of Poisson-sampled Gaussian mechanisms under add/remove adjacency: the larger of both directions,
    by :eq:`eq:inversion`.  Aliases, the end of the sum, the inner quadrature, interpolation and rounding are each
    bounded, and no search is trusted: both ends are verified.

    Parameters
    ----------
    sampling_rate : array_like
        :math:`q_t` in [0, 1], one for all rounds or one each.
    noise_multiplier : array_like
        :math:`\sigma_t > 0`, shape (T,).
    delta : float
        :math:`\delta` in (0, 1).

    Returns
    -------
    ExactEpsilon
        ``epsilon``, ``lower``, ``upper`` and the binding ``direction``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or no bracket is found that is narrower than one per cent, or than 1e-6.
    """
    rounds, shown = checked(sampling_rate, noise_multiplier)
    delta = check.fraction("delta", delta)
    try:
        return ExactEpsilon(*bracket(rounds, delta))
    except (CannotCertify, ArithmeticError) as error:
        raise ValueError(
            f"the exact epsilon of {shown} at delta {delta:g} cannot be certified: {error}; {_ADVICE}"
        ) from None


def exact_delta(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, epsilon: float) -> ExactDelta:
    r"""The exact :math:`\delta(\varepsilon)` of one schedule, with a bracket that is proven.

    Parameters
    ----------
    sampling_rate, noise_multiplier
        As :func:`exact_epsilon` takes them.
    epsilon : float
        :math:`\varepsilon \ge 0`.

    Returns
    -------
    ExactDelta
        ``delta``, ``lower``, ``upper`` and the binding ``direction``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or no bracket is found that is narrower than one per cent.
    """
    rounds, shown = checked(sampling_rate, noise_multiplier)
    given = check.at_least("epsilon", epsilon, 0.0)
    if given.ndim:
        raise ValueError(f"epsilon must be one number, got an array of shape {given.shape}")
    try:
        return ExactDelta(*delta_bracket(rounds, float(given)))
    except (CannotCertify, ArithmeticError) as error:
        raise ValueError(
            f"the exact delta of {shown} at epsilon {epsilon:g} cannot be certified: {error}; {_ADVICE}"
        ) from None


def trade_off(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, alpha: ArrayLike, points: int = 48) -> FloatArray:
    r"""The trade-off curve: no test with false-alarm rate :math:`\alpha` misses less often than :math:`\beta(\alpha)`.

    .. math::
        \beta(\alpha) = \sup_{\varepsilon \ge 0} \max\big\{0,\; 1 - \delta(\varepsilon) - e^{\varepsilon} \alpha,\;
        e^{-\varepsilon} (1 - \delta(\varepsilon) - \alpha)\big\}

    with the proven upper bound of :math:`\delta` at some :math:`\varepsilon`, so that every value is a guarantee,
    whichever way the test is made.

    Parameters
    ----------
    sampling_rate, noise_multiplier
        As :func:`exact_epsilon` takes them.
    alpha : array_like
        False-alarm rates in [0, 1], any shape.
    points : int
        At how many :math:`\varepsilon`, at least 2; more of them come nearer to the supremum.

    Returns
    -------
    numpy.ndarray
        :math:`\beta`, of the shape of ``alpha``.
    """
    rate = check.at_least("alpha", alpha, 0.0)
    if (rate > 1).any():
        raise ValueError(f"alpha must be in [0, 1], got {rate.max()}")
    if check.whole("points", points) < 2:
        raise ValueError(f"points must be at least 2, got {points}")
    end = exact_epsilon(sampling_rate, noise_multiplier, 1e-8).upper
    best = np.zeros(rate.shape)
    for epsilon in np.linspace(0.0, end, points) if end > 0 else (0.0,):
        left = 1 - exact_delta(sampling_rate, noise_multiplier, float(epsilon)).upper
        best = np.maximum(best, np.maximum(left - math.exp(epsilon) * rate, math.exp(-epsilon) * (left - rate)))
    return best


def _arrays(sampling_rate: ArrayLike, noise_multiplier: ArrayLike) -> tuple[FloatArray, FloatArray]:
    rate = check.as_floats("sampling_rate", sampling_rate)
    if (bad := ~((rate >= 0) & (rate <= 1))).any():
        raise ValueError(f"sampling_rate must be in [0, 1], got {rate[bad].flat[0]}")
    sigma = check.positive("noise_multiplier", noise_multiplier)
    if sigma.ndim == 0 or sigma.shape[-1] == 0:
        raise ValueError(f"noise_multiplier must have a last axis of rounds, got shape {sigma.shape}")
    if rate.shape not in ((), (1,), sigma.shape[-1:]):
        shapes = f"got shape {rate.shape} with noise_multiplier of shape {sigma.shape}"
        raise ValueError(f"sampling_rate must be one number or one per round, {shapes}")
    if not (good := (sigma >= 1e-6) & (sigma <= 1e150)).all():
        raise ValueError(f"noise_multiplier must be within 1e-6 ... 1e150, got {sigma[~good].flat[0]:g}")
    return np.broadcast_to(rate, sigma.shape[-1:]), sigma


def checked(sampling_rate: ArrayLike, noise_multiplier: ArrayLike) -> tuple[Rounds, str]:
    """One schedule, and as errors name it."""
    rate, sigma = _arrays(sampling_rate, noise_multiplier)
    if sigma.ndim != 1:
        raise ValueError(f"noise_multiplier must have shape (T,), got shape {sigma.shape}")
    return rounds_of(rate, sigma), _shown(rate, sigma)


def _shown(rate: FloatArray, sigma: FloatArray) -> str:
    return (
        f"{sigma.size} rounds with rates {rate.min():g} ... {rate.max():g} and noise multipliers "
        f"{sigma.min():.4g} ... {sigma.max():.4g}"
    )
