"""Where devices differ, what a command calls epsilon is proven and holds for every device; the mean is named so."""

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import Scenario, accounting, channel, load_preset, problem
from adascale.accounting import RenyiAccountant, schedule_epsilon
from adascale.cli import benchmark

from ..command import run

SIZES, DATA = (10, 20, 20, 50), (500, 400, 100, 100)
UNEQUAL = Scenario("unequal", 4, 30, 1000, SIZES, DATA, 1.0, 0.2, 1e-12)


@pytest.fixture
def unequal(tmp_path, monkeypatch):
    """A folder with the scenario and gains of all devices."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(UNEQUAL.to_toml())
    gain = channel.draw(4, 30, 0).gain.T
    pd.DataFrame(gain, columns=[f"h2_{m}" for m in range(1, 5)]).to_csv(
        "gains.csv", index=False
    )
    return tmp_path


def rounds_of(eta, senders=None, sizes=SIZES, data=DATA, scenario=UNEQUAL):
    """Rate and noise multipliers of every device's own rounds, from the definition of the mechanism."""
    M, eta = len(sizes), np.asarray(eta, dtype=float)
    senders = np.full((M, eta.size), True) if senders is None else senders
    for m in range(M):
        own = senders[m] & (eta > 0)
        deviation = np.sqrt(
            scenario.noise_power / (2 * eta[own])
        )  # of the noise in a coordinate of the update
        change = scenario.clip_norm / (senders.sum(axis=0)[own] * sizes[m])
        yield sizes[m] / data[m], deviation / change


def renyi(*given, **more):
    """Largest and mean epsilon by the Renyi conversion."""
    each = [
        float(schedule_epsilon(q, s, 1e-5).epsilon) if s.size else 0.0
        for q, s in rounds_of(*given, **more)
    ]
    assert max(each) > 1.2 * np.mean(each)  # otherwise a mean would pass
    return max(each), np.mean(each)


def said(capsys, *arguments):
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def is_above(printed, value):
    """A number that is printed is no less than the value, and has six digits of it."""
    assert Decimal(printed) >= Decimal(f"{value:.15g}")
    assert float(printed) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("policy", ["equalalloc", "best:number=2,level=0.5"])
def test_schedule_and_stream_print_the_largest_epsilon_and_the_mean(
    unequal, capsys, monkeypatch, policy
):
    nu = ["--nu", 0.01] if policy == "equalalloc" else []
    common = ["--scenario", "my.toml", "--policy", policy, *nu]
    found = said(capsys, "schedule", *common, "--gains", "gains.csv")
    table = pd.DataFrame(found["schedule"])
    senders = None
    if "senders" in table:
        senders = np.array(
            [[str(m) in who.split() for who in table.senders] for m in range(1, 5)]
        )
    largest, mean = renyi(table.eta, senders)
    assert (found["epsilon"], found["epsilon_mean"]) == pytest.approx(
        (largest, mean), rel=1e-9
    )
    assert run("schedule", *common, "--gains", "gains.csv") == 0
    printed = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    is_above(printed["epsilon"], found["epsilon"])
    with open("gains.csv", "rb") as file:
        monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": file}))
        assert run("stream", *common, "--state", "s") == 0
    header, *answers = capsys.readouterr().out.splitlines()
    last = dict(zip(header.split(","), answers[-1].split(","), strict=True))
    assert (float(last["epsilon"]), float(last["epsilon_mean"])) == pytest.approx(
        (largest, mean), rel=1e-9
    )


def test_epsilon_of_a_schedule_is_the_upper_bound_of_the_device_that_leaks_most(
    unequal, capsys
):
    how = [
        "--scenario",
        "my.toml",
        "--gains",
        "gains.csv",
        "--nu",
        0.01,
        "--policy",
        "equalalloc",
    ]
    assert run("schedule", *how, "--out", "eta.csv") == 0
    capsys.readouterr()
    command = ["epsilon", "--scenario", "my.toml", "--eta", "eta.csv"]
    found = said(capsys, *command)
    rounds = [*rounds_of(pd.read_csv("eta.csv").eta)]
    each = [accounting.epsilon([(q, float(x), 1) for x in s], 1e-5) for q, s in rounds]
    upper = [interval.upper for interval in each]
    assert found["device"] == int(np.argmax(upper)) + 1
    assert found["epsilon"] == found["upper"] == pytest.approx(max(upper), rel=1e-9)
    assert found["epsilon_mean"] == pytest.approx(np.mean(upper), rel=1e-9)
    assert found["lower"] <= found["estimate"] <= found["upper"]
    assert found["rdp"] == pytest.approx(renyi(pd.read_csv("eta.csv").eta)[0], rel=1e-9)
    assert run(*command) == 0
    printed = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    for name in ("epsilon", "upper", "rdp"):
        is_above(printed[name], found[name])
    assert float(printed["lower"]) <= found["lower"]
    assert (
        float(printed["lower"])
        <= float(printed["estimate"])
        <= float(printed["epsilon"])
    )


