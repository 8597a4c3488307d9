"""What changes a layer's weights, hides layers or mixes samples: right as a plain loop, or refused by name."""

import contextlib
import math
import warnings
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint

from adascale.learning import clipped_sum
from adascale.learning.gradients import GeneralPath, control

from .sample_by_sample import Layers, batch, filled, loop, relative

VECTOR, IMAGE = (4,), (2, 5, 5)


def mlp():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def cnn():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(27, 3))


def error(model, shape=VECTOR, dtype=torch.double):
    """Of a sum of which half the samples are clipped, against the plain loop."""
    images, labels, weights = batch(shape, 3, 6, dtype)
    norms = torch.stack([loop(model, images[[i]], labels[[i]], float("inf"), weights[[i]]).norm() for i in range(6)])
    clip_norm = float((norms / weights).median())
    return relative(
        clipped_sum(model, images, labels, clip_norm, weights).gradient, loop(model, images, labels, clip_norm, weights)
    )


# Weights that are not the layer's own --------------------------------------------------------------------------------


class Square(nn.Module):
    def forward(self, x):
        return x * x


def two(compute):
    return Layers(lambda m, x: compute(m, x), first=nn.Linear(4, 4), last=nn.Linear(4, 3))


def Centred():
    """Takes the mean over the batch off, so that no sample is by itself."""

    def compute(m, x):
        x = m.first(x)
        return m.last(x - x.mean(0))

    return two(compute)


def Normed():
    return two(lambda m, x: m.last(F.batch_norm(m.first(x), None, None, training=True)))


def Turned():
    """The samples of a batch in another order, for one layer."""
    return two(lambda m, x: m.last(x + m.first(x.flip(0)).flip(0)))


def BatchCentred():
    return Layers(lambda m, x: m.head(x - x.mean(0)), head=nn.Linear(4, 2))


def Rarely():
    """Samples with a large number change the others' loss."""

    def compute(m, x):
        z, large = F.relu(m.first(x)), (x.abs().amax(1) > 10).to(x)[:, None]
        return m.last(z + (large * z).sum(0) * (1 - large))

    return Layers(compute, first=nn.Linear(4, 6), last=nn.Linear(6, 3))


def Dropping(mixing=False):
    def compute(m, x):
        x = F.dropout(m.first(x), 0.5, m.training)
        return m.last(x - x.mean(0) if mixing else x)

    return two(compute)


def Caching():
    """Keeps what it computed last, and makes it as an attribute that was not there."""

    def compute(m, x):
        m.seen = m.new = m.norm(x)
        return m.last(m.seen)

    return Layers(compute, norm=nn.LayerNorm(4), last=nn.Linear(4, 3), seen=None)


def Rebinding():
    """Replaces a buffer."""

    def compute(m, x):
        m.count = m.count + 1
        return m.layer(x) / m.count

    return Layers(compute, layer=nn.Linear(4, 3), count=nn.Buffer(torch.zeros(())))


def Decaying():
    """Writes to a parameter."""

    def compute(m, x):
        with torch.no_grad():
            m.layer.weight *= 0.5
        return m.layer(x)

    return Layers(compute, layer=nn.Linear(4, 3))


def Halved():
    def compute(m, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = m.first(x)
        return m.last(x.float())

    return two(compute)


def Checkpointed(reentrant, middle, first=None):
    def compute(m, x):
        return m.last(checkpoint(lambda y: torch.tanh(m.middle(y)), m.first(x), use_reentrant=reentrant))

    return Layers(compute, first=first or nn.Linear(4, 4), middle=middle, last=nn.Linear(4, 3))


def pruned(model, layer, name):
    prune.random_unstructured(model[layer], name, 0.5)
    return model


def old(function, model, **options):
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # they are deprecated, and in use
        function(model[0], **options)
    return model


def with_rule_like_weight():
    """A hook that makes a layer's weight before every call, as the old utilities do."""
    model = mlp()
    layer = model[0]
    raw = layer.weight
    del layer._parameters["weight"]
    layer.register_parameter("raw", raw)
    layer.weight = raw.detach().clone()
    layer.register_forward_pre_hook(lambda layer, _: setattr(layer, "weight", layer.raw * layer.raw))
    return model


def parametrized(name):
    model = mlp()
    parametrize.register_parametrization(model[0], name, Square())
    return model


NOT_ITS_OWN = {
    "pruned": (lambda: pruned(mlp(), 0, "weight"), VECTOR),
    "a pruned bias": (lambda: pruned(mlp(), 0, "bias"), VECTOR),
    "a pruned convolution": (lambda: pruned(cnn(), 0, "weight"), IMAGE),
    "weight_norm, old": (lambda: old(nn.utils.weight_norm, mlp()), VECTOR),
    "weight_norm": (lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 3))), VECTOR),
    "spectral_norm, evaluated": (lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 3))).eval(), VECTOR),
    "a parametrized weight": (lambda: parametrized("weight"), VECTOR),
    "a hook that makes the weight": (with_rule_like_weight, VECTOR),
}


