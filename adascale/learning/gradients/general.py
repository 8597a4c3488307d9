"""Sample gradients of any model, by ``vmap(grad)`` or one by one: slower than by rules, and all of them written out."""

from __future__ import annotations

import contextlib
import textwrap
import warnings
import weakref
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from adascale.learning.devices import random_state, set_random_state
from adascale.learning.gradients.ruled import fitting
from adascale.learning.gradients.rules import Rows, SampleGradients
from adascale.learning.models import trainable

LARGEST = 1 << 26
"""How many numbers of sample gradients are written out at a time: 256 MiB in single precision."""

_noted: weakref.WeakKeyDictionary[nn.Module, set[str]] = weakref.WeakKeyDictionary()


class GeneralPath(UserWarning):
    """Layers are not covered by rules: the sample gradients of the whole model take longer."""


def note(model: nn.Module, reason: str, instead: str) -> None:
    """Warn of what is done instead of rules, once for each model."""
    noted = _noted.setdefault(model, set())
    if instead not in noted:
        remedy = "adascale.learning.gradients.register gives a type of layers a rule"
        warnings.warn(f"{reason}: {instead}; {remedy}", GeneralPath, stacklevel=3)
        noted.add(instead)


def sample_gradients(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[list[SampleGradients], Tensor]:
    """The sample gradients of every trainable parameter, in the model's order, and the losses of the samples.

    Dropout differs from sample to sample.  A parameter that the loss does not depend on has the gradient zero.  Where
    ``vmap`` fails, as with recurrent layers or a choice that depends on the data, plain autograd takes one sample after
    the other.
    """
    # by every name, but each module once: functional_call would not put back what it changes twice
    places = {
        f"{module_name}.{name}".lstrip("."): parameter
        for module_name, module in model.named_modules()
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False)
        if parameter.requires_grad
    }
    parameters = trainable(model)

    def loss(values: list[Tensor], image: Tensor, label: Tensor) -> Tensor:
        of: dict[Tensor, Tensor] = dict(zip(parameters, values, strict=True))
        named_values = {name: of[parameter] for name, parameter in places.items()}
        logits = functional_call(model, named_values, (image[None],), tie_weights=False)
        return F.cross_entropy(fitting(logits, 1, labels), label[None])

    gradients = vmap(grad_and_value(loss), in_dims=(None, 0, 0), randomness="different")
    before = random_state(images.device)
    try:
        with attributes_kept(model), sdpa_kernel(SDPBackend.MATH):  # vmap knows no other attention
            rows, losses = gradients([each.detach() for each in parameters], images.detach(), labels)
    except RuntimeError as error:
        set_random_state(images.device, before)
        rows, losses = one_by_one(model, images, labels)
        why = textwrap.shorten(str(error), 200)
        note(model, f"vmap(grad) fails ({why})", "plain autograd takes one sample after the other, which is slowest")
    return [Rows(each) for each in rows], losses


def one_by_one(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[list[Tensor], Tensor]:
    """The sample gradients and losses by plain autograd."""
    try:
        rows, losses = zip(*(alone(model, images[[i]], labels[[i]]) for i in range(len(images))), strict=True)
    except RuntimeError as error:
        raise ValueError(f"the model fails on a sample alone: {error}") from error
    return [torch.stack(each) for each in zip(*rows, strict=True)], torch.cat(losses)


def alone(model: nn.Module, image: Tensor, label: Tensor) -> tuple[list[Tensor], Tensor]:
    """The gradients of one sample, for every trainable parameter, and its loss, shape (1,)."""
    parameters = trainable(model)
    with torch.enable_grad():
        loss = F.cross_entropy(fitting(model(image.detach()), 1, label), label, reduction="none")
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    found = zip(parameters, gradients, strict=True)
    return [torch.zeros_like(each) if grad is None else grad.to_dense() for each, grad in found], loss.detach()


@contextlib.contextmanager
def attributes_kept(model: nn.Module) -> Iterator[None]:
    """Put back the tensors that hooks set as attributes of layers, such as a pruned weight: vmap's die with it."""
    before = [(vars(layer), dict(vars(layer))) for layer in model.modules()]
    try:
        yield
    finally:
        for now, then in before:
            for name in [name for name, value in now.items() if isinstance(value, Tensor)]:
                if name not in then:
                    del now[name]
                elif now[name] is not then[name]:
                    now[name] = then[name]
