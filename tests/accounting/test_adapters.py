"""The accountants for Opacus and dp_accounting, in the hands of both."""

import math
import sys
from importlib import util

import dp_accounting as dp
import pytest
import torch
from dp_accounting import privacy_accountant_test
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from opacus import PrivacyEngine, accountants
from torch.utils.data import DataLoader, TensorDataset

from adascale.accounting import delta, epsilon
from adascale.accounting import opacus as adapter
from adascale.accounting.dp_accounting import CertifiedAccountant


@pytest.mark.filterwarnings(
    "ignore:Secure RNG:UserWarning", "ignore:Full backward hook:UserWarning"
)
def test_opacus_trains_with_the_accountant_and_restores_it():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 2), torch.randn(40, 1))
    model = torch.nn.Linear(2, 1)
    engine = PrivacyEngine(accountant="adascale")
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=8),
        target_epsilon=3.0,
        target_delta=1e-5,
        epochs=2,
        max_grad_norm=1.0,
        poisson_sampling=True,
    )
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    spent = engine.get_epsilon(1e-5)
    assert engine.accountant.history == [(optimizer.noise_multiplier, 0.2, 10)]
    assert spent == epsilon([(0.2, optimizer.noise_multiplier, 10)], 1e-5).upper
    assert 2.9 < spent <= 3.0
    restored = accountants.create_accountant("adascale")
    restored.load_state_dict(engine.accountant.state_dict())
    assert restored.get_epsilon(1e-5) == spent == epsilon(restored, 1e-5).upper
    assert len(restored) == 10


def test_history_collects_equal_steps_and_no_noise_is_no_guarantee():
    accountant = adapter.CertifiedAccountant()
    assert accountant.get_epsilon(1e-5) == 0.0
    for sigma in (1.0, 1.0, 2.0, 1.0):
        accountant.step(noise_multiplier=sigma, sample_rate=0.1)
    assert accountant.history == [(1.0, 0.1, 2), (2.0, 0.1, 1), (1.0, 0.1, 1)]
    accountant.step(noise_multiplier=0.0, sample_rate=0.0)
    spent = epsilon([(0.1, 1.0, 3), (0.1, 2.0, 1)], 1e-5).upper
    assert accountant.get_epsilon(1e-5) == spent
    accountant.step(noise_multiplier=0.0, sample_rate=0.1)
    assert accountant.get_epsilon(1e-5) == math.inf


@pytest.mark.parametrize("is_installed", [True, False])
def test_an_older_or_missing_opacus_is_one_error(monkeypatch, is_installed):
    monkeypatch.delattr(accountants, "register_accountant")
    monkeypatch.delitem(sys.modules, "adascale.accounting.opacus")
    if not is_installed:
        monkeypatch.setattr(util, "find_spec", lambda _: None)
    got = "got an older one" if is_installed else "which is not installed"
    with pytest.raises(ImportError, match=rf"needs Opacus 1\.6 or later, {got}"):
        import adascale.accounting.opacus  # noqa: F401


class TestOfDpAccounting(privacy_accountant_test.PrivacyAccountantTest):
    """The tests that dp_accounting has for every accountant."""

    def _make_test_accountants(self):
        return [CertifiedAccountant()]


def test_composed_events_have_the_upper_bounds():
    sampled = dp.PoissonSampledDpEvent(0.02, dp.GaussianDpEvent(1.0))
    event = dp.ComposedDpEvent(
        [dp.SelfComposedDpEvent(sampled, 50), dp.NoOpDpEvent(), dp.GaussianDpEvent(8.0)]
    )
    accountant = CertifiedAccountant().compose(event, 2)
    events = [(0.02, 1.0, 100), (1.0, 8.0, 2)]
    ours = accountant.get_epsilon(1e-5)
    assert ours == epsilon(events, 1e-5).upper
    assert accountant.get_delta(1.0) == delta(events, 1.0).upper
    theirs = dp.pld.PLDAccountant().compose(event, 2)
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)
    assert accountant.get_epsilon(0) == math.inf
    assert accountant.get_epsilon(1) == accountant.get_delta(math.inf) == 0
    no_noise = dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(0.0))
    assert accountant.compose(no_noise).get_epsilon(0.5) == math.inf


