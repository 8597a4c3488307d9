"""The cache of compiled code: damaged, out of reach or full, it costs time and nothing else."""

import os
import subprocess
import sys

import pytest

MODULE = """
import logging, sys
import numpy as np
logging.basicConfig(format="%(message)s", stream=sys.stderr)
logging.getLogger("adascale").setLevel(logging.DEBUG)
from adascale.compiled import njit
@njit(cache=True)
def twice(x):
    if x < 0:
        raise ValueError("negative")
    return np.full(2, x).sum()
@njit(cache=False)
def later(x):  # compiled in every process, and calls what was loaded
    return twice(x)
if __name__ == "__main__":
    print(twice(21.0), later(21.0))
    try:
        twice(-1.0)
    except ValueError as error:
        print(error)
"""


def run(folder, **environment):
    """Run the compiled functions in a process of their own; what it says on standard error."""
    (folder / "cache").mkdir(exist_ok=True)
    env = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")} | environment
    command = [sys.executable, "own.py"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout == "42.0 42.0\nnegative\n"
    return done.stderr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own.py").write_text(MODULE)
    return tmp_path


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """A folder whose functions are compiled; a test leaves it so."""
    folder = tmp_path_factory.mktemp("cached")
    (folder / "own.py").write_text(MODULE)
    assert run(folder) == "compiling once, for up to a minute\n"
    return folder


def test_a_damaged_cache_is_compiled_anew(cached):
    """Compiling is announced, and the entry replaced: the next process finds it whole."""
    for ending, kept in (("nbi", 40), ("nbc", -20)):
        (file,) = (cached / "cache").rglob(f"*.{ending}")
        file.write_bytes(file.read_bytes()[:kept])
        assert "compiling once" in run(cached), (ending, kept)
    assert run(cached) == ""


def test_without_a_folder_nothing_is_kept(folder):
    (folder / "__pycache__").write_text("")
    nowhere = {"NUMBA_CACHE_DIR": "", "HOME": "/proc", "XDG_CACHE_HOME": "/proc"}
    message = "unless NUMBA_CACHE_DIR names a folder of your own"
    assert message in run(folder, **nowhere)


@pytest.mark.skipif(os.name == "nt", reason="folders have other permissions")
@pytest.mark.parametrize(
    ("mode", "inner", "kept"),
    [(0o777, 0o755, False), (0o1777, 0o777, False), (0o1777, 0o755, True)],
)
def test_a_folder_that_others_can_write_to_is_not_read(cached, mode, inner, kept):
    """Files there can be pickles of somebody else's, which run code. In a sticky folder others cannot replace ours."""
    (inside,) = (cached / "cache").iterdir()
    inside.chmod(inner)
    (cached / "cache").chmod(mode)
    assert ("at every start" in run(cached)) != kept
    inside.chmod(0o755)
    (cached / "cache").chmod(0o755)


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0, reason="only root can give a folder away"
)
def test_a_folder_of_another_user_is_not_read(cached):
    os.chown(cached / "cache", 12345, 12345)
    assert "at every start" in run(cached)
    os.chown(cached / "cache", 0, 0)


@pytest.mark.parametrize("installed", [True, False])
def test_uncompiled_functions_are_themselves(folder, installed):
    if not installed:
        (folder / "numba.py").write_text("raise ModuleNotFoundError")
    assert run(folder, **{"NUMBA_DISABLE_JIT": "1"} if installed else {}) == ""
