"""Any arguments: a result, or one line that says what is wrong, and never a traceback.

Of names in TOML files, nothing of another kind is called, and nothing of the standard library is imported.
"""

import contextlib
import io
import os
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import Scenario, registry
from adascale.cli import leakage

from ..command import run
from .conftest import forgotten

SMALL = Scenario("small", 2, 4, 1000, 20, 400, 1.0, 0.2, 1e-12).to_toml()
GAINS = "h2_1,h2_2\n1e-10,2e-10\n3e-11,4e-11\n"
WATCHED = """
import functools, os, shutil
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
class Calls:
    def __call__(self, *given, **named): CALLED.append("Calls")
    def __repr__(self): CALLED.append("repr"); return ""
    def __bool__(self): CALLED.append("bool"); return True
instance, number, text, nothing = Calls(), 3, "os:system", None
part = functools.partial(CALLED.append, "part")
bound, cached = instance.__call__, functools.cache(abort)
def function(*given, **named): CALLED.append("function")
"""
FILES = {
    "kinds.py": WATCHED,
    "small.toml": SMALL,
    "preset.toml": 'base = "digits"\n[scenario]\nnum_rounds = 3\n',
    "circle.toml": 'base = "circle.toml"\n',
    "wrong.toml": SMALL.replace("0.2", '"0.2"'),
    "no.toml": "name = ",
    "g.csv": GAINS,
    "h.csv": "# a comment\nround;min_gain\n1;1e-10\n2;3e-9\n",
    "big.csv": "min_gain\n1e308\n1e308\n",
    "bad.csv": "h2_1,h2_2\n1e-10,nan\n",
    "mine.py": "class Own:\n    def start(self, scenario, budget): return 1 / 0\n",
    "runs.toml": '[[runs]]\nreading = "a"\ndataset = "digits"\npolicy = ["adascale", 3]\nnu = 0.1\nseed = 0\n',
    "dates.toml": "[[runs]]\nreading = 2020-01-01\ndataset = []\npolicy = {}\nnu = true\nseed = 'x'\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files, in which the commands run."""
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (folder / name).write_text(content)
    with contextlib.chdir(folder), forgotten(folder):
        yield folder


def outcome(arguments):
    """The exit code of a command, and the lines of standard error that are no notes."""
    err = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GAINS.encode())))
        code = run(*arguments)
    lines = err.getvalue().splitlines()
    return code, [line for line in lines if not line.startswith("note: ")]


def assert_a_result_or_one_line(arguments):
    code, errors = outcome(arguments)
    assert code in (0, 1, 2), arguments
    assert len(errors) == (code != 0), (arguments, errors)
    for line in errors:
        assert line.startswith("adascale")
        assert len(line) < 2000


ODD = "0 -1 nan 1e400 1e-320 1_0 x os:x : mine:Own mine:None json:dumps renyi:orders=() best:number=x . /dev/null"
ODD = [*ODD.split(), "9" * 30, "", "x" * 300, "a\0b", *FILES]


def values(*likely):
    """What may stand behind an option: mostly what could be meant."""
    usual = st.sampled_from(likely)
    return st.one_of(usual, usual, st.sampled_from(ODD), st.text(max_size=8))


FLOATS = values("0.01", "1e-3", "0.5", "1e308")
OPTIONS = {
    "--scenario": values("small.toml", "preset.toml", "circle.toml", "no.toml"),
    "--nu": FLOATS,
    "--delta": FLOATS,
    "--total": FLOATS,
    "--epsilon": FLOATS,
    "--accountant": values("renyi", "exact", "renyi:orders=(2,3)", "renyi:orders=2"),
    "--policy": values("optimal", "AdaScale", "learn:hold=1", "truncated", "best"),
    "--channel": values("rayleigh", "rayleigh:x=1", "rayleigh:placement=area"),
    "--rounds": values("1", "0"),
    "--out": values("out.csv", "nowhere/x.csv"),
    "--state": values("other", "out.csv"),
    "--gains": values("g.csv", "h.csv", "big.csv", "bad.csv"),
    "--past": values("g.csv", "h.csv"),
    "--orders": values("64", "1.05,2000", "3,2", "1e18", "1,inf"),
    "--realisations": values("1", "2", "0", "1000000000"),
    "--dataset": values("preset.toml", "mine:Own", "nowhere.toml", "circle.toml"),
    "--device": values("cpu", "cuda:99", "nothing"),
    "--nothing": values("x"),
}
COMMANDS = {  # what is given always
    "schedule": "--scenario small.toml --gains g.csv --nu 0.01",
    "stream": "--scenario small.toml --state state --policy learn --nu 0.01",
    "leakage": "--scenario small.toml --realisations 1 --policy optimal --nu 0.01",
    "train": "--dataset preset.toml --rounds 1 --nu 0.01",
    "sweep": "--report --store store",
}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(name, marks=pytest.mark.fuzz if name == "train" else ())
        for name in COMMANDS
    ],
)
def test_any_arguments_give_a_result_or_one_line(folder, command):
    @given(st.data())
    def check(data):
        (folder / "state").unlink(missing_ok=True)
        arguments = [command, *COMMANDS[command].split()]
        if command == "sweep":
            arguments.append(data.draw(st.sampled_from(ODD)))
        names = st.lists(st.sampled_from([*OPTIONS]), max_size=4, unique=True)
        for name in data.draw(names):
            arguments.append(f"{name}={data.draw(OPTIONS[name])}")
        assert_a_result_or_one_line(arguments)

    check()