RELATION = dp.NeighboringRelation
ADD_OR_REMOVE, REPLACE, SPECIAL = RELATION
GAUSSIAN = dp.GaussianDpEvent(3.0)
SAMPLED = dp.PoissonSampledDpEvent(0.1, GAUSSIAN)
TREE = dp.SingleEpochTreeAggregationDpEvent(5.0, [8, 3])
RESPONSE = dp.RandomizedResponseDpEvent(0.5, 4)
LAPLACE = DiscreteLaplaceDpEvent(0.3, 2)


@pytest.mark.parametrize(
    ("event", "relations"),
    [
        (GAUSSIAN, (ADD_OR_REMOVE, REPLACE, SPECIAL)),
        (SAMPLED, (ADD_OR_REMOVE, SPECIAL)),
        (RESPONSE, (REPLACE, SPECIAL)),
        (dp.RandomizedResponseDpEvent(0.4, 2), (REPLACE, SPECIAL)),
        (LAPLACE, (ADD_OR_REMOVE, SPECIAL)),
    ],
)
def test_events_of_every_relation_are_those_of_dp_accounting(event, relations):
    """Ten in a list, as PLDAccountant of 0.6.0 counts a randomised response once, whatever its count."""
    for relation in relations:
        theirs = dp.pld.PLDAccountant(relation)
        theirs.compose(dp.ComposedDpEvent([event] * 10))
        ours = CertifiedAccountant(relation).compose(event, 10)
        for target in (1e-6, 1e-3):
            expected = theirs.get_epsilon(target)
            assert ours.get_epsilon(target) == pytest.approx(expected, rel=2e-3)


def test_gaussian_mechanisms_on_one_batch_are_one():
    both = dp.ComposedDpEvent([GAUSSIAN, dp.SelfComposedDpEvent(GAUSSIAN, 3)])
    twice = dp.PoissonSampledDpEvent(0.5, dp.PoissonSampledDpEvent(0.2, both))
    ours = CertifiedAccountant().compose(twice, 10)
    assert ours.get_epsilon(1e-5) == epsilon([(0.1, 3.0 / 2, 10)], 1e-5).upper


def test_a_tree_is_one_gaussian_mechanism():
    ours = CertifiedAccountant(SPECIAL).compose(TREE).get_epsilon(1e-5)
    assert ours == epsilon([(1, 5.0 / 4**0.5)], 1e-5).upper
    theirs = dp.rdp.RdpAccountant(neighboring_relation=SPECIAL).compose(TREE)
    assert 0.9 * theirs.get_epsilon(1e-5) < ours < theirs.get_epsilon(1e-5)


def test_no_noise_is_no_guarantee_and_one_answer_says_nothing():
    for event in (dp.RandomizedResponseDpEvent(0, 4), DiscreteLaplaceDpEvent(0, 2)):
        assert CertifiedAccountant(SPECIAL).compose(event).get_epsilon(0.1) == math.inf
    alone = dp.RandomizedResponseDpEvent(0.5, 1)
    assert CertifiedAccountant(REPLACE).compose(alone).get_epsilon(1e-9) == 0.0


@pytest.mark.parametrize(
    ("event", "relations"),
    [
        (dp.LaplaceDpEvent(1.0), RELATION),
        (dp.SampledWithoutReplacementDpEvent(10, 2, GAUSSIAN), RELATION),
        (dp.PoissonSampledDpEvent(0.5, LAPLACE), RELATION),
        (SAMPLED, [REPLACE]),
        (TREE, [ADD_OR_REMOVE, REPLACE]),
        (RESPONSE, [ADD_OR_REMOVE]),
        (LAPLACE, [REPLACE]),
    ],
)
def test_what_is_not_composed_exactly_is_refused(event, relations):
    for relation in relations:
        assert not CertifiedAccountant(relation).supports(event)
