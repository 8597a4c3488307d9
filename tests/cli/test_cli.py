"""The command line: what a stranger types, and what happens when it is wrong."""

import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, policies
from adascale.channel import read_gains
from companion.methods import METHODS

from ..command import run
from .own import OWN


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
        ("json:dumps", "not one of Python's standard library"),
        ("my_module:OWN", "no 'OWN'"),
        ("nothing", "'nothing' is unknown"),
        ("broken:X", "cannot import 'broken': broken.py, line 2: AttributeError: module 'math' has no"),
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
