"""The sum of clipped sample gradients of a batch, from one forward and one backward pass."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from adascale import checks as check
from adascale.learning import models
from adascale.learning.gradients import control, paths


class NotFinite(ValueError):
    """Failure because the gradient or the loss of a sample is not finite."""


class ClippedSum(NamedTuple):
    """The weighted sum of clipped sample gradients, with their norms and losses."""

    gradient: Tensor
    r""":math:`\sum_i v_i \mathbf g_i \min(1, C / \lVert\mathbf g_i\rVert)`, shape (d,), in the model's order."""
    norm: Tensor
    r""":math:`\lVert\mathbf g_i\rVert` before clipping, shape (B,); below 3e-16 in single precision it may be 0."""
    loss: Tensor
    """Cross entropy of every sample in nats, shape (B,)."""


def clipped_sum(
    model: nn.Module, images: Tensor, labels: Tensor, clip_norm: float, weights: Tensor | None = None, chunk: int = 160
) -> ClippedSum:
    r"""Sum the clipped sample gradients of the cross entropy.

    .. math:: \sum_{i=1}^{B} v_i\, \mathbf g_i \min\Big(1, \frac{C}{\lVert \mathbf g_i \rVert}\Big), \qquad
        \mathbf g_i = \nabla_{\boldsymbol\theta}\, l\big(\boldsymbol\theta, (\mathbf u_i, o_i)\big)

    With :math:`v_i = 1/(M B_m)` (:eq:`eq:averaging`) it is :math:`\mathbf s_t` of :eq:`eq:decomposition`.  Random
    samples are checked against plain autograd.  A layer without a rule (:func:`~adascale.learning.gradients.register`)
    makes the computation slower, with a :class:`~adascale.learning.gradients.GeneralPath` warning.

    Parameters
    ----------
    model : torch.nn.Module
        It maps (B, ...) images to (B, classes) logits, each sample by itself, and changes no parameter and no buffer.
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
    if (norm_limit := check.as_floats("clip_norm", clip_norm)).ndim or not norm_limit > 0:
        raise ValueError(f"clip_norm must be > 0, got {clip_norm}")
    check.whole("chunk", chunk)
    control.refuse(model)
    size, trainable = len(images), models.trainable(model)
    if not trainable:
        raise ValueError("the model has no trainable parameter; expected one with requires_grad=True")
    if len(types := dict.fromkeys(str(each.dtype) for each in trainable)) > 1:
        raise ValueError(f"trainable parameters must be of one type, got {' and '.join(types)}")
    if clip_norm < (least := control.shortest(trainable[0].dtype)):
        raise ValueError(f"clip_norm must be >= {least:.1g}, where squares do not vanish, got {clip_norm}")
    weights = trainable[0].new_ones(size) if weights is None else weights
    for name, each in (("images", images), ("labels", labels), ("weights", weights)):
        if not isinstance(each, Tensor):
            raise ValueError(f"{name} must be a torch.Tensor, got {type(each).__name__}")
        if name != "images" and each.shape != (size,):
            raise ValueError(f"{name} must have shape ({size},), got {tuple(each.shape)}")
    if labels.dtype != torch.int64:
        raise ValueError(f"labels must be of torch.int64, got {labels.dtype}")
    if size == 0:
        none = trainable[0].new_zeros(0)
        return ClippedSum(torch.zeros_like(models.flatten(model)), none, none)

    def add_up(path: control.Path, count: int) -> tuple[list[Tensor], Tensor, Tensor]:
        """Return the sum for every trainable parameter, the norms and the losses, in equal chunks of the batch."""
        path = control.controlled(path, model, images, labels)
        total: list[Tensor] = []
        norms, losses = [], []
        for i in range(count):
            part = slice(size * i // count, size * (i + 1) // count)
            gradients, loss = path(model, images[part], labels[part])
            square = sum((each.square_norm() for each in gradients), start=torch.zeros_like(loss))
            norms.append(norm := square.clamp_min(0).sqrt())  # the sum of products of a rule may round to below 0
            losses.append(loss)
            # avoids division by zero: clipping does not change a vanishing gradient
            factor = (clip_norm / norm.clamp_min(torch.finfo(norm.dtype).tiny)).clamp_max(1) * weights[part]
            more = [each.weighted_sum(factor) for each in gradients]
            total = [a + b for a, b in zip(total, more, strict=True)] if total else more
        return total, torch.cat(norms), torch.cat(losses)

    with torch.no_grad(), control.eagerly(model):
        try:
            total, norm, loss = add_up(paths.by_rules, -(-size // chunk))
        except paths.NoRule as reason:
            paths.note(model, str(reason), "vmap(grad) takes over for the whole model, which is slower")
            chunk = min(chunk, max(1, paths.LARGEST // sum(each.numel() for each in trainable)))
            total, norm, loss = add_up(paths.by_vmap, -(-size // chunk))
    bad = ~(torch.isfinite(norm) & torch.isfinite(loss))
    if bad.any():
        i = int(bad.int().argmax())
        got = f"a gradient of norm {float(norm[i])} and the loss {float(loss[i])}"
        raise NotFinite(f"sample {i} of {size} has {got}; expected finite ones")
    return ClippedSum(torch.cat([each.flatten() for each in total]), norm, loss)
