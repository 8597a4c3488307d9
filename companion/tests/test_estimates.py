"""Estimated channels: what the committed table says, and that its command makes such rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from adascale import Scenario
from companion.training import estimates

KEPT = estimates.read(Path(__file__).parents[2] / "results/channels/estimates.csv")
MNIST = estimates.compared(KEPT, "mnist").set_index(["nu", "error", "kind"])


def test_the_committed_table_has_every_case_and_seed():
    assert tuple(KEPT.columns) == estimates.COLUMNS
    for dataset, (seeds, trained) in estimates.TRAINED.items():
        assert KEPT[KEPT.dataset == dataset].accuracy.notna().sum() == len(estimates.BUDGETS) * len(seeds) * len(
            trained
        )


def test_exact_coefficients_leak_what_is_accounted_and_estimates_leak_more():
    exact = KEPT[KEPT.error == "none"]
    np.testing.assert_allclose(exact.true, exact.epsilon, rtol=1e-5)
    assert not exact.over.any()
    mmse = MNIST.xs("mmse", level="kind").drop("none", level="error")
    assert (mmse.true > mmse.epsilon).all()
    for nu in estimates.BUDGETS:
        ordered = [MNIST.true[nu, error, "mmse"] for error in ("1000 pilots", "100 pilots", "10 pilots")]
        assert ordered == sorted(ordered)
        assert ordered[0] < 1.02 * MNIST.epsilon[nu, "1000 pilots", "mmse"]
    assert MNIST.true[0.16, "-20 dB", "mmse"] > 2 * MNIST.epsilon[0.16, "-20 dB", "mmse"]


def test_ten_pilots_for_ten_devices_keep_misalignment_below_the_noise_and_no_simulation_exceeds_the_bound():
    enough = KEPT[KEPT.error.isin(["10 pilots", "100 pilots", "1000 pilots"])]
    assert (enough.misaligned < enough.noise).all()
    trained = KEPT.dropna(subset=["measured"]).query("error != 'none'")
    assert trained.measured.median() < trained.misaligned.median()


def test_the_true_floor_as_a_cap_is_exceeded_in_about_half_of_the_rounds():
    over = KEPT[KEPT.error != "none"].groupby("kind").over
    rounds = 500 * len(estimates.SEEDS)
    assert over.mean()["mmse"] > 0.5 - 2 / np.sqrt(rounds)
    assert over.mean()["least-squares"] < 0.5 + 2 / np.sqrt(rounds)


@pytest.mark.slow
def test_a_training_is_what_is_stored():
    torch.set_num_threads(1)
    made = estimates.training_row("digits", 0.16, "-10 dB", "mmse", 1)
    stored = KEPT.query("dataset == 'digits' and nu == 0.16 and error == '-10 dB' and kind == 'mmse' and seed == 1")
    assert stored.accuracy.item() == pytest.approx(made["accuracy"], abs=0.011)  # another processor rounds otherwise
    assert stored.measured.item() == pytest.approx(made["measured"], rel=0.05)


def test_the_schedule_is_within_the_limit_of_what_is_believed():
    made = estimates.realise(Scenario.digits(), 0.04, "-10 dB", "least-squares", 0)
    assert (made.eta <= made.problem.max_eta).all()
    assert not np.allclose(made.problem.floor, made.true_floor)
    again = estimates.realise(Scenario.digits(), 0.04, "none", "mmse", 0)
    np.testing.assert_allclose(again.problem.floor, made.true_floor, rtol=1e-12)
    np.testing.assert_allclose(again.alignment, 1, rtol=1e-12)


def test_a_table_of_one_seed_has_its_comparison(monkeypatch):
    monkeypatch.setitem(estimates.TRAINED, "digits", (range(0), []))
    table = estimates.estimates_table("digits", [0], [0.16], [("none", "mmse"), ("-20 dB", "mmse")])
    assert table.accuracy.isna().all()
    found = estimates.compared(table.assign(accuracy=[0.9, 0.8]), "digits")
    assert found.lost.tolist() == pytest.approx([0.0, 0.1])
    assert len(estimates.cases()) == 2 * len(estimates.ERRORS) - 1
    assert isinstance(found, pd.DataFrame)


def test_another_error_is_refused():
    with pytest.raises(ValueError, match=r"error must be one of none, -30 dB, .*, got '-25 dB'"):
        estimates.realise(Scenario.digits(), 0.04, "-25 dB", "mmse", 0)
