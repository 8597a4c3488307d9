r"""What correlated noise saves, and trainings with it: ``python -m companion make correlated-noise``.

The digits train at equal exact epsilon with white noise and with :data:`BANDS`, and record the energy of what devices
send.  With it, the second table has the error of the noise on the paper's MNIST channel (:ref:`app-correlated-noise`).
"""

from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from adascale import channel
from adascale.learning import FedSGD, Training, data
from adascale.learning.fedsgd import effective_update, real_receiver_noise
from adascale.learning.gradients import ClippedSum
from adascale.learning.seeding import NOISE, stream
from adascale.problem import RoundLeakage
from adascale.scenario import FloatArray, Scenario
from companion.results import tabulate
from companion.theory.correlated_noise import (
    coefficients,
    epsilon,
    error,
    power_factor,
    water_level,
)

BANDS = (1, 2, 4, 8)
EPSILONS = (2.0, 10.0)
SEEDS = range(6)
BATCH = 10
"""Expected batch size of a device, of 150 samples."""
MULTIPLIERS = (0.6, 0.805, 1.3, 2.5)
"""Noise multipliers of the white water level on MNIST."""
CHANNELS = range(2)


def _cyclic_batch(part, rate, bands, at):
    """Draw the batch ``at`` (seed, round, device): a sample may join every ``bands``-th round only."""
    group = part[at[1] % bands :: bands]
    return group[np.random.default_rng((41, *at)).random(len(group)) < bands * rate]


class CorrelatedFedSGD(FedSGD):
    """A federation with cyclic batches whose devices send the filtered gradients, which the server decodes.

    ``c`` are the coefficients of the filter, and ``sent`` collects the energies of the signals over
    :math:`G^2`, round by round in order.
    """

    def __init__(self, *arguments: Any, c: FloatArray):
        super().__init__(*arguments)
        shape = len(c), self.scenario.num_devices, self.scenario.num_parameters
        self.c = torch.as_tensor(c, dtype=torch.float32)
        self.sent = []
        self._recent = torch.zeros(shape)  # gradients of devices, newest first
        self._decoded = torch.zeros(shape[::2])  # what the server recovered, too

    def received(
        self, round_index: int, eta_t: float, weight: ArrayLike = 1.0
    ) -> ClippedSum:
        """Return the decoded mean gradient of a round."""
        scenario, t = self.scenario, round_index
        self._recent = self._recent.roll(1, 0)
        rate, b = float(scenario.sampling_rate), len(self.c)
        for m, part in enumerate(self.parts):
            batch = _cyclic_batch(part, rate, b, (self.seed, t, m))
            own = self.gradient(batch, np.full(len(batch), 1 / BATCH))
            self._recent[0, m] = own.gradient
        signals = torch.tensordot(self.c, self._recent, 1)
        self.sent.append((signals**2).sum(-1).numpy() / scenario.clip_norm**2)
        noise = real_receiver_noise(
            stream(self.seed, NOISE, round_index=t),
            scenario.num_parameters,
            scenario.noise_power,
        )
        update = effective_update(signals.mean(0), eta_t, noise)
        decoded = (update - self.c[1:] @ self._decoded[:-1]) / self.c[0]
        self._decoded = torch.cat([decoded[None], self._decoded[:-1]])
        return own._replace(gradient=decoded)


def _training_rows(seed):
    """Train the digits with white and with correlated noise at equal exact epsilon, floors times the worst case."""
    scenario = replace(Scenario.digits(), batch_size=BATCH)
    training = replace(Training.preset("digits"), momentum=0.0, learning_rate=1.0)
    dataset = data.load(training.dataset, training.input_scaling)
    unit, rate, floor = of_channel(scenario, seed)
    for target in EPSILONS:
        for b in BANDS:
            c = coefficients(b)
            noise = water_level(c, power_factor(c) * floor, rate, target)
            federation = CorrelatedFedSGD(scenario, training, dataset, seed, c=c)
            state = federation.start()
            for eta in scenario.noise_scale / (noise * unit):
                state, _ = federation.step(state, eta)
            loss, accuracy = federation.evaluate(state)
            sent = np.array(federation.sent)
            yield {
                "seed": seed,
                "target": target,
                "bands": b,
                "error": error(c, noise) * unit,
                "sent": sent.mean(),
                "most": sent.max(),
                "test_loss": loss,
                "test_accuracy": accuracy,
            }


def of_channel(scenario: Scenario, seed: int) -> tuple[float, float, FloatArray]:
    """Return the noise energy of multiplier 1, the sampling rate, and floors in that unit, shape (T,)."""
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, seed).gain
    unit = float(RoundLeakage(scenario).unit_energy[0])
    floor = scenario.floor(scenario.min_gain(gain)) / unit
    return unit, float(scenario.sampling_rate), floor


def _noise_rows(seed, multiplier, measured):
    """Compare errors on the MNIST channel at equal exact epsilon, with floors times a power factor, or none."""
    scenario = Scenario.mnist()
    _, rate, floor = of_channel(scenario, seed)
    factors = {
        "measured": measured,
        "worst case": {b: power_factor(coefficients(b)) for b in BANDS},
    }
    if seed == CHANNELS[0]:
        factors["none"] = dict.fromkeys(BANDS, 0.0)
    for floors, factor in factors.items():
        white = np.maximum(multiplier**2, factor[1] * floor)
        target = epsilon(np.ones(1), white, rate)
        for b in BANDS[1:]:
            c = coefficients(b)
            noise = water_level(c, factor[b] * floor, rate, target)
            yield {
                "seed": seed,
                "floors": floors,
                "multiplier": multiplier,
                "bands": b,
                "target": target,
                "ratio": error(c, noise) / error(np.ones(1), white),
            }


def committed(executor: Executor | None) -> list[pd.DataFrame]:
    """Return the committed tables."""
    table = tabulate(_training_rows, SEEDS, executor)
    sent = table[table.target == EPSILONS[-1]].groupby("bands").sent.mean()
    measured = {b: sent[b] / sent[1] for b in BANDS}
    tasks = [(seed, each, measured) for seed in CHANNELS for each in MULTIPLIERS]
    return [table, tabulate(_noise_rows, tasks, executor)]
