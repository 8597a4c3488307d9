"""The over-the-air step, as signals on the channel and in the equivalent form used for training."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from adascale import checks as check


class Received(NamedTuple):
    """What the server receives in one round."""

    signal: Tensor
    r""":math:`\mathbf r_t`, complex, shape (d,)."""
    update: Tensor
    r""":math:`\mathrm{Re}(\mathbf r_t) / \sqrt{\eta_t}`, shape (d,)."""
    power: Tensor
    r""":math:`|a_{m,t}|^2 \lVert\mathbf g_{m,t}\rVert^2 / d` in watts, shape (M,) (:eq:`eq:power-derivation`)."""


def receiver_noise(rng: np.random.Generator, size: int, noise_power: float) -> NDArray[np.complex128]:
    r"""Draw :math:`\mathcal{CN}(0, \sigma_n^2 \mathbb I^d)`, shape (d,); all real parts are drawn first."""
    real = real_receiver_noise(rng, size, noise_power)
    return real + 1j * real_receiver_noise(rng, size, noise_power)


def real_receiver_noise(rng: np.random.Generator, size: int, noise_power: float) -> NDArray[np.float64]:
    r"""Draw the real part of :func:`receiver_noise` from the same stream: :math:`\mathcal N(0, \sigma_n^2/2)`."""
    check.at_least("noise_power", noise_power, 0)
    return math.sqrt(noise_power / 2) * rng.standard_normal(size)


def transmit(
    gradients: Tensor,
    coefficient: ArrayLike,
    eta: float,
    noise: NDArray[np.complex128],
    estimate: ArrayLike | None = None,
) -> Received:
    r"""Run one round at signal level (:eq:`eq:transmit-weight`, :eq:`eq:received`, :eq:`eq:model-update`).

    .. math::
        \mathbf r_t = \sum_m h_{m,t} a_{m,t} \mathbf g_{m,t} + \mathbf n_t, \quad a_{m,t} = \sqrt{\eta_t} / (M h_{m,t})

    Parameters
    ----------
    gradients : torch.Tensor, shape (M, d), :math:`\mathbf g_{m,t}`
    coefficient, estimate : array_like, complex, shape (M,), finite, not zero
        :math:`h_{m,t}`, and :math:`\hat h_{m,t}` if the devices divide by that instead.
    eta : float, > 0, :math:`\eta_t` in watts
    noise : numpy.ndarray, complex, shape (d,), :math:`\mathbf n_t`
    """
    check.positive("eta", eta)
    given = coefficient, coefficient if estimate is None else estimate
    channel, inverted = (torch.as_tensor(np.asarray(each, complex), device=gradients.device) for each in given)
    if gradients.ndim != 2 or channel.shape != gradients.shape[:1] or noise.shape != gradients.shape[1:]:
        shapes = f"{tuple(gradients.shape)}, {tuple(channel.shape)}, {noise.shape}"
        raise ValueError(f"gradients (M, d), coefficient (M,) and noise (d,) must fit, got shapes {shapes}")
    for name, each in (("coefficient", channel), ("estimate", inverted)):
        if each.shape != channel.shape or (each == 0).any() or not torch.isfinite(each).all():
            raise ValueError(f"{name} must be {len(channel)} finite numbers that are not zero, got {each.tolist()}")
    weight = math.sqrt(eta) / (len(channel) * inverted)
    sent = weight[:, None] * gradients
    power = sent.abs().square().sum(1) / gradients.shape[1]
    signal = (channel[:, None] * sent).sum(0) + torch.as_tensor(noise, device=gradients.device)
    received = Received(signal, signal.real / math.sqrt(eta), power)
    for name, each in received._asdict().items():
        if not torch.isfinite(each).all():
            low, high = float(channel.abs().min()), float(channel.abs().max())
            raise ValueError(f"{name} must be finite, got eta = {eta} and coefficients from {low:.3g} to {high:.3g}")
    return received


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
