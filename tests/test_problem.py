"""The problem in noise energies against the paper's formulas in x_t, written as plain loops."""

from dataclasses import replace

import numpy as np
import pytest

from adascale import Problem, accounting
from adascale.policies import EqualAlloc
from adascale.problem import RENYI, RoundLeakage, scaling, slopes

from . import reference
from .problems import CIFAR, FULL, MIXED, MNIST, PART, make

each_scenario = pytest.mark.parametrize(
    "scenario", [MNIST, CIFAR, MIXED, FULL, PART], ids=lambda scenario: scenario.name
)


def short(scenario):
    """A problem of eight rounds and some schedule of it."""
    problem = make(scenario, 0.05, rounds=8)
    share = np.random.default_rng(0).uniform(0.01, 1, 8)
    return problem, problem.min_noise_energy / share


@each_scenario
def test_variables_are_those_of_the_paper(scenario):
    problem, w = short(scenario)
    d, M, G = scenario.num_parameters, scenario.num_devices, scenario.clip_norm
    eta = problem.eta(w)
    np.testing.assert_allclose(problem.noise_energy(eta), w, rtol=1e-15)
    np.testing.assert_allclose(w, d * scenario.noise_power / eta, rtol=1e-14)
    # the power limit (16c) is tight
    power = problem.max_eta * G**2 / (d * M**2) / problem.min_gain
    np.testing.assert_allclose(power, scenario.max_power, rtol=1e-14)
    sigma, spend = problem.noise_multiplier(w), problem.spend(w)
    for t, h in enumerate(problem.min_gain):
        x = eta[t] / h
        constraint = reference.constraint(scenario, x, h)
        assert spend[t] == pytest.approx(constraint, rel=1e-11)
        for m in range(M):
            expected = reference.noise_multiplier(scenario, x, h, m)
            assert sigma[m, t] == pytest.approx(expected, rel=1e-14)


@each_scenario
def test_cost_is_the_left_hand_side_of_the_paper_s_constraint(scenario):
    problem, w = short(scenario)
    pairs = zip(problem.eta(w) / problem.min_gain, problem.min_gain, strict=True)
    expected = np.mean([reference.constraint(scenario, *pair) for pair in pairs])
    # differences of neighbours lose some digits
    assert float(problem.cost(w)) == pytest.approx(expected, rel=1e-12)
    # the floor is this very division
    assert float(problem.cost(problem.noise_energy(problem.max_eta))) == 0


@each_scenario
@pytest.mark.parametrize("alpha", [3, 8])
def test_leakage_is_the_sum_over_rounds_and_the_mean_over_devices(scenario, alpha):
    problem, _ = short(scenario)
    w = EqualAlloc().schedule(problem)
    x = problem.eta(w) / problem.min_gain
    leakages = [
        reference.device_rdp(scenario, x, problem.min_gain, m, alpha)
        for m in range(scenario.num_devices)
    ]
    assert float(problem.rdp(w, alpha)) == pytest.approx(np.mean(leakages), rel=1e-10)


def test_exposure_divides_the_noise_multiplier_of_each_device_and_round():
    plain, w = short(MIXED)
    exposure = 1 + np.random.default_rng(1).exponential(size=(3, 8))
    problem = Problem(MIXED, plain.min_gain, 0.05, exposure)
    sigma = problem.noise_multiplier(w)
    louder = plain.noise_multiplier(w) / np.sqrt(exposure)
    np.testing.assert_allclose(sigma, louder, rtol=1e-15)
    np.testing.assert_array_equal(problem.cost(w), plain.cost(w))
    rates = MIXED.sampling_rate
    epsilon = [RENYI.epsilon(*each, 1e-5) for each in zip(rates, sigma, strict=True)]
    np.testing.assert_allclose(problem.epsilons(w), epsilon, rtol=1e-9)
    assert problem.epsilon(w) == problem.epsilons(w).max()
    leaked = accounting.rdp(rates[:, None], sigma, 3).sum(axis=-1)
    assert float(problem.rdp(w)) == pytest.approx(leaked.mean(), rel=1e-12)


@pytest.mark.parametrize("exposure", [np.full((3, 8), 0.5), np.ones((4, 8))])
def test_an_exposure_below_one_or_of_another_shape_is_refused(exposure):
    with pytest.raises(ValueError, match="exposure"):
        Problem(MIXED, np.ones(8), 0.05, exposure)


