"""Rules for the sample gradients of layers: their norms and a weighted sum, mostly without storing them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@runtime_checkable
class SampleGradients(Protocol):
    r"""The sample gradients :math:`\mathbf g_1 \dots \mathbf g_B` of one parameter, stored or not."""

    def square_norm(self) -> Tensor:
        r"""Return :math:`\lVert\mathbf g_i\rVert^2`, shape (B,)."""

    def weighted_sum(self, factor: Tensor) -> Tensor:
        r"""Return :math:`\sum_i f_i \mathbf g_i` in the parameter's shape, for factors of shape (B,)."""


class Rows(NamedTuple):
    """Stored sample gradients: B tensors of the parameter's shape, along the first axis."""

    rows: Tensor
    axes: tuple[int, ...] | None = None
    """Order of the parameter's axes in a row, if it is another."""

    def square_norm(self) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(self.rows.flatten(1), dim=1)
        return norm.square()

    def weighted_sum(self, factor: Tensor) -> Tensor:
        total = (factor @ self.rows.flatten(1)).view(self.rows.shape[1:])
        return total if self.axes is None else total.permute(self.axes)


class Outer(NamedTuple):
    r"""Sample gradients :math:`\mathbf e_i \mathbf x_i^{\mathsf T}`, which are never stored."""

    left: Tensor
    r""":math:`\mathbf e_i`, shape (B, O)."""
    right: Tensor
    r""":math:`\mathbf x_i`, shape (B, K)."""

    def square_norm(self) -> Tensor:
        return Rows(self.left).square_norm() * Rows(self.right).square_norm()

    def weighted_sum(self, factor: Tensor) -> Tensor:
        return (self.left * factor[:, None]).T @ self.right


Gradients = Mapping[Tensor, Tensor | SampleGradients]
Rule = Callable[[Any, Tensor, Tensor], Gradients | None]
R = TypeVar("R", bound=Rule)

_rules: dict[type[nn.Module], Rule] = {}


def register(*layer_types: type[nn.Module]) -> Callable[[R], R]:
    r"""Register a rule for the sample gradients of a layer type: a decorator.

    For example, for a layer :math:`y = a \odot x + b`:

    .. code-block:: python

        from adascale.learning.gradients import register

        class Affine(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.a, self.b = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))
            def forward(self, x):
                return self.a * x + self.b

        @register(Affine)
        def affine(layer, input, output_grad):
            return {layer.a: output_grad * input, layer.b: output_grad}

    The registry belongs to the process; a later rule replaces an earlier one, and subclasses do not inherit it.
    A rule sees the layer's input and :math:`\partial\sum_i l_i / \partial \mathbf y` at its output, the batch first,
    and maps each trainable parameter of the layer itself to a tensor of shape (B, \*parameter.shape) or
    :class:`SampleGradients` such as :class:`Outer`; it returns None for a case that it does not cover.
    """
    if not layer_types or not all(isinstance(each, type) and issubclass(each, nn.Module) for each in layer_types):
        raise ValueError(f"layer_types must be subclasses of torch.nn.Module, got {layer_types}")

    def decorate(rule: R) -> R:
        _rules.update(dict.fromkeys(layer_types, rule))
        return rule

    return decorate


def rule_of(layer_type: type[nn.Module]) -> Rule | None:
    """Return the rule registered for exactly this type of layers, or None."""
    return _rules.get(layer_type)


def named(name: str, layer: nn.Module) -> str:
    """Return the name of a layer for errors and notes."""
    return f"layer {name!r} ({type(layer).__name__})" if name else f"the model ({type(layer).__name__})"


@register(nn.Linear)
def linear(layer: nn.Linear, input: Tensor, output_grad: Tensor) -> Gradients | None:
    """Return the sample gradients of a linear layer for one vector per sample; None for other inputs."""
    if input.ndim != 2:
        return None
    gradients: dict[Tensor, Tensor | SampleGradients] = {layer.weight: Outer(output_grad, input)}
    if layer.bias is not None:
        gradients[layer.bias] = output_grad
    return gradients


@register(nn.GroupNorm)
def group_norm(layer: nn.GroupNorm, input: Tensor, output_grad: Tensor) -> Gradients:
    """Return the sample gradients of the scale and the shift of every channel."""
    normed = F.group_norm(input, layer.num_groups, eps=layer.eps)
    scale, shift = (each[..., None].flatten(2).sum(2) for each in (output_grad * normed, output_grad))
    return {layer.weight: scale, layer.bias: shift}


@register(nn.Conv2d)
def conv2d(layer: nn.Conv2d, input: Tensor, output_grad: Tensor) -> Gradients | None:
    r"""Return :math:`\sum_p \mathbf e_{i,p} \mathbf x_{i,p}^{\mathsf T}` over the places p of the output."""
    plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
    if not plain or isinstance(layer.padding, str) or input.ndim != 4:
        return None
    outputs, inputs, high, wide = layer.weight.shape
    e = output_grad.permute(0, 2, 3, 1).flatten(1, 2)  # (B, places, outputs); no copy if channels are last in memory
    rows = e.new_empty(len(e), outputs, high * wide * inputs)
    size = max(1, largest_patches(input.device) // (e.shape[1] * rows.shape[2]))
    for i in range(0, len(e), size):
        part = slice(i, i + size)
        torch.bmm(e[part].transpose(1, 2), patches(layer, input[part]), out=rows[part])
    weight = Rows(rows.view(-1, outputs, high, wide, inputs), axes=(0, 3, 1, 2))
    gradients: dict[Tensor, Tensor | SampleGradients] = {layer.weight: weight}
    if layer.bias is not None:
        gradients[layer.bias] = output_grad.flatten(2).sum(2)
    return gradients


def patches(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """Return the part of x seen at every place of the output, shape (B, places, height * width * inputs)."""
    (above, beside), (high, wide), (down, right) = (int(n) for n in layer.padding), layer.kernel_size, layer.stride
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, beside, beside, above, above))
    seen = padded.unfold(1, high, down).unfold(2, wide, right)  # (B, rows, columns, inputs, height, width)
    return seen.permute(0, 1, 2, 4, 5, 3).reshape(len(x), seen.shape[1] * seen.shape[2], -1)


def largest_patches(device: torch.device) -> int:
    """Return the largest number of patch entries to store at a time: what fits the caches of the CPU, or 2^26."""
    return torch.get_num_threads() << 19 if device.type == "cpu" else 1 << 26
