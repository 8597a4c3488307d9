"""SIGTERM and Ctrl-C end every command at once, whatever it computes, and cost no file."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ..command import alive
from .streams import SMALL

SWEEP = '[[runs]]\nreading = "x"\ndataset = "long.toml"\npolicy = "EqualAlloc"\nnu = 0.04\nseed = [0, 1, 2]\n'
LOADS = {  # minutes each, and some of them in one call of compiled code
    "leakage": "--nu 0.04 --realisations 3000 --out out.csv",
    "schedule": "--scenario mnist --gains gains.csv --nu 0.04 --accountant exact --out out.csv",
    "stream": "--scenario stream.toml --nu 0.04 --state state",
    "train": "--dataset long.toml --policy EqualAlloc --nu 0.04 --store store --out out.csv",
    "sweep": "sweep.toml --jobs 2 --store store --out out.csv",
    "audit": "--policy EqualAlloc --nu 0.04 --runs 200",
    "epsilon": "sigmas.csv --rate 0.1",
}
ANY_END = [
    (name, number) for name in LOADS for number in (signal.SIGTERM, signal.SIGINT)
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder, rng, T = tmp_path_factory.mktemp("inputs"), np.random.default_rng(0), 10**6
    gains, sigmas = (
        rng.exponential(1e-9, T).tolist(),
        rng.uniform(0.5, 2, T // 5).tolist(),
    )
    columns = {
        "gains": ["min_gain", *gains],
        "lines": ["min_gain", *gains[: T // 5]],
        "sigmas": ["sigma", *sigmas],
    }
    for name, column in columns.items():
        (folder / f"{name}.csv").write_text("".join(f"{each}\n" for each in column))
    (folder / "stream.toml").write_text(replace(SMALL, num_rounds=T).to_toml())
    (folder / "long.toml").write_text(
        'base = "digits"\n[scenario]\nnum_rounds = 20000\n'
    )
    (folder / "sweep.toml").write_text(SWEEP)
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as silent:  # a network that never answers
        yield folder, f"http://127.0.0.1:{silent.getsockname()[1]}"


def listens(process):
    """Whether the process handles SIGTERM, as far as that can be seen."""
    try:
        caught = (
            Path(f"/proc/{process.pid}/status")
            .read_text()
            .partition("SigCgt:")[2]
            .split()[0]
        )
    except (OSError, IndexError):
        time.sleep(3)
        return True
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def ended(name, number, inputs, folder, after):
    """The command's exit code after the signal, whether a process of it is left, its output file and what it said."""
    given, proxy = inputs
    folder.mkdir()
    for each in given.iterdir():
        (folder / each.name).symlink_to(each)
    (folder / "out.csv").write_text("as it was")
    with (
        open(folder / "lines.csv") as lines,
        open(folder / "err", "w") as err,
        open(folder / "printed", "w") as out,
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "adascale", name, *LOADS[name].split()],
            cwd=folder,
            stdin=lines,
            stdout=out,
            stderr=err,
            env=os.environ
            | {"https_proxy": proxy, "http_proxy": proxy, "ADASCALE_DATA": str(folder)},
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    try:
        while not listens(process):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(after)
        start = time.monotonic()
        process.send_signal(number)
        code = process.wait(20)
        while (left := alive("pgid", process.pid)) and time.monotonic() < start + 5:
            time.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return (
        code,
        bool(left),
        (folder / "out.csv").read_text(),
        (folder / "err").read_text().splitlines(),
    )


@pytest.mark.parametrize(
    ("name", "number", "times"),
    [
        *[
            ("schedule", signal.SIGINT, 1),
            ("sweep", signal.SIGTERM, 1),
        ],  # of a stream: test_stream_killed.py
        *(pytest.param(*each, 10, marks=pytest.mark.fuzz) for each in ANY_END),
    ],
)
def test_signal_ends_a_command_at_any_moment(name, number, times, inputs, tmp_path):
    for k in range(times):
        found = ended(
            name,
            number,
            inputs,
            tmp_path / f"{k}",
            random.uniform(0, 3 if times > 1 else 1),
        )
        code, left, written, (*notes, line) = found
        assert (code, left, written) == (128 + number, False, "as it was"), found
        assert line.startswith(f"adascale {name}: stopped")
        assert all(note.startswith(("note: ", "compiling ")) for note in notes), notes


OWN = "import multiprocessing, os, signal, time\nfrom adascale import policies\nclass Mine(policies.EqualAlloc): pass\n"
LOSES = "try: os.kill(os.getpid(), signal.SIGTERM), time.sleep(9)\nexcept KeyboardInterrupt: "
CHILD = "child = multiprocessing.get_context('fork').Process(target=time.sleep, args=[60])\nchild.start()\n"


@pytest.mark.parametrize(
    ("code", "own"),
    [
        (
            143,
            f"{LOSES}raise ImportError('initialization failed')",
        ),  # as extension modules do
        (143, f"{LOSES}time.sleep(60)"),
        (
            0,
            f"{CHILD}time.sleep(0.5)\nchild.terminate()\ntime.sleep(1.5)",
        ),  # it listens as its parent does
    ],
)
def test_signal_ends_its_process_alone(code, own, tmp_path):
    (tmp_path / "mine.py").write_text(OWN + own)
    command = "-m adascale leakage --nu 0.04 --policy mine:Mine --realisations 1"
    done = subprocess.run(
        [sys.executable, *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == code, done.stderr
    assert (
        done.stderr == "adascale leakage: stopped\n"
        if code
        else "leakage: stopped" not in done.stderr
    )
