r"""FedSGD over the air: the server's rounds as pure steps.

One round: every device draws a Poisson batch and averages its clipped sample gradients; the channel adds them up and
the receiver's noise; the server takes one step of SGD with momentum and weight decay on what it received.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from adascale.learning import air, data, models
from adascale.learning.devices import find_device, random_state, set_random_state
from adascale.learning.gradients import ClippedSum, clipped_sum
from adascale.learning.seeding import DROPOUT, NOISE, poisson_batch, stream
from adascale.learning.settings import Training
from adascale.scenario import Scenario


class State(NamedTuple):
    """What the server carries from round to round."""

    round: int
    """t, the round to come."""
    parameters: Tensor
    r""":math:`\boldsymbol\theta_t`, shape (d,)."""
    velocity: Tensor
    """The momentum, shape (d,)."""


class RoundRecord(NamedTuple):
    """What a round has shown."""

    batch_size: int
    """Samples in the batches of all devices."""
    loss: float
    """Their mean cross entropy before the step, nats; NaN without a sample."""
    clipped: float
    """The share of them whose gradient was longer than C; NaN without a sample."""
    power: NDArray[np.float64] | None
    """Transmit power of each device in watts, shape (M,), where the round was run at signal level."""


class FedSGD:
    r"""One federation: the data of the devices, the network, and the two pure functions of a training.

    Parameters
    ----------
    scenario : Scenario
        M, :math:`B_m`, :math:`n_m`, d, C and :math:`\sigma_n^2`.
    training : adascale.learning.settings.Training
        The rest.
    dataset : adascale.learning.data.Dataset
        The data.
    seed : int
        The realisation: initial model, partition, batches and noise.
    device : str or torch.device
        Where the arithmetic is done; everything random is drawn on the CPU.

    Raises
    ------
    ValueError
        If the device is not there, the network has not d trainable parameters or does not take the samples, a label is
        none of its classes, the samples are nothing to train on (:func:`adascale.learning.data.check_samples`), or a
        device gets not :math:`n_m` samples.
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
        if self._initial.numel() != scenario.num_parameters:
            raise ValueError(
                f"num_parameters must be the {self._initial.numel()} of {training.model}, got {scenario.num_parameters}"
            )
        self.parts = data.partition(dataset.labels, scenario.num_devices, training.partition, seed)
        self._batch_size = np.broadcast_to(scenario.batch_size, scenario.num_devices)
        sizes = np.broadcast_to(scenario.dataset_size, scenario.num_devices)
        if not all(part.size for part in self.parts):
            raise ValueError(
                f"num_devices must leave a sample to each, got {scenario.num_devices} for {len(dataset.labels)} samples"
            )
        for m, part in enumerate(self.parts):
            if part.size != sizes[m]:
                raise ValueError(f"dataset_size must be the {part.size} samples dealt to device {m}, got {sizes[m]:g}")
        self._model = model.to(self.device)
        self._data = dataset._replace(
            **{name: getattr(dataset, name).to(self.device) for name in dataset._fields if name != "name"}
        )

    def start(self) -> State:
        """The state before round 0."""
        return State(0, self._initial, torch.zeros_like(self._initial))

    def batches(self, round_index: int) -> list[NDArray[np.intp]]:
        """The Poisson batch of every device in a round: positions in the training set."""
        rates = np.broadcast_to(self.scenario.sampling_rate, self.scenario.num_devices)
        return [
            part[poisson_batch(self.seed, m, round_index, part.size, rates[m])] for m, part in enumerate(self.parts)
        ]

    def step(
        self,
        state: State,
        eta_t: float,
        coefficient_t: ArrayLike | None = None,
        *,
        alignment_t: ArrayLike | None = None,
    ) -> tuple[State, RoundRecord]:
        r"""One round: :math:`\boldsymbol\theta_{t+1}` from :math:`\boldsymbol\theta_t` and :math:`\eta_t`.

        .. math::
            \mathbf v_{t+1} = \mu \mathbf v_t + \tilde{\mathbf r}_t + \beta \boldsymbol\theta_t, \qquad
            \boldsymbol\theta_{t+1} = \boldsymbol\theta_t - \lambda \mathbf v_{t+1}

        with momentum :math:`\mu` and weight decay :math:`\beta`.

        Parameters
        ----------
        state : State
            Is not changed.
        eta_t : float
            :math:`\eta_t > 0` in watts; ``inf`` for a receiver without noise.
        coefficient_t : array_like, optional
            :math:`h_{m,t}`, complex, shape (M,).  With it the round is run at signal level, device by device: the
            same step up to rounding, and the power each device spent.
        alignment_t : array_like, optional
            :math:`c_{m,t} = h_{m,t} / \hat h_{m,t}` where devices invert estimates, complex or real, finite and not
            zero, shape (M,): what is received is :math:`\frac1M \sum_m \mathrm{Re}(c_{m,t})\, \mathbf g_{m,t}`.

        Returns
        -------
        tuple
            The next :class:`State` and the :class:`RoundRecord`.

        Raises
        ------
        ValueError
            If the alignment is none, or as :mod:`adascale.learning.air`.
        """
        aligned = None if alignment_t is None else self._alignment(alignment_t)
        with _exact(self.device), _seeded(self.device, self.seed, state.round):
            models.assign(self._model, state.parameters)
            chosen = self.batches(state.round)
            if coefficient_t is None:
                weights = self._weights(chosen, aligned) / self.scenario.num_devices
                sums = [self._gradient(np.concatenate(chosen), weights)]
                noise = air.real_receiver_noise(self._noise(state.round), *self._noise_shape)
                update, power = air.effective_update(sums[0].gradient, eta_t, noise), None
            else:
                sums = [self._gradient(*each) for each in zip(chosen, self._device_weights(chosen), strict=True)]
                signal_noise = air.receiver_noise(self._noise(state.round), *self._noise_shape)
                gradients = torch.stack([each.gradient for each in sums])
                believed = None if aligned is None else np.asarray(coefficient_t) / aligned
                received = air.transmit(gradients, coefficient_t, eta_t, signal_noise, believed)
                update, power = received.update.to(state.parameters.dtype), received.power.cpu().numpy()
            settings = self.training
            velocity = settings.momentum * state.velocity + update + settings.weight_decay * state.parameters
            parameters = state.parameters - settings.learning_rate * velocity
        loss, norm = (torch.cat([getattr(each, name) for each in sums]) for name in ("loss", "norm"))
        clipped = (norm > self.scenario.clip_norm).float().mean()
        shown = RoundRecord(len(loss), float(loss.mean()), float(clipped), power)
        return State(state.round + 1, parameters, velocity), shown

    def evaluate(self, state: State) -> tuple[float, float]:
        """Mean cross entropy (nats) and accuracy (0 ... 1) of the state's model on the test set, in evaluation mode."""
        models.assign(self._model, state.parameters)
        loss = correct = 0.0
        with torch.no_grad(), _exact(self.device), models.evaluation(self._model):
            for images, labels in zip(
                self._data.test_images.split(1000), self._data.test_labels.split(1000), strict=True
            ):
                logits = self._model(images)
                loss += float(F.cross_entropy(logits, labels, reduction="sum"))
                correct += int((logits.argmax(1) == labels).sum())
        size = len(self._data.test_labels)
        return loss / size, correct / size

    def _device_weights(self, chosen: Sequence[NDArray[np.intp]]) -> list[NDArray[np.float64]]:
        """1 / B_m for every sample of each device."""
        return [np.full(each.size, 1 / size) for each, size in zip(chosen, self._batch_size, strict=True)]

    def _weights(
        self, chosen: Sequence[NDArray[np.intp]], aligned: NDArray[np.complex128] | None = None
    ) -> NDArray[np.float64]:
        each = self._device_weights(chosen)
        if aligned is not None:
            each = [c * weight for c, weight in zip(aligned.real, each, strict=True)]
        return np.concatenate(each)

    def _alignment(self, alignment: ArrayLike) -> NDArray[np.complex128]:
        aligned = np.asarray(alignment, dtype=complex)
        if aligned.shape != (self.scenario.num_devices,):
            raise ValueError(f"alignment must have shape ({self.scenario.num_devices},), got {aligned.shape}")
        if not np.isfinite(aligned).all() or (aligned == 0).any():
            raise ValueError(f"alignment must be finite and not zero, got {aligned.tolist()}")
        return aligned

    def _gradient(self, positions: NDArray[np.intp], weights: NDArray[np.float64]) -> ClippedSum:
        chosen = torch.as_tensor(positions, device=self.device)
        factors = torch.as_tensor(weights, dtype=torch.float32, device=self.device)
        images, labels = self._data.images[chosen], self._data.labels[chosen]
        if images.ndim == 4:
            images = images.contiguous(memory_format=torch.channels_last)
        return clipped_sum(self._model, images, labels, self.scenario.clip_norm, factors, self.training.chunk)

    def _noise(self, round_index: int) -> np.random.Generator:
        return stream(self.seed, NOISE, round_index=round_index)

    @property
    def _noise_shape(self) -> tuple[int, float]:
        return self.scenario.num_parameters, self.scenario.noise_power


