"""Files: whole or not at all, where a link leads, with errors that name what was asked for."""

import json
import math
import os
import resource
import stat
import subprocess
import sys
import time

import pandas as pd
import pytest

from adascale import files, load_preset
from adascale.errors import InvalidFile
from adascale.files import (
    in_turn,
    json_text,
    preset_chain,
    read_preset,
    read_toml,
    write_atomically,
    write_together,
)


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far/table.csv", tmp_path / "table.csv"
    link.symlink_to(target)
    for content in ("new\n", "newer\n"):  # where it leads nowhere yet, too
        write_atomically(link, content)
        assert link.is_symlink()
        assert target.read_text() == content
    assert [path.name for path in tmp_path.iterdir() if path.name != "far"] == [
        "table.csv"
    ]


def test_the_permissions_of_a_file_stay_and_those_of_a_new_one_are_the_usual_ones(
    tmp_path,
):
    path = tmp_path / "private"
    path.touch(0o600)
    write_atomically(path, b"x")
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "usual").touch()
    write_atomically(tmp_path / "new", b"x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("where", ["nowhere/x.csv", "folder", "file/x.csv"])
def test_an_error_names_the_file_that_was_asked_for(tmp_path, where):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(
        OSError, match=r"No such file|Is a directory|Not a directory"
    ) as raised:
        write_atomically(tmp_path / where, "x")
    assert raised.value.filename == str(tmp_path / where)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "file"}


@pytest.mark.parametrize(
    ("size", "limit"), [(1, 0), (10**6, 0), (5000, 4096), (10**6, 4096)]
)
def test_error_of_full_disk_names_the_file(tmp_path, size, limit):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as full:
            write_atomically(tmp_path / "table.csv", b"x" * size)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert full.value.filename == str(tmp_path / "table.csv")
    assert list(tmp_path.iterdir()) == []


def test_write_synchronises_the_folder_after_the_files(tmp_path, monkeypatch):
    done, replace = [], os.replace
    monkeypatch.setattr(
        os, "fsync", lambda file: done.append(stat.S_IFMT(os.fstat(file).st_mode))
    )
    monkeypatch.setattr(
        os, "replace", lambda *given: (done.append("replace"), replace(*given))
    )
    write_together({tmp_path / name: "" for name in "ab"})
    assert done == [stat.S_IFREG, stat.S_IFREG, "replace", "replace", stat.S_IFDIR]


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), OSError("No space left on device")],
)
def test_of_files_that_belong_together_none_is_replaced_if_one_cannot_be_written(
    tmp_path, monkeypatch, error
):
    first, second = tmp_path / "a", tmp_path / "b"
    write_together({first: "old", second: "old"})
    calls = []

    def full_at_the_second(file):
        calls.append(file)
        if len(calls) == 2:
            raise error

    monkeypatch.setattr(os, "fsync", full_at_the_second)
    with pytest.raises(OSError, match="No space left on device") as raised:
        write_together({first: "new", second: "new"})
    assert raised.value.filename == (str(second) if error.errno else None)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a": "old",
        "b": "old",
    }


def test_a_file_that_another_process_removes_before_it_is_locked_is_made_again(
    tmp_path, monkeypatch
):
    hold, removed = files.hold_lock, []

    def late(file):
        if not removed:
            removed.extend(path.unlink() for path in tmp_path.iterdir())
        return hold(file)

    monkeypatch.setattr(files, "hold_lock", late)
    write_atomically(tmp_path / "x", "whole")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "x": "whole"
    }
    assert removed == [None]


def test_without_locks_files_are_written_and_turns_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    for content in ("new", "newer"):
        with in_turn(tmp_path):
            write_atomically(tmp_path / "x", content)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "x": "newer"
    }


WRITER = """
import os, sys
from pathlib import Path
from adascale import files, load_preset
os.replace = lambda *_: (print("ready", flush=True), sys.stdin.readline())
files.write_atomically(Path(sys.argv[1]), "half")
"""


def test_what_a_killed_process_has_left_is_removed_and_what_a_living_one_writes_is_not(
    tmp_path,
):
    path = tmp_path / "table [1].csv"  # a name that a pattern would misread
    command = [sys.executable, "-c", WRITER, path]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as living:
        living.stdout.readline()
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as dead:
            dead.stdout.readline()
            dead.kill()
        assert len(list(tmp_path.iterdir())) == 2
        write_atomically(path, "whole")
        (half,) = (each for each in tmp_path.iterdir() if each != path)
        assert half.read_text() == "half"
        living.kill()
    write_atomically(path, "whole")
    assert list(tmp_path.iterdir()) == [path]


TURN = "import sys; from pathlib import Path; from adascale.files import in_turn\nwith in_turn(Path(sys.argv[1])): 1"


def test_who_asks_for_a_turn_waits_for_the_one_before(tmp_path):
    with in_turn(tmp_path):
        other = subprocess.Popen([sys.executable, "-c", TURN, tmp_path])
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(1)
    assert other.wait(30) == 0
    assert list(tmp_path.iterdir()) == []


