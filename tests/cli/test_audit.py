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
    assert 0 <= told["lower"] == max(told["one_run"], told["paired"]) < told["epsilon"] <= told["renyi"]
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
    assert told["paired"] is None
    assert told["lower"] == told["one_run"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--canaries", 3], "canaries must be at least 10, got 3"),
        (["--canaries", 9371], "canaries must be at most the 9370 parameters"),
        (["--black-box", "--canaries", 298], "canaries must be at most the 297 test samples"),
        (["--black-box", "--runs", 2], "--black-box goes with neither"),
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
