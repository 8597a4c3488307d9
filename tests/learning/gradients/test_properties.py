"""Random networks and batches at the ends of what is allowed equal a plain loop; what mixes samples is found out."""

import math
import warnings
import weakref

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

from adascale.learning import clipped_sum
from adascale.learning.gradients import GeneralPath, NotFinite, control, rules

from .sample_by_sample import VECTOR, Layers, batch, centred, filled, loop, mlp, relative, rows, two

ACTIVATIONS = [nn.Tanh, nn.ReLU, nn.Sigmoid, nn.GELU, lambda: nn.ReLU(inplace=True), nn.Softplus, nn.Identity]
POOLINGS = [lambda: nn.MaxPool2d(2, stride=1), lambda: nn.AvgPool2d(2), lambda: nn.AdaptiveAvgPool2d((2, 1))]
FORMS = {"kernel_size": [1, 2, (1, 2), 3, (4, 2)], "stride": [1, 1, 2, (2, 1), 3], "padding": [0, 1, (1, 0), 2]}
FORMS["bias"] = [True, False]
FORMS |= {"dilation": [1, 1, 1, 2], "padding_mode": ["zeros", "zeros", "reflect"]}
FIRST = nn.Conv2d(1, 1, 2, bias=False), nn.GroupNorm(1, 1), nn.Tanh()
LAST = nn.Conv2d(1, 1, 1, dilation=2, bias=False), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3, bias=False)
NORMED = (1, 5, 5), nn.Sequential(*FIRST, *LAST)
"""A network that PyTorch's vmap takes a wrong gradient of at samples of 1e15: the control has to find it out."""


@st.composite
def images_network(draw):
    """Convolutions of any form, norms, activations and a pooling, then linear layers."""
    channels, side = draw(st.integers(1, 3)), draw(st.integers(5, 7))
    shape, layers = (channels, side, side), []
    for _ in range(draw(st.integers(1, 2))):
        groups = draw(st.sampled_from([1, 1, 1, channels]))
        width = groups * draw(st.integers(1, 2))
        form = {name: draw(st.sampled_from(of)) for name, of in FORMS.items()}
        layers.append(nn.Conv2d(channels, width, groups=groups, **form))
        channels = width
        if draw(st.booleans()):
            layers.append(nn.GroupNorm(draw(st.sampled_from([1, channels])), channels))
        layers.append(draw(st.sampled_from(ACTIVATIONS))())
    if draw(st.booleans()):
        layers.append(draw(st.sampled_from(POOLINGS))())
    return shape, finished(draw, [*layers, nn.Flatten()], shape)


