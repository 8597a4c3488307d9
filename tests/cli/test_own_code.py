"""Code of the user's that asks for an end, and what the commands print of names that they are given."""

import io
import subprocess
import sys

import pytest

from ..command import run

POLICY = """
import sys
from adascale.learning.data import RawDataset
class Starts:
    def start(self, scenario, budget): sys.exit(0)
    def step(self, state, min_gain_t): pass
class Steps(Starts):
    def start(self, scenario, budget): return 0
    def step(self, state, min_gain_t): raise SystemExit
class Made(Starts):
    def __init__(self): exit("bye")
class Counts:
    def __init__(self): raise SystemExit(3)
    def epsilon(self, rate, sigma, delta): return 1 / 0
def read(): sys.exit()
"""


@pytest.fixture
def own(place, monkeypatch):
    (place / "my_own.py").write_text(POLICY)
    (place / "quits.py").write_text("raise SystemExit(0)\n")
    yield place
    for name in ("my_own", "quits"):
        sys.modules.pop(name, None)


LEAKAGE = ["leakage", "--scenario", "my.toml", "--nu", 0.1, "--out", "old.csv", "--policy"]
TRAIN = ["train", "--nu", 0.1, "--rounds", 1, "--out", "old.csv"]


def test_warning_of_own_code_is_a_note(place):
    (place / "odd.py").write_text("import warnings\nfrom adascale.policies import *\nwarnings.warn('an\\nodd one')\n")
    command = [*LEAKAGE[:-3], "--policy", "odd:Optimal"]
    command = [sys.executable, "-P", "-m", "adascale", *map(str, command)]  # -P: as an installed command is begun
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "note: an odd one")


SHOWN = r"n\x1b[31m\x7f\x9b\x0a\x0d\x09x"


def test_control_characters_are_shown_as_escapes(own, capsys):
    name = '"n\\u001b[31m\\u007f\\u009b\\n\\r\\tx"'
    (own / "raw.toml").write_text((own / "my.toml").read_text().replace('"small"', name))
    command = ["schedule", "--scenario", "raw.toml", "--gains", "gains.csv", "--nu", 0.1, "--policy", "equalalloc"]
    assert run(*command) == 0
    assert f" {SHOWN}\n" in capsys.readouterr().out
    assert run(*command, "--json") == 0
    assert name in capsys.readouterr().out
    assert run("leakage", "--scenario", "raw.toml", "--nu", 0.1, "--policy", "optimal", "--out", "out.csv") == 0
    assert "\x1b[31m\x7f\x9b" in (own / "out.csv").read_text()
    assert run("leakage", "--scenario", "a\x1b[31m\x9bb", "--nu", 0.1) == 2
    assert r"preset 'a\x1b[31m\x9bb' is unknown" in capsys.readouterr().err
    assert run("leakage", "--nu", "\x1b") == 2
    assert capsys.readouterr().err[:-1].isprintable()


def test_progress_bar_keeps_its_returns(own, capsys, monkeypatch):
    err = io.StringIO()
    err.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", err)
    (own / "raw.toml").write_text('base = "digits"\n[training]\nlearning_rate = 0.1\n')
    assert run("train", "--dataset", "raw.toml", "--nu", 0.1, "--rounds", 2) == 0
    assert "\rdigits: " in err.getvalue()
    assert r"\x0d" not in err.getvalue()


COMMAND = ["schedule", "--scenario", "my.toml", "--gains", "gains.csv", "--nu", 0.1, "--policy"]


@pytest.mark.parametrize("given", [["Learn", "--promise", "hard"], ["Learn:promise=hard"]])
def test_former_names_of_parameters_are_deprecated(place, capsys, given):
    assert run(*COMMAND, "Learn:budget_mode=hard") == 0
    now = capsys.readouterr()
    assert run(*COMMAND, *given) == 0
    before = capsys.readouterr()
    assert [line.split()[1:] for line in before.out.splitlines() if "policy" not in line] == [
        line.split()[1:] for line in now.out.splitlines() if "policy" not in line
    ]
    assert "nu is never exceeded" in before.out
    notice = "note: parameter promise is deprecated; use --policy Learn:budget_mode=hard\n"
    assert before.err == notice + now.err
