r"""What a model must not do, and random samples of it against plain autograd.

The rules see every sample of a batch at once, and an evaluation does with any layers.  That is right as long as no
sample has a part in another one's loss and nothing but the layers stands between the parameters and the loss.  What
breaks this by its kind is refused; what is left is found by samples that are computed alone.
"""

from __future__ import annotations

import contextlib
import math
import random
import weakref
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adascale.learning.devices import random_state, set_random_state
from adascale.learning.gradients import general
from adascale.learning.gradients.rules import SampleGradients, named
from adascale.learning.models import evaluation

Path = Callable[[nn.Module, Tensor, Tensor], tuple[list[SampleGradients], Tensor]]
"""From a model, images and labels to the sample gradients of every trainable parameter and the losses."""

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-2}
"""How far a sample's gradient may be from plain autograd, relative to its norm; 0.5 for coarser types.

A batch and a sample alone are summed in different orders.  That makes 1e-16 and 1e-7 a sum, and where a rectifier or a
maximum falls the other way a thousandth of the gradient; what is wrong is wrong by tenths.
"""
LEAST_LOSS = 1e-3
"""Of the sample that is compared, in nats: near 0 the gradient itself is a difference that rounding leaves."""
EVERY = 64
"""After the first batch a sample is compared in one batch of so many, on average: about 1 % of the time of a round."""

INDEPENDENT = "a model that takes every sample by itself, without a mean, a norm or a choice over the batch"

_checked: weakref.WeakKeyDictionary[nn.Module, set[tuple[Path, bool]]] = weakref.WeakKeyDictionary()


def refuse(model: nn.Module) -> None:
    """A ``ValueError`` for what has no sample gradients by its kind, or hides them.

    That is what mixes the samples of a batch, is compiled by TorchScript, has parameters that are complex, without a
    size as yet, or with hooks on their gradients; and everything under ``torch.autocast``.
    """
    for name, layer in model.named_modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm):
            raise ValueError(f"{named(name, layer)} mixes the samples of a batch; expected GroupNorm in its place")
        if isinstance(layer, torch.jit.ScriptModule):
            raise ValueError(
                f"{named(name, layer)} is compiled by TorchScript, which hides its layers; expected the "
                "module that it was made from"
            )
        for key, parameter in layer.named_parameters(recurse=False):
            if nn.parameter.is_lazy(parameter):
                raise ValueError(
                    f"{named(name, layer)} has no size yet; expected a layer with sizes, or one that was called once"
                )
            if parameter._backward_hooks:
                raise ValueError(
                    f"{named(name, layer)} has a hook on the gradient of its parameter {key!r}; expected "
                    "none: what is clipped is the gradient of the loss"
                )
            if parameter.is_complex():
                raise ValueError(f"{named(name, layer)} has a complex parameter {key!r}; expected real ones")
            device = parameter.device.type
            if torch.is_autocast_enabled(device):
                raise ValueError(f"sample gradients must be computed without torch.autocast, got it on for {device!r}")


def eagerly(model: nn.Module) -> contextlib.AbstractContextManager[object]:
    """No compilation while it lasts, if something of the model is compiled: layers are observed one by one."""
    compiled = any(hasattr(layer, "_orig_mod") or layer._compiled_call_impl is not None for layer in model.modules())
    return torch.compiler.set_stance("force_eager") if compiled else contextlib.nullcontext()


@contextlib.contextmanager
def left_as_it_was(model: nn.Module) -> Iterator[None]:
    """A ``ValueError`` if a parameter or a buffer of the model is written to, or replaced, while it lasts.

    Such a model is another function at every call, and a state of the training that holds its parameters alone would
    not bring it back.
    """
    before = {name: (tensor, version(tensor)) for name, tensor in tensors(model)}
    yield
    for name, tensor in tensors(model):
        kept, counted = before.get(name, (None, 0))
        if tensor is not kept or version(tensor) != counted:
            raise ValueError(
                f"the model changes its own {name!r} when it is called; expected parameters and buffers "
                "to stay as they are (spectral_norm leaves them alone after eval())"
            )


def version(tensor: Tensor) -> int:
    """PyTorch's count of what was written to a tensor; it keeps none for those made in inference mode."""
    return 0 if tensor.is_inference() else tensor._version


def tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The parameters and buffers of a model with their names."""
    yield from model.named_parameters()
    yield from model.named_buffers()


def controlled(path: Path, model: nn.Module, images: Tensor, labels: Tensor) -> Path:
    """The path for parts of a batch, of which a random sample is now and then compared with plain autograd.

    One sample and a batch of several are two cases; each is compared at once, and then in one batch of ``EVERY``.  The
    losses seed the choice, so that a training which is resumed meets the same error, and no result depends on it.
    """
    done = _checked.setdefault(model, set())
    case = (path, len(images) > 1)

    def compared(model: nn.Module, part: Tensor, part_labels: Tensor) -> tuple[list[SampleGradients], Tensor]:
        before = random_state(part.device)
        with left_as_it_was(model):
            gradients, loss = path(model, part, part_labels)
        choice, later = random.Random(float(loss.double().sum())), case in done
        if later and choice.random() * EVERY >= 1:
            return gradients, loss
        by_chance = not torch.equal(before, random_state(part.device))
        try:
            if by_chance or len(part) == 1 < len(images):
                pair = choice.sample(range(len(images)), min(2, len(images)))
                fit = compare_again(path, model, images[pair], labels[pair], choice, by_chance)
            else:
                fit = compare(path, model, part, part_labels, gradients, loss, choice)
        except ValueError as error:
            if not later:
                raise
            raise ValueError(
                f"{error}; the first batch showed nothing of it, so that the rounds so far have no guarantee of privacy"
            ) from error
        if fit:
            done.add(case)
        return gradients, loss

    return compared


def compare(
    path: Path,
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    gradients: list[SampleGradients],
    loss: Tensor,
    choice: random.Random,
) -> bool:
    """Whether a sample was fit to be compared; a ``ValueError`` that names the layer if it is another one alone."""
    tolerance = TOLERANCE.get(loss.dtype, 0.5)
    # what rounding leaves of a loss that is small beside the others is no measure either
    share = min(1.0, 100 * torch.finfo(loss.dtype).eps / tolerance)
    fit = torch.nonzero((loss > LEAST_LOSS) & (loss >= share * loss.max())).flatten().tolist()
    squares = [each.square_norm() for each in gradients]
    if not fit or not all(torch.isfinite(each).all() for each in (loss, *squares)):
        return False
    i = choice.choice(fit)
    parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
    try:
        expected, alone = general.alone(model, images[i : i + 1], labels[i : i + 1])
        together = loss[[i]]
        if path is general.sample_gradients:  # whose losses are those of samples alone
            alone, together = loss[fit], F.cross_entropy(model(images), labels, reduction="none")[fit]
    except (RuntimeError, ValueError) as error:
        where = "several samples" if path is general.sample_gradients else "a sample alone"
        raise ValueError(f"the model fails on {where} ({error}); expected {INDEPENDENT}") from error
    off = int((together - alone).abs().div(alone).nan_to_num(math.inf).argmax())
    if not abs(float(together[off] - alone[off])) <= tolerance * float(alone[off]):
        raise ValueError(
            f"a sample has the loss {float(together[off]):.4g} in a batch and {float(alone[off]):.4g} "
            f"alone; expected {INDEPENDENT}"
        )
    norm = float(torch.stack([each.double().norm() for each in expected]).norm())
    norm = max(norm, math.sqrt(max(0.0, sum(float(each[i]) for each in squares))))
    if not math.isfinite(norm) or norm < 1e3 * shortest(loss.dtype):
        return False
    apart = (off_by(each, square, plain, i) for each, square, plain in zip(gradients, squares, expected, strict=True))
    worst, where = max(zip(apart, parameters, strict=True))
    if worst > tolerance * norm:
        place, _, key = where.rpartition(".")
        raise ValueError(
            f"the gradient of a sample is not that of plain autograd: parameter {key!r} of "
            f"{named(place, model.get_submodule(place))} is off by {worst / norm:.2g} of the norm, and at most "
            f"{tolerance:g} is expected; its rule is wrong, something takes part that no rule knows, such as a hook "
            f"for all modules or samples that change places, or {loss.dtype} does not hold what is computed on the way"
        )
    return True


def off_by(found: SampleGradients, square: Tensor, expected: Tensor, i: int) -> float:
    """How far a parameter's gradient of sample i, and its norm, are from what is expected; ``inf`` for NaN."""
    only = torch.zeros_like(square)
    only[i] = 1
    of_norm = abs(float(square[i].clamp_min(0).sqrt()) - float(expected.double().norm()))
    of_sum = float((found.weighted_sum(only).double() - expected).norm())
    return math.inf if math.isnan(of_norm + of_sum) else max(of_norm, of_sum)


def shortest(dtype: torch.dtype) -> float:
    """The norm below which squares begin to vanish: 3e-16 in single precision, 1e-146 in double."""
    return math.sqrt(torch.finfo(dtype).tiny / torch.finfo(dtype).eps)


def compare_again(
    path: Path, model: nn.Module, images: Tensor, labels: Tensor, choice: random.Random, by_chance: bool
) -> bool:
    """The comparison on a pair; for a model with dropout in evaluation mode, but for what draws numbers there, too."""
    before = random_state(images.device)
    with evaluation(model) if by_chance else contextlib.nullcontext():
        gradients, loss = path(model, images, labels)
        if torch.equal(before, random_state(images.device)):
            return compare(path, model, images, labels, gradients, loss, choice) or by_chance
    set_random_state(images.device, before)
    return True
