"""Sums of clipped sample gradients: by rules for known layers, else by ``vmap(grad)``."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from adascale import checks as check
from adascale.learning import models

__all__ = [
    "PLAIN",
    "RULES",
    "ClippedSum",
    "NotFinite",
    "Outer",
    "Rows",
    "clipped_sum",
    "register",
]

LARGEST = 1 << 26
"""Largest number of entries of sample gradients that ``vmap(grad)`` stores at a time: 256 MiB in single precision."""

TOLERANCE = 1e-2
"""Largest difference between the logits of a sample alone and in a batch, relative to the largest logit."""


class NotFinite(ValueError):
    """Failure because the gradient or the loss of a sample is not finite."""


class ClippedSum(NamedTuple):
    """The weighted sum of clipped sample gradients, with their norms and losses."""

    gradient: Tensor
    r""":math:`\sum_i v_i \mathbf g_i \min(1, C / \lVert\mathbf g_i\rVert)`, shape (d,), in the model's order."""
    norm: Tensor
    r""":math:`\lVert\mathbf g_i\rVert` before clipping, shape (B,)."""
    loss: Tensor
    """Cross entropy of every sample in nats, shape (B,)."""


class Rows(NamedTuple):
    """Stored sample gradients of one parameter: B tensors of its shape, along the first axis."""

    rows: Tensor
    axes: tuple[int, ...] | None = None
    """Order of the parameter's axes in a row, if it is another."""

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


Batch = tuple[list[Rows | Outer], Tensor]
"""Sample gradients of every trainable parameter, in the model's order, and the losses."""
Rule = Callable[[Any, Tensor, Tensor], Mapping[Tensor, Rows | Outer | Tensor] | None]
R = TypeVar("R", bound=Rule)

RULES: dict[type[nn.Module], Rule] = {}
"""The rule of each type of layers that has one."""

