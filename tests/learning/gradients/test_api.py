"""The sum of clipped sample gradients against a plain loop over the samples."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from adascale.learning import clipped_sum
from adascale.learning.gradients import api as clipping
from adascale.learning.models import MODELS, build


class Residual(nn.Module):
    """GroupNorm, a sum past a block, both poolings, no bias, and a kernel that is no square."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), bias=False)
        self.norm = nn.GroupNorm(2, 4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Linear(4, 3, bias=False)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.max_pool2d(x + torch.tanh(self.second(x)), 2)
        return self.last(F.avg_pool2d(x, x.shape[2:]).flatten(1))


def loop(model, images, labels, clip_norm, weights):
    """One backward pass a sample."""
    total = 0.0
    for image, label, weight in zip(images, labels, weights, strict=True):
        loss = F.cross_entropy(model(image[None]), label[None])
        gradient = torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(model.parameters()))])
        total = total + weight * gradient * min(1.0, clip_norm / float(gradient.norm()))
    return total


def problem(name, dtype=torch.float32, count=7):
    known = {"mnist_cnn": ((1, 28, 28), 10), "digits_cnn": ((1, 8, 8), 10), "residual": ((2, 9, 8), 3)}
    shape, classes = known.get(name, ((3, 32, 32), 10))
    generator = torch.Generator().manual_seed(3)
    if name == "residual":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            model = Residual()
    else:
        model = build(name, 0)
    images = torch.randn(count, *shape, generator=generator, dtype=dtype)
    labels = torch.randint(classes, (count,), generator=generator)
    weights = torch.rand(count, generator=generator, dtype=dtype)
    return model.to(dtype), images, labels, weights


def relative(found, expected):
    return float((found - expected).norm() / expected.norm())


LAYOUTS = {
    "contiguous": lambda x: x.contiguous(),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "every second of a batch": lambda x: torch.stack([x, x], 1).flatten(0, 1)[::2],
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "batch last": lambda x: x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2),
    "expanded": lambda x: x[:, :, :1].expand_as(x),
}


@pytest.mark.parametrize("model_layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [*MODELS, "residual"])
def test_it_equals_the_plain_loop_in_every_memory_layout(name, layout, model_layout):
    # through 32 layers of rectifiers the loop itself is off by 2e-5 in single precision: there all is done in double
    dtype, tolerance = (torch.double, 1e-12) if name == "resnet32" else (torch.float32, 1e-5)
    model, images, labels, weights = problem(name, dtype, count=5)
    model, images = model.to(memory_format=model_layout), LAYOUTS[layout](images)
    norm = clipped_sum(model, images, labels, 1.0).norm
    clip_norm = float(norm.median())  # some gradients are clipped and some are not
    found = clipped_sum(model, images, labels, clip_norm, weights).gradient
    # 1e-5: single precision (6e-8 a rounding) through sums of some thousand terms
    assert relative(found, loop(model, images, labels, clip_norm, weights)) < tolerance
    assert relative(found, loop(model, images, labels, 0.9 * clip_norm, weights)) > 1e-2  # the comparison can fail


@settings(max_examples=25)
@given(
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    channels=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    bias=st.booleans(),
    chunk=st.integers(1, 6),
    way=st.sampled_from(["Gram matrices", "rows of the kernel", "whole patches"]),
)
def test_any_convolution_equals_the_plain_loop(kernel, stride, padding, channels, bias, chunk, way):
    with pytest.MonkeyPatch.context() as patch:  # every way to a convolution's gradients, whichever would be cheaper
        patch.setattr(clipping, "_gram_is_cheap", lambda layer, x, g: way[0] == "G" and layer.stride == (1, 1))
        patch.setattr(clipping, "_kernel_goes_row_by_row", lambda layer: way[0] == "r" and layer.stride[0] == 1)
        check_convolution(kernel, stride, padding, channels, bias, chunk)


def check_convolution(kernel, stride, padding, channels, bias, chunk):
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(*channels, kernel, stride=stride, padding=padding, bias=bias), nn.AdaptiveAvgPool2d(2), nn.Flatten()
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.double))
    images = torch.randn(5, channels[0], 6, 5, generator=generator, dtype=torch.double)
    labels = torch.randint(4 * channels[1], (5,), generator=generator)
    weights = torch.rand(5, generator=generator, dtype=torch.double)
    found = clipped_sum(model, images, labels, 0.5, weights, chunk).gradient
    # 1e-12: double precision (1e-16 a rounding)
    assert relative(found, loop(model, images, labels, 0.5, weights)) < 1e-12


def test_the_patches_of_a_large_batch_are_written_out_in_parts_without_a_difference(monkeypatch):
    model, images, labels, weights = problem("mnist_cnn", torch.double, 11)
    whole = clipped_sum(model, images, labels, 0.3, weights).gradient
    monkeypatch.setitem(clipping._HELD, "cpu", 3 * 169 * 64)
    assert relative(clipped_sum(model, images, labels, 0.3, weights).gradient, whole) < 1e-13


