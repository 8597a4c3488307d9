r"""FedSGD over the air: the server's rounds as pure steps, and whole trainings.

One round: every device draws a Poisson batch and averages its clipped sample gradients; the channel adds them up and
the receiver's noise; the server takes one step of SGD with momentum and weight decay on what it received.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from adascale import _validation as check
from adascale.learning import air, data, models
from adascale.learning.clipping import clipped_sum
from adascale.learning.streams import NOISE, poisson_batch, stream
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario


@dataclass(frozen=True)
class Training:
    r"""What a training needs beside its :class:`~adascale.scenario.Scenario`.

    Parameters
    ----------
    dataset : str
        See :func:`adascale.learning.data.load`.
    model : str
        One of :data:`adascale.learning.models.MODELS`.
    partition : str
        ``iid`` or ``two-classes``, see :func:`adascale.learning.data.partition`.
    learning_rate : float
        :math:`\lambda > 0`.
    momentum : float
        In [0, 1).
    weight_decay : float
        >= 0, the coefficient of :math:`\mathbf w` that is added to the received gradient, after the noise.
    input_scaling : str
        ``standard`` or ``unit``, see :func:`adascale.learning.data.load`.
    chunk : int
        Largest number of samples whose gradients are computed at a time.

    Raises
    ------
    ValueError
        If a number is out of range; names are checked where they are used.
    """

    dataset: str
    model: str
    partition: str
    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    input_scaling: str = "standard"
    chunk: int = 160

    def __post_init__(self):
        check.positive("learning_rate", self.learning_rate)
        check.at_least("weight_decay", self.weight_decay, 0)
        if not 0 <= check.at_least("momentum", self.momentum, 0) < 1:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum}")
        check.whole("chunk", self.chunk)

    @classmethod
    def mnist(cls) -> Training:
        """The paper's MNIST training."""
        return cls("mnist", "mnist_cnn", "iid", 0.5, weight_decay=1e-4)

    @classmethod
    def cifar10(cls) -> Training:
        """The paper's CIFAR-10 training, with the Tanh CNN."""
        return cls("cifar10", "tanh_cnn", "two-classes", 0.25, momentum=0.9, chunk=64)

    @classmethod
    def digits(cls) -> Training:
        """The MNIST training at twice its learning rate, for ``Scenario.digits()``, which has fewer rounds."""
        return cls("digits", "digits_cnn", "iid", 1.0, weight_decay=1e-4)


class State(NamedTuple):
    """What the server carries from round to round."""

    round: int
    """t, the round to come."""
    parameters: Tensor
    r""":math:`\mathbf w_t`, shape (d,)."""
    velocity: Tensor
    """The momentum, shape (d,)."""


class Round(NamedTuple):
    """What a round has shown."""

    batch_size: int
    """Samples in the batches of all devices."""
    loss: float
    """Their mean cross entropy before the step, nats; NaN without a sample."""
    clipped: float
    """The share of them whose gradient was longer than C; NaN without a sample."""
    power: np.ndarray | None
    """Transmit power of each device in watts, shape (M,), where the round was run at signal level."""


