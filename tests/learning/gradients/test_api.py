"""The sum of clipped sample gradients against a plain loop over the samples."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from opacus import GradSampleModule
from torch import nn

from adascale.learning import clipped_sum
from adascale.learning.gradients import NotFinite, control
from adascale.learning.models import flatten

from .sample_by_sample import batch, filled, loop, problem, relative

LAYOUTS = {
    "contiguous": lambda x: x.contiguous(),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "every second of a batch": lambda x: torch.stack([x, x], 1).flatten(0, 1)[::2],
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "batch last": lambda x: x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2),
    "expanded": lambda x: x[:, :, :1].expand_as(x),
}


@pytest.mark.parametrize("model_layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("name", "layout"),
    [*(("residual", layout) for layout in LAYOUTS), ("mnist_cnn", "contiguous"), ("resnet32", "channels last")],
)
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
    if layout == "contiguous":  # the comparison can fail
        assert relative(found, loop(model, images, labels, 0.9 * clip_norm, weights)) > 1e-2


@pytest.mark.filterwarnings("ignore::FutureWarning:opacus", "ignore:Full backward hook:UserWarning")
def test_norms_and_sum_are_those_of_opacus():
    model, images, labels, weights = problem("mnist_cnn", torch.double, 12)
    found = clipped_sum(model, images, labels, 0.5, weights)
    peer = GradSampleModule(problem("mnist_cnn", torch.double)[0].to(memory_format=torch.contiguous_format))
    F.cross_entropy(peer(images.clone().requires_grad_()), labels, reduction="sum").backward()
    theirs = torch.cat([parameter.grad_sample.flatten(1) for parameter in peer.parameters()], dim=1) / len(images)
    torch.testing.assert_close(found.norm, theirs.norm(dim=1), rtol=1e-12, atol=0)
    expected = (weights * (0.5 / theirs.norm(dim=1)).clamp_max(1)) @ theirs
    assert relative(found.gradient, expected) < 1e-12


def test_no_more_samples_than_the_chunk_are_seen_at_a_time(monkeypatch):
    model, images, labels, _ = problem("digits_cnn", count=11)
    seen = []
    model.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    clipped_sum(model, images, labels, 1.0, chunk=4)
    assert seen == [3, 1, 4, 4]  # one is compared with plain autograd
    monkeypatch.setattr(control, "EVERY", np.inf)
    clipped_sum(model, images, labels, 1.0, chunk=4)
    assert seen[4:] == [3, 4, 4]  # and rarely of later batches


def test_vanishing_gradient_and_empty_batch_give_zero():
    linear = nn.Linear(3, 2, bias=False).double()
    found = clipped_sum(linear, torch.zeros(4, 3).double(), torch.zeros(4, dtype=torch.long), 1.0)
    assert torch.equal(found.gradient, torch.zeros(6).double())
    model, images, labels, _ = problem("mnist_cnn")
    found = clipped_sum(model, images[:0], labels[:0], 1.0)
    assert torch.equal(found.gradient, torch.zeros(26_010))
    assert found.norm.shape == found.loss.shape == (0,)


def digits_model(general):
    """By rules, or by the general path; and images, labels and weights."""
    model, *samples = problem("digits_cnn", torch.double)
    normed = nn.Flatten(), nn.Linear(64, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 10)
    return filled(nn.Sequential(*normed)) if general else model, *samples


@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("frozen", ["all but the last", "all weights", "the first"])
def test_frozen_parameters_are_not_in_the_sum_and_have_no_part_in_the_norms(frozen, general):
    model, images, labels, weights = digits_model(general)
    whole = clipped_sum(model, images, labels, 0.1, weights).gradient
    parameters = dict(model.named_parameters())
    for i, name in enumerate(parameters):
        chosen = {"all but the last": i < len(parameters) - 1, "all weights": "weight" in name, "the first": i == 0}
        parameters[name].requires_grad_(not chosen[frozen])
    found = clipped_sum(model, images, labels, 0.1, weights).gradient
    assert relative(found, loop(model, images, labels, 0.1, weights)) < 1e-12
    left = sum(each.numel() for each in parameters.values() if each.requires_grad)
    assert found.shape == flatten(model).shape == (left,) != whole.shape
    assert clipped_sum(model, images[:0], labels[:0], 0.1).gradient.shape == (left,)
    if frozen == "the first":  # less is clipped where there is less
        assert relative(found, whole[-left:]) > 1e-2


def test_a_frozen_layer_needs_no_rule(recwarn):
    model = filled(nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 3)))
    model[0].requires_grad_(False).float()  # nor has it to be of the others' type
    model[0].forward = lambda x, layer=model[0]: F.layer_norm(x, (4,), layer.weight.double(), layer.bias.double())
    images, labels, weights = batch((4,), 3, 5)
    found = clipped_sum(model, images, labels, 0.1, weights).gradient
    assert relative(found, loop(model, images, labels, 0.1, weights)) < 1e-12
    assert not recwarn.list


@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
@pytest.mark.parametrize("general", [False, True])
def test_sum_leaves_all_as_it_was_and_is_the_same_without_gradients(general):
    model, images, labels, weights = digits_model(general)
    before = dict(model.named_parameters(remove_duplicate=False))
    values = {name: each.clone() for name, each in before.items()}
    threads, random = torch.get_num_threads(), torch.get_rng_state()
    first = clipped_sum(model, images.requires_grad_(), labels, 0.5, weights)
    after = dict(model.named_parameters(remove_duplicate=False))
    assert list(after) == list(before)
    assert all(after[name] is before[name] and torch.equal(after[name], values[name]) for name in before)
    assert all(each.grad is None for each in (images, *after.values()))
    assert all(not layer._forward_hooks and not layer._forward_pre_hooks for layer in model.modules())
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), random)
    with torch.no_grad():
        again = clipped_sum(model, images.detach(), labels, 0.5, weights)
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other)
        assert not one.requires_grad
        assert not other.requires_grad


def test_bad_input_is_named():
    for name, value in (
        [("clip_norm", bad) for bad in (0.0, float("nan"), "one", [1.0, 2.0], 1e-17)]
        + [("labels", bad) for bad in ([0, 1], torch.zeros(3, dtype=torch.long), torch.zeros(2), torch.tensor([3, 5]))]
        + [("labels", torch.tensor([0, -1])), ("images", np.ones((2, 4))), ("weights", torch.ones(2, 1)), ("chunk", 0)]
    ):
        good = {"images": torch.ones(2, 4), "labels": torch.zeros(2, dtype=torch.long), "clip_norm": 1.0}
        with pytest.raises(ValueError, match=f"^{name} must be|^{name} must have"):
            clipped_sum(nn.Linear(4, 3), **(good | {name: value}))
    for images in (torch.full((2, 4), float("nan")), torch.tensor([[1e30] * 4, [1.0] * 4])):
        with pytest.raises(NotFinite, match="sample 0 of 2"):
            clipped_sum(nn.Linear(4, 3), images, torch.zeros(2, dtype=torch.long), 1.0)


@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
@pytest.mark.parametrize("general", [False, True])
def test_model_that_gives_no_logits_is_refused(general):
    first = nn.LayerNorm(6) if general else nn.Linear(6, 6)
    for last, got in (
        (nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)), r"\(\d,\)"),
        (nn.Unflatten(1, (3, 2)), r"\(\d, 3, 2\)"),
        (nn.AdaptiveMaxPool1d(3, return_indices=True), "tuple"),
    ):
        with pytest.raises(ValueError, match=rf"the model must give logits of shape \(\d, classes\), got {got}"):
            clipped_sum(nn.Sequential(first, last), torch.ones(2, 6), torch.zeros(2, dtype=torch.long), 1.0)
    with pytest.raises(ValueError, match=r"labels must be in 0 \.\.\. 5, the model's classes, got 6"):
        clipped_sum(first, torch.ones(2, 6), torch.tensor([6, 7]), 1.0)
