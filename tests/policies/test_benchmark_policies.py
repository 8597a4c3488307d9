"""EstimFuture and the power controls of Liu and Simeone and of Shi et al., against plain loops and generic solvers."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from adascale import channel, policies
from companion.leakage.liu_simeone import (
    OfflinePowerControl,
    scaling_budget,
    spent_epsilon,
)

from ..problems import MIXED, MNIST, drawn

SMALL = replace(MNIST, name="small", num_rounds=25)
READINGS = pytest.mark.parametrize("reading", ["devices", "minimum"])
PLANS = pytest.mark.parametrize(
    ("contraction", "share"), [(1.0, 0.03), (1.0, 2.0), (0.99, 0.3), (0.7, 0.9)]
)


def test_the_two_readings_estimate_what_they_say():
    path_loss = channel.draw(10, 1, 0).path_loss
    fading = np.random.default_rng(1).exponential(size=(200_000, 10))
    gain = fading / path_loss / MNIST.batch_second_moment
    mean = MNIST.mean_gain(path_loss)
    assert policies.estimated_min_gain(mean, "devices") == mean.min()
    minimum = gain.min(axis=-1)
    error = minimum.std() / np.sqrt(minimum.size)
    estimate = policies.estimated_min_gain(mean, "minimum")
    assert abs(estimate - minimum.mean()) < 4 * error  # 4 standard errors
    assert (
        abs(mean.min() - minimum.mean()) > 100 * error
    )  # the control: the readings are far apart


def estim_future_loop(problem, estimate):
    """Noise energies by re-planning every round, the level found by a generic root finder."""
    scenario, rounds = problem.scenario, problem.num_rounds
    later_floor = scenario.noise_scale / (scenario.x_max * estimate)
    left, energy = float(problem.budget) * rounds, []
    for t, floor in enumerate(problem.min_noise_energy):
        floors = np.array([floor] + [later_floor] * (rounds - 1 - t))
        level = brentq(
            lambda x, floors=floors, left=left: np.maximum(x - floors, 0).sum() - left,
            0,
            1e9,
            xtol=1e-15,
        )
        energy.append(max(level, floor))
        left -= energy[-1] - floor
    return np.array(energy)


@READINGS
@pytest.mark.parametrize("budget", [0.01, 0.16, 3.0])
def test_estim_future_plans_like_a_plain_loop(reading, budget):
    problem, mean = drawn(SMALL, budget)
    w = policies.EstimFuture(mean, reading).schedule(problem)
    loop = estim_future_loop(problem, policies.estimated_min_gain(mean, reading))
    np.testing.assert_allclose(
        w, loop, rtol=1e-8
    )  # brentq's tolerance, 25 rounds of it


def plan(caps, weights, budget):
    """min(tau weight, cap) that sums to the budget, by a generic root finder."""
    if caps.sum() <= budget:
        return caps
    top = (caps / weights).max()
    tau = top * brentq(
        lambda x: np.minimum(x * top * weights, caps).sum() / budget - 1,
        0,
        1,
        xtol=1e-17,
        rtol=1e-14,
    )
    return np.minimum(tau * weights, caps)


@READINGS
@PLANS
@pytest.mark.parametrize("subtract", [True, False])
def test_online_power_control_plans_like_a_plain_loop(
    reading, contraction, share, subtract
):
    problem, mean = drawn(SMALL, 0.04)
    budget = left = share * problem.max_eta.sum()
    later_cap = SMALL.x_max * policies.estimated_min_gain(mean, reading)
    eta = problem.eta(
        policies.PowerControl(mean, budget, contraction, reading, subtract).schedule(
            problem
        )
    )
    for t, cap in enumerate(problem.max_eta):
        caps = np.array([cap] + [later_cap] * (24 - t))
        assert eta[t] == pytest.approx(
            plan(caps, contraction ** (-0.5 * np.arange(25 - t)), left)[0], rel=1e-8
        )
        left -= eta[t] if subtract else 0


def test_offline_power_control_without_contraction_is_the_paper_s_optimum():
    problem, _ = drawn(MNIST, np.array([[0.01], [0.16]]), seeds=range(3))
    optimal = policies.Optimal().schedule(problem)
    total = problem.eta(optimal).sum(axis=-1)
    np.testing.assert_allclose(
        OfflinePowerControl(total).schedule(problem), optimal, rtol=1e-12
    )
    other = OfflinePowerControl(total, 0.99).schedule(problem)
    assert not np.allclose(other, optimal, rtol=0.1)  # the control: contraction matters


@pytest.mark.parametrize("contraction", [1.0, 0.9])
def test_lyapunov_power_control_is_its_queue_written_out(contraction):
    problem, _ = drawn(SMALL, 0.04)
    typical = float(np.median(problem.max_eta))
    penalty, rate, queue = 0.01 * typical**3, 0.1 * typical, 0.0
    eta = problem.eta(
        policies.LyapunovPowerControl(penalty, rate, contraction).schedule(problem)
    )
    for t, cap in enumerate(problem.max_eta):
        expected = (
            cap if queue == 0 else min(cap, np.sqrt(penalty * contraction**-t / queue))
        )
        assert eta[t] == pytest.approx(expected, rel=1e-12)
        grid = cap * np.linspace(
            1e-4, 1, 20_001
        )  # of noise and queue pressure it is the minimum, to the grid's step
        best = grid[np.argmin(penalty * contraction**-t / grid + queue * grid)]
        assert abs(best - expected) <= cap * 1e-4
        queue = max(queue + expected - rate, 0.0)


def gaussian_delta(spent, epsilon):
    """The exact delta of a Gaussian mechanism of sum (sensitivity / noise)^2 = 2 spent (Balle and Wang, 2018)."""
    mu = np.sqrt(2 * spent)
    log_tail = epsilon + norm.logcdf(-epsilon / mu - mu / 2)
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(log_tail)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("scenario", [MNIST, MIXED])
def test_the_scaling_budget_keeps_its_promise(scenario, epsilon, delta):
    budget = scaling_budget(scenario, epsilon, delta)
    least = np.min(scenario.batch_size)  # in units of noise and sensitivity
    spent = budget / (
        scenario.noise_power * (scenario.num_devices * least / scenario.clip_norm) ** 2
    )
    assert 0 < gaussian_delta(spent, epsilon) <= delta
    # sufficient, not necessary: it bounds the chance of a large loss, and by a two-sided tail
    assert gaussian_delta(6 * spent, epsilon) > delta
    assert spent_epsilon(scenario, budget, delta) == pytest.approx(epsilon, rel=1e-12)


def test_bad_arguments_are_refused():
    for name, function, *given in (
        ("mean_gain", policies.EstimFuture, [1, -1], "devices"),
        ("estimate", policies.EstimFuture, [1, 1], "mmse"),
        *(
            ("contraction", policies.LyapunovPowerControl, 1.0, 1.0, bad)
            for bad in (0.0, 1.5, -1.0, np.nan)
        ),
        ("epsilon", scaling_budget, MNIST, -1.0),
        ("delta", scaling_budget, MNIST, 1.0, 1.5),
    ):
        with pytest.raises(ValueError, match=f"^{name} must "):
            function(*given)


def test_contraction_too_small_for_the_horizon_is_named():
    problem, mean = drawn(MNIST, 0.04)
    for policy in (
        lambda r: policies.PowerControl(mean, 1.0, r),
        lambda r: OfflinePowerControl(1.0, r),
        lambda r: policies.LyapunovPowerControl(1.0, 1.0, r),
    ):
        with pytest.raises(
            ValueError,
            match=r"contraction must be at least 0.301 over 500 rounds, got 0.05",
        ):
            policy(0.05).schedule(problem)
        assert np.isfinite(policy(0.31).schedule(problem)).all()
    beyond = policies.LyapunovPowerControl(
        1.0, 1.0, 0.5
    )  # its weights end a horizon too
    with pytest.raises(ValueError, match="contraction must be at least"):
        beyond.decide(replace(beyond.start(MIXED, 0.1), round=900), MIXED.floor(1e-10))
