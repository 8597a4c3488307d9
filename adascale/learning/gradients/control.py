"""The refusal of models without sample gradients, and the check of random samples against plain autograd."""

import contextlib
import itertools
import math
import random
import weakref
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adascale.learning.devices import random_state, set_random_state
from adascale.learning.gradients import paths
from adascale.learning.gradients.rules import SampleGradients, named
from adascale.learning.models import evaluation, trainable

Samples = tuple[Tensor, Tensor]
"""Images and labels."""
Found = tuple[list[SampleGradients], Tensor]
"""Sample gradients of every trainable parameter, and the losses."""
Path = Callable[[nn.Module, Tensor, Tensor], Found]

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-2}
"""Largest difference of a sample's gradient from plain autograd, relative to its norm; 0.5 for coarser types."""
LEAST_LOSS = 1e-3
"""Smallest loss of a compared sample, in nats: near 0 rounding dominates the gradient."""
EVERY = 64
"""Average number of batches between two comparisons, after the first batch."""

INDEPENDENT = "a model that takes every sample by itself, without a mean, a norm or a choice over the batch"

_checked: weakref.WeakKeyDictionary[nn.Module, set[tuple[Path, bool]]] = weakref.WeakKeyDictionary()


def refuse(model: nn.Module) -> None:
    """Raise ``ValueError`` for layers that have no sample gradients or hide them, and under ``torch.autocast``."""
    for name, layer in model.named_modules():
        what = named(name, layer)
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm):
            raise ValueError(f"{what} mixes the samples of a batch; expected GroupNorm in its place")
        if isinstance(layer, torch.jit.ScriptModule):
            raise ValueError(f"{what} is compiled by TorchScript, which hides its layers; expected the original module")
        for key, parameter in layer.named_parameters(recurse=False):
            if nn.parameter.is_lazy(parameter):
                raise ValueError(f"{what} has no size yet; expected a layer with sizes, or one that was called once")
            if parameter._backward_hooks:
                raise ValueError(f"{what} has a hook on the gradient of its parameter {key!r}; expected none")
            if parameter.is_complex():
                raise ValueError(f"{what} has a complex parameter {key!r}; expected real ones")
            device = parameter.device.type
            if torch.is_autocast_enabled(device):
                raise ValueError(f"sample gradients must be computed without torch.autocast, got it on for {device!r}")


def eagerly(model: nn.Module) -> contextlib.AbstractContextManager[object]:
    """Disable compilation inside the context if a part of the model is compiled, to observe its layers."""
    compiled = any(hasattr(layer, "_orig_mod") or layer._compiled_call_impl is not None for layer in model.modules())
    return torch.compiler.set_stance("force_eager") if compiled else contextlib.nullcontext()


@contextlib.contextmanager
def left_as_it_was(model: nn.Module) -> Iterator[None]:
    """Raise ``ValueError`` if a parameter or a buffer of the model is written to, or replaced, inside the context."""

    def versions() -> dict[str, tuple[Tensor, int]]:  # PyTorch counts no versions of tensors made in inference mode
        tensors = itertools.chain(model.named_parameters(), model.named_buffers())
        return {name: (each, 0 if each.is_inference() else each._version) for name, each in tensors}

    before = versions()
    yield
    for name, (tensor, count) in versions().items():
        kept, counted = before.get(name, (None, 0))
        if tensor is not kept or count != counted:
            expected = "parameters and buffers to stay as they are (spectral_norm leaves them alone after eval())"
            raise ValueError(f"the model changes its own {name!r} when it is called; expected {expected}")


def controlled(path: Path, model: nn.Module, images: Tensor, labels: Tensor) -> Path:
    """Return the path with a check: now and then a random sample is compared with plain autograd."""
    done = _checked.setdefault(model, set())
    case = (path, len(images) > 1)

    def compared(model: nn.Module, part: Tensor, part_labels: Tensor) -> Found:
        before = random_state(part.device)
        with left_as_it_was(model):
            found = path(model, part, part_labels)
        choice, later = random.Random(float(found[1].double().sum())), case in done
        if later and choice.random() * EVERY >= 1:
            return found
        by_chance = not torch.equal(before, random_state(part.device))
        try:
            if by_chance or len(part) == 1 < len(images):
                pair = choice.sample(range(len(images)), min(2, len(images)))
                fit = compare_again(path, model, (images[pair], labels[pair]), choice, by_chance)
            else:
                fit = compare(path, model, (part, part_labels), found, choice)
        except ValueError as error:
            if not later:
                raise
            so = "the first batch did not show this, so the rounds so far have no guarantee of privacy"
            raise ValueError(f"{error}; {so}") from error
        if fit:
            done.add(case)
        return found

    return compared


