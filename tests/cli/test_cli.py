"""The command line: results as tables and JSON, policies of one's own, and bad arguments."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from adascale.cli import COMMANDS
from adascale.cli.leakage import SHOWN
from companion.methods import METHODS

from ..command import refused, run
from .streams import CONSTANT


def test_leakage_writes_one_row_per_policy_budget_and_seed(tmp_path, capsys, scenario):
    out = tmp_path / "leakage.csv"
    assert run("leakage", "--scenario", scenario[1], "--nu", 1e-3, "--nu", 4e-3, "--realisations", 2, "--out", out) == 0
    table = pd.read_csv(out)
    assert len(table) == len(METHODS) * 2 * 2
    assert set(table.columns) >= {"dataset", "policy", "nu", "seed", "rdp", "epsilon", "floor_max", "floor_max_round"}
    printed = capsys.readouterr().out
    assert all(SHOWN.get(name, name) in printed for name in METHODS)


def test_seed_shifts_the_realisations(tmp_path, scenario):
    out, tables = tmp_path / "out.csv", []
    for seed in (0, 1):
        common = ["--scenario", scenario[1], "--nu", 1e-3, "--policy", "equalalloc", "--out", out]
        assert run("leakage", *common, "--realisations", 2, "--seed", seed) == 0
        tables.append(pd.read_csv(out).set_index("seed").rdp)
    assert tables[0].loc[1] == tables[1].loc[1]
    assert tables[0].loc[0] not in set(tables[1])


def test_interference_is_the_part_of_the_scenario_that_protects(tmp_path, scenario):
    small, path, out = *scenario, tmp_path / "out.csv"
    part = tmp_path / "part.toml"
    part.write_text(replace(small, privacy_noise_power=small.noise_power / 10).to_toml())
    found = []
    for chosen in ([path, "--interference", "-10"], [part], [path, "--interference", 0], [path]):
        common = ["--nu", 1e-3, "--policy", "equalalloc", "--realisations", 2, "--out", out]
        assert run("leakage", "--scenario", *chosen, *common) == 0
        found.append(pd.read_csv(out).epsilon.to_numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    np.testing.assert_array_equal(found[2], found[3])
    assert (found[1] > found[3]).all()
    assert run("leakage", "--scenario", part, "--interference", 0, *common) == 2  # neither wins in silence


def test_own_policy_is_tuned_and_compared(tmp_path, capsys, scenario, own):
    common = ["--scenario", scenario[1], "--nu", 1e-3, "--realisations", 2, "--out", tmp_path / "x.csv"]
    assert run("leakage", *common, "--policy", "my_module:Constant", "--policy", "equal-alloc") == 0
    table = pd.read_csv(tmp_path / "x.csv").pivot(index="seed", columns="policy", values="rdp")
    # tuned, a constant extra energy is what EqualAlloc spends
    np.testing.assert_allclose(table["Constant"], table["EqualAlloc"], rtol=1e-7)  # cost matched to 1e-9
    assert "note" not in capsys.readouterr().err


def test_own_policy_with_a_registered_name_is_kept_apart(tmp_path, capsys, scenario, gains, own):
    (tmp_path / "same_name.py").write_text(CONSTANT.replace("Constant", "AdaScale"))
    common = ["--scenario", scenario[1], "--nu", 0.01, "--policy", "same_name:AdaScale"]
    assert run("schedule", *common, "--gains", gains[1], "--hindsight", "--json") == 0
    assert "penalty" not in json.loads(capsys.readouterr().out)
    assert "duplicate --policy AdaScale" in refused(capsys, "leakage", *common, "--policy", "adascale")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_description_and_an_example(capsys, command):
    assert run(command, "--help") == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"usage: adascale {command} ")
    assert f"example:\n  adascale {command} " in said.out
    assert "SUPPRESS" not in said.out
    assert said.err == ""


def test_module_is_the_command(tmp_path, capsys):
    done = subprocess.run([sys.executable, "-m", "adascale", "--help"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith("usage: adascale ")
    assert (done.returncode, done.stderr) == (0, "")
    assert run("nothing") == 2
    assert capsys.readouterr().err.startswith("adascale: error: ")
