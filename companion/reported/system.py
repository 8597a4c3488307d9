"""The numbers that the chapter on the system model tells; see :mod:`companion.reported`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from adascale import channel
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario
from companion.formatting import Texts
from companion.theory.air_time import BlockFloors

FloatArray = NDArray[np.float64]

BANDWIDTH = 100e3
"""The paper's, in Hz."""
COHERENCE_TIME = 0.02
"""An example that the paper's "much less than 200 milliseconds" admits, in seconds."""


def blocks_of(scenario: Scenario) -> int:
    r"""In how many blocks :math:`J` of the coherence time a round falls, with one gradient entry a slot."""
    return round(scenario.num_parameters / BANDWIDTH / COHERENCE_TIME)


def limit_of_scale(scenario: Scenario) -> float:
    r"""The limit of :math:`M \omega` for many devices (:eq:`eq:scale-of-devices`), placed as the paper places them."""
    near, far = channel.Rayleigh().distance_range
    grid = np.linspace(near, far, 100_001)
    mean_loss = float(np.trapezoid(channel.cost_hata_path_loss(grid), grid)) / (far - near)
    scale = scenario.num_devices**2 * scenario.noise_scale / scenario.x_max * scenario.batch_second_moment
    return float(scale) * mean_loss


def of_water(problem: ReceiveScalingProblem, level: float) -> Texts:
    """Of one training and its water level, and of the link budget."""
    scenario, (near, far) = problem.scenario, channel.Rayleigh().distance_range
    noise = 10 * np.log10(scenario.noise_power) + 30
    return {
        "water-nu": f"{float(problem.budget):g}",
        "water-level": f"{level:.2g}",
        "water-dry": f"{100 * np.mean(problem.min_noise_energy >= level):.0f}",
        "water-power": f"{10 * np.log10(scenario.max_power) + 30:.0f}",
        "water-noise": f"{noise:.0f}".replace("-", "−"),
        "water-devices": f"{scenario.num_devices}",
        "water-places": f"{near:g} to {far:g}",
    }


def of_batches(scenario: Scenario, sizes: FloatArray) -> Texts:
    """Of the first device's batch sizes, shape (T,): how many were empty, and how many should be."""
    rate, samples = np.ravel(scenario.sampling_rate)[0], np.ravel(scenario.dataset_size)[0]
    return {
        "empty-share": f"{100 * np.mean(sizes == 0):.0f}",
        "empty-exact": f"{100 * (1 - rate) ** samples:.0f}",
        "num-demo-rounds": f"{sizes.size}",
    }


def of_caps(problem: ReceiveScalingProblem) -> Texts:
    """Of some realisations: how far the least cap lies below the median one, and the largest floor above it."""
    below = 10 * np.log10(np.median(problem.max_eta, axis=-1) / problem.max_eta.min(axis=-1))
    above = problem.min_noise_energy.max(axis=-1) / np.median(problem.min_noise_energy, axis=-1)
    return {
        "below-low": f"{below.min():.0f}",
        "below-high": f"{below.max():.0f}",
        "floor-max-ratio": f"{above.max():.0f}",
    }


def of_places(scenario: Scenario, terms: FloatArray) -> Texts:
    r"""Of each device's share :math:`\omega_m` of the scale, shape (realisations, M)."""
    omega, largest, devices = terms.sum(axis=-1), terms.max(axis=-1), terms.shape[-1]
    dropped = (omega - largest) / (devices - 1) ** 2 < omega / devices**2
    shares = {name: np.quantile(omega, share) for name, share in (("low", 0.05), ("mid", 0.5), ("high", 0.95))}
    return {f"omega-{name}": f"{value:.2g}" for name, value in shares.items()} | {
        "farthest-share": f"{100 * np.median(largest / omega):.0f}",
        "m-omega": f"{limit_of_scale(scenario):.3f}",
        "drop-share": f"{100 * dropped.mean():.0f}",
    }


def of_air_time(scenarios: Mapping[str, Scenario], law: BlockFloors, blocks: int) -> Texts:
    r"""Of rounds that outlast their channel, and of the median floor over :math:`\omega` under each remedy."""
    texts: Texts = {}
    for name, scenario in scenarios.items():
        texts |= {
            f"air-{name}": f"{scenario.num_parameters / BANDWIDTH:.2g}",
            f"size-{name}": f"{scenario.num_parameters:,}",
            f"blocks-{name}": f"{blocks_of(scenario)}",
        }
    medians = {name: scale / np.log(2) for name, scale in (("none", 1), ("a", blocks), ("d", 2))}
    medians |= {"b": float(np.median(law.limit_on_energy)), "c": float(np.median(law.own_scaling))}
    medians |= {"e": blocks * medians["b"]}
    return texts | {f"median-{name}": f"{value:.1f}" for name, value in medians.items()}
