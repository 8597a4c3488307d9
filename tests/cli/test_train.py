"""``adascale train`` and ``adascale audit``: what a stranger types, and what happens when it is wrong."""

import json
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from adascale.audit import audit_gradients

from ..command import refused, run
from ..test_extension import DATA

SHORT = ["train", "--dataset", "digits", "--nu", 0.5, "--rounds", 6, "--every", 3]


def test_train_writes_a_row_and_a_history(tmp_path, capsys):
    out, history = tmp_path / "run.csv", tmp_path / "history.csv"
    assert run(*SHORT, "--seed", 3, "--out", out, "--history", history, "--json") == 0
    (row,) = pd.read_csv(out).to_dict("records")
    assert (row["policy"], row["seed"], row["rounds"]) == ("AdaScale", 3, 6)
    rounds = pd.read_csv(history)
    assert rounds["accuracy"].notna().tolist() == [False, False, True] * 2
    last = rounds.iloc[-1]
    assert (last.accuracy, last.epsilon) == (row["test_accuracy"], row["epsilon"])
    printed, notes = capsys.readouterr()
    assert "note: 6 of 200 rounds" in notes
    assert json.loads(printed)["history"][-1]["accuracy"] == last.accuracy


@pytest.mark.parametrize("policy", [[], ["--policy", "truncated"]])
def test_a_training_does_not_exceed_its_epsilon(tmp_path, policy):
    how = ["train", "--rounds", 6, "--accountant", "exact", "--epsilon", 2]
    assert run(*how, *policy, "--out", tmp_path / "run.csv") == 0
    (row,) = pd.read_csv(tmp_path / "run.csv").itertuples()
    assert 0 < row.epsilon <= 2
    assert row.cost > 0 or policy
    assert np.isnan(row.nu)  # there is none


OWN = ("train", "--dataset", "waves:squares", "--nu", 0.5, "--rounds", 3)


@pytest.fixture
def waves(place):
    (place / "waves.py").write_text(DATA.replace("120", "555").replace("100", "505"))


@pytest.mark.usefixtures("waves")
def test_own_data_and_network_need_no_preset(capsys):
    assert run(*OWN, "--model", "waves:net") == 0
    notes = capsys.readouterr().err
    assert "note: squares is trained like the digits" in notes
    assert "note: the network has 34 parameters" in notes


@pytest.mark.usefixtures("waves")
def test_network_that_does_not_fit_is_refused(capsys):
    assert "Kernel size" in refused(capsys, *OWN, code=1)


def test_missing_torch_is_named_with_the_extra(capsys, monkeypatch):
    for name in list(sys.modules):
        if name.startswith(("adascale.learning", "adascale.runs")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run("train", "--nu", 1) == 2
    assert "pip install 'adascale[learn]'" in capsys.readouterr().err


AUDIT = ("audit", "--rounds", 10, "--nu", 2.56)


def test_refuted_epsilon_is_one_line_and_exit_1(monkeypatch, capsys):
    without_noise = partial(audit_gradients, noise=False)
    monkeypatch.setattr("adascale.audit.audit_gradients", without_noise)
    assert run(*AUDIT) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "the training leaks more than accounted: epsilon " in line
