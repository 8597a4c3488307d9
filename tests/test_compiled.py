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


@pytest.fixture
def compiled(tmp_path):
    """Run a compiled function in a process of its own; what it says on standard error."""
    (tmp_path / "own.py").write_text(MODULE)

    def run(**environment):
        (tmp_path / "cache").mkdir(exist_ok=True)
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")} | environment
        command = [sys.executable, "own.py"]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=True, env=env
        )
        assert done.stdout == "42.0 42.0\nnegative\n"
        return done.stderr

    return run


def test_a_damaged_cache_is_compiled_anew(compiled, tmp_path):
    """Compiling is announced, and the entry replaced: the next process finds it whole."""
    assert compiled() == "compiling once, for up to a minute\n"
    for ending, kept in (("nbi", 40), ("nbc", -20)):
        (file,) = (tmp_path / "cache").rglob(f"*.{ending}")
        file.write_bytes(file.read_bytes()[:kept])
        assert "compiling once" in compiled(), (ending, kept)
    assert compiled() == ""


def test_without_a_folder_nothing_is_kept(compiled, tmp_path):
    (tmp_path / "__pycache__").write_text("")
    nowhere = {"NUMBA_CACHE_DIR": "", "HOME": "/proc", "XDG_CACHE_HOME": "/proc"}
    assert "unless NUMBA_CACHE_DIR names a folder of your own" in compiled(**nowhere)


@pytest.mark.skipif(os.name == "nt", reason="folders have other permissions")
@pytest.mark.parametrize(
    ("mode", "inner", "kept"),
    [
        (0o777, 0o755, False),
        (0o1777, 0o777, False),
        (0o1777, 0o755, True),
        (0o755, 0o755, True),
    ],
)
def test_a_folder_that_others_can_write_to_is_not_read(
    compiled, tmp_path, mode, inner, kept
):
    """Files there can be pickles of somebody else's, which run code. In a sticky folder others cannot replace ours."""
    assert "compiling once" in compiled()
    (folder,) = (tmp_path / "cache").iterdir()
    folder.chmod(inner)
    (tmp_path / "cache").chmod(mode)
    assert ("at every start" in compiled()) != kept


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0, reason="only root can give a folder away"
)
def test_a_folder_of_another_user_is_not_read(compiled, tmp_path):
    compiled()
    os.chown(tmp_path / "cache", 12345, 12345)
    assert "at every start" in compiled()


@pytest.mark.parametrize("installed", [True, False])
def test_uncompiled_functions_are_themselves(compiled, tmp_path, installed):
    if not installed:
        (tmp_path / "numba.py").write_text("raise ModuleNotFoundError")
    assert compiled(**{"NUMBA_DISABLE_JIT": "1"} if installed else {}) == ""
