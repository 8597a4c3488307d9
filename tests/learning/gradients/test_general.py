"""Layers without a rule, by ``vmap(grad)``, against a plain loop over the samples."""

import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from adascale.learning import clipped_sum
from adascale.learning.gradients import GeneralPath, paths

from .sample_by_sample import Layers, batch, filled, loop, relative, rows

pytestmark = pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
IMAGE, SEQUENCE, VECTOR = (4, 6, 6), (3, 8), (4,)
FORMS = {"padding": "same"}, {"groups": 2}, {"dilation": 2}, {"padding": 1, "padding_mode": "circular"}


def Sequence(layer, call):
    """A layer on sequences, the mean over places, a linear layer."""
    return Layers(lambda m, x: m.last(call(m.layer, x).mean(1)), layer=layer, last=nn.Linear(8, 4))


def one_layer(compute):
    """A linear layer, used in another way than by one call."""
    return lambda: Layers(lambda m, x: compute(m.layer, x), layer=nn.Linear(4, 4))


Functional = one_layer(lambda layer, x: F.linear(torch.tanh(layer(x)), layer.weight))  # its weight beside the layer
ByKeyword = one_layer(lambda layer, x: layer(input=x))
Places = one_layer(lambda layer, x: layer(x.view(-1, 4)).view(len(x), -1, 4).sum(1))  # all places in one batch


class TwoNames(nn.Module):
    """One parameter by two names."""

    def __init__(self):
        super().__init__()
        self.one = self.other = nn.Parameter(torch.zeros(4, 4))

    def forward(self, x):
        return torch.tanh(x @ self.one) @ self.other


def tied():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    return model


def called_twice():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.Tanh(), layer)


def after(layer):
    return nn.Sequential(layer, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4))


def attention(layer, x):
    return layer(x, x, x, need_weights=False)[0]


def weight_norm():
    return nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))


def convolved(form):
    return after(nn.Conv2d(4, 4, 3, **form))


def normed():
    return nn.Sequential(nn.LayerNorm(8), nn.Flatten(), nn.Linear(24, 4))


def by_places():
    return nn.Sequential(nn.Linear(8, 2), nn.Flatten(), nn.Linear(6, 4))


def attending():
    return Sequence(nn.MultiheadAttention(8, 2, batch_first=True), attention)


def transformer():
    return Sequence(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), lambda layer, x: layer(x))


CASES = {
    **{str(form): (partial(convolved, form), IMAGE, r"'0' \(Conv2d\) has a form") for form in FORMS},
    "transposed": (lambda: after(nn.ConvTranspose2d(4, 4, 3)), IMAGE, r"'0' \(ConvTranspose2d\) has no rule"),
    "LayerNorm": (normed, SEQUENCE, r"'0' \(LayerNorm\) has no rule"),
    "Linear on sequences": (by_places, SEQUENCE, r"'0' \(Linear\) has a form or an input, of shape \(2, 3, 8\)"),
    "Linear on all places": (Places, (3, 4), r"'layer' \(Linear\) has not one input a sample"),
    "attention": (attending, SEQUENCE, r"'layer' \(MultiheadAttention\), layer 'layer.out_proj' \(\w+\) have no rule"),
    "Transformer": (
        transformer,
        SEQUENCE,
        r"'layer.self_attn' \(Mult\w+\), .* layer 'layer.norm2' \(LayerNorm\) have",
    ),
    "called twice": (called_twice, VECTOR, r"'0' \(Linear\) has more than one call"),
    "a shared parameter": (tied, VECTOR, r"layer '0' \(Linear\), layer '2' \(Linear\) have more than one"),
    "a weight beside its layer": (
        Functional,
        VECTOR,
        r"'layer' \(Linear\) has more than one call, or a parameter",
    ),
    "called by keyword": (ByKeyword, VECTOR, r"'layer' \(Linear\) was not called with one tensor"),
    "one parameter by two names": (TwoNames, VECTOR, r"the model \(TwoNames\) has no rule"),
    "parametrized": (weight_norm, VECTOR, r"the model \(ParametrizedLinear\), .* have no rule"),
}


def assert_equal_to_the_plain_loop(model, images, labels, weights, match):
    clip_norm = float(rows(model, images, labels).norm(dim=1).median())
    with pytest.warns(GeneralPath, match=match):
        found = clipped_sum(model, images, labels, clip_norm, weights, chunk=3).gradient
    assert relative(found, loop(model, images, labels, clip_norm, weights)) < 1e-12
    assert relative(found, loop(model, images, labels, 0.9 * clip_norm, weights)) > 1e-3  # the comparison can fail


@pytest.mark.parametrize("kind", ["called twice", "a shared parameter", "Transformer"])
def test_the_model_is_left_as_it_was(kind):
    make, shape, _ = CASES[kind]
    model = filled(make())
    before = dict(model.named_parameters(remove_duplicate=False))
    values = {name: each.clone() for name, each in before.items()}
    clipped_sum(model, *batch(shape, 4, 5)[:2], 1.0)
    after = dict(model.named_parameters(remove_duplicate=False))
    assert list(after) == list(before)
    assert all(after[name] is before[name] and torch.equal(after[name], values[name]) for name in before)
    assert all(each.grad is None for each in after.values())
    assert all(not layer._forward_hooks and not layer._forward_pre_hooks for layer in model.modules())


@pytest.mark.parametrize("kind", CASES)
def test_any_layer_equals_the_plain_loop_and_is_named_in_a_note(kind):
    make, shape, match = CASES[kind]
    assert_equal_to_the_plain_loop(filled(make()), *batch(shape, 4, 5), match)


