"""Names and what they stand for."""

import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from adascale import channel, registry
from companion.theory import optimal_cvxpy


def test_every_entry_point_is_found_by_its_name_and_other_code_by_its_module():
    for kind in registry.KINDS:
        known = entry_points(group=f"adascale.{kind}")
        assert {each.name for each in known} == {*registry.names(kind)} != set()
        for each in known:
            assert registry.find(kind, each.name).value is each.load()
            assert registry.name_of(kind, each.load()) == each.name
    name = registry.name_of("policies", optimal_cvxpy.OptimalCvxpy)
    assert name == "companion.theory.optimal_cvxpy:OptimalCvxpy"
    found = registry.find("policies", name)
    assert (found.label, found.value) == ("OptimalCvxpy", optimal_cvxpy.OptimalCvxpy)
    code = compile("1 / 0", f"{Path(registry.__file__).parent}_mine.py", "exec")  # beside the package: the user's
    with pytest.raises(ValueError, match=r"adascale_mine\.py, line 1: Zero"), registry.naming_own_code():
        exec(code)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rayleigh", ("rayleigh", {})),
        ("mine:Rician", ("mine:Rician", {})),
        ("mine:Rician:K=5", ("mine:Rician", {"K": 5})),
        ("rayleigh:placement=area", ("rayleigh", {"placement": "area"})),
        ("a:B:x=1e-3,y='a',z=None", ("a:B", {"x": 1e-3, "y": "a", "z": None})),
        ("a:range=(1,2),b=[3,4]", ("a", {"range": (1, 2), "b": [3, 4]})),
        ("mine:Own:file=a:b.csv", ("mine:Own", {"file": "a:b.csv"})),
        ("a: x = 1 , y = word ", ("a", {"x": 1, "y": "word"})),
    ],
)
def test_arguments_stand_behind_a_name(text, expected):
    assert registry.parse_options(text) == expected


@pytest.mark.parametrize("text", ["a:=3", "a:x=1,x=2", "a:x='b,c=d'", "a:x=[1", "a:x={[]: 1}", "a:x=" + "(" * 9999])
def test_bad_arguments_are_refused(text):
    with pytest.raises(ValueError, match=r"expected |duplicate key 'x'"):
        registry.parse_options(text)


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("policies", "worst", "policy 'worst' is unknown; .*adascale.*, or module:object"),
        ("channels", "no_such_module:X", "channel 'no_such_module:X': cannot import"),
        ("models", "adascale:nothing", "model 'adascale:nothing': .* has no 'nothing'"),
        ("hats", "top", "kind must be one of"),
        ("accountants", "rayleigh", r"accountant 'rayleigh' is unknown \(rayleigh is a channel\)"),
        ("policies", ":", "must be a registered name, or module:object"),
        ("policies", ".a:b", "must be a registered name, or module:object"),
        ("models", "os:abort", "not one of Python's standard library"),
        ("models", "adascale.cli:main", "must be a subclass of .*, got function"),
        ("accountants", "adascale.channel:Rayleigh", "must be a class with a method epsilon, .* got type"),
        ("policies", "adascale.checks:positive", "must be a subclass of .*Policy, got function"),
        ("datasets", "adascale.registry:KINDS", "must be a function without arguments, .* got dict"),
    ],
)
def test_what_cannot_be_found_is_said(kind, name, said):
    with pytest.raises(ValueError, match=said):
        registry.find(kind, name)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A user's package in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop/deep").mkdir(parents=True)
    files = {
        "front": "from . import store\nfrom shop.deep import cellar\nimport numpy\nimport adascale\n",
        **{"__init__": "", "store": "stock = 1\n", "unused": "stock = 3\n"},
        **{"deep/__init__": "", "deep/cellar": "from ..store import stock\n"},
    }
    for name, text in files.items():
        (tmp_path / f"shop/{name}.py").write_text(text)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


def digest(name="shop.front:anything", kind="policies"):
    return registry.source_digest(kind, name)


def test_a_digest_covers_what_a_module_imports_from_its_own_package_and_no_more(package, tmp_path_factory, monkeypatch):
    seen = [digest()]
    assert seen == ["889a50094a1ae028"]  # as in rows of old results
    for file in ("shop/front.py", "shop/store.py", "shop/__init__.py", "shop/deep/cellar.py"):
        assert digest() == seen[-1]
        (package / file).write_text((package / file).read_text() + "more = 1\n")
        seen.append(digest())
    assert len(set(seen)) == 5
    (package / "shop/unused.py").write_text("stock = 4\n")
    assert digest() == seen[-1]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (package / "shop").rename(elsewhere / "shop")
    monkeypatch.chdir(elsewhere)
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]
    assert digest() == seen[-1]
    for text in ("this is no Python\n", "nor is this\n"):  # which is a part of it all the same
        (elsewhere / "shop/store.py").write_text(f"import shop.unused\n{text}")
        seen.append(digest())
    assert len(set(seen)) == 7


def test_what_has_no_source_has_no_digest():
    assert digest("AdaScale") is None  # the package's own needs none
    unknown = ("no_such_module:x", "no_such_module.part:x", "math.part:x", ":x", "a..b:x")
    for name in (*unknown, "numpy._core._multiarray_umath:array"):
        with pytest.raises(ValueError, match=r"has no source file|must be a registered name"):
            digest(name)


def test_what_another_package_registers_is_found_by_its_name_and_a_broken_name_hides_no_other(package, monkeypatch):
    (package / "shop/front.py").write_text("class Mine:\n    pass\n")
    told = package / "shop-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    entries = (
        "[adascale.policies]\nMine = shop.front:Mine\n[adascale.channels]\nbroken = adascale.channel:NoSuchModel\n"
    )
    (told / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(package)
    spec = importlib.util.find_spec("adascale.registry")
    spec.loader.exec_module(new := importlib.util.module_from_spec(spec))  # what is installed is looked up once
    assert new.names("policies")[-1] == "Mine"
    assert new.find("policies", "mine").value.__name__ == "Mine"
    assert new.source_digest("policies", "Mine") == new.source_digest("policies", "shop.front:Mine") is not None
    assert new.names("channels")[0] == "broken"
    assert new.name_of("channels", channel.Rayleigh) == "rayleigh"
    with pytest.raises(ValueError, match="cannot import"):
        new.find("channels", "broken")
