"""No output is an input, another output, or a place that cannot be written: said before any work is done."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import adascale
from adascale.cli import common

from ..command import refused, run

LEAKAGE = [
    "leakage",
    "--scenario",
    "my.toml",
    "--nu",
    0.1,
    "--policy",
    "optimal",
    "--out",
    "out.csv",
]


@pytest.mark.parametrize(
    "other", ["past.csv", "./past.csv", "sub/../past.csv", "link.csv", "hard.csv"]
)
def test_output_is_no_input_nor_another_output_under_any_name(place, other):
    (place / "sub").mkdir()
    (place / "link.csv").symlink_to("past.csv")
    os.link(place / "past.csv", place / "hard.csv")
    with pytest.raises(ValueError, match=r"--out '.*' is the file of --gains"):
        common.check_outputs({"--gains": place / "past.csv"}, {"--out": Path(other)})
    with pytest.raises(ValueError, match="is the file of --gains"):
        common.check_outputs({"--gains": Path(other)}, {"--out": Path("past.csv")})
    before = {path: path.read_bytes() for path in place.glob("*.*")}
    with pytest.raises(
        ValueError, match=r"--history 'sub/../new\.csv' is the file of --out"
    ):
        common.check_outputs(
            {}, {"--out": Path("new.csv"), "--history": Path("sub/../new.csv")}
        )
    common.check_outputs(
        {"--gains": Path("nothing"), "--scenario": None},
        {"--out": Path(other), "--x": None},
    )
    assert {
        path: path.read_bytes() for path in place.glob("*.*")
    } == before  # the check changes no file


IRREGULAR, ABSENT = "it is not a regular file", "there is no folder"
PLACES = [
    (".", IRREGULAR),
    ("nowhere/x.csv", ABSENT),
    ("past.csv/x.csv", ABSENT),
    ("/dev/null", IRREGULAR),
]
PLACES += [
    ("circle", "circle|loop|not a regular file"),
    ("x" * 300, "name too long"),
    ("a\0b", "null"),
]


def test_unwritable_place_is_named(place):
    (place / "circle").symlink_to("circle")
    for path, said in PLACES:
        with pytest.raises(
            ValueError, match=f"(?i)^--out '.*' cannot be written: .*({said})"
        ):
            common.check_outputs({"--gains": Path("a\0c")}, {"--out": Path(path)})


@pytest.mark.parametrize(
    ("closed", "said"),
    [("past.csv", "'.*/past.csv' is read-only"), (".", "'.*' is read-only")],
)
def test_read_only_place_is_named(place, monkeypatch, closed, said):
    # as the system answers who is not root, to whom nothing is read-only
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path) != (place / closed).resolve()
    )
    with pytest.raises(ValueError, match=f"--out 'past.csv' cannot be written: {said}"):
        common.check_outputs({}, {"--out": Path("past.csv")})


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="no device that is always full"
)
def test_output_that_cannot_be_printed_is_one_line(place, capsys, monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(*LEAKAGE) == 2
    assert (
        capsys.readouterr().err
        == "adascale leakage: error: [Errno 28] No space left on device\n"
    )
    assert (place / "out.csv").read_text().count("\n") > 1


TRAIN = [
    "train",
    "--nu",
    0.5,
    "--rounds",
    2,
    "--out",
    "out.csv",
    "--history",
    "history.csv",
]


@pytest.mark.parametrize("arguments", [LEAKAGE, TRAIN, ["train", "--help"]])
def test_reader_who_leaves_is_no_error_and_costs_no_file(
    place, capsys, monkeypatch, arguments
):
    reading, writing = os.pipe()
    os.close(reading)
    with contextlib.suppress(BrokenPipeError), open(writing, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert run(*arguments) == 141
    assert all(
        line.startswith("note: ") for line in capsys.readouterr().err.splitlines()
    )
    assert all(
        (place / name).exists() for name in arguments if str(name).endswith(".csv")
    )


def test_warning_of_own_code_is_a_note(place):
    (place / "odd.py").write_text(
        "import warnings\nfrom adascale.policies import *\nwarnings.warn('an\\nodd one')\n"
    )
    command = [*LEAKAGE[:5], "--policy", "odd:Optimal"]
    command = [
        sys.executable,
        "-P",
        "-m",
        "adascale",
        *map(str, command),
    ]  # -P: as an installed command is begun
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "note: an odd one")


SHOWN = r"n\x1b[31m\x7f\x9b\x0a\x0d\x09x"


def test_control_characters_are_shown_as_escapes(place, capsys):
    name = '"n\\u001b[31m\\u007f\\u009b\\n\\r\\tx"'
    (place / "raw.toml").write_text(
        (place / "my.toml").read_text().replace('"small"', name)
    )
    command = [
        "schedule",
        "--scenario",
        "raw.toml",
        "--gains",
        "gains.csv",
        "--nu",
        0.1,
        "--policy",
        "equalalloc",
    ]
    assert run(*command) == 0
    assert f" {SHOWN}\n" in capsys.readouterr().out
    assert run(*command, "--json") == 0
    assert name in capsys.readouterr().out
    assert (
        run(
            "leakage",
            "--scenario",
            "raw.toml",
            "--nu",
            0.1,
            "--policy",
            "optimal",
            "--out",
            "out.csv",
        )
        == 0
    )
    assert "\x1b[31m\x7f\x9b" in (place / "out.csv").read_text()
    assert run("leakage", "--scenario", "a\x1b[31m\x9bb", "--nu", 0.1) == 2
    assert r"preset 'a\x1b[31m\x9bb' is unknown" in capsys.readouterr().err
    assert run("leakage", "--nu", "\x1b") == 2
    assert capsys.readouterr().err[:-1].isprintable()


def test_progress_bar_keeps_its_returns(place, capsys, monkeypatch):
    err = io.StringIO()
    err.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", err)
    (place / "raw.toml").write_text(
        'base = "digits"\n[training]\nlearning_rate = 0.1\n'
    )
    assert run("train", "--dataset", "raw.toml", "--nu", 0.1, "--rounds", 2) == 0
    assert "\rdigits: " in err.getvalue()
    assert r"\x0d" not in err.getvalue()


def test_the_longest_name_is_written_and_a_longer_one_is_refused_before_the_work(
    place, capsys, monkeypatch
):
    assert run(*LEAKAGE[:-1], f"{'x' * 251}.csv", "--realisations", 1) == 0
    assert (place / f"{'x' * 251}.csv").read_text().startswith("dataset,")
    capsys.readouterr()
    monkeypatch.setattr(adascale, "leakage_table", None)
    assert "File name too long" in refused(capsys, *LEAKAGE[:-1], f"{'x' * 252}.csv")


NAMED = [
    ("leakage --nu 0", "--nu"),
    ("leakage --nu 1 --delta 0", "--delta"),
    ("leakage --total=-1", "--total"),
    ("stream --state s --nu 0", "--nu"),
    ("train --nu 0", "--nu"),
    ("train --nu 1 --every 0", "--every"),
    ("accounting beta --event .1,1 --alpha 2", "--alpha"),
    ("accounting delta --event .1,1 --epsilon=-1", "--epsilon"),
]


@pytest.mark.parametrize(("command", "option"), NAMED)
def test_a_value_out_of_range_is_named_with_its_option(place, capsys, command, option):
    line = refused(capsys, *command.split())
    assert f"error: argument {option}: " in line
    assert re.search(r"got -?[0-9.]+( at index 0)?$", line)


@pytest.mark.parametrize("option", ["/", ".", "..", ""])
def test_a_folder_is_no_output_of_a_sweep(place, capsys, option):
    (place / "runs.toml").write_text(
        '[[runs]]\nreading = "a"\ndataset = "digits"\npolicy = "EqualAlloc"\nnu = 1\nseed = 0'
    )
    assert "cannot be written: it is not a regular file" in refused(
        capsys, "sweep", "runs.toml", "--out", option
    )
    assert "irectory" in refused(capsys, "sweep", option)


def test_a_working_directory_that_was_removed_is_said(tmp_path, capsys, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for command in (
        "leakage --nu 1",
        "schedule --gains g.csv --nu 1",
        "accounting epsilon --event .1,1",
    ):
        assert "the working directory was removed" in refused(capsys, *command.split())
