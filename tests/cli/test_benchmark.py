"""The benchmark: its frozen numbers, its table by other means, its files, and a policy of one's own."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale import Optimal, Problem, channel, presets
from adascale.accounting import RenyiAccountant, order_grid
from adascale.cli import benchmark
from adascale.comparison import leakage_table
from adascale.files import read_toml
from adascale.learning import Training, load, train
from adascale.policies import Truncated

from ..command import run

ROOT = Path(__file__).parents[2]
VERSION = read_toml(benchmark.FOLDER / "benchmark-1.toml")
PAGE = (ROOT / "book" / "benchmark.md").read_text()
EXAMPLE = re.search(r"```python\n(import numpy.*?)```", PAGE, re.DOTALL)[1]
TOTALS = (0.25, 0.4)
SMALL = f"""delta = 1e-5
orders = [63.0, 1.05]
realisations = 4
trainings = 1
[policies]
optimal = "Optimal"
equalalloc = "EqualAlloc"
truncated = "Truncated"
[[scenarios]]
name = "first"
preset = "short.toml"
channel = "rayleigh"
totals = {[*TOTALS]}
"""
TRAINED = """[[scenarios]]
name = "trained"
preset = "short.toml"
channel = "rayleigh"
totals = [0.4]
training = "short.toml"
"""
COMMAND = ["benchmark", "--version", 1, "--out"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The files of a small version with a policy of one's own, and of another one with a training."""
    place = tmp_path_factory.mktemp("benchmark")
    (place / "short.toml").write_text('base = "digits"\n[scenario]\nnum_rounds = 30\n')
    (place / "my_policy.py").write_text(EXAMPLE)
    head, _, _ = SMALL.partition("equalalloc")
    for name, text in (("all", SMALL), ("few", head)):
        (place / name).mkdir()
        (place / name / "benchmark-1.toml").write_text(text + TRAINED)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(benchmark, "FOLDER", place / "all")
        assert run(*COMMAND, "out", "--policy", "my_policy:Level") == 0
        patch.setattr(benchmark, "FOLDER", place / "few")
        assert run(*COMMAND, "trained", "--train") == 0
        yield place
    sys.modules.pop("my_policy", None)


@pytest.fixture(scope="module")
def realisations(written):
    """The scenario of the small version, and the gains and mean floors of its realisations."""
    scenario = presets.load(str(written / "short.toml")).scenario
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, range(4)).gain
    max_eta = scenario.x_max * scenario.min_gain(gain)
    return scenario, gain, (scenario.noise_scale / max_eta).mean(axis=-1)


@pytest.fixture(scope="module")
def table(written):
    return pd.read_csv(written / "out" / "benchmark-1.csv").set_index(["W", "policy"])


@pytest.mark.parametrize("setting", VERSION["scenarios"], ids=lambda row: row["name"])
def test_frozen_totals_are_multiples_of_the_median_floor(setting):
    scenario = presets.load(setting["preset"]).scenario
    seeds, model = range(VERSION["realisations"]), channel.find(setting["channel"])
    gain = model.draw(scenario.num_devices, scenario.num_rounds, seeds).gain
    max_eta = scenario.x_max * scenario.min_gain(gain)
    floor = np.median((scenario.noise_scale / max_eta).mean(axis=-1))
    assert setting["totals"] == [float(f"{times * floor:.3g}") for times in (0.5, 1, 2)]


@pytest.fixture(scope="module")
def epsilons(realisations):
    """Epsilon of Optimal, of Optimal where the server cancels noise, and of Truncated, by total and realisation."""
    scenario, *_ = realisations
    exposed = replace(scenario, privacy_noise_power=scenario.noise_power * 10**-0.6)
    how = {"target": "total", "accountant": RenyiAccountant(order_grid(63, 1.05))}
    chosen = TOTALS, range(4), {"Optimal": Optimal, "Truncated": Truncated}
    whole, part = (leakage_table(s, *chosen, **how) for s in (scenario, exposed))
    index = ["target_total", "seed"]
    table = whole.pivot(index=index, columns="policy", values="epsilon")
    part = part[part.policy == "Optimal"].set_index(index)
    return table.assign(exposed=part.epsilon)


@pytest.mark.parametrize("total", TOTALS)
def test_table_has_the_means_over_the_realisations_that_are_reached(
    table, epsilons, total
):
    reached, row = epsilons.loc[total].dropna(), table.loc[total, "Optimal"]
    assert 0 < len(reached) < 4 or total > TOTALS[0]
    assert row.reached == f"{len(reached)}/4"
    mean = np.exp(np.log(reached).mean())
    assert row.epsilon == pytest.approx(mean["Optimal"], rel=6e-4)
    assert row["epsilon at -6 dB"] == pytest.approx(mean["exposed"], rel=6e-4)
    ratio = mean["Truncated"] / mean["Optimal"]
    assert table.loc[total, "Truncated"].ratio == pytest.approx(ratio, rel=6e-4)


def test_example_of_the_page_is_short_and_is_the_optimum(table):
    assert len(EXAMPLE.strip().splitlines()) <= 15
    own = table.xs("Level", level="policy")
    assert (own.kind == "hindsight").all()
    assert [*own.reached] == [*table.xs("Optimal", level="policy").reached]
    assert (own.ratio == 1).all()


def test_accuracy_is_that_of_a_training(written, table, realisations):
    scenario, gain, floor = realisations
    assert "accuracy" not in table
    (accuracy,) = pd.read_csv(written / "trained" / "benchmark-1.csv").accuracy
    settings = Training.preset(str(written / "short.toml"))
    problem = Problem(scenario, scenario.min_gain(gain[0]), 0.4 - floor[0])
    dataset = load(settings.dataset, settings.input_scaling)
    trained = train(problem, Optimal().schedule(problem), settings, dataset, 0)
    assert accuracy == pytest.approx(trained.history.accuracy.iloc[-1], rel=6e-4)
