"""The networks: small enough for a private run, and without layers that mix the samples of a batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from adascale.learning.called import call
from adascale.learning.seeding import MODEL, stream


def mnist_cnn() -> nn.Module:
    """The paper's CNN for 28 x 28 grey images: 26,010 parameters (Papernot et al. 2021; Tramèr and Boneh 2021)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=2),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4, stride=2),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.Tanh(),
        nn.Linear(32, 10),
    )


def digits_cnn() -> nn.Module:
    """The same design for 8 x 8 grey images: 9,370 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 4, stride=2, padding=2),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 3),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(128, 32),
        nn.Tanh(),
        nn.Linear(32, 10),
    )


def tanh_cnn() -> nn.Module:
    """The Tanh CNN of Tramèr and Boneh (2021) for 32 x 32 colour images: 550,570 parameters."""
    layers, channels = [], 3
    for width in (32, 64, 128):
        for _ in range(2):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.Tanh()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 128), nn.Tanh(), nn.Linear(128, 10))


class _Block(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut (He et al. 2016), GroupNorm in place of BatchNorm."""

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False),
            nn.GroupNorm(_GROUPS, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.GroupNorm(_GROUPS, width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if inputs != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride=stride, bias=False), nn.GroupNorm(_GROUPS, width)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.residual(x) + self.shortcut(x))


_GROUPS = 8


def resnet32() -> nn.Module:
    """ResNet-32 for 32 x 32 colour images (He et al. 2016): 466,906 parameters.

    Shortcuts of 1 x 1 convolutions where the width changes, and GroupNorm of 8 groups in place of BatchNorm, which
    mixes the samples of a batch.
    """
    layers, inputs = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(_GROUPS, 16), nn.ReLU()], 16
    for width in (16, 32, 64):
        for number in range(5):
            layers.append(_Block(inputs, width, 2 if number == 0 and width != 16 else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def build(name: str, seed: int, initialisation: str = "default") -> nn.Module:
    r"""A network, initialised from a seed of its own; in ``channels_last`` layout.

    Opacus takes wrong sample gradients in that layout (:ref:`app-sample-gradients`): give it the network, and colour
    images, in ``torch.contiguous_format``.

    Parameters
    ----------
    name : str
        ``mnist_cnn``, ``digits_cnn``, ``tanh_cnn``, ``resnet32`` or another registered one, or ``module:Class`` for a
        network of one's own: a function or class that is called without arguments.
    seed : int
        >= 0.  PyTorch's global generator is left as it was.
    initialisation : str
        ``default``: PyTorch's, uniform within :math:`\pm 1/\sqrt{\text{fan-in}}`.  ``glorot``: the weights of
        convolutions and linear layers uniform within :math:`\pm\sqrt{6/(\text{fan-in} + \text{fan-out})}`, their biases
        zero.

    Raises
    ------
    ValueError
        If there is no such network or initialisation, it cannot be made, has layers without a size or no trainable
        parameter, or trains another type than float32.
    """
    if initialisation not in ("default", "glorot"):
        raise ValueError(f"initialisation must be 'default' or 'glorot', got {initialisation!r}")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(stream(seed, MODEL).integers(2**63)))
        model = call("models", name)
        if not isinstance(model, nn.Module):
            raise ValueError(f"model {name!r} must make a torch.nn.Module, got {type(model).__name__}")
        if lazy := [key for key, each in model.named_parameters() if nn.parameter.is_lazy(each)]:
            raise ValueError(f"model {name!r} has a parameter {lazy[0]!r} without a size; expected layers with sizes")
        if not trainable(model):
            raise ValueError(f"model {name!r} has no trainable parameter; expected one with requires_grad=True")
        if other := [each.dtype for each in trainable(model) if each.dtype != torch.float32]:
            raise ValueError(f"model {name!r} trains parameters of {other[0]}; expected torch.float32")
        if initialisation == "glorot":
            for layer in model.modules():
                if isinstance(layer, nn.Conv2d | nn.Linear):
                    nn.init.xavier_uniform_(layer.weight)
                    if layer.bias is not None:
                        nn.init.zeros_(layer.bias)
    return model.to(memory_format=torch.channels_last)


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters with ``requires_grad``, in the model's order: the d that are sent, updated and counted."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def flatten(model: nn.Module) -> Tensor:
    """All trainable parameters as one new vector of shape (d,), in the model's order."""
    return torch.cat([parameter.detach().flatten() for parameter in trainable(model)])


def assign(model: nn.Module, parameters: Tensor) -> None:
    """Copy a vector of shape (d,) into the model's trainable parameters: the inverse of :func:`flatten`."""
    own = trainable(model)
    expected = sum(each.numel() for each in own)
    if parameters.shape != (expected,):
        raise ValueError(f"parameters must have shape ({expected},), got {tuple(parameters.shape)}")
    with torch.no_grad():
        for each, values in zip(own, parameters.split([each.numel() for each in own]), strict=True):
            each.copy_(values.view(each.shape))


@contextlib.contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Every layer in evaluation mode while it lasts, so that nothing is dropped; then each in its own mode again."""
    before = [(layer, layer.training) for layer in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for layer, mode in before:
            layer.training = mode


def size(name: str) -> int:
    """The number of trainable parameters d of a network by its name."""
    return flatten(build(name, 0)).numel()
