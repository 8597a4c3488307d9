"""No output is an input, another output, or a place that cannot be written; and what is printed."""

import contextlib
import os
import re
import sys
from pathlib import Path

import pytest

import adascale
from adascale.cli import common

from ..command import refused, run

LEAKAGE = ["leakage", "--scenario", "my.toml", "--nu", 0.1, "--policy", "optimal"]
LEAKAGE += ["--out", "out.csv"]


def test_output_is_no_input_under_another_name(place):
    (place / "link.csv").symlink_to("past.csv")
    for names in (("link.csv", "past.csv"), ("past.csv", "link.csv")):
        given, out = map(Path, names)
        with pytest.raises(ValueError, match=r"--out '.*' is the file of --gains"):
            common.check_outputs({"--gains": given}, {"--out": out})


@pytest.mark.parametrize(
    ("name", "reason"),
    [("x" * 252 + ".csv", "File name too long"), ("a\0b", "embedded null")],
)
def test_a_name_that_no_file_has_is_refused_before_the_work(
    place, capsys, monkeypatch, name, reason
):
    monkeypatch.setattr(adascale, "leakage_table", None)
    assert reason in refused(capsys, *LEAKAGE[:-1], name)


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="no device that is always full"
)
def test_output_that_cannot_be_printed_is_one_line(place, capsys, monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(*LEAKAGE) == 2
    message = "adascale leakage: error: [Errno 28] No space left on device\n"
    assert capsys.readouterr().err == message
    assert (place / "out.csv").read_text().count("\n") > 1


TRAIN = ["train", "--nu", 0.5, "--rounds", 2, "--out", "out.csv"]
TRAIN += ["--history", "history.csv"]


@pytest.mark.parametrize("arguments", [LEAKAGE, TRAIN, ["train", "--help"]])
def test_reader_who_leaves_is_no_error_and_costs_no_file(
    place, capsys, monkeypatch, arguments
):
    reading, writing = os.pipe()
    os.close(reading)
    with contextlib.suppress(BrokenPipeError), open(writing, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert run(*arguments) == 141
    assert not re.search(
        "(?m)^(?!note: )", capsys.readouterr().err.rstrip() or "note: "
    )
    for name in map(str, arguments):
        assert not name.endswith(".csv") or (place / name).exists()


ESCAPED = r"n\x1b[31m\x7f\x9b\x0a\x0d\x09x"


def test_control_characters_are_shown_as_escapes(place, capsys):
    name = '"n\\u001b[31m\\u007f\\u009b\\n\\r\\tx"'
    text = (place / "my.toml").read_text().replace('"small"', name)
    (place / "raw.toml").write_text(text)
    how = ["--scenario", "raw.toml", "--nu", 0.1, "--policy", "equalalloc"]
    assert run("schedule", *how, "--gains", "gains.csv") == 0
    assert f" {ESCAPED}\n" in capsys.readouterr().out
    message = refused(capsys, "leakage", "--scenario", "a\x1b[31m\x9bb", "--nu", 0.1)
    assert r"preset 'a\x1b[31m\x9bb' is unknown" in message


@pytest.mark.parametrize("closed", ["past.csv", "."])
def test_a_read_only_place_is_named(place, monkeypatch, closed):
    # as the system answers who is not root, to whom nothing is read-only
    target = (place / closed).resolve()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != target)
    with pytest.raises(ValueError, match=r"cannot be written: '.*' is read-only"):
        common.check_outputs({}, {"--out": Path("past.csv")})