@pytest.mark.parametrize("kind", NOT_ITS_OWN)
def test_a_weight_that_is_made_from_others_goes_to_the_general_path(kind):
    make, shape = NOT_ITS_OWN[kind]
    model = make().double()
    with pytest.warns(GeneralPath, match=r"Linear\)|Conv2d\)"):
        assert error(model, shape) < 1e-12


@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
def test_what_vmap_made_does_not_stay_behind():
    model = filled(Caching())
    clipped_sum(model, *batch(VECTOR, 3, 6)[:2], 1.0)
    # the last call was that of the sample that is computed alone
    assert not torch._C._functorch.is_functorch_wrapped_tensor(model.seen)
    clipped_sum(model, *batch(VECTOR, 3, 6)[:2], 1.0)
    assert not torch._C._functorch.is_functorch_wrapped_tensor(model.seen)


@pytest.mark.parametrize("new", [False, True])
def test_a_model_that_changes_itself_when_it_is_called_is_refused(new):
    """In training mode spectral_norm takes a step of power iteration at every call: chunks see other functions."""
    model = mlp()
    if new:
        parametrizations.spectral_norm(model[0])
    else:
        old(nn.utils.spectral_norm, model)
    images, labels, _ = batch(VECTOR, 3, 6, torch.float32)
    message = r"the model changes its own '0\.\S*_u' when it is called; expected .* to stay as they are"
    with warnings.catch_warnings(action="ignore", category=GeneralPath), pytest.raises(ValueError, match=message):
        clipped_sum(model, images, labels, 1.0)


@pytest.mark.parametrize(("model", "what"), [(Rebinding(), "count"), (Decaying(), "layer.weight")])
def test_a_buffer_or_parameter_that_a_call_changes_is_named(model, what):
    with pytest.raises(ValueError, match=f"the model changes its own '{what}' when it is called"):
        clipped_sum(model, *batch(VECTOR, 3, 6, torch.float32)[:2], 1.0)


# Hooks and forward functions -----------------------------------------------------------------------------------------


def hooked(register, hook, **options):
    model = filled(mlp())
    getattr(model[0], register)(hook, **options)
    return model


@pytest.mark.parametrize("options", [{}, {"prepend": True}, {"always_call": True}])
@pytest.mark.parametrize("hook", [lambda _, x, y: y * 2, lambda _, x, y: y.sin(), lambda _, x, y: y.mul_(2)])
def test_a_forward_hook_may_change_what_a_layer_gives(hook, options):
    assert error(hooked("register_forward_hook", hook, **options)) < 1e-12


@pytest.mark.parametrize(
    ("register", "hook"),
    [
        ("register_forward_hook", lambda layer, x, y: y * layer.weight.sum()),
        ("register_forward_hook", lambda layer, x, y: y + F.linear(x[0], layer.weight)),
        ("register_forward_pre_hook", lambda layer, x: (x[0] * layer.weight.sum(0),)),
    ],
)
def test_a_hook_that_uses_a_weight_sends_the_model_to_the_general_path(register, hook):
    with pytest.warns(GeneralPath, match=r"layer '0' \(Linear\) has more than one call, or a parameter that is used"):
        assert error(hooked(register, hook)) < 1e-12


def test_a_backward_hook_of_a_layer_has_its_way():
    model = filled(mlp())
    plain = loop(model, *batch(VECTOR, 3, 6)[:2], 1.0, 1.0)
    model[2].register_full_backward_hook(lambda layer, input, output: (2 * input[0],))
    assert relative(loop(model, *batch(VECTOR, 3, 6)[:2], 1.0, 1.0), plain) > 1e-2
    assert error(model) < 1e-12


def test_a_layer_with_a_forward_function_of_its_own_goes_to_the_general_path():
    model = filled(mlp())
    layer = model[0]
    layer.forward = lambda x: F.linear(x, 2 * layer.weight, layer.bias)
    with pytest.warns(GeneralPath, match=r"layer '0' \(Linear\) has another forward function than the type"):
        assert error(model) < 1e-12


