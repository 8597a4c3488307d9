"""FedSGD over the air: the server's rounds as pure steps."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from adascale.learning import air, data, models
from adascale.learning.devices import find_device
from adascale.learning.gradients import ClippedSum, clipped_sum
from adascale.learning.gradients.paths import fitting
from adascale.learning.seeding import DROPOUT, NOISE, poisson_batch, stream
from adascale.learning.settings import Training
from adascale.scenario import Scenario


class State(NamedTuple):
    """The server's state before a round."""

    round: int
    """t, the next round."""
    parameters: Tensor
    r""":math:`\boldsymbol\theta_t`, shape (d,)."""
    velocity: Tensor
    """The momentum, shape (d,)."""


class RoundRecord(NamedTuple):
    """Measurements of a round."""

    batch_size: int
    """Number of samples in the batches of all devices."""
    loss: float
    """Mean cross entropy of these samples before the step, in nats; NaN without samples."""
    clipped: float
    """Share of these samples whose gradient norm exceeds C; NaN without samples."""
    power: NDArray[np.float64] | None
    """Transmit power of each device in watts, shape (M,); only for a round at signal level."""


class FedSGD:
    """One federation: the data of the devices, the network, and the pure functions of a training.

    Parameters
    ----------
    scenario : Scenario
        Its d and :math:`n_m` must be those of the network and the data.
    training, dataset
        See :class:`~adascale.learning.settings.Training` and :func:`~adascale.learning.data.load`.
    seed : int, >= 0
    device : str or torch.device
    """

    def __init__(
        self,
        scenario: Scenario,
        training: Training,
        dataset: data.Dataset,
        seed: int,
        device: str | torch.device = "cpu",
    ):
        self.scenario, self.training, self.seed, self.device = scenario, training, seed, find_device(device)
        data.check_samples(dataset)
        model = models.build(training.model, seed, training.initialisation)
        _check_fit(model, training.model, dataset)
        self._initial = models.flatten(model).to(self.device)
        if (size := self._initial.numel()) != (given := scenario.num_parameters):
            raise ValueError(f"num_parameters must be the {size} of {training.model}, got {given}")
        count = scenario.num_devices
        self.parts = data.partition(dataset.labels, count, training.partition, seed)
        if not all(part.size for part in self.parts):
            raise ValueError(f"num_devices must leave a sample to each, got {count} for {len(dataset.labels)} samples")
        for m, (part, size) in enumerate(zip(self.parts, np.broadcast_to(scenario.dataset_size, count), strict=True)):
            if part.size != size:
                raise ValueError(f"dataset_size must be the {part.size} samples dealt to device {m}, got {size:g}")
        self._batch_size = np.broadcast_to(scenario.batch_size, count)
        self._rates = np.broadcast_to(scenario.sampling_rate, count)
        self._model = model.to(self.device)
        self._data = data.Dataset(dataset.name, *(tensor.to(self.device) for tensor in dataset[1:]))

    def start(self) -> State:
        """Return the state before round 0."""
        return State(0, self._initial, torch.zeros_like(self._initial))

    def batches(self, round_index: int) -> list[NDArray[np.intp]]:
        """Draw the Poisson batch of every device in a round, as positions in the training set."""
        return [
            part[poisson_batch(self.seed, m, round_index, part.size, self._rates[m])]
            for m, part in enumerate(self.parts)
        ]

    def step(
        self,
        state: State,
        eta_t: float,
        coefficient_t: ArrayLike | None = None,
        *,
        alignment_t: ArrayLike | None = None,
        senders_t: ArrayLike | None = None,
    ) -> tuple[State, RoundRecord]:
        r"""Run one round: :math:`\boldsymbol\theta_{t+1}` from :math:`\boldsymbol\theta_t` and :math:`\eta_t`.

        .. math:: \mathbf v_{t+1} = \mu \mathbf v_t + \tilde{\mathbf r}_t + \beta \boldsymbol\theta_t, \qquad
            \boldsymbol\theta_{t+1} = \boldsymbol\theta_t - \lambda \mathbf v_{t+1}

        with momentum :math:`\mu`, weight decay :math:`\beta` and the received mean :math:`\tilde{\mathbf r}_t`.

        Parameters
        ----------
        state : State
        eta_t : float, > 0, watts; ``inf`` for a receiver without noise
        coefficient_t : array_like, complex, shape (M,), optional
            :math:`h_{m,t}`; with it the round runs at signal level, which gives the same step up to rounding.
        alignment_t : array_like, shape (M,), finite, not zero, optional
            :math:`c_{m,t} = h_{m,t} / \hat h_{m,t}`; the weight of :math:`\mathbf g_{m,t}` is its real part.
        senders_t : array_like of bool, shape (M,), optional
            The devices that send, of which :math:`\tilde{\mathbf r}_t` has the mean; default: all.  A round without any
            is skipped: the parameters and the momentum stay, and ``eta_t`` is ignored.
        """
        count = self.scenario.num_devices
        aligned = np.ones(count) if alignment_t is None else np.asarray(alignment_t, dtype=complex)
        if aligned.shape != (count,) or not (np.isfinite(aligned) & (aligned != 0)).all():
            raise ValueError(f"alignment must be {count} finite numbers that are not zero, got {aligned.tolist()}")
        senders = np.ones(count, dtype=bool) if senders_t is None else np.asarray(senders_t)
        if senders.shape != (count,) or senders.dtype != bool:
            raise ValueError(f"senders must be {count} booleans, got {senders.dtype} of shape {senders.shape}")
        on = np.flatnonzero(senders)
        if not on.size:
            idle = None if coefficient_t is None else np.zeros(count)
            return state._replace(round=state.round + 1), RoundRecord(0, math.nan, math.nan, idle)
        settings, generator = self.training, stream(self.seed, NOISE, round_index=state.round)
        noise = generator, self.scenario.num_parameters, self.scenario.noise_power
        with _exact(self.device), _seeded(self.device, self.seed, state.round):
            models.assign(self._model, state.parameters)
            batches = self.batches(state.round)
            chosen = [batches[m] for m in on]
            weights = [np.full(each.size, 1 / self._batch_size[m]) for m, each in zip(on, chosen, strict=True)]
            if coefficient_t is None:
                weights = [c * each for c, each in zip(aligned.real[on], weights, strict=True)]
                sums = [self._gradient(np.concatenate(chosen), np.concatenate(weights) / on.size)]
                update = air.effective_update(sums[0].gradient, eta_t, air.real_receiver_noise(*noise))
                power = None
            else:
                sums = [self._gradient(*each) for each in zip(chosen, weights, strict=True)]
                gradients = torch.stack([each.gradient for each in sums])
                h, inverted, power = np.asarray(coefficient_t), np.asarray(coefficient_t) / aligned, np.zeros(count)
                received = air.transmit(gradients, h[on], eta_t, air.receiver_noise(*noise), inverted[on])
                update, power[on] = received.update.to(state.parameters.dtype), received.power.cpu().numpy()
            velocity = settings.momentum * state.velocity + update + settings.weight_decay * state.parameters
            parameters = state.parameters - settings.learning_rate * velocity
        loss, norm = (torch.cat([getattr(each, name) for each in sums]) for name in ("loss", "norm"))
        clipped = (norm > self.scenario.clip_norm).float().mean()
        shown = RoundRecord(len(loss), float(loss.mean()), float(clipped), power)
        return State(state.round + 1, parameters, velocity), shown

    def evaluate(self, state: State) -> tuple[float, float]:
        """Return mean cross entropy (nats) and accuracy (0 ... 1) on the test set, in evaluation mode."""
        models.assign(self._model, state.parameters)
        images, labels = self._data.test_images, self._data.test_labels
        loss = correct = 0.0
        with torch.no_grad(), _exact(self.device), models.evaluation(self._model):
            for part, expected in zip(images.split(1000), labels.split(1000), strict=True):
                logits = self._model(part)
                loss += float(F.cross_entropy(logits, expected, reduction="sum"))
                correct += int((logits.argmax(1) == expected).sum())
        return loss / len(labels), correct / len(labels)

    def _gradient(self, positions: NDArray[np.intp], weights: NDArray[np.float64]) -> ClippedSum:
        chosen = torch.as_tensor(positions, device=self.device)
        factors = torch.as_tensor(weights, dtype=torch.float32, device=self.device)
        images, labels = self._data.images[chosen], self._data.labels[chosen]
        if images.ndim == 4:
            images = images.contiguous(memory_format=torch.channels_last)
        return clipped_sum(self._model, images, labels, self.scenario.clip_norm, factors, self.training.chunk)


def _check_fit(model: nn.Module, name: str, dataset: data.Dataset) -> None:
    sample = dataset.images[:1]
    with torch.random.fork_rng(devices=[]), torch.no_grad(), models.evaluation(model):
        try:
            fitting(model(sample), 1, dataset.labels)
        except Exception as error:  # the user's network may raise anything
            raise ValueError(
                f"model {name!r} must give (1, classes) logits for a sample of shape {tuple(sample.shape[1:])}; it "
                f"fails with {type(error).__name__}: {error} (samples are float32; call .long() before an Embedding)"
            ) from error


@contextlib.contextmanager
def _seeded(device: torch.device, seed: int, round_index: int) -> Iterator[None]:
    """Seed PyTorch's generator, from which dropout layers draw, inside the context only."""
    drawn = int(stream(seed, DROPOUT, round_index=round_index).integers(2**63))
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(drawn)
        else:
            torch.default_generator.manual_seed(drawn)
        yield


def _exact(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Use full single precision and deterministic sums inside the context, also on a GPU."""
    if device.type != "cuda":
        return contextlib.nullcontext()
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
