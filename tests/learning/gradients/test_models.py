"""Models of every kind: the sum is that of a plain loop, or the model is refused by name."""

import contextlib
import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint

from adascale.learning import clipped_sum
from adascale.learning.gradients import GeneralPath, paths

from .sample_by_sample import VECTOR, Layers, batch, centred, filled, loop, mlp, relative, rows, two

IMAGE, SEQUENCE = (4, 6, 6), (3, 8)
general = pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")


def one_layer(compute):
    """A linear layer, used in another way than by one call."""
    return lambda: Layers(lambda m, x: compute(m.layer, x), layer=nn.Linear(4, 4))


def after(layer):
    return nn.Sequential(layer, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4))


def before(layer, *others):
    """A layer before a linear one, as many numbers as it gives."""
    return nn.Sequential(layer, nn.Flatten(), *others)


def sequences(layer, call=lambda layer, x: layer(x)):
    """A layer on sequences, the mean over places, a linear layer."""
    return Layers(lambda m, x: m.last(call(m.layer, x).mean(1)), layer=layer, last=nn.Linear(8, 4))


def changed(change, at=0):
    """A small network with something done to its first layer, or to another."""

    def make():
        model = mlp()
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # the old utilities, which are in use
            change(model[at])
        return model

    return make


def checkpointed(reentrant, middle=None, first=None):
    def compute(m, x):
        return m.last(checkpoint(lambda y: torch.tanh(m.middle(y)), m.first(x), use_reentrant=reentrant))

    return Layers(compute, first=first or nn.Linear(4, 4), middle=middle or nn.Linear(4, 4), last=nn.Linear(4, 3))


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


def hooked(hook, register="register_forward_hook", at=0, **options):
    return changed(lambda layer: getattr(layer, register)(hook, **options), at)


def compiled(part, middle):
    model = nn.Sequential(nn.Linear(4, 5), middle, nn.Linear(5, 3))
    if part == "layer":
        model[0].compile(backend="eager")
        return model
    model = torch.compile(model, backend="eager")
    return model if part == "model" else nn.Sequential(model)


def writing(activation):
    layers = nn.Flatten(), nn.Linear(27, 8), nn.ReLU(inplace=True), nn.Linear(8, 4)
    return nn.Sequential(nn.Conv2d(2, 3, 3), activation, *layers)


def looking(m, x):
    """Calls a layer a second time, without a gradient."""
    with torch.no_grad():
        scale = m.first(x).norm(dim=1, keepdim=True)
    return m.last(m.first(x).tanh() / scale)


def choosing():
    def choose(m, x):
        return m.last(torch.cat([each if each.sum() > 0 else m.norm(each) for each in x.split(1)]).mean(1))

    return Layers(choose, norm=nn.LayerNorm(8), last=nn.Linear(8, 4))


def replayed(layer, x):
    return checkpoint(layer, x, use_reentrant=False)


