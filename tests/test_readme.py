"""What README, CONTRIBUTING, CHANGELOG and the page on reproducing show a stranger works as shown."""

import io
import json
import pkgutil
import re
import shlex
import sys
import tomllib
from base64 import b64decode
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import adascale
from adascale.comparison import TunedOnRealisation
from adascale.streaming import Stream
from companion.__main__ import RESULTS

from .command import run

ROOT = Path(__file__).parents[1]
README, CONTRIBUTING, CHANGELOG = (
    (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
)


def example(text):
    """The names that the one block of Python in a text defines."""
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {"__name__": "example"}
    exec(code, names)
    return names


def test_examples_run_and_their_policies_do_what_is_said():
    names = example(README)
    problem = names["problem"]
    assert 1 <= problem.rdp(names["eta"]) / problem.rdp(names["best"]) < 2
    policy = TunedOnRealisation(example(CONTRIBUTING)["Level"])(problem)
    np.testing.assert_allclose(problem.cost(policy.schedule(problem)), problem.budget, rtol=1e-6)


def test_the_python_of_readme_decides_what_the_stream_does(tmp_path):
    names = example(README)
    with Stream(names["policy"], names["scenario"], names["nu"], tmp_path / "state") as stream:
        answers = [stream.answer(gain) for gain in names["problem"].min_gain[:20]]
    assert [each.eta for each in answers] == [float(each) for each in names["eta"][:20]]
    assert answers[0]._fields == tuple(re.search("`(round,eta,.*)`", README)[1].split(","))


def test_the_commands_of_readme_do_what_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scenario = adascale.Scenario.mnist()
    gain = adascale.channel.draw(scenario.num_devices, 3, seed=0).gain
    pd.DataFrame(gain.T, columns=[f"h2_{m}" for m in range(1, 11)]).to_csv("gains.csv", index=False)
    commands = [line.partition("  #")[0] for line in README.splitlines() if line.startswith("adascale ")]
    assert len(commands) == 3
    for command in commands:
        arguments, _, given = command.partition("<")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(given.strip() or "gains.csv").read_bytes())))
        assert run(*shlex.split(arguments)[1:], *(["--realisations", 1] if "leakage" in command else [])) == 0
    out = capsys.readouterr().out
    assert [line[:2] for line in out.splitlines()[-4:]] == ["ro", "0,", "1,", "2,"]
    assert {path.name for path in tmp_path.iterdir()} == {"gains.csv", "eta.csv", "run.state"}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "book/reproducibility.md"])
def test_every_file_and_target_it_names_exists(name):
    text = (ROOT / name).read_text()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:^|`)make (?:[A-Z]+=\S+ )?([a-z]+)", text, re.MULTILINE)) <= set(targets)
    paths = re.findall(r"`((?:tests|tools|book|adascale|runs|results|notebooks)/[\w/.-]+)`", text)
    paths += re.findall(r"\{committed\} \.\./(\S+)", text)
    for path in (*paths, *re.findall(r"\]\(([^):]+)\)", text)):
        assert "NN_" in path or (ROOT / path).exists() or (ROOT / "adascale" / path).exists(), path


def test_where_the_changelog_says_that_a_name_has_moved_there_it_is():
    rows = re.findall(r"^\| `.*? \| (.*) \|$", CHANGELOG, re.MULTILINE)
    moved = [name for row in rows for name in re.findall(r"`((?:adascale|companion)(?:\.\w+)+)", row)]
    assert len(moved) > 15
    for name in moved:
        pkgutil.resolve_name(name)


def test_the_version_is_the_same_everywhere():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == adascale.__version__
    assert re.search(r"^## ([\d.]+)", CHANGELOG, re.MULTILINE)[1] == adascale.__version__
    assert version("adascale") == adascale.__version__, "run `make venv`"


def test_headline_figure_is_the_one_that_the_committed_notebook_drew():
    notebook = json.loads((ROOT / "notebooks" / "12_causal.ipynb").read_text())
    (cell,) = (cell for cell in notebook["cells"] if "headline" in cell["metadata"].get("tags", []))
    (picture,) = (output["data"]["image/png"] for output in cell["outputs"] if "data" in output)
    assert b64decode("".join(picture)) == (ROOT / "book" / "_static" / "headline.png").read_bytes()


PAGE = (ROOT / "book" / "reproducibility.md").read_text()


def test_each_committed_table_has_a_command():
    """`make bench`, a name of `python -m companion make`, or a command that the page gives."""
    made = {Path(each.folder, file.partition(".")[0]) for each in RESULTS.values() for file in each.files.split()}
    tables = {path: tomllib.loads(path.read_text())["command"] for path in ROOT.glob("results/**/*.provenance.toml")}
    assert len(tables) > 20
    for path, command in tables.items():
        name = path.relative_to(ROOT).with_name(path.name.partition(".")[0])
        assert name in made or "bench" in command or f"`{command}`" in PAGE, f"{name}: {command}"
