"""``adascale leakage`` to the last digit, and what it notes; what all commands have in common."""

import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from adascale import Scenario
from adascale.cli import COMMANDS
from adascale.cli.leakage import SHOWN
from companion.methods import METHODS

from ..command import refused, run
from .streams import CONSTANT

LEAKAGE = ["leakage", "--scenario", "my.toml"]


def strict(text):
    """JSON as RFC 8259 has it: no NaN, no Infinity."""
    return json.loads(text, parse_constant=pytest.fail)


def printed(capsys):
    """A table that was printed as CSV, and the notes."""
    said = capsys.readouterr()
    return pd.read_csv(io.StringIO(said.out)).set_index("policy"), said.err


def test_one_row_is_written_per_policy_budget_and_seed_of_which_seeds_shift(
    place, capsys
):
    assert (
        run(
            *LEAKAGE,
            "--nu",
            1e-3,
            "--nu",
            4e-3,
            "--realisations",
            2,
            "--out",
            "all.csv",
        )
        == 0
    )
    table = pd.read_csv("all.csv")
    assert len(table) == len(METHODS) * 2 * 2
    assert {*table.columns} >= {
        "dataset",
        "policy",
        "nu",
        "seed",
        "rdp",
        "epsilon",
        "floor_max",
        "floor_max_round",
    }
    out = capsys.readouterr().out
    assert all(SHOWN.get(name, name) in out for name in METHODS)
    more = "--policy", "equalalloc", "--seed", 1
    assert (
        run(*LEAKAGE, "--nu", 1e-3, "--realisations", 2, "--out", "one.csv", *more) == 0
    )
    one = pd.read_csv("one.csv").set_index("seed").rdp
    first = (
        table[(table.policy == "EqualAlloc") & (table.nu == 1e-3)].set_index("seed").rdp
    )
    assert one.loc[1] == pytest.approx(first.loc[1], rel=1e-12)
    assert abs(one.loc[2] / first - 1).min() > 1e-3


def test_own_policy_is_kept_apart_from_a_registered_one_of_its_name(place, capsys):
    """That it is tuned and compared: test_extension.py."""
    (place / "same_name.py").write_text(CONSTANT.replace("Constant", "AdaScale"))
    common = ["--scenario", "my.toml", "--nu", 0.01, "--policy", "same_name:AdaScale"]
    assert (
        run("schedule", *common, "--gains", "gains.csv", "--hindsight", "--json") == 0
    )
    assert "penalty" not in strict(capsys.readouterr().out)
    assert "duplicate --policy AdaScale" in refused(
        capsys, "leakage", *common, "--policy", "adascale"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_description_and_an_example(capsys, command):
    assert run(command, "--help") == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"usage: adascale {command} ")
    assert f"example:\n  adascale {command} " in said.out
    assert ("SUPPRESS" in said.out, said.err) == (False, "")


def test_table_has_an_epsilon_of_zero_and_an_interval_of_three_realisations(
    place, capsys
):
    for number in (2, 3):
        more = [
            "--nu",
            1e-3,
            "--nu",
            1e9,
            "--delta",
            0.9,
            "--policy",
            "optimal",
            "--realisations",
            number,
        ]
        assert run(*LEAKAGE, *more) == 0
        lines = capsys.readouterr().out.splitlines()
        assert ("95 %" in "\n".join(lines)) is (number == 3)
        assert (len(lines), float(lines[2].split()[-1])) == (3, 0)


def test_json_has_no_nan_where_a_budget_is_out_of_reach(place, capsys):
    arguments = [
        "--scenario",
        "my.toml",
        "--nu",
        1e9,
        "--policy",
        "lyapunovpowercontrol",
        "--realisations",
        3,
    ]
    assert run("leakage", *arguments, "--json", "--policy", "optimal") == 0
    said = capsys.readouterr()
    assert [row["cost"] for row in strict(said.out)[:3]] == [None] * 3
    assert "cannot meet --nu in 3 of 3 realisations" in said.err
    assert "LyapunovPowerControl at nu = 1e+09" in refused(
        capsys, "leakage", *arguments, code=1
    )


def test_policy_that_does_not_spend_nu_is_noted(place, capsys):
    limit = CONSTANT.replace("floor + self.extra", "floor")
    (place / "limit.py").write_text(limit)
    schedule = ["schedule", "--gains", "gains.csv", "--scenario", "my.toml"]
    for command, policy, nu, said in (
        (schedule, "mine:Thrifty", 5e-5, "Thrifty spends 2 times nu;"),
        (LEAKAGE, "mine:Thrifty", 1e-3, "Thrifty spends 0.1 times nu;"),
        (schedule, "equalalloc", 1e-3, ""),
        (LEAKAGE, "limit:Thrifty", 1e-3, "Thrifty spends nothing;"),
        (schedule, "limit:Thrifty", 1e-3, "Thrifty spends nothing;"),
    ):
        assert run(*command, "--nu", nu, "--policy", policy) == 0
        notes = capsys.readouterr().err
        assert f"note: {said}" in notes if said else "spends" not in notes