def test_the_order_is_by_default_that_of_the_scenario():
    problem, w = short(replace(MIXED, order=2.5))
    assert problem.rdp(w) == problem.rdp(w, 2.5) != problem.rdp(w, 3)


def test_budgets_and_realisations_span_instances():
    nu = np.array([0.01, 0.1, 1.0])
    problem = make(MIXED, nu[:, None], seeds=[0, 1], rounds=6)
    w = EqualAlloc().schedule(problem)
    assert problem.noise_multiplier(w).shape == (3, 2, 3, 6)
    alone = Problem(MIXED, problem.min_gain[1], nu[2])
    for measure in (Problem.cost, Problem.rdp, Problem.epsilon):
        # the same terms; a sum over another memory layout may differ in its last digits
        value = float(measure(alone, w[2, 1]))
        assert measure(problem, w)[2, 1] == pytest.approx(value, rel=1e-14)


def test_scaling_is_exactly_the_cap_at_the_floor_and_never_above():
    cap, noise_scale = 10.0 ** np.random.default_rng(0).uniform(-3, 3, (2, 1000))
    floor = noise_scale / cap
    assert (noise_scale / floor < cap).any()  # the way back rounds
    np.testing.assert_array_equal(scaling(floor, floor, cap, noise_scale), cap)
    assert (scaling(np.nextafter(floor, np.inf), floor, cap, noise_scale) <= cap).all()


@each_scenario
@pytest.mark.parametrize("w", [0.01, 0.3, 20.0])
def test_round_leakage_is_the_sum_over_devices(scenario, w):
    x = scenario.num_parameters * scenario.noise_power / w  # at h = 1
    leakage, slope = RoundLeakage(scenario)(w), RoundLeakage(scenario).slope(w)
    expected = reference.round_leakage(scenario, x, 1.0)
    assert float(leakage) == pytest.approx(expected, rel=1e-10)
    sigma = [
        reference.noise_multiplier(scenario, x, 1.0, m)
        for m in range(scenario.num_devices)
    ]
    # the chain rule, as sigma grows with the root of w
    each = accounting.rdp_derivative(scenario.sampling_rate, sigma, 3)
    assert float(slope) == pytest.approx(np.sum(each * sigma) / (2 * w), rel=1e-10)


def test_a_leakage_or_slope_beyond_floating_point_is_refused():
    leakage = RoundLeakage(MNIST)
    assert np.isfinite([leakage(1e-100), leakage.slope(1e-100)]).all()
    with pytest.raises(ValueError, match=r"beyond floating point: .* of 1e-200"):
        leakage.slope([1.0, 1e-200])
    with pytest.raises(ValueError, match=r"beyond floating point: .* of 4.94e-324"):
        leakage(5e-324)


@pytest.mark.parametrize("method", ["eta", "spend", "rdp"])
def test_noise_energy_below_its_floor_is_refused(method):
    problem = Problem(MNIST, [[1e-12, 2e-12, 4e-12], [1e-12] * 3], 1.0)
    measure, floor = getattr(problem, method), problem.min_noise_energy
    measure(floor * (1 - 0.9e-9))  # rounding
    w = floor.copy()
    w[0, 2] *= 1 - 1.1e-9
    expected = f"must be at least its floor, .* against {floor[0, 2]} in round 2$"
    with pytest.raises(ValueError, match=expected):
        measure(w)


def test_eta_above_the_power_limit_is_refused():
    problem, above = make(MNIST, 0.05, rounds=8), np.ones(8)
    problem.noise_energy(problem.max_eta * (1 + 0.9e-9))  # rounding
    above[3] = 1 + 1.1e-9
    with pytest.raises(
        ValueError, match=r"must not exceed the power limit, .* round 3"
    ):
        problem.noise_energy(problem.max_eta * above)


@each_scenario
@pytest.mark.parametrize("order", [3, 2.5, 40])
def test_the_curvature_is_the_difference_of_slopes(scenario, order):
    leakage = RoundLeakage(scenario, order)
    for w in np.geomspace(1e-2, 1e2, 9) * leakage.unit_energy.max():
        step = 1e-4 * w
        slope, curvature = slopes(w, leakage.terms)
        difference = np.diff(leakage.slope([w - step, w + step]))[0] / (2 * step)
        # the difference leaves 1e-8; from s = 100 on a curvature is that of 1/w^2 alone
        assert curvature == pytest.approx(difference, rel=1e-5), w
        assert slope == pytest.approx(float(leakage.slope(w)), rel=1e-12)
