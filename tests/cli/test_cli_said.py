"""The command line's numbers to the last digit, and what it says: notes, and one line where something is wrong."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from adascale import Scenario

from ..command import refused, run
from .streams import CONSTANT


def strict(text):
    """JSON as RFC 8259 has it: no NaN, no Infinity."""
    return json.loads(text, parse_constant=pytest.fail)


def test_json_has_every_digit(tmp_path, capsys, scenario, gains):
    out = tmp_path / "out.csv"
    common = ["--scenario", scenario[1], "--nu", 1e-3, "--delta", 1e-12, "--policy", "optimal", "--out", out, "--json"]
    for command, names in (("leakage", ("epsilon", "cost", "floor_max")), ("schedule", ("eta",))):
        assert run(command, *common, *(["--gains", gains[1]] if command == "schedule" else [])) == 0
        found = strict(capsys.readouterr().out)
        assert (found[0] if command == "leakage" else found)["delta"] == 1e-12
        rows = found if command == "leakage" else found["schedule"]
        for name in names:
            assert [row[name] for row in rows] == pd.read_csv(out, dtype=str)[name].map(float).tolist()


def test_table_has_an_epsilon_of_zero_and_an_interval_of_three_realisations(capsys, scenario):
    for number, shown in ((1, False), (2, False), (3, True)):
        more = ["--nu", 1e-3, "--nu", 1e9, "--delta", 0.9, "--policy", "optimal", "--realisations", number]
        assert run("leakage", "--scenario", scenario[1], *more) == 0
        lines = capsys.readouterr().out.splitlines()
        assert ("95 %" in "\n".join(lines)) is shown
        assert len(lines) == 3
        assert float(lines[2].split()[-1]) == 0


def test_json_has_no_nan_where_a_budget_is_out_of_reach(capsys, scenario):
    arguments = ["leakage", "--scenario", scenario[1], "--nu", 1e9, "--policy", "lyapunovpowercontrol", "--json"]
    assert run(*arguments, "--policy", "optimal") == 0
    said = capsys.readouterr()
    assert [row["cost"] for row in strict(said.out)[:3]] == [None] * 3
    assert "cannot spend nu in 3 of 3 realisations" in said.err
    assert "LyapunovPowerControl at nu = 1e+09" in refused(capsys, *arguments, code=1)


def test_policy_that_does_not_spend_nu_is_noted(tmp_path, capsys, scenario, gains, own):
    common, trace = ["--scenario", scenario[1]], ["--gains", gains[1]]
    for nu, shown in ((5e-5, "2 times nu"), (1e-3, "0.1 times nu")):
        assert run("schedule", *common, *trace, "--nu", nu, "--policy", "my_module:Thrifty") == 0
        assert f"note: Thrifty spends {shown};" in capsys.readouterr().err
    assert run("leakage", *common, "--nu", 1e-3, "--policy", "my_module:Thrifty") == 0
    assert "note: Thrifty spends 0.1 times nu;" in capsys.readouterr().err
    assert run("schedule", *common, *trace, "--nu", 1e-3, "--policy", "equalalloc") == 0
    assert "spends" not in capsys.readouterr().err
    sys.modules.pop("my_module")
    limit = CONSTANT.replace("scenario.noise_scale / (floor + self.extra)", "scenario.x_max * min_gain_t")
    (tmp_path / "my_module.py").write_text(limit)
    for command in (["leakage"], ["schedule", *trace]):
        assert run(*command, *common, "--nu", 1e-3, "--policy", "my_module:Thrifty") == 0
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
        assert "in h2_1: more power received than sent" in said
    assert run(*common, "--gains", decibels) == 2
    assert "a gain in dB needs the unit db" in capsys.readouterr().err


MANY = Scenario("many", 100, 12, 1000, 20, 400, 1.0, 0.2, 1e-12)


def test_orders_at_their_ends_are_noted_and_extended(tmp_path, capsys, scenario):
    path = tmp_path / "many.toml"
    path.write_text(MANY.to_toml())
    common = ["leakage", "--scenario", path, "--nu", 100, "--policy", "optimal", "--json"]
    assert run(*common) == 0
    said = capsys.readouterr()
    assert "note: the best order of 3 of 3 schedules is the last one given, 63, and order " in said.err
    enough = said.err.partition("--orders ")[2].split()[0]
    assert run(*common, "--orders", enough) == 0
    wide = capsys.readouterr()
    assert wide.err == ""
    for few, more in zip(json.loads(said.out), json.loads(wide.out), strict=True):
        assert more["epsilon"] < few["epsilon"] / 10
        assert more["rdp"] == few["rdp"]
    assert run("leakage", "--scenario", scenario[1], "--nu", 1e-4, "--policy", "optimal", "--orders", "5,64") == 0
    assert "is the first one given, 5, and order 1." in (err := capsys.readouterr().err)
    assert err.partition("--orders ")[2].split()[0].endswith(",1024")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--orders", "x"], "argument --orders: expected MAX or MIN,MAX, got 'x'"),
        (["--orders", "1,2,3"], "expected MAX or MIN,MAX"),
        (["--orders", "1024,3"], "--orders 1024,3: largest must be above smallest"),
        (["--orders", "nan"], "--orders nan: largest must be finite and > 1"),
        (["--orders", "1e300"], "--orders 1e+300: largest must be"),
        (["--orders", "64", "--accountant", "renyi:orders=(2,3)"], "--orders applies only to the accountant renyi"),
        (["--accountant", "rayleigh"], "accountant 'rayleigh' is unknown (rayleigh is a channel)"),
        (["--accountant", "renyi:order=3"], "--accountant renyi:order=3: "),
        (["--channel", "rayleigh:m=three"], "--channel rayleigh:m=three: unknown key 'm' of channel 'rayleigh'"),
        (["--channel", "rayleigh:placement=sea"], "--channel rayleigh:placement=sea: placement must be"),
        (["--channel", "my_module:Own:m=three"], "--channel my_module:Own:m=three: TypeError: "),
        (["--channel", "my_module:Own:m=-1"], "--channel my_module:Own:m=-1: m must be > 0"),
        (["--channel", "my_module:Own"], "Own.fading must return 12 finite coefficients, got shape (11,)"),
        (["--policy", "my_module:Divides"], "Divides.step in my_module.py, line 15: ZeroDivisionError: division by"),
        (["--policy", "my_module:Looks"], "Looks.start in my_module.py, line 19: KeyError: 'nothing'"),
        (["--policy", "my_module:One"], "One.step must return the next state and eta, numbers of shape (1, 3)"),
        (["--policy", "my_module:Forgets"], "policy Forgets must keep what it declares in `tuned` as an attribute"),
        (["--policy", "my_module:Untuned"], "policy Untuned: tuned must be a tuple of names, got None"),
        (["--policy", "my_module:Least"], "got a state and float64 of shape ()"),
    ],
)
def test_error_names_the_option_or_the_own_code(tmp_path, capsys, scenario, own, arguments, said):
    (tmp_path / "my_module.py").write_text(WRONG)
    error = refused(capsys, "leakage", "--scenario", scenario[1], "--nu", 0.1, "--policy", "optimal", *arguments)
    assert said in error
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