# What no structure shows: one sample alone ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.double])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Centred, r"a sample has the loss \S+ in a batch and \S+ alone; expected a model that takes every sample by"),
        (
            Normed,
            r"the model fails on a sample alone \(Expected more than 1 value .* expected a model that takes every",
        ),
        (Turned, r"parameter 'weight' of layer 'first' \(Linear\) is off by 0\.\d+ of the norm"),
    ],
)
def test_samples_that_are_not_taken_by_themselves_are_found_out(make, message, dtype):
    model = filled(make()).to(dtype)
    images, labels, _ = batch(VECTOR, 3, 6, dtype)
    with pytest.raises(ValueError, match=message):
        clipped_sum(model, images, labels, 1.0)
    with pytest.raises(ValueError, match=message):  # and every time
        clipped_sum(model, images, labels, 1.0)


def test_a_batch_of_one_does_not_vouch_for_two():
    model = filled(Centred())
    images, labels, _ = batch(VECTOR, 3, 6)
    clipped_sum(model, images[:1], labels[:1], 1.0)
    with pytest.raises(ValueError, match="expected a model that takes every sample by itself"):
        clipped_sum(model, images[:2], labels[:2], 1.0)


@pytest.mark.parametrize("first", [nn.Identity, nn.PReLU])
@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
def test_mixing_in_later_batches_is_found(first):
    torch.manual_seed(0)
    model = nn.Sequential(first(), Rarely())

    def rounds(count, large):
        for _ in range(count):
            images = torch.randn(40, 4)
            images[0] *= large
            clipped_sum(model, images, torch.randint(3, (40,)), 1.0)

    rounds(200, 1)
    with pytest.raises(ValueError, match=r"every sample by itself.*; .* so far have no guarantee"):
        rounds(400, 40)  # of which 6 are compared


def test_hook_for_all_modules_is_found_out():
    model, (images, labels, _) = filled(mlp()), batch(VECTOR, 3, 6)
    doubled = lambda layer, x, y: 2 * y if isinstance(layer, nn.Linear) else None  # noqa: E731
    hook = nn.modules.module.register_module_forward_hook(doubled)
    try:
        with pytest.raises(ValueError, match="a hook for all modules"):
            clipped_sum(model, images, labels, 1.0)
    finally:
        hook.remove()
    assert error(model) < 1e-12  # the control


def test_the_same_batches_are_compared_again():
    def calls():
        model, seen = filled(mlp()), []
        model.register_forward_hook(lambda *_: seen.append(1))
        counts = []
        for k in range(300):
            clipped_sum(model, images * (1 + k / 300), labels, 1.0)
            counts.append(len(seen))
        return counts

    images, labels, _ = batch(VECTOR, 3, 6)
    assert calls() == calls()
    assert 301 < calls()[-1] < 312  # 1 + 299/64 = 5.7 comparisons, each a call


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


# Dropout -------------------------------------------------------------------------------------------------------------


def test_a_model_with_dropout_is_compared_in_evaluation_mode():
    images, labels, _ = batch(VECTOR, 3, 6)
    clipped_sum(filled(Dropping()), images, labels, 1.0)
    with pytest.raises(ValueError, match="expected a model that takes every sample by itself"):
        clipped_sum(filled(Dropping(mixing=True)), images, labels, 1.0)


def test_the_comparison_draws_no_random_number_and_leaves_every_mode_as_it_was():
    images, labels, _ = batch(VECTOR, 3, 6)
    model = filled(Dropping())
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


# Checkpointing, compilation, types -----------------------------------------------------------------------------------


def test_checkpointing_that_is_not_reentrant_is_right():
    assert error(filled(Checkpointed(False, nn.Linear(4, 4)))) < 1e-12


@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Checkpointed(True, nn.Linear(4, 4)), "with use_reentrant=True, which hides the layers"),
        (lambda: Checkpointed(True, nn.Identity()), "with use_reentrant=True, which hides the layers"),
        (
            lambda: Checkpointed(True, nn.Linear(4, 4), nn.Identity()),
            r"the loss does not depend on layer 'middle' \(Linear\).* or torch\.utils\.checkpoint with use_r",
        ),
        (lambda: Checkpointed(True, nn.LayerNorm(4)), r"the model fails on a sample alone: .*use_reentrant=True"),
    ],
)
def test_other_checkpointing_is_refused_with_what_to_do(make, message):
    with pytest.raises(ValueError, match=message):
        clipped_sum(filled(make()), *batch(VECTOR, 3, 6)[:2], 1.0)


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("part", ["the model", "a block", "a layer"])
def test_a_compiled_model_is_right(part, general):
    model = filled(nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5) if general else nn.Tanh(), nn.Linear(5, 3)))
    if part == "the model":
        model = torch.compile(model, backend="eager")
    elif part == "a block":
        model = nn.Sequential(torch.compile(model, backend="eager"))
    else:
        model[0].compile(backend="eager")
    with pytest.warns(GeneralPath) if general else contextlib.nullcontext():
        assert error(model) < 1e-12