def test_channel_is_named_and_what_exceeds_its_epsilon(place, capsys):
    """A parameter that is given is kept by the exact accountant at one chain."""
    (place / "s.toml").write_text(replace(Scenario.mnist(), num_rounds=30).to_toml())
    common = [
        "--scenario",
        "s.toml",
        "--epsilon",
        2,
        "--policy",
        "truncated:epsilon=2",
        "--realisations",
        1,
    ]
    for chains in ("one", "all"):
        model = "beamforming:chains=one" if chains == "one" else "beamforming"
        assert run("leakage", *common, "--accountant", "exact", "--channel", model) == 0
        said = capsys.readouterr().err
        assert "note: the channel is Beamforming(" in said
        assert f"antennas=2, chains={chains!r})" in said
        assert ("times --epsilon: its parameter is fixed" in said) == (chains == "all")


def test_orders_at_their_ends_are_noted_and_extended(place, capsys):
    (place / "many.toml").write_text(
        Scenario("many", 100, 12, 1000, 20, 400, 1.0, 0.2, 1e-12).to_toml()
    )
    common = [
        "leakage",
        "--scenario",
        "many.toml",
        "--nu",
        100,
        "--policy",
        "optimal",
        "--json",
        "--realisations",
        3,
    ]
    assert run(*common) == 0
    said = capsys.readouterr()
    assert (
        "note: the best order of 3 of 3 schedules is the last one given, 63, and order "
        in said.err
    )
    assert run(*common, "--orders", said.err.partition("--orders ")[2].split()[0]) == 0
    wide = capsys.readouterr()
    assert wide.err == ""
    for few, more in zip(strict(said.out), strict(wide.out), strict=True):
        assert more["epsilon"] < few["epsilon"] / 10
        assert more["rdp"] == few["rdp"]
    assert run(*LEAKAGE, "--nu", 1e-4, "--policy", "optimal", "--orders", "5,64") == 0
    assert "is the first one given, 5, and order 1." in (err := capsys.readouterr().err)
    assert err.partition("--orders ")[2].split()[0].endswith(",1024")


def test_a_ratio_to_the_reference_is_taken_in_each_realisation(place, capsys):
    common = [
        *LEAKAGE,
        "--nu",
        1e-3,
        "--realisations",
        4,
        "--format",
        "csv",
        "--policy",
        "optimal",
    ]
    assert run(*common, "--policy", "equalalloc", "--out", "x.csv") == 0
    found, _ = printed(capsys)
    table = pd.read_csv("x.csv").pivot(index="seed", columns="policy", values="epsilon")
    logs = np.log(table["EqualAlloc"] / table["Optimal"])
    assert found.loc["EqualAlloc", "epsilon / Optimal"] == pytest.approx(
        np.exp(logs.mean()), rel=1e-3
    )
    assert np.isnan(found.loc["Optimal", "epsilon / Optimal"])
    assert found.loc["Optimal", ["kind", "knows"]].tolist() == [
        "optimum",
        "gains to come",
    ]
    # another reference takes part, and so is not compared with itself
    assert run(*common, "--reference", "equal-alloc") == 0
    assert printed(capsys)[0].loc["Optimal", "epsilon / EqualAlloc"] == pytest.approx(
        np.exp(-logs.mean()), rel=1e-3
    )


def test_totals_below_a_floor_are_counted_and_an_epsilon_compares_noise(place, capsys):
    (place / "s.toml").write_text(replace(Scenario.mnist(), num_rounds=30).to_toml())
    common = [
        "--scenario",
        "s.toml",
        "--realisations",
        4,
        "--orders",
        4096,
        "--format",
        "csv",
    ]
    chosen = [
        each
        for name in ("optimal", "truncated", "truncated:epsilon=1")
        for each in ("--policy", name)
    ]
    assert run("leakage", *common, *chosen, "--nu", 0.1, "--out", "nu.csv") == 0
    assert "note: truncated:epsilon=1 spends 0." in capsys.readouterr().err.lower()
    floor = pd.read_csv("nu.csv").groupby("seed").floor.first()
    total = float(floor.sort_values().iloc[1:3].mean())
    assert run("leakage", *common, *chosen, "--total", total, "--plot", "f.svg") == 0
    found, notes = printed(capsys)
    assert (
        "note: Optimal cannot meet --total in 2 of 4 realisations, which are left out"
        in notes
    )
    assert found.realisations.tolist() == [2, 4, 4]
    assert found.total[:2].tolist() == pytest.approx([total] * 2, rel=1e-3)
    assert (place / "f.svg").is_file()
    assert run("leakage", *common, *chosen, "--epsilon", 1, "--out", "e.csv") == 0
    found, _ = printed(capsys)
    table = pd.read_csv("e.csv").pivot(index="seed", columns="policy", values="total")
    ratio = np.exp(np.log(table["Truncated"] / table["Optimal"]).mean())
    assert found.loc["Truncated", "total / Optimal"] == pytest.approx(ratio, rel=1e-3)
    assert (found["epsilon"][:2] <= 1).all()
    given = [*common, "--policy", "optimal", "--total", float(floor.min()) / 2]
    assert "no policy can meet --total in any realisation" in refused(
        capsys, "leakage", *given, code=1
    )
