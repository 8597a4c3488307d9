"""The over-the-air step as signals on the channel, whose devices may invert estimates of it."""

import math

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from adascale.checks import ComplexArray
from adascale.learning import ClippedSum, FedSGD
from adascale.learning.fedsgd import RoundRecord, State, real_receiver_noise
from adascale.learning.seeding import NOISE, stream


def receiver_noise(
    rng: np.random.Generator, size: int, noise_power: float
) -> ComplexArray:
    r"""Draw :math:`\mathcal{CN}(0, \sigma_n^2 \mathbb I^d)`, shape (d,); all real parts are drawn first."""
    real = real_receiver_noise(rng, size, noise_power)
    return real + 1j * real_receiver_noise(rng, size, noise_power)


def transmit(
    gradients: Tensor,
    coefficient: ArrayLike,
    eta: float,
    noise: ArrayLike,
    estimate: ArrayLike | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Return the update of one round of gradients (M, d), and each device's power in watts, at signal level.

    It is by :eq:`eq:transmit-weight` and :eq:`eq:received`.

    .. math::
        \mathbf r_t = \sum_m h_{m,t} a_{m,t} \mathbf g_{m,t} + \mathbf n_t, \quad a_{m,t} = \sqrt{\eta_t} / (M h_{m,t})

    The coefficients :math:`h_{m,t}` and the estimates, by which devices divide instead, are complex, shape (M,).
    """
    believed = coefficient if estimate is None else estimate
    channel, inverted, added = (
        torch.as_tensor(np.asarray(values, complex), device=gradients.device)
        for values in (coefficient, believed, noise)
    )
    sent = (math.sqrt(eta) / (len(channel) * inverted))[:, None] * gradients
    power = sent.abs().square().mean(1)
    signal = (channel[:, None] * sent).sum(0) + added
    return signal.real / math.sqrt(eta), power


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
        aligned = np.ones(count) if alignment_t is None else alignment_t
        self._channel, self._aligned = coefficient_t, np.asarray(aligned, complex)
        self._power = np.zeros(count)
        after, record = super().step(state, eta_t, senders_t=senders_t)
        if coefficient_t is not None:
            record = record._replace(power=self._power)
        return after, record

    def received(
        self, round_index: int, eta_t: float, weight: ArrayLike = 1.0
    ) -> ClippedSum:
        if self._channel is None:
            return super().received(round_index, eta_t, weight * self._aligned.real)
        count = self.scenario.num_devices
        on = np.flatnonzero(np.broadcast_to(weight, count))
        # each device alone, without noise
        sums = [
            super(OnChannel, self).received(round_index, math.inf, alone)
            for alone in count * np.eye(count)[on]
        ]
        noise = receiver_noise(
            stream(self.seed, NOISE, round_index=round_index),
            self.scenario.num_parameters,
            self.scenario.noise_power,
        )
        gradients = torch.stack([part.gradient for part in sums])
        h = np.asarray(self._channel)
        believed = (h / self._aligned)[on]
        update, power = transmit(gradients, h[on], eta_t, noise, believed)
        self._power[on] = power.cpu().numpy()
        return ClippedSum(
            update.to(gradients.dtype),
            torch.cat([part.norm for part in sums]),
            torch.cat([part.loss for part in sums]),
        )
