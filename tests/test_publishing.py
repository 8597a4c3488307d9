"""What is published: one version, one address, the same requirements, and a tutorial that runs."""

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
PROJECTS = "pyproject.toml", "companion/pyproject.toml"


def test_one_address_reaches_pages_readme_and_packages(tmp_path):
    names = ["_config.yml", "README.md", *PROJECTS, "tools/addresses.py"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run([sys.executable, tmp_path / "tools/addresses.py", URL], check=True)
    settings = yaml.safe_load((tmp_path / "_config.yml").read_text())
    assert settings["repository"]["url"] == URL
    for link in re.findall(r"\]\(([^)]+)\)", (tmp_path / "README.md").read_text()):
        kind = "raw" if link.endswith((".png", ".svg")) else "blob"
        assert (ROOT / link.removeprefix(f"{URL}/{kind}/main/")).exists()
    for name in PROJECTS:
        project = tomllib.loads((tmp_path / name).read_text())["project"]
        assert project["urls"]["Repository"] == URL


def test_every_file_with_a_version_has_the_same():
    companion = tomllib.loads((ROOT / PROJECTS[1]).read_text())["project"]
    changes = (ROOT / "CHANGELOG.md").read_text()
    versions = {
        companion["version"],
        version("adascale"),
        re.search(r"^## ([\d.]+)", changes, re.MULTILINE)[1],
        yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"],
        json.loads((ROOT / "codemeta.json").read_text())["version"],
        json.loads((ROOT / ".zenodo.json").read_text())["version"],
    }
    assert versions == {adascale.__version__}
    assert companion["dependencies"] == [f"adascale[book]=={adascale.__version__}"]
    recipe = (ROOT / "tools" / "conda" / "meta.yaml").read_text()
    assert f'version = "{adascale.__version__}"' in recipe


@pytest.mark.parametrize("name", ["binder/environment.yml", "conda/meta.yaml"])
def test_binder_and_conda_ask_for_what_the_project_asks_for(name):
    project = tomllib.loads((ROOT / PROJECTS[0]).read_text())
    extras = project["project"]["optional-dependencies"].values()
    stated = {*project["project"]["dependencies"], *project["build-system"]["requires"]}
    text = (ROOT / "tools" / name).read_text().replace(" ", "")
    asked = {*re.findall(r"^-((?!python)[\w-]+>=.+)", text, re.MULTILINE)}
    assert len(asked) > 2
    assert asked <= stated.union(*extras)


def test_tutorial_runs_on_the_accountant_alone(capsys):
    """Its Python and its command print what it shows, with nothing that the plain package does not bring."""
    page = (ROOT / "book" / "tutorial.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    modules = re.findall(r"^(?:from|import) (\S+)", code, re.MULTILINE)
    assert {*modules} == {"adascale.accounting"}
    exec(code, {})
    assert run(*re.search(r"^adascale (.*)", page, re.MULTILINE)[1].split()) == 0
    shown = "".join(re.findall(r"```text\n(.*?)```", page, re.DOTALL)).split()
    for printed, text in zip(capsys.readouterr().out.split(), shown, strict=True):
        try:
            # machines round the last digits differently
            assert float(printed.strip("[],")) == pytest.approx(
                float(text.strip("[],")), rel=1e-5
            )
        except ValueError:  # a word
            assert printed == text
