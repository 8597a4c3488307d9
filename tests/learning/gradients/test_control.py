"""What changes a layer's weights, hides layers or changes types: right as a plain loop, or refused by name."""

import contextlib
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint

from adascale.learning import clipped_sum
from adascale.learning.gradients import GeneralPath

from .sample_by_sample import VECTOR, Layers, batch, error, filled, loop, mlp, relative, two


def cnn():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(27, 3))


class Square(nn.Module):
    def forward(self, x):
        return x * x


def caching(m, x):
    """Keeps what it computed last, and makes it as an attribute that was not there."""
    m.seen = m.new = m.norm(x)
    return m.last(m.seen)


def rebinding(m, x):
    """Replaces a buffer."""
    m.count = m.count + 1
    return m.layer(x) / m.count


def decaying(m, x):
    """Writes to a parameter."""
    with torch.no_grad():
        m.layer.weight *= 0.5
    return m.layer(x)


def halved(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = m.first(x)
    return m.last(x.float())


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
    "a pruned convolution": (lambda: pruned(cnn(), 0, "weight"), (2, 5, 5)),
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
    model = filled(Layers(caching, norm=nn.LayerNorm(4), last=nn.Linear(4, 3), seen=None))
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


@pytest.mark.parametrize(("compute", "what"), [(rebinding, "count"), (decaying, "layer.weight")])
def test_buffer_or_parameter_that_a_call_changes_is_named(compute, what):
    model = Layers(compute, layer=nn.Linear(4, 3), count=nn.Buffer(torch.zeros(())))
    with pytest.raises(ValueError, match=f"the model changes its own '{what}' when it is called"):
        clipped_sum(model, *batch(VECTOR, 3, 6, torch.float32)[:2], 1.0)


# Hooks and forward functions -----------------------------------------------------------------------------------------


def hooked(register, hook, **options):
    model = filled(mlp())
    getattr(model[0], register)(hook, **options)
    return model


@pytest.mark.parametrize("options", [{}, {"prepend": True}, {"always_call": True}])
@pytest.mark.parametrize("hook", [lambda _, x, y: y * 2, lambda _, x, y: y.sin(), lambda _, x, y: y.mul_(2)])
def test_hooks_may_change_what_a_layer_takes_and_gives(hook, options):
    model = hooked("register_forward_hook", hook, **options)
    assert error(model) < 1e-12
    plain = loop(model, *batch(VECTOR, 3, 6)[:2], 1.0, 1.0)
    model[2].register_forward_pre_hook(lambda layer, inputs: (inputs[0] ** 2,))
    assert error(model) < 1e-12
    assert relative(loop(model, *batch(VECTOR, 3, 6)[:2], 1.0, 1.0), plain) > 1e-2  # it does change something


def test_a_hook_that_uses_a_weight_sends_the_model_to_the_general_path():
    for register, hook in [
        ("register_forward_hook", lambda layer, x, y: y * layer.weight.sum()),
        ("register_forward_hook", lambda layer, x, y: y + F.linear(x[0], layer.weight)),
        ("register_forward_pre_hook", lambda layer, x: (x[0] * layer.weight.sum(0),)),
    ]:
        with pytest.warns(
            GeneralPath, match=r"layer '0' \(Linear\) has more than one call, or a parameter that is used"
        ):
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


# Checkpointing, compilation, types -----------------------------------------------------------------------------------


def test_checkpointing_that_is_not_reentrant_is_right():
    assert error(filled(Checkpointed(False, nn.Linear(4, 4)))) < 1e-12


@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
def test_other_checkpointing_is_refused_with_what_to_do():
    for layers, message in (
        ((nn.Linear(4, 4),), "with use_reentrant=True, which hides the layers"),
        ((nn.Identity(),), "with use_reentrant=True, which hides the layers"),
        (
            (nn.Linear(4, 4), nn.Identity()),
            r"depend on layer 'middle' .* or torch\.utils\.checkpoint with use_r",
        ),
        ((nn.LayerNorm(4),), r"the model fails on a sample alone: .*use_reentrant=True"),
    ):
        with pytest.raises(ValueError, match=message):
            clipped_sum(filled(Checkpointed(True, *layers)), *batch(VECTOR, 3, 6)[:2], 1.0)


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
        clipped_sum(two(halved), images, labels, 1.0)


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
