"""What README, CONTRIBUTING, CHANGELOG and the page on reproducing show a stranger works as shown."""

import json
import re
import shlex
from pathlib import Path

import nbformat
import pytest

from companion.figures.files import KEY, unpacked
from companion.figures.headline import ratios
from companion.results import load

from .command import run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_readme_commands_print_the_epsilon_of_its_python(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(code, {"__name__": "example"})
    epsilon = float(capsys.readouterr().out.splitlines()[-1])
    lines = re.findall(r"^adascale (.*)", README, re.MULTILINE)
    accountant, leakage = (shlex.split(line, comments=True) for line in lines)
    assert run(*accountant, "--json") == 0
    assert json.loads(capsys.readouterr().out)["upper"] == epsilon
    assert run(*leakage, "--realisations", 1, "--json") == 0
    assert json.loads(capsys.readouterr().out)


def test_readme_claims_agree_with_its_figure():
    table = load("exact/headline")
    centre = ratios(table).centre
    percent = 100 * (centre["Learn, hard"].max() - 1)
    assert f"at most about {percent:.0f} % more exact ε" in README
    assert centre["EqualAlloc", 0.01] > 2
    assert f"over {table.seed.nunique()} channel realisations" in README


def test_headline_figure_is_the_one_that_the_committed_notebook_drew():
    notebook = nbformat.read(ROOT / "notebooks" / "11_causal.ipynb", as_version=4)
    (picture,) = (
        unpacked(output["metadata"][KEY])["svg"]
        for cell in notebook.cells
        if "headline" in cell.metadata.get("tags", [])
        for output in cell.outputs
        if "data" in output
    )
    committed = (ROOT / "book" / "_static" / "headline.svg").read_text()
    assert picture == committed.replace(' style="background: white"', "", 1)


PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
PAGES += ["book/reproducibility.md", "book/checklists.md"]
PAGES += [str(path.relative_to(ROOT)) for path in ROOT.glob(".github/workflows/*.yml")]
FOLDERS = r"tests|tools|book|adascale|runs|results|notebooks|\.github"


@pytest.mark.parametrize("name", PAGES)
def test_every_file_and_target_it_names_exists(name):
    text = (ROOT / name).read_text()
    called = re.findall(r"(?:^ *|`|run: )make (?:[A-Z]+=\S+ )?([a-z]+)", text, re.M)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert {*called} <= {*targets}
    paths = re.findall(rf"[` ]((?:{FOLDERS})/[\w/.-]+\b)", text)
    paths += re.findall(r"\{committed\} \.\./(\S+)", text)
    paths += re.findall(r"\]\(([^):]+)\)", text)
    for path in paths:
        is_there = (ROOT / path).exists() or (ROOT / "adascale" / path).exists()
        assert is_there or "NN_" in path, path
    for path in re.findall(r"[\w/]*test_\w+\.py", text):
        assert any((ROOT / folder / path).exists() for folder in ("", "tests")), path
