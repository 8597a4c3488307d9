"""The over-the-air step as signals on the channel, whose devices may invert estimates of it."""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from adascale.learning import ClippedSum, FedSGD
from adascale.learning.fedsgd import RoundRecord, State, real_receiver_noise
from adascale.learning.seeding import NOISE, stream


class Received(NamedTuple):
    """The signal that the server receives, shape (d,), the update from it, and each device's power in watts, (M,)."""

    signal: Tensor
    update: Tensor
    power: Tensor


def receiver_noise(
    rng: np.random.Generator, size: int, noise_power: float
) -> NDArray[np.complex128]:
    r"""Draw :math:`\mathcal{CN}(0, \sigma_n^2 \mathbb I^d)`, shape (d,); all real parts are drawn first."""
    real = real_receiver_noise(rng, size, noise_power)
    return real + 1j * real_receiver_noise(rng, size, noise_power)


def transmit(
    gradients: Tensor,
    coefficient: ArrayLike,
    eta: float,
    noise: ArrayLike,
    estimate: ArrayLike | None = None,
) -> Received:
    r"""Run one round of gradients (M, d) at signal level (:eq:`eq:transmit-weight`, :eq:`eq:received`).

    .. math::
        \mathbf r_t = \sum_m h_{m,t} a_{m,t} \mathbf g_{m,t} + \mathbf n_t, \quad a_{m,t} = \sqrt{\eta_t} / (M h_{m,t})

    The coefficients :math:`h_{m,t}` and the estimates, by which devices divide instead, are complex, shape (M,).
    """
    coefficients = coefficient, coefficient if estimate is None else estimate
    channel, inverted = (
        torch.as_tensor(np.asarray(values, complex), device=gradients.device)
        for values in coefficients
    )
    sent = (math.sqrt(eta) / (len(channel) * inverted))[:, None] * gradients
    power = sent.abs().square().sum(1) / gradients.shape[1]
    signal = (channel[:, None] * sent).sum(0) + torch.as_tensor(
        np.asarray(noise), device=gradients.device
    )
    return Received(signal, signal.real / math.sqrt(eta), power)


class OnChannel(FedSGD):
    r"""A federation whose rounds may run at signal level, and whose devices may invert estimates.

    ``step`` takes :math:`h_{m,t}`, and :math:`c_{m,t} = h_{m,t} / \hat h_{m,t}`, whose real part weighs
    :math:`\mathbf g_{m,t}`, both of shape (M,).
    """

    def step(
        self,
        state: State,
        eta_t: float,
        coefficient_t: ArrayLike | None = None,
        alignment_t: ArrayLike | None = None,
        *,
        senders_t: ArrayLike | None = None,
    ) -> tuple[State, RoundRecord]:
        count = self.scenario.num_devices
        aligned = (
            np.ones(count)
            if alignment_t is None
            else np.asarray(alignment_t, dtype=complex)
        )
        self._channel, self._aligned = coefficient_t, aligned
        self._power = np.zeros(count)
        after, record = super().step(state, eta_t, senders_t=senders_t)
        return after, record._replace(
            power=None if coefficient_t is None else self._power
        )

    def received(
        self, round_index: int, eta_t: float, weight: ArrayLike = 1.0
    ) -> ClippedSum:
        if self._channel is None:
            return super().received(round_index, eta_t, weight * self._aligned.real)
        on = np.flatnonzero(np.broadcast_to(weight, self.scenario.num_devices))
        batches = self.batches(round_index)
        sums = [
            self.gradient(batches[m], np.full(batches[m].size, 1 / self.batch_size[m]))
            for m in on
        ]
        of = (
            stream(self.seed, NOISE, round_index=round_index),
            self.scenario.num_parameters,
            self.scenario.noise_power,
        )
        gradients = torch.stack([part.gradient for part in sums])
        h = np.asarray(self._channel)
        heard = transmit(
            gradients, h[on], eta_t, receiver_noise(*of), (h / self._aligned)[on]
        )
        self._power[on] = heard.power.cpu().numpy()
        samples = (
            torch.cat([getattr(part, name) for part in sums])
            for name in ("norm", "loss")
        )
        return ClippedSum(heard.update.to(gradients.dtype), *samples)
