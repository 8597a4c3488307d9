"""``adascale audit`` prints a lower bound beside the accounted epsilon, and fails where the bound is above it."""

import json

import pytest

from ..command import run

SHORT = ("--rounds", 10, "--nu", 2.56)


def test_an_honest_training_is_not_refuted(capsys):
    assert run("audit", *SHORT, "--canaries", 200, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["dataset"] == "digits"
    assert told["policy"] == "Learn"
    assert told["confidence"] == 0.95
    assert 0 <= told["lower"] == max(told["one_run"], told["rates"]) < told["epsilon"] <= told["renyi"]
    assert told["scaled"] < told["epsilon"]
    assert told["canaries"] == 200
    assert told["right"] <= told["guesses"]


@pytest.mark.parametrize("what", ["noise", "clipping"])
def test_what_is_taken_away_is_missed_and_the_exit_code_says_so(what, capsys):
    assert run("audit", *SHORT, "--sabotage", what) == 1
    said = capsys.readouterr()
    assert f"sabotage   {what}" in said.out
    assert "the training leaks more than its accountant says" in said.err
    assert said.err.count("\n") == 1


def test_the_black_box_has_one_bound(capsys):
    assert run("audit", *SHORT, "--canaries", 100, "--black-box", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "samples"
    assert told["rates"] is None
    assert told["lower"] == told["one_run"]


def test_paired_runs_are_heard_by_the_server_or_told_from_the_final_model(capsys):
    few = ("--rounds", 2, "--nu", 2.56, "--paired", 10, "--json")
    assert run("audit", *few) == 0
    heard = json.loads(capsys.readouterr().out)
    assert run("audit", *few, "--black-box") == 0
    final = json.loads(capsys.readouterr().out)
    assert (heard["kind"], heard["runs"], final["kind"], final["runs"]) == ("paired", 10, "paired samples", 10)
    assert heard["epsilon"] == final["epsilon"] > heard["lower"] >= 0
    assert final["rates"] is None
    assert heard["accuracy"] == final["accuracy"]


def test_paired_runs_without_noise_are_refuted(capsys):
    assert run("audit", "--rounds", 6, "--nu", 20, "--paired", 40, "--sabotage", "noise") == 1
    assert "refuted by" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--canaries", 3], "canaries must be at least 10, got 3"),
        (["--canaries", 9371], "canaries must be at most the 9370 parameters"),
        (["--black-box", "--canaries", 298], "canaries must be at most the 297 test samples"),
        (["--black-box", "--runs", 2], "--black-box goes with neither"),
        (["--paired", 10, "--runs", 2], "--paired goes with neither --canaries nor --runs"),
        (["--paired", 10, "--canaries", 20], "--paired goes with neither --canaries nor --runs"),
        (["--paired", 9], "runs must be at least 10, got 9"),
        (["--confidence", 1], "confidence"),
        (["--delta", 0], "delta"),
        (["--policy", "none"], "none"),
        (["--nu", -1], "nu"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(more, words, capsys):
    assert run("audit", *SHORT, *more) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert said.err.count("\n") == 1
