"""Tables say what they were made with, and a command that reads one with anything else refuses it."""

import csv
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from adascale import Scenario
from adascale.cli import marks

from ..command import run

SCENARIO = Scenario("lab 7, roof", 2, 12, 1000, (20, 30), (400, 500), 1.0, 0.2, 1e-12)
SCHEDULE = ["schedule", "--scenario", "my.toml", "--gains", "gains.csv", "--nu", 0.002, "--out", "eta.csv", "--policy"]
EPSILON = ["epsilon", "--eta", "eta.csv", "--json", "--scenario"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, scenario in (
        ("my.toml", SCENARIO),
        ("renamed.toml", replace(SCENARIO, name="other", num_rounds=3, order=7)),
        ("noisier.toml", replace(SCENARIO, noise_power=2e-12)),
        ("batch.toml", replace(SCENARIO, batch_size=(20, 31))),
    ):
        (tmp_path / name).write_text(scenario.to_toml())
    gain = np.random.default_rng(0).exponential([2e-12, 5e-12], (12, 2)) + 1e-13
    pd.DataFrame(gain, columns=["h2_1", "h2_2"]).to_csv("gains.csv", index=False)
    return tmp_path


def answered(capsys, *arguments, code=0):
    capsys.readouterr()
    assert run(*arguments) == code
    out, err = capsys.readouterr()
    return (json.loads(out) if code == 0 else out), err


@pytest.mark.parametrize("policy", ["equalalloc", "learn:budget_mode=hard,hold=0.2"])
def test_schedule_names_what_it_was_made_with_and_other_tools_read_it(place, capsys, policy):
    assert run(*SCHEDULE, policy, "--interference", -6) == 0
    table = pd.read_csv("eta.csv")
    (text,) = set(table.made_with)
    facts = dict(fact.split("=", 1) for fact in text.split("|"))
    assert (facts["scenario"], facts["interference"], facts["rounds"]) == ("lab_7_roof", "-6dB", "12")
    assert facts["policy"] == policy.replace(",", "_")
    assert facts["digest"] == marks.digest(replace(SCENARIO, privacy_noise_power=1e-12 * 10**-0.6))
    assert table.eta.dtype == float
    with open("eta.csv", newline="") as file:
        assert {len(row) for row in csv.reader(file)} == {table.shape[1]}
    assert np.loadtxt("eta.csv", delimiter=",", skiprows=1, usecols=4).tolist() == table.eta.tolist()


def test_epsilon_refuses_another_scenario_and_another_interference(place, capsys):
    assert run(*SCHEDULE, "equalalloc") == 0
    mine, _ = answered(capsys, *EPSILON, "my.toml")
    assert answered(capsys, *EPSILON, "renamed.toml")[0] == mine  # neither name nor order matters to epsilon
    for arguments, said in (
        (["noisier.toml"], "made with the scenario lab_7_roof with interference none, and is read with"),
        (["batch.toml"], "with other constants"),
        (["mnist"], "is read with mnist"),
        (["my.toml", "--interference", -6], "is read with lab_7_roof with interference -6dB"),
    ):
        assert said in answered(capsys, *EPSILON, *arguments, code=2)[1]
    assert run(*SCHEDULE, "equalalloc", "--interference", -6) == 0
    part, _ = answered(capsys, *EPSILON, "my.toml", "--interference", -6)
    assert part["epsilon"] > mine["epsilon"]
    for other in ([], ["--interference", -3]):
        assert "with interference -6dB, and is read" in answered(capsys, *EPSILON, "my.toml", *other, code=2)[1]


def test_epsilon_refuses_rows_of_two_schedules_and_missing_rows(place, capsys):
    assert run(*SCHEDULE, "equalalloc") == 0
    one = (place / "eta.csv").read_text().splitlines()
    assert run(*SCHEDULE, "learn") == 0
    other = (place / "eta.csv").read_text().splitlines()
    for lines, said in (
        (one[:6] + other[6:], "line 7: expected rows made with one thing"),
        (one[:-1], "was made with 12 rounds, and has 11"),
        ([*one, *other[1:]], "rounds must be in order"),
    ):
        (place / "eta.csv").write_text("\n".join(lines) + "\n")
        assert said in answered(capsys, *EPSILON, "my.toml", code=2)[1]


def test_columns_that_contradict_the_scenario_are_refused_without_the_mark(place, capsys):
    assert run(*SCHEDULE, "equalalloc") == 0
    table = pd.read_csv("eta.csv")
    mine, _ = answered(capsys, *EPSILON, "my.toml")
    table.drop(columns="made_with").to_csv("eta.csv", index=False)
    same, said = answered(capsys, *EPSILON, "my.toml")
    assert same == mine
    assert "has no column made_with" in said
    assert "line 2: noise_energy times eta is" in answered(capsys, *EPSILON, "noisier.toml", code=2)[1]


def test_stream_marks_every_answer_and_any_part_of_it_is_read(place, capsys):
    gains = (place / "gains.csv").read_text().splitlines(keepends=True)
    command = ["stream", "--scenario", "my.toml", "--nu", "0.002", "--state", "s", "--interference", "-6"]
    text = subprocess.run(
        [sys.executable, "-P", "-m", "adascale", *command],
        input="".join(gains[:7]), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (place / "eta.csv").write_text(text)
    table = pd.read_csv("eta.csv")
    assert (len(table), table.made_with.nunique()) == (6, 1)
    found, _ = answered(capsys, *EPSILON, "my.toml", "--interference", -6)
    assert found["epsilon"] <= table.epsilon.iloc[-1]  # the exact accountant's below Renyi's
    assert "with interference -6dB" in answered(capsys, *EPSILON, "my.toml", code=2)[1]


def test_leakage_marks_its_table(place, capsys):
    assert run("leakage", "--scenario", "my.toml", "--nu", 1, "--policy", "optimal", "--out", "t.csv") == 0
    (text,) = set(pd.read_csv("t.csv").made_with)
    assert f"digest={marks.digest(SCENARIO)}|" in text
    assert run("plot", "t.csv", "t.svg") == 0
