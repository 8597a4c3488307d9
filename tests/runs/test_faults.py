"""Faults: whatever kills, fills, freezes or alters, afterwards there is the right result or one clear line.

The commands run in forks (``tests/forks.py``), and their tables are the same bits as those of an undisturbed run.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale.runs.specification import make_run

from ..forks import Forks
from ..test_makefile import append, copy_to, finish

SWEEP = """
[[runs]]
reading = "as stated"
dataset = "digits"
policy = ["EqualAlloc", "NoiseFree"]
nu = 0.5
seed = 0
rounds = 3
every = 2
"""
RUN = make_run("digits", "EqualAlloc", 0.5, 0, rounds=3, every=2)
FINISHED = {"spec.json", "row.json", "history.csv", "lock"}
KEPT = "--store store --out run.csv --history history.csv"
TRAIN = str.split(f"train --policy equalalloc --nu 0.5 --rounds 3 --every 2 {KEPT}")
SWEEPING = str.split("sweep sweep.toml --store store")
SCHEDULE = str.split(
    "schedule --scenario digits --gains gains.csv --policy optimal --nu 0.5 --out eta.csv"
)
COMMANDS = {
    "train": (TRAIN, {"run.csv", "history.csv", "store"}),
    "sweep": (SWEEPING, {"sweep.csv", "sweep-curves.csv", "store"}),
    "schedule": (SCHEDULE, {"eta.csv"}),
}


@pytest.fixture(scope="module")
def victim():
    found = Forks("training")
    yield found
    found.close()


def prepared(folder):
    """A folder with the inputs of all commands."""
    folder.mkdir()
    (folder / "sweep.toml").write_text(SWEEP)
    gains = np.random.default_rng(0).exponential(1e-8, (50, 1))
    pd.DataFrame(gains, columns=["min_gain"]).to_csv(folder / "gains.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def whole(victim, tmp_path_factory):
    """For each command, a folder in which nothing disturbed it, and the changes of files that it made."""
    found = {}
    for name, (arguments, _) in COMMANDS.items():
        folder = prepared(tmp_path_factory.mktemp("whole") / name)
        done = victim.run(arguments, folder)
        assert done["code"] == 0, done["err"]
        found[name] = folder, done["made"]
    return found


def assert_whole(name, folder, whole):
    """All that the command writes is there, nothing else is, and it is the same to the last bit."""
    _, outputs = COMMANDS[name]
    assert {path.name for path in folder.iterdir()} == {
        "sweep.toml",
        "gains.csv",
    } | outputs
    for path in whole[name][0].glob("*.csv"):
        tables = (
            pd.read_csv(each / path.name, dtype=str) for each in (folder, path.parent)
        )
        pd.testing.assert_frame_equal(
            *(table.drop(columns="wall_seconds", errors="ignore") for table in tables)
        )
    for place in (folder / "store").glob("*"):
        assert {path.name for path in place.iterdir()} == FINISHED


def assert_recovers(name, folder, victim, whole):
    """The same command, undisturbed, brings everything."""
    again = victim.run(COMMANDS[name][0], folder)
    assert again["code"] == 0, again["err"]
    assert_whole(name, folder, whole)


def assert_one_line(said, code):
    """How a stop by a signal or an error is told: in a line, after the notes."""
    assert said["code"] == code, f"{said}"
    *notes, line = said["err"].splitlines()
    assert all(note.startswith("note: ") for note in notes), said["err"]
    return line


@pytest.mark.fuzz
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_killed_before_any_change_of_a_file_is_repeated(
    name, victim, whole, tmp_path
):
    for at in range(
        1, whole[name][1] + 1
    ):  # some of them, at random: test_killed_command_keeps_finished_runs
        place = prepared(tmp_path / f"{name}{at}")
        assert victim.run(COMMANDS[name][0], place, at=at)["code"] == -signal.SIGKILL
        assert_recovers(name, place, victim, whole)
        shutil.rmtree(place)


def stop(name, victim, whole, place, number, *options, **when):
    """Send the signal, and see that it is told in a line; False if it came too late."""
    said = victim.run([*COMMANDS[name][0], *options], place, signal=number, **when)
    if said["code"] == 0:
        assert_whole(name, place, whole)
        return False
    if said["code"] == -signal.SIGTERM:  # before it was listened to, or after
        return False
    if number == signal.SIGKILL:
        assert said["code"] == -number
    else:
        line = assert_one_line(said, 128 + number)
        assert line.startswith(f"adascale {name}: stopped")
        assert "Traceback" not in said["err"]
        if name != "schedule" and (
            "at" in when or not line.endswith("stopped")
        ):  # it may have had no arguments yet
            assert line.endswith("; the same command goes on from what store holds")
    return True


SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_stopped_says_so_and_goes_on_when_it_is_repeated(
    name, number, victim, whole, tmp_path
):
    place = prepared(tmp_path / "stopped")
    assert stop(name, victim, whole, place, number, at=whole[name][1] // 2)
    assert_recovers(name, place, victim, whole)


def finished(place):
    """What is written of the finished runs, with the identity of each file."""
    rows = sorted((place / "store").glob("*/row.json"))
    files = [path for row in rows for path in (row, row.with_name("history.csv"))]
    return {
        path: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in files
    }


def fault_of(how, rng, name, made):
    """A kill before a random change of a file, at a random time, or in the middle of a write."""
    at = rng.randint(1, made)
    if how == "torn":
        return {
            "at": at,
            "torn": int(10 ** rng.uniform(0, 4.95)),
        }  # a checkpoint has 76 kB
    longest = {"train": 0.3, "sweep": 0.5, "schedule": 0.05}[name]
    return {"signal": how} | rng.choice(
        [{"at": at}, {"after": longest * rng.random() ** 3}]
    )


def kill_and_recover(name, how, rng, victim, whole, place):
    """How many of one to three kills came in time; the command goes on after all of them."""
    prepared(place)
    before, killed = {}, 0
    for _ in range(rng.randint(1, 3)):
        said = victim.run(
            COMMANDS[name][0], place, **fault_of(how, rng, name, whole[name][1])
        )
        assert (
            said["code"] in {0, -how, 128 + how}
            if how != "torn"
            else {0, -signal.SIGXFSZ}
        ), said
        assert said["code"] < 0 or not list(place.rglob(".*"))
        assert (
            before.items() <= finished(place).items()
        )  # no finished run is lost or made again
        before, killed = finished(place), killed + (said["code"] != 0)
    assert_recovers(name, place, victim, whole)
    assert before.items() <= finished(place).items()
    shutil.rmtree(place)
    return killed


ONCE = [
    (1, signal.SIGKILL),
    (1, "torn"),
]  # by the others: test_a_command_that_is_stopped_says_so
HUNDRED = [pytest.param(100, how, marks=pytest.mark.fuzz) for how in (*SIGNALS, "torn")]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("kills", "how"), [*ONCE, *HUNDRED])
def test_killed_command_keeps_finished_runs(name, how, kills, victim, whole, tmp_path):
    rng = random.Random(0) if kills == 1 else random.Random()
    killed = attempts = 0
    while killed < kills:
        killed += kill_and_recover(name, how, rng, victim, whole, tmp_path / "place")
        attempts += 1
        assert attempts < 10 * kills
    print(f"{name}, {how}: {killed} kills, {attempts} recoveries")


IN_TWO = [
    (signal.SIGKILL, 1),
    *(pytest.param(each, 6, marks=pytest.mark.fuzz) for each in SIGNALS),
]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "times"), IN_TWO)  # SIGTERM: cli/test_signals.py
def test_a_sweep_in_two_processes_leaves_none_and_goes_on(
    number, times, victim, whole, tmp_path
):
    for attempt in range(times):
        place = prepared(
            tmp_path / f"{attempt}"
        )  # that no process is left is seen in Forks.run
        after = random.uniform(0.1, 8) if attempt else 1.0
        assert (
            stop("sweep", victim, whole, place, number, "--jobs", "2", after=after)
            or attempt
        )
        assert_recovers("sweep", place, victim, whole)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_line_and_costs_nothing(name, victim, whole, tmp_path):
    place, outputs = prepared(tmp_path / "full"), COMMANDS[name][1]
    for largest in (0, 900):
        said = victim.run(COMMANDS[name][0], place, largest=largest)
        assert said["err"].splitlines()[-1].startswith(f"adascale {name}: ")
        assert said["code"] in (1, 2)
        named = re.search(
            r"([\w./-]+): File too large|File too large: '(.*?)'", said["err"]
        )
        assert Path(named[1] or named[2]).name in outputs | FINISHED | {"checkpoint"}
        assert not list(place.rglob(".*"))  # nothing half written
    assert_recovers(name, place, victim, whole)


def test_what_is_finished_is_read_from_a_store_that_cannot_be_written(
    victim, whole, tmp_path
):
    place = tmp_path / "sweep"
    shutil.copytree(whole["sweep"][0], place)
    frozen = str(place / "store")
    for arguments in (SWEEPING, [*SWEEPING, "--report"], TRAIN):
        said = victim.run(arguments, place, frozen=frozen)
        assert said["code"] == 0, said["err"]
    shutil.rmtree(
        place / "store" / RUN.address
    )  # the control: what is missing cannot be written there
    said = victim.run(TRAIN, place, frozen=frozen)
    line = assert_one_line(said, 2)
    assert "Read-only file system" in line
    assert f"store/{RUN.address}" in line


def test_a_result_that_cannot_be_written_is_printed_and_the_file_named(
    victim, tmp_path
):
    place, train = (
        prepared(tmp_path / "train"),
        ["deep/run.csv" if word == "run.csv" else word for word in TRAIN],
    )
    said = victim.run(train, place)
    assert assert_one_line(said, 2).startswith(
        "adascale train: error: --out 'deep/run.csv' cannot be written"
    )
    assert not (place / "store").exists()  # said before the work
    (place / "deep").mkdir()
    said = victim.run(train, place, frozen=str(place / "deep"))
    assert (
        said["err"].splitlines()[-1]
        == "adascale train: error: deep/run.csv: Read-only file system"
    )
    assert "test_accuracy" in said["out"]
    assert not (place / "history.csv").exists()  # both or none


@pytest.mark.parametrize("file", ["row.json", "history.csv"])
def test_command_names_a_damaged_file_and_keeps_the_table(
    file, victim, whole, tmp_path
):
    place = tmp_path / "sweep"
    shutil.copytree(whole["sweep"][0], place)
    path = place / "store" / RUN.address / file
    before = (place / "sweep.csv").read_bytes()
    path.write_bytes(path.read_bytes()[:-20] + b"x")
    said = victim.run(SWEEPING, place)
    assert (place / "sweep.csv").read_bytes() == before
    assert "delete the folder to run it again" in assert_one_line(said, 1)
    assert (place / "sweep-partial.csv").exists()
    shutil.rmtree(path.parent)
    again = victim.run(SWEEPING, place)
    assert again["code"] == 0
    assert_whole("sweep", place, whole)  # the partial table is gone


def test_three_sweeps_at_once_on_one_store_and_one_table_are_one(
    victim, whole, tmp_path
):
    place = prepared(tmp_path / "sweep")
    with open(os.devnull, "r+") as silent:
        runs = [victim.begin(place, SWEEPING, [silent.fileno()] * 3) for _ in range(3)]
    assert [victim.wait(each) for each in runs] == [0] * 3
    assert_whole("sweep", place, whole)


PAGE = """---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {name: python3, display_name: Python 3}
---
# A page

```{code-cell}
import time
time.sleep(1)
print("forty", 6 * 7)
```
"""
CONFIG = (
    "title: small\nexecute:\n  execute_notebooks: cache\nonly_build_toc_files: true\n"
)


@pytest.mark.fuzz
def test_a_book_that_was_killed_while_it_was_built_is_built_by_the_same_command(
    tmp_path,
):
    copy_to(tmp_path)
    for name, text in {
        "_config.yml": CONFIG,
        "_toc.yml": "format: jb-book\nroot: page\n",
        "page.md": PAGE,
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "adascale").mkdir()
    command = tmp_path / ".venv/bin/jupyter-book"
    append(
        command,
        f'#!/bin/sh\nexec "{Path(sys.executable).with_name("jupyter-book")}" "$@"\n',
    )
    command.chmod(0o755)
    finish(tmp_path)
    rng, page, killed = random.Random(), tmp_path / "_build/html/page.html", 0
    for _ in range(4):
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(
            ["make", "-s", "book"], cwd=tmp_path, start_new_session=True, **silent
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(1, 15))
        killed += process.poll() is None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run(
        ["make", "-s", "book"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "forty 42" in page.read_text()
    print(f"the book: {killed} of 4 in time")
    assert killed
