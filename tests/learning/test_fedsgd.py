"""Rounds and whole trainings, on scikit-learn's digits."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import nn

from adascale import Problem, Scenario, policies
from adascale.learning import Diverged, FedSGD, Training, clipped_sum, data, train
from adascale.learning.devices import find_device
from adascale.learning.models import build
from adascale.learning.training import COLUMNS

from ..problems import make

DIGITS = data.load("digits")
SCENARIO = Scenario.digits()
TRAINING = Training.preset("digits")
PLAIN = replace(TRAINING, momentum=0.0, weight_decay=0.0)
CLIP = 3.0  # about the median norm of a sample gradient of the initial model
problem_of = partial(make, SCENARIO, 0.5)


def trained(seed, **options):
    problem = problem_of(seed, 6)
    w = policies.EqualAlloc().schedule(problem)
    return train(problem, w, TRAINING, DIGITS, seed, every=3, **options)


def federation_of(training=PLAIN, **changes):
    return FedSGD(replace(SCENARIO, **changes), training, DIGITS, 0)


def assert_equal_states(first, second):
    assert first.round == second.round
    assert torch.equal(first.parameters, second.parameters)
    assert torch.equal(first.velocity, second.velocity)


@pytest.mark.parametrize(
    ("senders", "sizes", "weights"),
    [
        (None, (30.0,) * 10, (*range(1, 11),)),
        (np.arange(10) % 3 != 0, (*range(20, 30),), None),
    ],
)
def test_round_is_the_weighted_mean_of_clipped_averages(senders, sizes, weights):
    federation = federation_of(clip_norm=CLIP, batch_size=sizes, weights=weights)
    state = federation.start()
    model = build("digits_cnn", 0)
    share = np.array(weights if senders is None else senders, dtype=float)
    received = torch.zeros_like(state.parameters)
    for m, chosen in enumerate(federation.batches(0)):
        sample = DIGITS.images[chosen], DIGITS.labels[chosen]
        total = clipped_sum(model, *sample, CLIP).gradient
        received += total / sizes[m] * share[m] / share.sum()
    after, record = federation.step(state, np.inf, senders_t=senders)
    assert 0 < record.clipped < 1
    step = (state.parameters - after.parameters) / PLAIN.learning_rate
    # 2e-5: the step is a difference of parameters in single precision
    assert float((step - received).norm() / received.norm()) < 2e-5


def test_server_steps_as_torch_does():
    federation = federation_of(replace(TRAINING, momentum=0.9, weight_decay=1e-2))
    plain = federation_of()
    state = federation.start()
    parameters = nn.Parameter(state.parameters.clone())
    rate = TRAINING.learning_rate
    server = torch.optim.SGD([parameters], rate, 0.9, weight_decay=1e-2)
    for _ in range(4):
        # what was received, from a plain step of the same model in the same round
        at_rest = state._replace(velocity=torch.zeros_like(state.velocity))
        after = plain.step(at_rest, 1e-9)[0].parameters
        parameters.grad = (state.parameters - after) / rate
        server.step()
        state, _ = federation.step(state, 1e-9)
        # single precision
        torch.testing.assert_close(state.parameters, parameters.data, rtol=0, atol=3e-6)


def test_round_without_a_sample_brings_noise_alone():
    federation = federation_of(batch_size=1e-6)
    start = federation.start()
    after, record = federation.step(start, np.inf)
    assert record.batch_size == 0
    assert np.isnan([record.loss, record.clipped]).all()
    assert torch.equal(after.parameters, start.parameters)
    assert not torch.equal(federation.step(start, 1e-9)[0].parameters, start.parameters)


def test_noise_of_a_round_has_the_energy_of_the_problem():
    problem = problem_of(rounds=12)
    w = policies.EqualAlloc().schedule(problem)
    federation = federation_of()
    eta = problem.eta(w)
    energies = []
    for t in range(12):
        state = federation.start()._replace(round=t)
        quiet, noisy = (federation.step(state, x)[0].velocity for x in (np.inf, eta[t]))
        energies.append(float((noisy - quiet).double().square().sum()))
    # ||n||^2 over its mean is chi-square with 12 d degrees, over 12 d; 99.9 %, at a fixed seed
    low, high = np.array(stats.chi2.interval(0.999, 12 * 9_370)) / (12 * 9_370)
    assert low < np.mean(energies / (w / 2)) < high
    assert not low < np.mean(energies / w) < high  # negative control


ETA = float(problem_of(rounds=3).max_eta.min())


def test_same_seeds_give_the_same_history_to_the_last_bit():
    first = trained(0)
    again = trained(0)
    pd.testing.assert_frame_equal(first.history, again.history, check_exact=True)
    assert_equal_states(first.state, again.state)
    assert not torch.equal(first.state.parameters, trained(1).state.parameters)


def test_budgets_share_batches_and_noise_directions():
    federation = federation_of()
    start = federation.start()
    quiet = federation.step(start, np.inf)[0].velocity
    first, second = (
        federation.step(start, eta)[0].velocity - quiet for eta in (ETA, ETA / 9)
    )
    # single precision
    torch.testing.assert_close(second, 3 * first, rtol=1e-3, atol=1e-5)


def test_history_says_what_was_leaked_so_far():
    problem = problem_of(rounds=7)
    w = policies.EqualAlloc().schedule(problem)
    history = train(problem, w, TRAINING, DIGITS, 0, every=3).history
    assert history["round"].tolist() == list(range(7))
    np.testing.assert_allclose(history.noise_energy, w, rtol=1e-14)
    for t, row in history.iterrows():
        begun = Problem(SCENARIO, problem.min_gain[: t + 1], 0.5)
        epsilon = float(begun.epsilon(w[: t + 1])) if t in (2, 5, 6) else np.nan
        assert row.epsilon == pytest.approx(epsilon, rel=1e-12, nan_ok=True)
        values = row[["test_loss", "accuracy", "epsilon"]].isna()
        assert {*values} == {t not in (2, 5, 6)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.0),
        ("momentum", 1.0),
        ("weight_decay", -1e-4),
        ("chunk", 0),
    ],
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} must"):
        replace(TRAINING, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_parameters", 5), ("dataset_size", 1000), ("dataset_size", 100.5)],
)
def test_scenario_must_fit_the_network_and_the_data(name, value):
    with pytest.raises(ValueError, match=f"^{name} must"):
        federation_of(**{name: value})


@pytest.mark.parametrize("w", [[1.0], [1e-9] * 4])
def test_schedule_must_be_one_of_the_problem(w):
    with pytest.raises(ValueError, match=r"^w must"):
        train(problem_of(rounds=4), w, TRAINING, DIGITS, 0)


@pytest.mark.parametrize("device", ["gpu", None, "cuda:99"])
def test_devices_that_are_not_there_are_refused(device):
    with pytest.raises(ValueError, match=r"^device must be one of cpu"):
        find_device(device)
    assert find_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_trains_on_the_same_draws():
    cpu = trained(0)
    cuda = trained(0, device="cuda")
    assert cpu.history.batch_size.tolist() == cuda.history.batch_size.tolist()
    # 1e-3: six rounds in single precision, summed in another order
    torch.testing.assert_close(
        cpu.state.parameters, cuda.state.parameters.cpu(), rtol=1e-3, atol=1e-4
    )


def test_training_that_diverges_ends_with_the_round():
    problem = problem_of(rounds=8)
    states = []
    huge = replace(TRAINING, learning_rate=1e38)
    w = problem.min_noise_energy
    with pytest.raises(Diverged, match=r"diverged in round \d: ") as raised:
        train(problem, w, huge, DIGITS, 0, keep=lambda state, _: states.append(state))
    history = raised.value.history
    assert history.columns.tolist() == list(COLUMNS)
    assert len(history) == len(states) < 8
    assert np.isfinite(history.loss).all()


def test_round_without_senders_is_skipped():
    federation = federation_of(replace(TRAINING, momentum=0.5, weight_decay=0.1))
    before, _ = federation.step(federation.start(), ETA)
    after, record = federation.step(before, 0.0, senders_t=np.zeros(10, bool))
    assert_equal_states(after, before._replace(round=2))
    assert record.batch_size == 0
    assert np.isnan(record.loss)
