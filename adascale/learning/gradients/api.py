r"""The sum of clipped per-sample gradients of a batch, from one forward and one backward pass.

The server needs :math:`\sum_i v_i \mathbf g_i \min(1, C / \lVert \mathbf g_i \rVert)` and no :math:`\mathbf g_i` alone.
One backward pass to the *outputs* of the layers gives, with the inputs kept from the forward pass, every sample's
gradient as a product of two small matrices.  Their norms fix the weights, and one weighted sum a layer does the rest:
there is no second backward pass, and the gradient of the unclipped loss is never formed.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adascale import checks as check


class ClippedSum(NamedTuple):
    """The weighted sum, beside what it cost nothing to keep."""

    gradient: Tensor
    r""":math:`\sum_i v_i \mathbf g_i \min(1, C / \lVert\mathbf g_i\rVert)`, shape (d,), in the order of the model's
    parameters."""
    norm: Tensor
    r""":math:`\lVert\mathbf g_i\rVert` before clipping, shape (B,)."""
    loss: Tensor
    """Cross entropy of every sample, nats, shape (B,)."""


def clipped_sum(
    model: nn.Module, images: Tensor, labels: Tensor, clip_norm: float, weights: Tensor | None = None, chunk: int = 160
) -> ClippedSum:
    r"""Sum of clipped sample gradients of the cross entropy.

    .. math::
        \sum_{i=1}^{B} v_i\, \mathbf g_i \min\Big(1, \frac{C}{\lVert \mathbf g_i \rVert}\Big), \qquad
        \mathbf g_i = \nabla_{\mathbf w}\, l\big(\mathbf w, (\mathbf u_i, o_i)\big)

    With :math:`v_i = 1/(M B_m)` for the samples of device m (:eq:`eq:averaging`) it is the signal
    :math:`\mathbf s_t` of :eq:`eq:decomposition`, all devices at once.

    Parameters
    ----------
    model : torch.nn.Module
        From (B, ...) images to (B, classes) logits, one sample independent of the others.  Parameters may lie in
        ``Conv2d`` (one group, no dilation, zero padding), ``Linear`` and ``GroupNorm`` layers, each called once.
        What has no parameters is free: activations, pooling, residual sums; but nothing may write in place into the
        input of a layer with parameters.
    images : torch.Tensor
        Shape (B, ...), in any memory layout (``channels_last`` is the fast one); B may be 0.
    labels : torch.Tensor
        Classes, int64, shape (B,).
    clip_norm : float
        :math:`C > 0`; ``inf`` clips nothing.
    weights : torch.Tensor, optional
        :math:`v_i`, shape (B,); default 1.
    chunk : int
        Largest number of samples at a time.  It bounds the memory; results differ by rounding only.

    Returns
    -------
    ClippedSum
        On the device of the images.

    Raises
    ------
    ValueError
        If a layer is not one of these, is called twice, has its input overwritten or does not reach the loss (the
        message names it), C is not positive, or shapes do not fit.
    """
    if not clip_norm > 0:
        raise ValueError(f"clip_norm must be > 0, got {clip_norm}")
    check.whole("chunk", chunk)
    layers = _layers_of(model)
    size = len(images)
    if labels.shape != (size,):
        raise ValueError(f"labels must have shape ({size},), got {tuple(labels.shape)}")
    if weights is None:
        weights = images.new_ones(size)
    if weights.shape != (size,):
        raise ValueError(f"weights must have shape ({size},), got {tuple(weights.shape)}")
    total = [images.new_zeros(parameter.shape) for parameter in model.parameters()]
    norms, losses = [images.new_zeros(0)], [images.new_zeros(0)]
    with _observed(layers) as observe:

        def clipped(part, space):
            rows, loss = _sample_gradients(model, layers, observe, images[part], labels[part], space)
            norm = sum(row.square_norm() for row in rows).clamp_min(0).sqrt()  # Gram sums may round below 0
            # a vanishing gradient would divide by zero; clipping leaves it as it is
            factor = (clip_norm / norm.clamp_min(torch.finfo(norm.dtype).tiny)).clamp_max(1) * weights[part]
            return [row.weighted_sum(factor) for row in rows], norm, loss

        for number, (gradient, norm, loss) in enumerate(_in_threads(clipped, _chunks(size, chunk), images.device)):
            if number == 0:
                total = gradient  # in memory as all of them are, which need not be the parameters' own order
            else:
                for each, more in zip(total, gradient, strict=True):
                    each += more
            norms.append(norm)
            losses.append(loss)
    return ClippedSum(torch.cat([each.flatten() for each in total]), torch.cat(norms), torch.cat(losses))


def _in_threads(work: Callable, parts: list, device: torch.device) -> Iterator:
    """``work(part, space)`` of every part, in order; a thread has a :class:`_Space` of its own.

    Many chunks on a CPU are shared out over as many threads as torch has, each of them computing alone: an operation
    on a chunk is too small to be shared out well itself.
    """
    if device.type == "cpu":
        _keep_freed_memory()
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or len(parts) < 4 * threads:
        space = _Space()
        yield from (work(part, space) for part in parts)
        return
    own = threading.local()

    def alone():
        torch.set_num_threads(1)  # of this thread
        own.space = _Space()

    try:
        torch.set_num_threads(1)  # of this thread too: a second one would wait for work without rest
        with ThreadPoolExecutor(threads, initializer=alone) as pool:
            yield from pool.map(lambda part: work(part, own.space), parts)
    finally:
        torch.set_num_threads(threads)  # of this thread and of those to come


@functools.cache
def _keep_freed_memory() -> None:
    """Have the C library keep up to 64 MB of what a chunk gives back for the next chunk.

    glibc hands large blocks back to the system, and asking for them anew costs a fault for every page.  It stops doing
    so for blocks up to the size of the largest that it has seen freed (M_MMAP_THRESHOLD in mallopt(3)): here of 31 MiB,
    never touched.  Other libraries pay no attention.
    """
    torch.empty(31 << 20, dtype=torch.uint8)


def _chunks(size: int, largest: int) -> list[slice]:
    """Equal parts, as few as possible."""
    count = -(-size // largest)
    return [slice(size * i // count, size * (i + 1) // count) for i in range(count)]


class _Space(dict):
    """Memory that chunks use one after the other: asking the system for it anew costs as much as filling it."""

    def take(self, name, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        """As it was left; zeros at first."""
        size = math.prod(shape)
        if name not in self or self[name].numel() < size:
            self[name] = like.new_zeros(size)
        return self[name][:size].view(shape)


class _Rows(NamedTuple):
    """Sample gradients written out: ``row`` (B, p)."""

    row: Tensor

    def square_norm(self) -> Tensor:
        return torch.linalg.vector_norm(self.row, dim=1) ** 2

    def weighted_sum(self, factor: Tensor) -> Tensor:
        return factor @ self.row


class _KernelRows(NamedTuple):
    """Sample gradients of a convolution written out: ``row`` (R, B, p), rows of the kernel one by one or all in one."""

    layer: nn.Conv2d
    row: Tensor

    def square_norm(self) -> Tensor:
        return (torch.linalg.vector_norm(self.row, dim=2) ** 2).sum(0)

    def weighted_sum(self, factor: Tensor) -> Tensor:
        return _kernel(self.layer, torch.stack([factor @ row for row in self.row]))


class _Outer(NamedTuple):
    """Sample gradients as outer products ``output_grad`` (B, O) times ``input`` (B, K), never written out."""

    output_grad: Tensor
    input: Tensor

    def square_norm(self) -> Tensor:
        return _Rows(self.output_grad).square_norm() * _Rows(self.input).square_norm()

    def weighted_sum(self, factor: Tensor) -> Tensor:
        return (self.output_grad * factor[:, None]).T @ self.input


class _Gram(NamedTuple):
    r"""Sample gradients of a convolution of stride 1, never written out: ``output_grad`` g and ``input`` x.

    With :math:`\mathbf g_l` at place l of the output and :math:`\mathbf p_l` the patch that it saw, a sample's
    gradient is :math:`\sum_l \mathbf g_l \mathbf p_l^{\mathsf T}` and its squared norm
    :math:`\sum_{l, l'} \langle\mathbf g_l, \mathbf g_{l'}\rangle \langle\mathbf p_l, \mathbf p_{l'}\rangle`.
    The products of two patches are those of their pixels, summed over the places of the kernel.
    """

    layer: nn.Conv2d
    output_grad: Tensor
    input: Tensor
    space: _Space

    def square_norm(self) -> Tensor:
        x = _padded(self.layer, self.input, self.space)
        size, rows, columns = x.shape[:3]
        pixels = x.flatten(1, 2)
        products = (pixels @ pixels.transpose(1, 2)).view(size, rows, columns, rows, columns)
        g = self.output_grad.permute(0, 2, 3, 1)
        down, right = g.shape[1:3]
        high, wide = self.layer.kernel_size
        products = sum(products[:, i : i + down, :, i : i + down] for i in range(high))
        products = sum(products[:, :, j : j + right, :, j : j + right] for j in range(wide))
        g = g.flatten(1, 2)
        return ((g @ g.transpose(1, 2)).view(products.shape) * products).flatten(1).sum(1)

    def weighted_sum(self, factor: Tensor) -> Tensor:
        """One product for each row of the kernel, over all samples at once: rows of pixels come first in memory."""
        view = _patches(self.layer, _padded(self.layer, self.input, self.space), 1).transpose(0, 1)
        seen = self.space.take("patches", view, view.shape).copy_(view).flatten(3)  # (rows, B, W, K)
        g = self.output_grad.permute(2, 0, 3, 1)  # (H, B, W, O)
        weighted = torch.mul(g, factor[:, None, None], out=self.space.take("weighted", g, g.shape)).flatten(0, 2)
        rows = range(self.layer.kernel_size[0])
        return _kernel(self.layer, torch.stack([weighted.T @ seen[i : i + len(g)].flatten(0, 2) for i in rows]))


def _linear(layer: nn.Linear, x: Tensor, g: Tensor, space: _Space) -> list:
    if x.ndim != 2:
        raise ValueError(f"Linear layers must act on one vector a sample, got an input of shape {tuple(x.shape)}")
    return [_Outer(g, x)] + ([_Rows(g)] if layer.bias is not None else [])


def _conv2d(layer: nn.Conv2d, x: Tensor, g: Tensor, space: _Space) -> list:
    weight = _Gram(layer, g, x, space) if _gram_is_cheap(layer, x, g) else _written_out(layer, x, g, space)
    return [weight] + ([_Rows(g.flatten(2).sum(2))] if layer.bias is not None else [])


def _gram_is_cheap(layer: nn.Conv2d, x: Tensor, g: Tensor) -> bool:
    """Whether all products of pixels cost less than half of the gradient itself, in multiplications."""
    if layer.stride != (1, 1):
        return False
    places, pixels = g[0, 0].numel(), (x.shape[2] + 2 * layer.padding[0]) * (x.shape[3] + 2 * layer.padding[1])
    return 2 * (pixels**2 * x.shape[1] + places**2 * g.shape[1]) < places * layer.weight.numel()


def _written_out(layer: nn.Conv2d, x: Tensor, g: Tensor, space: _Space) -> _KernelRows:
    (high, wide), (size, outputs, height, _) = layer.kernel_size, g.shape
    tall = 1 if _kernel_goes_row_by_row(layer) else high
    g = g.permute(0, 2, 3, 1).flatten(1, 2)  # (B, L, O) with L places; no copy if channels are last in memory
    row = space.take((layer, "rows"), x, (high // tall, size, outputs, tall * wide * layer.in_channels))
    held = _HELD.get(x.device.type, 1 << 26)
    for part in _chunks(size, max(1, held // (g.shape[1] * row.shape[3]))):
        view = _patches(layer, _padded(layer, x[part], space), tall)
        seen = space.take("patches", view, view.shape).copy_(view).flatten(3)  # (b, rows, W, K)
        for i, out in enumerate(row[:, part]):
            torch.bmm(g[part].transpose(1, 2), seen[:, i : i + height].flatten(1, 2), out=out)
    return _KernelRows(layer, row.flatten(2))


def _kernel_goes_row_by_row(layer: nn.Conv2d) -> bool:
    """Whether patches are written out for one row of the kernel at a time: less copying, in more and smaller products.

    Rows of the kernel then look at the same patches, one row of places further down.
    """
    return layer.stride[0] == 1 and layer.kernel_size[1] * layer.in_channels >= 64


def _padded(layer: nn.Conv2d, x: Tensor, space: _Space) -> Tensor:
    """The input between its zeros, channels last: (B, rows, columns, channels)."""
    (above, beside), (size, channels, height, width) = layer.padding, x.shape
    padded = space.take((layer, "padded"), x, (size, height + 2 * above, width + 2 * beside, channels))
    padded[:, above : above + height, beside : beside + width] = x.permute(0, 2, 3, 1)
    return padded


def _patches(layer: nn.Conv2d, padded: Tensor, tall: int) -> Tensor:
    """What so many rows of the kernel see of the input, (B, rows, W, tall, wide, channels), as a view."""
    (_, wide), (down, right) = layer.kernel_size, layer.stride
    return padded.unfold(1, tall, down).unfold(2, wide, right).permute(0, 1, 2, 4, 5, 3)


def _kernel(layer: nn.Conv2d, rows: Tensor) -> Tensor:
    """A gradient in the weight's shape, from rows of the kernel (R, ...), each of outputs first and channels last."""
    outputs, channels, _, wide = layer.weight.shape
    return rows.view(len(rows), outputs, -1, wide, channels).permute(1, 4, 0, 2, 3).flatten(2, 3)


