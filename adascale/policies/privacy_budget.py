r"""Privacy accounting of Liu & Simeone and Shi et al., in units of :math:`\eta`."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import lambertw

from adascale import checks as check
from adascale.policies.base import FloatArray
from adascale.scenario import Scenario


def scaling_budget(scenario: Scenario, epsilon: ArrayLike, delta: float = 1e-5) -> FloatArray:
    r"""Return the largest sum of scalings under :math:`(\varepsilon, \delta)`-DP, in watts, ignoring subsampling.

    .. math::
        S = \frac{M^2 B^2 \sigma_n^2}{G^2} \big(\sqrt{\varepsilon + c^2} - c\big)^2, \qquad
        c^2 = \tfrac12 W_0\Big(\frac{2}{\pi \delta^2}\Big),

    with Lambert's W and :math:`B = \min_m B_m` (:eq:`eq:scaling-budget`).
    """
    c = _tail(delta)
    return _unit(scenario) * (np.sqrt(check.positive("epsilon", epsilon) + c**2) - c) ** 2


def spent_epsilon(scenario: Scenario, total_eta: ArrayLike, delta: float = 1e-5) -> FloatArray:
    r"""Return the :math:`\varepsilon` of a sum of scalings, as the inverse of :func:`scaling_budget`.

    .. math:: \varepsilon = R + 2 c \sqrt R, \qquad R = \frac{G^2}{M^2 B^2 \sigma_n^2} \sum_t \eta_t
    """
    spent = check.positive("total_eta", total_eta) / _unit(scenario)
    return spent + 2 * _tail(delta) * np.sqrt(spent)


def _tail(delta: float) -> float:
    """Return c with exp(-c^2) / (c sqrt(pi)) = delta."""
    return float(np.sqrt(lambertw(2 / np.pi / check.fraction("delta", delta) ** 2).real / 2))


def _unit(scenario: Scenario) -> float:
    return float(scenario.noise_power * (scenario.num_devices * np.min(scenario.batch_size) / scenario.clip_norm) ** 2)


def check_contraction(value: float, rounds: int = 1) -> None:
    """Raise a ``ValueError`` unless a contraction is in (0, 1] and its weights do not overflow."""
    if not 0 < check.positive("contraction", value) <= 1:
        raise ValueError(f"contraction must be in (0, 1], got {value}")
    if -rounds * np.log(value) > 600:
        raise ValueError(f"contraction must be at least {np.exp(-600 / rounds):.3g} over {rounds} rounds, got {value}")
