"""The browser's exact accountant, which proves nothing, lies within the intervals that the package proves."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from opacus.accountants import RDPAccountant

from adascale.accounting import beta, calibrate, epsilon

ENGINE = Path(__file__).parents[2] / "book" / "_static" / "explorer" / "exact.js"
ASK = """
require(process.argv[1]);
const ask = ([name, ...rest]) => globalThis.ADASCALE_EXACT[name](...rest);
const answers = JSON.parse(require("fs").readFileSync(0, "utf8")).map(ask);
process.stdout.write(JSON.stringify(answers));
"""
ROUNDED = 1e-7  # relative: far below what a page shows, above the width of some proofs


def in_node(questions):
    """What the engine answers to each [function, *arguments]."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the pages' JavaScript is not compared here")
    command = [node, "-e", ASK, str(ENGINE)]
    done = subprocess.run(
        command, input=json.dumps(questions), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def random_schedule(rng):
    """One to three phases, or up to five hundred different rounds; a sample takes part at least once on average."""
    phases = int(rng.choice([1, 1, 2, 3, 20, 500]))
    rates = 10 ** np.full(phases, rng.uniform(-2.5, 0))
    if phases <= 3:
        rates = 10 ** rng.uniform(-4, 0, phases)
        rates[: rng.random() < 0.1] = 1.0  # plain Gaussian rounds
    counts = np.ceil(10 ** rng.uniform(0, 2) / rates / phases).astype(int)
    spread = rng.normal(0, 0.2, phases)
    noise = np.maximum(10 ** (rng.uniform(-0.2, 1) + spread), 0.4)
    events = zip(rates.tolist(), noise.tolist(), counts.tolist(), strict=True)
    return [*map(list, events)], float(10 ** rng.uniform(-9, -3))


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 540), marks=pytest.mark.slow)], ids=len
)
def test_epsilon_lies_in_the_certified_interval(seeds):
    cases = [random_schedule(np.random.default_rng(seed)) for seed in seeds]
    answers = in_node([["epsilon", *case] for case in cases])
    for seed, case, answer in zip(seeds, cases, answers, strict=True):
        proven = epsilon(*case)
        low = proven.lower * (1 - ROUNDED)
        high = proven.upper * (1 + ROUNDED)
        assert low <= answer["epsilon"] <= high, (seed, answer, proven)


@pytest.mark.parametrize(
    "events",
    [
        [[0.005, 1.0, 2000]],
        [[0.005, 1.0, 2000], [0.01, 0.7324, 500]],
        [[0.005, 1.0, 2000], [0.01, 10.0, 500]],
        [[1.0, 20.0, 30], [0.3, 5.0, 10]],
    ],
)
def test_renyi_epsilon_is_that_of_opacus(events):
    (answer,) = in_node([["renyi", events, 1e-6]])
    peer = RDPAccountant()
    peer.history = [(sigma, rate, count) for rate, sigma, count in events]
    assert answer == pytest.approx(peer.get_epsilon(1e-6), rel=1e-6)


TRAININGS = [
    [[0.01, 1.0, 1000]],
    [[0.004, 0.8, 5000], [0.02, 3.0, 50]],
    [[1.0, 20.0, 30]],
]


@pytest.mark.parametrize("alarms", [0.01, 0.1])
def test_power_is_what_the_best_test_finds(alarms):
    answers = in_node([["power", events, alarms] for events in TRAININGS])
    for events, answer in zip(TRAININGS, answers, strict=True):
        miss = beta(events, alarms)
        assert (1 - miss.upper) * (1 - 1e-3) <= answer <= (1 - miss.lower) * (1 + 2e-3)


@pytest.mark.parametrize("wanted", [0.5, 2.0, 8.0])
def test_noise_gives_the_wanted_epsilon(wanted):
    answers = in_node([["noise", events, wanted, 1e-5] for events in TRAININGS])
    for events, answer in zip(TRAININGS, answers, strict=True):
        scaled = [[rate, noise * answer, count] for rate, noise, count in events]
        proven = epsilon(scaled, 1e-5)
        assert proven.lower * (1 - 1e-4) <= wanted <= proven.upper * (1 + 1e-4)


@pytest.mark.parametrize("wanted", [2.0, 8.0])
def test_noise_after_a_past_is_that_of_the_package(wanted):
    past, left = [[0.01, 1.1, 300]], [[0.02, 1.0, 500]]
    (answer,) = in_node([["noise", left, wanted, 1e-5, past]])
    proven = calibrate(left, wanted, 1e-5, fixed=past)
    assert answer == pytest.approx(proven.scale, rel=2e-3)
