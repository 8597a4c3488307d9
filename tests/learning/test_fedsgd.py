"""Rounds and whole trainings, on scikit-learn's digits."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from adascale import ReceiveScalingProblem, Scenario, channel, policies
from adascale.learning import Diverged, FedSGD, Trained, Training, data, fedsgd, train
from adascale.learning.devices import find_device
from adascale.learning.models import build
from adascale.learning.training import COLUMNS

DIGITS = data.load("digits")
SCENARIO = Scenario.digits()
TRAINING = Training.preset("digits")
CLIP = 3.0  # about the median norm of a sample gradient of the initial model


def problem(rounds=12, seed=0, nu=0.5, scenario=SCENARIO):
    gain = channel.draw(scenario.num_devices, rounds, seed).gain
    return ReceiveScalingProblem(scenario, scenario.min_gain(gain), nu)


def history(seed=0, rounds=6, **options):
    found = problem(rounds, seed)
    return train(
        found,
        policies.EqualAlloc().schedule(found),
        TRAINING,
        DIGITS,
        seed,
        every=3,
        **options,
    )


@pytest.mark.parametrize("senders", [None, np.arange(10) % 3 != 0])
def test_a_round_is_the_paper_s_average_of_averages_by_plain_loops(senders):
    sizes = (30.0,) * 10 if senders is None else tuple(20.0 + m for m in range(10))
    scenario = replace(SCENARIO, clip_norm=CLIP, batch_size=sizes)
    federation = FedSGD(scenario, replace(TRAINING, weight_decay=0.0), DIGITS, 0)
    state, model, received = federation.start(), build("digits_cnn", 0), 0.0
    sent = [m for m in range(10) if senders is None or senders[m]]
    for m in sent:
        total = torch.zeros(9_370)
        for i in federation.batches(0)[m]:
            loss = F.cross_entropy(
                model(DIGITS.images[i : i + 1]), DIGITS.labels[i : i + 1]
            )
            g = torch.cat(
                [
                    each.flatten()
                    for each in torch.autograd.grad(loss, list(model.parameters()))
                ]
            )
            total += g * min(1.0, CLIP / float(g.norm()))
        received = received + total / sizes[m] / len(sent)
    after, shown = federation.step(state, np.inf, senders_t=senders)
    assert shown.batch_size == sum(federation.batches(0)[m].size for m in sent)
    assert 0 < shown.clipped < 1
    step = (state.parameters - after.parameters) / TRAINING.learning_rate
    # 2e-5: the step is a difference of parameters in single precision
    assert float((step - received).norm() / received.norm()) < 2e-5


def test_a_step_changes_no_state_and_repeats_itself():
    federation = FedSGD(SCENARIO, replace(TRAINING, momentum=0.9), DIGITS, 0)
    state, _ = federation.step(federation.start(), 1e-9)
    kept = [each.clone() for each in state[1:]]
    first, _ = federation.step(state, 1e-9)
    second, _ = federation.step(state, 1e-9)
    assert all(torch.equal(a, b) for a, b in zip(kept, state[1:], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(first[1:], second[1:], strict=True))
    assert (first.round, second.round) == (2, 2)


@pytest.mark.parametrize(
    ("momentum", "decay"), [(0.0, 0.0), (0.0, 1e-2), (0.9, 0.0), (0.9, 1e-2)]
)
def test_the_server_steps_as_torch_does(momentum, decay):
    federation = FedSGD(
        SCENARIO, replace(TRAINING, momentum=momentum, weight_decay=decay), DIGITS, 0
    )
    plain = FedSGD(
        SCENARIO, replace(TRAINING, momentum=0.0, weight_decay=0.0), DIGITS, 0
    )
    state = federation.start()
    parameters = nn.Parameter(state.parameters.clone())
    server = torch.optim.SGD(
        [parameters], lr=TRAINING.learning_rate, momentum=momentum, weight_decay=decay
    )
    for _ in range(4):
        # what was received, read off a plain step from the same model in the same round
        moved, _ = plain.step(
            state._replace(velocity=torch.zeros_like(state.velocity)), 1e-9
        )
        parameters.grad = (state.parameters - moved.parameters) / TRAINING.learning_rate
        server.step()
        state, _ = federation.step(state, 1e-9)
        torch.testing.assert_close(
            state.parameters, parameters.detach(), rtol=0, atol=3e-6
        )  # single precision


@pytest.mark.filterwarnings(
    "ignore:the best order is:UserWarning"
)  # at a sampling rate of 1e-8
def test_a_round_without_a_sample_brings_noise_alone():
    scenario = replace(SCENARIO, batch_size=1e-6)
    federation = FedSGD(scenario, replace(TRAINING, weight_decay=0.0), DIGITS, 0)
    start = federation.start()
    after, shown = federation.step(start, np.inf)
    assert shown.batch_size == 0
    assert np.isnan(shown.loss)
    assert np.isnan(shown.clipped)
    assert torch.equal(after.parameters, start.parameters)
    assert not torch.equal(federation.step(start, 1e-9)[0].parameters, start.parameters)
    found = problem(3, scenario=scenario)
    assert (
        train(found, found.min_noise_energy, TRAINING, DIGITS, 0).history.batch_size
        == 0
    ).all()


def test_the_noise_of_a_round_has_the_energy_that_the_problem_says():
    found = problem(12)
    w = policies.EqualAlloc().schedule(found)
    federation, eta = FedSGD(found.scenario, TRAINING, DIGITS, 0), found.eta(w)
    state, ratio = federation.start(), []
    for t in range(12):
        at = state._replace(round=t)
        noise = (
            federation.step(at, np.inf)[0].parameters
            - federation.step(at, eta[t])[0].parameters
        ).double()
        ratio.append(
            float((noise / TRAINING.learning_rate).square().sum() / (w[t] / 2))
        )
    # ||n||^2 over its mean is chi-square with 12 d degrees, over 12 d; 99.9 %, at a fixed seed
    low, high = np.array(stats.chi2.interval(0.999, 12 * 9_370)) / (12 * 9_370)
    assert low < np.mean(ratio) < high
    assert not low < 2 * np.mean(ratio) < high  # the whole w_t would be twice as much


ETA = float(SCENARIO.x_max * SCENARIO.min_gain(channel.draw(10, 3, 0).gain).min())


def test_all_senders_change_no_bit():
    federation = FedSGD(SCENARIO, TRAINING, DIGITS, 0)
    plain, before = federation.step(federation.start(), ETA)
    named, after = federation.step(federation.start(), ETA, senders_t=np.ones(10, bool))
    assert torch.equal(plain.parameters, named.parameters)
    assert before == after


def test_round_without_senders_is_skipped():
    federation = FedSGD(
        SCENARIO, replace(TRAINING, momentum=0.5, weight_decay=0.1), DIGITS, 0
    )
    before, _ = federation.step(federation.start(), ETA)
    after, shown = federation.step(before, 0.0, senders_t=np.zeros(10, bool))
    assert after.round == before.round + 1
    assert torch.equal(after.parameters, before.parameters)
    assert torch.equal(after.velocity, before.velocity)
    assert shown.batch_size == 0
    assert np.isnan(shown.loss)
    assert not torch.equal(federation.step(after, ETA)[0].parameters, after.parameters)
    for wrong in (np.ones(10), np.ones(9, bool), [0, 1], True):
        with pytest.raises(ValueError, match="senders must be 10 booleans"):
            federation.step(before, ETA, senders_t=wrong)


def test_the_same_seeds_give_the_same_history_bit_for_bit():
    first, again, other = history(0), history(0), history(1)
    pd.testing.assert_frame_equal(first.history, again.history, check_exact=True)
    assert torch.equal(first.state.parameters, again.state.parameters)
    assert not torch.equal(first.state.parameters, other.state.parameters)


def test_policies_and_budgets_share_batches_and_noise_directions():
    few, many = problem(4, nu=0.1), problem(4, nu=0.4)
    federation = FedSGD(few.scenario, TRAINING, DIGITS, 0)
    start = federation.start()
    quiet = federation.step(start, np.inf)[0].parameters.double()
    etas = [each.eta(policies.EqualAlloc().schedule(each))[0] for each in (few, many)]
    noise = [federation.step(start, eta)[0].parameters.double() - quiet for eta in etas]
    cosine = float(noise[0] @ noise[1] / noise[0].norm() / noise[1].norm())
    assert cosine == pytest.approx(1, abs=1e-6)  # single precision


def test_the_history_says_what_was_spent_so_far():
    found = problem(7)
    w = policies.EqualAlloc().schedule(found)
    table = train(found, w, TRAINING, DIGITS, 0, every=3).history
    assert table["round"].tolist() == list(range(7))
    np.testing.assert_allclose(table.noise_energy, w, rtol=1e-14)
    evaluated = table.dropna(subset=["accuracy"])
    assert evaluated["round"].tolist() == [2, 5, 6]
    assert (evaluated.epsilon.diff().dropna() > 0).all()
    assert evaluated.epsilon.iloc[-1] == float(found.epsilon(w))
    assert (
        table.loc[[0, 1, 3, 4], ["test_loss", "accuracy", "epsilon"]]
        .isna()
        .all(axis=None)
    )


def test_bad_input_is_named():
    wrong = {
        "learning_rate": [0.0, [0.1, 0.2]],
        "momentum": [1.0, -0.1, "a"],
        "weight_decay": [-1e-4],
    }
    settings = [
        (name, value)
        for name, values in (wrong | {"chunk": [0], "model": [3]}).items()
        for value in values
    ]
    for name, call in [
        *(
            (name, lambda p, bad={name: value}: replace(TRAINING, **bad))
            for name, value in settings
        ),
        (
            "num_parameters",
            lambda p: FedSGD(replace(SCENARIO, num_parameters=5), TRAINING, DIGITS, 0),
        ),
        (
            "dataset_size",
            lambda p: FedSGD(replace(SCENARIO, dataset_size=100), TRAINING, DIGITS, 0),
        ),
        *(
            ("w", lambda p, bad=bad: train(p, bad, TRAINING, DIGITS, 0))
            for bad in ([1.0], [1e-9] * 4)
        ),
        (
            "problem",
            lambda p: train(problem(4, nu=[1.0, 2.0]), None, TRAINING, DIGITS, 0),
        ),
        ("every", lambda p: train(p, None, TRAINING, DIGITS, 0, every=0)),
        (
            "resume",
            lambda p: train(p, None, TRAINING, DIGITS, 0, resume=history(rounds=6)),
        ),
        *(
            ("device", lambda p, bad=bad: find_device(bad))
            for bad in ("gpu", "mps", "cpu:x", None, 3.5)
        ),
        (
            "device 'cuda:99' is not available:",
            lambda p: FedSGD(SCENARIO, TRAINING, DIGITS, 0, device="cuda:99"),
        ),
    ]:
        with pytest.raises(ValueError, match=f"^{name} "):
            call(problem(4))
    assert find_device("cpu") == find_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_trains_on_the_same_draws():
    cpu, cuda = history(0), history(0, device="cuda")
    assert cpu.history.batch_size.tolist() == cuda.history.batch_size.tolist()
    # 1e-3: six rounds in single precision, summed in another order
    torch.testing.assert_close(
        cpu.state.parameters, cuda.state.parameters.cpu(), rtol=1e-3, atol=1e-4
    )


def test_a_training_that_diverges_ends_with_the_round_and_what_to_try():
    found = problem(8)
    kept, huge = [], replace(TRAINING, learning_rate=1e38)
    with pytest.raises(
        Diverged, match=r"diverged in round \d: .* rate below 1e\+38, or a smaller nu"
    ) as raised:
        train(
            found,
            found.min_noise_energy,
            huge,
            DIGITS,
            0,
            keep=lambda state, rows: kept.append(state),
        )
    history = raised.value.history
    assert len(history) == len(kept) < 8
    assert history.columns.tolist() == list(COLUMNS)
    assert np.isfinite(history.loss).all()
    assert all(
        torch.isfinite(state.parameters).all() for state in kept
    )  # nothing that was kept has diverged
    assert isinstance(
        raised.value, RuntimeError
    )  # what the command line ends with 1 for
    again = pickle.loads(pickle.dumps(raised.value))  # a worker of a sweep hands it on
    assert str(again) == str(raised.value)
    pd.testing.assert_frame_equal(again.history, history)


def test_a_loss_that_overflows_in_the_evaluation_alone_is_found():
    found = problem(1, scenario=replace(SCENARIO, batch_size=1e-6))
    huge = Trained(
        FedSGD(found.scenario, TRAINING, DIGITS, 0).start(),
        pd.DataFrame(columns=COLUMNS),
    )
    huge = huge._replace(
        state=huge.state._replace(parameters=1e38 * huge.state.parameters)
    )
    with pytest.raises(
        Diverged, match=r"diverged in round 0: the test loss is (nan|inf)"
    ):
        train(found, None, TRAINING, DIGITS, 0, resume=huge)


# A stand-in for a GPU, as no machine of the tests has one, calls itself the device ``meta`` and computes on the CPU. It
# refuses an operation that mixes its tensors with others, as CUDA does, and thereby shows where tensors are; it cannot
# show what kernels of CUDA compute.

THERE = torch.device("meta")
COPIES = torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default


class Away(torch.Tensor):
    """A tensor of the stand-in, with the tensor of the CPU that has its numbers."""

    @staticmethod
    def __new__(cls, here):
        layout = {
            "strides": here.stride(),
            "storage_offset": here.storage_offset(),
            "dtype": here.dtype,
        }
        made = torch.Tensor._make_wrapper_subclass(
            cls, here.shape, **layout, device=THERE
        )
        made.here = here
        return made

    def tolist(self):
        return self.here.tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, given=(), named=None):
        raise AssertionError("the stand-in is switched off")


class StandIn(TorchDispatchMode):
    """Inside this context there is a second device."""

    def __torch_dispatch__(self, function, types, given=(), named=None):
        named, seen = dict(named or {}), {"away": 0, "here": 0}

        def count(tensor):
            away = isinstance(tensor, Away)
            assert away or tensor.device != THERE, (
                "a tensor of the stand-in without numbers"
            )
            seen["away" if away else "here"] += (
                away or tensor.ndim > 0
            )  # a CPU scalar may join, as with CUDA
            return tensor

        tree_map_only(torch.Tensor, count, (given, named))
        copied, wanted = function in COPIES, named.get("device")
        picked = function is torch.ops.aten.index.Tensor and isinstance(
            given[0], Away
        )  # CUDA moves the positions
        if seen["away"] and seen["here"] and not copied and not picked:
            raise RuntimeError(f"{function} mixes tensors of two devices")
        there = (
            wanted == THERE
            if wanted is not None
            else isinstance(given[0], Away)
            if copied
            else seen["away"]
        )
        if wanted is not None:
            named["device"] = torch.device("cpu")
        inner = tree_map_only(Away, lambda each: each.here, (given, named))
        result = function(*inner[0], **inner[1])
        if (
            function._schema.is_mutable
        ):  # in place, or into ``out``: what was given is what is returned
            return named.get("out", given[0])
        return tree_map_only(torch.Tensor, Away, result) if there else result


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(fedsgd, "find_device", torch.device)
    with StandIn():
        yield


def test_training_keeps_every_tensor_on_its_device_and_changes_no_number(stand_in):
    away, here = history(rounds=3, device="meta"), history(rounds=3)
    assert isinstance(away.state.parameters, Away)
    assert torch.equal(away.state.parameters.cpu(), here.state.parameters)
    pd.testing.assert_frame_equal(away.history, here.history, check_exact=True)
    assert (
        history(rounds=3, device="meta", resume=away).state.parameters.device == THERE
    )


def test_stand_in_finds_a_tensor_that_stayed(stand_in):
    federation = FedSGD(SCENARIO, TRAINING, DIGITS, 0, "meta")
    federation._data = DIGITS
    with pytest.raises(RuntimeError, match="two devices"):
        federation.step(federation.start(), 1e-9)