def test_the_gram_way_is_taken_where_places_are_few_and_channels_many(monkeypatch):
    taken = []
    monkeypatch.setattr(clipping._Gram, "square_norm", lambda self: taken.append(self.layer) or torch.ones(3))
    for name, expected in (("tanh_cnn", 2), ("resnet32", 9), ("mnist_cnn", 0)):
        model, images, labels, _ = problem(name, count=3)
        clipped_sum(model, images, labels, 1.0)
        assert len(taken) == expected, name
        taken.clear()


@pytest.mark.parametrize("activation", [nn.ReLU(inplace=True), nn.Sequential(nn.Flatten(), nn.ReLU(inplace=True))])
def test_an_activation_may_write_into_the_output_of_a_layer(activation):
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3), activation, nn.Flatten(), nn.Linear(27, 8), nn.ReLU(inplace=True), nn.Linear(8, 4)
    ).double()
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(6, 2, 5, 5, generator=generator, dtype=torch.double)
    labels, weights = torch.arange(6) % 4, torch.rand(6, generator=generator, dtype=torch.double)
    found = clipped_sum(model, images, labels, 0.5, weights).gradient
    assert relative(found, loop(model, images, labels, 0.5, weights)) < 1e-12


def test_frozen_parameters_and_images_that_want_a_gradient_make_no_difference():
    model, images, labels, weights = problem("digits_cnn", torch.double)
    expected = clipped_sum(model, images, labels, 0.5, weights).gradient
    assert torch.equal(clipped_sum(model, images.requires_grad_(), labels, 0.5, weights).gradient, expected)
    assert images.grad is None
    found = clipped_sum(model.requires_grad_(False), images, labels, 0.5, weights).gradient
    assert torch.equal(found, expected)


def test_without_clipping_it_is_the_gradient_of_the_weighted_loss():
    model, images, labels, weights = problem("mnist_cnn", torch.double, 20)
    loss = F.cross_entropy(model(images), labels, reduction="none")
    expected = torch.cat([each.flatten() for each in torch.autograd.grad(weights @ loss, list(model.parameters()))])
    found = clipped_sum(model, images, labels, float("inf"), weights, chunk=6)
    assert relative(found.gradient, expected) < 1e-13
    torch.testing.assert_close(found.loss, loss.detach(), rtol=1e-13, atol=0)


def test_no_sample_counts_for_more_than_the_clip_norm():
    model, images, labels, _ = problem("digits_cnn", torch.double, 30)
    alone = torch.stack([
        clipped_sum(model, images[i : i + 1], labels[i : i + 1], 0.7).gradient for i in range(30)
    ])  # fmt: skip
    norm = clipped_sum(model, images, labels, 0.7).norm
    assert (alone.norm(dim=1) <= 0.7 * (1 + 1e-12)).all()
    torch.testing.assert_close(alone.norm(dim=1), norm.clamp_max(0.7), rtol=1e-12, atol=0)


def test_a_vanishing_gradient_stays_zero():
    model = nn.Linear(3, 2, bias=False).double()
    found = clipped_sum(model, torch.zeros(4, 3).double(), torch.zeros(4, dtype=torch.long), 1.0)
    assert torch.equal(found.gradient, torch.zeros(6).double())


def test_an_empty_batch_gives_zero():
    model, images, labels, _ = problem("mnist_cnn")
    found = clipped_sum(model, images[:0], labels[:0], 1.0)
    assert torch.equal(found.gradient, torch.zeros(26_010))
    assert found.norm.shape == found.loss.shape == (0,)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def in_threads(monkeypatch):
    """The names of the threads that compute sample gradients from now on."""
    seen, original = [], clipping._sample_gradients

    def note(*arguments):
        seen.append((threading.current_thread().name, torch.get_num_threads()))
        time.sleep(0.01)  # so that no thread can take all of the chunks
        return original(*arguments)

    monkeypatch.setattr(clipping, "_sample_gradients", note)
    return seen


def test_chunks_in_threads_of_their_own_change_no_bit(monkeypatch, two_threads):
    model, images, labels, weights = problem("tanh_cnn", count=24)
    seen = in_threads(monkeypatch)
    shared = clipped_sum(model, images, labels, 1.0, weights, chunk=3)
    assert len(set(seen)) == 2
    assert {threads for _, threads in seen} == {1}
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    seen.clear()
    alone = clipped_sum(model, images, labels, 1.0, weights, chunk=3)
    assert {name for name, _ in seen} == {threading.current_thread().name}
    for found, expected in zip(shared, alone, strict=True):
        assert torch.equal(found, expected)
    # later threads have what was set, not the one of the workers
    with ThreadPoolExecutor(1) as pool:
        torch.set_num_threads(2)
        clipped_sum(model, images, labels, 1.0, weights, chunk=3)
        assert pool.submit(torch.get_num_threads).result() == 2


