"""``adascale audit`` prints a lower bound next to the accounted epsilon, and fails if the bound exceeds it."""

import json
from functools import partial

from adascale.audit import audit_gradients

from ..command import run

SHORT = ("--rounds", 10, "--nu", 2.56)


def test_honest_training_is_not_refuted(capsys):
    assert run("audit", *SHORT, "--canaries", 200, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["dataset"], found["policy"], found["confidence"]) == ("digits", "Learn", 0.95)
    assert 0 <= found["lower"] == max(found["one_run"], found["rates"]) < found["epsilon"] <= found["renyi"]
    assert found["scaled"] < found["epsilon"]
    assert found["canaries"] == 200
    assert found["right"] <= found["guesses"]


def test_refuted_epsilon_is_one_line_and_exit_1(monkeypatch, capsys):
    quiet = partial(audit_gradients, noise=False)
    monkeypatch.setattr("adascale.audit.audit_gradients", quiet)
    assert run("audit", *SHORT) == 1
    said = capsys.readouterr()
    assert "the training leaks more than accounted: epsilon " in said.err
    assert said.err.count("\n") == 1
