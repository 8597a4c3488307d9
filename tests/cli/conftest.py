"""What the commands are given: a scenario, gains, a module of one's own, and the lines of a stream."""

import io
import sys

import pandas as pd
import pytest

from adascale import Scenario, channel

from ..command import run
from .streams import CONSTANT, NU, write_inputs


@pytest.fixture
def scenario(tmp_path):
    """A small scenario in a TOML file: two devices, twelve rounds."""
    small = Scenario("small", 2, 12, 1000, 20, 400, 1.0, 0.2, 1e-12)
    path = tmp_path / "my.toml"
    path.write_text(small.to_toml())
    return small, path


@pytest.fixture
def gains(tmp_path, scenario):
    """A trace of raw gains of that scenario, as a server would measure it."""
    drawn = channel.draw(2, 12, 0).gain
    path = tmp_path / "gains.csv"
    pd.DataFrame({"h2_1": drawn[0], "h2_2": drawn[1]}).to_csv(path, index=False)
    return drawn, path


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_module.py").write_text(CONSTANT)
    yield
    for name in ("my_module", "same_name"):
        sys.modules.pop(name, None)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with scenarios and traces, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if getattr(sys.modules[name], "__file__", None) == str(tmp_path / f"{name}.py"):
            del sys.modules[name]


@pytest.fixture
def stream(place, monkeypatch, capsys):
    """The command with a text as its standard input: exit code, lines answered, lines said."""

    def call(text, *arguments, state="s", scenario="my.toml", nu=NU):
        data = text if isinstance(text, bytes) else f"{text}{chr(10) * (text[-1:] not in ('', chr(10)))}".encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        budget = [] if nu is None else ["--nu", nu]
        code = run("stream", "--scenario", scenario, *budget, "--state", state, *arguments)
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err.splitlines()

    return call
