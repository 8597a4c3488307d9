"""What README, CONTRIBUTING, CHANGELOG and the page on reproducing show a stranger works as shown."""

import json
import re
import shlex
from base64 import b64decode
from pathlib import Path

import pytest

from companion.figures.headline import ratios
from companion.results import load

from .command import run

ROOT = Path(__file__).parents[1]
README, CONTRIBUTING = (
    (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md")
)


def example(text):
    """The names that the one block of Python in a text defines."""
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {"__name__": "example"}
    exec(code, names)
    return names


def test_readme_commands_print_the_epsilon_of_its_python(capsys):
    commands = [
        shlex.split(line)[1:]
        for line in README.splitlines()
        if line.startswith("adascale ")
    ]
    assert [command[0] for command in commands] == ["accounting", "leakage"]
    found = example(README)["found"]
    assert capsys.readouterr().out == f"{found} {float(found)}\n"
    assert run(*commands[0], "--json") == 0
    assert json.loads(capsys.readouterr().out)["upper"] == float(found)
    assert run(*commands[1], "--realisations", 1, "--json") == 0
    assert json.loads(capsys.readouterr().out)


def test_readme_claims_agree_with_its_figure():
    table = load("exact/headline")
    centre = ratios(table).centre
    assert (
        f"at most about {100 * (centre['Learn, hard'].max() - 1):.0f} % more exact ε"
        in README
    )
    assert centre["EqualAlloc", 0.01] > 2
    assert f"over {table.seed.nunique()} channel realisations" in README
    assert len(README.splitlines()) <= 70


WORKFLOWS = [
    str(path.relative_to(ROOT)) for path in ROOT.glob(".github/workflows/*.yml")
]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "book/reproducibility.md",
    "book/checklists.md",
    *WORKFLOWS,
]


@pytest.mark.parametrize("name", PAGES)
def test_every_file_and_target_it_names_exists(name):
    text = (ROOT / name).read_text()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(
        re.findall(r"(?:^ *|`|run: )make (?:[A-Z]+=\S+ )?([a-z]+)", text, re.MULTILINE)
    ) <= set(targets)
    paths = re.findall(
        r"[` ]((?:tests|tools|book|adascale|runs|results|notebooks|\.github)/[\w/.-]+\b)",
        text,
    )
    paths += re.findall(
        r"`([A-Za-z.]+\.(?:md|bib|json|cff|yml|lock))`", text
    ) * name.startswith("book/checklists")
    paths += re.findall(r"\{committed\} \.\./(\S+)", text)
    for path in (*paths, *re.findall(r"\]\(([^):]+)\)", text)):
        assert (
            "NN_" in path
            or (ROOT / path).exists()
            or (ROOT / "adascale" / path).exists()
        ), path


def test_headline_figure_is_the_one_that_the_committed_notebook_drew():
    notebook = json.loads((ROOT / "notebooks" / "11_causal.ipynb").read_text())
    (cell,) = (
        cell
        for cell in notebook["cells"]
        if "headline" in cell["metadata"].get("tags", [])
    )
    (picture,) = (
        output["data"]["image/png"] for output in cell["outputs"] if "data" in output
    )
    assert (
        b64decode("".join(picture))
        == (ROOT / "book" / "_static" / "headline.png").read_bytes()
    )
