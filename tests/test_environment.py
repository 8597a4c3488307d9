"""The lock, from which this environment is installed, has what pyproject.toml and the chapters ask for."""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
CORE = PROJECT["project"]["dependencies"]


def required(*extras):
    """Return the requirements of the project and of some extras, but for the extras that these name."""
    texts = [*CORE, *(text for name in extras for text in EXTRAS[name])]
    requirements = map(Requirement, texts)
    return [each for each in requirements if each.name != "adascale"]


def test_lock_meets_every_requirement_of_the_project():
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock  # no address of an index
    pins = dict(re.findall(r"^([a-z][\w.-]*)==([^\s;]+)", lock, re.MULTILINE))
    for requirement in required(*EXTRAS):
        pin = pins[canonicalize_name(requirement.name)]
        assert pin in requirement.specifier, requirement


def test_chapters_import_only_what_the_extra_book_brings():
    pytest.importorskip("opacus")
    wanted = required("book", "sweep", "plot", "learn", "federated", "fast")
    brought = {canonicalize_name(requirement.name) for requirement in wanted}
    distributions = metadata.packages_distributions()
    code = "".join(path.read_text() for path in ROOT.glob("notebooks/*.md"))
    modules = {*re.findall(r"^ *(?:from ([\w.]+) )?import (\w+)", code, re.MULTILINE)}
    modules = {(first or second).partition(".")[0] for first, second in modules}
    assert "adascale" in modules
    for module in modules - sys.stdlib_module_names - {"adascale", "companion"}:
        names = {canonicalize_name(name) for name in distributions[module]}
        assert names & brought, module