class FedSGD:
    r"""One federation: the data of the devices, the network, and the two pure functions of a training.

    Parameters
    ----------
    scenario : Scenario
        M, :math:`B_m`, :math:`n_m`, d, C and :math:`\sigma_n^2`.
    training : Training
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
        If the network has not d parameters, or a device gets not :math:`n_m` samples.
    """

    def __init__(self, scenario: Scenario, training: Training, dataset: data.Dataset, seed: int, device="cpu"):
        self.scenario, self.training, self.seed, self.device = scenario, training, seed, torch.device(device)
        model = models.build(training.model, seed)
        self._initial = models.flatten(model).to(self.device)
        if self._initial.numel() != scenario.num_parameters:
            raise ValueError(
                f"num_parameters must be the {self._initial.numel()} of {training.model}, got {scenario.num_parameters}"
            )
        self.parts = data.partition(dataset.labels, scenario.num_devices, training.partition, seed)
        self._batch_size = np.broadcast_to(scenario.batch_size, scenario.num_devices)
        sizes = np.broadcast_to(scenario.dataset_size, scenario.num_devices)
        for m, part in enumerate(self.parts):
            if part.size != sizes[m]:
                raise ValueError(f"dataset_size must be the {part.size} samples dealt to device {m}, got {sizes[m]:g}")
        self._model = model.to(self.device)
        self._data = dataset._replace(**{
            name: getattr(dataset, name).to(self.device) for name in dataset._fields if name != "name"
        })  # fmt: skip

    def start(self) -> State:
        """The state before round 0."""
        return State(0, self._initial, torch.zeros_like(self._initial))

    def batches(self, round_index: int) -> list[np.ndarray]:
        """The Poisson batch of every device in a round: positions in the training set."""
        rates = np.broadcast_to(self.scenario.sampling_rate, self.scenario.num_devices)
        return [
            part[poisson_batch(self.seed, m, round_index, part.size, rates[m])] for m, part in enumerate(self.parts)
        ]

    def step(self, state: State, eta_t: float, coefficient_t=None) -> tuple[State, Round]:
        r"""One round: :math:`\mathbf w_{t+1}` from :math:`\mathbf w_t` and :math:`\eta_t`.

        .. math::
            \mathbf v_{t+1} = \mu \mathbf v_t + \tilde{\mathbf r}_t + \beta \mathbf w_t, \qquad
            \mathbf w_{t+1} = \mathbf w_t - \lambda \mathbf v_{t+1}

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

        Returns
        -------
        tuple
            The next :class:`State` and the :class:`Round`.
        """
        with _exact(self.device):
            models.load(self._model, state.parameters)
            chosen = self.batches(state.round)
            if coefficient_t is None:
                sums = [self._gradient(np.concatenate(chosen), self._weights(chosen) / self.scenario.num_devices)]
                noise = air.real_receiver_noise(self._noise(state.round), *self._noise_shape)
                update, power = air.effective_update(sums[0].gradient, eta_t, noise), None
            else:
                sums = [self._gradient(*each) for each in zip(chosen, self._device_weights(chosen), strict=True)]
                noise = air.receiver_noise(self._noise(state.round), *self._noise_shape)
                received = air.transmit(torch.stack([each.gradient for each in sums]), coefficient_t, eta_t, noise)
                update, power = received.update.to(state.parameters.dtype), received.power.cpu().numpy()
            settings = self.training
            velocity = settings.momentum * state.velocity + update + settings.weight_decay * state.parameters
            parameters = state.parameters - settings.learning_rate * velocity
        loss, norm = (torch.cat([getattr(each, name) for each in sums]) for name in ("loss", "norm"))
        shown = Round(len(loss), float(loss.mean()), float((norm > self.scenario.clip_norm).float().mean()), power)
        return State(state.round + 1, parameters, velocity), shown

    def evaluate(self, state: State) -> tuple[float, float]:
        """Mean cross entropy (nats) and accuracy (0 ... 1) of the state's model on the test set."""
        models.load(self._model, state.parameters)
        loss = correct = 0.0
        with torch.no_grad(), _exact(self.device):
            for images, labels in zip(
                self._data.test_images.split(1000), self._data.test_labels.split(1000), strict=True
            ):
                logits = self._model(images)
                loss += float(F.cross_entropy(logits, labels, reduction="sum"))
                correct += int((logits.argmax(1) == labels).sum())
        size = len(self._data.test_labels)
        return loss / size, correct / size

    def _device_weights(self, chosen):
        """1 / B_m for every sample of each device."""
        return [np.full(each.size, 1 / size) for each, size in zip(chosen, self._batch_size, strict=True)]

    def _weights(self, chosen):
        return np.concatenate(self._device_weights(chosen))

    def _gradient(self, positions, weights):
        positions = torch.as_tensor(positions, device=self.device)
        weights = torch.as_tensor(weights, dtype=torch.float32, device=self.device)
        images, labels = self._data.images[positions], self._data.labels[positions]
        images = images.contiguous(memory_format=torch.channels_last)
        return clipped_sum(self._model, images, labels, self.scenario.clip_norm, weights, self.training.chunk)

    def _noise(self, round_index):
        return stream(self.seed, NOISE, round_index=round_index)

    @property
    def _noise_shape(self):
        return self.scenario.num_parameters, self.scenario.noise_power


