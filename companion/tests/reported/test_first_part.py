"""What chapters 1, 3 and 5 say of their own numbers for the paper's scenario, and that texts are read off so."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from adascale import ReceiveScalingProblem, Scenario, channel, policies, presets, tuning
from adascale.policies import water_level
from companion.reported import convergence as told_convergence
from companion.reported import penalty as told_penalty
from companion.reported import system as told_system
from companion.shi import plain_lyapunov
from companion.theory.air_time import block_floors
from companion.theory.convergence import Training, relative_bias, server_decay, used_power
from companion.theory.convergence_checks import allowances, mean_interval, over_exact, running_floors
from companion.theory.least_squares import LeastSquares

MNIST = Scenario.mnist()
DEVIATION = np.random.default_rng(0).standard_normal((5, 5))
PROBLEM = LeastSquares(np.array([1, 1, 0.8, 0.6, 0.5]), 0.3 + 0.15 * (DEVIATION - DEVIATION.mean(axis=0)), 0.3)
CENTRE = Training(PROBLEM, np.zeros(5), 0.02, np.full(1000, 5.0), 4, 20)


def drawn(seeds, budget=0.04):
    gain = channel.draw(MNIST.num_devices, MNIST.num_rounds, seeds).gain
    return ReceiveScalingProblem(MNIST, MNIST.min_gain(gain), budget)


# Chapter 1 ------------------------------------------------------------------------------------------------------------


def test_the_link_budget_is_told_in_decibels():
    problem = drawn(0)
    texts = told_system.of_water(problem, float(water_level(problem.floor, 0.04)))
    assert 10 ** (float(texts["water-power"]) / 10 - 3) == pytest.approx(MNIST.max_power, rel=0.15)
    assert 10 ** (float(texts["water-noise"].replace("−", "-")) / 10 - 3) == pytest.approx(MNIST.noise_power, rel=0.15)
    spent = policies.Optimal().schedule(problem)
    dry = np.isclose(problem.noise_energy(spent), problem.floor, rtol=1e-9, atol=0).mean()
    assert float(texts["water-dry"]) == pytest.approx(100 * dry, abs=0.51)


def test_the_least_cap_and_the_largest_floor_are_told_over_the_median():
    problem = ReceiveScalingProblem(MNIST, np.array([[1.0, 10, 100], [1, 1, 10]]) * 1e-12, 0.04)
    texts = told_system.of_caps(problem)
    assert (texts["below-low"], texts["below-high"], texts["floor-max-ratio"]) == ("0", "10", "10")


def test_a_batch_attains_the_second_moment_and_no_smaller_one():
    scenario = Scenario("small", 1, 40, 30, 2, 20, 1.0, 0.2, 1e-12)
    sizes = np.random.default_rng(0).binomial(20, 0.1, 20_000)
    mean, half = mean_interval(sizes**2 / 4)
    assert abs(mean - float(scenario.batch_second_moment)) < 1.5 * half
    assert mean - 1.5 * half > 1  # negative control: a size that does not vary
    assert told_system.of_batches(scenario, sizes)["empty-exact"] == f"{100 * 0.9**20:.0f}"


def test_the_scale_of_the_floors_times_the_devices_has_a_limit():
    for size in (10, 200):
        scenario = Scenario("many", size, 1, 100, 60, 6000, 1.0, 0.2, 1e-12)
        terms = scenario.noise_scale / scenario.x_max
        places = channel.draw(size, 1, seed=range(300)).path_loss
        product = size * terms * (1 / scenario.mean_gain(places)).sum(axis=-1)
        assert abs(product.mean() - told_system.limit_of_scale(scenario)) < 2.6 * product.std() / 300**0.5


def test_a_device_is_worth_leaving_out_if_its_share_exceeds_nineteen_hundredths():
    terms = np.array([[0.18] + [0.82 / 9] * 9, [0.2] + [0.8 / 9] * 9])
    texts = told_system.of_places(MNIST, terms)
    assert (texts["drop-share"], texts["farthest-share"], texts["omega-mid"]) == ("50", "19", "1")


def test_the_running_mean_of_the_floors_has_landaus_law():
    rounds = 4096
    last = running_floors(np.random.default_rng(0), [rounds], 800)[:, 0] - np.log(rounds) - 1
    landau = stats.landau(loc=np.log(np.pi / 2), scale=np.pi / 2)
    assert stats.kstest(last + 2 * np.euler_gamma, landau.cdf).pvalue > 0.01
    assert stats.kstest(last + np.euler_gamma, landau.cdf).pvalue < 1e-6  # negative control: the wrong centring


def test_medians_of_the_remedies_are_those_of_their_laws():
    law = block_floors(np.random.default_rng(5), [0.5, 0.3, 0.2], 13, 20_000)
    cases = {"mnist": MNIST, "cifar": Scenario.cifar10()}
    texts = told_system.of_air_time(cases, law, told_system.blocks_of(MNIST))
    assert texts["blocks-mnist"] == "13"
    assert float(texts["median-none"]) == pytest.approx(np.median(law.one), rel=0.05)
    assert float(texts["median-a"]) == pytest.approx(np.median(law.limit_in_blocks), rel=0.05)
    assert float(texts["median-e"]) == pytest.approx(13 * np.median(law.limit_on_energy), abs=0.06)


# Chapter 3 ------------------------------------------------------------------------------------------------------------


def test_the_nearly_exact_bound_is_told_in_per_cent():
    ratios = pd.Series([over_exact(CENTRE._replace(learning_rate=rate))["nearly exact"] for rate in (0.02, 0.005)])
    texts = told_convergence.of_nearness(CENTRE, ratios)
    assert 0 <= float(texts["near-percent-low"]) <= float(texts["near-percent-high"]) < 5
    assert float(texts["near-fast"]) > 1.2  # near its limit it is loose


def test_only_data_that_are_kept_bias_the_gradients_of_the_figure():
    quiet, checked = (
        CENTRE._replace(noise_energy=np.full(400, 0.5)),
        np.array([0, 50, 100, 150, 200, 250, 300, 350, 399]),
    )
    wide = stats.norm.ppf(1 - 0.025 / (2 * checked.size))  # jointly 95 % over both curves
    held = relative_bias(quiet, np.random.default_rng(50), 400, reuse=True)
    estimate, error = (values[checked] for values in held)
    assert abs(estimate[0]) < wide * error[0]  # the first model has seen no data
    assert (estimate[2:] + wide * error[2:] < 0).all()  # later ones have
    assert told_convergence.of_reuse(held, 20)["bias-last"] == f"−{-100 * estimate[-1]:.0f}"
    fresh, error = (values[checked] for values in relative_bias(quiet, np.random.default_rng(51), 400, reuse=False))
    assert (np.abs(fresh) < wide * error).all()  # negative control


def test_what_an_allowance_stands_for_is_read_off_the_table():
    worths = allowances(CENTRE, 0.1)
    texts = told_convergence.of_allowances(CENTRE, worths, 0.1)
    assert texts["target-paper"] == f"{float(CENTRE.paper().total):.3f}"
    assert texts["target-near"] == f"{float(CENTRE.nearly_exact().total):.4f}"
    assert 0 < float(texts["admitted-near"]) < 5 < 5 * float(texts["admitted-at-tenth"])


def test_the_last_layer_alone_asks_for_more_than_both_theorems_admit():
    cases = {"mnist": presets.load("mnist"), "cifar": presets.load("cifar10")}
    texts = told_convergence.of_steps(cases)
    admitted = [float(texts[f"{kind}-{name}"]) for kind in ("need", "near") for name in cases]
    assert max(admitted) < min(float(texts[f"last-{name}"]) for name in cases)


def test_momentum_breaks_the_bound_and_keeps_the_one_at_the_longer_step():
    factor = float(told_convergence.of_server(0.9, (1.0, 1e-4))["momentum-factor"])
    assert factor > 1 > factor * (1 - 0.9)
    assert float(told_convergence.of_server(0.0, (1.0, 1e-4))["momentum-factor"]) < 1  # negative control


def test_a_large_decay_at_the_server_breaks_the_bound_within_two_thousand_rounds_and_a_small_one_does_not():
    for zeta in (1.0, 1e-4):
        found = server_decay(zeta, 2000)
        assert (found.left > found.right) == (zeta == 1)
    texts = told_convergence.of_server(0.9, (1.0, 1e-4))
    assert int(texts["decay-soon"]) < 2000
    assert float(texts["decay-broken"]) == pytest.approx(server_decay(1e-4, 2000).broken_from / 1e9, abs=0.06)


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
    texts = told_convergence.of_power(used[60, "first"], used[60, "last"])
    assert 10 ** (-float(texts["power-db"]) / 10) == pytest.approx(used[60, "last"], rel=0.13)


def test_the_floors_term_falls_like_landaus_median():
    rounds = np.unique(np.geomspace(30, 1e5, 24).astype(int))
    middle = np.median(running_floors(np.random.default_rng(70), rounds, lanes=200), axis=0)
    assert (np.diff(middle / np.sqrt(rounds)) < 0).all()
    shift = 1 - 2 * np.euler_gamma + stats.landau(np.log(np.pi / 2), np.pi / 2).median()
    np.testing.assert_allclose(middle, np.log(rounds) + shift, atol=1)  # three standard errors of 200 lanes


# Chapter 5 ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned():
    problem = drawn(0)
    return problem, float(tuning.match_budget(policies.AdaScale, problem))


def test_the_plain_method_leaks_more_the_higher_its_cap(tuned):
    problem, V = tuned
    caps, least = np.geomspace(1, 1e5, 6), problem.rdp(policies.Optimal().schedule(problem))
    plain = plain_lyapunov(problem, V, caps)
    over = problem.rdp(MNIST.noise_scale / plain.energy[-1]) / least
    ratio = {
        cap: float(problem.rdp(MNIST.noise_scale / row) / least) for cap, row in zip(caps, plain.energy, strict=True)
    }
    assert (np.diff(list(ratio.values())) > 0).all()
    assert (plain.energy[-1] - problem.floor).mean() == pytest.approx(1e5 / MNIST.num_rounds, rel=0.01)
    texts = told_penalty.of_collapse(problem, V, {round(cap): value for cap, value in ratio.items()})
    assert texts["leak-last"] == f"{over:,.0f}"
    assert 1 < float(texts["leak-good"]) < float(texts["leak-10"])
    assert texts["cap-safe"] == "20"


def test_what_is_told_of_one_training_is_read_off_it(tuned):
    problem, V = tuned
    eta = policies.AdaScale(V).schedule(problem)
    queue = [0.0]
    for spent in problem.noise_energy(eta) - problem.floor:
        queue.append(max(queue[-1] + spent - 0.04, 0.0))
    texts = told_penalty.of_queue(problem, eta, np.array(queue))
    assert texts["queue-max"] == f"{max(queue) / 0.04:.1f}"
    assert 1 < float(texts["ratio-0"]) < 1.2
    several = ReceiveScalingProblem(MNIST, problem.min_gain, np.full(2, 0.04))
    eta = policies.AdaScale(V * np.array([1.0, 100.0])).schedule(several)
    texts = told_penalty.of_sweep(problem, several.cost(eta), several.rdp(eta))
    assert texts["cost-low"] == "1.00"
    assert float(texts["cost-high"]) > 1
    assert 1 < float(texts["sweep-worst"]) < 1.2


def test_means_over_realisations_are_geometric():
    nus, ratio = (
        np.array([0.01, 0.16]),
        {"AdaScale": np.array([[1.0, 1.21], [1.02, 1.02]]), "EqualAlloc": np.array([[4.0, 9.0], [1.2, 1.2]])},
    )
    texts = told_penalty.of_closeness(nus, ratio, np.array([[0.4, 31], [0.1, 0.2]]))
    assert (texts["excess-low"], texts["excess-high"], texts["worst"]) == ("10", "2.0", "1.21")
    assert (texts["equal-low"], texts["equal-high"]) == ("6", "1.20")
    assert (texts["optimum-low"], texts["optimum-high"]) == ("0.4", "31")
    texts = told_penalty.of_tuned(np.array([[1.0, 4000], [1, 3]]), np.array([[2.0, 3], [4, 13]]), np.array([1.0, 10]))
    assert (texts["spread-low"], texts["spread-high"], texts["scaled-min"]) == ("4,000", "3.0", "2.0")
    assert texts["path-correlation"] == "1.00"
    share = {"other realisations": np.array([[0.5, 2.0], [0.9, 1.02]]), "path losses": np.array([[0.95, 1.1], [1, 1]])}
    leaked = {"other realisations": np.ones((2, 2)), "path losses": np.array([[1.0, 1.44], [1.03, 1.03]])}
    texts = told_penalty.of_rules(share, leaked, {"path losses": np.array([[1.0, 1.21], [1.02, 1.02]])})
    assert (texts["blind-low"], texts["blind-high"], texts["blind-end"]) == ("0.5", "2.0", "10")
    assert (texts["rule-excess"], texts["rule-end"], texts["same-cost"]) == ("20", "3.0", "1.21")
    assert (texts["rule-paid"], texts["rule-paid-end"]) == ("10", "2.0")
    assert (texts["rule-spent"], texts["rule-spent-end"]) == ("1.02", "1.000")
