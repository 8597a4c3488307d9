"""Tables say what they were made with, and a command that reads one with anything else refuses it."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ..command import refused, run
from .streams import SMALL

SCENARIO = replace(SMALL, name="lab 7, roof")
OTHERS = {
    "renamed": replace(SCENARIO, name="other", num_rounds=3, order=7),
    "devices": replace(SCENARIO, max_power=(0.2, 0.2)),
    "protected": replace(SCENARIO, privacy_noise_power=1e-12),
    "noisier": replace(SCENARIO, noise_power=2e-12),
    "batch": replace(SCENARIO, batch_size=(20, 31)),
}
SCHEDULE = ["schedule", "--scenario", "my.toml", "--gains", "gains.csv", "--nu", 0.002]
SCHEDULE += ["--out", "eta.csv", "--policy"]
EPSILON = ["epsilon", "--eta", "eta.csv", "--scenario"]


@pytest.fixture(autouse=True)
def scheduled(place):
    """The folder of the commands' tests, with other scenarios and a schedule."""
    for name, scenario in {"my": SCENARIO, **OTHERS}.items():
        (place / f"{name}.toml").write_text(scenario.to_toml())
    assert run(*SCHEDULE, "equalalloc") == 0


@pytest.mark.parametrize("name", ["renamed", "devices", "protected"])
def test_other_words_for_the_same_constants_are_the_same_scenario(answer, name):
    assert answer(*EPSILON, f"{name}.toml") == answer(*EPSILON, "my.toml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["noisier.toml"], "lab_7_roof with interference none, and is read with"),
        (["batch.toml"], "with other constants"),
        (["mnist"], "is read with mnist"),
        (["my.toml", "--interference", -6], "with lab_7_roof with interference -6dB"),
    ],
)
def test_epsilon_refuses_another_scenario_or_interference(capsys, arguments, message):
    assert message in refused(capsys, *EPSILON, *arguments)


def changed(name, was, now):
    """A mark in whose second half a fact has another value."""
    return lambda table: [
        text.replace(f"{name}={was}", f"{name}={now}") if t > 5 else text
        for t, text in enumerate(table.made_with)
    ]


BAD = {
    "another nu": (
        {"made_with": changed("nu", "0.002", "0.003")},
        "line 8: .* got 'nu=0.002' and 'nu=0.003'",
    ),
    "no mark in some rows": (
        {"made_with": lambda table: table.made_with.where(table["round"] < 6)},
        "line 8: .* and 'scenario=None'",
    ),
    "own text": ({"made_with": lambda _: "me"}, "expected made_with as .*, got 'me'"),
    "sent without noise": (
        {"noise_energy": lambda t: t.noise_energy.where(t["round"] != 3, np.inf)},
        "line 5: noise_energy times eta",
    ),
    "skipped with noise": (
        {"eta": lambda table: table.eta.where(table["round"] != 3, 0.0)},
        "line 5: noise_energy times eta is 0",
    ),
    "another floor": (
        {"floor": lambda table: table.floor * 1.1},
        "line 2: floor times the largest eta is",
    ),
    "later rounds": (
        {"round": lambda table: table["round"] + 6},
        "line 2: expected the rounds from 0 on, got 6",
    ),
}


def rewrite(changes):
    """Write the table again, with columns changed by functions of the table."""
    table = pd.read_csv("eta.csv")
    columns = {name: change(table) for name, change in changes.items()}
    table.assign(**columns).to_csv("eta.csv", index=False)


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_a_table_that_was_changed_is_refused_in_one_short_line(
    capsys, changes, message
):
    rewrite(changes)
    line = refused(capsys, *EPSILON, "my.toml")
    assert re.search(message, line)
    assert len(line) < 400


def test_epsilon_refuses_a_schedule_without_its_last_row(place, capsys):
    lines = (place / "eta.csv").read_text().splitlines(keepends=True)
    (place / "eta.csv").write_text("".join(lines[:-1]))
    message = refused(capsys, *EPSILON, "my.toml")
    assert "was made with 12 rounds, and has 11" in message


def test_a_table_without_the_mark_is_checked_by_its_numbers(capsys, answer):
    expected = answer(*EPSILON, "my.toml")
    pd.read_csv("eta.csv").drop(columns="made_with").to_csv("eta.csv", index=False)
    assert answer(*EPSILON, "my.toml") == expected
    message = refused(capsys, *EPSILON, "noisier.toml")
    assert "line 2: noise_energy times eta is" in message
