"""Any arguments and any TOML: a result, or one line that says what is wrong, and never a traceback."""

import string
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import Scenario, presets
from adascale.cli import leakage

from .hostile import GAINS, SMALL, outcome

FILES = {
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


def assert_a_result_or_one_line(arguments):
    """Exit code 0 and no error, or 1 or 2 and one line of it."""
    code, printed, errors = outcome(arguments)
    assert code in (0, 1, 2), arguments
    assert len(errors) == (code != 0), (arguments, errors)
    assert all(line.startswith("adascale") and len(line) < 2000 for line in errors), errors
    assert "NaN" not in printed or "--json" not in arguments


NUMBERS = [*str.split("0 1 3 -1 0.01 1e-5 nan inf -inf 1e400 1e-320 1e308 1_0 x"), "9" * 30, ""]
LIKELY = ["0.01", "1e-3", "0.5"]
NAMES = str.split(
    "optimal AdaScale equal-alloc estimfuture NoiseFree mine:Own mine:None json:dumps os:x : x: rayleigh digits "
    "rayleigh:placement=area rayleigh:distance_range=(1,1e300) rayleigh:x=1 rayleigh:distance_range=[ renyi "
    "renyi:orders=(2,3) renyi:orders=2 renyi:orders=() renyi:orders=(1e18,) renyi:orders=('a',) learn:promise=1 "
    "learn:budget_mode=hard truncated truncated:epsilon=2 truncated:threshold=0 best best:number=1 best:number=x "
    "adascale.channel:ChannelModel adascale.policies:Policy"
)
NAMES.append("")
PATHS = [*FILES, "folder", "nowhere/x.csv", "new.csv", "", ".", "/dev/null", "x" * 300, "a\0b", "digits"]


def values(*likely):
    """What may stand behind an option: mostly what could be meant."""
    usual, any_value = st.sampled_from(likely), st.sampled_from([*NUMBERS, *NAMES, *PATHS])
    return st.one_of(usual, usual, any_value, st.text(max_size=8))


OPTIONS = {
    "--scenario": values("small.toml", "small.toml", "preset.toml", "circle.toml", "wrong.toml", "no.toml"),
    **dict.fromkeys(("--nu", "--delta", "--total", "--epsilon"), values(*LIKELY, *NUMBERS)),
    **dict.fromkeys(("--accountant", "--policy", "--channel", "--reference"), values(*NAMES)),
    "--orders": values("64", "1.05,2000", "2,3", "3,2", "1e18", "1", "nan", "1,inf"),
    "--out": values("out.csv", *PATHS),
    "--gains": values("g.csv", "h.csv", "db.csv", *PATHS),
    "--unit": values("db", "linear"),
    "--realisations": values("1", "2", "0", "-1", "1000000000"),
    "--seed": values("0", "7", "-1", "9" * 30),
    "--dataset": values("preset.toml", "mine:Own", "nowhere.toml", "circle.toml"),
    "--rounds": values("1", "2", "0", "-1", "1e3", "9" * 30),
    **dict.fromkeys(("--every", "--jobs", "--threads"), values("1", "0", "-1", "9" * 30)),
    "--history": values("history.csv", "out.csv", *PATHS),
    "--device": values("cpu", "cuda:99", "nothing"),
    **dict.fromkeys(("--json", "--hindsight"), st.just(None)),
    "--plot": values("f.pdf", "f.SVG", "f.gif", "out.csv", *PATHS),
    "--format": values("csv", "markdown", "latex", "html"),
    "--past": values("g.csv", "h.csv", *PATHS),
    "--promise": values("hard", "average"),
    "--state": values("state", "other", *PATHS),
    "--nothing": values("x"),
}
SHARED = "--nu --delta --accountant --orders --policy --out --json --nothing "
DECIDES = "--nu --delta --orders --policy --nothing --scenario --unit --past --promise "
COMMANDS = {  # what is given always, and what may be
    "schedule": ("--scenario small.toml --gains g.csv", DECIDES + "--accountant --out --json --gains --hindsight"),
    "stream": ("--scenario small.toml --state state --policy adascale.policies:Learn", DECIDES + "--state"),
    "leakage": (
        "--scenario small.toml --realisations 1 --policy optimal",
        SHARED + "--scenario --channel --realisations --seed --plot --format --total --epsilon --reference",
    ),
    "train": (
        "--dataset preset.toml --rounds 1",
        SHARED + "--dataset --channel --seed --rounds --every --history --device",
    ),
    "sweep": ("runs.toml --report --store store", "--out --jobs --threads --nothing"),
}


@st.composite
def command_lines(draw, command):
    usual, known = (each.split() for each in COMMANDS[command])
    arguments = [command, *usual, *(() if command == "sweep" else ("--nu", draw(st.sampled_from(LIKELY))))]
    if command == "sweep":
        arguments[1] = draw(st.sampled_from(PATHS))
    for name in draw(st.lists(st.sampled_from(known), max_size=4, unique=True)):
        value = draw(OPTIONS[name])
        arguments += [name] if value is None else [f"{name}={value}"]
    return draw(st.permutations(arguments)) if draw(st.integers(0, 9)) == 0 else arguments


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=pytest.mark.fuzz if name == "train" else ()) for name in COMMANDS]
)
def test_any_arguments_give_a_result_or_one_line(folder, command):
    @given(command_lines(command))
    def check(arguments):
        (folder / "state").unlink(missing_ok=True)
        assert_a_result_or_one_line(arguments)

    check()


