"""Networks whose layers do not mix the samples of a batch."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from adascale import checks as check
from adascale import registry
from adascale.learning.seeding import MODEL, stream


def mnist_cnn() -> nn.Module:
    """Build the paper's CNN for 28 x 28 grey images: 26,010 parameters (Papernot et al., Tramèr and Boneh 2021)."""
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
    """Build the same design for 8 x 8 grey images: 9,370 parameters."""
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
    """Build the Tanh CNN of Tramèr and Boneh (2021) for 32 x 32 colour images: 550,570 parameters."""
    layers = []
    channels = 3
    for width in (32, 64, 128):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.Tanh()]
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2)]
        channels = width
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(2048, 128), nn.Tanh(), nn.Linear(128, 10)
    )


class Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut (He et al. 2016), with GroupNorm instead of BatchNorm."""

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.residual = nn.Sequential(
            *_convolution(inputs, width, 3, stride),
            nn.ReLU(),
            *_convolution(width, width, 3, 1),
        )
        self.shortcut: nn.Module = nn.Identity()
        if inputs != width:
            self.shortcut = nn.Sequential(*_convolution(inputs, width, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """Add both, and apply a ReLU."""
        return torch.relu(self.residual(x) + self.shortcut(x))


def _convolution(inputs: int, width: int, kernel: int, stride: int) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, width, kernel, stride, kernel // 2, bias=False),
        nn.GroupNorm(8, width),
    ]


def resnet32() -> nn.Module:
    """Build ResNet-32 for 32 x 32 colour images (He et al. 2016) with GroupNorm for BatchNorm: 466,906 parameters."""
    layers = [*_convolution(3, 16, 3, 1), nn.ReLU()]
    inputs = 16
    for width in (16, 32, 64):
        layers.append(Block(inputs, width, stride=width // inputs))
        layers += [Block(width, width, stride=1) for _ in range(4)]
        inputs = width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    )


def build(name: str, seed: int, initialisation: str = "default") -> nn.Module:
    r"""Build a network in ``channels_last`` layout; Opacus needs another one (:ref:`app-sample-gradients`).

    Parameters
    ----------
    name : str
        A registered name such as ``mnist_cnn``, or ``module:Class``, called without arguments.
    seed : int, >= 0
    initialisation : {"default", "glorot"}
        PyTorch's; or uniform within :math:`\pm\sqrt{6/(\text{fan-in} + \text{fan-out})}`, with zero biases.
    """
    check.one_of("initialisation", initialisation, "default", "glorot")
    # torch.manual_seed would also seed GPUs, whose state is not restored
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(stream(seed, MODEL).integers(2**63)))
        model = registry.find("models", name).value()
        for layer in model.modules():
            if initialisation == "glorot" and isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
    return model.to(memory_format=torch.channels_last)


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """Return the d parameters with ``requires_grad``, which are sent and updated, in the model's order."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def flatten(model: nn.Module) -> Tensor:
    """Return all trainable parameters as one new vector of shape (d,)."""
    return torch.cat([parameter.detach().flatten() for parameter in trainable(model)])


def assign(model: nn.Module, parameters: Tensor) -> None:
    """Copy a vector of shape (d,) into the model's trainable parameters, as the inverse of :func:`flatten`."""
    sizes = [parameter.numel() for parameter in trainable(model)]
    with torch.no_grad():
        for parameter, values in zip(
            trainable(model), parameters.split(sizes), strict=True
        ):
            parameter.copy_(values.view(parameter.shape))


@contextlib.contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Put every layer in evaluation mode inside the context, and restore its mode after it."""
    before = [(layer, layer.training) for layer in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for layer, mode in before:
            layer.training = mode


def size(name: str) -> int:
    """Return the number of trainable parameters d of a network."""
    return flatten(build(name, 0)).numel()