def compare(path: Path, model: nn.Module, batch: Samples, found: Found, choice: random.Random) -> bool:
    """Return whether a sample could be compared; raise ``ValueError`` with the layer if it differs when alone."""
    (images, labels), (gradients, loss) = batch, found
    tolerance = TOLERANCE.get(loss.dtype, 0.5)
    # a loss that is small compared with the others is also too inaccurate to compare
    share = min(1.0, 100 * torch.finfo(loss.dtype).eps / tolerance)
    fit = torch.nonzero((loss > LEAST_LOSS) & (loss >= share * loss.max())).flatten().tolist()
    where = [name.rpartition(".") for name, each in model.named_parameters() if each.requires_grad]
    whose = [f"parameter {key!r} of {named(place, model.get_submodule(place))}" for place, _, key in where]
    squares = []
    given = zip(whose, gradients, trainable(model), strict=True)
    for what, each, parameter in given:  # a user's rule may give any shape
        squares.append(square := paths.expect(f"square_norm() of {what}", each.square_norm(), loss.shape))
        paths.expect(f"weighted_sum() of {what}", each.weighted_sum(torch.zeros_like(square)), parameter.shape)
    if not fit or not all(torch.isfinite(each).all() for each in (loss, *squares)):
        return False
    i, general_path = choice.choice(fit), path is paths.by_vmap
    try:
        expected, alone = paths.alone(model, images[i : i + 1], labels[i : i + 1])
        together = loss[i : i + 1]
        if general_path:  # vmap computes the loss of each sample alone
            alone, together = loss[fit], F.cross_entropy(model(images), labels, reduction="none")[fit]
    except (RuntimeError, ValueError) as error:
        several = "several samples" if general_path else "a sample alone"
        raise ValueError(f"the model fails on {several} ({error}); expected {INDEPENDENT}") from error
    off = int((together - alone).abs().div(alone).nan_to_num(math.inf).argmax())
    in_batch, by_itself = float(together[off]), float(alone[off])
    if not abs(in_batch - by_itself) <= tolerance * by_itself:
        got = f"the loss {in_batch:.4g} in a batch and {by_itself:.4g} alone"
        raise ValueError(f"a sample has {got}; expected {INDEPENDENT}")
    norm = float(torch.stack([each.double().norm() for each in expected]).norm())
    norm = max(norm, math.sqrt(max(0.0, sum(float(each[i]) for each in squares))))
    if not math.isfinite(norm) or norm < 1e3 * shortest(loss.dtype):
        return False
    apart = (off_by(each, square, plain, i) for each, square, plain in zip(gradients, squares, expected, strict=True))
    worst, what = max(zip(apart, whose, strict=True))
    if worst > tolerance * norm:
        far = f"{what} is off by {worst / norm:.2g} of the norm, and at most {tolerance:g} is expected"
        strange = "the model does something no rule covers, such as a hook for all modules or reordered samples"
        why = f"its rule is wrong, {strange}, or {loss.dtype} does not hold an intermediate result"
        raise ValueError(f"the gradient of a sample is not that of plain autograd: {far}; {why}")
    return True


def off_by(found: SampleGradients, square: Tensor, expected: Tensor, i: int) -> float:
    """Return the larger error of a parameter's gradient for sample i and of its norm; ``inf`` for NaN."""
    only = torch.zeros_like(square)
    only[i] = 1
    of_norm = abs(float(square[i].clamp_min(0).sqrt()) - float(expected.double().norm()))
    of_sum = float((found.weighted_sum(only).double() - expected).norm())
    return math.inf if math.isnan(of_norm + of_sum) else max(of_norm, of_sum)


def shortest(dtype: torch.dtype) -> float:
    """Return the norm below which squares underflow: 3e-16 in single precision, 1e-146 in double."""
    return math.sqrt(torch.finfo(dtype).tiny / torch.finfo(dtype).eps)


def compare_again(path: Path, model: nn.Module, pair: Samples, choice: random.Random, by_chance: bool) -> bool:
    """Compare on a pair; put a model with dropout in evaluation mode, unless it draws numbers there too."""
    device = pair[0].device
    before = random_state(device)
    with evaluation(model) if by_chance else contextlib.nullcontext():
        found = path(model, *pair)
        if torch.equal(before, random_state(device)):
            return compare(path, model, pair, found, choice) or by_chance
    set_random_state(device, before)
    return True