# How many numbers of patches are written out at a time: on a CPU what stays in the cache.
_HELD = {"cpu": 1 << 19}


def _group_norm(layer: nn.GroupNorm, x: Tensor, g: Tensor, space: _Space) -> list:
    normed = F.group_norm(x, layer.num_groups, eps=layer.eps)
    return [_Rows((g * normed).flatten(2).sum(2)), _Rows(g.flatten(2).sum(2))]


_KNOWN = {nn.Linear: _linear, nn.Conv2d: _conv2d, nn.GroupNorm: _group_norm}


def _layers_of(model: nn.Module) -> dict[nn.Module, str]:
    """The layers with parameters, in the order of the parameters, with their names; or an error that names one."""
    layers = {}
    for name, layer in model.named_modules():
        own = list(layer.parameters(recurse=False))
        what = f"layer {name!r} ({type(layer).__name__})"
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            raise ValueError(f"{what} mixes the samples of a batch; expected GroupNorm in its place")
        if not own:
            continue
        if type(layer) not in _KNOWN:
            known = ", ".join(kind.__name__ for kind in _KNOWN)
            raise ValueError(f"{what} has parameters but no rule for sample gradients; expected one of {known}")
        if isinstance(layer, nn.Conv2d) and (
            layer.groups != 1
            or layer.dilation != (1, 1)
            or layer.padding_mode != "zeros"
            or isinstance(layer.padding, str)
        ):
            raise ValueError(f"{what} must have one group, no dilation and padding by zeros given in pixels")
        layers[layer] = what
    held = sum(parameter.numel() for layer in layers for parameter in layer.parameters(recurse=False))
    if held != sum(parameter.numel() for parameter in model.parameters()):
        raise ValueError("two layers of the model share a parameter; expected each in one layer")
    return layers


