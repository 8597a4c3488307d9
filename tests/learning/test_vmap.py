"""Models without rules: their sums by ``vmap(grad)`` against a plain loop over the samples."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from adascale.learning import clipped_sum
from adascale.learning.gradients import has_rules

from .test_gradients import (
    VECTOR,
    Net,
    assert_equals_plain_loop,
    batch,
    changed,
    filled,
    mlp,
    relative,
    two,
)

SEQUENCE = (3, 8)


def on_sequences(layer, call=lambda layer, x: layer(x)):
    return Net(
        lambda net, x: net.last(call(net.layer, x).mean(1)),
        layer=layer,
        last=nn.Linear(8, 4),
    )


class Scaled(nn.Linear):
    """A subclass that computes something else."""

    def forward(self, x):
        return 2 * super().forward(x)


def own_forward(layer):
    layer.forward = lambda x: F.linear(x, 2 * layer.weight, layer.bias)


def tied():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    return model


def chosen(net, x):
    """Choose the layers by the values of a sample, which vmap does not support."""
    rows = [row if row.sum() > 0 else net.layer(row) for row in x.split(1)]
    return net.last(torch.cat(rows).mean(1))


def hooked(layer):
    layer.register_forward_hook(lambda _, x, y: y.sin())


def lstm():
    layer = nn.LSTM(8, 8, batch_first=True)
    return on_sequences(layer, lambda layer, x: layer(x)[0])


def transformer():
    return on_sequences(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    )


GENERAL = {
    "subclass": (lambda: nn.Sequential(Scaled(4, 4)), VECTOR),
    "own forward": (lambda: changed(own_forward), VECTOR),
    "hook": (lambda: changed(hooked), VECTOR),
    "parametrized": (lambda: changed(parametrizations.weight_norm), VECTOR),
    "tied": (tied, VECTOR),
    "called twice": (lambda: nn.Sequential(x := nn.Linear(4, 4), nn.Tanh(), x), VECTOR),
    "batch flattened": (
        lambda: nn.Sequential(mlp(), nn.Flatten(0), nn.Unflatten(0, (-1, 4))),
        VECTOR,
    ),
    "LayerNorm": (lambda: on_sequences(nn.LayerNorm(8)), SEQUENCE),
    "Transformer": (transformer, SEQUENCE),
    "LSTM": (lstm, SEQUENCE),
    "choice by a sample": (
        lambda: Net(chosen, layer=nn.LayerNorm(8), last=nn.Linear(8, 4)),
        SEQUENCE,
    ),
    "unused layer": (
        lambda: on_sequences(nn.LayerNorm(8), lambda layer, x: x),
        SEQUENCE,
    ),
}


@pytest.mark.parametrize("name", GENERAL)
def test_models_without_rules_equal_the_plain_loop(name):
    make, shape = GENERAL[name]
    model = filled(make())
    assert not has_rules(model)
    for _ in range(2):  # the first call leaves nothing behind
        assert_equals_plain_loop(model, *batch(shape))


@pytest.mark.parametrize(
    ("first", "shape"),
    [(nn.Conv2d(4, 1, 3, padding="same"), (4, 6, 6)), (nn.Linear(12, 12), (3, 12))],
)
def test_forms_that_a_rule_does_not_cover_equal_the_plain_loop(first, shape):
    model = nn.Sequential(copy.deepcopy(first), nn.Flatten(), nn.Linear(36, 4))
    assert_equals_plain_loop(filled(model), *batch(shape))


def test_no_sample_sees_another_even_if_the_model_would_let_it():
    """With large numbers alone, which the check of two samples does not show, this model mixes the batch."""

    def mixing(net, x):
        large = (x.abs().amax(1, keepdim=True) > 100).to(x)
        return net.last(net.first(x) + (large * x).sum(0))

    model, (images, labels, weights) = filled(two(mixing)), batch(VECTOR)
    images[4] *= 1000
    assert_equals_plain_loop(model, images, labels, weights)
    with torch.no_grad():  # negative control: in a batch the others see it
        assert relative(model(images)[:4], model(images[:4])) > 1


@pytest.mark.parametrize("norm", [nn.Identity(), nn.LayerNorm(4)])
def test_dropout_draws_a_mask_for_each_sample(norm):
    images = torch.ones(400, 4).double()
    labels = torch.zeros(400, dtype=torch.long)
    layers = nn.Linear(4, 4), norm, nn.Dropout(0.5), nn.Linear(4, 4)
    model = filled(nn.Sequential(*layers))
    torch.manual_seed(0)
    result = clipped_sum(model, images, labels, 1.0)
    counts = torch.unique(result.loss, return_counts=True)[1]
    assert len(counts) == 16  # masks of four numbers
    assert counts.max() < 60  # of 400 / 16 = 25 expected
