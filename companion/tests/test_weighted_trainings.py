"""The trainings behind the weights, shortened."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from companion.training import weighted_trainings as trainings
from companion.training.weights import impulse_response


def test_a_disturbed_state_is_that_of_a_round_with_that_noise():
    setting = trainings.SETTINGS["momentum 0.9"]
    digits = trainings.Digits.at(setting, 0, 4)
    before = digits.run(digits.federation.start(), np.full(3, 0.5))[-1]
    (noisy,), (quiet,) = digits.run(before, np.array([2.0])), digits.run(before, np.array([0.0]))
    noise = (noisy.velocity - quiet.velocity).numpy()
    again = trainings.disturbed(quiet, noise, setting.learning_rate)
    np.testing.assert_allclose(again.parameters.numpy(), noisy.parameters.numpy(), atol=1e-6)  # single precision
    assert np.sum(noise**2) == pytest.approx(2.0 / 2, rel=0.1)  # w / 2, of 9,370 entries
    assert np.abs(quiet.parameters.numpy() - noisy.parameters.numpy()).max() > 1e-3  # negative control


def test_a_response_is_the_mean_change_under_both_signs():
    rows = trainings.response("no momentum", 0, later=(0, 2), rounds=4)
    assert [row["later"] for row in rows] == [0, 2]
    assert all(math.isfinite(row["response"]) and row["response"] != 0 for row in rows)


def test_all_thirds_have_the_same_total_energy(monkeypatch):
    totals = []

    def note(self, state, energy):
        totals.append(energy.sum())
        return [state]

    monkeypatch.setattr(trainings.Digits, "run", note)
    rows = trainings.thirds("momentum 0.9", 0, rounds=7)
    np.testing.assert_allclose(totals, [0, *[7 * trainings.SETTINGS["momentum 0.9"].nu] * 4], rtol=1e-12)
    assert [row["noise"] for row in rows] == ["none", "even", "early", "middle", "late"]


def test_the_contest_is_at_equal_leakage():
    weights = np.geomspace(1, 20, 6)
    rows = trainings.contest("momentum 0.9", 0, {"late": weights, "early": weights[::-1]})
    table = pd.DataFrame(rows).set_index("schedule")
    assert list(table.index) == ["none", "flat", "late", "early"]
    np.testing.assert_allclose(table.rdp[1:], table.rdp["flat"], rtol=1e-8)
    assert table.cost["flat"] == pytest.approx(trainings.SETTINGS["momentum 0.9"].nu)
    assert table["last"]["late"] < table["last"]["flat"]
    assert table["first"]["early"] < table["first"]["flat"]


def test_the_weights_of_thirds_are_what_each_has_added_and_never_negative():
    rows = [("x", "none", 1.0), ("x", "early", 0.5), ("x", "middle", 1.5), ("x", "late", 3.0), ("y", "none", 9.0)]
    weights = trainings.thirds_weights(pd.DataFrame(rows, columns=["setting", "noise", "test_loss"]), "x", 6)
    np.testing.assert_allclose(weights, [0.02, 0.02, 0.5, 0.5, 2, 2])


def test_response_weights_are_those_of_the_responses_and_not_below_the_least():
    later = np.array(trainings.LATER)
    true = impulse_response(0.02, 0.5, 200, 0.9)[later] ** 2
    rows = [
        {"setting": "momentum 0.9", "seed": seed, "later": k, "response": value * factor}
        for seed, factor in ((0, 0.9), (1, 1.1))
        for k, value in zip(later, true, strict=True)
    ]
    weights = trainings.response_weights(pd.DataFrame(rows), "momentum 0.9", 200)
    assert weights.min() == pytest.approx(trainings.LEAST * weights.max())
    assert len(weights) - 1 - np.argmax(weights) == np.argmax(impulse_response(0.02, 0.5, 200, 0.9))


def test_the_committed_contest_is_at_equal_leakage_and_complete():
    table = pd.read_csv(Path(__file__).parents[2] / "results/weights/contest.csv")
    assert len(table) == len(trainings.SETTINGS) * len(trainings.SEEDS["contest"]) * 5
    spread = table.groupby(["setting", "seed"]).rdp.agg(["min", "max"])
    np.testing.assert_allclose(spread["max"], spread["min"], rtol=1e-6)  # seven digits are written
    assert not set(trainings.SEEDS["contest"]) & set(trainings.SEEDS["response"])
