"""Networks: those of the papers, and with their data your own."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from adascale import Scenario
from adascale.learning import FedSGD, Training, data
from adascale.learning.models import assign, build, flatten, size

DIGITS = data.load("digits")
SCENARIO = Scenario.digits()
TRAINING = Training.preset("digits")
FLAT = DIGITS._replace(
    images=DIGITS.images.flatten(1), test_images=DIGITS.test_images.flatten(1)
)


@pytest.mark.parametrize(
    ("name", "parameters", "image"),
    [
        ("mnist_cnn", 26_010, (1, 28, 28)),
        ("digits_cnn", 9_370, (1, 8, 8)),
        ("tanh_cnn", 550_570, (3, 32, 32)),
        ("resnet32", 466_906, (3, 32, 32)),
    ],
)
def test_networks_have_as_many_parameters_as_the_literature_says(
    name, parameters, image
):
    model = build(name, 0)
    assert len(flatten(model)) == size(name) == parameters
    assert model(torch.zeros(2, *image)).shape == (2, 10)


@pytest.mark.parametrize("name", ["mnist", "digits"])
def test_presets_count_the_parameters_of_their_network(name):
    network = Training.preset(name).model
    assert size(network) == getattr(Scenario, name)().num_parameters


def test_initial_model_depends_on_the_seed_alone():
    before = torch.random.get_rng_state()
    first, again, other = (flatten(build("digits_cnn", seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.random.get_rng_state())


def federation_of(model, **changes):
    scenario = replace(SCENARIO, num_parameters=size(model), batch_size=5.0)
    return FedSGD(scenario, replace(TRAINING, model=model, **changes), FLAT, 0)


def plain_loss(model, parameters):
    """Return the loss on the test set by plain PyTorch."""
    assign(model, parameters)
    with torch.no_grad():
        return float(F.cross_entropy(model(FLAT.test_images), FLAT.test_labels))


def half_frozen():
    frozen = nn.Linear(64, 20).requires_grad_(False)
    return nn.Sequential(frozen, nn.Tanh(), nn.Linear(20, 10))


def test_frozen_layers_are_neither_counted_nor_sent_nor_changed(own):
    """The noise of the channel would move what is sent, and the weight decay what is counted."""
    name = own(half_frozen)
    assert size(name) == 210
    federation = federation_of(name, weight_decay=0.1)
    state, _ = federation.step(federation.start(), 1e-9)
    loss = federation.evaluate(state)[0]
    model = build(name, 0)
    assert loss == pytest.approx(plain_loss(model, state.parameters), rel=1e-6)
    assert not torch.equal(model[2].weight, build(name, 0)[2].weight)
    with torch.no_grad():
        model[0].weight += 1e-2  # negative control
    assert loss != pytest.approx(plain_loss(model, state.parameters), rel=1e-4)


def with_dropout():
    layers = nn.Linear(64, 32), nn.Tanh(), nn.Dropout(0.5), nn.Linear(32, 10)
    return nn.Sequential(*layers)


def test_evaluation_is_without_dropout(own):
    name = own(with_dropout)
    federation = federation_of(name)
    model = build(name, 0)
    start = federation.start()
    loss, accuracy = federation.evaluate(start)
    expected = plain_loss(model.eval(), start.parameters)
    assert loss == pytest.approx(expected, rel=1e-6)  # single precision
    assert abs(plain_loss(model.train(), start.parameters) - loss) > 1e-3
    labels = model.eval()(FLAT.test_images).argmax(1)
    assert accuracy == float((labels == FLAT.test_labels).double().mean())


UNFIT = [
    nn.Linear(5, 10),
    nn.Embedding(17, 10),
    nn.Linear(64, 4),
    nn.Linear(64, 10).double(),
    nn.Sequential(nn.Linear(64, 10), nn.Flatten(0)),
    nn.Sequential(nn.Linear(64, 10), nn.BatchNorm1d(10)),
]


@pytest.mark.parametrize("model", UNFIT)
def test_network_that_does_not_fit_takes_no_step(own, model):
    name = own(lambda: model)
    with pytest.raises((ValueError, RuntimeError)):
        (federation := federation_of(name)).step(federation.start(), 1.0)
