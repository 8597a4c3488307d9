"""The sum of clipped sample gradients against a plain loop over the samples, by rules and by ``vmap(grad)``."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from opacus import GradSampleModule
from torch import nn
from torch.nn.utils import parametrizations, prune

from adascale.learning import clipped_sum, gradients
from adascale.learning.gradients import NotFinite, has_rules, register
from adascale.learning.models import build

IMAGE, VECTOR, SEQUENCE = (4, 6, 6), (4,), (3, 8)


def plain_loop(model, images, labels, clip_norm, weights):
    """One backward pass per sample."""
    rows = sample_gradients(model, images, labels)
    return (weights * (clip_norm / rows.norm(dim=1)).clamp_max(1)) @ rows


def sample_gradients(model, images, labels):
    rows = []
    trainable = [
        parameter for parameter in model.parameters() if parameter.requires_grad
    ]
    for image, label in zip(images, labels, strict=True):
        loss = F.cross_entropy(model(image[None]), label[None])
        row = torch.autograd.grad(
            loss, trainable, allow_unused=True, materialize_grads=True
        )
        rows.append(torch.cat([gradient.flatten() for gradient in row]))
    return torch.stack(rows)


def batch(shape, classes=4, count=5, dtype=torch.double):
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(count, *shape, generator=generator, dtype=dtype)
    labels = torch.randint(classes, (count,), generator=generator)
    return images, labels, torch.rand(count, generator=generator, dtype=dtype)


def filled(model, seed=0):
    """Return the model in double precision with standard normal parameters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter.copy_(
                torch.randn(parameter.shape, generator=generator, dtype=torch.double)
            )
    return model


def relative(sum_, expected):
    return float((sum_ - expected).norm() / expected.norm())


def assert_equals_plain_loop(model, images, labels, weights, tolerance=1e-12, chunk=3):
    clip_norm = float(sample_gradients(model, images, labels).norm(dim=1).median())
    gradient = clipped_sum(model, images, labels, clip_norm, weights, chunk).gradient
    assert (
        relative(gradient, plain_loop(model, images, labels, clip_norm, weights))
        < tolerance
    )
    assert (
        relative(gradient, plain_loop(model, images, labels, 0.9 * clip_norm, weights))
        > 1e-3
    )  # it can fail


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


def on_sequences(layer, call=lambda layer, x: layer(x)):
    return Net(
        lambda net, x: net.last(call(net.layer, x).mean(1)),
        layer=layer,
        last=nn.Linear(8, 4),
    )


def on_images(*layers):
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4)
    )


def changed(change):
    model = mlp()
    with warnings.catch_warnings(
        action="ignore", category=FutureWarning
    ):  # the old utilities, which are in use
        change(model[0])
    return model


# By rules -------------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "contiguous": lambda x: x.contiguous(),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "every second of a batch": lambda x: torch.stack([x, x], 1).flatten(0, 1)[::2],
    "batch last": lambda x: x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2),
}
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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model_layout", [torch.contiguous_format, torch.channels_last])
def test_sum_does_not_depend_on_the_memory_layout(layout, model_layout):
    convolutions = (
        nn.Conv2d(4, 4, (3, 2), (2, 1), (1, 0), bias=False),
        nn.GroupNorm(2, 4),
        nn.Conv2d(4, 4, 3),
    )
    model = filled(on_images(*convolutions)).to(memory_format=model_layout)
    assert has_rules(model)
    images, labels, weights = batch(IMAGE)
    assert_equals_plain_loop(model, LAYOUTS[layout](images), labels, weights)


@pytest.mark.filterwarnings(
    "ignore::FutureWarning:opacus", "ignore:Full backward hook:UserWarning"
)
def test_norms_and_sum_are_those_of_opacus():
    model, (images, labels, weights) = (
        build("mnist_cnn", 0).double(),
        batch((1, 28, 28), 10, 12),
    )
    result = clipped_sum(model, images, labels, 0.5, weights)
    peer = GradSampleModule(
        copy.deepcopy(model).to(memory_format=torch.contiguous_format)
    )
    F.cross_entropy(
        peer(images.clone().requires_grad_()), labels, reduction="sum"
    ).backward()
    theirs = torch.cat(
        [parameter.grad_sample.flatten(1) for parameter in peer.parameters()], dim=1
    ) / len(images)
    torch.testing.assert_close(result.norm, theirs.norm(dim=1), rtol=1e-12, atol=0)
    expected = (weights * (0.5 / theirs.norm(dim=1)).clamp_max(1)) @ theirs
    assert relative(result.gradient, expected) < 1e-12


