"""Names in TOML files: nothing of another kind is called, nothing of the standard library is imported."""

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import registry

from ..command import run
from .hostile import GAINS, SMALL, outcome

WATCHED = """
import functools, os, shutil
from dataclasses import dataclass
from os import abort, system
from shutil import rmtree
CALLED = []
class Watched(type):
    def __call__(cls, *given, **named):
        CALLED.append(cls.__name__)
        return super().__call__(*given, **named)
class Empty(metaclass=Watched): pass
class Starts(metaclass=Watched):
    def start(self, scenario, budget): return 0
class Said(str, metaclass=Watched): pass
class Calls:
    def __call__(self, *given, **named): CALLED.append("Calls")
    def __repr__(self): CALLED.append("repr"); return ""
    def __bool__(self): CALLED.append("bool"); return True
instance, number, table, text, nothing = Calls(), 3, {"epsilon": 1}, "os:system", None
part = functools.partial(CALLED.append, "part")
bound, kept = instance.__call__, functools.cache(abort)
def function(*given, **named): CALLED.append("function")
"""
FILES = {"kinds.py": WATCHED, "g.csv": GAINS}
MODULES = sorted({*sys.stdlib_module_names, "os.path", "xml.dom", "importlib.util", "wsgiref.util", "email.mime"})
ATTRIBUTES = str.split("system abort _exit run rmtree exec exit dict main epsilon __import__")
STANDARD = st.one_of(
    st.sampled_from(["os:system", "os:abort", "os:_exit", "shutil:rmtree", "subprocess:run", "builtins:exec"]),
    st.builds("{}:{}".format, st.sampled_from(MODULES), st.sampled_from(ATTRIBUTES)),
)
WRONG = [
    *("Empty", "Starts", "Said", "Calls", "instance", "number", "table", "text", "nothing", "part", "bound", "kept"),
    *("abort", "system", "rmtree", "os", "shutil", "CALLED", "__builtins__", "__dict__", "__class__", "absent", "a.b"),
]
ODD = [
    *str.split("kinds kinds: :kinds :: ..kinds:Empty kinds.os:system no_such:thing __main__:x adascale.cli:main"),
    *["adascale:__getattr__", "adascale.cli.sys:exit", "adascale.registry:os"],
    "",
]
WITH = ["", "", ":x=1", ":command='touch PWNED'", ":status=0", ":path='.'"]
KINDS = st.builds(
    "{}{}".format,
    st.one_of(STANDARD, st.sampled_from(WRONG).map("kinds:{}".format), st.sampled_from(ODD)),
    st.sampled_from(WITH),
)
TEXT = KINDS.map(lambda name: f'"{name}"')
TABLES = TEXT.map(lambda name: f"{{ model = {name} }}")
CHOSEN = st.one_of(TEXT, TEXT, TEXT, st.sampled_from(["-3", "true", "{}", "2020-01-01"]), TABLES)
READERS = {  # the command that reads the file, what is good in it, and where a bad value can stand
    "sweep": (
        ["any.toml", "--report", "--store", "store"],
        {"reading": '"a"', "dataset": '"digits"', "policy": '"Learn"', "nu": "0.04", "seed": "0", "rounds": "1"},
        ["dataset", "policy", "accountant", "channel", "model", "nu", "nothing"],
    ),
    "train": (
        ["--dataset", "any.toml", "--nu", "0.04", "--rounds", "1"],
        {"base": '"digits"'},
        ["base", "channel.model", "training.model", "training.dataset", "training.nothing", "scenario.order", "x"],
    ),
    "leakage": (
        ["--scenario", "any.toml", "--nu", "0.04", "--realisations", "1", "--policy", "optimal"],
        {"base": '"digits"', "scenario.num_rounds": "2"},
        ["base", "channel.model", "channel.x", "scenario.order", "scenario.policy", "accountant", "levels"],
    ),
    "schedule": (
        ["--scenario", "any.toml", "--gains", "g.csv", "--nu", "0.04"],
        dict(line.split(" = ", 1) for line in SMALL.splitlines()),
        ["num_rounds", "order", "channel.model", "accountant", "base", "max_power"],
    ),
}


