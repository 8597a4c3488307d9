"""Runs whose policy chooses who sends, and parameters of policies in a sweep."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from adascale.accounting import RenyiAccountant
from adascale.learning import FedSGD, Trained, data, train
from adascale.policies import Selection
from adascale.runs.execution import decided, perform
from adascale.runs.specification import make_run
from adascale.runs.store import Store

TRUNCATED, BEST = "adascale.policies:Truncated", "adascale.policies:Best"
KINDS = {"truncated": TRUNCATED, "truncated, fixed": f"{TRUNCATED}:epsilon=2", "best": f"{BEST}:number=7"}


def made(kind, rounds=4):
    return make_run("digits", KINDS[kind], 0.04, 0, rounds=rounds, every=2)


@pytest.mark.parametrize("kind", KINDS)
def test_row_of_a_run_is_that_of_its_selection(kind, tmp_path):
    run, store = made(kind, rounds=6), Store(tmp_path)
    problem, policy, chosen = decided(run)
    row, history = store.run(run)
    gain = run.channel.draw(10, 6, 0).gain
    pd.testing.assert_frame_equal(store.finished(run).history, history)
    np.testing.assert_array_equal(chosen.eta, policy.select(run.scenario, gain).eta)
    assert (row["participation"], row["participation_min"]) == (chosen.participation.mean(), chosen.participation.min())
    assert row["participation"] < 1  # the control: not all send
    assert (row["epsilon"], row["epsilon_max"]) == pytest.approx(chosen.device_epsilons(RenyiAccountant()))
    cost = float(chosen.total - problem.min_noise_energy.mean())
    assert row["cost"] == pytest.approx(cost)
    assert (cost == pytest.approx(0.04)) == ("fixed" not in kind)


def test_training_averages_the_senders_and_resumes():
    run = made("truncated")
    problem, _, chosen = decided(run)
    chosen = chosen._replace(senders=chosen.senders.copy(), eta=chosen.eta.copy())
    chosen.senders[:, 1], chosen.eta[1] = False, 0.0  # a round without senders
    digits = data.load("digits")
    given = (problem, chosen, run.training, digits, 0)
    kept = []
    whole = train(*given, every=2, keep=lambda state, rows: kept.append((state, [*rows])))
    federation = FedSGD(run.scenario, run.training, digits, 0)
    state = federation.start()
    for t in range(4):
        state, _ = federation.step(state, chosen.eta[t], senders_t=chosen.senders[:, t])
    assert torch.equal(whole.state.parameters, state.parameters)
    state, rows = kept[1]
    resumed = train(*given, every=2, resume=Trained(state, pd.DataFrame(rows)))
    assert torch.equal(resumed.state.parameters, whole.state.parameters)
    pd.testing.assert_frame_equal(resumed.history, whole.history)
    assert whole.history.noise_energy[1] == np.inf
    before = Selection(replace(run.scenario), chosen.eta[:2], chosen.senders[:, :2])
    assert whole.history.epsilon[1] == pytest.approx(before.device_epsilons(RenyiAccountant())[0])


def test_fixed_parameter_is_not_tuned_and_labels_show_it():
    row = perform(make_run("digits", "adascale:penalty=0.5", 0.04, 0, rounds=2)).row
    assert (row["policy"], row["penalty"]) == ("AdaScale:penalty=0.5", 0.5)
    assert row["cost"] != pytest.approx(0.04)