def test_leakage_table_has_the_largest_epsilon_and_the_mean(unequal, capsys):
    how = [
        "leakage",
        "--scenario",
        "my.toml",
        "--nu",
        0.01,
        "--realisations",
        1,
        "--policy",
        "equalalloc",
    ]
    (row,) = said(capsys, *how)
    floor = UNEQUAL.noise_scale / (
        UNEQUAL.x_max * UNEQUAL.min_gain(channel.draw(4, 30, 0).gain)
    )
    largest, mean = renyi(UNEQUAL.noise_scale / (floor + 0.01))
    assert (row["epsilon"], row["epsilon_mean"]) == pytest.approx(
        (largest, mean), rel=1e-9
    )
    for form in ("csv", "markdown", "latex"):
        assert run(*how, "--format", form) == 0
        lines = [line.strip("\\ |") for line in capsys.readouterr().out.splitlines()]
        head, body = (
            next(line for line in lines if line.startswith(word))
            for word in ("policy", "EqualAlloc")
        )
        split = {"csv": ",", "markdown": "|", "latex": "&"}[form]
        cells = dict(
            zip(
                *(
                    [cell.strip() for cell in line.split(split)]
                    for line in (head, body)
                ),
                strict=True,
            )
        )
        assert Decimal(cells["epsilon"]) >= Decimal(f"{largest:.15g}")
        assert float(cells["epsilon"]) == pytest.approx(largest, rel=1e-3)
        assert float(cells["mean epsilon"]) == pytest.approx(mean, rel=1e-3)


PRESET = """base = "digits"
[scenario]
num_rounds = 6
batch_size = [10, 20, 20, 20, 20, 20, 20, 20, 20, 50]
"""


def test_training_and_its_audit_print_the_largest_epsilon(tmp_path, capsys):
    path = tmp_path / "own.toml"
    path.write_text(PRESET)
    scenario = load_preset(str(path)).scenario
    sizes = {"sizes": scenario.batch_size, "data": [150] * 10, "scenario": scenario}
    how = ["--dataset", path, "--policy", "equalalloc", "--nu", 0.5]
    row = said(capsys, "train", *how, "--every", 3)
    history = pd.DataFrame(row["history"])
    for rounds in (3, 6):
        largest, mean = renyi(
            scenario.noise_scale / history.noise_energy[:rounds], **sizes
        )
        shown = history.iloc[rounds - 1]
        assert (shown.epsilon, shown.epsilon_mean) == pytest.approx(
            (largest, mean), rel=1e-9
        )
    assert (row["epsilon"], row["epsilon_mean"]) == pytest.approx(
        (largest, mean), rel=1e-9
    )
    found = said(capsys, "audit", *how, "--canaries", 20)
    each = [*rounds_of(scenario.noise_scale / history.noise_energy, **sizes)]
    upper = [
        accounting.epsilon([(q, float(x), 1) for x in s], 1e-5).upper for q, s in each
    ]
    assert found["epsilon"] == pytest.approx(max(upper), rel=1e-6)
    assert found["accounted"] == pytest.approx(upper[0], rel=1e-6)


BENCHMARK = """delta = 1e-5
orders = [63.0, 1.1]
realisations = 1
trainings = 1
[policies]
equalalloc = "EqualAlloc"
[[scenarios]]
name = "first"
preset = "short.toml"
channel = "rayleigh"
totals = [0.8]
"""


