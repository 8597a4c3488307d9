"""What is published: metadata that agree, one address, workflows with few rights, and the checklists."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import adascale

from .command import run

ROOT = Path(__file__).parents[1]
URL = "https://github.com/someone/adascale"
WORKFLOWS = {
    path.name: yaml.load(path.read_text(), yaml.BaseLoader)
    for path in ROOT.glob(".github/workflows/*.yml")
}


ADDRESSED = [
    "_config.yml",
    "README.md",
    "pyproject.toml",
    "companion/pyproject.toml",
    "CITATION.cff",
    "codemeta.json",
]


def addressed(folder, *arguments):
    """A copy of the files that carry an address, after the tool has run."""
    for name in [*ADDRESSED, "tools/addresses.py"]:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    subprocess.run(
        [sys.executable, folder / "tools" / "addresses.py", *arguments], check=True
    )
    return {name: (folder / name).read_text() for name in ADDRESSED}


def test_one_address_reaches_readme_packages_and_archives(tmp_path):
    assert addressed(tmp_path) == {
        name: (ROOT / name).read_text() for name in ADDRESSED
    }  # without one
    made = addressed(tmp_path, URL)
    assert yaml.safe_load(made["_config.yml"])["repository"]["url"] == URL
    links = re.findall(r"\]\(([^)]+)\)", made["README.md"])
    assert len(links) == len(re.findall(r"\]\(", (ROOT / "README.md").read_text()))
    for link in links:
        kind, _, path = link.removeprefix(f"{URL}/").partition("/main/")
        assert (ROOT / path).exists()
        assert kind == ("raw" if path.endswith(".png") else "blob")
    for name in ("pyproject.toml", "companion/pyproject.toml"):
        project = tomllib.loads(made[name])["project"]
        assert project["urls"]["Repository"] == URL
        assert project.pop("urls")
        assert project == tomllib.loads((ROOT / name).read_text())["project"]
    code = json.loads(made["codemeta.json"])["codeRepository"]
    assert yaml.safe_load(made["CITATION.cff"])["repository-code"] == code


def test_every_file_with_a_version_has_the_same():
    companion = tomllib.loads((ROOT / "companion" / "pyproject.toml").read_text())[
        "project"
    ]
    versions = [companion["version"]] + [
        json.loads((ROOT / name).read_text())["version"]
        for name in ("codemeta.json", ".zenodo.json")
    ]
    versions.append(yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"])
    versions.append(
        re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    )
    assert {*versions} == {adascale.__version__}
    assert version("adascale") == adascale.__version__, "run `make venv`"
    assert companion["dependencies"] == [f"adascale[book]=={adascale.__version__}"]


def test_source_distribution_takes_every_folder_of_the_repository():
    rules = [
        line.split()
        for line in (ROOT / "MANIFEST.in").read_text().splitlines()
        if not line.startswith("#")
    ]
    taken = {
        name for rule, *names in rules if rule in ("graft", "include") for name in names
    }
    by_itself = {
        "adascale",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "LICENSE-text",
        "MANIFEST.in",
    }
    ignored = (ROOT / ".gitignore").read_text()
    made = {".git", "build", "dist", "__pycache__"} | {
        path.name for path in ROOT.glob("*.egg-info")
    }
    there = (
        {path.name for path in ROOT.iterdir() if f"{path.name}/" not in ignored}
        - made
        - {"PKG-INFO", "setup.cfg"}
    )
    assert there == (taken | by_itself) & there
    assert {
        "tests",
        "notebooks",
        "book",
        "results",
        "companion",
        "requirements.lock",
        "CITATION.cff",
    } <= taken


def test_actions_are_pinned_by_commit_with_their_version_as_comment():
    lines = [
        line
        for path in ROOT.glob(".github/workflows/*.yml")
        for line in path.read_text().splitlines()
    ]
    used = [line for line in lines if "uses:" in line]
    assert len(used) > 15
    pins = {
        re.fullmatch(
            r"\s*(?:- )?uses: (\S+)@([0-9a-f]{40}) # v(\d+\.\d+\.\d+)", line
        ).groups()
        for line in used
    }
    assert len({name for name, *_ in pins}) == len(pins), "one version of each action"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow_may_read_and_keeps_no_credentials(name):
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    for job in WORKFLOWS[name]["jobs"].values():
        for step in job.get("steps", []):
            assert (
                "checkout" not in step.get("uses", "")
                or step["with"]["persist-credentials"] == "false"
            )


def test_a_workflow_calls_tests_that_are_there():
    for text in (path.read_text() for path in ROOT.glob(".github/workflows/*.yml")):
        for name in re.findall(r"[\w/]*test_\w+\.py", text):
            assert (ROOT / "tests" / name.removeprefix("tests/")).exists(), name


def test_paper_has_what_joss_asks_for():
    _, header, body = (ROOT / "paper.md").read_text().split("---\n", 2)
    about = yaml.safe_load(header)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= {
        *about
    }
    assert (
        len(re.findall(r"\w[\w'’-]*", re.sub(r"\$[^$]*\$|!?\[|\]\([^)]*\)", " ", body)))
        <= 1000
    )
    assert re.findall(r"^# (.+)", body, re.MULTILINE)[:2] == [
        "Summary",
        "Statement of need",
    ]
    keys = re.findall(
        r"^@\w+\{(\w+),", (ROOT / about["bibliography"]).read_text(), re.MULTILINE
    )
    assert {*re.findall(r"@(\w+)", body)} == {*keys}


def test_small_binder_image_has_the_requirements_without_pytorch():
    environment = yaml.safe_load(
        (ROOT / "tools" / "binder" / "environment.yml").read_text()
    )
    (wanted,) = [
        entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = {*project["dependencies"]}.union(
        *project["optional-dependencies"].values()
    )
    assert {*wanted} <= stated
    assert not any(re.match("torch|opacus|adascale", each) for each in wanted)


def test_conda_recipe_asks_for_what_the_core_asks_for():
    recipe = (ROOT / "tools" / "conda" / "meta.yaml").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run = recipe.partition("  run:\n")[2].partition("\ntest:")[0]
    wanted = [
        line.strip("- ").replace(" ", "")
        for line in run.splitlines()
        if "python" not in line
    ]
    assert wanted == project["dependencies"]
    assert f'version = "{adascale.__version__}"' in recipe


def test_tutorial_runs_on_the_accountant_alone(capsys):
    """Its Python, and its command with the same result; nothing that the plain package does not bring."""
    page = (ROOT / "book" / "tutorial.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    assert {*re.findall(r"^(?:from|import) (\S+)", code, re.MULTILINE)} == {
        "adascale.accounting"
    }
    names = {}
    exec(code, names)
    command = re.search(r"^adascale (.*)", page, re.MULTILINE)[1].split()
    capsys.readouterr()
    assert run(*command, "--json") == 0
    assert json.loads(capsys.readouterr().out)["upper"] == float(names["found"])
