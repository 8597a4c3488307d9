"""Files: whole or not at all, where a link leads, with errors that name what was asked for."""

import json
import math
import os
import time

import pytest

from adascale.errors import InvalidFile
from adascale.files import (
    json_text,
    parse_json,
    read_text,
    read_toml,
    write_atomically,
    write_together,
)


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    target, link = tmp_path / "table.csv", tmp_path / "link.csv"
    link.symlink_to(target)
    for content in ("new\n", "newer\n"):  # where it leads nowhere yet, too
        write_atomically(link, content)
        assert link.is_symlink()
        assert contents(tmp_path) == dict.fromkeys(("table.csv", "link.csv"), content)


def test_a_file_keeps_its_permissions_and_a_new_one_has_the_usual_ones(tmp_path):
    path = tmp_path / "private"
    path.touch(0o600)
    write_atomically(path, b"x")
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "usual").touch()
    write_atomically(tmp_path / "new", b"x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("name", ["nowhere/x.csv", "folder", "file/x.csv"])
def test_an_error_names_the_file_that_was_asked_for(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"No such file|Is a dir|Not a dir") as error:
        write_atomically(tmp_path / name, "x")
    assert error.value.filename == str(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "file"}


def test_no_file_is_replaced_if_one_cannot_be_written(tmp_path, monkeypatch):
    before = {"a": "old", "b": "old"}
    paths = [tmp_path / name for name in before]
    write_together(dict.fromkeys(paths, "old"))
    calls = []

    def full_at_the_second(file):
        calls.append(file)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_at_the_second)
    with pytest.raises(OSError, match="No space left on device") as error:
        write_together(dict.fromkeys(paths, "new"))
    assert error.value.filename == str(paths[1])
    assert contents(tmp_path) == before


def test_json_has_neither_nan_nor_infinity():
    value = {"a": math.inf, "b": [-math.inf, math.nan, 0.1], "c": (1, None, True, "x")}
    assert json.loads(json_text(value), parse_constant=pytest.fail) == {
        "a": "Infinity",
        "b": ["-Infinity", None, 0.1],
        "c": [1, None, True, "x"],
    }


# What is read ---------------------------------------------------------------------------------------------------------


def read_json(path):
    return parse_json(read_text(path), path)


READERS = {"json": (read_json, '{"a": %s}'), "toml": (read_toml, "a = %s\n")}
UNREADABLE = [
    ("json", '1, "b": {"c": 1, "c": 1}', "duplicate key 'c'"),
    ("json", "[" * 100_000, "nested too deeply"),
    ("toml", "1\nb = " + "[" * 100_000, "nested too deeply"),
    ("toml", "1" * 5000, "4300 digits"),
    ("json", "NaN", "NaN is not a number"),
    ("json", "[1", "line 1 column"),
    ("toml", "1\0", "not valid TOML"),
]


@pytest.mark.parametrize(("form", "value", "reason"), UNREADABLE)
def test_an_unreadable_file_is_named_in_one_short_line(tmp_path, form, value, reason):
    read, frame = READERS[form]
    (tmp_path / "x").write_text(frame % value)
    begun = time.monotonic()
    with pytest.raises(InvalidFile, match=reason) as error:
        read(tmp_path / "x")
    assert error.value.path == str(tmp_path / "x")
    assert len(str(error.value)) < 150 + len(str(tmp_path))
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("form", READERS)
def test_a_byte_order_mark_is_read_and_another_encoding_is_refused(tmp_path, form):
    read, frame = READERS[form]
    (tmp_path / "x").write_text(frame % 3, encoding="utf-8-sig")
    assert read(tmp_path / "x") == {"a": 3}
    (tmp_path / "x").write_text(frame % '"\xe9"', encoding="latin-1")
    with pytest.raises(InvalidFile, match="x is not UTF-8 text"):
        read(tmp_path / "x")
