"""The benchmark: its frozen numbers, its table by other means, its files, and a policy of one's own."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale import Optimal, ReceiveScalingProblem, __version__, channel, presets
from adascale.accounting import RenyiAccountant, epsilon_by, order_grid
from adascale.cli import benchmark
from adascale.files import read_toml
from adascale.learning import Training, load, train
from adascale.policies import Truncated
from adascale.statistics import log_interval

from ..command import run

ROOT = Path(__file__).parents[2]
CONTENT = read_toml(benchmark.FOLDER / "benchmark-1.toml")
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


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The files of a small version with a policy of one's own, and of another one with a training."""
    place = tmp_path_factory.mktemp("benchmark")
    (place / "short.toml").write_text('base = "digits"\n[scenario]\nnum_rounds = 30\n')
    (place / "my_policy.py").write_text(EXAMPLE)
    (place / "benchmark-1.toml").write_text(SMALL + TRAINED)
    head, _, _ = SMALL.partition("equalalloc")
    (place / "other").mkdir()
    (place / "other" / "benchmark-1.toml").write_text(head + TRAINED)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(benchmark, "FOLDER", place)
        assert (
            run(
                "benchmark",
                "--version",
                1,
                "--out",
                "out",
                "--policy",
                "my_policy:Level",
            )
            == 0
        )
        patch.setattr(benchmark, "FOLDER", place / "other")
        assert run("benchmark", "--version", 1, "--out", "trained", "--train") == 0
        yield place
    sys.modules.pop("my_policy", None)


@pytest.fixture(scope="module")
def lanes(written):
    """What the small version measures: the scenario, the gains and the floors of its realisations."""
    scenario = presets.load("short.toml").scenario
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, range(4)).gain
    return (
        scenario,
        gain,
        scenario.noise_scale / (scenario.x_max * scenario.min_gain(gain)),
    )


@pytest.mark.parametrize("setting", CONTENT["scenarios"], ids=lambda each: each["name"])
def test_frozen_totals_are_multiples_of_the_median_floor(setting):
    scenario = presets.load(setting["preset"]).scenario
    seeds = range(CONTENT["realisations"])
    drawn = channel.find(setting["channel"]).draw(
        scenario.num_devices, scenario.num_rounds, seeds
    )
    floor = np.median(
        (scenario.noise_scale / (scenario.x_max * scenario.min_gain(drawn.gain))).mean(
            axis=-1
        )
    )
    assert setting["totals"] == [float(f"{times * floor:.3g}") for times in (0.5, 1, 2)]


def test_files_state_the_threat(written):
    """That the same numbers give the same bytes is tested in ``test_plot.py``."""
    names = sorted(path.name for path in (written / "out").iterdir())
    assert names == [
        f"benchmark-1{end}"
        for end in ("-first.pdf", ".csv", ".md", ".provenance.toml", ".tex")
    ]
    for name in names:
        assert (
            name.endswith("pdf")
            or benchmark.THREAT.encode() in (written / "out" / name).read_bytes()
        )
    made = read_toml(written / "out" / "benchmark-1.provenance.toml")
    assert {"python", "machine", "scipy", "threat"} <= {*made}
    wanted = "adascale benchmark --version 1", __version__, np.__version__
    assert (made["command"], made["version"], made["numpy"]) == wanted


def test_table_is_that_of_the_formulas(written, lanes):
    (scenario, gain, floor), rate = lanes, 30 / 150
    table = pd.read_csv(written / "out" / "benchmark-1.csv").set_index(["W", "policy"])
    account = RenyiAccountant(order_grid(63, 1.05))
    for total in TOTALS:
        epsilon = {"Optimal": {}, "Truncated": {}, "exposed": {}}
        for seed in range(4):
            chosen = Truncated.of_total(scenario, gain[seed], total).select(
                scenario, gain[seed]
            )
            epsilon["Truncated"][seed] = float(chosen.epsilon(account))
            if (budget := total - floor[seed].mean()) > 0:
                problem = ReceiveScalingProblem(
                    scenario, scenario.min_gain(gain[seed]), budget
                )
                sigma = problem.noise_multiplier(Optimal().schedule(problem))[0]
                epsilon["Optimal"][seed] = float(epsilon_by(account, rate, sigma, 1e-5))
                epsilon["exposed"][seed] = float(
                    epsilon_by(account, rate, sigma * 10**-0.3, 1e-5)
                )
        reached = len(epsilon["Optimal"])
        mean = {
            key: log_interval([*each.values()]).centre for key, each in epsilon.items()
        }
        row = table.loc[total, "Optimal"]
        assert 0 < reached < 4 or total > TOTALS[0]
        assert (row.kind, row.knows, row.reached, row.participation) == (
            "optimum",
            "gains to come",
            f"{reached}/4",
            1,
        )
        assert [
            row.epsilon,
            row["mean epsilon"],
            row["epsilon at -6 dB"],
            row.ratio,
        ] == pytest.approx(
            [mean["Optimal"], mean["Optimal"], mean["exposed"], 1], rel=6e-4
        )
        row = table.loc[total, "Truncated"]
        ratio = log_interval(
            [
                epsilon["Truncated"][seed] / epsilon["Optimal"][seed]
                for seed in epsilon["Optimal"]
            ]
        )
        assert (row.kind, row.reached, row.epsilon) == (
            "hindsight",
            "4/4",
            pytest.approx(mean["Truncated"], rel=6e-4),
        )
        assert [row.ratio, row["ratio from"], row.to] == pytest.approx(
            ratio if reached > 2 else (ratio.centre, np.nan, np.nan),
            rel=6e-4,
            nan_ok=True,
        )


def test_example_of_the_page_is_short_and_is_the_optimum(written):
    assert len(EXAMPLE.strip().splitlines()) <= 15
    table = pd.read_csv(written / "out" / "benchmark-1.csv").set_index("policy")
    rows = table.loc["Level"]
    assert (set(rows.kind), set(rows.knows)) == ({"hindsight"}, {"gains to come"})
    assert [*rows.reached] == [*table.loc["Optimal"].reached]
    assert (rows.ratio == 1).all()


def test_accuracy_is_that_of_a_training(written, lanes):
    scenario, gain, floor = lanes
    assert "accuracy" not in pd.read_csv(written / "out" / "benchmark-1.csv")
    (found,) = pd.read_csv(written / "trained" / "benchmark-1.csv").accuracy
    settings = Training.preset("short.toml")
    problem = ReceiveScalingProblem(
        scenario, scenario.min_gain(gain[0]), 0.4 - floor[0].mean()
    )
    w = Optimal().schedule(problem)
    history = train(
        problem, w, settings, load(settings.dataset, settings.input_scaling), 0
    ).history
    assert found == pytest.approx(history.accuracy.iloc[-1], rel=6e-4)
