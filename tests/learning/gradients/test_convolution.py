"""The rule of convolutions against a plain loop over the samples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from adascale.learning import clipped_sum
from adascale.learning.gradients import rules as convolution

from .sample_by_sample import batch, filled, loop, problem


@given(
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    channels=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    bias=st.booleans(),
    chunk=st.integers(1, 6),
    held=st.sampled_from([1, 500, 1 << 20]),
)
def test_any_convolution_equals_the_plain_loop(kernel, stride, padding, channels, bias, chunk, held):
    layer = nn.Conv2d(*channels, kernel, stride=stride, padding=padding, bias=bias)
    model = filled(nn.Sequential(layer, nn.AdaptiveAvgPool2d(2), nn.Flatten()))
    images, labels, weights = batch((channels[0], 6, 5), 4 * channels[1], 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "largest_patches", lambda device: held)  # one sample at a time, some, or all
        found = clipped_sum(model, images, labels, 0.5, weights, chunk).gradient
    # 1e-12: double precision (1e-16 a rounding); where one place gives all logits, every gradient is zero
    torch.testing.assert_close(found, loop(model, images, labels, 0.5, weights), rtol=1e-12, atol=1e-12)


def test_patches_are_written_out_for_a_few_samples_at_a_time_without_a_difference(monkeypatch):
    model, images, labels, weights = problem("mnist_cnn", torch.double, 11)
    whole = clipped_sum(model, images, labels, 0.3, weights).gradient
    written, original = [], convolution.patches
    monkeypatch.setattr(convolution, "patches", lambda layer, x: written.append(len(x)) or original(layer, x))
    monkeypatch.setattr(convolution, "largest_patches", lambda device: 3 * 169 * 64)  # of the first layer's 3 samples
    found = clipped_sum(model, images, labels, 0.3, weights).gradient
    assert written[:4] == [3, 3, 3, 2]
    assert torch.equal(found, whole)
