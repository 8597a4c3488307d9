"""The command line: what a stranger types, and what happens when it is wrong."""

import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel, policies
from adascale.channel import read_gains
from adascale.paper import METHODS

from ..command import run


@pytest.fixture
def scenario(tmp_path):
    """A small scenario in a TOML file: two devices, twelve rounds."""
    small = Scenario("small", 2, 12, 1000, 20, 400, 1.0, 0.2, 1e-12)
    path = tmp_path / "my.toml"
    path.write_text(small.to_toml())
    return small, path


@pytest.fixture
def gains(tmp_path, scenario):
    """A trace of raw gains of that scenario, as a server would measure it."""
    drawn = channel.draw(2, 12, 0).gain
    path = tmp_path / "gains.csv"
    pd.DataFrame({"h2_1": drawn[0], "h2_2": drawn[1]}).to_csv(path, index=False)
    return drawn, path


def test_leakage_writes_one_row_a_policy_budget_and_seed(tmp_path, capsys, scenario):
    out = tmp_path / "leakage.csv"
    assert run("leakage", "--scenario", scenario[1], "--nu", 1e-3, "--nu", 4e-3, "--realisations", 2, "--out", out) == 0
    table = pd.read_csv(out)
    assert len(table) == len(METHODS) * 2 * 2
    assert set(table.columns) >= {"dataset", "policy", "nu", "seed", "rdp", "epsilon", "floor_max", "floor_max_round"}
    printed = capsys.readouterr().out
    assert all(name in printed for name in METHODS)


def test_json_is_the_same_table(tmp_path, capsys, scenario):
    out = tmp_path / "leakage.csv"
    arguments = ["leakage", "--scenario", scenario[1], "--nu", 1e-3, "--policy", "optimal", "--out", out, "--json"]
    assert run(*arguments) == 0
    printed = pd.read_json(io.StringIO(capsys.readouterr().out))
    pd.testing.assert_frame_equal(printed[["seed", "rdp"]], pd.read_csv(out)[["seed", "rdp"]], rtol=1e-9)


def test_the_seed_shifts_the_realisations(tmp_path, scenario):
    tables = []
    for seed in (0, 1):
        out = tmp_path / f"{seed}.csv"
        common = ["--scenario", scenario[1], "--nu", 1e-3, "--policy", "equalalloc", "--out", out]
        assert run("leakage", *common, "--realisations", 2, "--seed", seed) == 0
        tables.append(pd.read_csv(out).set_index("seed").rdp)
    assert tables[0].loc[1] == tables[1].loc[1]
    assert tables[0].loc[0] not in set(tables[1])


def test_schedule_of_raw_gains_takes_the_bottleneck_itself(tmp_path, scenario, gains):
    small, toml = scenario
    drawn, trace = gains
    out = tmp_path / "eta.csv"
    assert run("schedule", "--scenario", toml, "--gains", trace, "--policy", "optimal", "--nu", 0.01, "--out", out) == 0
    problem = ReceiveScalingProblem(small, small.min_gain(drawn), 0.01)
    # 1e-12: the gains passed through the decimal digits of two CSV files
    np.testing.assert_allclose(pd.read_csv(out)["eta"], policies.Optimal().schedule(problem), rtol=1e-12)


def test_schedule_of_minimum_gains_is_the_same_schedule(tmp_path, scenario, gains):
    small, drawn, trace = scenario[0], *gains
    minimum = tmp_path / "minimum.csv"
    pd.DataFrame({"min_gain": small.min_gain(drawn)}).to_csv(minimum, index=False)
    alone, of_devices = read_gains(minimum, small), read_gains(trace, small)
    np.testing.assert_allclose(alone.min_gain, of_devices.min_gain, rtol=1e-15)
    assert alone.mean_gain is None
    np.testing.assert_allclose(of_devices.mean_gain, drawn.mean(axis=1) / small.batch_second_moment, rtol=1e-15)


