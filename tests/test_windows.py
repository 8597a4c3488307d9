"""What works without the modules and functions of POSIX, as on Windows, where nobody has run it."""

import re
import subprocess
import sys

COMMANDS = """
import multiprocessing.connection, os, signal, sys
import numba, numpy, pandas, scipy.fft, scipy.optimize, scipy.signal, scipy.special, tqdm

sys.platform = "win32"  # for adascale alone: all else is imported
for name in ("fcntl", "grp", "posix", "pwd", "resource", "termios"):
    sys.modules[name] = None
for module, names in {
    os: ("fork", "geteuid", "getuid", "killpg", "register_at_fork", "uname"),
    signal: ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIG_BLOCK", "pthread_sigmask"),
}.items():
    for name in names:
        delattr(module, name)
from adascale import accounting, channel, policies
from adascale.cli import main

for command in (
    "epsilon --event 0.01,1.0,1000 --delta 1e-5",
    "leakage --scenario digits --policy optimal --nu 0.04 --realisations 2",
    "leakage --scenario digits --nu 0.04 --jobs 2",
    "stream --scenario digits --nu 0.04 --state STATE",
):
    print("exit", main(command.split()), flush=True)
"""


def test_commands_without_posix_work_or_say_what_they_need(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.findall("^epsilon|^Optimal|^exit .", done.stdout, re.M) == [
        *("epsilon", "exit 0", "Optimal", "exit 0", "exit 1", "exit 2")
    ]
    errors = [line for line in done.stderr.splitlines() if ": error: " in line]
    assert "error: worker processes" in errors[0]
    assert "error: a journal needs" in errors[1]
    assert not [*tmp_path.iterdir()]
