r"""What the floor becomes when the channel changes during a round: the laws of :ref:`sec-air-time`.

If the coefficients change :math:`J - 1` times in a round, each device has to invert its coefficient anew in each of the
:math:`J` blocks.  A public random permutation of the gradient, fresh in every round, gives each block :math:`1/J` of
its expected energy, at most :math:`G^2 k_m^2 / J`.  Write :math:`w_{m,j} = \omega_m / U_{m,j}` for the floor of device
:math:`m` in block :math:`j`, with :math:`U_{m,j} \sim \mathrm{Exp}(1)` independent and :math:`\sum_m \omega_m = \omega`
(:eq:`eq:floor-law`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import channel
from adascale.scenario import Scenario

BANDWIDTH = 100e3
"""The paper's, in Hz."""
COHERENCE_TIME = 0.02
"""An example that the paper's "much less than 200 milliseconds" admits, in seconds."""


class BlockFloors(NamedTuple):
    r"""Floors of the noise energy under four rules, each an array with an entry for every round."""

    one: NDArray[np.float64]
    r"""The paper's model with one coefficient a round, :math:`\max_m w_{m,1}`, Fréchet with scale :math:`\omega`."""
    limit_in_blocks: NDArray[np.float64]
    r"""One :math:`\eta_t`, the power limit in every block.  The worst device in the worst block caps :math:`\eta_t`, so
    the floor is :math:`\max_{m,j} w_{m,j}`, and :math:`\prod_{m,j} e^{-\omega_m / w} = e^{-J \omega / w}`: scale
    :math:`J \omega`.  Without the permutation the power in a block may be :math:`J` times as large: scale
    :math:`J^2 \omega`."""
    limit_on_energy: NDArray[np.float64]
    r"""One :math:`\eta_t`, the limit on the energy of the round.  Device :math:`m` spends
    :math:`\eta_t \frac{G^2 k_m^2}{d M^2} \frac1J \sum_j |h_{m,j}|^{-2}` a slot, averaged over permutations, so the
    floor is :math:`\max_m \frac1J \sum_j w_{m,j}`.  One large term makes the tail of a mean,
    :math:`J \omega_m / (J w)`; over the devices this is :math:`\omega / w`, as in the paper's model.  The bulk of
    the mean of device :math:`m` lies at :math:`\omega_m (\ln J + 1 - 2 \gamma_E + \text{Landau})`."""
    own_scaling: NDArray[np.float64]
    r"""An :math:`\eta_j` for each block.  The noise energy of the round is the mean over blocks, at least
    :math:`\frac1J \sum_j \max_m w_{m,j}`, with tail :math:`\omega / w` and bulk at
    :math:`\omega (\ln J + 1 - 2 \gamma_E + \text{Landau})`.  A sample whose contribution to block :math:`j` is
    :math:`x_j` has the Gaussian loss of :math:`\sum_j \|x_j\|^2 / \sigma_j^2 \le G^2 / \min_j \sigma_j^2`, attained in
    the block of least noise: the leakage is that of :math:`\min_j w_j`."""


def block_floors(
    rng: np.random.Generator, scales: ArrayLike, num_blocks: int, num_rounds: int
) -> BlockFloors:
    r"""Draw rounds of :math:`J` blocks with independent Rayleigh fading, for devices of the scales :math:`\omega_m`."""
    omega = np.reshape(scales, (-1, 1, 1))
    floor = omega / rng.exponential(size=(omega.size, num_blocks, num_rounds))
    worst = floor.max(axis=0)
    means = floor.mean(axis=1).max(axis=0)
    return BlockFloors(worst[0], worst.max(axis=0), means, worst.mean(axis=0))


def blocks_of(scenario: Scenario) -> int:
    r"""In how many blocks :math:`J` of the coherence time a round falls, with one gradient entry per slot."""
    return round(scenario.num_parameters / BANDWIDTH / COHERENCE_TIME)


def limit_of_scale(scenario: Scenario) -> float:
    r"""Return the limit of :math:`M \omega` for many devices, placed as in the paper (:eq:`eq:scale-of-devices`)."""
    near, far = channel.Rayleigh().distance_range
    grid = np.linspace(near, far, 100_001)
    mean_loss = float(np.trapezoid(channel.cost_hata_path_loss(grid), grid)) / (
        far - near
    )
    scale = (
        scenario.num_devices**2
        * scenario.noise_scale
        / scenario.x_max
        * scenario.batch_second_moment
    )
    return float(scale) * mean_loss