def _check_fit(model: nn.Module, name: str, dataset: data.Dataset) -> None:
    """One sample through the network, which has to have a class for every label."""
    sample, largest = dataset.images[:1], int(dataset.labels.max())
    expected = f"model {name!r} must give (1, classes) logits for a sample of shape {tuple(sample.shape[1:])}"
    with torch.random.fork_rng(devices=[]), torch.no_grad(), models.evaluation(model):
        try:
            logits = model(sample)
        except Exception as error:  # whatever the user's network does
            raise ValueError(
                f"{expected}; it fails with {type(error).__name__}: {error} (samples are float32; call "
                ".long() before an Embedding)"
            ) from error
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 1:
        raise ValueError(
            f"{expected}, got {tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__}"
        )
    if largest >= logits.shape[1]:
        raise ValueError(
            f"model {name!r} has {logits.shape[1]} classes; expected more than the largest label of "
            f"{dataset.name}, {largest}"
        )


@contextlib.contextmanager
def _seeded(device: torch.device, seed: int, round_index: int) -> Iterator[None]:
    """PyTorch's generator, from which dropout layers draw, from a stream of the round; then as it was."""
    before, drawn = random_state(device), int(stream(seed, DROPOUT, round_index=round_index).integers(2**63))
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(drawn)
    else:
        torch.default_generator.manual_seed(drawn)
    try:
        yield
    finally:
        set_random_state(device, before)


def _exact(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Full single precision, and the same sums every time, where a GPU would choose otherwise."""
    if device.type != "cuda":
        return contextlib.nullcontext()
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
