"""Sample gradients by the rules of the layers, in one pass, or of any model by ``vmap(grad)``, which is slower."""

import contextlib
import textwrap
import warnings
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from adascale.learning.devices import random_state, set_random_state
from adascale.learning.gradients.rules import Rows, SampleGradients, named, rule_of
from adascale.learning.models import trainable

LARGEST = 1 << 26
"""Largest number of entries of sample gradients written out at a time: 256 MiB in single precision."""

_noted: weakref.WeakKeyDictionary[nn.Module, set[str]] = weakref.WeakKeyDictionary()


class NoRule(Exception):
    """Failure of the rules to cover the model; the message names the layers and the reasons."""


class Call(NamedTuple):
    """One call of a layer in the forward pass, with counts of writes to its input and of uses of parameters in it."""

    input: Tensor
    version: int
    output: GradientEdge
    used: Counter[Tensor]


def complain(reasons: Mapping[str, list[str]]) -> None:
    """Raise :class:`NoRule` if there is a reason, with the first six layers for each."""
    said = []
    for reason, names in reasons.items():
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        said.append(f"{', '.join(names[:6])}{more} {'has' if len(names) == 1 else 'have'} {reason}")
    if said:
        raise NoRule("; ".join(said))


def by_rules(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[list[SampleGradients], Tensor]:
    """Return the sample gradients of every trainable parameter, in the model's order, and the losses, by rules."""
    reasons: dict[str, list[str]] = defaultdict(list)
    layers = {layer: named(name, layer) for name, layer in model.named_modules() if own(layer)}
    for layer, what in layers.items():
        if rule_of(type(layer)) is None:
            reasons["no rule for sample gradients"].append(what)
        elif "forward" in vars(layer):
            reasons["another forward function than the type"].append(what)
    complain(reasons)
    with torch.enable_grad(), observed(layers) as calls:
        loss = F.cross_entropy(fitting(model(images.detach()), len(images), labels), labels, reduction="none")
    used = uses(loss)
    for layer, what in layers.items():
        parameters = own(layer).values()
        if not all(used[parameter] for parameter in parameters):
            without = "not under torch.no_grad or torch.utils.checkpoint with use_reentrant=True"
            raise ValueError(f"the loss does not depend on {what}; expected every layer to be used, and {without}")
        if len(calls[layer]) != 1 or any(calls[layer][0].used[each] < used[each] for each in parameters):
            reasons["more than one call, or a parameter that is used elsewhere too"].append(what)
        elif calls[layer][0].input._version != calls[layer][0].version:
            raise ValueError(f"the input of {what} was overwritten in place; expected it to stay as it was")
    complain(reasons)
    kept = {layer: calls[layer][0] for layer in layers}
    ends = [call.output for call in kept.values()]
    output_grads = torch.autograd.grad(loss, ends, torch.ones_like(loss), allow_unused=True)
    found: dict[Tensor, SampleGradients] = {}
    for (layer, call), output_grad in zip(kept.items(), output_grads, strict=True):
        if output_grad is None or not len(call.input) == len(output_grad) == len(images):
            reasons["not one input a sample"].append(layers[layer])
        else:
            found |= by_rule(layer, layers[layer], call.input, output_grad, reasons)
    complain(reasons)
    return [found[parameter] for parameter in trainable(model)], loss.detach()


def own(layer: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable parameters that belong to a layer itself."""
    return {name: each for name, each in layer.named_parameters(recurse=False) if each.requires_grad}


def fitting(logits: object, size: int, labels: Tensor) -> Tensor:
    """Return a model's output; raise ``ValueError`` unless its shape is (size, classes) and labels are classes."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != size:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"the model must give logits of shape ({size}, classes), got {got}")
    last = logits.shape[1] - 1
    if (bad := (labels < 0) | (labels > last)).any():
        raise ValueError(f"labels must be in 0 ... {last}, the model's classes, got {int(labels[bad][0])}")
    return logits


@contextlib.contextmanager
def observed(layers: dict[nn.Module, str]) -> Iterator[dict[nn.Module, list[Call]]]:
    """Record the calls of the layers inside the context."""
    calls: dict[nn.Module, list[Call]] = defaultdict(list)

    def keep(layer: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        if len(inputs) != 1 or not isinstance(inputs[0], Tensor) or not isinstance(output, Tensor):
            raise NoRule(f"{layers[layer]} was not called with one tensor, to give another")
        if output.requires_grad:
            x, used = inputs[0], uses(output, inputs[0].grad_fn)
            # the present edge of the graph, as an activation may overwrite the output later
            calls[layer].append(Call(x.detach(), x._version, get_gradient_edge(output), used))

    hooks = [layer.register_forward_hook(keep, prepend=True) for layer in layers]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def uses(result: Tensor, start: Node | None = None) -> Counter[Tensor]:
    """Count how often each parameter enters the computation of a result, or the part of it beginning at ``start``."""
    found: Counter[Tensor] = Counter()
    seen, ahead = {start, None}, [result.grad_fn]
    while ahead:
        if (node := ahead.pop()) is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "CheckpointFunctionBackward":
            hidden = "use_reentrant=True, which hides the layers within; expected use_reentrant=False"
            raise ValueError(f"the model uses torch.utils.checkpoint with {hidden}")
        for following, _ in node.next_functions:
            parameter = getattr(following, "variable", None)
            if parameter is None:
                ahead.append(following)
            else:
                found[parameter] += 1
    return found


def by_rule(
    layer: nn.Module, what: str, input: Tensor, output_grad: Tensor, reasons: dict[str, list[str]]
) -> dict[Tensor, SampleGradients]:
    """Apply the layer's rule to its trainable parameters; if it does not apply, add to ``reasons`` and return {}."""
    rule = rule_of(type(layer))
    assert rule is not None  # by_rules() has checked this
    for name, parameter in layer.named_parameters(recurse=False):
        if (computed := output_grad.dtype) != parameter.dtype:
            types = f"computes in {computed}, and its parameter {name!r} is of {parameter.dtype}"
            raise ValueError(f"{what} {types}; expected one type, without torch.autocast")
    given = rule(layer, input, output_grad)
    if given is None:
        reasons[f"a form or an input, of shape {tuple(input.shape)}, that the rule does not cover"].append(what)
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"the rule of {what} must give a mapping from parameters, got {type(given).__name__}")
    found: dict[Tensor, SampleGradients] = {}
    for name, parameter in own(layer).items():
        if parameter not in given:
            reasons[f"a rule that leaves out its parameter {name!r}"].append(what)
            return {}
        gradients, source = given[parameter], f"the rule of {what}, parameter {name!r}"
        if isinstance(gradients, Tensor):
            gradients = Rows(expect(f"{source}: a tensor", gradients, (len(input), *parameter.shape)))
        if not isinstance(gradients, SampleGradients):
            raise ValueError(f"{source}: expected a tensor or SampleGradients, got {type(gradients).__name__}")
        found[parameter] = gradients
    return found


def expect(what: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the tensor; raise ``ValueError`` unless it has the shape."""
    if tensor.shape != shape:
        raise ValueError(f"{what} must have shape {tuple(shape)}, got {tuple(tensor.shape)}")
    return tensor


class GeneralPath(UserWarning):
    """Warning that rules do not cover some layers, so that sample gradients take longer."""


def note(model: nn.Module, reason: str, instead: str) -> None:
    """Warn about the method used instead of rules, once per model."""
    noted = _noted.setdefault(model, set())
    if instead not in noted:
        remedy = "adascale.learning.gradients.register adds a rule for a type of layers"
        warnings.warn(f"{reason}: {instead}; {remedy}", GeneralPath, stacklevel=3)
        noted.add(instead)


def by_vmap(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[list[SampleGradients], Tensor]:
    """Return the sample gradients of every trainable parameter and the losses by ``vmap(grad)``, or else one by one."""
    places = {  # by every name, but each module once, as functional_call does not restore what it changes twice
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
        with attributes_kept(model), sdpa_kernel(SDPBackend.MATH):  # vmap supports no other attention
            rows, losses = gradients([each.detach() for each in parameters], images.detach(), labels)
    except RuntimeError as error:
        set_random_state(images.device, before)
        rows, losses = one_by_one(model, images, labels)
        why = textwrap.shorten(str(error), 200)
        note(model, f"vmap(grad) fails ({why})", "plain autograd takes one sample after the other, the slowest way")
    return [Rows(each) for each in rows], losses


def one_by_one(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[list[Tensor], Tensor]:
    """Compute the sample gradients and losses by plain autograd."""
    try:
        rows, losses = zip(*(alone(model, images[[i]], labels[[i]]) for i in range(len(images))), strict=True)
    except RuntimeError as error:
        raise ValueError(f"the model fails on a sample alone: {error}") from error
    return [torch.stack(each) for each in zip(*rows, strict=True)], torch.cat(losses)


def alone(model: nn.Module, image: Tensor, label: Tensor) -> tuple[list[Tensor], Tensor]:
    """Compute the gradients of one sample, for every trainable parameter, and its loss, shape (1,)."""
    parameters = trainable(model)
    with torch.enable_grad():
        loss = F.cross_entropy(fitting(model(image.detach()), 1, label), label, reduction="none")
    found = zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True)
    return [torch.zeros_like(each) if grad is None else grad.to_dense() for each, grad in found], loss.detach()


@contextlib.contextmanager
def attributes_kept(model: nn.Module) -> Iterator[None]:
    """Restore the tensors that hooks set as attributes of layers, such as a pruned weight, after ``vmap``."""
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
