"""The over-the-air step in the form used for training: the mean gradient plus effective noise."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adascale import checks as check


def real_receiver_noise(rng: np.random.Generator, size: int, noise_power: float) -> NDArray[np.float64]:
    r"""Draw the real part of the receiver noise, :math:`\mathcal N(0, \sigma_n^2/2 \, \mathbb I^d)`, shape (d,)."""
    check.at_least("noise_power", noise_power, 0)
    return math.sqrt(noise_power / 2) * rng.standard_normal(size)


def effective_update(mean_gradient: Tensor, eta: float, real_noise: NDArray[np.float64]) -> Tensor:
    r"""Return the update of the same round without the channel (:eq:`eq:decomposition`).

    .. math:: \tilde{\mathbf r}_t = \frac1M \sum_m \mathbf g_{m,t} + \mathrm{Re}(\mathbf n_t) / \sqrt{\eta_t}

    Parameters
    ----------
    mean_gradient, real_noise : shape (d,)
    eta : float, > 0, watts; ``inf`` for a receiver without noise
    """
    if not eta > 0:
        raise ValueError(f"eta must be > 0, got {eta}")
    with np.errstate(over="ignore"):
        noise = torch.as_tensor(real_noise / math.sqrt(eta), dtype=mean_gradient.dtype)
    if not torch.isfinite(noise).all():
        raise ValueError(f"eta must be so large that the noise is finite in {noise.dtype}, got {eta}")
    return mean_gradient + noise.to(mean_gradient.device)