@contextlib.contextmanager
def _observed(layers: dict) -> Iterator[Callable]:
    """While it lasts, ``observe(work, keep)`` is ``work()``, where each layer calls ``keep(layer, input, output)``."""
    own = threading.local()  # a model may be called in several threads at once

    def tell(layer, inputs, output):
        own.keep(layer, inputs[0], output)

    def observe(work, keep):
        own.keep = keep
        try:
            return work()
        finally:
            del own.keep

    hooks = [layer.register_forward_hook(tell) for layer in layers]
    try:
        yield observe
    finally:
        for hook in hooks:
            hook.remove()


def _sample_gradients(model, layers, observe, images, labels, space):
    """The sample gradients of every parameter, in the model's order, and the losses of the samples.

    A layer's are formed as soon as the backward pass comes to its output: neither the output nor its gradient is kept.
    """
    inputs, rows, first = {}, {}, []

    def keep(layer, x, output):
        if layer in inputs:
            raise ValueError(f"{layers[layer]} was called twice in one pass; expected once")
        if not output.requires_grad:
            output.requires_grad_()
        inputs[layer] = x.detach(), x._version
        output.register_hook(functools.partial(form, layer))
        if not x.requires_grad:
            first.append(torch.autograd.graph.get_gradient_edge(output))

    def form(layer, output_grad):
        x, version = inputs.pop(layer)
        if x._version != version:
            raise ValueError(f"the input of {layers[layer]} was overwritten in place; expected it to stay as it was")
        rows[layer] = _KNOWN[type(layer)](layer, x, output_grad, space)

    with torch.enable_grad():
        loss = observe(lambda: F.cross_entropy(model(images.detach()), labels, reduction="none"), keep)
    torch.autograd.grad(loss.sum(), first, allow_unused=True)
    for layer, what in layers.items():
        if layer not in rows:
            raise ValueError(f"the loss does not depend on {what}; expected every layer to be used")
    return [row for layer in layers for row in rows[layer]], loss.detach()
