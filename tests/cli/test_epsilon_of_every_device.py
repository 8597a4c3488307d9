"""Where devices differ, what a command calls epsilon is proven and holds for every device; the mean is named so."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import Scenario, accounting, channel, load_preset, problem
from adascale.accounting import schedule_epsilon

from ..command import run

SIZES, DATA = (10, 20, 20, 50), (500, 400, 100, 100)
UNEQUAL = Scenario("unequal", 4, 30, 1000, SIZES, DATA, 1.0, 0.2, 1e-12)
EQUALALLOC = ["--scenario", "my.toml", "--policy", "equalalloc", "--nu", 0.01]
BEST = ["--scenario", "my.toml", "--policy", "best:number=2,level=0.5"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with the scenario and gains of all devices."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(UNEQUAL.to_toml())
    columns = [f"h2_{m}" for m in range(1, 5)]
    gain = pd.DataFrame(channel.draw(4, 30, 0).gain.T, columns=columns)
    gain.to_csv("gains.csv", index=False)
    return tmp_path


def rounds_of(eta, senders=None, scenario=UNEQUAL):
    """Rate and noise multipliers of every device's own rounds, from the definition of the mechanism."""
    eta = np.asarray(eta, dtype=float)
    sizes = np.broadcast_to(scenario.batch_size, scenario.num_devices)
    data = np.broadcast_to(scenario.dataset_size, scenario.num_devices)
    if senders is None:
        senders = np.full((sizes.size, eta.size), True)
    for m, size in enumerate(sizes):
        own = senders[m] & (eta > 0)
        # of the noise in a coordinate of the update, and of the update if a sample is added
        deviation = np.sqrt(scenario.noise_power / (2 * eta[own]))
        change = scenario.clip_norm / (senders.sum(axis=0)[own] * size)
        yield size / data[m], deviation / change


def renyi(eta, senders=None, scenario=UNEQUAL):
    """Largest and mean epsilon by the Renyi conversion."""
    epsilon = [
        float(schedule_epsilon(rate, sigma, 1e-5).epsilon) if sigma.size else 0.0
        for rate, sigma in rounds_of(eta, senders, scenario)
    ]
    assert max(epsilon) > 1.2 * np.mean(epsilon)  # otherwise a mean would pass
    return max(epsilon), np.mean(epsilon)


def exact_upper(eta, scenario=UNEQUAL):
    """The upper bound of the exact accountant for each device."""
    return [
        accounting.epsilon([(rate, s, 1) for s in sigma], 1e-5).upper
        for rate, sigma in rounds_of(eta, None, scenario)
    ]


def assert_epsilons(row, expected):
    epsilons = float(row["epsilon"]), float(row["epsilon_mean"])
    assert epsilons == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("common", [EQUALALLOC, BEST])
def test_schedule_and_stream_print_the_largest_epsilon_and_the_mean(
    capsys, monkeypatch, answer, printed, common
):
    totals = answer("schedule", *common, "--gains", "gains.csv")
    table = pd.DataFrame(totals["schedule"])
    senders = None
    if "senders" in table:
        sent = [numbers.split() for numbers in table.senders]
        senders = np.array([[m in numbers for numbers in sent] for m in "1234"])
    expected = renyi(table.eta, senders)
    assert_epsilons(totals, expected)
    shown = printed("schedule", *common, "--gains", "gains.csv")["epsilon"]
    assert Decimal(shown) >= Decimal(f"{totals['epsilon']:.15g}")
    assert float(shown) == pytest.approx(totals["epsilon"], rel=1e-5)
    with open("gains.csv", "rb") as file:
        monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": file}))
        assert run("stream", *common, "--state", "s") == 0
    header, *_, last = capsys.readouterr().out.splitlines()
    assert_epsilons(
        dict(zip(header.split(","), last.split(","), strict=True)), expected
    )


def test_epsilon_of_a_schedule_is_that_of_the_device_that_leaks_most(answer, printed):
    answer("schedule", *EQUALALLOC, "--gains", "gains.csv", "--out", "eta.csv")
    command = ["epsilon", "--scenario", "my.toml", "--eta", "eta.csv"]
    totals = answer(*command)
    eta = pd.read_csv("eta.csv").eta
    upper = exact_upper(eta)
    assert totals["device"] == np.argmax(upper) + 1
    assert totals["epsilon"] == totals["upper"] == pytest.approx(max(upper), rel=1e-9)
    assert totals["epsilon_mean"] == pytest.approx(np.mean(upper), rel=1e-9)
    assert totals["renyi"] == pytest.approx(renyi(eta)[0], rel=1e-9)
    shown = {name: float(text) for name, text in list(printed(*command).items())[3:8]}
    assert shown["lower"] <= totals["lower"] <= totals["estimate"]
    for name in ("epsilon", "upper", "renyi"):
        assert totals[name] <= shown[name] <= totals[name] * (1 + 1e-5)


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
        expected = renyi(eta[:rounds], scenario=scenario)
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
    leakage = problem.RoundLeakage(
        replace(
            UNEQUAL,
            num_devices=len(pairs),
            batch_size=size.tolist(),
            dataset_size=(4 * size / rate).tolist(),
        )
    )
    chosen = problem.kinds_that_may_leak_most(leakage)
    kinds = list(zip(leakage.rate, leakage.unit, strict=True))
    for i, kind in enumerate(kinds):
        others = kinds[:i] + kinds[i + 1 :]
        dominated = any(np.greater_equal(other, kind).all() for other in others)
        assert (i in chosen) != dominated