def test_control_sees_a_second_line_and_a_traceback(folder, monkeypatch):
    usual = ["leakage", *COMMANDS["leakage"].split()]
    assert_a_result_or_one_line(usual)

    def fail(options):
        print("and another thing", file=sys.stderr)
        raise ValueError("wrong")

    monkeypatch.setattr(leakage, "run", fail)
    with pytest.raises(AssertionError):
        assert_a_result_or_one_line(usual)
    monkeypatch.setattr(leakage, "run", lambda options: {}["nothing"])
    with pytest.raises(KeyError):
        assert_a_result_or_one_line(usual)


GOOD_PRESET = {"base": '"digits"', "scenario.num_rounds": "2"}


def toml(lines):
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


# of the standard library, of what is no class of its kind, and malformed ones
FOREIGN = "os:system os:abort os:_exit shutil:rmtree subprocess:run wave:open importlib.util:main os.path:os"
WRONG = "Empty Starts Calls instance number text part bound cached abort system os CALLED absent"
MALFORMED = "kinds kinds: :kinds :: ..kinds:Empty kinds.os:system no_such:thing adascale.cli:main adascale.registry:os"
NAMES = st.builds(
    '"{}{}"'.format,
    st.sampled_from([*FOREIGN.split(), *MALFORMED.split()])
    | st.sampled_from(WRONG.split()).map("kinds:{}".format),
    st.sampled_from(["", "", ":x=1", ":command='touch PWNED'", ":path='.'"]),
)
RUN = 'reading = "a"\ndataset = "digits"\npolicy = "Learn"\nnu = 0.04\nseed = 0\nrounds = 1\n'
READERS = {  # the command that reads the file, what is good in it, and where a bad name can stand
    "sweep": (
        ["any.toml", "--report", "--store", "store"],
        dict(line.split(" = ") for line in RUN.splitlines()),
        ["dataset", "policy", "accountant", "channel", "model", "nothing"],
    ),
    "train": (
        ["--dataset", "any.toml", "--nu", "0.04", "--rounds", "1"],
        {"base": '"digits"'},
        ["base", "channel.model", "training.model", "training.dataset"],
    ),
    "leakage": (
        ["--scenario=any.toml", *COMMANDS["leakage"].split()[2:]],
        GOOD_PRESET,
        ["base", "channel.model", "channel.x", "accountant"],
    ),
}


def of_file(command, lines):
    """The outcome of the command for a file of these lines."""
    text = "[[runs]]\n" * (command == "sweep") + toml(lines)
    with open("any.toml", "w") as file:
        file.write(text)
    return outcome([command, *READERS[command][0]])


def assert_refused(command, lines):
    """Exit code 2, one line that names the file, and nothing was called or imported."""
    before = {*sys.modules}
    code, errors = of_file(command, lines)
    modules = re.findall(r'"([\w.]+):', toml(lines))
    imported = {*sys.modules} - before
    assert not {name for name in modules if name != "kinds"} & imported, lines
    assert "kinds" not in sys.modules or sys.modules["kinds"].CALLED == [], lines
    assert not os.path.exists("PWNED")
    assert (code, len(errors)) == (2, 1), (lines, errors)
    assert "any.toml" in errors[0], (lines, errors)


@pytest.mark.parametrize("command", READERS)
def test_names_in_toml_files_call_nothing(folder, command):
    _, good, places = READERS[command]
    bad = st.dictionaries(st.sampled_from(places), NAMES, min_size=1, max_size=3)

    @given(bad)
    def check(changes):
        assert_refused(command, good | changes)

    check()
    assert of_file(command, good)[0] == 0  # the control


@pytest.mark.parametrize(
    ("check", "allowed", "name"),
    [
        ("_fits", True, "kinds:Empty"),
        ("_refuse_standard_library", None, "wave:open"),
        ("_refuse_standard_library", None, "os:system:command='touch PWNED'"),
    ],
)
def test_control_without_a_check_calls_and_imports_are_seen(
    folder, monkeypatch, check, allowed, name
):
    bad = READERS["sweep"][1] | {"accountant": f'"{name}"'}
    monkeypatch.setattr(registry, check, lambda *_: allowed)
    monkeypatch.setattr(registry, "_fits", lambda *_: True)
    with pytest.raises(AssertionError):
        assert_refused("sweep", bad)
    sys.modules.pop("kinds", None)
    (folder / "PWNED").unlink(missing_ok=True)