HOOKS = {"scaled": lambda _, x, y: y * 2, "bent": lambda _, x, y: y.sin(), "written over": lambda _, x, y: y.mul_(2)}
FORMS = {"padding": "same"}, {"groups": 2}, {"dilation": 2}, {"padding": 1, "padding_mode": "circular"}
USED = r"layer '0' \(Linear\) has more than one call, or a parameter that is used"
ALONE = r"vmap\(grad\) fails .* one sample after the other"
# by rules: the network and the shape of a sample
RULED = {
    **{f"output {name}": (hooked(hook), VECTOR) for name, hook in HOOKS.items()},
    "hook put first": (hooked(HOOKS["bent"], prepend=True), VECTOR),
    "hook always called": (hooked(HOOKS["bent"], always_call=True), VECTOR),
    "input squared": (hooked(lambda layer, x: (x[0] ** 2,), "register_forward_pre_hook"), VECTOR),
    "gradient doubled": (hooked(lambda _, x, y: (2 * x[0],), "register_full_backward_hook", at=2), VECTOR),
    "checkpointed": (lambda: checkpointed(False), VECTOR),
    **{f"compiled {part}": (partial(compiled, part, nn.Tanh()), VECTOR) for part in ("model", "block", "layer")},
    "written into": (lambda: writing(nn.ReLU(inplace=True)), (2, 5, 5)),
    "written into within": (lambda: writing(nn.Sequential(nn.Flatten(), nn.ReLU(inplace=True))), (2, 5, 5)),
    "called without a gradient": (lambda: two(looking), VECTOR),
}
# by the general path: also what its note says
NOTED = {
    **{str(form): (partial(lambda f: after(nn.Conv2d(4, 4, 3, **f)), form), IMAGE, "a form") for form in FORMS},
    "transposed": (lambda: after(nn.ConvTranspose2d(4, 4, 3)), IMAGE, r"'0' \(ConvTranspose2d\) has no rule"),
    "LayerNorm": (lambda: before(nn.LayerNorm(8), nn.Linear(24, 4)), SEQUENCE, r"'0' \(LayerNorm\) has no rule"),
    "sequences": (lambda: before(nn.Linear(8, 2), nn.Linear(6, 4)), SEQUENCE, r"form or an input, of shape \(2, 3, 8"),
    "all places": (one_layer(lambda f, x: f(x.view(-1, 4)).view(len(x), -1, 4).sum(1)), (3, 4), "not one input a sam"),
    "Transformer": (
        lambda: sequences(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)),
        SEQUENCE,
        r"'layer.self_attn' \(Mult\w+\), .* layer 'layer.norm2' \(LayerNorm\) have",
    ),
    "not needed": (lambda: sequences(nn.LayerNorm(8), lambda layer, x: x), SEQUENCE, r"\(LayerNorm\) has no rule"),
    "called twice": (
        lambda: nn.Sequential(layer := nn.Linear(4, 4), nn.Tanh(), layer),
        VECTOR,
        r"'0' \(Linear\) has more than one call",
    ),
    "shared": (tied, VECTOR, r"layer '0' \(Linear\), layer '2' \(Linear\) have more than one"),
    "used beside": (one_layer(lambda f, x: F.linear(f(x).tanh(), f.weight)), VECTOR, "more than one call, or a param"),
    "called by keyword": (one_layer(lambda f, x: f(input=x)), VECTOR, r"\(Linear\) was not called with one tensor"),
    "two names": (TwoNames, VECTOR, r"the model \(TwoNames\) has no rule"),
    "parametrized": (changed(parametrizations.weight_norm), VECTOR, r"\(ParametrizedLinear\), .* have no rule"),
    "pruned": (changed(lambda layer: prune.random_unstructured(layer, "weight", 0.5)), VECTOR, r"'0' \(Linear\)"),
    "weight in a hook": (hooked(lambda layer, x, y: y * layer.weight.sum()), VECTOR, USED),
    "weight before": (hooked(lambda f, x: (x[0] * f.weight.sum(0),), "register_forward_pre_hook"), VECTOR, USED),
    "own forward": (
        changed(lambda f: setattr(f, "forward", lambda x: F.linear(x, 2 * f.weight))),
        VECTOR,
        r"'0' \(Linear\) has another forward function than the type",
    ),
    **{part: (partial(compiled, part, nn.LayerNorm(5)), VECTOR, "LayerNorm") for part in ("model", "layer")},
    "LSTM": (lambda: sequences(nn.LSTM(8, 8, batch_first=True), lambda layer, x: layer(x)[0]), SEQUENCE, ALONE),
    "choice by a sample": (choosing, SEQUENCE, ALONE),
    "replayed": (lambda: sequences(nn.LayerNorm(8), replayed), SEQUENCE, ALONE),
}


def assert_equal_to_the_plain_loop(model, images, labels, weights, note):
    clip_norm = float(rows(model, images, labels).norm(dim=1).median())
    with pytest.warns(GeneralPath, match=note) if note else contextlib.nullcontext():
        found = clipped_sum(model, images, labels, clip_norm, weights, chunk=3).gradient
    assert relative(found, loop(model, images, labels, clip_norm, weights)) < 1e-12
    assert relative(found, loop(model, images, labels, 0.9 * clip_norm, weights)) > 1e-3  # the comparison can fail


@pytest.mark.parametrize("kind", RULED)
def test_rules_give_the_plain_loop_whatever_happens_around_a_layer(kind):
    make, shape = RULED[kind]
    assert_equal_to_the_plain_loop(filled(make()), *batch(shape, 3, 5), None)


@general  # a second note, of vmap
@pytest.mark.parametrize("kind", NOTED)
def test_any_other_model_equals_the_plain_loop_and_is_named_in_a_note(kind):
    make, shape, note = NOTED[kind]
    assert_equal_to_the_plain_loop(filled(make()), *batch(shape, 3, 5), note)


def moody(m, x):
    """Calls its layer twice, but on an odd number of samples once, in the same function."""
    half = len(x) // 2
    return m.layer(x) if len(x) % 2 else torch.cat([m.layer(x[:half]), m.layer(x[half:])])


def test_what_shows_in_a_later_chunk_only_sends_all_to_the_general_path():
    model, (images, labels, weights) = filled(Layers(moody, layer=nn.Linear(4, 4))), batch((4,), 4, 7)
    with pytest.warns(GeneralPath, match=r"layer 'layer' \(Linear\) has more than one call"):
        found = clipped_sum(model, images, labels, 0.5, weights, chunk=4).gradient  # 3 samples, then 4
    assert relative(found, loop(model, images, labels, 0.5, weights)) < 1e-13


