"""The command line's numbers to the last digit, and what it says: notes, and one line where something is wrong."""

import io
import json
import sys
from dataclasses import replace

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
    arguments += ["--realisations", 3]
    assert run(*arguments, "--policy", "optimal") == 0
    said = capsys.readouterr()
    assert [row["cost"] for row in strict(said.out)[:3]] == [None] * 3
    assert "cannot meet --nu in 3 of 3 realisations" in said.err
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


def test_gains_above_one_are_noted_and_decibels_need_their_unit(tmp_path, capsys, scenario, gains):
    """What is read of which unit is tested in tests/channel/test_gains.py."""
    decibels, loss = tmp_path / "db.csv", tmp_path / "loss.csv"
    pd.DataFrame({"h2_1": 10 * np.log10(gains[0][0]), "h2_2": 10 * np.log10(gains[0][1])}).to_csv(decibels)
    pd.DataFrame({"h2_1": -10 * np.log10(gains[0][0]), "h2_2": -10 * np.log10(gains[0][1])}).to_csv(loss)
    common = ["schedule", "--scenario", scenario[1], "--nu", 0.01, "--policy", "optimal", "--gains"]
    assert run(*common, decibels, "--unit", "db") == 0
    assert "more power received than sent" not in capsys.readouterr().err
    assert run(*common, loss) == 0  # taken for linear gains
    assert f"note: {loss}, line 2: " in (said := capsys.readouterr().err)
    assert "in h2_1: more power received than sent" in said
    assert "expected a linear gain, no loss" in refused(capsys, *common, loss, "--unit", "db")
    assert "a gain in dB needs the unit db" in refused(capsys, *common, decibels)


def test_leakage_names_its_channel_and_what_exceeds_its_epsilon(capsys):
    """A parameter that is given is kept by the exact accountant, and the default one finds more."""
    common = ["leakage", "--epsilon", 2, "--policy", "truncated:epsilon=2", "--realisations", 1]
    for accountant, chains in (("renyi", "one"), ("exact", "one"), ("exact", "all")):
        model = "beamforming:chains=one" if chains == "one" else "beamforming"
        assert run(*common, "--accountant", accountant, "--channel", model) == 0
        said = capsys.readouterr().err
        assert "note: the channel is Beamforming(" in said
        assert f"antennas=2, chains={chains!r})" in said
        assert ("times --epsilon: its parameter is fixed" in said) == ((accountant, chains) != ("exact", "one"))


MANY = Scenario("many", 100, 12, 1000, 20, 400, 1.0, 0.2, 1e-12)


def test_orders_at_their_ends_are_noted_and_extended(tmp_path, capsys, scenario):
    path = tmp_path / "many.toml"
    path.write_text(MANY.to_toml())
    common = ["leakage", "--scenario", path, "--nu", 100, "--policy", "optimal", "--json"]
    common += ["--realisations", 3]
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


def test_a_ratio_to_the_reference_is_taken_in_each_realisation(tmp_path, capsys, scenario):
    out, both = tmp_path / "x.csv", ["--policy", "equalalloc", "--policy", "optimal", "--realisations", 4]
    assert run("leakage", "--scenario", scenario[1], "--nu", 1e-3, *both, "--out", out, "--format", "csv") == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out)).set_index("policy")
    table = pd.read_csv(out).pivot(index="seed", columns="policy", values="epsilon")
    logs = np.log(table["EqualAlloc"] / table["Optimal"])
    half = 3.182446 * logs.std() / 2  # the quantile of t with 3 degrees of freedom
    assert printed.loc["EqualAlloc", "epsilon / Optimal"] == pytest.approx(np.exp(logs.mean()), rel=1e-3)
    ends = printed.loc["EqualAlloc", "epsilon / Optimal 95 %"].split(" .. ")
    assert [*map(float, ends)] == pytest.approx([*np.exp(logs.mean() + half * np.array([-1, 1]))], rel=1e-2)
    assert np.isnan(printed.loc["Optimal", "epsilon / Optimal"])
    assert printed.loc["Optimal", ["kind", "knows"]].tolist() == ["optimum", "gains to come"]
    # another reference takes part, and so is not compared with itself
    alone = ["--nu", 1e-3, "--policy", "optimal", "--reference", "equal-alloc", "--realisations", 4]
    assert run("leakage", "--scenario", scenario[1], *alone, "--format", "csv") == 0
    again = pd.read_csv(io.StringIO(capsys.readouterr().out)).set_index("policy")
    assert again.loc["Optimal", "epsilon / EqualAlloc"] == pytest.approx(np.exp(-logs.mean()), rel=1e-3)


def test_totals_below_a_floor_are_counted_and_an_epsilon_compares_noise(tmp_path, capsys):
    (tmp_path / "s.toml").write_text(replace(Scenario.mnist(), num_rounds=30).to_toml())
    common = ["leakage", "--scenario", tmp_path / "s.toml", "--realisations", 4, "--orders", 4096]
    chosen = [each for name in ("optimal", "truncated", "truncated:epsilon=1") for each in ("--policy", name)]
    assert run(*common, *chosen, "--nu", 0.1, "--out", tmp_path / "nu.csv") == 0
    assert "note: truncated:epsilon=1 spends 0." in capsys.readouterr().err.lower()
    floor = pd.read_csv(tmp_path / "nu.csv").groupby("seed").floor.first()
    total = float(floor.sort_values().iloc[1:3].mean())
    assert run(*common, *chosen, "--total", total, "--plot", tmp_path / "f.svg", "--format", "csv") == 0
    said = capsys.readouterr()
    assert "note: Optimal cannot meet --total in 2 of 4 realisations, which are left out" in said.err
    printed = pd.read_csv(io.StringIO(said.out)).set_index("policy")
    assert printed.realisations.tolist() == [2, 4, 4]
    assert printed.total[:2].tolist() == pytest.approx([total] * 2, rel=1e-3)
    assert (tmp_path / "f.svg").is_file()
    assert run(*common, *chosen, "--epsilon", 1, "--out", tmp_path / "e.csv", "--format", "csv") == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out)).set_index("policy")
    table = pd.read_csv(tmp_path / "e.csv").pivot(index="seed", columns="policy", values="total")
    ratio = np.exp(np.log(table["Truncated"] / table["Optimal"]).mean())
    assert printed.loc["Truncated", "total / Optimal"] == pytest.approx(ratio, rel=1e-3)
    assert (printed["largest epsilon"][:2] <= 1).all()
    refused_total = [*common, "--policy", "optimal", "--total", float(floor.min()) / 2]
    assert "no policy can meet --total in any realisation" in refused(capsys, *refused_total, code=1)
