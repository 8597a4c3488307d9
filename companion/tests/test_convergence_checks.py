"""What the convergence chapter tells in numbers: held to plain code, and its sentences to its own example."""

import numpy as np
import pytest
from scipy import stats

from adascale import Scenario, channel
from companion.theory import convergence_checks as checks
from companion.theory.air_time import limit_of_scale
from companion.theory.convergence import Training, example

PROBLEM = example(spread=0.15).problem  # five devices
CENTRE = Training(PROBLEM, np.zeros(5), 0.02, np.full(1000, 5.0), 4, 20)


def test_wrong_forms_of_the_theorem_are_broken():
    ratios = checks.broken_bounds(CENTRE)
    assert len(ratios) == 5
    assert max(ratios.values()) < 1
    assert (
        checks.over_exact(CENTRE._replace(noise_energy=np.full(1000, 100.0)))[
            "nearly exact"
        ]
        > 1
    )


def test_the_paper_refuses_the_noise_that_reaches_the_target():
    admissible = checks.allowances(CENTRE, 0.1)
    admitted = admissible["at_reached"]
    assert (
        admitted["the paper's"]
        < 0
        < admitted["shorter form"]
        < admitted["nearly exact"]
        < 5
    )
    # what is admitted, put back into the bound, is the target
    energy = np.full(1000, admissible["at_target"]["nearly exact"])
    bound = CENTRE._replace(noise_energy=energy).nearly_exact()
    assert float(bound.total) == pytest.approx(0.1, rel=1e-9)


def test_both_theorems_hold_for_the_loss_on_the_data_at_hand():
    training = Training(PROBLEM, np.zeros(5), 0.004, np.full(600, 5.0), 4, 40)
    sides = checks.fixed_data(training, np.random.default_rng(60), 100)
    assert sides.left + 2 * sides.half < sides.near < sides.paper
    pairs = (PROBLEM.constants, CENTRE.initial_gap), (sides.constants, sides.gap)
    population, these = (
        checks.promised(constants, gap, 0.1) for constants, gap in pairs
    )
    assert these["noise energy at γ = 0.1"] < 0 < population["noise energy at γ = 0.1"]


def test_the_scale_of_the_floors_times_the_devices_has_a_limit():
    for size in (10, 200):
        scenario = Scenario("many", size, 1, 100, 60, 6000, 1.0, 0.2, 1e-12)
        terms = scenario.noise_scale / scenario.x_max
        places = channel.draw(size, 1, seed=range(300)).path_loss
        product = size * terms * (1 / scenario.mean_gain(places)).sum(axis=-1)
        assert (
            abs(product.mean() - limit_of_scale(scenario))
            < 2.6 * product.std() / 300**0.5
        )


def test_the_running_mean_of_the_floors_has_landaus_law():
    rounds = 4096
    last = (
        checks.running_floors(np.random.default_rng(0), np.array([rounds]), 800)[:, 0]
        - np.log(rounds)
        - 1
    )
    landau = stats.landau(loc=np.log(np.pi / 2), scale=np.pi / 2)
    assert stats.kstest(last + 2 * np.euler_gamma, landau.cdf).pvalue > 0.01
    # negative control: the wrong centring
    assert stats.kstest(last + np.euler_gamma, landau.cdf).pvalue < 1e-6
