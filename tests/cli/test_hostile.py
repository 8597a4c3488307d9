"""Any arguments and any TOML: a result, or one line that says what is wrong, and never a traceback.

Of names in TOML files, nothing of another kind is called, and nothing of the standard library is imported.
"""

import contextlib
import functools
import importlib
import importlib.util
import io
import os
import re
import shutil
import string
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import Scenario, presets, registry
from adascale.cli import leakage

from ..command import run
from .conftest import forgotten

SMALL = Scenario("small", 2, 4, 1000, 20, 400, 1.0, 0.2, 1e-12).to_toml()
GAINS = "h2_1,h2_2\n1e-10,2e-10\n3e-11,4e-11\n"
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
FILES = {
    "kinds.py": WATCHED,
    "small.toml": SMALL,
    "preset.toml": 'base = "digits"\n[scenario]\nnum_rounds = 3\n',
    "circle.toml": 'base = "circle.toml"\n',
    "wrong.toml": SMALL.replace("0.2", '"0.2"'),
    "no.toml": "name = ",
    "g.csv": GAINS,
    "h.csv": "# a comment\nround;min_gain\n1;1e-10\n2;3e-9\n",
    "db.csv": "h2_1\th2_2\n-98\t-100\n",
    "big.csv": "min_gain\n1e308\n1e308\n",
    "bad.csv": "h2_1,h2_2\n1e-10,nan\n",
    "mine.py": "class Own:\n    def start(self, scenario, budget): return 1 / 0\n    step = start\n",
    "runs.toml": '[[runs]]\nreading = "a"\ndataset = "digits"\npolicy = ["adascale", 3]\nnu = 0.1\nseed = 0\n',
    "dates.toml": "[[runs]]\nreading = 2020-01-01\ndataset = []\npolicy = {}\nnu = true\nseed = 'x'\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files, in which the commands run."""
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (folder / name).write_text(content)
    (folder / "folder").mkdir()
    with contextlib.chdir(folder), forgotten(folder):
        yield folder


def outcome(arguments):
    """The exit code of a command, what it printed, and the lines of standard error that are no notes."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GAINS.encode())))
        code = run(*arguments)
    return (
        code,
        out.getvalue(),
        [
            line
            for line in err.getvalue().split("\n")
            if line and not line.startswith("note: ")
        ],
    )


def assert_a_result_or_one_line(arguments):
    """Exit code 0 and no error, or 1 or 2 and one line of it."""
    code, printed, errors = outcome(arguments)
    assert code in (0, 1, 2), arguments
    assert len(errors) == (code != 0), (arguments, errors)
    assert all(line.startswith("adascale") and len(line) < 2000 for line in errors), (
        errors
    )
    assert "NaN" not in printed or "--json" not in arguments


NUMBERS = [
    *str.split("0 1 3 -1 0.01 1e-5 nan inf -inf 1e400 1e-320 1e308 1_0 x"),
    "9" * 30,
    "",
]
LIKELY = ["0.01", "1e-3", "0.5"]
NAMES = str.split(
    "optimal AdaScale equal-alloc estimfuture NoiseFree mine:Own mine:None json:dumps os:x : x: rayleigh digits "
    "rayleigh:placement=area rayleigh:distance_range=(1,1e300) rayleigh:x=1 rayleigh:distance_range=[ renyi "
    "renyi:orders=(2,3) renyi:orders=2 renyi:orders=() renyi:orders=(1e18,) renyi:orders=('a',) learn:hold=1 "
    "learn:budget_mode=hard truncated truncated:epsilon=2 truncated:threshold=0 best best:number=1 best:number=x "
    "adascale.channel:ChannelModel adascale.policies:Policy"
)
NAMES.append("")
PATHS = [
    *FILES,
    "folder",
    "nowhere/x.csv",
    "new.csv",
    "",
    ".",
    "/dev/null",
    "x" * 300,
    "a\0b",
    "digits",
]


def values(*likely):
    """What may stand behind an option: mostly what could be meant."""
    usual, any_value = (
        st.sampled_from(likely),
        st.sampled_from([*NUMBERS, *NAMES, *PATHS]),
    )
    return st.one_of(usual, usual, any_value, st.text(max_size=8))


OPTIONS = {
    "--scenario": values(
        "small.toml",
        "small.toml",
        "preset.toml",
        "circle.toml",
        "wrong.toml",
        "no.toml",
    ),
    **dict.fromkeys(
        ("--nu", "--delta", "--total", "--epsilon"), values(*LIKELY, *NUMBERS)
    ),
    **dict.fromkeys(
        ("--accountant", "--policy", "--channel", "--reference"), values(*NAMES)
    ),
    **dict.fromkeys(
        ("--every", "--jobs", "--threads", "--seed", "--rounds"),
        values("1", "0", "-1", "9" * 30),
    ),
    **dict.fromkeys(
        ("--out", "--history", "--state"), values("out.csv", "other", *PATHS)
    ),
    **dict.fromkeys(("--gains", "--past"), values("g.csv", "h.csv", "db.csv", *PATHS)),
    **dict.fromkeys(("--json", "--hindsight"), st.just(None)),
    "--orders": values("64", "1.05,2000", "2,3", "3,2", "1e18", "1", "nan", "1,inf"),
    "--unit": values("db", "linear"),
    "--realisations": values("1", "2", "0", "-1", "1000000000"),
    "--dataset": values("preset.toml", "mine:Own", "nowhere.toml", "circle.toml"),
    "--device": values("cpu", "cuda:99", "nothing"),
    "--plot": values("f.pdf", "f.SVG", "f.gif", "out.csv", *PATHS),
    "--format": values("csv", "markdown", "latex", "html"),
    "--nothing": values("x"),
}
COMMANDS = {  # what is given always
    "schedule": "--scenario small.toml --gains g.csv",
    "stream": "--scenario small.toml --state state --policy adascale.policies:Learn",
    "leakage": "--scenario small.toml --realisations 1 --policy optimal",
    "train": "--dataset preset.toml --rounds 1",
    "sweep": "runs.toml --report --store store",
}


@functools.cache
def known(command):
    """Options that the command has, and one that none has."""
    _, shown, _ = outcome([command, "--help"])
    return [
        name for name in OPTIONS if name in [*re.findall(r"--\w+", shown), "--nothing"]
    ]


@st.composite
def command_lines(draw, command):
    arguments = [command, *COMMANDS[command].split()]
    arguments += [] if command == "sweep" else ["--nu", draw(st.sampled_from(LIKELY))]
    if command == "sweep":
        arguments[1] = draw(st.sampled_from(PATHS))
    for name in draw(
        st.lists(st.sampled_from(known(command)), max_size=4, unique=True)
    ):
        value = draw(OPTIONS[name])
        arguments += [name] if value is None else [f"{name}={value}"]
    return (
        draw(st.permutations(arguments)) if draw(st.integers(0, 9)) == 0 else arguments
    )


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(name, marks=pytest.mark.fuzz if name == "train" else ())
        for name in COMMANDS
    ],
)
def test_any_arguments_give_a_result_or_one_line(folder, command):
    @given(command_lines(command))
    def check(arguments):
        (folder / "state").unlink(missing_ok=True)
        assert_a_result_or_one_line(arguments)

    check()


def test_control_sees_a_second_line_and_a_traceback(folder, monkeypatch):
    usual = ["leakage", *COMMANDS["leakage"].split(), "--nu", "0.01"]
    assert_a_result_or_one_line(usual)

    def fail(options):
        print("and another thing", file=sys.stderr)
        raise ValueError("wrong")

    monkeypatch.setattr(leakage, "run", fail)
    with pytest.raises(AssertionError):
        assert_a_result_or_one_line(usual)
    monkeypatch.setattr(
        leakage, "run", eval("lambda options: {}['nothing']")
    )  # no code of the user's
    with pytest.raises(KeyError):
        assert_a_result_or_one_line(usual)


PLAIN = [
    *(
        "true",
        "1",
        "-1",
        "0",
        "0.5",
        "nan",
        "inf",
        "1e400",
        "1e308",
        "5e-324",
        "9" * 25,
        "'x'",
        "''",
        "'mnist'",
    ),
    *(
        "2020-01-01",
        "12:00:00",
        "'rayleigh'",
        "'renyi:x=1'",
        '"\\u0000"',
        "500000",
        "1e18",
    ),
]
SIMPLE = st.one_of(st.sampled_from(PLAIN), st.text(max_size=6))
LISTS = st.lists(SIMPLE, max_size=3).map(lambda each: f"[{', '.join(each)}]")
VALUES = st.one_of(
    SIMPLE,
    LISTS,
    st.one_of(SIMPLE, LISTS).map("{{ x = {} }}".format),
    LISTS.map("[{}]".format),
)
KEYS = str.split(
    "channel.model channel.distance_range channel.placement training.momentum scenario.order nothing base"
)
KEYS += [
    "channel",
    "levels",
    "training",
    "scenario",
    *(line.split(" = ")[0] for line in SMALL.splitlines()),
]


@st.composite
def tomls(draw):
    """A scenario or a preset with something else in some of its keys."""
    lines = dict(line.split(" = ", 1) for line in SMALL.splitlines())
    if draw(st.booleans()):
        lines = {
            "base": '"digits"',
            "scenario.num_rounds": "3",
            "scenario.num_devices": "2",
        }
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=3)):
        lines[key] = draw(VALUES)
    return "".join(f"{key} = {value}\n" for key, value in lines.items()).encode()


@given(
    st.one_of(
        tomls(),
        st.binary(max_size=60),
        st.text(alphabet=string.printable, max_size=60).map(str.encode),
    )
)
def test_any_toml_is_read_or_refused_with_its_name(folder, content):
    path = folder / "any.toml"
    path.write_bytes(content)
    for read in (Scenario.from_toml, presets.load):
        try:
            read(str(path))
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
            assert len(" ".join(str(error).split()).replace(str(path), "")) < 1000  # noqa: PT017


# Names in TOML files ------------------------------------------------------------------------------------------------

MODULES = sorted(
    {
        *sys.stdlib_module_names,
        "os.path",
        "xml.dom",
        "importlib.util",
        "wsgiref.util",
        "email.mime",
    }
)
ATTRIBUTES = str.split(
    "system abort _exit run rmtree exec exit dict main epsilon __import__"
)
STANDARD = st.one_of(
    st.sampled_from(
        [
            "os:system",
            "os:abort",
            "os:_exit",
            "shutil:rmtree",
            "subprocess:run",
            "builtins:exec",
        ]
    ),
    st.builds("{}:{}".format, st.sampled_from(MODULES), st.sampled_from(ATTRIBUTES)),
)
WRONG = [
    *(
        "Empty",
        "Starts",
        "Said",
        "Calls",
        "instance",
        "number",
        "table",
        "text",
        "nothing",
        "part",
        "bound",
        "kept",
    ),
    *(
        "abort",
        "system",
        "rmtree",
        "os",
        "shutil",
        "CALLED",
        "__builtins__",
        "__dict__",
        "__class__",
        "absent",
        "a.b",
    ),
]
ODD = [
    *str.split(
        "kinds kinds: :kinds :: ..kinds:Empty kinds.os:system no_such:thing __main__:x adascale.cli:main"
    ),
    *["adascale:__getattr__", "adascale.cli.sys:exit", "adascale.registry:os"],
    "",
]
WITH = ["", "", ":x=1", ":command='touch PWNED'", ":status=0", ":path='.'"]
KINDS = st.builds(
    "{}{}".format,
    st.one_of(
        STANDARD, st.sampled_from(WRONG).map("kinds:{}".format), st.sampled_from(ODD)
    ),
    st.sampled_from(WITH),
)
TEXT = KINDS.map(lambda name: f'"{name}"')
TABLES = TEXT.map(lambda name: f"{{ model = {name} }}")
CHOSEN = st.one_of(
    TEXT, TEXT, TEXT, st.sampled_from(["-3", "true", "{}", "2020-01-01"]), TABLES
)
READERS = {  # the command that reads the file, what is good in it, and where a bad value can stand
    "sweep": (
        ["any.toml", "--report", "--store", "store"],
        {
            "reading": '"a"',
            "dataset": '"digits"',
            "policy": '"Learn"',
            "nu": "0.04",
            "seed": "0",
            "rounds": "1",
        },
        ["dataset", "policy", "accountant", "channel", "model", "nu", "nothing"],
    ),
    "train": (
        ["--dataset", "any.toml", "--nu", "0.04", "--rounds", "1"],
        {"base": '"digits"'},
        [
            "base",
            "channel.model",
            "training.model",
            "training.dataset",
            "training.nothing",
            "scenario.order",
            "x",
        ],
    ),
    "leakage": (
        [
            "--scenario",
            "any.toml",
            "--nu",
            "0.04",
            "--realisations",
            "1",
            "--policy",
            "optimal",
        ],
        {"base": '"digits"', "scenario.num_rounds": "2"},
        [
            "base",
            "channel.model",
            "channel.x",
            "scenario.order",
            "scenario.policy",
            "accountant",
            "levels",
        ],
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
    lines = good | {
        place: draw(CHOSEN)
        for place in draw(st.sets(st.sampled_from(places), min_size=1, max_size=3))
    }
    return command, lines


@pytest.fixture
def watched(folder, monkeypatch):
    """What the registry imports or looks up of the standard library, and which dangerous function is called."""
    seen = []

    def watching(function, of):
        def watch(first, *others):
            caller = sys._getframe(1).f_globals["__name__"]
            name = first if isinstance(first, str) else getattr(first, "__name__", "")
            if (
                caller == "adascale.registry"
                and name.partition(".")[0] in sys.stdlib_module_names
            ):
                seen.append(f"{of} {name}")
            return function(first, *others)

        return watch

    monkeypatch.setattr(
        importlib, "import_module", watching(importlib.import_module, "import")
    )
    monkeypatch.setattr(
        importlib.util, "find_spec", watching(importlib.util.find_spec, "find")
    )
    monkeypatch.setattr(
        registry, "getattr", watching(getattr, "look up"), raising=False
    )
    for module, name in (
        (os, "system"),
        (os, "abort"),
        (os, "_exit"),
        (shutil, "rmtree"),
        (subprocess, "run"),
    ):
        monkeypatch.setattr(
            module, name, lambda *_, of=name, **__: seen.append(f"call {of}")
        )
    return seen


def write(command, lines):
    text = "[[runs]]\n" * (command == "sweep") + "".join(
        f"{key} = {value}\n" for key, value in lines.items()
    )
    for name, content in {
        "any.toml": text,
        "kinds.py": WATCHED,
        "g.csv": GAINS,
    }.items():  # outputs may be in their place
        with open(name, "w") as file:
            file.write(content)


def assert_refused(seen, command, lines):
    """Exit code 2, one line that names the file, and nothing was seen, called or imported."""
    arguments, *_ = READERS[command]
    write(command, lines)
    before = {*sys.modules}
    del seen[:]
    code, _, errors = outcome([command, *arguments])
    assert seen == [], lines
    named = {
        each
        for each in MODULES
        if any(f'"{each}:' in value for value in lines.values())
    }
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


def test_good_toml_files_are_read(folder):
    """Control: what is refused above is refused for what was changed."""
    for command, (arguments, good, _) in READERS.items():
        write(command, good)
        assert outcome([command, *arguments])[0] == 0


HOLES = [
    ("_fits", True, "kinds:Empty"),
    ("_fits", True, "kinds:instance"),
    ("_refuse_foreign", None, "wave:open"),
]
HOLES += [("_refuse_foreign", None, "os:system:command='touch PWNED'")]


@pytest.mark.parametrize(("hole", "allowed", "named"), HOLES)
def test_planted_holes_are_seen(watched, monkeypatch, hole, allowed, named):
    """Control: without one of the two checks, the calls and imports are noticed."""
    bad = READERS["sweep"][1] | {"accountant": f'"{named}"'}
    assert_refused(watched, "sweep", bad)
    monkeypatch.setattr(registry, hole, lambda *_: allowed)
    with pytest.raises(AssertionError):
        assert_refused(watched, "sweep", bad)
    sys.modules.pop("kinds", None)
