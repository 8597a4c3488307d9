"""No output is an input, another output, or a place that cannot be written: said before any work is done."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

from adascale import Scenario
from adascale.cli import common

from ..command import run


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with one file, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept.csv").write_text("kept\n")
    return tmp_path


@pytest.mark.parametrize("other", ["kept.csv", "./kept.csv", "sub/../kept.csv", "link.csv", "hard.csv"])
def test_output_is_no_input_under_any_name(place, other):
    (place / "sub").mkdir()
    (place / "link.csv").symlink_to("kept.csv")
    os.link(place / "kept.csv", place / "hard.csv")
    with pytest.raises(ValueError, match=r"--out '.*' is the file of --gains"):
        common.check_outputs({"--gains": place / "kept.csv"}, {"--out": Path(other)})
    with pytest.raises(ValueError, match="is the file of --gains"):
        common.check_outputs({"--gains": Path(other)}, {"--out": Path("kept.csv")})


def test_two_outputs_are_two_files_and_the_check_changes_none(place):
    with pytest.raises(ValueError, match=r"--history 'sub/../new\.csv' is the file of --out"):
        common.check_outputs({}, {"--out": Path("new.csv"), "--history": Path("sub/../new.csv")})
    common.check_outputs({}, {"--out": Path("new.csv"), "--history": Path("other.csv")})
    common.check_outputs({"--gains": Path("nothing"), "--scenario": None}, {"--out": Path("kept.csv"), "--x": None})
    assert [(path.name, path.read_text()) for path in place.iterdir()] == [("kept.csv", "kept\n")]


PLACES = {
    "a folder": (".", "it is not a regular file"),
    "a folder that is not there": ("nowhere/x.csv", "there is no folder"),
    "a file for a folder": ("kept.csv/x.csv", "there is no folder"),
    "a device": ("/dev/null", "it is not a regular file"),
    "links in a circle": ("circle", "circle|loop|not a regular file"),
    "a name that is too long": ("x" * 300, "name too long"),
    "no name at all": ("a\0b", "null"),
}


@pytest.mark.parametrize("kind", PLACES)
def test_unwritable_place_is_named(place, kind):
    path, said = PLACES[kind]
    (place / "circle").symlink_to("circle")
    with pytest.raises(ValueError, match=f"(?i)^--out '.*' cannot be written: .*({said})"):
        common.check_outputs({}, {"--out": Path(path)})


@pytest.mark.parametrize(("closed", "said"), [("kept.csv", "'.*/kept.csv' is read-only"), (".", "'.*' is read-only")])
def test_read_only_place_is_named(place, monkeypatch, closed, said):
    # as the system answers who is not root, to whom nothing is read-only
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != (place / closed).resolve())
    with pytest.raises(ValueError, match=f"--out 'kept.csv' cannot be written: {said}"):
        common.check_outputs({}, {"--out": Path("kept.csv")})


SMALL = Scenario("small", 2, 3, 1000, 20, 400, 1.0, 0.2, 1e-12).to_toml()


@pytest.mark.parametrize("command", ["schedule", "leakage"])
def test_failed_write_prints_the_result_and_keeps_the_old_file(place, capsys, monkeypatch, command):
    (place / "my.toml").write_text(SMALL)
    (place / "out.csv").write_text("as it was")
    (place / "g.csv").write_text("min_gain\n1e-10\n2e-10\n")
    arguments = [command, "--scenario", "my.toml", "--nu", 0.1, "--policy", "optimal", "--out", "out.csv"]
    arguments += ["--gains", "g.csv"] * (command == "schedule")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert "optimal" in said.out.lower()
    assert said.err.endswith("error: out.csv: No space left on device\n")
    assert (place / "out.csv").read_text() == "as it was"
    assert sorted(path.name for path in place.iterdir()) == ["g.csv", "kept.csv", "my.toml", "out.csv"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_output_that_cannot_be_printed_is_one_line(place, capsys, monkeypatch):
    (place / "my.toml").write_text(SMALL)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run("leakage", "--scenario", "my.toml", "--nu", 0.1, "--policy", "optimal", "--out", "out.csv") == 2
    assert capsys.readouterr().err == "adascale leakage: error: [Errno 28] No space left on device\n"
    assert (place / "out.csv").read_text().count("\n") > 1


LEAKAGE = ["leakage", "--scenario", "my.toml", "--nu", 0.1, "--policy", "optimal", "--out", "out.csv"]
TRAIN = ["train", "--nu", 0.5, "--rounds", 2, "--out", "out.csv", "--history", "history.csv"]


@pytest.mark.parametrize("arguments", [LEAKAGE, TRAIN, ["train", "--help"]])
def test_reader_who_leaves_is_no_error_and_costs_no_file(place, capsys, monkeypatch, arguments):
    (place / "my.toml").write_text(SMALL)
    reading, writing = os.pipe()
    os.close(reading)
    with contextlib.suppress(BrokenPipeError), open(writing, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert run(*arguments) == 141
    assert all(line.startswith("note: ") for line in capsys.readouterr().err.splitlines())
    assert all((place / name).exists() for name in arguments if str(name).endswith(".csv"))