ACTIVATIONS = [
    nn.Tanh,
    nn.ReLU,
    nn.Sigmoid,
    nn.GELU,
    lambda: nn.ReLU(inplace=True),
    nn.Softplus,
    nn.Identity,
]
POOLINGS = [
    lambda: nn.MaxPool2d(2, stride=1),
    lambda: nn.AvgPool2d(2),
    lambda: nn.AdaptiveAvgPool2d((2, 1)),
]
FORMS = {
    "kernel_size": [1, 2, (1, 2), 3],
    "stride": [1, 2, (2, 1)],
    "padding": [0, 1, (1, 0)],
    "bias": [True, False],
}
FORMS |= {"dilation": [1, 1, 1, 2], "padding_mode": ["zeros", "zeros", "reflect"]}


@st.composite
def networks(draw):
    """Draw convolutions of any form, norms, activations and a pooling, then a linear layer."""
    channels, layers = draw(st.integers(1, 3)), []
    shape = (channels, 6, 7)
    for _ in range(draw(st.integers(1, 2))):
        form = {name: draw(st.sampled_from(values)) for name, values in FORMS.items()}
        groups = draw(st.sampled_from([1, 1, channels]))
        layers.append(nn.Conv2d(channels, 2 * groups, groups=groups, **form))
        channels = 2 * groups
        if draw(st.booleans()):
            layers.append(nn.GroupNorm(draw(st.sampled_from([1, channels])), channels))
        layers.append(draw(st.sampled_from(ACTIVATIONS))())
    layers += [draw(st.sampled_from(POOLINGS))(), nn.Flatten()]
    try:
        with torch.no_grad():
            width = nn.Sequential(*layers)(torch.zeros(1, *shape)).shape[1]
    except (RuntimeError, ValueError):  # the images are too small for these layers
        return None
    return shape, filled(
        nn.Sequential(*layers, nn.Linear(width, 4, bias=draw(st.booleans()))),
        draw(st.integers(0, 9)),
    )


@given(
    networks().filter(bool),
    st.integers(1, 7),
    st.floats(-3, 3),
    st.sampled_from([1, 500, 1 << 20]),
)
def test_clipped_sums_of_random_networks_equal_the_plain_loop(
    case, chunk, decades, patches
):
    shape, model = case
    images, labels, weights = batch(shape)
    rows = sample_gradients(model, images, labels)
    norm = rows.norm(dim=1)
    clip_norm = float(norm.median()) * 10**decades or 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "largest_patches", lambda device: patches)
        result = clipped_sum(model, images, labels, clip_norm, weights, chunk)
    # a norm over nearly equal numbers loses many digits
    torch.testing.assert_close(
        result.norm, norm, rtol=1e-8, atol=1e-8 * float(norm.max())
    )
    factor = weights * (clip_norm / norm.clamp_min(1e-300)).clamp_max(1)
    assert float((result.gradient - factor @ rows).norm()) <= 1e-8 * float(
        factor @ norm
    )


class Scaled(nn.Linear):
    """A subclass that computes something else."""

    def forward(self, x):
        return 2 * super().forward(x)


UNRULED = {
    "subclass": lambda: nn.Sequential(Scaled(4, 4)),
    "own forward": lambda: changed(
        lambda f: setattr(f, "forward", lambda x: F.linear(x, 2 * f.weight, f.bias))
    ),
    "output hook": lambda: changed(
        lambda layer: layer.register_forward_hook(lambda _, x, y: y.sin())
    ),
    "input hook": lambda: changed(
        lambda layer: layer.register_forward_pre_hook(lambda _, x: (x[0] ** 2,))
    ),
    "parametrized": lambda: changed(parametrizations.weight_norm),
    "pruned": lambda: changed(
        lambda layer: prune.l1_unstructured(layer, "weight", 0.5)
    ),
    "called twice": lambda: nn.Sequential(layer := nn.Linear(4, 4), nn.Tanh(), layer),
    "used beside": lambda: two(
        lambda net, x: F.linear(net.first(x).tanh(), net.first.weight) + net.last(x)
    ),
    "batch flattened": lambda: nn.Sequential(
        mlp(), nn.Flatten(0), nn.Unflatten(0, (-1, 4))
    ),
    "compiled": lambda: torch.compile(mlp(), backend="eager"),
    "no rule": lambda: nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4)),
}


def tied():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    return model


@pytest.mark.parametrize("make", [*UNRULED.values(), tied], ids=[*UNRULED, "tied"])
def test_models_outside_the_closed_list_have_no_rules_and_equal_the_plain_loop(make):
    model = filled(make())
    assert not has_rules(model)
    assert_equals_plain_loop(model, *batch(VECTOR))
    assert_equals_plain_loop(
        model, *batch(VECTOR)
    )  # the first call left nothing behind


