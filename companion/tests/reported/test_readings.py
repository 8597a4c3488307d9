"""What the appendices on readings and on exact accounting say of their tables, and how their numbers are read off."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario, accounting, channel, policies
from companion.bounds.convexity import delta_slopes
from companion.leakage.benchmarks import choices_table
from companion.leakage.shi_pairs import penalty_scan
from companion.reported import readings as told_readings

MNIST = Scenario.mnist()


@pytest.fixture(scope="module")
def lanes():
    gain = channel.draw(MNIST.num_devices, MNIST.num_rounds, range(20)).gain
    return ReceiveScalingProblem(MNIST, MNIST.min_gain(gain), np.array([[0.01], [0.16]]))


@pytest.fixture(scope="module")
def choices():
    return choices_table("mnist", [0.01, 0.16], range(6))


def test_some_choices_multiply_epsilon_and_others_do_little(choices):
    most = np.exp(abs(np.log(choices.ratio)).groupby(choices.choice).max())
    for name in (
        "LyapunovPowerControl: worst pair on the grid",
        "PowerControl: not subtracted",
        "PowerControl: r = 0.99",
    ):
        assert most[name] > 3
    assert most["AdaScale: order 32"] < 1.2
    assert most["LyapunovPowerControl: r = 0.999"] < 1.08  # six realisations; 0.97 to 1.00 with a hundred


def test_nothing_but_a_growing_penalty_and_a_filled_queue_is_kinder_than_what_is_drawn(choices):
    kinder = {
        "LyapunovPowerControl: r = 0.99",
        "LyapunovPowerControl: r = 0.999",
        "LyapunovPowerControl: queue filled at the start",
        "LyapunovPowerControl: filled, and V = 30 η̄³",
    }
    assert (choices[~choices.choice.isin(kinder)].high > 0.99).all()
    assert {*choices[choices.high < 0.99].choice} <= kinder


def test_cost_rises_with_v_below_a_quarter_of_the_cubed_rate_and_hardly_above(lanes):
    relative, rates = np.geomspace(1e-2, 1e4, 601), [0.5, 1.0, 3.0]
    one = ReceiveScalingProblem(MNIST, lanes.min_gain[1], 0.16)
    scan = told_readings.Scan(relative, penalty_scan(one, rates, relative))
    assert (scan.rises_below > 0.1).all()
    assert (scan.rises_above < 0.01).all()
    assert abs(scan.plateau(1) - 1).max() < 0.06
    assert (scan.plateau(0) > 1.1).all()
    assert (scan.plateau(2) < 1).all()
    small, large = (relative[1:][scan.crossings[row]] for row in (0, 2))
    assert small.min() > 1 > large.max()
    assert large.min() < 0.25


def test_a_growing_penalty_shortens_the_opening(lanes):
    opened = told_readings.openings(lanes)
    assert opened[0.99].start[0] < 0.3 * opened[1.0].start[0]
    assert opened[0.99].early[0] < 0.75 * opened[1.0].early[0]  # twenty realisations


def test_at_the_optimum_dry_rounds_are_flatter_and_delta_is_nearly_a_sum():
    """In the paper's regime, for one of the lines of the appendix."""
    gain = channel.draw(MNIST.num_devices, MNIST.num_rounds, seed=0).gain
    problem = ReceiveScalingProblem(MNIST, MNIST.min_gain(gain), 0.04)
    sigma, rate = problem.noise_multiplier(policies.Optimal().schedule(problem))[0], float(MNIST.sampling_rate)
    assert problem.noise_multiplier(problem.max_eta).min() < 12**-0.5 < sigma.min()
    exact = accounting.exact_epsilon(rate, sigma, 1e-5)
    assert exact.direction == "add"
    found, wet = delta_slopes(rate, sigma, exact.epsilon), sigma < sigma.min() * (1 + 1e-9)
    assert abs(found.delta / 1e-5 - 1) < 1e-4
    assert (found.slope[~wet] / found.slope[wet][0]).max() < 1
    assert found.curvature[wet][0] > found.mixed[wet][0] > 0


def test_the_package_is_faster_than_its_peers_by_more_than_the_appendix_says():
    table = pd.read_csv(Path(__file__).parents[3] / "results" / "benchmarks" / "accounting.csv")
    peers = table[table.accountant.str.startswith(("Opacus", "dp-"))]
    assert len(peers) == 6
    assert (peers.times_certified > 20).all()
    assert (peers.times_sharp > 50).all()
