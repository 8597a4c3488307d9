"""Sample gradients of any model by ``vmap(grad)``: right for every layer, but slower, and all of them written out."""

from __future__ import annotations

import contextlib
import textwrap
import warnings
import weakref
from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from adascale.learning.gradients.ruled import fitting
from adascale.learning.gradients.rules import Rows, SampleGradients, named

LARGEST = 1 << 26
"""How many numbers of sample gradients are written out at a time: 256 MiB in single precision."""

CAUSES = {
    "saved tensor hooks": "torch.utils.checkpoint; the argument chunk bounds the memory without it",
    "setup_context": "an autograd.Function without setup_context, such as a backward hook or torch.utils.checkpoint "
    "with use_reentrant=True",
}
"""What stands behind errors of ``vmap(grad)``, by words of theirs."""

_noted: weakref.WeakSet[nn.Module] = weakref.WeakSet()


class GeneralPath(UserWarning):
    """Layers are not covered by rules: ``vmap(grad)`` gives the sample gradients of the whole model."""


def note(model: nn.Module, reason: str) -> None:
    """Warn of the general path, once for each model."""
    if model not in _noted:
        warnings.warn(
            f"{reason}: vmap(grad) takes over for the whole model, which is slower; "
            "adascale.learning.gradients.register gives a type of layers a rule",
            GeneralPath,
            stacklevel=3,
        )
        _noted.add(model)


def sample_gradients(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[list[SampleGradients], Tensor]:
    """The sample gradients of every trainable parameter, in the model's order, and the losses of the samples.

    What a dropout layer drops differs from sample to sample.  A parameter that the loss does not depend on has the
    gradient zero.

    Raises
    ------
    ValueError
        If the logits or labels do not fit, or a layer does what ``vmap`` cannot map over samples, such as a choice that
        depends on the data.
    """
    # by every name, but each module once: functional_call would not put back what it changes twice
    places = {
        f"{module_name}.{name}".lstrip("."): parameter
        for module_name, module in model.named_modules()
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False)
        if parameter.requires_grad
    }
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def loss(values: list[Tensor], image: Tensor, label: Tensor) -> Tensor:
        of = dict(zip(trainable, values, strict=True))
        named_values = {name: of[parameter] for name, parameter in places.items()}
        logits = functional_call(model, named_values, (image[None],), tie_weights=False)
        return F.cross_entropy(fitting(logits, 1, labels), label[None])

    gradients = vmap(grad_and_value(loss), in_dims=(None, 0, 0), randomness="different")
    with locating_errors(model), attributes_kept(model), sdpa_kernel(SDPBackend.MATH):  # vmap knows no other attention
        rows, losses = gradients([each.detach() for each in trainable], images.detach(), labels)
    return [Rows(each) for each in rows], losses


@contextlib.contextmanager
def locating_errors(model: nn.Module) -> Iterator[None]:
    """Turn an error within the model into one that names the layer where it arose."""
    inside: list[str] = []

    def leave(*_: object) -> None:
        inside.pop()

    hooks = []
    for name, layer in model.named_modules():
        what = named(name, layer)
        hooks.append(layer.register_forward_pre_hook(lambda *_, what=what: inside.append(what)))
        hooks.append(layer.register_forward_hook(leave))
    try:
        yield
    except RuntimeError as error:
        where = inside[-1] if inside else named("", model)
        cause = next((cause for sign, cause in CAUSES.items() if sign in str(error)), "")
        raise ValueError(
            f"{where} does what vmap(grad) cannot ({cause or textwrap.shorten(str(error), 200)}); "
            "adascale.learning.gradients.register gives a type of layers a rule"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()


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
