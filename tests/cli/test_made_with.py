"""Tables say what they were made with, and a command that reads one with anything else refuses it."""

import csv
import json
import re
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
SCHEDULE = [
    "schedule",
    "--scenario",
    "my.toml",
    "--gains",
    "gains.csv",
    "--nu",
    0.002,
    "--out",
    "eta.csv",
    "--policy",
]
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
def test_schedule_names_what_it_was_made_with_and_other_tools_read_it(
    place, capsys, policy
):
    assert run(*SCHEDULE, policy, "--interference", -6) == 0
    table = pd.read_csv("eta.csv")
    (text,) = set(table.made_with)
    facts = dict(fact.split("=", 1) for fact in text.split("|"))
    assert (facts["scenario"], facts["interference"], facts["rounds"]) == (
        "lab_7_roof",
        "-6dB",
        "12",
    )
    assert facts["policy"].lower() == policy.replace(",", "_")
    assert facts["nu"] == "0.002"
    assert facts["digest"] == marks.digest(
        replace(SCENARIO, privacy_noise_power=1e-12 * 10**-0.6)
    )
    assert table.eta.dtype == float
    with open("eta.csv", newline="") as file:
        assert {len(row) for row in csv.reader(file)} == {table.shape[1]}
    assert (
        np.loadtxt("eta.csv", delimiter=",", skiprows=1, usecols=4).tolist()
        == table.eta.tolist()
    )


def test_epsilon_refuses_another_scenario_and_another_interference(place, capsys):
    assert run(*SCHEDULE, "equalalloc") == 0
    mine, _ = answered(capsys, *EPSILON, "my.toml")
    assert (
        answered(capsys, *EPSILON, "renamed.toml")[0] == mine
    )  # neither name nor order matters to epsilon
    for arguments, said in (
        (
            ["noisier.toml"],
            "made with the scenario lab_7_roof with interference none, and is read with",
        ),
        (["batch.toml"], "with other constants"),
        (["mnist"], "is read with mnist"),
        (
            ["my.toml", "--interference", -6],
            "is read with lab_7_roof with interference -6dB",
        ),
    ):
        assert said in answered(capsys, *EPSILON, *arguments, code=2)[1]
    assert run(*SCHEDULE, "equalalloc", "--interference", -6) == 0
    part, _ = answered(capsys, *EPSILON, "my.toml", "--interference", -6)
    assert part["epsilon"] > mine["epsilon"]
    for other in ([], ["--interference", -3]):
        assert (
            "with interference -6dB, and is read"
            in answered(capsys, *EPSILON, "my.toml", *other, code=2)[1]
        )


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


def test_columns_that_contradict_the_scenario_are_refused_without_the_mark(
    place, capsys
):
    assert run(*SCHEDULE, "equalalloc") == 0
    table = pd.read_csv("eta.csv")
    mine, _ = answered(capsys, *EPSILON, "my.toml")
    table.drop(columns="made_with").to_csv("eta.csv", index=False)
    same, said = answered(capsys, *EPSILON, "my.toml")
    assert same == mine
    assert "has no column made_with" in said
    assert (
        "line 2: noise_energy times eta is"
        in answered(capsys, *EPSILON, "noisier.toml", code=2)[1]
    )