def test_benchmark_has_the_largest_epsilon_and_the_mean(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(benchmark, "FOLDER", tmp_path)
    (tmp_path / "short.toml").write_text(PRESET)
    (tmp_path / "benchmark-1.toml").write_text(BENCHMARK)
    assert run("benchmark", "--version", 1, "--out", "out") == 0
    (row,) = pd.read_csv("out/benchmark-1.csv").to_dict("records")
    scenario = load_preset("short.toml").scenario
    floor = scenario.noise_scale / (
        scenario.x_max * scenario.min_gain(channel.draw(10, 6, 0).gain)
    )
    sizes = {"sizes": scenario.batch_size, "data": [150] * 10, "scenario": scenario}
    account = RenyiAccountant(accounting.order_grid(63, 1.1))
    each = [
        float(account.epsilon(q, s, 1e-5))
        for q, s in rounds_of(
            scenario.noise_scale / (floor + 0.8 - floor.mean()), **sizes
        )
    ]
    assert (row["epsilon"], row["mean epsilon"]) == pytest.approx(
        (max(each), np.mean(each)), rel=1e-3
    )
    assert max(each) > 1.2 * np.mean(each)


@pytest.mark.parametrize("quantity", ["epsilon", "calibrate"])
def test_accounting_prints_the_upper_bound_as_epsilon(capsys, quantity):
    how = [
        "accounting",
        quantity,
        "--event",
        ".01,1.0,500",
        *(["--epsilon", 1.5] if quantity == "calibrate" else []),
    ]
    found = said(capsys, *how)
    assert found["lower"] <= found["estimate"] <= found["epsilon"] == found["upper"]
    assert run(*how) == 0
    printed = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    is_above(printed["epsilon"], found["epsilon"])


def test_exact_epsilon_is_its_proven_end_and_the_estimate_stands_beside_it():
    found = accounting.exact_epsilon(0.01, np.full(100, 1.0))
    assert found.lower <= found.estimate <= found.epsilon == found.upper
    assert found.epsilon == accounting.ExactAccountant().epsilon(
        0.01, np.full(100, 1.0), 1e-5
    )
    at = accounting.exact_delta(0.01, np.full(100, 1.0), 1.0)
    assert at.lower <= at.estimate <= at.delta == at.upper


def test_of_many_kinds_of_devices_epsilon_is_that_of_all_of_them(
    tmp_path, capsys, monkeypatch
):
    """Of kinds whose rate and noise both vary, by few of them, and without means."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    data = rng.integers(100, 200, 30).tolist()
    sizes = (np.array(data) * rng.uniform(0.02, 0.2, 30)).round(2).tolist()
    scenario = replace(
        UNEQUAL, num_devices=30, num_rounds=3, batch_size=sizes, dataset_size=data
    )
    (tmp_path / "many.toml").write_text(scenario.to_toml())
    eta = scenario.noise_power / (2 * np.array([0.02, 0.03, 0.05]) ** 2) * 30**2
    pd.DataFrame({"eta": eta}).to_csv("eta.csv", index=False)
    asked = []
    original = accounting.epsilon
    monkeypatch.setattr(
        accounting,
        "epsilon",
        lambda rounds, delta: asked.append(rounds) or original(rounds, delta),
    )
    found = said(capsys, "epsilon", "--scenario", "many.toml", "--eta", "eta.csv")
    every = [
        original([(q, s, 1) for s in sigma], 1e-5).upper
        for q, sigma in rounds_of(eta, None, sizes, data, scenario)
    ]
    assert found["epsilon"] == pytest.approx(max(every), rel=1e-9)
    assert found["device"] == np.argmax(every) + 1
    assert max(every) > 1.2 * sorted(every)[-10]
    assert 1 < len(asked) < 15
    assert not [name for name in found if name.endswith("_mean")]


@given(st.lists(st.tuples(*[st.integers(1, 4)] * 2), min_size=1, max_size=12))
def test_a_kind_is_left_out_if_and_only_if_another_has_as_large_a_rate_and_as_little_noise(
    pairs,
):
    rate, size = np.array(pairs).T
    scenario = replace(
        UNEQUAL,
        num_devices=len(pairs),
        batch_size=size.tolist(),
        dataset_size=(4 * size / rate).tolist(),
    )
    leakage = problem.RoundLeakage(scenario)
    kept = problem.kinds_that_may_leak_most(leakage)
    kinds = list(zip(leakage.rate, leakage.unit, strict=True))
    for i, kind in enumerate(kinds):
        dominated = any(
            all(np.greater_equal(other, kind)) for other in kinds if other != kind
        )
        assert (i in kept) != dominated
