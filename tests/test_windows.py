"""What works without the modules and functions of POSIX, as on Windows, where nobody has run it."""

import subprocess
import sys

import pytest

COMMAND = """
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

sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("epsilon --event 0.01,1.0,1000 --delta 1e-5", "epsilon"),
        (
            "leakage --scenario digits --policy optimal --nu 0.04 --realisations 2",
            "Optimal",
        ),
        ("leakage --scenario digits --nu 0.04 --jobs 2", "error: worker processes"),
        ("stream --scenario digits --nu 0.04 --state STATE", "error: a journal needs"),
    ],
)
def test_a_command_without_posix_works_or_says_what_it_needs(command, words, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *command.split()],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    is_refused = "error" in words
    assert bool(done.returncode) == is_refused, done.stderr
    assert words in (done.stderr if is_refused else done.stdout)
    assert not is_refused or done.stderr.count("\n") == 1, done.stderr
    assert not [*tmp_path.iterdir()]
