r"""Rules for the sample gradients of a layer, and the registry to which anybody may add one.

A rule sees the input of a layer and the gradient of the loss at its output, for all samples at once, and gives every
sample's gradient of each of the layer's parameters.  Often they need not be written out: the engine asks only for
their norms and for one weighted sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@runtime_checkable
class SampleGradients(Protocol):
    r"""All that is asked of the sample gradients :math:`\mathbf g_1 \dots \mathbf g_B` of one parameter."""

    def square_norm(self) -> Tensor:
        r""":math:`\lVert\mathbf g_i\rVert^2`, shape (B,)."""

    def weighted_sum(self, factor: Tensor) -> Tensor:
        r""":math:`\sum_i f_i \mathbf g_i` with the factors :math:`f_i`, shape (B,); in the parameter's shape."""


class Rows(NamedTuple):
    """Sample gradients written out."""

    rows: Tensor
    """A sample first, then the parameter's shape"""

    def square_norm(self) -> Tensor:
        """See :class:`SampleGradients`."""
        norm: Tensor = torch.linalg.vector_norm(self.rows.flatten(1), dim=1)
        return norm.square()

    def weighted_sum(self, factor: Tensor) -> Tensor:
        """See :class:`SampleGradients`."""
        return (factor @ self.rows.flatten(1)).view(self.rows.shape[1:])


class Outer(NamedTuple):
    r"""Sample gradients :math:`\mathbf e_i \mathbf x_i^{\mathsf T}`, never written out.

    Their norms are :math:`\lVert\mathbf e_i\rVert \lVert\mathbf x_i\rVert`, and their weighted sum is one product of
    two matrices.
    """

    left: Tensor
    r""":math:`\mathbf e_i`, shape (B, O)."""
    right: Tensor
    r""":math:`\mathbf x_i`, shape (B, K)."""

    def square_norm(self) -> Tensor:
        """See :class:`SampleGradients`."""
        return Rows(self.left).square_norm() * Rows(self.right).square_norm()

    def weighted_sum(self, factor: Tensor) -> Tensor:
        """See :class:`SampleGradients`."""
        return (self.left * factor[:, None]).T @ self.right


Gradients = Mapping[Tensor, Tensor | SampleGradients]
Rule = Callable[[Any, Tensor, Tensor], Gradients | None]
R = TypeVar("R", bound=Rule)

_rules: dict[type[nn.Module], Rule] = {}


def register(*layer_types: type[nn.Module]) -> Callable[[R], R]:
    r"""Register a rule for the sample gradients of layers: a decorator.

    A network whose layers all have rules takes one backward pass for all samples.  A layer without a rule sends the
    whole network to ``vmap(grad)``, which is slower.  A rule for a layer of your own, :math:`y = a \odot x + b`:

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

    The registry belongs to the process, and a later rule takes the place of an earlier one.  A rule holds for exactly
    the types it was registered for: a subclass may compute something else.

    Parameters
    ----------
    *layer_types : type
        Subclasses of ``torch.nn.Module`` with one tensor in and one out, the batch first in both.

    Returns
    -------
    callable
        A decorator that registers ``rule(layer, input, output_grad)`` and returns it unchanged.  The rule sees the
        input, shape (B, ...), and :math:`\partial\sum_i l_i / \partial \mathbf y`, shape (B, ...), the gradient at the
        layer's output.  It returns a mapping from each trainable parameter of the layer itself to its sample
        gradients: a tensor of shape (B, \*parameter.shape), or :class:`SampleGradients` that are not written out,
        such as :class:`Outer`.  A rule that does not cover this layer or this input returns None; then the network
        goes to ``vmap(grad)`` as if there were no rule.
    """
    if not layer_types or not all(isinstance(each, type) and issubclass(each, nn.Module) for each in layer_types):
        raise ValueError(f"layer_types must be subclasses of torch.nn.Module, got {layer_types}")

    def decorate(rule: R) -> R:
        _rules.update(dict.fromkeys(layer_types, rule))
        return rule

    return decorate


def rule_of(layer_type: type[nn.Module]) -> Rule | None:
    """The rule that is registered for exactly this type of layers, or None."""
    return _rules.get(layer_type)


def named(name: str, layer: nn.Module) -> str:
    """How errors and notes name a layer."""
    return f"layer {name!r} ({type(layer).__name__})" if name else f"the model ({type(layer).__name__})"


@register(nn.Linear)
def linear(layer: nn.Linear, input: Tensor, output_grad: Tensor) -> Gradients | None:
    """Of one vector a sample."""
    if input.ndim != 2:
        return None
    gradients: dict[Tensor, Tensor | SampleGradients] = {layer.weight: Outer(output_grad, input)}
    if layer.bias is not None:
        gradients[layer.bias] = output_grad
    return gradients


@register(nn.GroupNorm)
def group_norm(layer: nn.GroupNorm, input: Tensor, output_grad: Tensor) -> Gradients:
    """A scale and a shift of every channel."""
    normed = F.group_norm(input, layer.num_groups, eps=layer.eps)
    return {
        layer.weight: (output_grad * normed)[..., None].flatten(2).sum(2),
        layer.bias: output_grad[..., None].flatten(2).sum(2),
    }
