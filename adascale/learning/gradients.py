"""Sums of clipped sample gradients: by rules for known layers, else by ``vmap(grad)``."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm

from adascale.errors import Diverged
from adascale.learning import models

__all__ = [
    "PLAIN",
    "RULES",
    "ClippedSum",
    "Outer",
    "Rows",
    "clipped_sum",
    "register",
]

LEAST_CLIP_NORM = 3e-16
"""About the root of the smallest normal number over the machine epsilon, in single precision.

In the square of a gradient of this norm, what underflows is less than rounding.
"""

TOLERANCE = 1e-2
"""Largest difference between the logits of a sample alone and in a batch, relative to the largest logit."""


class ClippedSum(NamedTuple):
    """The weighted sum of clipped sample gradients, with their norms and losses."""

    gradient: Tensor
    r""":math:`\sum_i v_i \mathbf g_i \min(1, C / \lVert\mathbf g_i\rVert)`, shape (d,), in the model's order."""
    norm: Tensor
    r""":math:`\lVert\mathbf g_i\rVert` before clipping, shape (B,)."""
    loss: Tensor
    """Cross entropy of every sample in nats, shape (B,)."""


class Rows(NamedTuple):
    """Stored sample gradients of one parameter: B tensors of its shape, or with its axes in another order."""

    rows: Tensor
    """Shape (B, ...)."""
    axes: tuple[int, ...] | None = None
    """For each axis of the parameter, the axis of a row that is the same; None if the rows have its shape."""

    def square_norm(self) -> Tensor:
        r"""Return :math:`\lVert\mathbf g_i\rVert^2`, shape (B,)."""
        norm: Tensor = torch.linalg.vector_norm(self.rows.flatten(1), dim=1)
        return norm.square()

    def weighted_sum(self, factor: Tensor) -> Tensor:
        r"""Return :math:`\sum_i f_i \mathbf g_i` in the parameter's shape, for factors of shape (B,)."""
        total = (factor @ self.rows.flatten(1)).view(self.rows.shape[1:])
        return total if self.axes is None else total.permute(self.axes)


class Outer(NamedTuple):
    r"""Sample gradients :math:`\mathbf e_i \mathbf x_i^{\mathsf T}` of a matrix, which are never stored."""

    left: Tensor
    r""":math:`\mathbf e_i`, shape (B, O)."""
    right: Tensor
    r""":math:`\mathbf x_i`, shape (B, K)."""

    def square_norm(self) -> Tensor:
        r"""Return :math:`\lVert\mathbf g_i\rVert^2`, shape (B,)."""
        return Rows(self.left).square_norm() * Rows(self.right).square_norm()

    def weighted_sum(self, factor: Tensor) -> Tensor:
        r"""Return :math:`\sum_i f_i \mathbf g_i` in the parameter's shape, for factors of shape (B,)."""
        return (self.left * factor[:, None]).T @ self.right


SampleGradients = tuple[list[Rows | Outer], Tensor]
"""Sample gradients of every trainable parameter, in the model's order, and the losses."""
# what :func:`register` takes: of a layer, its input and the gradient at its output
Rule = Callable[[Any, Tensor, Tensor], Mapping[Tensor, Rows | Outer | Tensor] | None]
R = TypeVar("R", bound=Rule)

RULES: dict[type[nn.Module], Rule] = {}
"""The rule of each type of layers that has one."""

PLAIN: set[type[nn.Module]] = {
    nn.Sequential,
    models.Block,
    nn.Identity,
    nn.Flatten,
    nn.Dropout,
    nn.Tanh,
    nn.Sigmoid,
    nn.Softplus,
    nn.ReLU,
    nn.LeakyReLU,
    nn.ELU,
    nn.GELU,
    nn.SiLU,
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
}
"""Modules without parameters of their own that compute each sample by itself."""