def test_json_has_neither_nan_nor_infinity_and_csv_all_digits(tmp_path):
    text = json_text(
        {
            "a": math.inf,
            "b": [-math.inf, math.nan, 0.1],
            "c": {"d": (1, None, True, "x")},
        }
    )
    found = json.loads(text, parse_constant=pytest.fail)
    assert found == {
        "a": "Infinity",
        "b": ["-Infinity", None, 0.1],
        "c": {"d": [1, None, True, "x"]},
    }
    assert float(found["a"]) == math.inf
    write_atomically(tmp_path / "x.csv", pd.DataFrame({"a": [0.1, math.nan]}))
    assert (tmp_path / "x.csv").read_text() == 'a\n0.1\n""\n'


@pytest.mark.parametrize(
    "content",
    [b"[[", b"x = " + b"[" * 20_000, b"x = " + b"1" * 5000, b"\xff", b"x = 1\0"],
    ids=lambda x: str(x)[:6],
)
def test_what_is_no_toml_is_one_error_that_names_the_file(tmp_path, content):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    start = time.monotonic()
    with pytest.raises(InvalidFile) as error:
        read_toml(path)
    assert error.value.path == str(path)
    assert time.monotonic() - start < 5


def test_a_preset_is_read_from_its_file_and_those_of_its_bases(tmp_path):
    (tmp_path / "middle.toml").write_text(
        'base = "digits"\nlevels = [1]\nscenario = { num_rounds = 3 }\n'
    )
    own = tmp_path / "own.toml"
    own.write_text('base = "middle.toml"\nscenario = { name = "own" }\n')
    chain = preset_chain(str(own))
    assert [path.name for path, _ in chain] == [
        "own.toml",
        "middle.toml",
        "digits.toml",
        "mnist.toml",
    ]
    assert chain[0][1]["scenario"] == {"name": "own"}
    path, content = read_preset(str(own))
    assert (path, content["levels"]) == (own, [1])
    assert (content["scenario"]["name"], content["scenario"]["num_rounds"]) == (
        "own",
        3,
    )
    assert content["training"] == chain[3][1]["training"] | chain[2][1]["training"]


# What is read ---------------------------------------------------------------------------------------------------------

READERS = {"json": (files.read_json, '{"a": %s}'), "toml": (read_toml, "a = %s\n")}
UNREADABLE = {
    "equal keys in JSON": ("json", '1, "b": {"c": 1, "c": 1}', "duplicate key 'c'"),
    "equal keys in TOML": ("toml", "1\na = 2", "overwrite"),
    "nested JSON": (
        "json",
        "1,\n" + '"b": ' + "[" * 100_000,
        r", line 2 .*nested too deeply",
    ),
    "nested objects": ("json", '{"a":' * 100_000, r", line 1 .*nested too deeply"),
    "nested TOML": ("toml", "1\nb = " + "[" * 100_000, r", line 2 .*nested too deeply"),
    "digits in JSON": (
        "json",
        "[\n" + "1" * 5000 + "]",
        r", line 2 .*a number is too long",
    ),
    "digits in TOML": (
        "toml",
        "[1,\n" + "1" * 5000 + "]",
        r", line 2 .*a number is too long",
    ),
    "NaN": ("json", "NaN", "NaN is not a number"),
    "Infinity": ("json", "[-Infinity]", "-Infinity is not a number"),
    "a cut file": ("json", "[1", "line 1 column"),
}


@pytest.mark.parametrize(("form", "value", "said"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_file_is_named_with_the_place_in_one_short_line(
    tmp_path, form, value, said
):
    read, frame = READERS[form]
    (tmp_path / "x").write_text(frame % value)
    with pytest.raises(InvalidFile, match=said) as raised:
        read(tmp_path / "x")
    assert raised.value.path == str(tmp_path / "x")
    assert len(str(raised.value)) < 150 + len(str(tmp_path))


@pytest.mark.parametrize("form", READERS)
def test_a_byte_order_mark_is_read_and_another_encoding_is_refused(tmp_path, form):
    read, frame = READERS[form]
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / "x").write_text(frame % 3, encoding=encoding)
        assert read(tmp_path / "x") == {"a": 3}
    for encoding in ("utf-16", "latin-1"):
        (tmp_path / "x").write_text(frame % '"\xe9"', encoding=encoding)
        with pytest.raises(
            InvalidFile, match=r"x is not UTF-8 text; save it as UTF-8$"
        ):
            read(tmp_path / "x")


@pytest.mark.parametrize("name", ["x" * 255, "\xe9" * 127], ids=["ASCII", "UTF-8"])
def test_a_file_may_have_the_longest_name_there_is(tmp_path, name):
    for content in ("new", "newer"):
        write_atomically(tmp_path / name, content)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "newer"


def test_a_preset_has_its_own_name_unless_it_says_one(tmp_path):
    (tmp_path / "first.toml").write_text('base = "mnist"\n')
    (tmp_path / "second.toml").write_text(
        'base = "first.toml"\n[scenario]\nnum_rounds = 3\n'
    )
    (tmp_path / "third.toml").write_text(
        'base = "second.toml"\n[scenario]\nname = "said"\n'
    )
    (tmp_path / "fourth.toml").write_text('base = "third.toml"\n')
    names = [
        load_preset(str(tmp_path / f"{each}.toml")).scenario.name
        for each in ("first", "second", "third", "fourth")
    ]
    assert names == ["first", "second", "said", "fourth"]
    assert [load_preset(each).scenario.name for each in ("mnist", "cifar10")] == [
        "mnist",
        "cifar10",
    ]
