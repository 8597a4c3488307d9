r"""What a model must not do, and one of its samples against plain autograd.

The rules and ``vmap(grad)`` see every sample of a batch at once.  That is right as long as no sample has a part in
another one's loss and nothing but the layers stands between the parameters and the loss.  What breaks this by its
kind is refused; what is left is found by one sample that is computed alone.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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
            raise ValueError(f"{named(name, layer)} is compiled by TorchScript, which hides its layers; expected the "
                             "module that it was made from")  # fmt: skip
        for key, parameter in layer.named_parameters(recurse=False):
            if nn.parameter.is_lazy(parameter):
                raise ValueError(f"{named(name, layer)} has no size yet; expected a layer with sizes, or one that was "
                                 "called once")  # fmt: skip
            if parameter._backward_hooks:
                raise ValueError(f"{named(name, layer)} has a hook on the gradient of its parameter {key!r}; expected "
                                 "none: what is clipped is the gradient of the loss")  # fmt: skip
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
            raise ValueError(f"the model changes its own {name!r} when it is called; expected parameters and buffers "
                             "to stay as they are (spectral_norm leaves them alone after eval())")  # fmt: skip


def version(tensor: Tensor) -> int:
    """PyTorch's count of what was written to a tensor; it keeps none for those made in inference mode."""
    return 0 if tensor.is_inference() else tensor._version


def tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The parameters and buffers of a model with their names."""
    yield from model.named_parameters()
    yield from model.named_buffers()


def controlled(path: Path, model: nn.Module) -> Path:
    """The path, of which one sample of the first batch is compared with plain autograd.

    One sample and a batch of several are two cases; each is compared once for each model.
    """
    done = _checked.setdefault(model, set())

    def compared(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[list[SampleGradients], Tensor]:
        case = (path, len(images) > 1)
        if case in done:
            with left_as_it_was(model):
                return path(model, images, labels)
        before = random_state(images.device)
        with left_as_it_was(model):
            gradients, loss = path(model, images, labels)
        if torch.equal(before, random_state(images.device)):
            if compare(model, images, labels, gradients, loss):
                done.add(case)
        else:
            compare_without_chance(path, model, images[:2], labels[:2])
            done.add(case)
        return gradients, loss

    return compared


def compare(model: nn.Module, images: Tensor, labels: Tensor, gradients: list[SampleGradients], loss: Tensor) -> bool:
    """Whether a sample was fit to be compared; a ``ValueError`` that names the layer if it is another one alone."""
    i = int(loss.argmax())
    squares = [each.square_norm() for each in gradients]
    if not (all(torch.isfinite(each).all() for each in (loss, *squares)) and loss[i] > LEAST_LOSS):
        return False
    parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
    with torch.enable_grad():
        try:
            alone = F.cross_entropy(model(images[i : i + 1].detach()), labels[i : i + 1])
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"the model fails on a sample alone ({error}); expected {INDEPENDENT}") from error
    expected = [
        torch.zeros_like(parameter) if each is None else each.to_dense()
        for parameter, each in zip(
            parameters.values(),
            torch.autograd.grad(alone, list(parameters.values()), allow_unused=True),
            strict=True,
        )
    ]
    tolerance = TOLERANCE.get(loss.dtype, 0.5)
    if not abs(float(loss[i] - alone)) <= tolerance * float(alone):
        raise ValueError(f"a sample has the loss {float(loss[i]):.4g} in a batch and {float(alone):.4g} alone; "
                         f"expected {INDEPENDENT}")  # fmt: skip
    norm = float(torch.stack([each.double().norm() for each in expected]).norm())
    norm = max(norm, math.sqrt(max(0.0, sum(float(each[i]) for each in squares))))
    if not math.isfinite(norm) or norm < 1e3 * shortest(loss.dtype):
        return False
    worst, where = max(
        zip((apart(*each, i) for each in zip(gradients, expected, strict=True)), parameters, strict=True)
    )
    if worst > tolerance * norm:
        place, _, key = where.rpartition(".")
        raise ValueError(
            f"the gradient of a sample is not that of plain autograd: parameter {key!r} of "
            f"{named(place, model.get_submodule(place))} is off by {worst / norm:.2g} of the norm, and at most "
            f"{tolerance:g} is expected; its rule is wrong, something takes part that no rule knows, such as a hook "
            f"for all modules or samples that change places, or {loss.dtype} does not hold what is computed on the way"
        )
    return True


def apart(found: SampleGradients, expected: Tensor, i: int) -> float:
    """How far a parameter's gradient of sample i, and its norm, are from what is expected; ``inf`` for NaN."""
    square = found.square_norm()
    only = torch.zeros_like(square)
    only[i] = 1
    of_norm = abs(float(square[i].clamp_min(0).sqrt()) - float(expected.double().norm()))
    of_sum = float((found.weighted_sum(only).double() - expected).norm())
    return math.inf if math.isnan(of_norm + of_sum) else max(of_norm, of_sum)


def shortest(dtype: torch.dtype) -> float:
    """The norm below which squares begin to vanish: 3e-16 in single precision, 1e-146 in double."""
    return math.sqrt(torch.finfo(dtype).tiny / torch.finfo(dtype).eps)


def compare_without_chance(path: Path, model: nn.Module, images: Tensor, labels: Tensor) -> None:
    """The comparison for a model with dropout, in evaluation mode; what draws random numbers there is not compared."""
    before = random_state(images.device)
    with evaluation(model):
        gradients, loss = path(model, images, labels)
        if torch.equal(before, random_state(images.device)):
            compare(model, images, labels, gradients, loss)
            return
    set_random_state(images.device, before)


def random_state(device: torch.device) -> Tensor:
    """The state of the generator that layers on a device draw from."""
    state: Tensor = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
    return state


def set_random_state(device: torch.device, state: Tensor) -> None:
    """The inverse of :func:`random_state`."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
