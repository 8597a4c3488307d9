"""FedSGD over the air: the server's rounds as pure steps."""

import contextlib
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor

from adascale.checks import FloatArray, IndexArray
from adascale.errors import Diverged
from adascale.learning import data, models
from adascale.learning.data import Dataset
from adascale.learning.devices import find_device
from adascale.learning.gradients import ClippedSum, clipped_sum
from adascale.learning.seeding import DROPOUT, NOISE, poisson_batch, stream
from adascale.learning.settings import Training
from adascale.policies.selection import check_equal_weights
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
    power: FloatArray | None = None
    """Transmit power of each device in watts, shape (M,); only where signals are simulated."""


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
        dataset: Dataset,
        seed: int,
        device: str | torch.device = "cpu",
    ):
        self.scenario = scenario
        self.training = training
        self.seed = seed
        self.device = find_device(device)
        model = models.build(training.model, seed, training.initialisation)
        initial = models.flatten(model)
        if len(initial) != scenario.num_parameters:
            raise ValueError(
                f"num_parameters must be the {len(initial)} of {training.model}, got {scenario.num_parameters}"
            )
        with torch.no_grad(), models.evaluation(model):
            outputs = model(dataset.images[:1]).shape[-1]
        classes = int(dataset.labels.max()) + 1
        if outputs < classes:
            raise ValueError(
                f"{training.model} must have an output for each of {classes} classes, got {outputs}"
            )
        count = scenario.num_devices
        self.batch_size = np.broadcast_to(scenario.batch_size, count)
        self._rates = np.broadcast_to(scenario.sampling_rate, count)
        self.parts = data.partition(
            dataset.labels,
            count,
            training.partition,
            seed,
            least=self.batch_size,
            sizes=scenario.dataset_size,
        )
        sizes = np.array([part.size for part in self.parts])
        if (sizes != scenario.dataset_size).any():
            raise ValueError(
                f"dataset_size must be the numbers of samples dealt to the devices, {sizes.tolist()}, "
                f"got {scenario.dataset_size}"
            )
        self._initial = initial.to(self.device)
        self._model = model.to(self.device)
        self._data = Dataset(
            dataset.name, *(tensor.to(self.device) for tensor in dataset[1:])
        )

    def start(self) -> State:
        """Return the state before round 0."""
        return State(0, self._initial, torch.zeros_like(self._initial))

    def batches(self, round_index: int) -> list[IndexArray]:
        """Draw the Poisson batch of every device in a round, as positions in the training set."""
        return [
            part[poisson_batch(self.seed, m, round_index, part.size, self._rates[m])]
            for m, part in enumerate(self.parts)
        ]

    def step(
        self, state: State, eta_t: float, *, senders_t: ArrayLike | None = None
    ) -> tuple[State, RoundRecord]:
        r"""Run one round: :math:`\boldsymbol\theta_{t+1}` from :math:`\boldsymbol\theta_t` and :math:`\eta_t`.

        .. math:: \mathbf v_{t+1} = \mu \mathbf v_t + \tilde{\mathbf r}_t + \beta \boldsymbol\theta_t, \qquad
            \boldsymbol\theta_{t+1} = \boldsymbol\theta_t - \lambda \mathbf v_{t+1}

        with momentum :math:`\mu`, weight decay :math:`\beta` and the received mean :math:`\tilde{\mathbf r}_t`.

        Parameters
        ----------
        state : State
        eta_t : float, > 0, watts; ``inf`` for a receiver without noise
        senders_t : array_like of bool, shape (M,), optional
            The devices that send, of which :math:`\tilde{\mathbf r}_t` has the mean; default: all.  A round without any
            is skipped: the parameters and the momentum stay, and ``eta_t`` is ignored.
        """
        settings = self.training
        count = self.scenario.num_devices
        senders = np.ones(count, bool) if senders_t is None else np.asarray(senders_t)
        after = state._replace(round=state.round + 1)
        if not senders.all():
            check_equal_weights(self.scenario)
        if not senders.any():
            return after, RoundRecord(0, math.nan, math.nan)
        with _exact(self.device), _seeded(self.device, self.seed, state.round):
            models.assign(self._model, state.parameters)
            # the mean over the senders in place of that over all
            weight = senders * (count / senders.sum())
            mean = self.received(state.round, eta_t, weight)
        decay = settings.weight_decay * state.parameters
        velocity = settings.momentum * state.velocity + mean.gradient + decay
        parameters = state.parameters - settings.learning_rate * velocity
        if not torch.isfinite(parameters).all():
            raise Diverged("parameters are no longer finite")
        clipped = (mean.norm > self.scenario.clip_norm).float().mean()
        record = RoundRecord(len(mean.loss), float(mean.loss.mean()), float(clipped))
        return after._replace(parameters=parameters, velocity=velocity), record

    def received(
        self, round_index: int, eta_t: float, weight: ArrayLike = 1.0
    ) -> ClippedSum:
        r"""Return the samples of a round, and as ``gradient`` what the server receives, :math:`\tilde{\mathbf r}_t`.

        It is computed at the parameters assigned last; subclasses may replace it, for example by signals on a channel.
        The gradient of device m counts :math:`p_m` times its ``weight``, shape () or (M,); with 0 it computes none.
        """
        scenario = self.scenario
        batches = self.batches(round_index)
        count = scenario.num_devices
        size = np.broadcast_to(scenario.weighted_batch_size, count)
        # p_m / B_m for each sample, if the weight is 1
        factor = np.broadcast_to(weight, count) * (1 / size) / count
        senders = np.flatnonzero(factor)
        positions = np.concatenate([batches[m] for m in senders])
        weights = np.repeat(factor[senders], [batches[m].size for m in senders])
        total = self.gradient(positions, weights)
        generator = stream(self.seed, NOISE, round_index=round_index)
        noise = real_receiver_noise(
            generator, scenario.num_parameters, scenario.noise_power
        )
        return total._replace(gradient=effective_update(total.gradient, eta_t, noise))

    def evaluate(self, state: State) -> tuple[float, float]:
        """Return mean cross entropy (nats) and accuracy (0 ... 1) on the test set, in evaluation mode."""
        models.assign(self._model, state.parameters)
        # a thousand images at a time, to save memory
        batches = zip(
            self._data.test_images.split(1000),
            self._data.test_labels.split(1000),
            strict=True,
        )
        loss = correct = 0.0
        with torch.no_grad(), _exact(self.device), models.evaluation(self._model):
            for images, labels in batches:
                logits = self._model(images)
                loss += float(F.cross_entropy(logits, labels, reduction="sum"))
                correct += int((logits.argmax(1) == labels).sum())
        size = len(self._data.test_labels)
        if not math.isfinite(loss):
            raise Diverged(f"the test loss is {loss}")
        return loss / size, correct / size

    def gradient(self, positions: IndexArray, weights: FloatArray) -> ClippedSum:
        """Sum the clipped gradients of samples at positions of the training set, at the parameters assigned last."""
        batch = torch.as_tensor(positions, device=self.device)
        factors = torch.as_tensor(weights, dtype=torch.float32, device=self.device)
        images = self._data.images[batch]
        labels = self._data.labels[batch]
        if images.ndim == 4:
            images = images.contiguous(memory_format=torch.channels_last)
        clip_norm = self.scenario.clip_norm
        chunk = self.training.chunk
        return clipped_sum(self._model, images, labels, clip_norm, factors, chunk)


