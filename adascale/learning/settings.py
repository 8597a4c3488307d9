"""The settings of a training that are not part of its scenario."""

from dataclasses import dataclass

from adascale import checks as check
from adascale import presets, registry
from adascale.files import from_mapping


@dataclass(frozen=True)
class Training:
    r"""Data, network and optimiser of a training, which complete its :class:`~adascale.scenario.Scenario`.

    Parameters
    ----------
    dataset, input_scaling : str
        See :func:`adascale.learning.data.load`.
    model, initialisation : str
        See :func:`adascale.learning.models.build`.
    partition : str
        See :func:`adascale.learning.data.partition`, ``kind``.
    learning_rate : float, > 0, :math:`\lambda`
    momentum : float, in [0, 1)
    weight_decay : float, >= 0
        Coefficient of :math:`\boldsymbol\theta`, added to the received gradient after the noise.
    chunk : int, >= 1
        Largest number of samples whose gradients are computed at a time.  A GPU wants thousands: on an H200, 2,000
        make the private round 1.5 to 2.6 times as slow as SGD, and the default 6 to 9 times.
    """

    dataset: str
    model: str
    partition: str
    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    input_scaling: str = "standard"
    initialisation: str = "default"
    chunk: int = 160

    def __post_init__(self) -> None:
        check.number("learning_rate", self.learning_rate, 1e-300)  # that is, > 0
        check.number("momentum", self.momentum, 0)
        check.number("weight_decay", self.weight_decay, 0)
        if self.momentum >= 1:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum}")
        check.whole("chunk", self.chunk)

    @classmethod
    def preset(cls, name: str) -> "Training":
        """Return the training of a preset, by name or file: see :func:`adascale.presets.load`."""
        values = presets.load(name).training
        try:
            training = from_mapping(cls, values, " in [training]")
            registry.find("datasets", training.dataset)
            registry.find("models", training.model)
            return training
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