def test_stream_marks_every_answer_and_any_part_of_it_is_read(place, capsys):
    gains = (place / "gains.csv").read_text().splitlines(keepends=True)
    command = [
        "stream",
        "--scenario",
        "my.toml",
        "--nu",
        "0.002",
        "--state",
        "s",
        "--interference",
        "-6",
    ]
    text = subprocess.run(
        [sys.executable, "-P", "-m", "adascale", *command],
        input="".join(gains[:7]), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (place / "eta.csv").write_text(text)
    table = pd.read_csv("eta.csv")
    assert (len(table), table.made_with.nunique()) == (6, 1)
    found, _ = answered(capsys, *EPSILON, "my.toml", "--interference", -6)
    assert (
        found["epsilon"] <= table.epsilon.iloc[-1]
    )  # the exact accountant's below Renyi's
    assert "with interference -6dB" in answered(capsys, *EPSILON, "my.toml", code=2)[1]


def test_leakage_marks_its_table(place, capsys):
    assert (
        run(
            "leakage",
            "--scenario",
            "my.toml",
            "--nu",
            1,
            "--policy",
            "optimal",
            "--out",
            "t.csv",
        )
        == 0
    )
    (text,) = set(pd.read_csv("t.csv").made_with)
    assert f"digest={marks.digest(SCENARIO)}|" in text
    assert run("plot", "t.csv", "t.svg") == 0


# What a hostile user might read ---------------------------------------------------------------------------------------

SAME = {  # other words for the same constants, of which epsilon is the same
    "devices one by one": replace(SCENARIO, max_power=(0.2, 0.2)),
    "all of the noise protects": replace(SCENARIO, privacy_noise_power=1e-12),
}


@pytest.mark.parametrize("other", SAME.values(), ids=SAME)
def test_other_words_for_the_same_scenario_are_the_same_scenario(place, capsys, other):
    assert run(*SCHEDULE, "equalalloc") == 0
    (place / "same.toml").write_text(other.to_toml())
    assert (
        answered(capsys, *EPSILON, "same.toml")[0]
        == answered(capsys, *EPSILON, "my.toml")[0]
    )
    assert (
        answered(capsys, *EPSILON, "my.toml", "--interference", 0)[0]
        == answered(capsys, *EPSILON, "my.toml")[0]
    )


def test_a_policy_is_the_same_however_it_is_spelt(place, capsys):
    texts = set()
    for policy in (["equalalloc"], ["EqualAlloc"], ["equal-alloc"]):
        assert run(*SCHEDULE, *policy) == 0
        texts |= {*pd.read_csv("eta.csv").made_with}
    assert len(texts) == 1


def rewritten(**changes):
    """The table eta.csv again, with columns changed by functions of the table."""
    table = pd.read_csv("eta.csv")
    table.assign(**{name: change(table) for name, change in changes.items()}).to_csv(
        "eta.csv", index=False
    )


def other(name, was, now):
    """A mark in whose second half a fact has another value."""
    return lambda table: [
        text.replace(f"{name}={was}", f"{name}={now}") if t > 5 else text
        for t, text in enumerate(table.made_with)
    ]


BAD = {
    "another nu": (
        {"made_with": other("nu", "0.002", "0.003")},
        "line 8: .* got 'nu=0.002' and 'nu=0.003'",
    ),
    "another policy": (
        {"made_with": other("policy", "EqualAlloc", "Learn")},
        "'policy=EqualAlloc' and 'policy=Learn'",
    ),
    "no mark in some rows": (
        {"made_with": lambda table: table.made_with.where(table["round"] < 6)},
        "line 8: .* and 'scenario=None'",
    ),
    "own text": (
        {"made_with": lambda _: "me"},
        "expected made_with as 'adascale schedule' writes it, got 'me'",
    ),
    "blank": ({"made_with": lambda _: " "}, "expected made_with as"),
    "long text": (
        {"made_with": lambda _: "scenario=" + "x" * 5000 + "|digest=1"},
        r"scenario x{60,100}\.\.\.",
    ),
    "sent without noise": (
        {
            "noise_energy": lambda table: table.noise_energy.where(
                table["round"] != 3, np.inf
            )
        },
        "line 5",
    ),
    "skipped with noise": (
        {"eta": lambda table: table.eta.where(table["round"] != 3, 0.0)},
        "line 5: eta is 0",
    ),
    "another floor": (
        {"floor": lambda table: table.floor * 1.1},
        "line 2: floor times the largest eta is",
    ),
    "later rounds": (
        {"round": lambda table: table["round"] + 6},
        "line 2: expected the rounds from 0 on, got 6",
    ),
    "rounds from 1": (
        {"round": lambda table: table["round"] + 1},
        "line 2: expected the rounds from 0 on, got 1",
    ),
    "another version": ({"made_with": lambda table: table.made_with + ".9"}, None),
    "versions": ({"made_with": other("adascale", "", "9")}, None),
}


@pytest.mark.parametrize(("changes", "said"), BAD.values(), ids=BAD)
def test_a_table_that_was_changed_is_refused_in_one_short_line(
    place, capsys, changes, said
):
    assert run(*SCHEDULE, "equalalloc") == 0
    mine, _ = answered(capsys, *EPSILON, "my.toml")
    rewritten(**changes)
    if said is None:  # the control: what changes no fact, and versions alone, is read
        assert answered(capsys, *EPSILON, "my.toml")[0] == mine
        return
    err = answered(capsys, *EPSILON, "my.toml", code=2)[1]
    (line,) = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert re.search(said, line)
    assert len(line) < 400


def test_a_table_of_ones_own_is_read_with_notes_on_what_was_not_checked(place, capsys):
    assert run(*SCHEDULE, "equalalloc") == 0
    table = pd.read_csv("eta.csv")[["round", "eta"]].iloc[:7]
    table.assign(round=table["round"] + 1).to_csv("eta.csv", index=False)
    _, err = answered(capsys, *EPSILON, "my.toml")
    assert "note: eta.csv has no column made_with" in err
    assert "note: eta.csv has 7 rounds, where lab 7, roof has 12" in err
    table.assign(round=table["round"] + 2).to_csv("eta.csv", index=False)
    assert (
        "expected the rounds from 0 on, got 2"
        in answered(capsys, *EPSILON, "my.toml", code=2)[1]
    )


def test_a_stream_without_its_first_rounds_is_refused_and_a_byte_order_mark_is_read(
    place, capsys, monkeypatch
):
    lines = (place / "gains.csv").read_text().splitlines(keepends=True)
    lines.insert(3, "wrong\n")
    command = [
        sys.executable,
        "-P",
        "-m",
        "adascale",
        "stream",
        "--scenario",
        "my.toml",
        "--nu",
        "0.002",
        "--state",
        "s",
    ]
    text = subprocess.run(
        command, input="".join(lines), capture_output=True, text=True, check=True
    ).stdout
    assert "error," in text
    (place / "eta.csv").write_text(text, encoding="utf-8-sig")
    assert answered(capsys, *EPSILON, "my.toml")[0]["rounds"] == 12
    header, *answers = text.splitlines()
    (place / "eta.csv").write_text("\n".join([header, *answers[5:]]) + "\n")
    assert (
        "expected the rounds from 0 on, got 4"
        in answered(capsys, *EPSILON, "my.toml", code=2)[1]
    )


def test_plot_refuses_a_line_of_rows_that_were_made_with_different_things(
    place, capsys
):
    command = [
        "leakage",
        "--scenario",
        "my.toml",
        "--policy",
        "optimal",
        "--nu",
        1,
        "--nu",
        2,
        "--realisations",
        2,
    ]
    assert run(*command, "--out", "a.csv") == 0
    assert run(*command, "--seed", 5, "--interference", -6, "--out", "b.csv") == 0
    pd.concat([pd.read_csv("a.csv"), pd.read_csv("b.csv")]).to_csv("t.csv", index=False)
    assert (
        "rows made with 'interference=none' and 'interference=-6dB'"
        in answered(capsys, "plot", "t.csv", "t.svg", code=2)[1]
    )
    assert not (place / "t.svg").exists()
    assert run("plot", "t.csv", "t.svg", "--by", "policy", "--by", "made_with") == 0
