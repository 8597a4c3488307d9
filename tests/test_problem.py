"""The problem in noise energies against the paper's formulas in x_t, written as plain loops."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, accounting, channel
from adascale.comparison import find_method
from adascale.policies import EqualAlloc
from adascale.problem import RoundLeakage, scaling, slopes

from . import reference
from .problems import CIFAR, FULL, MIXED, MNIST, PART, drawn, make

each_scenario = pytest.mark.parametrize(
    "scenario", [MNIST, CIFAR, MIXED, FULL, PART], ids=lambda each: each.name
)


def short(scenario, rounds=8):
    """A problem of few rounds and some schedule of it."""
    problem = make(scenario, 0.05, rounds=rounds)
    return problem, problem.min_noise_energy / np.random.default_rng(0).uniform(
        0.01, 1, rounds
    )


@each_scenario
def test_variables_are_those_of_the_paper(scenario):
    problem, w = short(scenario)
    eta = problem.eta(w)
    x = eta / problem.min_gain
    batch = np.broadcast_to(scenario.batch_size, scenario.num_devices)
    for t, h in enumerate(problem.min_gain):
        # each is a handful of roundings
        assert problem.max_eta[t] == pytest.approx(
            reference.x_max(scenario) * h, rel=1e-14
        )
        power = (
            problem.max_eta[t]
            * scenario.clip_norm**2
            / (scenario.num_parameters * scenario.num_devices**2)
        )
        assert power / h == pytest.approx(
            scenario.max_power, rel=1e-14
        )  # the power limit (16c) is tight
        noise = problem.noise_energy(eta)[t]
        assert w[t] == pytest.approx(noise, rel=1e-15)
        assert noise == pytest.approx(
            scenario.num_parameters * scenario.noise_power / eta[t], rel=1e-14
        )
        assert noise - problem.min_noise_energy[t] == pytest.approx(
            reference.constraint(scenario, x[t], h), rel=1e-11
        )
        for m in range(scenario.num_devices):
            sigma = problem.noise_multiplier(w)[m, t]
            assert sigma == pytest.approx(
                reference.noise_multiplier(scenario, x[t], h, m), rel=1e-14
            )
            # equation (15), before the change of variable
            protecting = scenario.privacy_noise_power or scenario.noise_power
            direct = scenario.num_devices * batch[m] * math.sqrt(protecting)
            assert sigma == pytest.approx(
                direct / (math.sqrt(2 * eta[t]) * scenario.clip_norm), rel=1e-14
            )


@each_scenario
def test_cost_is_the_left_hand_side_of_the_paper_s_constraint(scenario):
    problem, w = short(scenario)
    expected = reference.cost(
        scenario, problem.eta(w) / problem.min_gain, problem.min_gain
    )
    assert float(problem.cost(w)) == pytest.approx(
        expected, rel=1e-12
    )  # differences of neighbours lose some digits
    assert (
        float(problem.cost(problem.noise_energy(problem.max_eta))) == 0
    )  # the floor is this very division


@each_scenario
@pytest.mark.parametrize("alpha", [2, 3, 8])
def test_leakage_is_the_sum_over_rounds_and_the_mean_over_devices(scenario, alpha):
    problem, _ = short(scenario)
    w = EqualAlloc().schedule(problem)
    x, devices = problem.eta(w) / problem.min_gain, range(scenario.num_devices)
    each = [
        reference.device_rdp(scenario, x, problem.min_gain, m, alpha) for m in devices
    ]
    assert float(problem.rdp(w, alpha)) == pytest.approx(
        math.fsum(each) / scenario.num_devices, rel=1e-10
    )


@pytest.mark.parametrize("share", [1.0, 0.25, 1e-3])
def test_the_part_of_the_noise_that_protects_changes_leakage_alone(share):
    """Floors, caps and the schedules of policies that need no leakage are the same to the last bit."""
    part = replace(MNIST, privacy_noise_power=share * MNIST.noise_power)
    (whole, mean_gain), (other, _) = (
        drawn(scenario, 0.04, [0, 1], 200) for scenario in (MNIST, part)
    )
    np.testing.assert_array_equal(other.max_eta, whole.max_eta)
    np.testing.assert_array_equal(other.min_noise_energy, whole.min_noise_energy)
    for name in (
        "optimal",
        "equalalloc",
        "constantlevel",
        "learn",
        "learn:budget_mode=hard",
        "resolve",
        "estimfuture",
    ):
        _, method = find_method(name)
        w, same = (method(each, mean_gain).schedule(each) for each in (whole, other))
        np.testing.assert_array_equal(w, same)
        np.testing.assert_array_equal(whole.cost(w), other.cost(w))
        louder = np.sqrt(share) * whole.noise_multiplier(w)
        np.testing.assert_allclose(other.noise_multiplier(w), louder, rtol=1e-15)
    penalty, changed = (
        find_method("adascale")[1](each).penalty for each in (whole, other)
    )
    assert (changed == penalty).all() == (share == 1)


@each_scenario
def test_exposure_divides_the_noise_multiplier_of_each_device_and_round(scenario):
    plain, w = short(scenario)
    rng, M = np.random.default_rng(1), scenario.num_devices
    exposure = 1 + rng.exponential(size=(M, 8))
    problem = ReceiveScalingProblem(scenario, plain.min_gain, 0.05, exposure)
    sigma, rates = (
        problem.noise_multiplier(w),
        np.broadcast_to(scenario.sampling_rate, M),
    )
    np.testing.assert_allclose(
        sigma * np.sqrt(exposure), plain.noise_multiplier(w), rtol=1e-15
    )
    np.testing.assert_array_equal(problem.cost(w), plain.cost(w))
    accountant, order = accounting.RenyiAccountant(), scenario.order
    each = [
        accountant.epsilon(float(q), s, 1e-5) for q, s in zip(rates, sigma, strict=True)
    ]
    np.testing.assert_allclose(problem.epsilons(w, accountant), each, rtol=1e-12)
    assert (
        problem.epsilon(w, accountant, 1e-5)
        == problem.epsilon(w)
        == pytest.approx(max(each), rel=1e-12)
    )
    assert problem.epsilon_mean(w) == pytest.approx(np.mean(each), rel=1e-12)
    leaked = [
        math.fsum(reference.rdp(q, x, order) for x in s)
        for q, s in zip(rates, sigma, strict=True)
    ]
    assert float(problem.rdp(w)) == pytest.approx(math.fsum(leaked) / M, rel=1e-9)
    same = ReceiveScalingProblem(scenario, plain.min_gain, 0.05, np.ones((M, 8)))
    found = [float(same.rdp(w)), *same.epsilons(w)]
    assert found == pytest.approx([float(plain.rdp(w)), *plain.epsilons(w)], rel=1e-12)
    for wrong in (np.full((M, 8), 0.5), np.ones((M + 1, 8))):
        with pytest.raises(ValueError, match="exposure"):
            ReceiveScalingProblem(scenario, plain.min_gain, 0.05, wrong)


def test_the_order_is_by_default_that_of_the_scenario():
    problem, w = short(replace(MIXED, order=2.5))
    assert problem.rdp(w) == problem.rdp(w, 2.5) != problem.rdp(w, 3)


def test_budgets_and_realisations_span_lanes():
    min_gain, budgets = (
        MIXED.min_gain(channel.draw(3, 6, [0, 1]).gain),
        np.array([0.01, 0.1, 1.0]),
    )
    problem = ReceiveScalingProblem(MIXED, min_gain, budgets[:, None])
    w = EqualAlloc().schedule(problem)
    assert problem.lanes == (3, 2)
    assert w.shape == (3, 2, 6)
    assert problem.noise_multiplier(w).shape == (3, 2, 3, 6)
    cost, rdp, epsilon = problem.cost(w), problem.rdp(w), problem.epsilon(w)
    assert cost.shape == rdp.shape == epsilon.shape == (3, 2)
    for k, r in np.ndindex(3, 2):
        alone = ReceiveScalingProblem(MIXED, min_gain[r], budgets[k])
        single = EqualAlloc().schedule(alone)
        np.testing.assert_array_equal(w[k, r], single)
        assert cost[k, r] == alone.cost(single)
        # the same terms; a sum over another memory layout may differ in its last digits
        assert rdp[k, r] == pytest.approx(float(alone.rdp(single)), rel=1e-14)
        assert epsilon[k, r] == pytest.approx(float(alone.epsilon(single)), rel=1e-14)
    same = ReceiveScalingProblem(
        MIXED, np.full((2, 6), 1e-9), budgets[:, None]
    )  # one schedule for all lanes
    doubled = 2 * same.min_noise_energy[0]
    assert (same.cost(doubled).shape, same.rdp(doubled).shape) == ((2,), ())
    assert same.scenario == replace(
        MIXED, num_rounds=6
    )  # the horizon is that of the gains


def test_scaling_is_exactly_the_cap_at_the_floor_and_never_above():
    rng = np.random.default_rng(0)
    cap, noise_scale = (
        10.0 ** rng.uniform(-3, 3, 1000),
        10.0 ** rng.uniform(-3, 3, 1000),
    )
    floor = noise_scale / cap
    assert (np.minimum(noise_scale / floor, cap) < cap).any()  # the way back rounds
    np.testing.assert_array_equal(scaling(floor, floor, cap, noise_scale), cap)
    assert (scaling(np.nextafter(floor, np.inf), floor, cap, noise_scale) <= cap).all()


@each_scenario
def test_round_leakage_is_the_sum_over_devices(scenario):
    for w in (0.01, 0.3, 20.0):
        x = scenario.num_parameters * scenario.noise_power / w  # at h = 1
        expected = reference.round_leakage(scenario, x, 1.0, 3)
        assert float(RoundLeakage(scenario)(w)) == pytest.approx(expected, rel=1e-10)
        exact = float(reference.exact_slope(scenario, 3)(reference.mp.mpf(w)))
        assert float(RoundLeakage(scenario).slope(w)) == pytest.approx(exact, rel=1e-10)


@each_scenario
@pytest.mark.parametrize("few", [True, False], ids=["few", "any"])
def test_the_curvature_is_the_difference_of_slopes(scenario, few):
    leakage = RoundLeakage(scenario)
    for w in np.geomspace(1e-2, 1e2, 9) * leakage.unit.max():
        step = 1e-4 * w
        before, (slope, curvature), after = (
            slopes(each, leakage.terms, few) for each in (w - step, w, w + step)
        )
        # the difference leaves 1e-8; from s = 100 on a curvature is that of 1/w^2 alone
        assert curvature == pytest.approx(
            (after[0] - before[0]) / (2 * step), rel=1e-5
        ), w
        assert slope == pytest.approx(float(leakage.slope(w)), rel=1e-12)


def test_a_leakage_or_slope_beyond_floating_point_is_refused_by_name():
    leakage = RoundLeakage(MNIST)
    assert np.isfinite([leakage(1e-100), leakage.slope(1e-100)]).all()
    for function, energy in (
        (leakage.slope, 1e-200),
        (leakage.slope, [1.0, 1e-300]),
        (leakage, 5e-324),
    ):
        with pytest.raises(
            ValueError, match=f"beyond floating point: .* of {np.min(energy):.3g}"
        ):
            function(energy)


@pytest.mark.parametrize(
    "method", ["eta", "noise_multiplier", "cost", "spend", "rdp", "epsilon"]
)
def test_noise_energy_below_its_floor_is_refused(method):
    problem = make(MNIST, 0.05, rounds=8)
    call, below = getattr(problem, method), np.ones(8)
    call(problem.min_noise_energy * (1 - 0.9e-9))  # rounding
    below[3] = 1 - 1.1e-9
    with pytest.raises(
        ValueError,
        match=r"w must be at least its floor, the power limit, got .* in round 3$",
    ):
        call(problem.min_noise_energy * below)
    problem = ReceiveScalingProblem(
        MNIST, [[1e-9, 2e-9, 4e-9], [1e-9, 1e-9, 1e-9]], budget=1.0
    )
    w = problem.min_noise_energy / [[0.5, 0.25, 2.0], [0.5, 3.0, 3.0]]
    alone = ReceiveScalingProblem(problem.scenario, problem.min_gain[0], budget=1.0)
    for part, chosen in ((problem, w), (alone, w[0])):  # the first, with its own floor
        with pytest.raises(
            ValueError,
            match=re.escape(
                f"got {w[0, 2]} against {problem.min_noise_energy[0, 2]} in round 2"
            ),
        ):
            getattr(part, method)(chosen)


def test_eta_above_the_power_limit_is_refused():
    problem, above = make(MNIST, 0.05, rounds=8), np.ones(8)
    problem.noise_energy(problem.max_eta * (1 + 0.9e-9))  # rounding
    above[3] = 1 + 1.1e-9
    with pytest.raises(
        ValueError, match=r"eta must not exceed the power limit, got .* in round 3$"
    ):
        problem.noise_energy(problem.max_eta * above)
