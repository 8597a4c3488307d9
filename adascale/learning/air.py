r"""The over-the-air step, as the signals on the channel and in its equivalent form.

Both take the same draw of the receiver noise, so they give the same update up to rounding: the pre-equalisation
:math:`a_{m,t} = \sqrt{\eta_t} / (M h_{m,t})` cancels the channel.  Training uses the equivalent form.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from adascale import checks as check


class Received(NamedTuple):
    """What one round leaves at the server."""

    signal: Tensor
    r""":math:`\mathbf r_t`, complex, shape (d,)."""
    update: Tensor
    r""":math:`\mathrm{Re}(\mathbf r_t) / \sqrt{\eta_t}`, shape (d,)."""
    power: Tensor
    r""":math:`|a_{m,t}|^2 \lVert\mathbf g_{m,t}\rVert^2 / d` in watts, shape (M,): what each device spent a
    symbol, whose expectation the power limit bounds (:eq:`eq:power-derivation`)."""


def receiver_noise(rng: np.random.Generator, size: int, noise_power: float) -> NDArray[np.complex128]:
    r"""A draw of :math:`\mathcal{CN}(0, \sigma_n^2 \mathbb I^d)`, complex, shape (d,), in root watts.

    The real parts come first out of the stream, see :func:`real_receiver_noise`.
    """
    real = real_receiver_noise(rng, size, noise_power)
    return real + 1j * real_receiver_noise(rng, size, noise_power)


def real_receiver_noise(rng: np.random.Generator, size: int, noise_power: float) -> NDArray[np.float64]:
    r"""The real part of what :func:`receiver_noise` draws from the same stream: :math:`\mathcal N(0, \sigma_n^2/2)`."""
    check.at_least("noise_power", noise_power, 0)
    return math.sqrt(noise_power / 2) * rng.standard_normal(size)


def transmit(
    gradients: Tensor,
    coefficient: ArrayLike,
    eta: float,
    noise: NDArray[np.complex128],
    estimate: ArrayLike | None = None,
) -> Received:
    r"""One round at signal level (:eq:`eq:transmit-weight`, :eq:`eq:received`, :eq:`eq:model-update`).

    .. math::
        \mathbf r_t = \sum_{m=1}^M h_{m,t} a_{m,t} \mathbf g_{m,t} + \mathbf n_t, \qquad
        a_{m,t} = \frac{\sqrt{\eta_t}}{M h_{m,t}}, \qquad
        \tilde{\mathbf r}_t = \frac{\mathrm{Re}(\mathbf r_t)}{\sqrt{\eta_t}}

    Parameters
    ----------
    gradients : torch.Tensor
        :math:`\mathbf g_{m,t}`, the mean of the clipped sample gradients of each device, shape (M, d).
    coefficient : array_like
        :math:`h_{m,t}`, complex, finite and not zero, shape (M,).
    eta : float
        :math:`\eta_t > 0` in watts.
    noise : numpy.ndarray
        :math:`\mathbf n_t`, complex, shape (d,), see :func:`receiver_noise`.
    estimate : array_like, optional
        :math:`\hat h_{m,t}`, complex, finite and not zero, shape (M,): what the devices divide by in place of the
        coefficient.  Each gradient then arrives times :math:`c_{m,t} = h_{m,t} / \hat h_{m,t}`.

    Returns
    -------
    Received
        In double precision, on the device of the gradients.

    Raises
    ------
    ValueError
        If shapes do not fit, eta is not finite and positive, a coefficient or an estimate is zero or not finite, or
        what is sent or received leaves the range of double precision.
    """
    check.positive("eta", eta)
    channel = torch.as_tensor(np.asarray(coefficient, dtype=complex), device=gradients.device)
    believed = channel
    if estimate is not None:
        believed = torch.as_tensor(np.asarray(estimate, dtype=complex), device=gradients.device)
        if believed.shape != channel.shape or (believed == 0).any() or not torch.isfinite(believed).all():
            raise ValueError(f"estimate must be {len(channel)} finite numbers that are not zero, got {estimate}")
    if gradients.ndim != 2 or channel.shape != gradients.shape[:1] or noise.shape != gradients.shape[1:]:
        raise ValueError(
            "gradients (M, d), coefficient (M,) and noise (d,) must fit, got shapes "
            f"{tuple(gradients.shape)}, {tuple(channel.shape)}, {noise.shape}"
        )
    if (channel == 0).any():
        raise ValueError("coefficient must not be zero, got a device without a channel")
    if not torch.isfinite(channel).all():
        raise ValueError(f"coefficient must be finite, got {complex(channel[~torch.isfinite(channel)][0])}")
    weight = math.sqrt(eta) / (len(channel) * believed)
    sent = weight[:, None] * gradients
    power = sent.abs().square().sum(1) / gradients.shape[1]
    signal = (channel[:, None] * sent).sum(0) + torch.as_tensor(noise, device=gradients.device)
    received = Received(signal, signal.real / math.sqrt(eta), power)
    for name, each in received._asdict().items():
        if not torch.isfinite(each).all():
            raise ValueError(
                f"{name} must be finite, got another one with eta = {eta} and coefficients from "
                f"{float(channel.abs().min()):.3g} to {float(channel.abs().max()):.3g}"
            )
    return received


def effective_update(mean_gradient: Tensor, eta: float, real_noise: NDArray[np.float64]) -> Tensor:
    r"""The same round without the channel (:eq:`eq:decomposition`).

    .. math::
        \tilde{\mathbf r}_t = \frac1M \sum_{m=1}^M \mathbf g_{m,t} + \tilde{\mathbf n}_t, \qquad
        \tilde{\mathbf n}_t \sim \mathcal N\Big(\mathbf 0, \frac{\sigma_n^2}{2 \eta_t} \mathbb I^d\Big)

    Parameters
    ----------
    mean_gradient : torch.Tensor
        :math:`\mathbf s_t`, shape (d,).
    eta : float
        :math:`\eta_t > 0` in watts; ``inf`` for a receiver without noise.
    real_noise : numpy.ndarray
        :math:`\mathrm{Re}(\mathbf n_t)`, shape (d,), see :func:`real_receiver_noise`.
    """
    if not eta > 0:
        raise ValueError(f"eta must be > 0, got {eta}")
    with np.errstate(over="ignore"):
        noise = torch.as_tensor(real_noise / math.sqrt(eta), dtype=mean_gradient.dtype)
    if not torch.isfinite(noise).all():
        raise ValueError(f"eta must be so large that the noise is finite in {noise.dtype}, got {eta}")
    return mean_gradient + noise.to(mean_gradient.device)
