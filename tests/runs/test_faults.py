"""Faults: whatever kills, fills, freezes or alters, afterwards there is the right result or one clear line.

The commands run in forks (``tests/forks.py``), and their tables are the same bits as those of an undisturbed run.
"""

import random
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale.runs.specification import make_run

from ..forks import Forks

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
FINISHED = {"spec.json", "row.json", "history.csv"}
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
    forks = Forks("training")
    yield forks
    forks.close()


def prepared(folder):
    """A folder with the inputs of all commands."""
    folder.mkdir()
    (folder / "sweep.toml").write_text(SWEEP)
    gains = np.random.default_rng(0).exponential(1e-8, (50, 1))
    pd.DataFrame(gains, columns=["min_gain"]).to_csv(folder / "gains.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def undisturbed(victim, tmp_path_factory):
    """For each command, a folder in which nothing disturbed it, and the changes of files that it made."""
    results = {}
    for name, (arguments, _) in COMMANDS.items():
        folder = prepared(tmp_path_factory.mktemp("undisturbed") / name)
        result = victim.run(arguments, folder)
        assert result["code"] == 0, result["err"]
        results[name] = folder, result["made"]
    return results


def table(path):
    return pd.read_csv(path, dtype=str).drop(columns="wall_seconds", errors="ignore")


def hidden(folder):
    """The temporary files of processes that were killed while they wrote, which nobody removes."""
    return {*folder.rglob(".*.half")}


def assert_complete(name, folder, undisturbed):
    """All that the command writes is there, nothing else is, and it is the same to the last bit."""
    outputs = COMMANDS[name][1]
    names = {path.name for path in {*folder.iterdir()} - hidden(folder)}
    assert names == {"sweep.toml", "gains.csv"} | outputs
    for path in undisturbed[name][0].glob("*.csv"):
        pd.testing.assert_frame_equal(table(folder / path.name), table(path))
    for place in (folder / "store").glob("*/"):
        names = {path.name for path in {*place.iterdir()} - hidden(place)}
        assert names - {"checkpoint"} == FINISHED  # it may survive a kill at the end


def assert_recovers(name, folder, victim, undisturbed):
    """The same command, undisturbed, brings everything."""
    again = victim.run(COMMANDS[name][0], folder)
    assert again["code"] == 0, again["err"]
    assert_complete(name, folder, undisturbed)


def finished_files(place):
    """What is written of the finished runs, with the identity of each file."""
    rows = sorted((place / "store").glob("*/row.json"))
    files = [path for row in rows for path in (row, row.with_name("history.csv"))]
    return {
        path: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in files
    }


SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM]
HUNDRED = [pytest.param(100, how, marks=pytest.mark.fuzz) for how in (*SIGNALS, "torn")]


def fault_of(how, rng, changes):
    """A kill before a random change of a file, or in the middle of a write."""
    at = rng.randint(1, changes)
    if how == "torn":
        return {"at": at, "torn": int(10 ** rng.uniform(0, 4.95))}
    return {"signal": how, "at": at}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("kills", "how"), [(1, signal.SIGKILL), (1, "torn"), *HUNDRED])
def test_killed_command_keeps_finished_runs(
    name, how, kills, victim, undisturbed, tmp_path
):
    rng = random.Random(0 if kills == 1 else None)
    codes = {0, -signal.SIGXFSZ} if how == "torn" else {0, -how, 128 + how}
    for _attempt in range(10 * kills):
        place, before = prepared(tmp_path / "place"), {}
        for _ in range(rng.randint(1, 3)):
            fault = fault_of(how, rng, undisturbed[name][1])
            halves = hidden(place)
            result = victim.run(COMMANDS[name][0], place, **fault)
            assert result["code"] in codes, result
            assert result["code"] < 0 or hidden(place) <= halves
            # no finished run is lost or made again
            assert before.items() <= finished_files(place).items()
            before = finished_files(place)
            kills -= result["code"] != 0
        assert_recovers(name, place, victim, undisturbed)
        assert before.items() <= finished_files(place).items()
        shutil.rmtree(place)
        if kills <= 0:
            break
    assert kills <= 0


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_line_and_costs_nothing(name, victim, undisturbed, tmp_path):
    place, outputs = prepared(tmp_path / "full"), COMMANDS[name][1]
    for largest in (0, 900):
        halves = hidden(place)
        result = victim.run(COMMANDS[name][0], place, largest=largest)
        assert result["err"].splitlines()[-1].startswith(f"adascale {name}: ")
        assert result["code"] in (1, 2)
        pattern = r"([\w./-]+): File too large|File too large: '(.*?)'"
        named = re.search(pattern, result["err"])
        path = Path(named[1] or named[2])
        assert path.name in outputs | FINISHED | {"checkpoint"}
        assert hidden(place) <= halves  # nothing half written
    assert_recovers(name, place, victim, undisturbed)


def test_what_is_finished_is_read_from_a_store_that_cannot_be_written(
    victim, undisturbed, tmp_path
):
    place = tmp_path / "sweep"
    shutil.copytree(undisturbed["sweep"][0], place)
    frozen = str(place / "store")
    for arguments in (SWEEPING, [*SWEEPING, "--report"], TRAIN):
        result = victim.run(arguments, place, frozen=frozen)
        assert result["code"] == 0, result["err"]
    shutil.rmtree(place / "store" / RUN.address)
    result = victim.run(TRAIN, place, frozen=frozen)  # the control
    assert result["code"] == 2
    assert re.search("store/.*Read-only file system$", result["err"].strip())


def test_a_result_that_cannot_be_written_is_printed_and_the_file_named(
    victim, tmp_path
):
    place = prepared(tmp_path / "train")
    train = ["deep/run.csv" if word == "run.csv" else word for word in TRAIN]
    (place / "deep").mkdir()
    result = victim.run(train, place, frozen=str(place / "deep"))
    line = result["err"].splitlines()[-1]
    assert line == "adascale train: error: deep/run.csv: Read-only file system"
    assert "test_accuracy" in result["out"]
    assert not (place / "history.csv").exists()  # both or none
