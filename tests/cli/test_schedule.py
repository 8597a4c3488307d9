"""``adascale schedule`` sees no later round unless it is told to, and says what it promises of nu."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel, policies
from adascale.channel import EmpiricalFloors
from companion.methods import METHODS

from ..command import run
from .streams import CONSTANT

SMALL = Scenario("small", 2, 12, 1000, 20, 400, 1.0, 0.2, 1e-12)


def measured(rounds, seed):
    """Gains of the same two links."""
    return np.random.default_rng(seed).exponential(1, (2, rounds)) / channel.draw(2, 1, 5).path_loss[:, None]


def write(path, gains):
    pd.DataFrame({"h2_1": gains[0], "h2_2": gains[1]}).to_csv(path, index=False)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a scenario, a trace, an earlier one, and the trace with another end."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(SMALL.to_toml())
    (tmp_path / "mine.py").write_text(CONSTANT.replace("Constant", "Extra"))
    gains = measured(12, 0)
    write("gains.csv", gains)
    write("past.csv", measured(40, 1))
    gains[:, 6:] *= 3
    write("other.csv", gains)
    pd.DataFrame({"min_gain": SMALL.min_gain(gains)}).to_csv("least.csv", index=False)
    return tmp_path


def schedule(capsys, *arguments, gains="gains.csv"):
    code = run("schedule", "--scenario", "my.toml", "--gains", gains, "--nu", 0.002, "--json", *arguments)
    said = capsys.readouterr()
    assert code == 0, said.err
    totals = json.loads(said.out)
    return totals, np.array([each["eta"] for each in totals["schedule"]]), said.err


PAST = ["--past", "past.csv"]
CAUSAL = {
    "the default": [],
    "learn": ["--policy", "learn"],
    "learn, hard": ["--policy", "learn:budget_mode=hard"],
    "learn with a past": ["--policy", "learn", *PAST],
    "equalalloc": ["--policy", "equal-alloc"],
    "constantlevel": ["--policy", "constantlevel", *PAST],
    "resolve": ["--policy", "resolve", *PAST],
    "resolve, hard": ["--policy", "resolve:budget_mode=hard", *PAST],
    "dynamicprogramme": ["--policy", "dynamicprogramme", *PAST],
    "adascale": ["--policy", "adascale", *PAST],
    "adascale with V": ["--policy", "adascale:penalty=0.5"],
    "estimfuture": ["--policy", "estimfuture", *PAST],
    "powercontrol": ["--policy", "powercontrol", *PAST],
    "lyapunovpowercontrol": ["--policy", "lyapunovpowercontrol", *PAST],
    "one's own": ["--policy", "mine:Extra", *PAST],
}


@pytest.mark.parametrize("kind", CAUSAL)
def test_later_rounds_change_no_earlier_one(place, capsys, kind):
    _, eta, err = schedule(capsys, *CAUSAL[kind])
    _, other, _ = schedule(capsys, *CAUSAL[kind], gains="other.csv")
    np.testing.assert_array_equal(eta[:6], other[:6])
    assert (eta[6:] != other[6:]).any()  # the control: the change is seen once it has come
    assert "whole trace" not in err


@pytest.mark.parametrize("policy", [*map(str.lower, METHODS), "constantlevel", "mine:Extra"])
def test_hindsight_sees_later_rounds_spends_the_budget_and_notes_it(place, capsys, policy):
    totals, eta, err = schedule(capsys, "--policy", policy, "--hindsight")
    _, other, _ = schedule(capsys, "--policy", policy, "--hindsight", gains="other.csv")
    assert (eta[:6] != other[:6]).any() == ("whole trace" in err) == (policy != "equalalloc")
    assert totals["cost"] == pytest.approx(0.002, rel=1e-9 if policy in map(str.lower, METHODS) else 1e-6)


def test_default_is_learn_and_adascale_in_hindsight(place, capsys):
    problem = ReceiveScalingProblem(SMALL, channel.read_gains("gains.csv", SMALL).min_gain, 0.002)
    totals, eta, err = schedule(capsys)
    assert totals["policy"] == "Learn"
    np.testing.assert_array_equal(eta, policies.Learn().schedule(problem))
    assert f"Learn spends {totals['cost'] / 0.002:.3g} times nu" in err
    assert schedule(capsys, "--hindsight")[0]["policy"] == "AdaScale"


def test_distribution_and_parameter_come_from_the_past(place, capsys):
    trace, past = (channel.read_gains(name, SMALL) for name in ("gains.csv", "past.csv"))
    problem = ReceiveScalingProblem(SMALL, trace.min_gain, 0.002)
    law = EmpiricalFloors.of(SMALL, past.min_gain)
    expected = {
        "constantlevel": policies.ConstantLevel(law=law),
        "resolve": policies.ReSolve(law=law),
        "learn": policies.Learn(prior=law),
        "adascale": policies.AdaScale.from_law(SMALL, 0.002, law=law),
        "estimfuture": policies.EstimFuture(past.mean_gain),
    }
    for name, policy in expected.items():
        np.testing.assert_array_equal(schedule(capsys, "--policy", name, *PAST)[1], policy.schedule(problem), name)
    before = ReceiveScalingProblem(SMALL, past.min_gain[-12:], 0.002)
    budget = schedule(capsys, "--policy", "powercontrol", *PAST)[0]["privacy_budget"]
    spent = policies.PowerControl(past.mean_gain, budget).schedule(before)
    assert before.cost(spent) == pytest.approx(0.002, rel=1e-6)


@pytest.mark.parametrize("policy", ["learn", "adascale", "estimfuture"])
def test_split_schedules_the_rest_as_with_a_past_in_every_form(place, capsys, policy):
    expected = schedule(capsys, "--policy", policy, *PAST)[1]
    whole = np.concatenate([measured(40, 1), measured(12, 0)], axis=1)
    np.save("whole", whole)
    power = pd.DataFrame(20 + 10 * np.log10(whole.T), columns=["b2", "b10"]).rename_axis("time").reset_index()
    power.melt("time", var_name="link").to_csv("long.csv", index=False)
    split = ["--policy", policy, "--split", 40 / 52, "--out", "eta.csv"]
    _, eta, err = schedule(capsys, *split, gains="whole.npy")
    np.testing.assert_array_equal(eta, expected)
    assert "the first 40 rounds of whole.npy are the past" in err
    _, eta, _ = schedule(capsys, *split, "--unit", "dbm", "--transmit-power", 20, gains="long.csv")
    np.testing.assert_allclose(eta, expected, rtol=1e-9)  # of a decibel's digits
    assert run("plot", "eta.csv", "eta.svg", "--x", "round", "--y", "noise_energy", "--linear", "x") == 0


def test_budget_mode_is_printed_and_hard_is_never_exceeded(place, capsys):
    said = {kind: schedule(capsys, *CAUSAL[kind])[0] for kind in CAUSAL}
    hard = {"learn, hard", "resolve, hard", "equalalloc", "estimfuture", "dynamicprogramme"}
    assert {kind for kind in CAUSAL if said[kind]["budget_mode"] == "nu is never exceeded"} == hard
    assert all(said[kind]["cost"] <= 0.002 * (1 + 1e-9) for kind in hard)
    for kind in ("the default", "resolve", "adascale", "constantlevel"):
        assert said[kind]["budget_mode"].startswith("nu on average")
    for kind in ("powercontrol", "lyapunovpowercontrol", "one's own"):
        assert said[kind]["budget_mode"].startswith("none")
    assert "hindsight" in schedule(capsys, "--hindsight")[0]["budget_mode"]
    run("schedule", "--scenario", "my.toml", "--gains", "gains.csv", "--nu", 0.002)
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("nu "))
    assert lines[at - 1].startswith("budget_mode nu on average")
    assert lines[at + 1].startswith("cost ")


HARD = """
class Spender:
    promise = "hard"
    def start(self, scenario, budget):
        return scenario, budget
    def step(self, state, min_gain_t):
        scenario, nu = state
        return state, scenario.noise_scale / (scenario.noise_scale / (scenario.x_max * min_gain_t) + FACTOR * nu)
"""


@pytest.mark.parametrize(("factor", "code"), [(3, 1), (1, 0)])
def test_exceeded_hard_budget_is_an_error(place, capsys, factor, code):
    (place / "spend.py").write_text(HARD.replace("FACTOR", str(factor)))
    sys.modules.pop("spend", None)
    arguments = ["--scenario", "my.toml", "--gains", "gains.csv", "--nu", 0.002, "--out", "eta.csv"]
    assert run("schedule", *arguments, "--policy", "spend:Spender") == code
    said = capsys.readouterr()
    assert (place / "eta.csv").exists() == bool(said.out) == (code == 0)
    assert ("Spender must not exceed nu = 0.002, but its cost is 0.006, 3 times nu" in said.err) == (code == 1)


@pytest.mark.parametrize("option", ["--gains", "--past"])
def test_last_line_without_break_is_noted(place, capsys, option):
    (place / "cut.csv").write_text((place / "past.csv").read_text().rstrip())
    _, _, err = schedule(capsys, option, "cut.csv")
    assert "note: cut.csv, line 41: no line break at its end" in err