@st.composite
def files(draw):
    """A command, and a file with one bad value or more for it."""
    command = draw(st.sampled_from(sorted(READERS)))
    _, good, places = READERS[command]
    lines = good | {place: draw(CHOSEN) for place in draw(st.sets(st.sampled_from(places), min_size=1, max_size=3))}
    return command, lines


@pytest.fixture
def watched(folder, monkeypatch):
    """What the registry imports or looks up of the standard library, and which dangerous function is called."""
    seen = []

    def watching(function, of):
        def watch(first, *others):
            caller = sys._getframe(1).f_globals["__name__"]
            name = first if isinstance(first, str) else getattr(first, "__name__", "")
            if caller == "adascale.registry" and name.partition(".")[0] in sys.stdlib_module_names:
                seen.append(f"{of} {name}")
            return function(first, *others)

        return watch

    monkeypatch.setattr(importlib, "import_module", watching(importlib.import_module, "import"))
    monkeypatch.setattr(importlib.util, "find_spec", watching(importlib.util.find_spec, "find"))
    monkeypatch.setattr(registry, "getattr", watching(getattr, "look up"), raising=False)
    for module, name in ((os, "system"), (os, "abort"), (os, "_exit"), (shutil, "rmtree"), (subprocess, "run")):
        monkeypatch.setattr(module, name, lambda *_, of=name, **__: seen.append(f"call {of}"))
    return seen


def write(command, lines):
    with open("any.toml", "w") as file:
        file.write("[[runs]]\n" * (command == "sweep") + "".join(f"{key} = {value}\n" for key, value in lines.items()))


def assert_refused(seen, command, lines):
    """Exit code 2, one line that names the file, and nothing was seen, called or imported."""
    arguments, *_ = READERS[command]
    write(command, lines)
    before = {*sys.modules}
    del seen[:]
    code, _, errors = outcome([command, *arguments])
    assert seen == [], lines
    named = {each for each in MODULES if any(f'"{each}:' in value for value in lines.values())}
    assert not named & ({*sys.modules} - before), lines
    assert "kinds" not in sys.modules or sys.modules["kinds"].CALLED == [], lines
    assert (code, len(errors)) == (2, 1), (lines, errors)
    assert errors[0].startswith(f"adascale {command}: error: "), errors
    assert "any.toml" in errors[0], (lines, errors)


def test_names_in_toml_files_call_nothing(watched):
    @given(files())
    def check(drawn):
        assert_refused(watched, *drawn)

    check()
    assert not os.path.exists("PWNED")


@pytest.mark.parametrize("command", sorted(READERS))
def test_good_toml_files_are_read(folder, command, capsys):
    """Control: what is refused above is refused for what was changed."""
    arguments, good, _ = READERS[command]
    write(command, good)
    assert run(command, *arguments) == 0


@pytest.mark.parametrize(
    ("hole", "allowed", "named"),
    [
        ("_fits", True, "kinds:Empty"),
        ("_fits", True, "kinds:instance"),
        ("_refuse_foreign", None, "os:system:command='touch PWNED'"),
        ("_refuse_foreign", None, "wave:open"),
    ],
)
def test_planted_holes_are_seen(watched, monkeypatch, hole, allowed, named):
    """Control: without one of the two checks, the calls and imports are noticed."""
    bad = READERS["sweep"][1] | {"accountant": f'"{named}"'}
    assert_refused(watched, "sweep", bad)
    monkeypatch.setattr(registry, hole, lambda *_: allowed)
    with pytest.raises(AssertionError):
        assert_refused(watched, "sweep", bad)
    sys.modules.pop("kinds", None)
