"""The layout: which module may import which, no private name crosses a module, and what an import does not bring."""

import ast
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


def modules(root):
    """The modules of the library and of the companion below ``root``, each with its syntax tree."""
    paths = [
        path
        for name in PACKAGES
        for path in sorted((root / name).rglob("*.py"))
        if "tests" not in path.parts
    ]
    named = [(path.relative_to(root).with_suffix("").parts, path) for path in paths]
    return {
        ".".join(parts).removesuffix(".__init__"): ast.parse(path.read_text())
        for parts, path in named
    }


def part(module):
    """``adascale.policies.base`` is in the package ``policies``, all of the companion in itself."""
    first, *rest = module.split(".")
    return first if first == "companion" else rest[0] if rest else ""


class Imports(ast.NodeVisitor):
    """What a tree imports, but for types only."""

    def __init__(self, names):
        self.names, self.found = names, []

    def visit_If(self, node):
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_Import(self, node):
        self.found += [alias.name for alias in node.names]

    def visit_ImportFrom(self, node):
        assert not node.level, f"line {node.lineno}: imports are absolute here"
        full = [f"{node.module}.{alias.name}" for alias in node.names]
        self.found += [name if name in self.names else node.module for name in full]


def imported(tree, names):
    """The modules of the package that a tree imports anywhere, in a function too."""
    imports = Imports(names)
    imports.visit(tree)
    return [name for name in imports.found if name.split(".")[0] in PACKAGES]


def steps_up(found, layers):
    """Imports that do not lead down, and parts that have no layer."""
    height = {each: i for i, parts in enumerate(layers) for each in parts}
    for module, tree in found.items():
        here = part(module)
        if here in ("", "__main__"):
            continue
        if here not in height:
            yield f"{module} has no layer"
            continue
        for each in imported(tree, found):
            there = part(each)
            if (
                there not in ("", here)
                and height.get(there, len(layers)) >= height[here]
            ):
                yield f"{module} -> {each}"


def private_imports(tree):
    """Private names of the library or of the companion that a tree imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                first, *rest = (
                    f"{getattr(node, 'module', None) or ''}.{alias.name}".lstrip(
                        "."
                    ).split(".")
                )
                if first in PACKAGES and any(
                    name.startswith("_") and not name.endswith("__") for name in rest
                ):
                    yield f"line {node.lineno}: {'.'.join(rest)}"


CODE = modules(ROOT)


def test_modules_import_only_from_lower_layers():
    """And no module of the library names one of the companion in a string."""
    assert list(steps_up(CODE, LAYERS)) == []
    assert [
        path
        for path in (ROOT / "adascale").rglob("*.py")
        if re.search(r"[\"']companion\b", path.read_text())
    ] == []
    assert {each for parts in LAYERS for each in parts} == {
        part(module) for module in CODE
    } - {"", "__main__"}


def test_no_private_name_crosses_a_module():
    """Ruff sees those that are looked up (SLF001), and tests/test_chapters.py has the chapters."""
    paths = [
        path
        for folder in (*PACKAGES, "tests", "tools")
        for path in (ROOT / folder).rglob("*.py")
    ]
    crossing = {
        path.name: list(private_imports(ast.parse(path.read_text()))) for path in paths
    }
    assert {name: names for name, names in crossing.items() if names} == {}
    seen = [
        *private_imports(
            ast.parse(
                "from adascale.low import _g, f\nimport adascale._low\nfrom os import _exit"
            )
        )
    ]
    assert seen == ["line 1: low._g", "line 2: _low"]  # the control


def test_a_step_up_is_seen():
    text = "def f():\n    import companion.claims\nfrom adascale import high\nfrom adascale.other import g"
    text += "\nif TYPE_CHECKING:\n    from adascale.high import T"
    code = {
        "adascale": "",
        "adascale.low": text,
        "adascale.high": "import adascale.low",
        "adascale.other": "",
    }
    found = {name: ast.parse(each) for name, each in code.items()}
    seen = [
        f"adascale.low -> {each}"
        for each in ("adascale.high", "adascale.other", "companion.claims")
    ]
    assert sorted(steps_up(found, (("low",), ("high",), ("companion",)))) == [
        *seen,
        "adascale.other has no layer",
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