@pytest.mark.parametrize(
    "form",
    [{"padding": "same"}, {"groups": 2}, {"dilation": 2}, {"padding_mode": "circular"}],
)
def test_convolutions_that_the_rule_does_not_cover_equal_the_plain_loop(form):
    assert_equals_plain_loop(
        filled(on_images(nn.Conv2d(4, 4, 3, **form))), *batch(IMAGE)
    )


def test_linear_layer_on_sequences_equals_the_plain_loop():
    assert_equals_plain_loop(
        filled(nn.Sequential(nn.Linear(8, 2), nn.Flatten(), nn.Linear(6, 4))),
        *batch(SEQUENCE),
    )


@pytest.mark.parametrize("wrong", [1.0, 1.02])
def test_registered_rule_is_used(monkeypatch, wrong):
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * self.weight

    monkeypatch.setattr(gradients, "RULES", dict(gradients.RULES))
    model = filled(nn.Sequential(Scale(), nn.Linear(4, 4)))
    assert not has_rules(model)
    register(Scale)(
        lambda layer, x, output_grad: {layer.weight: wrong * output_grad * x}
    )
    assert has_rules(model)
    if wrong == 1:
        assert_equals_plain_loop(model, *batch(VECTOR))
    else:
        with pytest.raises(AssertionError):
            assert_equals_plain_loop(model, *batch(VECTOR))


# By vmap --------------------------------------------------------------------------------------------------------------


def chosen(net, x):
    """Choose the layers by the values of a sample, which vmap does not support."""
    return net.last(
        torch.cat(
            [each if each.sum() > 0 else net.layer(each) for each in x.split(1)]
        ).mean(1)
    )


GENERAL = {
    "transposed convolution": (lambda: on_images(nn.ConvTranspose2d(4, 4, 3)), IMAGE),
    "LayerNorm": (
        lambda: nn.Sequential(nn.LayerNorm(8), nn.Flatten(), nn.Linear(24, 4)),
        SEQUENCE,
    ),
    "Transformer": (
        lambda: on_sequences(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        ),
        SEQUENCE,
    ),
    "unused layer": (
        lambda: on_sequences(nn.LayerNorm(8), lambda layer, x: x),
        SEQUENCE,
    ),
    "LSTM": (
        lambda: on_sequences(
            nn.LSTM(8, 8, batch_first=True), lambda layer, x: layer(x)[0]
        ),
        SEQUENCE,
    ),
    "choice by a sample": (
        lambda: Net(chosen, layer=nn.LayerNorm(8), last=nn.Linear(8, 4)),
        SEQUENCE,
    ),
}


@pytest.mark.parametrize("kind", GENERAL)
def test_models_by_vmap_equal_the_plain_loop(kind):
    make, shape = GENERAL[kind]
    assert_equals_plain_loop(filled(make()), *batch(shape))


def test_no_sample_sees_another_even_if_the_model_would_let_it():
    """With large numbers alone, which the check of two samples does not show, this model mixes the batch."""

    def mixing(net, x):
        large = (x.abs().amax(1, keepdim=True) > 100).to(x)
        return net.last(net.first(x) + (large * x).sum(0))

    model, (images, labels, weights) = filled(two(mixing)), batch(VECTOR)
    images[4] *= 1000
    assert_equals_plain_loop(model, images, labels, weights)
    with torch.no_grad():  # the control: in a batch the others see it
        assert relative(model(images)[:4], model(images[:4])) > 1


def test_dropout_draws_a_mask_for_each_sample_by_rules_and_by_vmap():
    images, labels = torch.ones(400, 4).double(), torch.zeros(400, dtype=torch.long)
    for layers in ([], [nn.LayerNorm(4)]):
        model = filled(
            nn.Sequential(nn.Linear(4, 4), *layers, nn.Dropout(0.5), nn.Linear(4, 4))
        )
        torch.manual_seed(0)
        result = clipped_sum(model, images, labels, 1.0)
        torch.manual_seed(0)
        assert torch.equal(
            clipped_sum(model, images, labels, 1.0).gradient, result.gradient
        )
        counts = torch.unique(result.loss, return_counts=True)[1]
        assert len(counts) == 16  # masks of four numbers
        assert counts.max() < 60  # of 400 / 16 = 25 expected


def test_sample_gradients_that_vmap_stores_are_bounded(monkeypatch):
    model, sizes = (
        filled(nn.Sequential(nn.LayerNorm(8), nn.Flatten(), nn.Linear(24, 4))),
        [],
    )  # 116 parameters
    by_vmap = gradients.by_vmap
    monkeypatch.setattr(
        gradients,
        "by_vmap",
        lambda *batch: sizes.append(len(batch[1])) or by_vmap(*batch),
    )
    monkeypatch.setattr(gradients, "LARGEST", 4 * 116)
    clipped_sum(model, *batch(SEQUENCE, count=10)[:2], 1.0)
    assert sizes == [3, 3, 4]


