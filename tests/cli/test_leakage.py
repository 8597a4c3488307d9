"""``adascale leakage``: what it writes, prints and notes."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from adascale import Problem, Scenario, policies

from ..command import refused, run
from .streams import CONSTANT, SMALL, measured

LEAKAGE = ["leakage", "--scenario", "my.toml"]
SHORT = replace(Scenario.mnist(), num_rounds=30)


@pytest.fixture
def table(place, capsys):
    """The table that is printed, by policy, and the notes."""
    (place / "short.toml").write_text(SHORT.to_toml())

    def call(*arguments):
        capsys.readouterr()
        assert run("leakage", *arguments, "--format", "csv") == 0
        out, err = capsys.readouterr()
        return pd.read_csv(io.StringIO(out)).set_index("policy"), err

    return call


def test_json_has_no_nan_where_a_budget_is_out_of_reach(capsys, answer, place):
    how = [*LEAKAGE, "--nu", 1e9, "--policy", "lyapunovpowercontrol"]
    how += ["--realisations", 3]
    assert run(*how, "--json", "--policy", "optimal") == 0
    out, err = capsys.readouterr()
    rows = json.loads(out, parse_constant=pytest.fail)
    assert [row["cost"] for row in rows[:3]] == [None] * 3
    assert "cannot meet --nu in 3 of 3 realisations" in err
    message = refused(capsys, *how, code=1)
    assert "LyapunovPowerControl at nu = 1e+09" in message


@pytest.mark.parametrize(
    ("policy", "note"),
    [
        ("mine:Thrifty", "Thrifty spends 0.1 times nu;"),
        ("limit:Thrifty", "Thrifty spends nothing;"),
        ("equalalloc", ""),
    ],
)
def test_policy_that_does_not_spend_nu_is_noted(place, capsys, policy, note):
    own = CONSTANT.replace("floor + self.extra", "floor")
    (place / "limit.py").write_text(own)
    assert run(*LEAKAGE, "--nu", 1e-3, "--policy", policy) == 0
    notes = capsys.readouterr().err
    assert f"note: {note}" in notes if note else "spends" not in notes


@pytest.mark.parametrize("chains", ["one", "all"])
def test_a_fixed_epsilon_that_the_channel_exceeds_is_noted(table, chains):
    how = ["--scenario", "short.toml", "--epsilon", 2, "--realisations", 1]
    how += ["--policy", "truncated:epsilon=2", "--accountant", "exact"]
    _, notes = table(*how, "--channel", f"beamforming:chains={chains}")
    assert "note: the channel is Beamforming(" in notes
    assert ("times --epsilon: its parameter is fixed" in notes) == (chains == "all")


def test_a_ratio_to_the_reference_is_taken_in_each_realisation(table):
    how = [*LEAKAGE[1:], "--nu", 1e-3, "--realisations", 4, "--policy", "optimal"]
    printed, _ = table(*how, "--policy", "equalalloc", "--out", "x.csv")
    epsilon = pd.read_csv("x.csv").set_index(["policy", "seed"]).epsilon
    ratio = stats.gmean(epsilon["EqualAlloc"] / epsilon["Optimal"])
    shown = printed["epsilon / Optimal"]
    assert shown["EqualAlloc"] == pytest.approx(ratio, rel=1e-3)
    assert np.isnan(shown["Optimal"])


@pytest.fixture
def trace(place):
    """A trace of 30 rounds of two devices, and its options."""
    gains = measured(30, 3)
    table = pd.DataFrame(gains, columns=["h2_1", "h2_2"])
    table.to_csv("trace.csv", index=False)
    return gains, ["--gains", "trace.csv", "--scenario", "my.toml", "--nu", 0.002]


def test_realisations_of_a_trace_are_its_blocks(trace):
    gains, how = trace
    chosen = ["--policy", "optimal", "--policy", "equalalloc", "--out", "x.csv"]
    for more, length in ([], 15), (["--realisations", 3], 10):
        assert run("leakage", *how, *chosen, *more) == 0
        found = pd.read_csv("x.csv").set_index("policy").epsilon
        least = SMALL.min_gain(gains.T).reshape(-1, length)
        problem = Problem(SMALL, least, 0.002)
        for policy in policies.Optimal(), policies.EqualAlloc():
            expected = problem.epsilon(policy.schedule(problem))
            assert found[type(policy).__name__].tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    "policy",
    [
        *("adascale", "learn", "powercontrol", "estimfuture"),
        *("mine:Constant", "truncated:threshold=1e-12", "lyapunovpowercontrol"),
    ],
)
def test_policies_get_from_the_past_what_schedule_gets(trace, answer, policy):
    how = [*trace[1], "--split", 0.5, "--policy", policy]
    (row,) = answer("leakage", *how, "--realisations", 1)
    totals = answer("schedule", *how)
    for name in "cost", "rdp", "epsilon", "epsilon_mean":
        assert row[name] == pytest.approx(totals[name], rel=1e-6, abs=1e-12)


def test_advice_says_whether_adapting_pays(trace, capsys):
    chosen = ["--policy", "equalalloc", "--policy", "learn:budget_mode=hard"]
    how = [*LEAKAGE[1:], "--nu", 0.005, *chosen, "--realisations", 1]
    flat = pd.DataFrame(1e-12, index=range(30), columns=["h2_1", "h2_2"])
    flat.to_csv("flat.csv", index=False)
    for gains, verdict in {
        "trace.csv": r"Learn, hard has least, .* times; adapting saves [1-9][.\d]* %",
        "flat.csv": "none has less than an even share, which will do",
    }.items():
        assert run("leakage", *how, "--gains", gains) == 0
        out, err = capsys.readouterr()
        assert "Learn, hard" in out
        assert re.search(verdict, err)


BROKEN = """
from adascale.policies import OnlinePolicy
class Broken(OnlinePolicy):
    label = "mine"
    def start(self, scenario, budget): return 0
    def decide(self, t, floor): return t + 1, floor * [1, 1, 1][t]
