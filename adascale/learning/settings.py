"""What a training needs beside its scenario."""

from __future__ import annotations

from dataclasses import dataclass

from adascale import checks as check


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
    initialisation : str
        ``default`` or ``glorot``, see :func:`adascale.learning.models.build`.
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
    initialisation: str = "default"
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
        return cls("cifar10", "tanh_cnn", "two-classes", 0.25, momentum=0.9, chunk=32)

    @classmethod
    def digits(cls) -> Training:
        """The MNIST training at twice its learning rate, for ``Scenario.digits()``, which has fewer rounds.

        The samples of a round are few and small: all at once is fastest.
        """
        return cls("digits", "digits_cnn", "iid", 1.0, weight_decay=1e-4, chunk=400)
