"""Observing the layers of a network: whatever else happens to their inputs and outputs, the rules see what is true."""

import pytest
import torch
from torch import nn

from adascale.learning import clipped_sum
from adascale.learning.gradients import GeneralPath

from .sample_by_sample import Layers, batch, error, filled, loop, relative


@pytest.mark.parametrize("activation", [nn.ReLU(inplace=True), nn.Sequential(nn.Flatten(), nn.ReLU(inplace=True))])
def test_an_activation_may_write_into_the_output_of_a_layer(activation):
    layers = nn.Conv2d(2, 3, 3), activation, nn.Flatten(), nn.Linear(27, 8), nn.ReLU(inplace=True), nn.Linear(8, 4)
    assert error(filled(nn.Sequential(*layers)), (2, 5, 5)) < 1e-12


def looking(m, x):
    """Calls a layer a second time, without a gradient."""
    with torch.no_grad():
        scale = m.layer(x).norm(dim=1, keepdim=True)
    return m.last(m.layer(x).tanh() / scale)


def test_a_call_without_a_gradient_does_not_count():
    assert error(filled(Layers(looking, layer=nn.Linear(4, 4), last=nn.Linear(4, 3)))) < 1e-13


def moody(m, x):
    """Calls its layer twice, but on an odd number of samples once, in the same function."""
    half = len(x) // 2
    return m.layer(x) if len(x) % 2 else torch.cat([m.layer(x[:half]), m.layer(x[half:])])


def test_what_shows_in_a_later_chunk_only_sends_all_to_the_general_path():
    model, (images, labels, weights) = filled(Layers(moody, layer=nn.Linear(4, 4))), batch((4,), 4, 7)
    with pytest.warns(GeneralPath, match=r"layer 'layer' \(Linear\) has more than one call"):
        found = clipped_sum(model, images, labels, 0.5, weights, chunk=4).gradient  # 3 samples, then 4
    assert relative(found, loop(model, images, labels, 0.5, weights)) < 1e-13
