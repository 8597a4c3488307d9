"""The explorer's arithmetic in JavaScript is the package's, digit by digit; what it ships is what it says."""

import json
import shutil
import subprocess
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, Scenario, policies, tuning
from companion import explorer
from companion.shi import plain_lyapunov

# the page takes the end of the list of orders without a word, too
pytestmark = pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "book" / "_static" / "explorer"
START = {
    "scenario": "mnist",
    "channel": "rayleigh",
    "draw": 0,
    "level": 12,
    "order": 3,
    "multiple": 1,
    "cap": None,
}
SOLVE = """
const [, folder, change] = process.argv;
require(folder + "/data.js");
require(folder + "/core.js");
const data = globalThis.ADASCALE_DATA, answers = [];
eval(change);
for (const controls of JSON.parse(require("fs").readFileSync(0, "utf8"))) {
  const core = globalThis.ADASCALE_CORE, answer = core.solve(data, controls), { w } = answer.methods.adascale;
  answer.queue = core.queueAfter(w, answer.floor, answer.nu);
  answer.epsilons = core.epsilonSoFar(w, data.scenarios[controls.scenario], data.orders, data.delta);
  answers.push(answer);
}
process.stdout.write(JSON.stringify(answers));
"""
TOLERANCE = (
    1e-9  # relative; AdaScale's V is a root that both sides find to 1e-12 of the cost
)
CHANGES = [
    "scenarios.mnist.unit *= 1 + 1e-7",
    "gains.rayleigh[0][0] += 1",
    "levels.mnist.rayleigh[0][0] += 1",
]


def positions():
    """Every channel model and draw, the data sets in turns; the sliders at random, and at their ends."""
    rng, found = np.random.default_rng(0), []
    ends = list(product((0, 24), (2, 16), (0.01, 100)))
    for number in range(6):  # every channel, and every draw
        channel, draw = list(explorer.CHANNELS)[number % 5], number % explorer.DRAWS
        level, order, decades = (
            rng.integers(len(explorer.LEVELS)),
            rng.integers(2, 17),
            rng.integers(-20, 21) / 10,
        )
        level, order, multiple = (
            ends[number] if number % 2 else (int(level), int(order), 10.0**decades)
        )
        controls = {
            "level": level,
            "order": order,
            "multiple": multiple,
            "cap": {1: 10, 3: 1e5}.get(number),
        }
        found.append(
            {
                "scenario": list(explorer.SCENARIOS)[number % 2],
                "channel": channel,
                "draw": draw,
            }
            | controls
        )
    return found


def in_node(asked, change=""):
    """What core.js computes for each position; ``change`` is JavaScript that may alter its data first."""
    node = shutil.which("node")
    if node is None:
        pytest.skip(
            "node is not installed: the explorer's JavaScript is not compared here"
        )
    command = [node, "-e", SOLVE, str(FOLDER), change]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def posed(scenario, channel, draw, budget, order=3):
    """The problem that the page solves for one position of its controls, with the same rounded gains."""
    chosen = replace(explorer.SCENARIOS[scenario], order=order)
    gain = 10 ** (
        -explorer.loss_codes(channel, draw)[: chosen.num_rounds] / explorer.GAIN_STEPS
    )
    return ReceiveScalingProblem(chosen, gain / chosen.batch_second_moment, budget)


def constant_levels(scenario, channel, draw):
    return 10 ** (explorer.level_codes(scenario, channel, draw) / explorer.LEVEL_STEPS)


@lru_cache
def by_package(scenario, channel, draw, level, order, multiple, cap, rounds=None):
    """The problem, and the schedule of each method, by the package; of the first ``rounds`` alone if given."""
    problem = posed(scenario, channel, draw, explorer.LEVELS[level], order)
    if rounds:
        problem = ReceiveScalingProblem(
            problem.scenario, problem.min_gain[:rounds], problem.budget
        )
    penalty = tuning.match_budget(policies.AdaScale, problem) * multiple
    constant = np.maximum(
        problem.min_noise_energy, constant_levels(scenario, channel, draw)[level]
    )
    schedules = {
        "optimal": policies.Optimal().schedule(problem),
        "adascale": policies.AdaScale(penalty).schedule(problem),
        "equal": policies.EqualAlloc().schedule(problem),
        "constant": constant,
        "learn": policies.Learn(budget_mode="hard").schedule(problem),
    }
    if cap:
        schedules["plain"] = plain_lyapunov(problem, float(penalty), cap).energy[0]
    return problem, schedules


def differences(position, answer):
    """The largest relative difference of every quantity of every method, by name."""
    problem, schedules = by_package(**position)
    assert set(answer["methods"]) == set(schedules)
    half = problem.min_gain.size // 2
    begun = ReceiveScalingProblem(
        problem.scenario, problem.min_gain[:half], problem.budget
    )
    best = problem.rdp(schedules["optimal"])
    for name, w in schedules.items():
        found, rdp = answer["methods"][name], problem.rdp(w)
        expected = {
            "noise energy": (found["w"], w),
            "cost": (found["cost"], problem.cost(w)),
            "RDP": (found["rdp"], rdp),
            "RDP so far": (found["soFar"][half - 1], begun.rdp(w[:half])),
            "ratio": (found["ratio"], rdp / best),
            "epsilon": (found["epsilon"], problem.epsilon(w, delta=explorer.DELTA)),
        }
        for quantity, (mine, packages) in expected.items():
            yield name, quantity, float(np.max(np.abs(np.asarray(mine) / packages - 1)))


def test_the_page_computes_what_the_package_computes():
    asked = [
        *positions(),
        START | {"rounds": 20, "draw": 1},
    ]  # the last one is the game's
    for position, answer in zip(asked, in_node(asked), strict=True):
        for name, quantity, difference in differences(position, answer):
            assert difference < TOLERANCE, (position, name, quantity, difference)


@pytest.mark.parametrize(
    "position", [START, START | {"scenario": "cifar10", "level": 20}]
)
def test_replay_has_the_queue_and_the_epsilon_of_every_round(position):
    (answer,) = in_node([position])
    problem, schedules = by_package(**position)
    w, queue = schedules["adascale"], 0.0
    for t, added in enumerate(w - problem.min_noise_energy):
        queue = max(queue + added - problem.budget, 0)
        assert answer["queue"][t] == pytest.approx(queue, abs=1e-9)
    for t in (1, 20, 250, problem.min_gain.size):
        begun = ReceiveScalingProblem(
            problem.scenario, problem.min_gain[:t], problem.budget
        )
        assert answer["epsilons"][t - 1] == pytest.approx(
            float(begun.epsilon(w[:t], delta=explorer.DELTA)), rel=TOLERANCE
        )


@pytest.mark.parametrize("change", [*CHANGES, "delta *= 1.00001"])
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
    drawn = model.draw(scenario.num_devices, scenario.num_rounds, seed=1)
    problem = posed("mnist", channel, 1, explorer.LEVELS)
    exact = scenario.min_gain(drawn.gain)
    assert np.abs(10 * np.log10(problem.min_gain / exact)).max() < 0.005 * (1 + 1e-9)
    law = model.floor_law(scenario, scenario.mean_gain(drawn.path_loss))
    constant = policies.ConstantLevel(law=law).start(scenario, problem.budget).level
    ratio = constant_levels("mnist", channel, 1) / constant
    assert np.abs(10 * np.log10(ratio)).max() < 0.00005 * (1 + 1e-9)
