"""pyproject.toml, the lock and environment.yml are one environment; CITATION.cff and the licences agree with them."""

import importlib.metadata
import itertools
import json
import re
import sys
import tomllib
from pathlib import Path

import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from pybtex.database import parse_file

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
LOCK = (ROOT / "requirements.lock").read_text()

PYTHONS = ["3.11.0", "3.12.0", "3.13.0"]
PLATFORMS = [
    {"sys_platform": "linux", "platform_machine": "x86_64", "platform_system": "Linux"},
    {"sys_platform": "darwin", "platform_machine": "arm64", "platform_system": "Darwin"},
]
TARGETS = [
    default_environment()
    | platform
    | {"python_full_version": python, "python_version": python.rpartition(".")[0], "implementation_name": "cpython"}
    for platform, python in itertools.product(PLATFORMS, PYTHONS)
]


def locked_lines():
    """(requirement, hashes) of every pin."""
    logical = re.sub(r"\\\n", " ", LOCK).splitlines()
    for line in logical:
        if line.strip() and not line.lstrip().startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=", line.strip())
            yield Requirement(requirement), hashes


def applies(requirement, environment):
    return requirement.marker is None or requirement.marker.evaluate(environment)


def pins(environment):
    found = {}
    for requirement, _ in locked_lines():
        if applies(requirement, environment):
            name = canonicalize_name(requirement.name)
            assert name not in found, f"{name} is pinned twice"
            found[name] = Version(next(iter(requirement.specifier)).version)
    return found


def project_requirements():
    """Everything pyproject.toml asks for: core, extras, build backend; extras that name an extra are that extra's."""
    project = PROJECT["project"]
    extras = project["optional-dependencies"].values()
    for text in itertools.chain(project["dependencies"], *extras, PROJECT["build-system"]["requires"]):
        requirement = Requirement(text)
        if requirement.name == project["name"]:
            assert requirement.extras <= set(project["optional-dependencies"])
        else:
            yield requirement


def test_every_pin_is_a_released_version_with_hashes():
    """And the lock names no address."""
    lines = list(locked_lines())
    assert len(lines) > 100
    for requirement, hashes in lines:
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", requirement
        assert not Version(specifier.version).is_prerelease, requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), requirement
    assert not re.search(r"://|^\s*(-i|-f|--(extra-)?index-url|--find-links)\b", LOCK, re.MULTILINE)


def test_lock_meets_every_requirement_of_the_project():
    for environment in TARGETS:
        pinned = pins(environment)
        for requirement in project_requirements():
            if applies(requirement, environment):
                assert pinned[canonicalize_name(requirement.name)] in requirement.specifier, (requirement, environment)


def test_installed_versions_are_the_locked_ones():
    pinned = pins(default_environment())
    for name in ("numpy", "scipy", "numba", "torch", "torchvision", "opacus", "jupyter-book", "nbval", "ruff", "mypy"):
        assert Version(importlib.metadata.version(name)) == pinned[name], f"{name}: run `make venv`"


def test_chapters_import_only_what_the_extra_book_brings():
    project = PROJECT["project"]
    extras = (project["optional-dependencies"][name] for name in ("book", "learn", "plot", "federated"))
    wanted = itertools.chain(project["dependencies"], *extras)
    brought = {canonicalize_name(Requirement(text).name) for text in wanted} | {project["name"], "adascale-companion"}
    distributions = importlib.metadata.packages_distributions() | {project["name"]: [project["name"]]}
    cells = [cell for path in ROOT.glob("notebooks/*.ipynb") for cell in json.loads(path.read_text())["cells"]]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    modules = set(re.findall(r"^\s*(?:from|import) (\w+)", code, re.MULTILINE)) - sys.stdlib_module_names
    assert "adascale" in modules
    for module in modules:
        assert brought & {canonicalize_name(name) for name in distributions[module]}, module


def test_conda_environment_is_the_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    python, *others = conda
    assert others == ["pip"], "every other package comes from the lock"
    assert pip == ["-r requirements.lock"], "pip's hash mode admits nothing beside the lock"
    assert f"{python.removeprefix('python=')}.0" in PYTHONS
    second = "pip install --no-deps -e . -e companion"
    assert second in (ROOT / "postBuild").read_text()
    assert second in (ROOT / "environment.yml").read_text()


def test_citation_names_the_paper_as_the_bibliography_does():
    entry = parse_file(str(ROOT / "book" / "references.bib")).entries["moradi2026adascale"]
    paper = CITATION["preferred-citation"]
    assert paper["title"] == entry.fields["title"]
    assert paper["collection-title"] == entry.fields["booktitle"]
    assert str(paper["year"]) == entry.fields["year"]
    assert [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]] == [
        str(person) for person in entry.persons["author"]
    ]
    arxiv = re.search(r"\d{4}\.\d{5}", str(entry.fields))[0]
    assert paper["identifiers"] == [{"type": "other", "value": f"arXiv:{arxiv}"}]


def test_licences_are_the_ones_that_are_named():
    code, text = (ROOT / "LICENSE").read_text(), (ROOT / "LICENSE-text").read_text()
    assert code.startswith("BSD 3-Clause License")
    assert PROJECT["project"]["license"] == f"{CITATION['license']} AND CC-BY-4.0" == "BSD-3-Clause AND CC-BY-4.0"
    assert "CC BY 4.0" in text.partition("\n")[0]
    assert {*PROJECT["project"]["license-files"]} == {path.name for path in ROOT.glob("LICENSE*")}  # a wheel has both