class Trained(NamedTuple):
    """A finished training."""

    state: State
    history: pd.DataFrame
    r"""A table with one row a round, of the columns ``round, batch_size, loss`` (of the batches, before the step),
    ``clipped`` (share of their samples), ``noise_energy`` (:math:`w_t`); and where the model was evaluated, after the
    step, ``test_loss, accuracy`` and ``epsilon`` (of the rounds so far), NaN elsewhere."""


def train(
    problem: ReceiveScalingProblem,
    eta,
    training: Training,
    dataset: data.Dataset,
    seed: int,
    *,
    coefficient=None,
    device="cpu",
    every: int = 25,
    delta: float = 1e-5,
    progress: bool = False,
) -> Trained:
    r"""A whole training with a schedule of receive scalings.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        One lane: its scenario is the training's, its horizon the number of rounds.
    eta : array_like or None
        :math:`\eta_t` of every round, shape (T,), within the power limit; ``None`` for a receiver without noise.
    training, dataset, seed, device
        As for :class:`FedSGD`.
    coefficient : array_like, optional
        :math:`h_{m,t}`, shape (M, T): run every round at signal level.
    every : int
        Evaluate after every so many rounds, and after the last.
    delta : float
        :math:`\delta` of the epsilon so far.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    Trained
        On one machine, with the same versions and number of threads, the same to the last bit on the CPU.

    Raises
    ------
    ValueError
        If the schedule does not fit the problem, or as :class:`FedSGD`.
    """
    check.whole("every", every)
    rounds = problem.num_rounds
    if problem.lanes != ():
        raise ValueError(f"problem must have one lane, got lanes {problem.lanes}")
    if eta is None:
        schedule = np.full(rounds, math.inf)
    else:
        schedule = check.positive("eta", eta)
        if schedule.shape != (rounds,):
            raise ValueError(f"eta must have shape ({rounds},), got {schedule.shape}")
        if (schedule > problem.max_eta).any():
            t = int(np.argmax(schedule > problem.max_eta))
            raise ValueError(f"eta must respect the power limit, got {schedule[t]} > {problem.max_eta[t]} in round {t}")
    federation = FedSGD(problem.scenario, training, dataset, seed, device)
    state, rows = federation.start(), []
    with tqdm(total=rounds, disable=not progress, unit="round", desc=training.dataset) as bar:
        for t in range(rounds):
            state, shown = federation.step(state, schedule[t], None if coefficient is None else coefficient[:, t])
            row = {"round": t, "batch_size": shown.batch_size, "loss": shown.loss, "clipped": shown.clipped,
                   "noise_energy": problem.scenario.noise_scale / schedule[t],
                   "test_loss": math.nan, "accuracy": math.nan, "epsilon": math.nan}  # fmt: skip
            if (t + 1) % every == 0 or t + 1 == rounds:
                row["test_loss"], row["accuracy"] = federation.evaluate(state)
                row["epsilon"] = math.inf if eta is None else _epsilon_so_far(problem, schedule[: t + 1], delta)
                bar.set_postfix_str(f"loss {row['test_loss']:.3f}, accuracy {row['accuracy']:.3f}, "
                                    f"epsilon {row['epsilon']:.2f}", refresh=False)  # fmt: skip
            rows.append(row)
            bar.update()
    return Trained(state, pd.DataFrame(rows))


def _epsilon_so_far(problem, eta, delta):
    so_far = ReceiveScalingProblem(problem.scenario, problem.min_gain[: eta.size], problem.budget)
    return float(so_far.dp_epsilon(eta, delta))


def _exact(device):
    """Full single precision, and the same sums every time, where a GPU would choose otherwise."""
    if device.type != "cuda":
        return contextlib.nullcontext()
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