@st.composite
def vectors_network(draw):
    """Linear layers, norms on (B, C), activations."""
    size = draw(st.integers(1, 5))
    layers, width = [], size
    for _ in range(draw(st.integers(0, 2))):
        wider = 2 * draw(st.integers(1, 3))
        layers += [nn.Linear(width, wider, bias=draw(st.booleans()))]
        width = wider
        layers += draw(st.sampled_from([[], [nn.GroupNorm(width // 2, width)], [nn.LayerNorm(width)]]))
        layers.append(draw(st.sampled_from(ACTIVATIONS))())
    return (size,), finished(draw, layers, (size,))


@st.composite
def words_network(draw):
    """An embedding of whole numbers, with a norm over it."""
    count, width = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    layers = [nn.Embedding(7, width, padding_idx=draw(st.sampled_from([None, 0])))]
    layers += draw(st.sampled_from([[], [nn.LayerNorm(width)]]))
    return (count,), nn.Sequential(*layers, nn.Flatten(), nn.Linear(count * width, 3))


def finished(draw, layers, shape):
    """With a last layer for three classes; nothing where the images are too small for the layers."""
    body = nn.Sequential(*layers)
    with torch.no_grad():
        try:
            width = body(torch.zeros(1, *shape)).shape[1]
        except (RuntimeError, ValueError):
            return None
    return nn.Sequential(*body, nn.Linear(width, 3, bias=draw(st.booleans())))


def drawn(case, seed, count, dtype):
    """The network with drawn parameters, and samples, labels and weights, some of which are zero."""
    shape, model = case
    generator = torch.Generator().manual_seed(seed)
    model = model.to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            normal = torch.randn(parameter.shape, generator=generator, dtype=dtype)
            parameter.copy_(normal / parameter[0].numel() ** 0.5)
    if isinstance(model[0], nn.Embedding):
        samples = torch.randint(7, (count, *shape), generator=generator)
    else:
        samples = torch.randn(count, *shape, generator=generator, dtype=dtype)
    labels = torch.randint(3, (count,), generator=generator)
    weights = torch.rand(count, generator=generator, dtype=dtype) - 0.2
    return model, samples, labels, weights * (torch.rand(count, generator=generator) < 0.8)


SEEDS = st.integers(0, 2**32)
HELD = st.sampled_from([1, 500, 1 << 20])  # patches for one sample at a time, some, or all
CASES = st.one_of(images_network(), images_network(), vectors_network(), words_network()).filter(lambda each: each[1])


@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
@given(CASES, SEEDS, st.integers(1, 6), st.integers(1, 7), st.floats(-9, 9), st.booleans(), st.booleans(), HELD)
def test_clipped_sums_of_any_network_equal_the_plain_loop(case, seed, count, chunk, decades, single, frozen, held):
    # 1e-5 and 1e-10: rounding of the types through a few layers, relative to the sum of what was added; a norm over
    # nearly equal numbers loses more, in single precision, and so does the plain loop
    dtype, tolerance = (torch.float32, 1e-5) if single else (torch.double, 1e-10)
    model, samples, labels, weights = drawn(case, seed, count, dtype)
    if frozen and len(model) > 1:
        next(model.parameters()).requires_grad_(False)
    plain = rows(model, samples, labels)
    model.double()
    of_samples = samples if samples.dtype == torch.int64 else samples.double()
    expected = rows(model, of_samples, labels)
    model.to(dtype)
    norm = expected.norm(dim=1)
    tolerance += 10 * float(((plain - expected).norm(dim=1) / norm.clamp_min(1e-300)).max())
    clip_norm = float(norm.median()) * 10**decades or 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "largest_patches", lambda device: held)
        found = clipped_sum(model, samples, labels, clip_norm, weights, chunk)
    torch.testing.assert_close(found.norm.double(), norm, rtol=tolerance, atol=tolerance * float(norm.max() or 1))
    factor = weights.double() * (clip_norm / norm).clamp_max(1)
    added = float((factor.abs() * norm).sum())
    apart = float((found.gradient.double() - factor @ expected).norm())
    assert apart <= tolerance * added


@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
@given(case=CASES, seed=st.integers(0, 2**32), single=st.booleans(), scale=st.floats(-30, 30), clip=st.floats(-15, 300))
@example(case=NORMED, seed=0, single=True, scale=15.0, clip=0.0)
def test_any_size_of_samples_and_of_the_clip_norm_gives_a_finite_sum_of_bounded_parts_or_is_refused(
    case, seed, single, scale, clip
):
    model, samples, labels, weights = drawn(case, seed, 4, torch.float32 if single else torch.double)
    if samples.dtype != torch.int64:
        samples = samples * 10**scale
    clip_norm = 10**clip
    try:
        found = clipped_sum(model, samples, labels, clip_norm, weights)
    except NotFinite:
        with torch.no_grad():
            assert single  # the squares of a gradient of 1e30 are beyond single precision
            assert max(1.0, float(samples.abs().max())) > 1e10
        return
    except ValueError as error:  # vmap's GroupNorm takes the third power of what it divides by
        assert "torch.float32 does not hold" in str(error)  # noqa: PT017
        assert any(isinstance(layer, nn.GroupNorm) for layer in model)
        assert float(samples.abs().max()) > 1e10
        return
    assert all(torch.isfinite(each).all() for each in found)
    most = float((weights.abs() * found.norm.double().clamp_max(clip_norm)).sum())
    assert float(found.gradient.double().norm()) <= most * (1 + 1e-5) + 1e-15  # what has vanished
    with warnings.catch_warnings(action="error", category=GeneralPath):  # the note comes once a model
        zero = clipped_sum(model, samples, labels, clip_norm, 0 * weights)
    assert not zero.gradient.any()


@given(seed=st.integers(0, 2**32), wrong=st.floats(0.02, 2) | st.floats(-2, -0.02))
def test_a_layer_that_is_off_by_two_percent_is_found_out(seed, wrong):
    """The control: the hook stands for whatever changes a layer's gradient behind the rules' back."""
    model, samples, labels, _ = drawn(((4,), nn.Sequential(nn.Linear(4, 3))), seed, 3, torch.float32)
    hook = nn.modules.module.register_module_forward_hook(
        lambda layer, x, y: (1 + wrong) * y if isinstance(layer, nn.Linear) else None
    )
    try:
        with pytest.raises(ValueError, match=r"parameter '\w+' of layer '0' \(Linear\) is off by"):
            clipped_sum(model, samples, labels, 1.0)
    finally:
        hook.remove()


# Models that mix samples, which no structure shows: one sample alone is compared with the batch -----------------------


def rarely(m, x):
    """Samples with a large number change the others' loss."""
    z, large = F.relu(m.first(x)), (x.abs().amax(1) > 10).to(x)[:, None]
    return m.last(z + (large * z).sum(0) * (1 - large))


def test_a_batch_that_shows_nothing_vouches_for_no_other():
    model = filled(two(centred))
    images, labels, _ = batch(VECTOR, 3, 6)
    clipped_sum(model, images[:1], labels[:1], 1.0)
    with pytest.raises(ValueError, match="expected a model that takes every sample by itself"):
        clipped_sum(model, images[:2], labels[:2], 1.0)
    torch.manual_seed(0)
    model, labels = Layers(lambda m, x: m.head(x - x.mean(0)), head=nn.Linear(4, 2, bias=False)), labels[:3] % 2
    assert clipped_sum(model, torch.ones(3, 4), labels, 1.0).norm.max() == 0  # without a gradient
    for size, said in ((1.0, "every sample by itself"), (1e-4, "of a sample is not that of plain autograd")):
        with pytest.raises(ValueError, match=said):
            clipped_sum(model, size * torch.randn(3, 4), labels, 1.0)


@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
@pytest.mark.parametrize("which", range(4))
def test_one_sample_that_depends_on_the_others_is_found_among_those_that_do_not(which):
    changed = F.one_hot(torch.tensor(which), 4)[:, None]
    model = nn.Sequential(
        nn.PReLU(), Layers(lambda m, x: m.last(x) * (1 + changed if len(x) == 4 else 1), last=nn.Linear(4, 3))
    )
    images, labels, _ = batch(VECTOR, 3, 4)
    with pytest.raises(ValueError, match="every sample by itself"):
        clipped_sum(filled(model), images, labels, 1.0)


@pytest.mark.parametrize("first", [nn.Identity, nn.PReLU])
@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
def test_mixing_in_later_batches_is_found(first):
    torch.manual_seed(0)
    model = nn.Sequential(first(), Layers(rarely, first=nn.Linear(4, 6), last=nn.Linear(6, 3)))

    def rounds(count, large):
        for _ in range(count):
            images = torch.randn(40, 4)
            images[0] *= large
            clipped_sum(model, images, torch.randint(3, (40,)), 1.0)

    rounds(100, 1)
    with pytest.raises(ValueError, match=r"every sample by itself.*; .* so far have no guarantee"):
        rounds(400, 40)  # of which 6 are compared


def test_the_comparison_keeps_no_model_alive(monkeypatch):
    model = filled(mlp())
    images, labels, _ = batch(VECTOR, 3, 6)
    calls = []
    hook = model.register_forward_hook(lambda *_: calls.append(1))
    monkeypatch.setattr(control, "EVERY", math.inf)
    for _ in range(3):
        clipped_sum(model, images, labels, 1.0)
    assert len(calls) == 4  # of the first batch
    monkeypatch.setattr(control, "EVERY", 1)
    for _ in range(3):
        clipped_sum(model, images, labels, 1.0)
    assert len(calls) == 10
    hook.remove()
    gone = weakref.ref(model)
    del model
    assert gone() is None


def test_a_batch_of_small_losses_is_not_compared_as_rounding_is_all_there_is():
    """In single precision the gradient of a sure sample is a difference of nearly equal numbers."""
    model = nn.Linear(4, 3)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([8.0, -8.0, -8.0])[:, None].expand(3, 4))
    images, labels = torch.rand(5, 4, generator=torch.Generator().manual_seed(0)) + 1, torch.zeros(5, dtype=torch.long)
    assert float(clipped_sum(model, images, labels, 1.0).loss.max()) < control.LEAST_LOSS
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    clipped_sum(model, images, labels, 1.0)
    assert len(calls) == 1
    clipped_sum(model, images, labels + 1, 1.0)
    assert len(calls) == 3  # it is made up for later


def test_a_model_with_dropout_is_compared_in_evaluation_mode_without_a_random_number():
    images, labels, _ = batch(VECTOR, 3, 6)
    with pytest.raises(ValueError, match="expected a model that takes every sample by itself"):
        clipped_sum(filled(two(lambda m, x: centred(m, F.dropout(x, 0.5, m.training)))), images, labels, 1.0)
    model = filled(two(lambda m, x: m.last(F.dropout(m.first(x), 0.5, m.training))))
    model.last.eval()
    torch.manual_seed(0)
    first = clipped_sum(model, images, labels, 1.0)
    after = torch.get_rng_state()
    torch.manual_seed(0)
    assert torch.equal(clipped_sum(model, images, labels, 1.0).gradient, first.gradient)
    assert torch.equal(after, torch.get_rng_state())
    assert [layer.training for layer in model.modules()] == [True, True, False]


def test_the_sum_with_dropout_is_that_of_the_masks_that_were_drawn():
    def masked(m, x):
        masks.append(torch.ones(len(x), 4).double().bernoulli(0.5))
        return m.last(m.first(x) * masks[-1])

    masks, given_masks = [], two(lambda m, x: m.last(m.first(x[:, :4]) * x[:, 4:]))
    images, labels, weights = batch(VECTOR, 3, 6)
    found = clipped_sum(filled(two(masked)), images, labels, 1.0, weights).gradient
    given = torch.cat([images, masks[0]], 1)
    assert relative(found, loop(filled(given_masks), given, labels, 1.0, weights)) < 1e-12
    given[:, 4:] = 1
    assert relative(found, loop(filled(given_masks), given, labels, 1.0, weights)) > 1e-2


class Stretched(nn.Module):
    """Gives (x, 0) for a sample alone, and a little more of x for one of several."""

    def __init__(self, more):
        super().__init__()
        self.head, self.more = nn.Linear(1, 2, bias=False), more
        nn.init.constant_(self.head.weight[:1].data, 1.0)
        nn.init.constant_(self.head.weight[1:].data, 0.0)

    def forward(self, x):
        return self.head(x) * (1 + self.more * (len(x) > 1))


@pytest.mark.parametrize("loss", [0.1, 10.0])
def test_a_loss_may_be_off_by_a_share_of_itself(loss):
    def margin(loss):
        """The x with ln(1 + exp(-x)) = loss."""
        return -math.log(math.expm1(loss))

    model = Stretched(margin(loss * (1 + 3e-6)) / margin(loss) - 1).double()  # and 1e-6 is allowed
    images = torch.full((2, 1), margin(loss), dtype=torch.double)
    with pytest.raises(ValueError, match=r"a sample has the loss .* in a batch and .* alone"):
        clipped_sum(model, images, torch.tensor([0, 0]), 1.0)
