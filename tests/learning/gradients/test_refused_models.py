"""Models without gradients of samples: each is refused, and the message names what is wrong with it."""

import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from adascale.learning import clipped_sum

from .sample_by_sample import VECTOR, Layers, batch, centred, changed, checkpointed, filled, mlp, sequences, two


def two_layers(compute):
    return lambda: Layers(lambda m, x: compute(m.first, m.second, x), first=nn.Linear(4, 4), second=nn.Linear(4, 4))


def overwriting(first, second, x):
    x = torch.tanh(first(x))
    return second(x) + x.mul_(2)


def without_gradient(first, second, x):
    with torch.no_grad():
        x = second(x)
    return first(x)


def scripted():
    with warnings.catch_warnings(action="ignore"):  # of its deprecation
        return torch.jit.script(nn.Sequential(nn.Linear(4, 4)))


def in_two_types():
    return Layers(lambda m, x: m.last(m.first(x).double()), first=nn.Linear(4, 4), last=nn.Linear(4, 3).double())


def halved(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = m.first(x)
    return m.last(x.float())


def rebinding(m, x):
    """Replaces a buffer."""
    m.count = m.count + 1
    return m.layer(x) / m.count


def decaying(m, x):
    """Writes to a parameter."""
    with torch.no_grad():
        m.layer.weight *= 0.5
    return m.layer(x)


def counting(compute):
    return lambda: Layers(compute, layer=nn.Linear(4, 3), count=nn.Buffer(torch.zeros(())))


def mixing(compute):
    return lambda: filled(two(compute)).float()


def normed(m, x):
    return m.last(F.batch_norm(m.first(x), None, None, training=True))


def turned(m, x):
    """The samples of a batch in another order, for one layer."""
    return m.last(x + m.first(x.flip(0)).flip(0))


def batch_normed(**options):
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, **options))


def centred_before_a_norm():
    return nn.Sequential(Layers(lambda m, x: x - x.mean(0) if len(x) > 1 else x), sequences(nn.LayerNorm(8)))


NO_EFFECT, REENTRANT = "the loss does not depend on layer 'second'", "with use_reentrant=True, which hides the layers"
CHANGES = r"the model changes its own '{}' when it is called; expected .* to stay as they are"
REFUSED = {
    "BatchNorm": (batch_normed, r"'1' \(BatchNorm1d\) mixes"),
    "not called": (two_layers(lambda first, second, x: first(x)), NO_EFFECT),
    "called without gradients": (two_layers(without_gradient), NO_EFFECT),
    "in place": (two_layers(overwriting), "the input of layer 'second'"),
    "all frozen": (lambda: nn.Linear(4, 4).requires_grad_(False), "no trainable parameter"),
    "no parameters": (nn.Identity, "no trainable parameter"),
    "TorchScript": (scripted, "compiled by TorchScript"),
    "hook on a gradient": (
        changed(lambda layer: layer.weight.register_hook(lambda gradient: 0 * gradient)),
        "hook on the gradient of its parameter 'weight'",
    ),
    "complex": (lambda: nn.Linear(4, 3, dtype=torch.cfloat), "complex parameter 'weight'"),
    "lazy": (lambda: nn.LazyLinear(3), "has no size yet"),
    "two types": (in_two_types, r"must be of one type, got torch\.float32 and torch\.float64$"),
    "autocast within": (lambda: two(halved), r"'first' \(Linear\) computes in torch\.bfloat16, and its parameter"),
    "counting": (counting(rebinding), CHANGES.format("count")),
    "decaying": (counting(decaying), CHANGES.format("layer.weight")),
    "power iteration": (changed(parametrizations.spectral_norm), CHANGES.format(r"0\.\S*_u")),
    "reentrant": (lambda: checkpointed(True), REENTRANT),
    "reentrant and general": (
        lambda: checkpointed(True, nn.LayerNorm(4)),
        r"the model fails on a sample alone: .*use_reentrant=True",
    ),
    "centred": (mixing(centred), r"the loss \S+ in a batch and \S+ alone; expected a model that takes every sample by"),
    "normed": (mixing(normed), r"fails on a sample alone \(Expected more than 1 value .* a model that takes every"),
    "turned": (mixing(turned), r"parameter 'weight' of layer 'first' \(Linear\) is off by 0\.\d+ of the norm"),
}
INSTANCE = partial(nn.InstanceNorm1d, 3, affine=True, track_running_stats=True)
REFUSED_SEQUENCES = {
    "running mean": (lambda: sequences(INSTANCE()), r"changes its own 'layer\.running_mean'"),
    "centred before a norm": (centred_before_a_norm, r"in a batch and \S+ alone; .* by itself"),
    "one batch size": (
        lambda: sequences(nn.LayerNorm(8), lambda layer, x: layer(x.view(1, 3, 8))),
        "the model fails on several samples",
    ),
}


@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
@pytest.mark.parametrize("kind", REFUSED | REFUSED_SEQUENCES)
def test_what_has_no_sample_gradients_is_refused_by_name(kind):
    make, message = (REFUSED | REFUSED_SEQUENCES)[kind]
    model, (images, labels, _) = make(), batch((3, 8) if kind in REFUSED_SEQUENCES else VECTOR, 3, 6, torch.float32)
    for chunk in (160, 160, 2):  # every time, in chunks too
        with pytest.raises(ValueError, match=message):
            clipped_sum(model, images, labels, 1.0, chunk=chunk)
        assert all(not layer._forward_hooks or "hook" in kind for layer in model.modules())


def test_autocast_around_the_model_is_refused():
    images, labels, _ = batch(VECTOR, 3, 6, torch.float32)
    with torch.autocast("cpu"), pytest.raises(ValueError, match=r"without torch\.autocast, got it on for 'cpu'"):
        clipped_sum(mlp(), images, labels, 1.0)