PLAIN: set[type[nn.Module]] = {
    *(nn.Sequential, models.Block, nn.Identity, nn.Flatten, nn.Dropout),
    *(
        nn.Tanh,
        nn.Sigmoid,
        nn.Softplus,
        nn.ReLU,
        nn.LeakyReLU,
        nn.ELU,
        nn.GELU,
        nn.SiLU,
    ),
    *(nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d),
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
    clip_norm : float, > 0
        :math:`C`, at least 3e-16 in single precision and 1e-146 in double, or ``inf``.
    weights : torch.Tensor, shape (B,), optional, :math:`v_i` (default: 1)
    chunk : int, >= 1
        Largest number of samples at a time; results differ by rounding only.

    Raises
    ------
    NotFinite
        A ``ValueError``, if the gradient or the loss of a sample is infinite or NaN.
    """
    size, parameters = len(images), models.trainable(model)
    if not parameters:
        raise ValueError(
            "the model has no trainable parameter; expected one with requires_grad=True"
        )
    weights = parameters[0].new_ones(size) if weights is None else weights
    check_batch(labels, weights, size)
    check_clip_norm(clip_norm, parameters[0].dtype)
    check.whole("chunk", chunk)
    if size == 0:
        none = parameters[0].new_zeros(0)
        return ClippedSum(torch.zeros_like(models.flatten(model)), none, none)
    path = by_rules
    if not has_rules(model):
        check_model(model, images[:2])
        path = by_vmap
        chunk = min(
            chunk, max(1, LARGEST // sum(parameter.numel() for parameter in parameters))
        )

    count = -(-size // chunk)
    total = [torch.zeros_like(parameter) for parameter in parameters]
    norms, losses = [], []
    for k in range(count):
        part = slice(size * k // count, size * (k + 1) // count)
        gradients, loss = path(model, images[part].detach(), labels[part])
        with torch.no_grad():
            square = sum(
                (gradient.square_norm() for gradient in gradients),
                start=torch.zeros_like(loss),
            )
            norm = square.clamp_min(
                0
            ).sqrt()  # the sum of products of a rule may round to below 0
            # avoids division by zero: clipping does not change a vanishing gradient
            factor = (
                clip_norm / norm.clamp_min(torch.finfo(norm.dtype).tiny)
            ).clamp_max(1) * weights[part]
            total = [
                sofar + gradient.weighted_sum(factor)
                for sofar, gradient in zip(total, gradients, strict=True)
            ]
        norms.append(norm)
        losses.append(loss)
    norm, loss = torch.cat(norms), torch.cat(losses)
    check_finite(norm, loss)
    return ClippedSum(torch.cat([gradient.flatten() for gradient in total]), norm, loss)


def check_batch(labels: Tensor, weights: Tensor, size: int) -> None:
    """Raise ``ValueError`` unless there is a class and a weight for every sample."""
    for name, values in (("labels", labels), ("weights", weights)):
        if values.shape != (size,):
            raise ValueError(
                f"{name} must have shape ({size},), got {tuple(values.shape)}"
            )
    if (labels < 0).any():  # cross_entropy ignores the label -100
        raise ValueError(f"labels must be >= 0, got {int(labels.min())}")


def check_clip_norm(clip_norm: float, dtype: torch.dtype) -> None:
    """Raise ``ValueError`` unless the squares of gradients as long as the clip norm do not underflow."""
    least = (torch.finfo(dtype).tiny / torch.finfo(dtype).eps) ** 0.5
    if not clip_norm >= least:
        raise ValueError(
            f"clip_norm must be >= {least:.1g}, where squares do not underflow, got {clip_norm}"
        )


def check_finite(norm: Tensor, loss: Tensor) -> None:
    """Raise :class:`NotFinite` with the first sample whose gradient or loss is not finite."""
    finite = torch.isfinite(norm) & torch.isfinite(loss)
    if not finite.all():
        i = int(finite.int().argmin())
        got = f"a gradient of norm {float(norm[i])} and the loss {float(loss[i])}"
        raise NotFinite(f"sample {i} of {len(norm)} has {got}; expected finite ones")


def check_model(model: nn.Module, images: Tensor) -> Tensor:
    """Return the logits in evaluation mode; raise ``ValueError`` if those of a sample depend on others or on chance."""
    for name, layer in model.named_modules():
        if isinstance(
            layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm
        ):
            kind = type(layer).__name__
            raise ValueError(
                f"layer {name!r} ({kind}) mixes the samples of a batch; expected GroupNorm instead"
            )
    with torch.random.fork_rng(devices=[]), torch.no_grad(), models.evaluation(model):
        logits: Tensor = model(images)
        alone = torch.cat([model(image[None]) for image in images])
    if (
        logits.shape != alone.shape
        or (logits - alone).abs().max() > TOLERANCE * alone.abs().max()
    ):
        raise ValueError(
            "the model gives a sample other logits alone than in a batch; expected the same ones"
        )
    return logits


def has_rules(model: nn.Module) -> bool:
    """Return whether every module has a rule or is plain, and is used once and in no other way than its type says."""
    modules = [module for _, module in model.named_modules(remove_duplicate=False)]
    parameters = [
        parameter for _, parameter in model.named_parameters(remove_duplicate=False)
    ]
    shared = len(set(modules)) < len(modules) or len(set(parameters)) < len(parameters)
    return not shared and all(is_ruled_or_plain(module) for module in modules)


def is_ruled_or_plain(module: nn.Module) -> bool:
    """Return whether a module has exactly one of the known types, and neither hooks nor a forward of its own."""
    hooks = (module._forward_pre_hooks, module._forward_hooks, module._backward_hooks)
    if (
        any(hooks)
        or "forward" in vars(module)
        or module._compiled_call_impl is not None
    ):
        return False
    if isinstance(module, nn.Flatten):
        return module.start_dim == 1  # the batch is an axis of its own
    is_layer = type(module) in RULES and not any(module.children())
    return is_layer or type(module) in PLAIN


def by_rules(model: nn.Module, images: Tensor, labels: Tensor) -> Batch:
    """Compute sample gradients in one pass by the rules of the layers; by ``vmap`` if a rule does not apply."""
    calls: dict[nn.Module, tuple[Tensor, GradientEdge]] = {}

    def record(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        # the edge stays that of the layer if an activation overwrites the output
        calls[layer] = inputs[0].detach(), get_gradient_edge(output)

    parameters = models.trainable(model)
    layers = [
        layer
        for layer in model.modules()
        if any(p.requires_grad for p in layer.parameters(recurse=False))
    ]
    hooks = [layer.register_forward_hook(record) for layer in layers]
    try:
        with torch.enable_grad():
            loss = F.cross_entropy(model(images), labels, reduction="none")
    finally:
        for hook in hooks:
            hook.remove()
    output_grads = torch.autograd.grad(
        loss, [calls[layer][1] for layer in layers], torch.ones_like(loss)
    )
    gradients: dict[Tensor, Rows | Outer] = {}
    with torch.no_grad():
        for layer, output_grad in zip(layers, output_grads, strict=True):
            of_layer = RULES[type(layer)](layer, calls[layer][0], output_grad)
            if of_layer is None:
                return by_vmap(model, images, labels)
            for parameter, gradient in of_layer.items():
                gradients[parameter] = (
                    Rows(gradient) if isinstance(gradient, Tensor) else gradient
                )
    return [gradients[parameter] for parameter in parameters], loss.detach()


def by_vmap(model: nn.Module, images: Tensor, labels: Tensor) -> Batch:
    """Compute the sample gradients of any model, each sample alone: by ``vmap(grad)``, or else one after the other."""
    parameters = models.trainable(model)
    places = {  # every name of a parameter, in each module once: functional_call does not restore what it sets twice
        f"{prefix}.{name}".lstrip("."): parameter
        for prefix, module in model.named_modules()
        for name, parameter in module.named_parameters(
            recurse=False, remove_duplicate=False
        )
        if parameter.requires_grad
    }
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}

    def loss(values: list[Tensor], image: Tensor, label: Tensor) -> Tensor:
        value_of = dict(zip(parameters, values, strict=True))
        tensors = buffers | {
            place: value_of[parameter] for place, parameter in places.items()
        }
        return F.cross_entropy(
            functional_call(model, tensors, (image[None],), tie_weights=False),
            label[None],
        )

    gradient, values = (
        grad_and_value(loss),
        [parameter.detach() for parameter in parameters],
    )
    try:
        with sdpa_kernel(SDPBackend.MATH):  # vmap supports no other attention
            rows, losses = vmap(gradient, (None, 0, 0), randomness="different")(
                values, images, labels
            )
    except (
        RuntimeError
    ):  # vmap does not support recurrent layers and choices by the values of a sample
        samples = [
            gradient(values, image, label)
            for image, label in zip(images, labels, strict=True)
        ]
        rows = [
            torch.stack(of_parameter)
            for of_parameter in zip(*(rows for rows, _ in samples), strict=True)
        ]
        losses = torch.stack([loss for _, loss in samples])
    for name, buffer in model.named_buffers():
        if not torch.equal(buffer, buffers[name]):
            raise ValueError(
                f"the model changes its own {name!r} when it is called; expected buffers to stay"
            )
    return [Rows(of_parameter) for of_parameter in rows], losses


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
    gradients: dict[Tensor, Tensor | Outer] = {layer.weight: Outer(output_grad, input)}
    if layer.bias is not None:
        gradients[layer.bias] = output_grad
    return gradients


@register(nn.GroupNorm)
def group_norm(
    layer: nn.GroupNorm, input: Tensor, output_grad: Tensor
) -> dict[Tensor, Tensor]:
    """Return the sample gradients of the scale and the shift of every channel."""
    normed = F.group_norm(input, layer.num_groups, eps=layer.eps)
    scale, shift = (
        values[..., None].flatten(2).sum(2)
        for values in (output_grad * normed, output_grad)
    )
    return {layer.weight: scale, layer.bias: shift}


@register(nn.Conv2d)
def conv2d(
    layer: nn.Conv2d, input: Tensor, output_grad: Tensor
) -> dict[Tensor, Tensor | Rows] | None:
    r"""Return :math:`\sum_p \mathbf e_{i,p} \mathbf x_{i,p}^{\mathsf T}` over the places p of the output."""
    usual = (
        layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
    )
    if not usual or isinstance(layer.padding, str) or input.ndim != 4:
        return None
    outputs, inputs, high, wide = layer.weight.shape
    e = output_grad.permute(0, 2, 3, 1).flatten(
        1, 2
    )  # (B, places, outputs); no copy if channels are last in memory
    rows = e.new_empty(len(e), outputs, high * wide * inputs)
    size = max(1, largest_patches(input.device) // (e.shape[1] * rows.shape[2]))
    for i in range(0, len(e), size):
        part = slice(i, i + size)
        torch.bmm(e[part].transpose(1, 2), patches(layer, input[part]), out=rows[part])
    weight = Rows(rows.view(-1, outputs, high, wide, inputs), axes=(0, 3, 1, 2))
    gradients: dict[Tensor, Tensor | Rows] = {layer.weight: weight}
    if layer.bias is not None:
        gradients[layer.bias] = output_grad.flatten(2).sum(2)
    return gradients


def patches(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """Return the part of x seen at every place of the output, shape (B, places, height * width * inputs)."""
    (above, beside), (high, wide), (down, right) = (
        (int(n) for n in layer.padding),
        layer.kernel_size,
        layer.stride,
    )
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, beside, beside, above, above))
    seen = padded.unfold(1, high, down).unfold(
        2, wide, right
    )  # (B, rows, columns, inputs, height, width)
    return seen.permute(0, 1, 2, 4, 5, 3).reshape(
        len(x), seen.shape[1] * seen.shape[2], -1
    )


def largest_patches(device: torch.device) -> int:
    """Return the largest number of patch entries to store at a time: what fits the caches of the CPU, or 2^26."""
    return torch.get_num_threads() << 19 if device.type == "cpu" else 1 << 26
