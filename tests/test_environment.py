"""The lock meets what pyproject.toml asks for; CITATION.cff and the licences agree with them."""

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
    {
        "sys_platform": "darwin",
        "platform_machine": "arm64",
        "platform_system": "Darwin",
    },
]
TARGETS = [
    default_environment()
    | platform
    | {
        "python_full_version": python,
        "python_version": python.rpartition(".")[0],
        "implementation_name": "cpython",
    }
    for platform, python in itertools.product(PLATFORMS, PYTHONS)
]


def applies(requirement, environment):
    return requirement.marker is None or requirement.marker.evaluate(environment)


def pins(environment):
    found = {}
    for line in re.findall(r"^[a-z].*==[^\\\n]+", LOCK, re.MULTILINE):
        requirement = Requirement(line)
        if applies(requirement, environment):
            name = canonicalize_name(requirement.name)
            assert name not in found, f"{name} is pinned twice"
            found[name] = Version(next(iter(requirement.specifier)).version)
    return found


def project_requirements():
    """Everything pyproject.toml asks for: core, extras, build backend; extras that name an extra are that extra's."""
    project = PROJECT["project"]
    extras = project["optional-dependencies"].values()
    for text in itertools.chain(
        project["dependencies"], *extras, PROJECT["build-system"]["requires"]
    ):
        requirement = Requirement(text)
        if requirement.name == project["name"]:
            assert requirement.extras <= set(project["optional-dependencies"])
        else:
            yield requirement


def test_lock_meets_every_requirement_of_the_project():
    assert "://" not in LOCK  # no address of an index
    for environment in TARGETS:
        pinned = pins(environment)
        for requirement in project_requirements():
            if applies(requirement, environment):
                assert (
                    pinned[canonicalize_name(requirement.name)] in requirement.specifier
                ), (requirement, environment)


def test_continuous_integration_tries_the_oldest_packages_that_are_allowed():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    pins = [
        Requirement(pin)
        for job in workflow["jobs"]["library"]["strategy"]["matrix"]["include"]
        for pin in job["pins"].split()
    ]
    oldest = {pin.name: Version(next(iter(pin.specifier)).version) for pin in pins}
    wanted = {requirement.name: requirement for requirement in project_requirements()}
    assert {"numpy", "scipy", "numba", "pandas", "matplotlib"} == {*oldest}
    for name, version in oldest.items():
        (bound,) = wanted[name].specifier
        assert Version(bound.version) == version, name


def test_chapters_import_only_what_the_extra_book_brings():
    project = PROJECT["project"]
    extras = (
        project["optional-dependencies"][name]
        for name in ("book", "learn", "plot", "federated")
    )
    wanted = itertools.chain(project["dependencies"], *extras)
    brought = {canonicalize_name(Requirement(text).name) for text in wanted} | {
        project["name"],
        "adascale-companion",
    }
    distributions = importlib.metadata.packages_distributions() | {
        project["name"]: [project["name"]]
    }
    cells = [
        cell
        for path in ROOT.glob("notebooks/*.ipynb")
        for cell in json.loads(path.read_text())["cells"]
    ]
    code = "\n".join(
        "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"
    )
    modules = (
        set(re.findall(r"^\s*(?:from|import) (\w+)", code, re.MULTILINE))
        - sys.stdlib_module_names
    )
    assert "adascale" in modules
    for module in modules:
        assert brought & {canonicalize_name(name) for name in distributions[module]}, (
            module
        )


def test_citation_names_the_paper_as_the_bibliography_does():
    entry = parse_file(str(ROOT / "book" / "references.bib")).entries[
        "moradi2026adascale"
    ]
    paper = CITATION["preferred-citation"]
    assert paper["title"] == entry.fields["title"]
    assert paper["collection-title"] == entry.fields["booktitle"]
    assert str(paper["year"]) == entry.fields["year"]
    assert [
        f"{author['family-names']}, {author['given-names']}"
        for author in paper["authors"]
    ] == [str(person) for person in entry.persons["author"]]
    arxiv = re.search(r"\d{4}\.\d{5}", str(entry.fields))[0]
    assert paper["identifiers"] == [{"type": "other", "value": f"arXiv:{arxiv}"}]


def test_licences_are_the_ones_that_are_named():
    code, text = (ROOT / "LICENSE").read_text(), (ROOT / "LICENSE-text").read_text()
    assert code.startswith("BSD 3-Clause License")
    assert (
        PROJECT["project"]["license"]
        == f"{CITATION['license']} AND CC-BY-4.0"
        == "BSD-3-Clause AND CC-BY-4.0"
    )
    assert "CC BY 4.0" in text.partition("\n")[0]
    assert {*PROJECT["project"]["license-files"]} == {
        path.name for path in ROOT.glob("LICENSE*")
    }  # a wheel has both
