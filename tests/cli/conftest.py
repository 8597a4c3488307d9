"""What the commands are given: a folder with scenarios, gains and a module of one's own, and the lines of a stream."""

import contextlib
import io
import json
import sys

import pytest

from ..command import overridden, run
from .streams import NU, write_inputs


@contextlib.contextmanager
def forgotten(folder):
    """What is imported from a folder is gone afterwards."""
    before = {*sys.modules}
    yield folder
    for name in {*sys.modules} - before:
        if getattr(sys.modules[name], "__file__", None) == str(folder / f"{name}.py"):
            del sys.modules[name]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with scenarios and traces, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    with forgotten(tmp_path):
        yield tmp_path


@pytest.fixture
def answer(capsys):
    """What a command prints as JSON, which has no NaN and no Infinity."""

    def call(*arguments):
        capsys.readouterr()
        assert run(*arguments, "--json") == 0
        return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)

    return call


@pytest.fixture
def printed(capsys):
    """What a command prints as names and values."""

    def call(*arguments):
        capsys.readouterr()
        assert run(*arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        return dict(line.split(maxsplit=1) for line in lines)

    return call


@pytest.fixture
def stream(place, monkeypatch, capsys):
    """The command with a text as its standard input: exit code, lines answered, lines said."""

    def call(text, *arguments, state="s", scenario="my.toml", nu=NU):
        if isinstance(text, str):
            text = (text.removesuffix("\n") + "\n").encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        usual = f"stream --scenario {scenario} --state {state}"
        usual += "" if nu is None else f" --nu {nu}"
        code = run(*overridden(usual, *arguments))
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err.splitlines()

    return call