@general
def test_what_vmap_made_does_not_stay_behind():
    def caching(m, x):
        """Keeps what it computed last, and makes it as an attribute that was not there."""
        m.seen = m.new = m.norm(x)
        return m.last(m.seen)

    model = filled(Layers(caching, norm=nn.LayerNorm(4), last=nn.Linear(4, 3), seen=None))
    for _ in range(2):  # the last call was that of the sample that is computed alone
        clipped_sum(model, *batch(VECTOR, 3, 6)[:2], 1.0)
        assert not torch._C._functorch.is_functorch_wrapped_tensor(model.seen)


def test_the_note_comes_once_a_model_and_says_what_can_be_done():
    images, labels, _ = batch((8,), 4, 4)
    first, second = (filled(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4))) for _ in range(2))
    with pytest.warns(GeneralPath, match=r"adascale\.learning\.gradients\.register"):
        clipped_sum(first, images, labels, 1.0)
    with warnings.catch_warnings(action="error"):
        clipped_sum(first, images, labels, 1.0)
        for _ in range(2):  # turned into an error it is raised every time
            with pytest.raises(GeneralPath):
                clipped_sum(second, images, labels, 1.0)


@general
def test_the_sample_gradients_that_are_written_out_at_a_time_are_bounded(monkeypatch):
    images, labels, weights = batch((8,), 4, 10)
    model = filled(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4)))  # 16 + 36 parameters
    sizes, original = [], paths.by_vmap
    monkeypatch.setattr(paths, "by_vmap", lambda m, x, y: sizes.append(len(x)) or original(m, x, y))
    for largest, expected in ((4 * 52, [3, 3, 4]), (1, [1] * 10)):
        sizes.clear()
        monkeypatch.setattr(paths, "LARGEST", largest)
        found = clipped_sum(model, images, labels, 0.5, weights).gradient
        assert sizes == expected
        assert relative(found, loop(model, images, labels, 0.5, weights)) < 1e-13


@general
def test_dropout_one_by_one_draws_as_if_vmap_had_not_failed():
    model, images, labels = nn.Sequential(nn.Dropout(), choosing()).double(), *batch(SEQUENCE, 4, 3)[:2]
    torch.manual_seed(0)
    expected = [F.cross_entropy(model(images[[i]]), labels[[i]]).item() for i in range(3)]
    torch.manual_seed(0)
    assert clipped_sum(model, images, labels, 1.0).loss.tolist() == pytest.approx(expected, rel=1e-12)


# Models without gradients of samples ----------------------------------------------------------------------------------


def overwriting(m, x):
    x = torch.tanh(m.first(x))
    return m.last(x) + x.mul_(2)[:, :3]


def without_gradient(m, x):
    with torch.no_grad():
        x = m.last(m.first(x))
    return m.first(torch.cat([x, x[:, :1]], 1))


def scripted():
    with warnings.catch_warnings(action="ignore"):  # of its deprecation
        return torch.jit.script(nn.Sequential(nn.Linear(4, 4)))


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


def centred_before_a_norm():
    return nn.Sequential(Layers(lambda m, x: x - x.mean(0) if len(x) > 1 else x), sequences(nn.LayerNorm(8)))


NO_EFFECT, REENTRANT = "the loss does not depend on layer 'last'", "with use_reentrant=True, which hides the layers"
CHANGES = r"the model changes its own '{}' when it is called; expected .* to stay as they are"
REFUSED = {
    "BatchNorm": (lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), r"'1' \(BatchNorm1d\) mixes"),
    "not called": (lambda: two(lambda m, x: m.first(x)), NO_EFFECT),
    "called without gradients": (lambda: two(without_gradient), NO_EFFECT),
    "in place": (lambda: two(overwriting), "the input of layer 'last'"),
    "all frozen": (lambda: nn.Linear(4, 4).requires_grad_(False), "no trainable parameter"),
    "no parameters": (nn.Identity, "no trainable parameter"),
    "TorchScript": (scripted, "compiled by TorchScript"),
    "hook on a gradient": (
        changed(lambda layer: layer.weight.register_hook(lambda gradient: 0 * gradient)),
        "hook on the gradient of its parameter 'weight'",
    ),
    "complex": (lambda: nn.Linear(4, 3, dtype=torch.cfloat), "complex parameter 'weight'"),
    "lazy": (lambda: nn.LazyLinear(3), "has no size yet"),
    "two types": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3).double()),
        r"must be of one type, got torch\.float32 and torch\.float64$",
    ),
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


@general
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
