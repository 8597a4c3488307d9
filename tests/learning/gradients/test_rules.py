"""Rules of one's own, and what the built-in ones cover."""

import textwrap
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from adascale.learning import clipped_sum
from adascale.learning.gradients import GeneralPath, Outer, Rows, SampleGradients, register, rules

from .sample_by_sample import Layers, batch, error, filled, loop, problem, relative


def affine(bases=(nn.Module,), forward=lambda self, x: self.a * x + self.b):
    """A new type of layers, without a rule, and a network with one of it."""

    def make(self):
        nn.Module.__init__(self)
        self.a, self.b = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))

    kind = type("Affine", bases, {"__init__": make, "forward": forward})
    return kind, filled(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), kind(), nn.Tanh(), nn.Linear(4, 3)))


def test_the_example_of_the_documentation_works(recwarn):
    lines = register.__doc__.partition(".. code-block:: python\n\n")[2].partition("    The registry belongs")[0]
    example = {"torch": torch, "nn": nn}
    exec(textwrap.dedent(lines), example)
    assert error(filled(nn.Sequential(nn.Linear(4, 4), example["Affine"](4), nn.Linear(4, 3)))) < 1e-13
    assert not recwarn.list  # no general path
    assert len(textwrap.dedent(lines).strip().splitlines()) <= 13  # import, layer and rule


def test_a_layer_with_a_rule_that_gives_more_than_a_tensor_takes_the_general_path():
    kind, model = affine(forward=lambda self, x: (self.a * x + self.b, x))
    model.insert(3, Layers(lambda m, pair: pair[0]))
    register(kind)(lambda layer, x, e: {layer.a: e * x, layer.b: e})
    with pytest.warns(GeneralPath, match=r"layer '2' \(Affine\) was not called with one tensor, to give another"):
        assert error(model) < 1e-13


def test_a_layer_with_a_rule_may_hold_another_layer():
    kind, model = affine(forward=lambda self, x: self.a * self.inner(x) + self.b)
    model[2].inner = filled(nn.Linear(4, 4), 1)
    register(kind)(lambda f, x, e: {f.a: e * nn.functional.linear(x, f.inner.weight, f.inner.bias), f.b: e})
    assert error(model) < 1e-13


def test_one_rule_serves_several_types_and_uses_parameters():
    kinds, models = zip(*(affine(forward=lambda self, x: self.a * x * self.b * self.b) for _ in range(2)), strict=True)
    register(*kinds)(lambda layer, x, e: {layer.a: e * x * layer.b**2, layer.b: 2 * e * x * layer.a * layer.b})
    assert max(map(error, models)) < 1e-13  # and no warning of the general path


def test_a_later_rule_takes_the_place_of_an_earlier_one():
    kind, model = affine()
    register(kind)(lambda layer, x, e: {layer.a: 2 * e * x, layer.b: e})
    with pytest.raises(ValueError, match=r"parameter 'a' of layer '2' \(Affine\) is off by 0\.\d+ of the norm"):
        error(model)
    register(kind)(lambda layer, x, e: {layer.a: e * x, layer.b: e})
    assert error(model) < 1e-13  # and no warning, which would be an error


def test_a_rule_whose_norms_are_not_those_of_its_sum_is_found_out():
    class Short(Rows):
        def square_norm(self):
            return 0.5 * super().square_norm()

    assert isinstance(Short(torch.ones(2, 4)), SampleGradients)
    kind, model = affine()
    register(kind)(lambda layer, x, e: {layer.a: e * x, layer.b: Short(e)})
    with pytest.raises(ValueError, match=r"parameter 'b' of layer '2' \(Affine\) is off by"):
        error(model)


def test_a_subclass_does_not_take_its_parent_s_rule():
    kind, _ = affine()
    register(kind)(lambda layer, x, e: {layer.a: e * x, layer.b: e})
    _, model = affine((kind,), forward=lambda self, x: self.a * x.cos() + self.b)
    with pytest.warns(GeneralPath, match=r"layer '2' \(Affine\) has no rule"):
        assert error(model) < 1e-13


def test_a_rule_that_does_not_cover_the_layer_gives_way_to_the_general_path():
    for rule, reason in [
        (lambda layer, x, e: None, r"layer '2' \(Affine\) has a form or an input, of shape \(6, 4\), that the rule"),
        (lambda layer, x, e: {layer.a: e * x}, r"layer '2' \(Affine\) has a rule that leaves out its parameter 'b'"),
    ]:
        kind, model = affine()
        register(kind)(rule)
        with pytest.warns(GeneralPath, match=reason):
            assert error(model) < 1e-13


class Wrong(NamedTuple):
    norm: Tensor
    total: Tensor

    def square_norm(self):
        return self.norm

    def weighted_sum(self, factor):
        return self.total


def test_a_rule_that_gives_something_else_is_an_error_that_names_the_layer():
    for rule, message in [
        (lambda e: e.sum(0), r"a tensor must have shape \(6, 4\), got \(4,\)"),
        (lambda e: e[:, :3], r"a tensor must have shape \(6, 4\), got \(6, 3\)"),
        (lambda e: Rows(e[:, :3]), r"weighted_sum\(\) .* must have shape \(4,\), got \(3,\)"),
        (lambda e: Outer(e, e), r"weighted_sum\(\) .* must have shape \(4,\), got \(4, 4\)"),
        (lambda e: Wrong(e, e[0]), r"square_norm\(\) .* must have shape \(6,\), got \(6, 4\)"),
        (lambda e: [e], r"expected a tensor or SampleGradients, got list"),
        (None, r"the rule of layer '2' \(Affine\) must give a mapping .* got Tensor"),
    ]:
        kind, model = affine()
        register(kind)(lambda layer, x, e, rule=rule: {layer.a: rule(e), layer.b: e} if rule else e)
        with pytest.raises(ValueError, match=message) as said:
            error(model)
        assert "layer '2' (Affine)" in str(said.value)
        assert "parameter 'a'" in str(said.value) or rule is None


@pytest.mark.parametrize("wrong", [(), (3,), (nn.Linear(1, 1),), (nn.Linear, int)])
def test_only_types_of_layers_have_rules(wrong):
    with pytest.raises(ValueError, match=r"layer_types must be subclasses of torch\.nn\.Module"):
        register(*wrong)


@pytest.mark.parametrize("shape", [(4,), (4, 5), (4, 3, 2), (4, 2, 2, 2)])
def test_group_norm_has_any_number_of_places(shape):
    model = filled(nn.Sequential(nn.GroupNorm(2, 4), nn.Flatten()))
    images, labels, weights = batch(shape, 4, 5)
    found = clipped_sum(model, images, labels, 0.5, weights).gradient
    assert relative(found, loop(model, images, labels, 0.5, weights)) < 1e-12


def test_patches_are_written_out_for_a_few_samples_at_a_time(monkeypatch):
    model, images, labels, weights = problem("mnist_cnn", torch.double, 11)
    written, original = [], rules.patches
    monkeypatch.setattr(rules, "patches", lambda layer, x: written.append(len(x)) or original(layer, x))
    monkeypatch.setattr(rules, "largest_patches", lambda device: 3 * 169 * 64)  # of the first layer's 3 samples
    clipped_sum(model, images, labels, 0.3, weights)
    assert written[:4] == [3, 3, 3, 2]
