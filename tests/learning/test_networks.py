"""Networks: those of the papers, and with their data those of one's own."""

from dataclasses import replace

import numpy as np
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


class Centred(nn.Linear):
    """Mixes the samples of a batch."""

    def forward(self, x):
        return super().forward(x - x.mean(0))


UNFIT = [
    lambda: nn.Linear(5, 10),
    lambda: nn.Embedding(17, 10),
    lambda: nn.Linear(64, 4),
    lambda: nn.LazyLinear(10),
]
UNFIT += [
    lambda: nn.Sequential(nn.Linear(64, 10), nn.Flatten(0)),
    lambda: nn.Linear(64, 10).requires_grad_(False),
]
UNFIT += [
    lambda: nn.Sequential(nn.Linear(64, 10), nn.BatchNorm1d(10)),
    lambda: Centred(64, 10),
]
UNFIT += [lambda: nn.Linear(64, 10).double(), lambda: 3, 3]
SEVEN = {
    "images": FLAT.images[:7],
    "labels": DIGITS.labels[:7],
    "test_labels": DIGITS.labels[0].expand(297),
}


def test_networks_have_as_many_parameters_as_the_literature_says():
    known = {
        "mnist_cnn": (26_010, 1, 28),
        "digits_cnn": (9_370, 1, 8),
        "tanh_cnn": (550_570, 3, 32),
    }
    for name, (expected, channels, side) in (
        known | {"resnet32": (466_906, 3, 32)}
    ).items():
        model = build(name, 0)
        assert flatten(model).numel() == expected
        assert model(torch.zeros(2, channels, side, side)).shape == (2, 10)
    for name in ("mnist", "digits"):
        assert (
            size(Training.preset(name).model)
            == getattr(Scenario, name)().num_parameters
        )
    assert (
        size(Training.preset("cifar10").model) == 550_570
    )  # the paper's half a million, about


def test_the_initial_model_is_the_seeds_and_the_global_generator_is_left_alone():
    before = torch.random.get_rng_state()
    first, again, other = (flatten(build("digits_cnn", seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_flatten_and_assign_are_inverse_and_in_the_order_of_torch():
    model = build("mnist_cnn", 0)
    vector = torch.arange(26_010.0)
    assign(model, vector)
    assert torch.equal(flatten(model), vector)
    contiguous = model.to(memory_format=torch.contiguous_format)
    assert torch.equal(
        vector, nn.utils.parameters_to_vector(contiguous.parameters()).detach()
    )
    with pytest.raises(
        ValueError, match=r"parameters must have shape \(26010,\), got \(3,\)"
    ):
        assign(model, torch.zeros(3))


def federation_of(model, dataset=FLAT, scenario=SCENARIO, **changes):
    return FedSGD(
        replace(scenario, num_parameters=size(model)),
        replace(TRAINING, model=model, **changes),
        dataset,
        0,
    )


class Recurrent(nn.Module):
    """The rows of a scan in order, by their grey levels or by words for them."""

    def __init__(self, words):
        super().__init__()
        self.words = nn.Embedding(17, 8) if words else None
        self.layer, self.last = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 10)

    def forward(self, x):
        rows = (
            x.view(-1, 8, 8) if self.words is None else self.words((4 * x + 4).long())
        )
        return self.last(self.layer(rows)[0][:, -1])


@pytest.mark.parametrize("words", [False, True])
def test_a_recurrent_network_trains_on_numbers_and_words(own, words):
    scenario = replace(SCENARIO, batch_size=5.0)
    federation = federation_of(
        own(lambda: Recurrent(words)), FLAT, scenario, learning_rate=0.1
    )
    state = federation.start()
    for _ in range(4):
        state, _ = federation.step(state, np.inf)
    assert federation.evaluate(state)[0] < federation.evaluate(federation.start())[0]


def test_frozen_layers_are_neither_counted_nor_sent_nor_changed(own):
    """The noise of the channel would move what is sent, and the weight decay what is counted."""
    name = own(
        lambda: nn.Sequential(
            nn.Linear(64, 20).requires_grad_(False), nn.Tanh(), nn.Linear(20, 10)
        )
    )
    assert size(name) == 210
    federation, built = federation_of(name, weight_decay=0.1), build(name, 0)
    state, _ = federation.step(federation.start(), 1e-9)
    assert state.parameters.shape == (210,)
    assign(built, state.parameters)  # beside the frozen layer as it was built
    assert not torch.equal(built[2].weight, build(name, 0)[2].weight)
    with torch.no_grad():
        loss = float(F.cross_entropy(built(FLAT.test_images), FLAT.test_labels))
        assert federation.evaluate(state)[0] == pytest.approx(
            loss, rel=1e-6
        )  # single precision
        built[0].weight += 1e-2
        assert float(
            F.cross_entropy(built(FLAT.test_images), FLAT.test_labels)
        ) != pytest.approx(loss, rel=1e-4)


def test_dropout_is_the_seed_s_and_the_round_s_and_evaluation_is_without_it(
    own, monkeypatch
):
    name = own(
        lambda: nn.Sequential(
            nn.Linear(64, 32), nn.Tanh(), nn.Dropout(0.5), nn.Linear(32, 10)
        )
    )
    federation, again = federation_of(name), federation_of(name)
    state = federation.start()
    torch.manual_seed(1)
    first = federation.step(state, np.inf)[0].parameters
    before = torch.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(first, again.step(state, np.inf)[0].parameters)
    torch.manual_seed(1)
    federation.step(state, np.inf)
    assert torch.equal(
        before, torch.get_rng_state()
    )  # the user's own numbers go on as if nothing was
    assert federation.evaluate(state) == federation.evaluate(state)
    assert torch.equal(
        first, federation.step(state, np.inf)[0].parameters
    )  # which is with dropout again
    model = build(name, 0).eval()
    with torch.no_grad():
        loss = F.cross_entropy(model(FLAT.test_images), FLAT.test_labels)
        model.train()
        dropped = F.cross_entropy(model(FLAT.test_images), FLAT.test_labels)
    assert federation.evaluate(state)[0] == pytest.approx(
        float(loss), rel=1e-6
    )  # single precision
    assert abs(float(dropped - loss)) > 1e-3  # the control
    chosen = federation.batches(0)
    monkeypatch.setattr(federation, "batches", lambda round_index: chosen)
    first, second = (
        federation.step(state._replace(round=t), np.inf)[0].parameters for t in (0, 1)
    )
    assert not torch.equal(first, second)  # the masks of another round


def test_network_that_does_not_fit_is_named(own):
    for make in UNFIT:
        name = own(make)
        with pytest.raises(ValueError, match=r"^model 'tests_own:made' "):
            FedSGD(
                replace(SCENARIO, num_parameters=650),
                replace(TRAINING, model=name),
                FLAT,
                0,
            )


def test_samples_made_by_hand_are_checked_too(own):
    for change, message in [
        ({"images": torch.full((1500, 64), float("nan"))}, "images must be finite"),
        (
            {"test_images": 255 * DIGITS.test_images, "images": DIGITS.images},
            r"test_images must be in \[0, 1\]",
        ),
        ({"labels": DIGITS.labels.int()}, "labels of torch.int64"),
        (SEVEN, "num_devices must leave a sample to each"),
    ]:
        with pytest.raises(ValueError, match=message):
            federation_of(own(lambda: nn.Linear(64, 10)), FLAT._replace(**change))
