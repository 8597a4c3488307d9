"""``adascale schedule`` sees no later round unless it is told to, and says what it promises of nu."""

import json

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, channel, policies
from adascale.channel import EmpiricalFloors
from companion.methods import METHODS

from ..command import run
from .streams import GAINS, NU, PAST, POLICIES, SMALL, measured

GIVEN = ["schedule", "--scenario", "my.toml", "--nu", NU, "--gains"]
CAUSAL = {kind: arguments for kind, (arguments, _) in POLICIES.items()} | {
    "resolve, hard": ["--policy", "resolve:budget_mode=hard", *PAST],
    "dynamicprogramme": ["--policy", "dynamicprogramme", *PAST],
    "powercontrol": ["--policy", "powercontrol", *PAST],
    "lyapunovpowercontrol": ["--policy", "lyapunovpowercontrol", *PAST],
    "one's own": ["--policy", "mine:Constant", *PAST],
}


@pytest.fixture
def place(place):
    """Also the trace with another end."""
    other = GAINS * np.where(np.arange(12) < 6, 1, 3)[:, None]
    pd.DataFrame(other, columns=["h2_1", "h2_2"]).to_csv("other.csv", index=False)
    return place


def schedule(capsys, *arguments, gains="gains.csv"):
    code = run(*GIVEN, gains, "--json", *arguments)
    said = capsys.readouterr()
    assert code == 0, said.err
    totals = json.loads(said.out)
    return totals, np.array([each["eta"] for each in totals["schedule"]]), said.err


MODES = dict.fromkeys(CAUSAL, "nu is never exceeded") | {
    **dict.fromkeys(("the default", "resolve", "learn with a past", "adascale", "constantlevel"), "nu on average"),
    **dict.fromkeys(("powercontrol", "lyapunovpowercontrol", "one's own"), "none"),
    "adascale with V": "that of the policy",
}


@pytest.mark.parametrize("kind", CAUSAL)
def test_later_rounds_change_no_earlier_one_and_the_past_gives_the_policy(place, capsys, kind):
    totals, eta, err = schedule(capsys, *CAUSAL[kind])
    _, other, _ = schedule(capsys, *CAUSAL[kind], gains="other.csv")
    np.testing.assert_array_equal(eta[:6], other[:6])
    assert (eta[6:] != other[6:]).any()  # the control: the change is seen once it has come
    assert "whole trace" not in err
    assert totals["budget_mode"].startswith(MODES[kind])
    assert totals["cost"] <= NU * (1 + 1e-9) or "exceeded" not in MODES[kind]
    trace, past = (channel.read_gains(name, SMALL) for name in ("gains.csv", "past.csv"))
    if kind in POLICIES:
        policy = POLICIES[kind][1](EmpiricalFloors.of(SMALL, past.min_gain), past.mean_gain)
        problem = ReceiveScalingProblem(SMALL, trace.min_gain, NU)
        np.testing.assert_array_equal(eta, policy.schedule(problem))
    if kind == "the default":
        assert totals["policy"] == "Learn"
        assert f"Learn spends {totals['cost'] / NU:.3g} times nu" in err
    if kind == "powercontrol":  # tuned on the last rounds of the past
        before = ReceiveScalingProblem(SMALL, past.min_gain[-12:], NU)
        spent = policies.PowerControl(past.mean_gain, totals["privacy_budget"]).schedule(before)
        assert before.cost(spent) == pytest.approx(NU, rel=1e-6)


@pytest.mark.parametrize("policy", [*map(str.lower, METHODS), "constantlevel", "mine:Constant"])
def test_hindsight_sees_later_rounds_spends_the_budget_and_notes_it(place, capsys, policy):
    given = ["--policy", policy, "--hindsight", "--nu", 5]
    totals, eta, err = schedule(capsys, *given)
    _, other, _ = schedule(capsys, *given, gains="other.csv")
    assert ("whole trace" in err) == (policy != "equalalloc")
    assert "hindsight" in totals["budget_mode"] or policy in ("equalalloc", "estimfuture")
    if policy not in ("equalalloc", "mine:Constant"):  # whose extra energy is nu, whatever the gains
        assert (eta[:6] != other[:6]).any()
    assert totals["cost"] == pytest.approx(5, rel=1e-9 if policy in map(str.lower, METHODS) else 1e-6)


@pytest.mark.parametrize("policy", ["adascale", "estimfuture"])
def test_split_schedules_the_rest_as_with_a_past_in_every_form(place, capsys, policy):
    expected = schedule(capsys, "--policy", policy, *PAST)[1]
    whole = np.concatenate([measured(40, 1), GAINS])
    np.save("whole", whole.T)
    power = pd.DataFrame(20 + 10 * np.log10(whole), columns=["b2", "b10"]).rename_axis("time").reset_index()
    power.melt("time", var_name="link").to_csv("long.csv", index=False)
    split = ["--policy", policy, "--split", 40 / 52, "--out", "eta.csv"]
    _, eta, err = schedule(capsys, *split, gains="whole.npy")
    np.testing.assert_array_equal(eta, expected)
    assert "the first 40 rounds of whole.npy are the past" in err
    _, eta, _ = schedule(capsys, *split, "--unit", "dbm", "--transmit-power", 20, gains="long.csv")
    np.testing.assert_allclose(eta, expected, rtol=1e-9)  # of a decibel's digits
    assert run("plot", "eta.csv", "eta.svg", "--x", "round", "--y", "noise_energy", "--linear", "x") == 0


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
    assert run(*GIVEN, "gains.csv", "--out", "eta.csv", "--policy", "spend:Spender") == code
    said = capsys.readouterr()
    assert (place / "eta.csv").exists() == bool(said.out) == (code == 0)
    assert ("Spender must not exceed nu = 0.002, but its cost is 0.006, 3 times nu" in said.err) == (code == 1)


@pytest.mark.parametrize("option", ["--gains", "--past"])
def test_last_line_without_break_is_noted(place, capsys, option):
    (place / "cut.csv").write_text((place / "past.csv").read_text().rstrip())
    _, _, err = schedule(capsys, option, "cut.csv")
    assert "note: cut.csv, line 41: no line break at its end" in err