def clipped_sum(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    clip_norm: float,
    weights: Tensor | None = None,
    chunk: int = 160,
) -> ClippedSum:
    r"""Sum the clipped sample gradients of the cross entropy.

    .. math:: \sum_{i=1}^{B} v_i\, \mathbf g_i \min\Big(1, \frac{C}{\lVert \mathbf g_i \rVert}\Big), \qquad
        \mathbf g_i = \nabla_{\boldsymbol\theta}\, l\big(\boldsymbol\theta, (\mathbf u_i, o_i)\big)

    With :math:`v_i = 1/(M B_m)` (:eq:`eq:averaging`) it is :math:`\mathbf s_t` of :eq:`eq:decomposition`.

    A model whose modules all have exactly a type in :data:`RULES` or :data:`PLAIN`, such as a ``Sequential`` of
    convolutions, linear layers and activations, takes one forward and one backward pass.  Any other model takes
    ``vmap(grad)``, which is slower and computes every sample alone, so that none can see another.

    Parameters
    ----------
    model : torch.nn.Module
        It maps (B, ...) images to (B, classes) logits, each sample by itself, and changes no buffer.
    images : torch.Tensor, shape (B, ...), B >= 0
    labels : torch.Tensor, int64, shape (B,)
    clip_norm : float, >= 3e-16, :math:`C`, or ``inf``
    weights : torch.Tensor, shape (B,), optional, :math:`v_i` (default: 1)
    chunk : int, >= 1
        Largest number of samples at a time; results differ by rounding only.

    Raises
    ------
    Diverged
        If the gradient or the loss of a sample is infinite or NaN.
    """
    if not clip_norm >= LEAST_CLIP_NORM:
        raise ValueError(f"clip_norm must be >= {LEAST_CLIP_NORM}, got {clip_norm}")
    parameters = models.trainable(model)
    size = len(images)
    if weights is None:
        weights = parameters[0].new_ones(size)
    sample_gradients = by_rules
    if size and not has_rules(model):
        check_model(model, images[:2])
        sample_gradients = by_vmap

    total = [torch.zeros_like(parameter) for parameter in parameters]
    norm = parameters[0].new_zeros(size)
    loss = torch.zeros_like(norm)
    count = -(-size // chunk)
    with torch.no_grad():
        for k in range(count):
            # count parts of nearly equal size
            part = slice(size * k // count, size * (k + 1) // count)
            gradients, loss[part] = sample_gradients(model, images[part], labels[part])
            square = sum(
                (gradient.square_norm() for gradient in gradients),
                start=torch.zeros_like(loss[part]),
            )
            # a sum of products may round to below 0
            norm[part] = square.clamp_min(0).sqrt()
            # clipping does not change a vanishing gradient
            divisor = norm[part].clamp_min(torch.finfo(norm.dtype).tiny)
            factor = (clip_norm / divisor).clamp_max(1) * weights[part]
            for i, gradient in enumerate(gradients):
                total[i] += gradient.weighted_sum(factor)
    finite = torch.isfinite(norm + loss)
    if not finite.all():
        first = int(finite.int().argmin())
        raise Diverged(f"sample {first} has a gradient or a loss that is not finite")
    return ClippedSum(torch.cat([gradient.flatten() for gradient in total]), norm, loss)


def check_model(model: nn.Module, images: Tensor) -> Tensor:
    """Return the logits in evaluation mode; raise ``ValueError`` if those of a sample depend on others or on chance."""
    for name, layer in model.named_modules():
        if isinstance(layer, _BatchNorm):
            raise ValueError(
                f"layer {name!r} mixes the samples of a batch; expected GroupNorm instead of BatchNorm"
            )
    with torch.random.fork_rng(devices=[]), torch.no_grad(), models.evaluation(model):
        logits: Tensor = model(images)
        alone = torch.cat([model(image) for image in images.split(1)])
    tolerance = TOLERANCE * alone.abs().max()
    if logits.shape != alone.shape or (logits - alone).abs().max() > tolerance:
        raise ValueError(
            "the model gives a sample other logits alone than in a batch; expected the same ones"
        )
    return logits


def has_rules(model: nn.Module) -> bool:
    """Return whether every module has a rule or is plain, and is used once and in no other way than its type says."""
    modules = [module for _, module in model.named_modules(remove_duplicate=False)]
    parameters = [p for _, p in model.named_parameters(remove_duplicate=False)]
    shared = len(set(modules)) < len(modules) or len(set(parameters)) < len(parameters)
    return not shared and all(is_ruled_or_plain(module) for module in modules)


def is_ruled_or_plain(module: nn.Module) -> bool:
    """Return whether a module has one of the known types (no subclass), no hooks and no forward of its own."""
    hooks = module._forward_pre_hooks or module._forward_hooks
    if hooks or "forward" in vars(module):
        return False
    if isinstance(module, nn.Flatten) and module.start_dim != 1:
        return False  # it would mix the axis of the samples with others
    return type(module) in RULES or type(module) in PLAIN


def by_rules(model: nn.Module, images: Tensor, labels: Tensor) -> SampleGradients:
    """Compute sample gradients in one pass by the rules of the layers; by ``vmap`` if a rule does not apply."""
    calls: dict[nn.Module, tuple[Tensor, GradientEdge]] = {}

    def record(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        # the edge stays that of the layer if an activation overwrites the output
        calls[layer] = inputs[0].detach(), get_gradient_edge(output)

    layers = [
        layer
        for layer in model.modules()
        if type(layer) in RULES and models.trainable(layer)
    ]
    hooks = [layer.register_forward_hook(record) for layer in layers]
    try:
        with torch.enable_grad():
            loss = F.cross_entropy(model(images), labels, reduction="none")
    finally:
        for hook in hooks:
            hook.remove()
    edges = [calls[layer][1] for layer in layers]
    output_grads = torch.autograd.grad(loss, edges, torch.ones_like(loss))
    gradients: dict[Tensor, Rows | Outer | Tensor] = {}
    for layer, output_grad in zip(layers, output_grads, strict=True):
        of_layer = RULES[type(layer)](layer, calls[layer][0], output_grad)
        if of_layer is None:
            return by_vmap(model, images, labels)
        gradients |= of_layer
    ordered = [gradients[parameter] for parameter in models.trainable(model)]
    return [Rows(g) if isinstance(g, Tensor) else g for g in ordered], loss.detach()


def by_vmap(model: nn.Module, images: Tensor, labels: Tensor) -> SampleGradients:
    """Compute the sample gradients of any model, each sample alone: by ``vmap(grad)``, or else one after the other."""
    parameters = models.trainable(model)
    values = [parameter.detach() for parameter in parameters]
    positions = positions_by_name(model, parameters)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}

    def loss(values: list[Tensor], image: Tensor, label: Tensor) -> Tensor:
        tensors = buffers | {name: values[i] for name, i in positions.items()}
        logits = functional_call(model, tensors, (image[None],), tie_weights=False)
        return F.cross_entropy(logits, label[None])

    gradient = grad_and_value(loss)
    try:
        with sdpa_kernel(SDPBackend.MATH):  # vmap supports no other attention
            batched = vmap(gradient, (None, 0, 0), randomness="different")
            rows, losses = batched(values, images, labels)
    except RuntimeError:  # recurrent layers, and choices by the values of a sample
        samples = zip(images, labels, strict=True)
        results = [gradient(values, image, label) for image, label in samples]
        rows_of_samples, losses_of_samples = zip(*results, strict=True)
        rows = [
            torch.stack(of_parameter)
            for of_parameter in zip(*rows_of_samples, strict=True)
        ]
        losses = torch.stack(losses_of_samples)
    for name, buffer in model.named_buffers():
        if not torch.equal(buffer, buffers[name]):
            raise ValueError(
                f"the model changes its own {name!r} when it is called; expected buffers to stay"
            )
    return [Rows(row) for row in rows], losses


def positions_by_name(
    model: nn.Module, parameters: list[nn.Parameter]
) -> dict[str, int]:
    """Map every name of a trainable parameter to its position among them.

    A parameter that several modules share has several names.  A module with two names appears once, because
    ``functional_call`` does not restore what it sets twice.
    """
    position = {parameter: i for i, parameter in enumerate(parameters)}
    return {
        f"{prefix}.{name}".lstrip("."): position[parameter]
        for prefix, module in model.named_modules()
        for name, parameter in module.named_parameters(
            recurse=False, remove_duplicate=False
        )
        if parameter.requires_grad
    }


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

    A rule sees the layer's input and :math:`\partial\sum_i l_i / \partial \mathbf y` at its output, the batch first.
    It maps each parameter of the layer to a tensor of shape (B, \*parameter.shape), or to :class:`Outer`, or returns
    None for an input that it does not cover.  The layer has no children and computes each sample by itself.  Nothing
    checks a rule while it runs, so compare it with ``vmap(grad)`` in a test.
    """

    def decorate(rule: R) -> R:
        RULES.update(dict.fromkeys(layer_types, rule))
        return rule

    return decorate


@register(nn.Linear)
def linear(
    layer: nn.Linear, input: Tensor, output_grad: Tensor
) -> dict[Tensor, Tensor | Outer] | None:
    """Return the sample gradients of a linear layer for one vector per sample; None for other inputs."""
    if input.ndim != 2:
        return None
    # without a bias, nobody asks for its entry
    return {layer.weight: Outer(output_grad, input), layer.bias: output_grad}


@register(nn.GroupNorm)
def group_norm(
    layer: nn.GroupNorm, input: Tensor, output_grad: Tensor
) -> dict[Tensor, Tensor]:
    """Return the sample gradients of the scale and the shift of every channel, shape (B, channels)."""
    normed = F.group_norm(input, layer.num_groups, eps=layer.eps)
    return {
        layer.weight: sum_over_places(output_grad * normed),
        layer.bias: sum_over_places(output_grad),
    }


@register(nn.Conv2d)
def conv2d(
    layer: nn.Conv2d, input: Tensor, output_grad: Tensor
) -> dict[Tensor, Tensor | Rows] | None:
    r"""Return :math:`\sum_p \mathbf e_{i,p} \mathbf x_{i,p}^{\mathsf T}` over the places p of the output.

    :math:`\mathbf e_{i,p}` is the gradient of sample i there, and :math:`\mathbf x_{i,p}` the patch of its input that
    the place sees.  None for layers with groups, dilation, or padding of another kind.
    """
    usual = layer.groups == 1 and layer.dilation == (1, 1)
    padded = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    if not (usual and padded):
        return None
    outputs, inputs, height, width = layer.weight.shape
    # (B, places, outputs); no copy if channels are last in memory
    errors = output_grad.permute(0, 2, 3, 1).flatten(1, 2)
    rows = errors.new_empty(len(errors), outputs, height * width * inputs)
    entries = errors.shape[1] * rows.shape[2]
    at_once = max(1, largest_patches(input.device) // entries)
    split = (tensor.split(at_once) for tensor in (errors, input, rows))
    for error, x, out in zip(*split, strict=True):
        torch.bmm(error.transpose(1, 2), patches(layer, x), out=out)
    rows = rows.view(-1, outputs, height, width, inputs)
    gradients: dict[Tensor, Tensor | Rows] = {layer.weight: Rows(rows, (0, 3, 1, 2))}
    if layer.bias is not None:
        gradients[layer.bias] = sum_over_places(output_grad)
    return gradients


def sum_over_places(values: Tensor) -> Tensor:
    """Sum values of shape (B, channels, ...) to (B, channels), also if there is no further axis."""
    return values[..., None].flatten(2).sum(2)


def patches(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """Return the part of x seen at every place of the output, shape (B, places, height * width * inputs)."""
    above, beside = map(int, layer.padding)
    height, width = layer.kernel_size
    down, right = layer.stride
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, beside, beside, above, above))
    # (B, rows, columns, inputs, height, width)
    windows = padded.unfold(1, height, down).unfold(2, width, right)
    return windows.permute(0, 1, 2, 4, 5, 3).flatten(3).flatten(1, 2)


def largest_patches(device: torch.device) -> int:
    """Return the largest number of patch entries to store at a time.

    On the CPU these are 2^19 a thread, whose 2 MiB fit its cache; on a GPU 2^26, which are 256 MiB.
    """
    return torch.get_num_threads() << 19 if device.type == "cpu" else 1 << 26
