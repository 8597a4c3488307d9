"""What chapters 1, 3 and 5 say of their own numbers for the paper's scenario, and that texts are read off so."""

import numpy as np
import pytest
from scipy import stats

from adascale import ReceiveScalingProblem, Scenario, channel, policies, tuning
from companion.reported import system as told_system
from companion.shi import plain_lyapunov
from companion.theory.convergence import Training, used_power
from companion.theory.convergence_checks import mean_interval, running_floors
from companion.theory.least_squares import LeastSquares

MNIST = Scenario.mnist()
DEVIATION = np.random.default_rng(0).standard_normal((5, 5))
PROBLEM = LeastSquares(np.array([1, 1, 0.8, 0.6, 0.5]), 0.3 + 0.15 * (DEVIATION - DEVIATION.mean(axis=0)), 0.3)
CENTRE = Training(PROBLEM, np.zeros(5), 0.02, np.full(1000, 5.0), 4, 20)


def drawn(seeds, budget=0.04):
    gain = channel.draw(MNIST.num_devices, MNIST.num_rounds, seeds).gain
    return ReceiveScalingProblem(MNIST, MNIST.min_gain(gain), budget)


def test_a_batch_attains_the_second_moment_and_no_smaller_one():
    scenario = Scenario("small", 1, 40, 30, 2, 20, 1.0, 0.2, 1e-12)
    sizes = np.random.default_rng(0).binomial(20, 0.1, 20_000)
    mean, half = mean_interval(sizes**2 / 4)
    assert abs(mean - float(scenario.batch_second_moment)) < 1.5 * half
    assert mean - 1.5 * half > 1  # negative control: a size that does not vary


def test_the_scale_of_the_floors_times_the_devices_has_a_limit():
    for size in (10, 200):
        scenario = Scenario("many", size, 1, 100, 60, 6000, 1.0, 0.2, 1e-12)
        terms = scenario.noise_scale / scenario.x_max
        places = channel.draw(size, 1, seed=range(300)).path_loss
        product = size * terms * (1 / scenario.mean_gain(places)).sum(axis=-1)
        assert abs(product.mean() - told_system.limit_of_scale(scenario)) < 2.6 * product.std() / 300**0.5


def test_the_running_mean_of_the_floors_has_landaus_law():
    rounds = 4096
    last = running_floors(np.random.default_rng(0), [rounds], 800)[:, 0] - np.log(rounds) - 1
    landau = stats.landau(loc=np.log(np.pi / 2), scale=np.pi / 2)
    assert stats.kstest(last + 2 * np.euler_gamma, landau.cdf).pvalue > 0.01
    assert stats.kstest(last + np.euler_gamma, landau.cdf).pvalue < 1e-6  # negative control: the wrong centring


def test_clipped_training_rests_where_the_gradient_is_not_zero():
    outcomes, probability = np.array([0.0, 10.0]), np.array([0.9, 0.1])
    assert probability @ np.clip(1 / 9 - outcomes, -1, 1) == pytest.approx(0, abs=1e-15)
    assert probability @ (1 / 9 - outcomes) == pytest.approx(-8 / 9)


def test_less_power_is_used_with_larger_batches_and_near_the_minimiser():
    features, labels = PROBLEM.draw(np.random.default_rng(80), 2000, 20)
    clip = float(np.median(np.linalg.norm(features * labels[..., None], axis=-1)))
    used = {
        (size, name): used_power(PROBLEM, place, clip, size, 0.01, np.random.default_rng(80))
        for size in (4, 60)
        for name, place in (("first", np.zeros(5)), ("last", PROBLEM.minimiser))
    }
    assert used[60, "last"] < used[4, "last"] < used[4, "first"] < 1


def test_the_floors_term_falls_like_landaus_median():
    rounds = np.unique(np.geomspace(30, 1e5, 24).astype(int))
    middle = np.median(running_floors(np.random.default_rng(70), rounds, lanes=200), axis=0)
    assert (np.diff(middle / np.sqrt(rounds)) < 0).all()
    shift = 1 - 2 * np.euler_gamma + stats.landau(np.log(np.pi / 2), np.pi / 2).median()
    np.testing.assert_allclose(middle, np.log(rounds) + shift, atol=1)  # three standard errors of 200 lanes


@pytest.fixture(scope="module")
def tuned():
    problem = drawn(0)
    return problem, float(tuning.match_budget(policies.AdaScale, problem))


def test_the_plain_method_leaks_more_the_higher_its_cap(tuned):
    problem, V = tuned
    caps, least = np.geomspace(1, 1e5, 6), problem.rdp(policies.Optimal().schedule(problem))
    plain = plain_lyapunov(problem, V, caps)
    ratio = [float(problem.rdp(MNIST.noise_scale / row) / least) for row in plain.energy]
    assert (np.diff(ratio) > 0).all()
    assert (plain.energy[-1] - problem.floor).mean() == pytest.approx(1e5 / MNIST.num_rounds, rel=0.01)