def real_receiver_noise(
    rng: np.random.Generator, size: int, noise_power: float
) -> FloatArray:
    r"""Draw the real part of the receiver noise, :math:`\mathcal N(0, \sigma_n^2/2 \, \mathbb I^d)`, shape (d,)."""
    return math.sqrt(noise_power / 2) * rng.standard_normal(size)


def effective_update(
    mean_gradient: Tensor, eta: float, real_noise: FloatArray
) -> Tensor:
    r"""Return the update of the same round without the channel (:eq:`eq:decomposition`).

    .. math:: \tilde{\mathbf r}_t = \sum_m p_m \mathbf g_{m,t} + \mathrm{Re}(\mathbf n_t) / \sqrt{\eta_t}

    Parameters
    ----------
    mean_gradient, real_noise : shape (d,)
    eta : float, > 0, watts; ``inf`` for a receiver without noise
    """
    with np.errstate(all="ignore"):  # what overflows is refused below
        noise = torch.as_tensor(real_noise / math.sqrt(eta), dtype=mean_gradient.dtype)
    if not torch.isfinite(noise).all():
        raise ValueError(f"the noise must be finite in {noise.dtype}, got eta = {eta}")
    return mean_gradient + noise.to(mean_gradient.device)


@contextlib.contextmanager
def _seeded(device: torch.device, seed: int, round_index: int) -> Iterator[None]:
    """Seed PyTorch's generator, from which dropout layers draw, inside the context only."""
    own_seed = int(stream(seed, DROPOUT, round_index=round_index).integers(2**63))
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(own_seed)
        yield


def _exact(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Let convolutions on a GPU use full single precision and deterministic sums inside the context."""
    if device.type != "cuda":
        return contextlib.nullcontext()
    return torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=True, allow_tf32=False
    )
