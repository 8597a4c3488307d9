"""The explorer's arithmetic in JavaScript is the package's, digit by digit; what it ships is what it says."""

import json
import shutil
import subprocess
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from adascale import Problem, Scenario, accounting, policies, tuning
from companion import explorer
from companion.shi import plain_lyapunov

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "book" / "_static" / "explorer"
START = {
    "scenario": "mnist",
    "channel": "rayleigh",
    "draw": 0,
    "level": 4,
    "order": 3,
    "multiple": 1,
    "cap": None,
}
SOLVE = """
const [, folder, change] = process.argv;
require(folder + "/data.js");
require(folder + "/exact.js");
require(folder + "/core.js");
const data = globalThis.ADASCALE_DATA, answers = [];
eval(change);
for (const controls of JSON.parse(require("fs").readFileSync(0, "utf8"))) {
  const core = globalThis.ADASCALE_CORE, answer = core.solve(data, controls), { w } = answer.methods.adascale;
  answer.queue = core.queueAfter(w, answer.floor, answer.nu);
  // what is computed when it is asked for
  for (const [name, method] of Object.entries(answer.methods)) answer.methods[name] = { ...method };
  answers.push(answer);
}
process.stdout.write(JSON.stringify(answers));
"""
# relative; AdaScale's V is a root that both sides find to 1e-12 of the cost
TOLERANCE = 1e-9
CHANGES = [
    "scenarios.mnist.unit *= 1 + 1e-7",
    "gains.rayleigh[0][0] += 1",
    "levels.mnist.rayleigh[0][4] += 1",
]


CIFAR = START | {"scenario": "cifar10"}
# every channel model and draw, both data sets, and the sliders at their ends and between
POSITIONS = [
    START | {"rounds": 20, "draw": 1},  # the game's
    START | {"level": 17, "order": 7, "multiple": 10**0.3},
    CIFAR | {"channel": "rician", "draw": 1, "order": 2, "multiple": 0.01, "cap": 10},
    START | {"channel": "nakagami", "draw": 2, "level": 0, "order": 16},
    CIFAR | {"channel": "slow", "level": 24, "multiple": 100, "cap": 1e5},
    START | {"channel": "antennas", "draw": 1, "level": 24, "order": 11},
]


def in_node(positions, change=""):
    """What core.js computes for each position; ``change`` is JavaScript that may alter its data first."""
    node = shutil.which("node")
    if node is None:
        pytest.skip(
            "node is not installed: the explorer's JavaScript is not compared here"
        )
    command = [node, "-e", SOLVE, str(FOLDER), change]
    done = subprocess.run(
        command,
        input=json.dumps(positions),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def posed(scenario, channel, draw, budget, order=3):
    """The problem that the page solves for one position of its controls, with the same rounded gains."""
    chosen = replace(explorer.SCENARIOS[scenario], order=order)
    gain = 10 ** (
        -explorer.loss_codes(channel, draw)[: chosen.num_rounds] / explorer.GAIN_STEPS
    )
    return Problem(chosen, gain / chosen.batch_second_moment, budget)


def constant_levels(scenario, channel, draw):
    return 10 ** (explorer.level_codes(scenario, channel, draw) / explorer.LEVEL_STEPS)


@lru_cache
def by_package(scenario, channel, draw, level, order, multiple, cap, rounds=None):
    """The problem, and the schedule of each method, by the package; of the first ``rounds`` alone if given."""
    problem = posed(scenario, channel, draw, explorer.LEVELS[level], order)
    if rounds:
        problem = beginning(problem, rounds)
    penalty = tuning.match_budget(policies.AdaScale, problem) * multiple
    constant = constant_levels(scenario, channel, draw)[level]
    schedules = {
        "optimal": policies.Optimal().schedule(problem),
        "adascale": policies.AdaScale(penalty).schedule(problem),
        "equal": policies.EqualAlloc().schedule(problem),
        "constant": np.maximum(problem.min_noise_energy, constant),
        "learn": policies.Learn(budget_mode="hard").schedule(problem),
    }
    if cap:
        schedules["plain"] = plain_lyapunov(problem, float(penalty), [cap])[0]
    return problem, schedules


def differences(position, answer):
    """The largest relative difference of every quantity of every method, by name."""
    problem, schedules = by_package(**position)
    assert set(answer["methods"]) == set(schedules)
    half = problem.num_rounds // 2
    best = problem.rdp(schedules["optimal"])
    for name, w in schedules.items():
        shown = answer["methods"][name]
        rdp = problem.rdp(w)
        expected = {
            "w": w,
            "cost": problem.cost(w),
            "rdp": rdp,
            "ratio": rdp / best,
            "soFar": beginning(problem, half).rdp(w[:half]),
        }
        shown["soFar"] = shown["soFar"][half - 1]
        for quantity, value in expected.items():
            ratio = np.asarray(shown[quantity]) / value
            yield name, quantity, float(np.max(np.abs(ratio - 1)))


def test_the_page_computes_what_the_package_computes():
    assert {position["channel"] for position in POSITIONS} == {*explorer.CHANNELS}
    for position, answer in zip(POSITIONS, in_node(POSITIONS), strict=True):
        for name, quantity, difference in differences(position, answer):
            assert difference < TOLERANCE, (position, name, quantity, difference)


def test_epsilon_is_the_exact_one():
    (answer,) = in_node([START])
    problem, schedules = by_package(**START)
    for name, w in schedules.items():
        expected = exact_epsilon(problem, w)
        assert answer["methods"][name]["epsilon"] == pytest.approx(expected, rel=1e-4)


def exact_epsilon(problem, w):
    """The exact epsilon of the page's scenario, whose devices are alike."""
    sigma = np.atleast_2d(problem.noise_multiplier(w))[0]
    rate = float(problem.scenario.sampling_rate)
    return accounting.exact_epsilon(rate, sigma, explorer.DELTA).estimate


@pytest.mark.parametrize("change", CHANGES)
def test_changed_constant_is_seen(change):
    position = START | {"cap": 10}
    (answer,) = in_node([position], f"data.{change}")
    assert max(difference for _, _, difference in differences(position, answer)) > 1e-7


def test_the_committed_data_are_what_the_package_writes():
    assert (FOLDER / "data.js").read_text() == explorer.explorer_script(), (
        "run: python -m companion make explorer"
    )


@pytest.mark.parametrize("channel", explorer.CHANNELS)
def test_gains_and_levels_are_those_of_the_model_but_for_rounding(channel):
    model, scenario = explorer.CHANNELS[channel], Scenario.mnist()
    fading = model.draw(scenario.num_devices, scenario.num_rounds, seed=1)
    found = posed("mnist", channel, 1, explorer.LEVELS).min_gain
    rounding = 10 ** (0.0005 * (1 + 1e-9)) - 1  # half of 0.01 dB
    np.testing.assert_allclose(found, scenario.min_gain(fading.gain), rtol=rounding)
    law = model.floor_law(scenario, scenario.mean_gain(fading.path_loss))
    level = constant_levels("mnist", channel, 1)
    np.testing.assert_allclose(level, law.level(explorer.LEVELS), rtol=1.2e-5)


def beginning(problem, rounds):
    """The problem of the first rounds alone."""
    gain = problem.min_gain[:rounds]
    return Problem(problem.scenario, gain, problem.budget)
