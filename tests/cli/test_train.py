"""``adascale train`` and ``adascale download``: what a stranger types, and what happens when it is wrong."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from ..command import run

SHORT = ["train", "--dataset", "digits", "--nu", 0.5, "--rounds", 6, "--every", 3]


def test_train_writes_a_row_and_a_history(tmp_path, capsys):
    out, history = tmp_path / "run.csv", tmp_path / "history.csv"
    assert run(*SHORT, "--seed", 3, "--out", out, "--history", history) == 0
    (_, row), *others = pd.read_csv(out).iterrows()
    assert not others
    assert row[["dataset", "policy", "seed", "rounds", "shortened"]].tolist() == ["digits", "AdaScale", 3, 6, True]
    assert row.cost == pytest.approx(0.5, rel=1e-8)
    assert row.penalty > 0
    rounds = pd.read_csv(history)
    assert rounds["round"].tolist() == list(range(6))
    assert rounds.accuracy.notna().tolist() == [False, False, True] * 2
    assert rounds.accuracy.iloc[-1] == row.test_accuracy
    assert rounds.epsilon.iloc[-1] == row.epsilon
    expected = ["run", "dataset", "policy", "nu", "seed", "rounds", "shortened", "penalty", "cost", "rdp", "epsilon",
                "test_accuracy", "test_loss", "floor_max", "floor_max_round", "wall_seconds", "device", "machine",
                "python", "torch", "numpy", "commit"]  # fmt: skip
    assert set(expected) <= set(row.index)
    said = capsys.readouterr()
    assert "note: 6 of 200 rounds" in said.err
    assert "test_accuracy" in said.out


def test_a_store_keeps_the_run_and_gives_it_again(tmp_path, capsys):
    for name in ("first.csv", "again.csv"):
        assert run(*SHORT, "--store", tmp_path / "store", "--out", tmp_path / name) == 0
    first, again = ((tmp_path / name).read_text() for name in ("first.csv", "again.csv"))
    assert first == again  # the time it took included: nothing was run
    assert len(list((tmp_path / "store").iterdir())) == 1


def test_json_is_the_same_run(tmp_path, capsys):
    history = tmp_path / "history.csv"
    assert run(*SHORT, "--policy", "optimal", "--history", history, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert "penalty" not in printed
    assert printed["history"][0]["accuracy"] is None
    again = pd.DataFrame(printed["history"])[["batch_size", "loss"]]
    pd.testing.assert_frame_equal(again, pd.read_csv(history)[["batch_size", "loss"]], rtol=1e-12)


def test_a_whole_run_is_not_called_shortened(tmp_path, capsys):
    out = tmp_path / "run.csv"
    (tmp_path / "small.toml").write_text('base = "digits"\nscenario = { num_rounds = 4 }\n')
    assert run("train", "--dataset", tmp_path / "small.toml", "--nu", 0.5, "--policy", "equalalloc", "--out", out) == 0
    assert not pd.read_csv(out).shortened[0]
    assert capsys.readouterr().err == ""


BAD = {
    "nu is zero": (["--nu", 0], "nu must be finite and > 0, got 0.0"),
    "nu is missing": ([], "--nu"),
    "a negative seed": (["--nu", 1, "--seed", -1], "seed must be a whole number >= 0"),
    "no rounds": (["--nu", 1, "--rounds", 0], "rounds must be a whole number >= 1, got 0"),
    "too many rounds": (["--nu", 1, "--rounds", 201], "rounds must be at most the 200 of digits, got 201"),
    "an unknown data set": (["--nu", 1, "--dataset", "imagenet"], "preset 'imagenet' is unknown"),
    "an unknown policy": (["--nu", 1, "--policy", "best"], "policy 'best' is unknown"),
    "an unknown device": (["--nu", 1, "--device", "abacus"], "device 'abacus' is not available"),
    "delta is one": (["--nu", 1, "--delta", 1], "delta must be one number strictly between 0 and 1, got 1.0"),
    "never evaluated": (["--nu", 1, "--every", 0], "every must be a whole number >= 1, got 0"),
    "data that is not there": (["--nu", 1, "--dataset", "mnist"], "run 'adascale download mnist' once"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_argument_is_one_clear_line_and_writes_nothing(tmp_path, capsys, monkeypatch, kind):
    arguments, expected = BAD[kind]
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    out.mkdir()
    monkeypatch.setenv("ADASCALE_DATA", str(data))
    assert run("train", *arguments, "--out", out / "run.csv", "--history", out / "history.csv") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert expected in said.err
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("option", ["--out", "--history"])
def test_a_folder_that_is_not_there_is_said_before_the_work(tmp_path, capsys, option):
    assert run("train", "--nu", 1, option, tmp_path / "nowhere" / "x.csv") == 2
    assert f"{option} " in capsys.readouterr().err


def test_without_torch_the_command_says_what_to_install(capsys, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("adascale.learning", "adascale.runs"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run("train", "--nu", 1) == 2
    assert "pip install 'adascale[learn]'" in capsys.readouterr().err


def test_download_fetches_what_is_named_only(tmp_path, capsys, monkeypatch):
    from adascale.learning import data

    monkeypatch.setattr(data, "download", lambda name: tmp_path / name)
    assert run("download", "mnist") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'mnist'}\n"
    monkeypatch.undo()
    assert run("download", "digits") == 2
    assert "dataset 'digits' is not downloaded; expected one of mnist, cifar10" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "sweep", "download"])
def test_help_explains_itself(command):
    done = subprocess.run(
        [sys.executable, "-m", "adascale", command, "--help"], capture_output=True, text=True, check=True
    )
    assert "example:" in done.stdout
    assert done.stderr == ""
