"""The sum of clipped sample gradients against a plain loop over the samples, by rules and by ``vmap(grad)``."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrizations

from adascale.learning import Diverged, clipped_sum, gradients
from adascale.learning.gradients import has_rules
from adascale.learning.models import build

VECTOR = (4,)


def sample_gradients(model, images, labels):
    """One backward pass per sample."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    rows = []
    for image, label in zip(images, labels, strict=True):
        loss = F.cross_entropy(model(image[None]), label[None])
        row = torch.autograd.grad(
            loss, trainable, allow_unused=True, materialize_grads=True
        )
        rows.append(torch.cat([gradient.flatten() for gradient in row]))
    return torch.stack(rows)


def plain_sum(rows, clip_norm, weights):
    factor = (clip_norm / rows.norm(dim=1).clamp_min(1e-300)).clamp_max(1)
    return (weights * factor) @ rows


def batch(shape, classes=4, count=5):
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(count, *shape, generator=generator, dtype=torch.double)
    labels = torch.randint(classes, (count,), generator=generator)
    return images, labels, torch.rand(count, generator=generator, dtype=torch.double)


def filled(model):
    """Return the model in double precision with standard normal parameters."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.double().parameters():
        nn.init.normal_(parameter, generator=generator)
    return model


def relative(total, expected):
    return float((total - expected).norm() / expected.norm())


def assert_equals_plain_loop(model, images, labels, weights, tolerance=1e-12):
    rows = sample_gradients(model, images, labels)
    clip_norm = float(rows.norm(dim=1).median())
    total = clipped_sum(model, images, labels, clip_norm, weights, chunk=3).gradient
    assert relative(total, plain_sum(rows, clip_norm, weights)) < tolerance
    # negative control
    assert relative(total, plain_sum(rows, 0.9 * clip_norm, weights)) > 1e-3


class Net(nn.Module):
    """Layers by their names, and a function of them and the input."""

    def __init__(self, compute, **layers):
        super().__init__()
        self.compute = compute
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.compute(self, x)


def mlp():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4))


def two(compute):
    return Net(compute, first=nn.Linear(4, 4), last=nn.Linear(4, 4))


def changed(change):
    model = mlp()
    # the old utilities, which are in use
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        change(model[0])
    return model


# By rules -------------------------------------------------------------------------------------------------------------

SHAPES = {
    "mnist_cnn": (1, 28, 28),
    "digits_cnn": (1, 8, 8),
    "tanh_cnn": (3, 32, 32),
    "resnet32": (3, 32, 32),
}


@pytest.mark.parametrize("name", SHAPES)
def test_networks_of_the_package_have_rules_and_equal_the_plain_loop(name):
    model = build(name, 0).double()
    assert has_rules(model)
    assert_equals_plain_loop(model, *batch(SHAPES[name], 10), tolerance=1e-11)


ACTIVATIONS = [nn.Tanh, nn.GELU, lambda: nn.ReLU(inplace=True), nn.Identity]
POOLINGS = [
    lambda: nn.MaxPool2d(2, stride=1),
    lambda: nn.AvgPool2d(2),
    lambda: nn.AdaptiveAvgPool2d((2, 1)),
]
FORMATS = [torch.contiguous_format, torch.channels_last]
FORMS = {
    "kernel_size": [1, 2, (1, 2), 3],
    "stride": [1, 2, (2, 1)],
    "padding": [0, 1, (1, 0)],
    "bias": [True, False],
    "dilation": [1, 1, 1, 2],
    "padding_mode": ["zeros", "zeros", "reflect"],
}


@st.composite
def networks(draw):
    """Draw convolutions of any form, norms, activations and a pooling, then a linear layer."""
    channels = draw(st.integers(1, 3))
    layers = []
    shape = (channels, 6, 7)
    for _ in range(draw(st.integers(1, 2))):
        form = {name: draw(st.sampled_from(values)) for name, values in FORMS.items()}
        groups = draw(st.sampled_from([1, 1, channels]))
        layers.append(nn.Conv2d(channels, 2 * groups, groups=groups, **form))
        channels = 2 * groups
        layers.append(draw(st.sampled_from([nn.Identity(), nn.GroupNorm(2, channels)])))
        layers.append(draw(st.sampled_from(ACTIVATIONS))())
    layers += [draw(st.sampled_from(POOLINGS))(), nn.Flatten()]
    try:
        with torch.no_grad():
            width = nn.Sequential(*layers)(torch.zeros(1, *shape)).shape[1]
    except (RuntimeError, ValueError):  # the images are too small for these layers
        return None
    model = filled(nn.Sequential(*layers, nn.Linear(width, 4, draw(st.booleans()))))
    return shape, model.to(memory_format=draw(st.sampled_from(FORMATS)))


@given(
    networks().filter(bool),
    st.integers(1, 7),
    st.floats(-3, 3),
    st.sampled_from([1, 500, 1 << 20]),
    st.sampled_from(FORMATS),
)
def test_sums_of_random_networks_equal_the_plain_loop(
    case, chunk, decades, patches, layout
):
    shape, model = case
    images, labels, weights = batch(shape)
    images = images.contiguous(memory_format=layout)
    rows = sample_gradients(model, images, labels)
    norm = rows.norm(dim=1)
    clip_norm = float(norm.median()) * 10**decades or 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "largest_patches", lambda device: patches)
        result = clipped_sum(model, images, labels, clip_norm, weights, chunk)
    # a norm over nearly equal numbers loses many digits
    largest = float(norm.max())
    torch.testing.assert_close(result.norm, norm, rtol=1e-8, atol=1e-8 * largest)
    difference = (result.gradient - plain_sum(rows, clip_norm, weights)).norm()
    assert difference <= 1e-8 * weights @ norm.clamp_max(clip_norm)


# Refused --------------------------------------------------------------------------------------------------------------


REFUSED = {
    "mixes": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)),
    "other logits alone": lambda: two(lambda net, x: net.last(x - x.mean(0))),
    "alone than in a batch": lambda: two(lambda net, x: net.last(F.dropout(x))),
    "changes its own": lambda: changed(parametrizations.spectral_norm),
}


@pytest.mark.parametrize("message", REFUSED)
def test_model_that_mixes_samples_or_changes_itself_is_refused(message):
    torch.manual_seed(0)
    model, (images, labels, _) = REFUSED[message]().double(), batch(VECTOR)
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            clipped_sum(model, images, labels, 1.0)


@pytest.mark.parametrize("clip_norm", [float("nan"), 1e-17])
def test_clip_norm_whose_square_underflows_is_refused(clip_norm):
    images, labels, _ = batch(VECTOR)
    with pytest.raises(ValueError, match=r"^clip_norm must"):
        clipped_sum(mlp().double(), images, labels, clip_norm)


@pytest.mark.parametrize("value", [float("nan"), 1e200])
def test_sample_without_a_finite_gradient_is_named(value):
    images, labels, _ = batch(VECTOR)
    images[2] = value
    with pytest.raises(Diverged, match=r"^sample 2 "):
        clipped_sum(nn.Linear(4, 4).double(), images, labels, 1.0)


# On both paths --------------------------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize(
    "norm", [nn.GroupNorm(2, 4), nn.LayerNorm(4)], ids=["rules", "vmap"]
)


@BOTH
def test_vanishing_gradient_and_empty_batch_give_zero(norm):
    linear = nn.Linear(4, 4, bias=False)
    model = nn.Sequential(linear, copy.deepcopy(norm), nn.Linear(4, 2)).double()
    nn.init.zeros_(model[2].weight)
    images, labels, _ = batch(VECTOR, 2)
    total = clipped_sum(model, images, labels, 1.0).gradient
    assert not total[:24].any()  # below the last layer
    assert total[24:].any()
    assert not clipped_sum(model, images[:0], labels[:0], 1.0).gradient.any()


@BOTH
@pytest.mark.parametrize("frozen", ["0.weight", "0.bias", "1.weight", "2.weight"])
def test_frozen_parameters_are_neither_in_the_sum_nor_in_the_norms(norm, frozen):
    layers = nn.Linear(4, 4), copy.deepcopy(norm), nn.Linear(4, 4)
    model = filled(nn.Sequential(*layers))
    model.get_parameter(frozen).requires_grad_(False)
    assert_equals_plain_loop(model, *batch(VECTOR))


@BOTH
def test_sum_leaves_the_model_and_the_random_state_as_they_were(norm):
    model = filled(nn.Sequential(copy.deepcopy(norm), nn.Linear(4, 4)))
    images, labels, weights = batch(VECTOR)
    before = copy.deepcopy(model.state_dict())
    random = torch.get_rng_state()
    clipped_sum(model, images.requires_grad_(), labels, 0.5, weights)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert all(tensor.grad is None for tensor in [images, *model.parameters()])
    assert not any(layer._forward_hooks for layer in model.modules())
    assert torch.equal(torch.get_rng_state(), random)
