"""``adascale train`` and ``adascale audit``: what a stranger types, and what happens when it is wrong."""

import json
import os
import signal
import sys
import time
from functools import partial

import pandas as pd
import pytest

from adascale.audit import audit_gradients
from adascale.runs import execution
from adascale.runs.specification import make_run

from ..command import refused, run
from ..test_extension import DATA

SHORT = ["train", "--dataset", "digits", "--nu", 0.5, "--rounds", 6, "--every", 3]


def test_train_writes_a_row_and_a_history(tmp_path, capsys):
    out, history = tmp_path / "run.csv", tmp_path / "history.csv"
    assert run(*SHORT, "--seed", 3, "--out", out, "--history", history, "--json") == 0
    (_, row), *others = pd.read_csv(out).iterrows()
    assert not others
    assert row[["dataset", "policy", "seed", "rounds", "shortened"]].tolist() == [
        "digits",
        "AdaScale",
        3,
        6,
        True,
    ]
    assert row.cost == pytest.approx(0.5, rel=1e-8)
    assert row.penalty > 0
    rounds = pd.read_csv(history)
    assert rounds["round"].tolist() == list(range(6))
    assert rounds.accuracy.notna().tolist() == [False, False, True] * 2
    assert (rounds.accuracy.iloc[-1], rounds.epsilon.iloc[-1]) == (
        row.test_accuracy,
        row.epsilon,
    )
    assert {
        "run",
        "rdp",
        "floor_max",
        "wall_seconds",
        "device",
        "machine",
        "torch",
        "commit",
    } <= {*row.index}
    said = capsys.readouterr()
    assert "note: 6 of 200 rounds" in said.err
    printed = json.loads(said.out)
    assert printed["history"][0]["accuracy"] is None
    again = pd.DataFrame(printed["history"])[["batch_size", "loss"]]
    pd.testing.assert_frame_equal(again, rounds[["batch_size", "loss"]], rtol=1e-12)


def test_infinity_is_a_string_in_json(tmp_path, capsys):
    store = tmp_path / "store"
    for _ in range(2):  # the second is read from the store
        assert run(*SHORT, "--policy", "noise-free", "--json", "--store", store) == 0
        printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        assert printed["epsilon"] == printed["history"][-1]["epsilon"] == "Infinity"
        assert (printed["policy"], printed["cost"], printed["rdp"]) == (
            "NoiseFree",
            None,
            None,
        )
    (row,) = store.glob("*/row.json")
    json.loads(row.read_text(), parse_constant=pytest.fail)


def test_own_data_and_network_need_no_preset(place, capsys):
    (place / "waves.py").write_text(DATA.replace("120", "555").replace("100", "505"))
    command = ("train", "--dataset", "waves:squares", "--nu", 0.5, "--rounds", 3)
    assert run(*command, "--model", "waves:net", "--json") == 0
    said = capsys.readouterr().err
    assert "note: squares is trained like the digits" in said
    assert "note: the network has 34 parameters" in said
    assert "model 'digits_cnn' must give" in refused(
        capsys, *command
    )  # the digits' network does not fit
    assert "module 'waves' has no 'missing'" in refused(
        capsys, "train", "--dataset", "waves:missing", "--nu", 0.5
    )
    made = make_run(
        "waves:squares", "EqualAlloc", 0.5, 0, model="waves:net", batch_size=10
    )
    assert made.scenario.dataset_size == (51.0,) * 5 + (50.0,) * 5
    assert list(made.sources) == ["waves:squares", "waves:net"]


def test_whole_run_of_a_preset_file_is_not_shortened_and_the_network_size_names_the_file(
    place, capsys
):
    (place / "base.toml").write_text(
        'base = "digits"\nscenario = { num_parameters = 7, num_rounds = 4 }\n'
    )
    (place / "own.toml").write_text(
        'base = "base.toml"\nscenario = { name = "waves" }\n'
    )
    assert (
        run(
            "train",
            "--dataset",
            "own.toml",
            "--nu",
            0.5,
            "--policy",
            "equalalloc",
            "--out",
            "run.csv",
        )
        == 0
    )
    assert not pd.read_csv("run.csv").shortened[0]
    (note,) = capsys.readouterr().err.splitlines()
    assert note.endswith(
        "the network has 9370 parameters, which replace the 7 in base.toml"
    )


def test_missing_torch_is_named_with_the_extra(capsys, monkeypatch):
    for name in [
        name
        for name in sys.modules
        if name.startswith(("adascale.learning", "adascale.runs"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run("train", "--nu", 1) == 2
    assert "pip install 'adascale[learn]'" in capsys.readouterr().err


def test_ctrl_c_without_a_store_keeps_nothing(capsys, monkeypatch):
    def pressed(*_, **__):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)  # until it arrives, which may take a moment

    monkeypatch.setattr(execution, "perform", pressed)
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a process in the background may ignore it
    try:
        assert run(*SHORT) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.startswith(
        "adascale train: stopped; nothing was kept; with --store DIR the same "
    )


AUDIT = ("audit", "--rounds", 10, "--nu", 2.56)


def test_honest_training_is_not_refuted_by_its_audit(capsys):
    """The lower bound is printed next to the accounted epsilon."""
    assert run(*AUDIT, "--canaries", 200, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["dataset"], found["policy"], found["confidence"]) == (
        "digits",
        "Learn",
        0.95,
    )
    assert (
        0
        <= found["lower"]
        == max(found["one_run"], found["rates"])
        < found["epsilon"]
        <= found["renyi"]
    )
    assert found["scaled"] < found["epsilon"]
    assert found["canaries"] == 200
    assert found["right"] <= found["guesses"]


def test_refuted_epsilon_is_one_line_and_exit_1(monkeypatch, capsys):
    monkeypatch.setattr(
        "adascale.audit.audit_gradients", partial(audit_gradients, noise=False)
    )
    assert run(*AUDIT) == 1
    said = capsys.readouterr()
    assert "the training leaks more than accounted: epsilon " in said.err
    assert said.err.count("\n") == 1
