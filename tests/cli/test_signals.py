"""SIGTERM and Ctrl-C end a command, and cost no file."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..command import alive

LONG = 'base = "digits"\n[scenario]\nnum_rounds = 20000\n'
SWEEP = '[[runs]]\nreading = "x"\ndataset = "long.toml"\npolicy = "EqualAlloc"\nnu = 0.04\nseed = [0, 1, 2]\n'
LOADS = {  # minutes each
    "leakage": "--nu 0.04 --realisations 3000 --out out.csv",
    "train": "--dataset long.toml --policy EqualAlloc --nu 0.04 --store store --out out.csv",
    "sweep": "sweep.toml --jobs 2 --store store --out out.csv",
}
ON = "; the same command goes on from what store holds"
RESUMED = {"train": ON, "sweep": ON}


def handles(process, number):
    """Whether the process handles a signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = status.partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) >> (number - 1) & 1)


@pytest.mark.parametrize(
    ("name", "number", "after"),
    [
        ("leakage", signal.SIGINT, 0.0),  # within an import
        ("train", signal.SIGINT, 4.0),
        ("sweep", signal.SIGTERM, 4.0),
    ],
)
def test_signal_ends_a_command_and_its_processes(tmp_path, name, number, after):
    (tmp_path / "long.toml").write_text(LONG)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "out.csv").write_text("as it was")
    process = subprocess.Popen(
        [sys.executable, "-m", "adascale", name, *LOADS[name].split()],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        while not handles(process, signal.SIGTERM):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(after)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        end = time.monotonic() + 5
        while alive(process.pid) and time.monotonic() < end:
            time.sleep(0.05)
        assert not alive(process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 128 + number, err
    assert (tmp_path / "out.csv").read_text() == "as it was"
    assert err.splitlines()[-1] == f"adascale {name}: stopped{RESUMED.get(name, '')}"