"""
OFFLINE = """
from adascale.policies import Policy
class Broken(Policy):
    def __init__(self, level=1): self.level = level
    tuned, label = (), "mine"
    def schedule(self, problem): return self.level / 0 + problem.floor
"""
SELECTING = """
from adascale.policies import Selecting
class Broken(Selecting):
    label = "mine"
    def start(self, scenario): return []
    def decide(self, state, gain): return state[0]
"""
BROKEN_AND_WHERE = {
    "decide": (BROKEN, 6, "in round 3: IndexError: list index out"),
    "start": (
        BROKEN.replace("return 0", "return 0 / 0"),
        5,
        "before round 0: ZeroDivisionError",
    ),
    "schedule": (OFFLINE, 6, "in its schedule: ZeroDivisionError"),
    "tuned": (
        OFFLINE.replace("()", '("level",)').replace("/ 0", "/ None"),
        6,
        "in its schedule: TypeError",
    ),
    "senders": (SELECTING, 6, "in its choice: IndexError"),
}


@pytest.mark.parametrize("method", BROKEN_AND_WHERE)
def test_error_of_own_policy_names_it_and_its_line_alone(trace, place, capsys, method):
    code, line, reason = BROKEN_AND_WHERE[method]
    (place / "broken.py").write_text(code)
    assert run("leakage", *trace[1], "--policy", "broken:Broken") == 1
    _, _, report = capsys.readouterr().err.partition("adascale leakage: error: ")
    assert report.startswith(f"mine failed {reason}")
    assert re.findall(r'File "(.*)", line (\d+)', report) == [
        (str(place / "broken.py"), str(line))
    ]


@pytest.mark.parametrize(
    "code",
    [
        BROKEN.replace("t + 1, floor * [1, 1, 1][t]", "None"),
        SELECTING.replace("state[0]", "None"),
    ],
)
def test_own_decision_without_its_parts_is_one_line(trace, place, capsys, code):
    (place / "broken.py").write_text(code)
    assert run("leakage", *trace[1], "--policy", "broken:Broken") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.search("mine failed .*: decide must return the next .*, got None", said)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--channel", "rician"], "--gains cannot be combined"),
        (["--seed", 3], "--gains cannot be combined"),
        (["--realisations", 31], "at most the 30 rounds"),
        (["--split", 0.2, "--policy", "powercontrol"], "must be 12 at least"),
    ],
)
def test_options_that_do_not_fit_a_trace_are_refused(trace, capsys, more, message):
    assert message in refused(capsys, "leakage", *trace[1], *more)


def test_a_privacy_budget_needs_no_hindsight(table):
    how = ["--scenario", "my.toml", "--realisations", 1, "--epsilon", 2]
    printed, _ = table(*how, "--accountant", "exact", "--policy", "privacybudget")
    row = printed.loc["PrivacyBudget"]
    assert 0.98 * 2 < row["epsilon"] <= 2
    assert row["knows"] == "nothing"