def test_whole_numbers_go_into_an_embedding():
    model = filled(nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(12, 4)))
    _, labels, weights = batch((1,), 4, 5)
    words = torch.randint(7, (5, 4), generator=torch.Generator().manual_seed(0))
    assert_equal_to_the_plain_loop(model, words, labels, weights, r"layer '0' \(Embedding\) has no rule")
    assert clipped_sum(model, words, labels, 1.0).gradient.dtype == torch.double
    assert clipped_sum(model, words[:0], labels[:0], 1.0).gradient.dtype == torch.double


def test_the_note_comes_once_a_model_and_says_what_can_be_done():
    images, labels, _ = batch((8,), 4, 4)
    first, second = (filled(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4))) for _ in range(2))
    with pytest.warns(GeneralPath, match=r"adascale\.learning\.gradients\.register"):
        clipped_sum(first, images, labels, 1.0)
    with warnings.catch_warnings(action="error"):
        clipped_sum(first, images, labels, 1.0)
        with pytest.raises(GeneralPath):
            clipped_sum(second, images, labels, 1.0)
        with pytest.raises(GeneralPath):  # turned into an error it is raised every time
            clipped_sum(second, images, labels, 1.0)


def test_the_sample_gradients_that_are_written_out_at_a_time_are_bounded(monkeypatch):
    images, labels, weights = batch((8,), 4, 10)
    model = filled(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4)))  # 16 + 36 parameters
    sizes, original = [], paths.by_vmap
    monkeypatch.setattr(paths, "LARGEST", 4 * 52)
    monkeypatch.setattr(paths, "by_vmap", lambda m, x, y: sizes.append(len(x)) or original(m, x, y))
    found = clipped_sum(model, images, labels, 0.5, weights).gradient
    assert sizes == [3, 3, 4]
    assert relative(found, loop(model, images, labels, 0.5, weights)) < 1e-13
    monkeypatch.setattr(paths, "LARGEST", 1)
    sizes.clear()
    clipped_sum(model, images, labels, 0.5, weights)
    assert sizes == [1] * 10


def test_dropout_differs_from_sample_to_sample():
    model = filled(nn.Sequential(nn.LayerNorm(8), nn.Dropout(0.5), nn.Linear(8, 4)))
    images = torch.ones(6, 8).double().cumsum(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = clipped_sum(model, images, torch.zeros(6, dtype=torch.long), 1.0)
    assert len(set(found.loss.tolist())) > 1


def test_a_parameter_that_the_loss_does_not_depend_on_has_the_gradient_zero():
    model = filled(Sequence(nn.LayerNorm(8), lambda layer, x: x))
    images, labels, weights = batch(SEQUENCE, 4, 5)
    found = clipped_sum(model, images, labels, 0.5, weights).gradient
    assert not found[:16].any()
    assert relative(found, loop(model, images, labels, 0.5, weights)) < 1e-13


def Choosing():
    def choose(m, x):
        return m.last(torch.cat([each if each.sum() > 0 else m.norm(each) for each in x.split(1)]).mean(1))

    return Layers(choose, norm=nn.LayerNorm(8), last=nn.Linear(8, 4))


def Centred():
    return Layers(lambda m, x: x - x.mean(0) if len(x) > 1 else x)


def recurrent(kind):
    return Sequence(kind(8, 8, batch_first=True), lambda layer, x: layer(x)[0])


ONE_BY_ONE = {kind.__name__: partial(recurrent, kind) for kind in (nn.RNN, nn.GRU, nn.LSTM)} | {
    "a choice by a sample": Choosing,
    "checkpointed": lambda: Sequence(nn.LayerNorm(8), lambda layer, x: checkpoint(layer, x, use_reentrant=False)),
}


@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_what_vmap_cannot_do_is_computed_one_by_one(kind):
    assert_equal_to_the_plain_loop(
        filled(ONE_BY_ONE[kind]()), *batch(SEQUENCE, 4, 5), r"vmap\(grad\) fails .* one sample after the other"
    )


def test_dropout_one_by_one_draws_as_if_vmap_had_not_failed():
    model, images, labels = nn.Sequential(nn.Dropout(), Choosing()).double(), *batch(SEQUENCE, 4, 3)[:2]
    torch.manual_seed(0)
    expected = [F.cross_entropy(model(images[[i]]), labels[[i]]).item() for i in range(3)]
    torch.manual_seed(0)
    assert clipped_sum(model, images, labels, 1.0).loss.tolist() == pytest.approx(expected, rel=1e-12)


def plain(layer, x):
    return layer(x)


INSTANCE = partial(nn.InstanceNorm1d, 3, affine=True, track_running_stats=True)
REFUSED = [
    (lambda: Sequence(INSTANCE(), plain), r"changes its own 'layer\.running_mean'"),
    (lambda: nn.Sequential(Centred(), Sequence(nn.LayerNorm(8), plain)), r"in a batch and \S+ alone; .* by itself"),
    (lambda: Sequence(nn.LayerNorm(8), lambda layer, x: layer(x.view(1, 3, 8))), "the model fails on several samples"),
]


@pytest.mark.parametrize("chunk", [1, 2, 160])
@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_mixing_model_without_rules_is_refused(make, message, chunk):
    model = filled(make())
    with pytest.raises(ValueError, match=message):
        clipped_sum(model, *batch(SEQUENCE, 4, 5)[:2], 1.0, chunk=chunk)
    assert all(not layer._forward_hooks and not layer._forward_pre_hooks for layer in model.modules())
