"""Where devices differ, what a command calls epsilon is proven and holds for every device; the mean is named so."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import Problem, Scenario, accounting, channel, load_preset
from adascale.policies import EqualAlloc
from adascale.problem import RoundLeakage, kinds_that_may_leak_most

from ..command import run

SIZES, DATA = (10, 20, 20, 50), (500, 400, 100, 100)
UNEQUAL = Scenario("unequal", 4, 30, 1000, SIZES, DATA, 1.0, 0.2, 1e-12)
EQUALALLOC = ["--scenario", "my.toml", "--policy", "equalalloc", "--nu", 0.01]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with the scenario and gains of all devices."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(UNEQUAL.to_toml())
    columns = [f"h2_{m}" for m in range(1, 5)]
    gain = pd.DataFrame(channel.draw(4, 30, 0).gain.T, columns=columns)
    gain.to_csv("gains.csv", index=False)
    return tmp_path


def assert_epsilons(row, epsilons):
    assert max(epsilons) > 1.2 * np.mean(epsilons)  # otherwise a mean would pass
    assert float(row["epsilon"]) == pytest.approx(max(epsilons), rel=1e-9)
    assert float(row["epsilon_mean"]) == pytest.approx(np.mean(epsilons), rel=1e-9)


def scheduled(eta, scenario=UNEQUAL):
    """Noise multipliers of the devices, and their epsilons by the Renyi conversion."""
    gain = np.full(len(eta), np.max(eta) / scenario.x_max)
    problem, w = Problem(scenario, gain, 1.0), scenario.noise_scale / np.asarray(eta)
    return problem.noise_multiplier(w), problem.epsilons(w)


def exact_upper(eta, scenario=UNEQUAL):
    """The upper bound of the exact accountant for each device."""
    return [
        accounting.exact_epsilon(rate, sigma, 1e-5).upper
        for rate, sigma in zip(
            scenario.sampling_rate, scheduled(eta, scenario)[0], strict=True
        )
    ]


def test_schedule_prints_the_largest_epsilon_and_the_mean(answer, printed):
    """A stream does so after every round: ``test_stream.py``; who sends: ``test_schedule.py``."""
    how = ["schedule", *EQUALALLOC, "--gains", "gains.csv"]
    totals = answer(*how)
    problem = Problem(UNEQUAL, channel.read_gains("gains.csv", UNEQUAL).min_gain, 0.01)
    assert_epsilons(totals, problem.epsilons(EqualAlloc().schedule(problem)))
    shown = Decimal(printed(*how)["epsilon"])
    assert totals["epsilon"] <= shown <= Decimal(totals["epsilon"] * (1 + 1e-5))


def test_epsilon_of_a_schedule_is_that_of_the_device_that_leaks_most(answer):
    schedule = [*EQUALALLOC, "--gains", "gains.csv", "--out", "eta.csv"]
    assert run("schedule", *schedule) == 0
    totals = answer("epsilon", "--scenario", "my.toml", "--eta", "eta.csv")
    eta = pd.read_csv("eta.csv").eta
    upper = exact_upper(eta)
    assert totals["device"] == np.argmax(upper) + 1
    assert_epsilons(totals, upper)
    assert totals["upper"] == totals["epsilon"]
    assert totals["renyi"] == pytest.approx(scheduled(eta)[1].max(), rel=1e-9)


PRESET = """base = "digits"
[scenario]
num_rounds = 6
batch_size = [10, 20, 20, 20, 20, 20, 20, 20, 20, 50]
"""


def test_training_and_its_audit_print_the_largest_epsilon(place, answer):
    (place / "own.toml").write_text(PRESET)
    scenario = load_preset("own.toml").scenario
    how = ["--dataset", "own.toml", "--policy", "equalalloc", "--nu", 0.5]
    row = answer("train", *how, "--every", 3)
    history = pd.DataFrame(row["history"])
    eta = scenario.noise_scale / history.noise_energy
    for rounds in (3, 6):
        expected = scheduled(eta[:rounds], scenario)[1]
        assert_epsilons(history.iloc[rounds - 1], expected)
    assert_epsilons(row, expected)
    audit = answer("audit", *how, "--canaries", 20)
    upper = exact_upper(eta, scenario)
    assert audit["epsilon"] == pytest.approx(max(upper), rel=1e-6)
    assert audit["accounted"] == pytest.approx(upper[0], rel=1e-6)


@given(st.lists(st.tuples(*[st.integers(1, 4)] * 2), min_size=1, max_size=12))
def test_a_kind_is_left_out_if_and_only_if_another_dominates_it(pairs):
    """By as large a rate and as little noise."""
    rate, size = np.array(pairs).T
    leakage = RoundLeakage(
        replace(
            UNEQUAL,
            num_devices=len(pairs),
            batch_size=size.tolist(),
            dataset_size=(4 * size / rate).tolist(),
        )
    )
    chosen = kinds_that_may_leak_most(leakage)
    kinds = list(zip(leakage.rate, leakage.unit_energy, strict=True))
    for i, kind in enumerate(kinds):
        others = kinds[:i] + kinds[i + 1 :]
        dominated = any(np.greater_equal(other, kind).all() for other in others)
        assert (i in chosen) != dominated
