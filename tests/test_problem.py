"""The problem in noise energies against the paper's formulas in x_t, written as plain loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, Scenario, accounting, channel
from adascale.policies import EqualAlloc
from adascale.problem import RoundLeakage, scaling

from . import reference

MNIST = Scenario.mnist()
# three devices, two of them alike
MIXED = Scenario("mixed", 3, 8, 1000, (20, 60, 20), (1000, 600, 1000), 1.5, 0.2, 1e-12, 3)
FULL = replace(MIXED, name="full", batch_size=40, dataset_size=40)  # q = 1
SCENARIOS = [MNIST, Scenario.cifar10(), MIXED, FULL]


def make(scenario, rounds=8, seed=0, budget=0.05):
    gain = channel.draw(scenario.num_devices, rounds, seed).gain
    return ReceiveScalingProblem(scenario, scenario.min_gain(gain), budget)


def some_eta(problem, seed=0):
    share = np.random.default_rng(seed).uniform(0.01, 1, problem.lanes + (problem.num_rounds,))
    return share * problem.max_eta


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_variables_are_those_of_the_paper(scenario):
    problem = make(scenario)
    eta = some_eta(problem)
    x = eta / problem.min_gain
    batch = np.broadcast_to(scenario.batch_size, scenario.num_devices)
    for t in range(8):
        # each is a handful of roundings
        assert problem.max_eta[t] == pytest.approx(reference.x_max(scenario) * problem.min_gain[t], rel=1e-14)
        power = problem.max_eta[t] * scenario.clip_norm**2 / (scenario.num_parameters * scenario.num_devices**2)
        assert power / problem.min_gain[t] == pytest.approx(
            scenario.max_power, rel=1e-14
        )  # the power limit (16c) is tight
        noise = problem.noise_energy(eta)[t]
        assert noise == pytest.approx(scenario.num_parameters * scenario.noise_power / eta[t], rel=1e-14)
        assert noise - problem.floor[t] == pytest.approx(
            reference.constraint(scenario, x[t], problem.min_gain[t]), rel=1e-11
        )
        for m in range(scenario.num_devices):
            sigma = problem.noise_multiplier(eta)[m, t]
            assert sigma == pytest.approx(reference.noise_multiplier(scenario, x[t], problem.min_gain[t], m), rel=1e-14)
            # equation (15), before the change of variable
            direct = scenario.num_devices * batch[m] * math.sqrt(scenario.noise_power)
            assert sigma == pytest.approx(direct / (math.sqrt(2 * eta[t]) * scenario.clip_norm), rel=1e-14)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_cost_is_the_left_hand_side_of_the_paper_s_constraint(scenario):
    problem = make(scenario)
    eta = some_eta(problem)
    expected = reference.cost(scenario, eta / problem.min_gain, problem.min_gain)
    assert float(problem.cost(eta)) == pytest.approx(expected, rel=1e-12)  # differences of neighbours lose some digits


def test_full_power_costs_nothing():
    problem = make(MNIST)
    # w and its floor are then one division each of the same numbers
    assert float(problem.cost(problem.max_eta)) == 0


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("alpha", [2, 3, 8])
def test_leakage_is_the_sum_over_rounds_and_the_mean_over_devices(scenario, alpha):
    problem = make(scenario)
    eta = EqualAlloc().schedule(problem)
    x = eta / problem.min_gain
    devices = range(scenario.num_devices)
    each = [reference.device_rdp(scenario, x, problem.min_gain, m, alpha) for m in devices]
    # the plain sum of Lemma 1 is 1 plus the leakage: leakages of 1e-5 and more keep 1e-10 of themselves
    assert float(problem.rdp(eta, alpha)) == pytest.approx(math.fsum(each) / scenario.num_devices, rel=1e-9)


def test_leakage_defaults_to_the_order_of_the_scenario():
    problem = make(replace(MIXED, order=2.5))
    eta = some_eta(problem)
    assert problem.rdp(eta) == problem.rdp(eta, 2.5)
    assert problem.rdp(eta) != problem.rdp(eta, 3)


def test_dp_leakage_is_the_mean_of_each_device_s_epsilon():
    problem = make(MIXED)
    eta = some_eta(problem)
    sigma = problem.noise_multiplier(eta)
    each = []
    for m in range(3):
        curve = [
            accounting.compose(accounting.rdp(MIXED.sampling_rate[m], sigma[m], a)) for a in accounting.DEFAULT_ORDERS
        ]
        each.append(float(accounting.to_dp(curve, delta=1e-6).epsilon))
    assert len(set(each)) == 2  # the first and the last device are alike
    assert float(problem.dp_epsilon(eta, 1e-6)) == pytest.approx(sum(each) / 3, rel=1e-12)


def test_budgets_and_realisations_span_lanes():
    gain = channel.draw(3, 6, [0, 1]).gain
    min_gain, budgets = MIXED.min_gain(gain), np.array([0.01, 0.1, 1.0])
    problem = ReceiveScalingProblem(MIXED, min_gain, budgets[:, None])
    eta = EqualAlloc().schedule(problem)
    assert problem.lanes == (3, 2)
    assert eta.shape == (3, 2, 6)
    assert problem.noise_multiplier(eta).shape == (3, 2, 3, 6)
    cost, rdp, epsilon = problem.cost(eta), problem.rdp(eta), problem.dp_epsilon(eta)
    assert cost.shape == rdp.shape == epsilon.shape == (3, 2)
    for k in range(3):
        for r in range(2):
            alone = ReceiveScalingProblem(MIXED, min_gain[r], budgets[k])
            single = EqualAlloc().schedule(alone)
            np.testing.assert_array_equal(eta[k, r], single)
            assert cost[k, r] == alone.cost(single)
            # the same terms; a sum over another memory layout may differ in its last digits
            assert rdp[k, r] == pytest.approx(float(alone.rdp(single)), rel=1e-14)
            assert epsilon[k, r] == pytest.approx(float(alone.dp_epsilon(single)), rel=1e-14)


def test_one_schedule_broadcasts_over_all_lanes():
    problem = ReceiveScalingProblem(MIXED, np.full((2, 6), 1e-9), np.array([0.1, 0.2, 0.3])[:, None])
    assert problem.cost(problem.max_eta[0] / 2).shape == (2,)
    assert problem.rdp(problem.max_eta[0] / 2).shape == ()


def test_the_horizon_is_that_of_the_gains():
    assert make(MNIST, rounds=17).num_rounds == 17
    assert make(MNIST, rounds=17).scenario == replace(MNIST, num_rounds=17)
    assert MNIST.num_rounds == 500


def test_scaling_is_exactly_the_cap_at_the_floor_and_never_above():
    floor = np.geomspace(1e-6, 1e6, 1001)
    max_eta = 3.7 / floor
    at, above = scaling(floor, floor, max_eta, 3.7), scaling(np.nextafter(floor, np.inf), floor, max_eta, 3.7)
    np.testing.assert_array_equal(at, max_eta)
    assert (above <= max_eta).all()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_round_leakage_is_the_sum_over_devices(scenario):
    for w in (0.01, 0.3, 20.0):
        x = scenario.num_parameters * scenario.noise_power / w  # at h = 1
        expected = reference.round_leakage(scenario, x, 1.0, 3)
        assert float(RoundLeakage(scenario)(w)) == pytest.approx(expected, rel=1e-8)  # small leakages, plain sum
        exact = float(reference.exact_slope(scenario, 3)(reference.mp.mpf(w)))
        assert float(RoundLeakage(scenario).slope(w)) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("order", [1.1, 1.9, 2, 2.5, 3, 8, 10.9])
def test_slope_agrees_with_finite_differences(order):
    for scenario in SCENARIOS:
        leakage = RoundLeakage(scenario, order)
        w = np.geomspace(1e-3, 1e3, 25)
        h = 1e-5 * w
        # truncation (1e-5)^2 times a third derivative, relative, of up to (alpha unit / w)^2; rounding 1e-13 / 1e-5
        np.testing.assert_allclose(leakage.slope(w), (leakage(w + h) - leakage(w - h)) / (2 * h), rtol=1e-5)


energies = st.floats(-4, 5).map(lambda x: 10.0**x)


@given(energies, energies, st.sampled_from([1.01, 1.5, 2, 2.5, 3, 8, 20]), st.sampled_from(SCENARIOS))
def test_leakage_is_convex_and_decreasing_in_the_noise_energy(v, w, order, scenario):
    leakage = RoundLeakage(scenario, order)
    low, high = min(v, w), max(v, w)
    assert leakage(high) <= leakage(low) * (1 + 1e-12)  # equal up to rounding when v = w
    assert leakage((v + w) / 2) <= (leakage(v) + leakage(w)) / 2 * (1 + 1e-12)
    assert leakage.slope(low) <= leakage.slope(high) * (1 - 1e-10) < 0  # both slopes are negative


def test_a_leakage_or_slope_beyond_floating_point_is_refused_by_name():
    leakage = RoundLeakage(Scenario.mnist())
    assert np.isfinite([leakage(1e-100), leakage.slope(1e-100)]).all()
    for function, energy in ((leakage.slope, 1e-200), (leakage.slope, [1.0, 1e-300]), (leakage, 5e-324)):
        with pytest.raises(
            ValueError, match=f"beyond floating point: the leakage at a noise energy of {np.min(energy):.3g}"
        ):
            function(energy)


def test_the_least_scaling_that_is_taken_has_five_digits_and_a_smaller_one_is_refused():
    scenario = replace(MNIST, noise_power=1e-18 / MNIST.num_parameters)  # so that eta is 1e-18 / w
    last = 0.99999e300
    problem = ReceiveScalingProblem(scenario, [1.0], last)
    eta = EqualAlloc().schedule(problem)
    assert eta[0] == pytest.approx(1.00001e-318, rel=1e-5)
    assert problem.cost(eta) == pytest.approx(last, rel=1e-5)
    with pytest.raises(ValueError, match=r"eta = 1e-318 in a round that spends .*; expected at least 1e-318$"):
        ReceiveScalingProblem(scenario, [1.0], 1.0001e300)


@pytest.mark.parametrize("gain", [1e-9, np.ones((2, 0))], ids=["a number", "no rounds"])
def test_gains_without_rounds_are_refused(gain):
    with pytest.raises(ValueError, match="min_gain must have a last axis of rounds, got shape"):
        ReceiveScalingProblem(MNIST, gain, 0.1)


@pytest.mark.parametrize("method", ["noise_energy", "noise_multiplier", "cost", "spend", "rdp", "dp_epsilon"])
def test_eta_above_the_power_limit_is_refused(method):
    problem = make(MNIST)
    call, above = getattr(problem, method), np.ones(problem.num_rounds)
    call(problem.max_eta * (1 + 0.9e-9))  # rounding
    above[3] = 1 + 1.1e-9
    with pytest.raises(ValueError, match=r"eta must not exceed the power limit, got .* in round 3$"):
        call(problem.max_eta * above)


def test_device_epsilons_are_their_mean_and_the_largest():
    problem = make(replace(MNIST, batch_size=np.arange(10.0, 10 + MNIST.num_devices)))
    eta, accountant = problem.max_eta / 2, accounting.RenyiAccountant()
    rates = problem.scenario.sampling_rate
    each = [accountant.epsilon(float(q), s, 1e-5) for q, s in zip(rates, problem.noise_multiplier(eta), strict=True)]
    found = problem.device_epsilons(eta, accountant)
    assert [found.mean, found.largest] == pytest.approx([np.mean(each), np.max(each)], rel=1e-12)
    assert problem.epsilon(eta, accountant) == found.mean


def test_an_epsilon_is_at_a_delta_of_1e_5_unless_told_otherwise():
    problem, accountant = make(MNIST), accounting.RenyiAccountant()
    assert problem.epsilon(problem.max_eta, accountant) == problem.epsilon(problem.max_eta, accountant, 1e-5)
    assert problem.epsilon(problem.max_eta, accountant) == problem.dp_epsilon(problem.max_eta)