def test_the_thread_that_adds_up_works_alone_meanwhile(two_threads):
    # a second one to add with would take the time of those that compute
    chunks = clipping._in_threads(lambda part, space: part, list(range(8)), torch.device("cpu"))
    assert [(part, torch.get_num_threads()) for part in chunks] == [(part, 1) for part in range(8)]
    assert torch.get_num_threads() == 2


def test_an_error_in_a_thread_is_raised_and_leaves_the_model_as_it_was(two_threads):
    model, images, labels = Twice(), torch.randn(8, 4), torch.zeros(8, dtype=torch.int64)
    with pytest.raises(ValueError, match="called twice"):
        clipped_sum(model, images, labels, 1.0, chunk=1)
    assert not any(layer._forward_hooks for layer in model.modules())
    assert torch.get_num_threads() == 2


def test_the_model_is_left_as_it_was():
    model, images, labels, _ = problem("digits_cnn")
    before = [parameter.clone() for parameter in model.parameters()]
    first = clipped_sum(model, images, labels, 1.0).gradient
    assert all(torch.equal(a, b) and b.grad is None for a, b in zip(before, model.parameters(), strict=True))
    assert all(not layer._forward_hooks for layer in model.modules())
    assert torch.equal(first, clipped_sum(model, images, labels, 1.0).gradient)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x)))


class Overwriting(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        return self.second(x) + x.mul_(2)


class Unused(Overwriting):
    def forward(self, x):
        x = self.first(x)
        self.second(x)
        return x


class Skipping(Overwriting):
    def forward(self, x):
        return self.first(x)


def tied():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    return model


REFUSED = {
    "PReLU": (lambda: nn.Sequential(nn.Linear(4, 4), nn.PReLU()), r"layer '1' \(PReLU\) has parameters but no rule"),
    "LayerNorm": (lambda: nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), r"'1' \(LayerNorm\)"),
    "BatchNorm without parameters": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, affine=False)),
        r"'1' \(BatchNorm1d\) mixes the samples of a batch; expected GroupNorm",
    ),
    "a subclass": (lambda: nn.Sequential(type("Mine", (nn.Linear,), {})(4, 4)), r"'0' \(Mine\)"),
    "groups": (lambda: nn.Sequential(nn.Conv2d(4, 4, 1, groups=2)), r"'0' \(Conv2d\) must have one group"),
    "dilation": (lambda: nn.Sequential(nn.Conv2d(4, 4, 2, dilation=2)), "no dilation"),
    "padding named same": (lambda: nn.Sequential(nn.Conv2d(4, 4, 1, padding="same")), "given in pixels"),
    "padding named valid": (lambda: nn.Sequential(nn.Conv2d(4, 4, 1, padding="valid")), "given in pixels"),
    "circular padding": (lambda: nn.Sequential(nn.Conv2d(4, 4, 1, padding_mode="circular")), "padding by zeros"),
    "called twice": (Twice, r"layer 'layer' \(Linear\) was called twice"),
    "not called": (Skipping, r"the loss does not depend on layer 'second' \(Linear\)"),
    "without effect": (Unused, r"the loss does not depend on layer 'second' \(Linear\)"),
    "a shared parameter": (tied, "share a parameter"),
    "in place": (Overwriting, r"the input of layer 'second' \(Linear\) was overwritten in place"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_layer_without_a_rule_is_refused_by_name(kind):
    make, message = REFUSED[kind]
    with pytest.raises(ValueError, match=message):
        clipped_sum(make(), torch.ones(2, 4), torch.zeros(2, dtype=torch.long), 1.0)


def test_a_linear_layer_on_sequences_is_refused():
    with pytest.raises(ValueError, match="one vector a sample"):
        clipped_sum(
            nn.Sequential(nn.Linear(4, 4), nn.Flatten()), torch.ones(2, 3, 4), torch.zeros(2, dtype=torch.long), 1.0
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clip_norm": 0.0}, "clip_norm must be > 0, got 0.0"),
        ({"clip_norm": float("nan")}, "clip_norm must be > 0, got nan"),
        ({"chunk": 0}, "chunk must be a whole number >= 1, got 0"),
        ({"labels": torch.zeros(3, dtype=torch.long)}, r"labels must have shape \(2,\), got \(3,\)"),
        ({"weights": torch.ones(2, 1)}, r"weights must have shape \(2,\), got \(2, 1\)"),
    ],
)
def test_bad_input_is_named(change, message):
    good = {"images": torch.ones(2, 4), "labels": torch.zeros(2, dtype=torch.long), "clip_norm": 1.0}
    with pytest.raises(ValueError, match=message):
        clipped_sum(nn.Linear(4, 3), **(good | change))