def test_control_sees_a_second_line_and_a_traceback(folder, monkeypatch):
    usual = ["leakage", *COMMANDS["leakage"][0].split(), "--nu", "0.01"]
    assert_a_result_or_one_line(usual)

    def fail(options):
        print("and another thing", file=sys.stderr)
        raise ValueError("wrong")

    monkeypatch.setattr(leakage, "run", fail)
    with pytest.raises(AssertionError):
        assert_a_result_or_one_line(usual)
    monkeypatch.setattr(leakage, "run", eval("lambda options: {}['nothing']"))  # no code of the user's
    with pytest.raises(KeyError):
        assert_a_result_or_one_line(usual)


PLAIN = [
    *("true", "1", "-1", "0", "0.5", "nan", "inf", "1e400", "1e308", "5e-324", "9" * 25, "'x'", "''", "'mnist'"),
    *("2020-01-01", "12:00:00", "'rayleigh'", "'renyi:x=1'", '"\\u0000"', "500000", "1e18"),
]
VALUES = st.recursive(
    st.one_of(st.sampled_from(PLAIN), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
        inner.map(lambda each: f"{{ x = {each} }}"),
    ),
    max_leaves=4,
)
KEYS = [
    *("name", "num_devices", "num_rounds", "num_parameters", "batch_size", "dataset_size", "clip_norm", "max_power"),
    *("noise_power", "order", "channel", "channel.model", "channel.distance_range", "channel.placement", "levels"),
    *("base", "training", "training.momentum", "scenario", "scenario.order", "scenario.num_rounds", "nothing"),
]


@st.composite
def tomls(draw):
    """A scenario or a preset with something else in some of its keys."""
    lines = dict(line.split(" = ", 1) for line in SMALL.splitlines())
    if draw(st.booleans()):
        lines = {"base": '"digits"', "scenario.num_rounds": "3", "scenario.num_devices": "2"}
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=3)):
        lines[key] = draw(VALUES)
    return "".join(f"{key} = {value}\n" for key, value in lines.items()).encode()


def assert_refused_with_its_name_or_read(path, read):
    try:
        read(str(path))
    except ValueError as error:
        message = str(error)
    else:
        return
    assert str(path) in message
    assert len(" ".join(message.split()).replace(str(path), "")) < 1000


@given(st.one_of(tomls(), st.binary(max_size=60), st.text(alphabet=string.printable, max_size=60).map(str.encode)))
def test_any_toml_is_read_or_refused_with_its_name(folder, content):
    path = folder / "any.toml"
    path.write_bytes(content)
    assert_refused_with_its_name_or_read(path, Scenario.from_toml)
    assert_refused_with_its_name_or_read(path, presets.load)
