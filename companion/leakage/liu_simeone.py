"""The method of Liu and Simeone with all channels known, and their accounting of sums of scalings."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import lambertw

from adascale.policies import Policy
from adascale.problem import Problem
from adascale.scenario import FloatArray, Scenario
from companion.bounds.convergence import Real
from companion.shi import capped_level


@dataclass(frozen=True)
class OfflinePowerControl(Policy):
    r"""The method of Liu and Simeone with all channels known: :math:`\eta_t = \min(\tau r^{-t/2}, \mathrm{cap}_t)`."""

    tuned: ClassVar[tuple[str, ...]] = ("privacy_budget",)

    privacy_budget: FloatArray
    contraction: float = 1.0

    def schedule(self, problem: Problem) -> FloatArray:
        weight = self.contraction ** (-0.5 * np.arange(problem.num_rounds))
        mean = self.privacy_budget / problem.num_rounds
        tau = capped_level(problem.max_eta, mean, weight)
        return problem.noise_energy(
            np.minimum(tau[..., None] * weight, problem.max_eta)
        )


def scaling_budget(
    scenario: Scenario, epsilon: Real, delta: float = 1e-5
) -> FloatArray:
    r"""Return the largest sum of scalings under :math:`(\varepsilon, \delta)`-DP, in watts, ignoring subsampling.

    .. math::
        S = \frac{M^2 B^2 \sigma_n^2}{G^2} \big(\sqrt{\varepsilon + c^2} - c\big)^2, \qquad
        c^2 = \tfrac12 W_0\Big(\frac{2}{\pi \delta^2}\Big),

    with Lambert's W and :math:`B = \min_m B_m` (:eq:`eq:scaling-budget`).
    """
    c = _tail(delta)
    return unit(scenario) * (np.sqrt(epsilon + c**2) - c) ** 2


def spent_epsilon(
    scenario: Scenario, total_eta: FloatArray, delta: float = 1e-5
) -> FloatArray:
    r"""Return the :math:`\varepsilon` of a sum of scalings, as the inverse of :func:`scaling_budget`.

    .. math:: \varepsilon = R + 2 c \sqrt R, \qquad R = \frac{G^2}{M^2 B^2 \sigma_n^2} \sum_t \eta_t
    """
    scaled = total_eta / unit(scenario)
    return scaled + 2 * _tail(delta) * np.sqrt(scaled)


def _tail(delta):
    """Return c with exp(-c^2) / (c sqrt(pi)) = delta."""
    return float(np.sqrt(lambertw(2 / np.pi / delta**2).real / 2))


def unit(scenario: Scenario) -> float:
    r"""Return :math:`M^2 B^2 \sigma_n^2 / G^2`, what a unit of their privacy is in watts."""
    noise_power = scenario.noise_share * scenario.noise_power
    return float(
        noise_power
        * (scenario.num_devices * np.min(scenario.batch_size) / scenario.clip_norm) ** 2
    )