def test_autocast_is_refused_around_the_model_and_within():
    images, labels, _ = batch(VECTOR, 3, 6, torch.float32)
    with torch.autocast("cpu"), pytest.raises(ValueError, match=r"without torch\.autocast, got it on for 'cpu'"):
        clipped_sum(mlp(), images, labels, 1.0)
    with pytest.raises(ValueError, match=r"layer 'first' \(Linear\) computes in torch\.bfloat16, and its parameter"):
        clipped_sum(Halved(), images, labels, 1.0)


# Small losses are no excuse -----------------------------------------------------------------------------------------


def test_a_model_that_mixes_samples_is_found_out_at_losses_below_one():
    torch.manual_seed(0)
    images, labels = 0.3 * torch.randn(3, 4), torch.tensor([0, 1, 0])
    model = BatchCentred()
    with torch.no_grad():
        assert nn.functional.cross_entropy(model(images), labels, reduction="none").max() < 1
    with pytest.raises(ValueError, match="every sample by itself"):
        clipped_sum(model, images, labels, 1.0)


def test_a_model_that_mixes_samples_is_found_out_by_short_gradients():
    torch.manual_seed(0)
    model = BatchCentred()
    model.head.bias.requires_grad_(False)
    images, labels = 1e-4 * torch.randn(3, 4), torch.tensor([0, 1, 0])
    with pytest.raises(ValueError, match="gradient of a sample is not that of plain autograd"):
        clipped_sum(model, images, labels, 1.0)


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


def test_a_batch_without_a_gradient_vouches_for_no_other():
    torch.manual_seed(0)
    model = BatchCentred()
    model.head.bias.requires_grad_(False)
    labels = torch.tensor([0, 1, 0])
    assert clipped_sum(model, torch.ones(3, 4), labels, 1.0).norm.max() == 0
    with pytest.raises(ValueError, match="every sample by itself"):
        clipped_sum(model, torch.randn(3, 4), labels, 1.0)


def test_in_half_precision_a_loss_may_be_off_by_half_of_itself():
    images, labels = torch.full((2, 1), -1.0, dtype=torch.bfloat16), torch.tensor([0, 0])
    found = clipped_sum(Stretched(0.0).bfloat16(), images, labels, 1.0)
    assert float(found.loss[0]) == pytest.approx(1.31, abs=0.01)  # ln(1 + e)
    with pytest.raises(ValueError, match=r"a sample has the loss .* in a batch and .* alone"):
        clipped_sum(Stretched(1.0).bfloat16(), images, labels, 1.0)  # ln(1 + exp(2)), 1.62 times as much


def test_what_a_model_draws_in_evaluation_mode_is_not_drawn_by_the_comparison():
    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.randn_like(x)

    model, images, labels = nn.Sequential(nn.Linear(4, 2), Noisy()), torch.ones(3, 4), torch.tensor([0, 1, 0])
    states = []
    for _ in ("compared", "not any more"):
        torch.manual_seed(0)
        clipped_sum(model, images, labels, 1.0)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_the_least_clipping_norm_that_is_named_is_allowed():
    least = (torch.finfo(torch.float).tiny / torch.finfo(torch.float).eps) ** 0.5
    found = clipped_sum(nn.Linear(4, 2), torch.randn(3, 4), torch.tensor([0, 1, 1]), least)
    assert torch.isfinite(found.gradient).all()
    with pytest.raises(ValueError, match="clip_norm must be >= 3e-16"):
        clipped_sum(nn.Linear(4, 2), torch.randn(3, 4), torch.tensor([0, 1, 1]), 0.99 * least)


@pytest.mark.parametrize(
    ("count", "said"), [(6, r"'5' \(LayerNorm\) have no"), (9, r"'5' \(LayerNorm\) and 3 more have")]
)
def test_the_note_counts_the_layers_beyond_six(count, said):
    model = filled(nn.Sequential(*(nn.LayerNorm(4) for _ in range(count)), nn.Linear(4, 3)))
    with pytest.warns(GeneralPath, match=said):
        clipped_sum(model, *batch(VECTOR, 3, 4)[:2], 1.0)
