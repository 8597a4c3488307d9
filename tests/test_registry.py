"""Names and what they stand for."""

import sys

import pytest

from adascale import registry
from companion.training.weighted_optimal import WeightedOptimal


def test_every_name_is_found_and_named_back():
    for kind in registry.KINDS:
        for name in registry.names(kind):
            value = registry.find(kind, name).value
            assert registry.find(kind, name.upper().replace("-", "_")) == (
                name,
                name,
                value,
            )
            assert registry.name_of(kind, value) == name


def test_own_code_is_found_by_its_module():
    name = registry.name_of("policies", WeightedOptimal)
    assert name == "companion.training.weighted_optimal:WeightedOptimal"
    found = registry.find("policies", name)
    assert found == (name, "WeightedOptimal", WeightedOptimal)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
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


@pytest.mark.parametrize(
    "text",
    [
        "a:=3",
        "a:x=0x10",
        "a:x=(1,2_0)",
        "a:x=1,x=2",
        "a:x='b,c=d'",
        "a:x=[1",
        "a:x={[]: 1}",
        "a:x=" + "(" * 9999,
    ],
)
def test_bad_arguments_are_refused(text):
    with pytest.raises(ValueError, match=r"expected |duplicate key 'x'"):
        registry.parse_options(text)


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        (
            "policies",
            "worst",
            "policy 'worst' is unknown; .*adascale.*, or module:object",
        ),
        ("channels", "no_such_module:X", "channel 'no_such_module:X': cannot import"),
        ("models", "adascale:nothing", "model 'adascale:nothing': .* has no 'nothing'"),
        (
            "accountants",
            "rayleigh",
            "accountant 'rayleigh' is unknown; expected one of renyi, exact",
        ),
        ("policies", ".a:b", "must be a registered name, or module:object"),
        ("models", "os:abort", "not one of Python's standard library"),
        ("models", "adascale.cli:main", "must be a subclass of .*, got function"),
        (
            "accountants",
            "adascale.channel:Rayleigh",
            "must be a class with a method epsilon, .* got type",
        ),
        (
            "datasets",
            "adascale.registry:KINDS",
            "must be a function without arguments, .* got dict",
        ),
    ],
)
def test_what_cannot_be_found_is_said(kind, name, said):
    with pytest.raises(ValueError, match=said):
        registry.find(kind, name)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A user's package in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").write_text("")
    (tmp_path / "shop/front.py").write_text(
        "class Mine:\n    def epsilon(self): pass\n"
    )
    yield tmp_path / "shop"
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


def digest(name="shop.front:Mine"):
    return registry.source_digest("accountants", name)


def test_own_code_is_imported_from_the_working_directory(package):
    path = list(sys.path)
    assert registry.find("accountants", "shop.front:Mine").label == "Mine"
    assert sys.path == path


def test_an_error_in_own_code_is_passed_on_as_it_is(package):
    (package / "front.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        registry.find("accountants", "shop.front:Mine")


def test_source_digest_is_that_of_the_module_wherever_it_is(
    package, tmp_path_factory, monkeypatch
):
    first = digest()
    (package / "unused.py").write_text("stock = 4\n")
    assert digest() == first
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    package.rename(elsewhere / "shop")
    monkeypatch.chdir(elsewhere)
    sys.modules.pop("shop")
    assert digest() == first
    (elsewhere / "shop/front.py").write_text("more = 1\n")
    assert digest() != first


def test_what_has_no_source_has_no_digest():
    assert (
        digest("renyi") is digest("adascale.accounting:RenyiAccountant") is None
    )  # the package's own needs none
    for name in ("no_such_module:x", "numpy._core._multiarray_umath:array"):
        with pytest.raises(ValueError, match="has no source file"):
            digest(name)