@pytest.mark.parametrize("policy", [name for name in METHODS if name != "AdaScale"])
def test_every_method_makes_a_schedule_of_a_trace(tmp_path, capsys, scenario, gains, policy):
    out = tmp_path / "eta.csv"
    common = ["--scenario", scenario[1], "--gains", gains[1], "--policy", policy.lower()]
    assert run("schedule", *common, "--nu", 0.01, "--hindsight", "--out", out, "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["cost"] == pytest.approx(0.01, rel=1e-9)
    assert ("whole trace" in said.err) == (policy != "EqualAlloc")


def test_a_method_that_plans_with_mean_gains_says_that_it_needs_them(tmp_path, capsys, scenario, gains):
    trace = tmp_path / "minimum.csv"
    pd.DataFrame({"min_gain": scenario[0].min_gain(gains[0])}).to_csv(trace, index=False)
    common = ["--scenario", scenario[1], "--gains", trace, "--policy", "estimfuture", "--nu", 0.01]
    for known in (["--hindsight"], ["--past", trace]):
        assert run("schedule", *common, *known) == 2
        assert "EstimFuture needs mean_gain" in capsys.readouterr().err


# A policy of one's own -----------------------------------------------------------------------------------------------

OWN = """
class Constant:
    tuned = ("extra",)

    def __init__(self, extra):
        self.extra = extra

    def start(self, scenario, budget):
        return scenario

    def step(self, scenario, min_gain_t):
        floor = scenario.noise_scale / (scenario.x_max * min_gain_t)
        return scenario, scenario.noise_scale / (floor + self.extra)


class Thrifty(Constant):
    tuned = ()

    def __init__(self):
        super().__init__(1e-4)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_module.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("import math\nmath.missing\n")
    yield
    for name in ("my_module", "same_name"):
        sys.modules.pop(name, None)


def test_a_policy_of_ones_own_joins_by_module_and_class(tmp_path, capsys, scenario, own):
    common = ["--scenario", scenario[1], "--nu", 1e-3, "--realisations", 2, "--out", tmp_path / "x.csv"]
    assert run("leakage", *common, "--policy", "my_module:Constant", "--policy", "equal-alloc") == 0
    table = pd.read_csv(tmp_path / "x.csv").pivot(index="seed", columns="policy", values="rdp")
    # tuned, a constant extra energy is what EqualAlloc spends
    np.testing.assert_allclose(table["Constant"], table["EqualAlloc"], rtol=1e-7)  # cost matched to 1e-9
    assert "note" not in capsys.readouterr().err


def test_a_policy_called_like_one_of_the_book_s_is_not_taken_for_it(tmp_path, capsys, scenario, gains, own):
    (tmp_path / "same_name.py").write_text(OWN.replace("Constant", "AdaScale"))
    common = ["--scenario", scenario[1], "--gains", gains[1], "--nu", 0.01, "--policy", "same_name:AdaScale"]
    assert run("schedule", *common, "--hindsight", "--json") == 0
    assert "penalty" not in json.loads(capsys.readouterr().out)
    assert run("schedule", *common, "--penalty", 1) == 2
    twice = ["--policy", "same_name:AdaScale", "--policy", "adascale"]
    assert run("leakage", "--scenario", scenario[1], "--nu", 1e-3, *twice) == 2
    assert "AdaScale twice" in capsys.readouterr().err


def test_a_policy_that_costs_something_else_is_named(tmp_path, capsys, scenario, own):
    assert run("leakage", "--scenario", scenario[1], "--nu", 1e-3, "--policy", "my_module:Thrifty") == 0
    assert "Thrifty spends 0.1 times nu" in capsys.readouterr().err


def test_the_installed_command_finds_a_module_in_the_working_directory(tmp_path, scenario, own):
    command = [sys.executable, "-P", "-m", "adascale", "leakage", "--scenario", str(scenario[1]), "--nu", "1e-3"]
    result = subprocess.run([*command, "--policy", "my_module:Constant"], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Constant" in result.stdout


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ("my_module:Missing", "no 'Missing'"),
        ("no_such_module:X", "no_such_module"),
        ("json:dumps", "class with start and step"),
        ("nothing", "'nothing' is unknown"),
        ("broken:X", "cannot import 'broken': module 'math' has no attribute 'missing'"),
    ],
)
def test_a_policy_that_is_none_is_named(capsys, own, policy, named):
    assert run("leakage", "--nu", 0.01, "--policy", policy) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1


def test_in_hindsight_schedule_spends_the_budget_and_says_that_it_saw_the_future(capsys, scenario, gains):
    assert run("schedule", "--scenario", scenario[1], "--gains", gains[1], "--nu", 0.01, "--hindsight", "--json") == 0
    said = capsys.readouterr()
    totals = json.loads(said.out)
    assert totals["cost"] == pytest.approx(0.01, rel=1e-9)
    assert len(totals["schedule"]) == 12
    assert "whole trace" in said.err


def test_schedule_with_a_penalty_looks_at_no_later_round(tmp_path, scenario, gains):
    drawn = gains[0]
    changed = drawn.copy()
    changed[:, 6:] *= 3
    schedules = []
    for name, values in (("a", drawn), ("b", changed)):
        pd.DataFrame({"h2_1": values[0], "h2_2": values[1]}).to_csv(tmp_path / f"{name}.csv", index=False)
        out = tmp_path / f"{name}-eta.csv"
        common = ["--scenario", scenario[1], "--gains", tmp_path / f"{name}.csv", "--nu", 0.01, "--out", out]
        assert run("schedule", *common, "--penalty", 0.5) == 0
        schedules.append(pd.read_csv(out)["eta"].to_numpy())
    assert (schedules[0][:6] == schedules[1][:6]).all()
    assert (schedules[0][6:] != schedules[1][6:]).any()  # the control: the change is seen once it has come


BAD_TRACES = {  # one of the file and one of a row; tests/channel/test_traces.py has them all
    "unknown header": ("gain\n1\n", "'gain'"),
    "zero": ("min_gain\n0\n", "line 2: expected a gain that is finite and > 0, got '0'"),
}


@pytest.mark.parametrize("kind", BAD_TRACES)
def test_a_bad_trace_is_one_clear_line_and_writes_nothing(tmp_path, capsys, scenario, kind):
    text, expected = BAD_TRACES[kind]
    trace, out = tmp_path / "bad.csv", tmp_path / "out" / "eta.csv"
    out.parent.mkdir()
    trace.write_text(text)
    assert run("schedule", "--scenario", scenario[1], "--gains", trace, "--nu", 0.01, "--out", out) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert expected in said.err
    assert list(out.parent.iterdir()) == []


BAD_ARGUMENTS = {
    "nu is zero": (["--nu", 0], "nu must be finite and > 0, got 0.0"),
    "nu is negative": (["--nu", -0.1], "got -0.1"),
    "nu is not a number": (["--nu", "nan"], "got nan"),
    "nu is a word": (["--nu", "small"], "'small'"),
    "nu is missing": ([], "--nu"),
    "no realisations": (["--nu", 0.1, "--realisations", 0], "got 0"),
    "a negative seed": (["--nu", 0.1, "--seed", -1], "seed"),
    "an unknown policy": (["--nu", 0.1, "--policy", "best"], "'best'"),
    "an unknown scenario": (["--nu", 0.1, "--scenario", "imagenet"], "'imagenet'"),
    "delta is one": (["--nu", 0.1, "--delta", 1], "got 1.0"),
    "an unknown option": (["--nu", 0.1, "--mu", 3], "--mu"),
}


@pytest.mark.parametrize("kind", BAD_ARGUMENTS)
def test_a_bad_argument_is_one_clear_line_and_writes_nothing(tmp_path, capsys, kind):
    arguments, expected = BAD_ARGUMENTS[kind]
    assert run("leakage", *arguments, "--out", tmp_path / "leakage.csv") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert expected in said.err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_key_in_the_scenario_is_named(tmp_path, capsys, scenario):
    path = tmp_path / "typo.toml"
    path.write_text(scenario[1].read_text() + "clip = 3\n")
    assert run("leakage", "--nu", 0.1, "--scenario", path) == 2
    assert "unknown key 'clip'" in capsys.readouterr().err


def test_an_output_folder_that_is_not_there_is_said_before_the_work(tmp_path, capsys):
    assert run("leakage", "--nu", 0.1, "--out", tmp_path / "nowhere" / "leakage.csv") == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_failing_write_leaves_the_old_file_alone(tmp_path, scenario, monkeypatch):
    out = tmp_path / "leakage.csv"
    out.write_text("precious\n")

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    assert run("leakage", "--scenario", scenario[1], "--nu", 1e-3, "--policy", "equalalloc", "--out", out) == 2
    assert out.read_text() == "precious\n"
    assert {path.name for path in tmp_path.iterdir()} == {"leakage.csv", "my.toml"}


# Exact, and said -----------------------------------------------------------------------------------------------------


def strict(text):
    """JSON as RFC 8259 has it: no NaN, no Infinity."""

    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def column(path, name):
    """A column of a CSV to the last digit."""
    return pd.read_csv(path, dtype=str)[name].map(float).tolist()


def test_json_has_every_digit(tmp_path, capsys, scenario, gains):
    out = tmp_path / "out.csv"
    common = ["--scenario", scenario[1], "--nu", 1e-3, "--delta", 1e-12, "--policy", "optimal", "--out", out, "--json"]
    assert run("leakage", *common) == 0
    rows = strict(capsys.readouterr().out)
    assert rows[0]["delta"] == 1e-12
    for name in ("epsilon", "cost", "floor_max"):
        assert [row[name] for row in rows] == column(out, name)
    assert run("schedule", *common, "--gains", gains[1]) == 0
    totals = strict(capsys.readouterr().out)
    assert totals["delta"] == 1e-12
    assert [each["eta"] for each in totals["schedule"]] == column(out, "eta")


def test_json_has_no_nan_where_a_budget_is_out_of_reach(capsys, scenario):
    arguments = ["leakage", "--scenario", scenario[1], "--nu", 1e9, "--policy", "lyapunovpowercontrol", "--json"]
    assert run(*arguments) == 0
    said = capsys.readouterr()
    assert [row["cost"] for row in strict(said.out)] == [None] * 3
    assert "cannot spend nu in 3 of 3 runs" in said.err


def test_an_epsilon_of_zero_does_not_hide_the_others(capsys, scenario):
    arguments = ["--scenario", scenario[1], "--nu", 1e-3, "--nu", 1e9, "--delta", 0.9, "--policy", "optimal"]
    assert run("leakage", *arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[2].split()[-1] == "0"


def test_an_interval_needs_three_realisations(capsys, scenario):
    for number, shown in ((1, False), (2, False), (3, True)):
        arguments = ["--scenario", scenario[1], "--nu", 1e-3, "--policy", "optimal", "--realisations", number]
        assert run("leakage", *arguments) == 0
        assert ("95 %" in capsys.readouterr().out) is shown


def test_a_schedule_that_costs_something_else_says_how_much(capsys, scenario, gains, own):
    common = ["schedule", "--scenario", scenario[1], "--gains", gains[1]]
    for nu, shown in ((5e-5, "2 times nu"), (1e-3, "0.1 times nu")):
        assert run(*common, "--nu", nu, "--policy", "my_module:Thrifty") == 0
        assert f"note: Thrifty spends {shown}" in capsys.readouterr().err
    assert run(*common, "--nu", 1e-3, "--penalty", 100, "--json") == 0
    said = capsys.readouterr()
    assert f"note: AdaScale spends {json.loads(said.out)['cost'] / 1e-3:.3g} times nu" in said.err
    assert run(*common, "--nu", 1e-3, "--policy", "equalalloc") == 0
    assert "spends" not in capsys.readouterr().err


def test_a_policy_that_spends_nothing_is_said_so(tmp_path, capsys, scenario, gains, own):
    (tmp_path / "my_module.py").write_text(
        OWN.replace("scenario.noise_scale / (floor + self.extra)", "scenario.x_max * min_gain_t")
    )
    common = ["--scenario", scenario[1], "--nu", 1e-3, "--policy", "my_module:Thrifty"]
    assert run("leakage", *common) == 0
    assert "note: Thrifty spends nothing;" in capsys.readouterr().err
    assert run("schedule", *common, "--gains", gains[1]) == 0
    assert "note: Thrifty spends nothing;" in capsys.readouterr().err


def test_gains_above_one_are_noted_and_decibels_are_read(tmp_path, capsys, scenario, gains):
    drawn, linear = gains
    decibels, loss = tmp_path / "db.csv", tmp_path / "loss.csv"
    pd.DataFrame({"h2_1": 10 * np.log10(drawn[0]), "h2_2": 10 * np.log10(drawn[1])}).to_csv(decibels)
    pd.DataFrame({"h2_1": -10 * np.log10(drawn[0]), "h2_2": -10 * np.log10(drawn[1])}).to_csv(loss)
    common = ["schedule", "--scenario", scenario[1], "--nu", 0.01, "--policy", "optimal", "--json"]
    epsilon = []
    for trace in (["--gains", linear], ["--gains", decibels, "--unit", "db"]):
        assert run(*common, *trace) == 0
        said = capsys.readouterr()
        assert "more power received than sent" not in said.err
        epsilon.append(json.loads(said.out)["epsilon"])
    assert epsilon[0] == pytest.approx(epsilon[1], rel=1e-9)  # the digits of a hundred decibels
    for trace in (["--gains", loss], ["--gains", loss, "--unit", "db"]):
        assert run(*common, *trace) == 0
        said = capsys.readouterr().err
        assert f"note: {loss}, line 2: " in said
        assert "in h2_1: more power received than sent; gains in dB need --unit db" in said
    assert run(*common, "--gains", decibels) == 2
    assert "a gain in dB needs the unit db" in capsys.readouterr().err


MANY = Scenario("many", 100, 12, 1000, 20, 400, 1.0, 0.2, 1e-12)


def test_orders_at_their_end_are_noted_and_extended(tmp_path, capsys):
    path = tmp_path / "many.toml"
    path.write_text(MANY.to_toml())
    common = ["leakage", "--scenario", path, "--nu", 100, "--policy", "optimal", "--json"]
    assert run(*common) == 0
    said = capsys.readouterr()
    assert "note: an epsilon is that of the last order, 63; with --orders " in said.err
    enough = said.err.partition("--orders ")[2].split()[0]
    assert run(*common, "--orders", enough) == 0
    wide = capsys.readouterr()
    assert wide.err == ""
    for few, more in zip(json.loads(said.out), json.loads(wide.out), strict=True):
        assert more["epsilon"] < few["epsilon"] / 10
        assert more["rdp"] == few["rdp"]


def test_orders_below_the_first_are_noted_too(capsys, scenario):
    common = ["leakage", "--scenario", scenario[1], "--nu", 1e-4, "--policy", "optimal", "--orders", "5,64"]
    assert run(*common) == 0
    assert "note: an epsilon is that of the first order, 5; with --orders 1." in (err := capsys.readouterr().err)
    assert err.partition("--orders ")[2].split()[0].endswith(",64")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--orders", "x"], "argument --orders: expected MAX or MIN,MAX, got 'x'"),
        (["--orders", "1,2,3"], "expected MAX or MIN,MAX"),
        (["--orders", "1024,3"], "--orders 1024,3: largest must be above smallest"),
        (["--orders", "nan"], "--orders nan: largest must be finite and > 1"),
        (["--orders", "1e300"], "--orders 1e+300: largest must be"),
        (["--orders", "64", "--accountant", "renyi:orders=(2,3)"], "--orders are those of the accountant renyi"),
        (
            ["--accountant", "rayleigh"],
            "accountant 'rayleigh' is unknown (rayleigh is a channel); expected one of exact, renyi",
        ),
        (["--accountant", "renyi:order=3"], "--accountant renyi:order=3: "),
        (["--channel", "rayleigh:m=three"], "--channel rayleigh:m=three: channel 'rayleigh' has no parameter 'm'"),
        (["--channel", "rayleigh:placement=sea"], "--channel rayleigh:placement=sea: placement must be"),
        (["--channel", "my_module:Own:m=three"], "--channel my_module:Own:m=three: TypeError: "),
        (["--channel", "my_module:Own:m=-1"], "--channel my_module:Own:m=-1: m must be > 0"),
        (["--channel", "my_module:Own"], "Own.fading must return 12 finite coefficients, got shape (11,)"),
        (
            ["--policy", "my_module:Divides"],
            "Divides.step in my_module.py, line 15: ZeroDivisionError: division by zero",
        ),
        (["--policy", "my_module:Looks"], "Looks.start in my_module.py, line 19: KeyError: 'nothing'"),
        (["--policy", "my_module:One"], "One.step must return the next state and eta, numbers of shape (1, 3)"),
        (["--policy", "my_module:Forgets"], "policy Forgets must keep what it declares in `tuned` as an attribute"),
        (["--policy", "my_module:Untuned"], "policy Untuned: tuned must be a tuple of names, got None"),
        (["--policy", "my_module:Least"], "got a state and float64 of shape ()"),
        (["--realisations", "1000000000"], "--realisations must be 1 ... 1000000"),
        (["--seed", "1" * 40], "seed must be a whole number"),
    ],
)
def test_what_is_wrong_in_an_option_or_in_ones_own_code_is_named(tmp_path, capsys, scenario, own, arguments, said):
    (tmp_path / "my_module.py").write_text(WRONG)
    assert run("leakage", "--scenario", scenario[1], "--nu", 0.1, "--policy", "optimal", *arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert len(error) < 400


WRONG = """
from dataclasses import dataclass
from adascale.channel import ChannelModel
@dataclass(frozen=True)
class Own(ChannelModel):
    m: float = 1.0
    def __post_init__(self):
        if self.m <= 0:
            raise ValueError("m must be > 0")
    def fading(self, rng, num_rounds):
        return rng.standard_normal(num_rounds - 1) + 0j
class Divides:
    def start(self, scenario, budget): return 0
    def step(self, state, min_gain_t):
        return state, 1 / state
class Looks:
    def step(self, state, min_gain_t): return state
    def start(self, scenario, budget):
        return {}["nothing"]
class One:
    def start(self, scenario, budget): return scenario
    def step(self, scenario, min_gain_t): return scenario.x_max * min_gain_t
class Forgets(One):
    tuned = ("extra",)
    def __init__(self, extra): pass
class Untuned(One):
    tuned = None
class Least(One):
    def step(self, scenario, min_gain_t): return scenario, scenario.x_max * min_gain_t.min()
"""


@pytest.mark.parametrize("command", [[], ["leakage"], ["schedule"], ["stream"]])
def test_help_explains_itself(command):
    done = subprocess.run(
        [sys.executable, "-m", "adascale", *command, "--help"], capture_output=True, text=True, check=True
    )
    assert "usage: adascale" in done.stdout
    if command:
        assert "example:" in done.stdout
    assert done.stderr == ""
