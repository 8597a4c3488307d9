"""The layout: which module may import which, no private name crosses a module, and what an import does not bring."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import adascale

ROOT = Path(__file__).parents[1]

# The lowest first. A part (a module or folder of adascale/) imports only from layers below its own.
LAYERS = (
    ("compiled", "errors", "text"),
    ("checks",),
    ("units",),
    ("registry", "files", "rootfind", "tables", "workers"),
    ("accounting", "scenario", "statistics"),
    ("channel", "problem"),
    ("policies", "presets"),
    ("tuning", "streaming"),
    ("comparison", "learning"),
    ("audit", "runs"),
    ("cli",),
    ("companion",),
)
PACKAGES = ("adascale", "companion")
WHOLE = "__init__", "__main__"


def graph(folder):
    """The modules that each module imports anywhere, in a function too, but not for types alone; by their paths."""
    command = ["ruff", "analyze", "graph", "--no-type-checking-imports"]
    output = subprocess.run(
        [sys.executable, "-m", *command, *PACKAGES],
        cwd=folder,
        capture_output=True,
        check=True,
    ).stdout
    return {
        module: imports
        for module, imports in json.loads(output).items()
        if "/tests/" not in module
    }


def part(module):
    """``adascale/policies/base.py`` is in the package ``policies``, all of the companion in itself."""
    first, second, *_ = Path(module).with_suffix("").parts
    return first if first == "companion" else second


def steps_up(found, layers):
    """Imports that do not lead down, and parts that have no layer."""
    height = {each: i for i, parts in enumerate(layers) for each in parts}
    for module, imports in found.items():
        here = part(module)
        if here not in height and here not in WHOLE:
            yield f"{module} has no layer"
        for each in imports:
            there = part(each)
            is_up = height.get(there, 99) >= height.get(here, 99)
            if is_up and not {here, there} & {*WHOLE} and here != there:
                yield f"{module} -> {each}"


def test_modules_import_only_from_lower_layers():
    """And no module of the library names one of the companion in a string."""
    found = graph(ROOT)
    assert [*steps_up(found, LAYERS)] == []
    assert {part(module) for module in found} - {*WHOLE} == {*sum(LAYERS, ())}
    for path in (ROOT / "adascale").rglob("*.py"):
        assert not re.search(r"[\"']companion\b", path.read_text()), path


def test_a_step_up_is_seen(tmp_path):
    text = "def f():\n    import companion.claims\nfrom adascale import high\n"
    text += "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from adascale.types import T"
    code = {"adascale/low": text, "adascale/high": "import adascale.low"}
    for name, content in (
        code | {"adascale/other": "", "companion/claims": ""}
    ).items():
        (tmp_path / f"{name}.py").parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(content)
    assert sorted(steps_up(graph(tmp_path), (("low",), ("high",), ("companion",)))) == [
        "adascale/low.py -> adascale/high.py",
        "adascale/low.py -> companion/claims.py",
        "adascale/other.py has no layer",
    ]


def loaded_by(*statements):
    """What is loaded after each of some statements, one after the other: a fresh interpreter tells."""
    code = "\n".join(
        ["import sys", *(f"{each}\nprint(*sys.modules)" for each in statements)]
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return [
        {name.split(".")[0] for name in line.split()}
        for line in result.stdout.splitlines()
    ]


def test_an_import_brings_only_what_it_needs():
    core = "import adascale.comparison, adascale.policies, adascale.cli"
    none, help_text, one, some = loaded_by(
        "import adascale", "import adascale.cli", "adascale.Scenario", core
    )
    assert not (none | help_text) & {"numpy", "numba", "pandas", "scipy", "torch"}
    assert "numpy" in one  # what is there is seen
    assert not some & {"torch", "matplotlib", "cvxpy", "companion"}


def test_every_name_of_the_package_is_there():
    for name in dir(adascale):
        assert getattr(adascale, name).__class__ is not None
    assert set(adascale.__all__) < set(dir(adascale))
    assert adascale.load_preset is adascale.presets.load
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        adascale.nothing  # noqa: B018