# Refused --------------------------------------------------------------------------------------------------------------


INSTANCE_NORM = {"affine": True, "track_running_stats": True}
REFUSED = {
    "BatchNorm": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)),
        VECTOR,
        r"'1' \(BatchNorm1d\) mixes",
    ),
    "centred": (
        lambda: two(lambda net, x: net.last(x - x.mean(0))),
        VECTOR,
        "other logits alone than in a batch",
    ),
    "sorted": (
        lambda: two(lambda net, x: net.last(x.sort(0)[0])),
        VECTOR,
        "other logits alone than in a batch",
    ),
    "by chance": (
        lambda: two(lambda net, x: net.last(F.dropout(x))),
        VECTOR,
        "other logits alone than in a batch",
    ),
    "running mean": (
        lambda: on_sequences(nn.InstanceNorm1d(3, **INSTANCE_NORM)),
        SEQUENCE,
        "'layer.running_mean'",
    ),
    "power iteration": (
        lambda: changed(parametrizations.spectral_norm),
        VECTOR,
        "changes its own '0.parametriz",
    ),
    "all frozen": (
        lambda: mlp().requires_grad_(False),
        VECTOR,
        "no trainable parameter",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_model_that_mixes_samples_or_changes_itself_is_refused(kind):
    make, shape, message = REFUSED[kind]
    torch.manual_seed(0)
    model, (images, labels, _) = make().double(), batch(shape)
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            clipped_sum(model, images, labels, 1.0)


def test_bad_input_is_named():
    inputs = {
        "images": torch.ones(2, 4),
        "labels": torch.zeros(2, dtype=torch.long),
        "clip_norm": 1.0,
    }
    bad = [("clip_norm", value) for value in (0.0, float("nan"), -1.0, 1e-17)]
    bad += [
        ("labels", torch.zeros(3, dtype=torch.long)),
        ("labels", torch.tensor([0, -100])),
    ]
    bad += [("weights", torch.ones(2, 1)), ("chunk", 0)]
    for name, value in bad:
        with pytest.raises(ValueError, match=f"^{name} must"):
            clipped_sum(mlp(), **(inputs | {name: value}))
    for images in (
        torch.full((2, 4), float("nan")),
        torch.tensor([[1e30] * 4, [1.0] * 4]),
    ):
        with pytest.raises(NotFinite, match="sample 0 of 2"):
            clipped_sum(nn.Linear(4, 3), images, inputs["labels"], 1.0)


# On both paths --------------------------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize(
    "first", [nn.GroupNorm(2, 4), nn.LayerNorm(4)], ids=["rules", "vmap"]
)


@BOTH
def test_vanishing_gradient_and_empty_batch_give_zero(first):
    model = filled(
        nn.Sequential(
            nn.Linear(4, 4, bias=False),
            copy.deepcopy(first),
            nn.Linear(4, 2, bias=False),
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    result = clipped_sum(model, *batch(VECTOR, 2)[:2], 1.0)
    assert torch.equal(result.gradient, torch.zeros(32).double())
    result = clipped_sum(
        model, torch.zeros(0, 4).double(), torch.zeros(0, dtype=torch.long), 1.0
    )
    assert torch.equal(result.gradient, torch.zeros(32).double())
    assert result.norm.shape == result.loss.shape == (0,)


@BOTH
def test_frozen_parameters_are_neither_in_the_sum_nor_in_the_norms(first):
    images, labels, weights = batch(VECTOR)
    for frozen in ("0.weight", "0.bias", "1.weight", "2.weight"):
        model = filled(
            nn.Sequential(nn.Linear(4, 4), copy.deepcopy(first), nn.Linear(4, 4))
        )
        model.get_parameter(frozen).requires_grad_(False)
        assert_equals_plain_loop(model, images, labels, weights)


@BOTH
def test_sum_leaves_the_model_and_the_random_state_as_they_were(first):
    model, (images, labels, weights) = (
        filled(nn.Sequential(copy.deepcopy(first), nn.Linear(4, 4))),
        batch(VECTOR),
    )
    before = {
        name: (parameter, parameter.clone())
        for name, parameter in model.named_parameters()
    }
    random = torch.get_rng_state()
    result = clipped_sum(model, images.requires_grad_(), labels, 0.5, weights)
    for name, parameter in model.named_parameters():
        assert parameter is before[name][0]
        assert torch.equal(parameter, before[name][1])
        assert parameter.grad is None
    assert images.grad is None
    assert not any(layer._forward_hooks for layer in model.modules())
    assert torch.equal(torch.get_rng_state(), random)
    with torch.no_grad():
        again = clipped_sum(model, images.detach(), labels, 0.5, weights)
    for one, other in zip(result, again, strict=True):
        assert torch.equal(one, other)
        assert not one.requires_grad
