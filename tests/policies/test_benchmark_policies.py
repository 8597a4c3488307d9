"""EstimFuture and the power controls of Liu and Simeone and of Shi et al., against plain loops and generic solvers."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from adascale import channel, policies

from .. import reference
from ..problems import MIXED, MNIST, drawn

SMALL = replace(MNIST, name="small", num_rounds=25)
READINGS = pytest.mark.parametrize("reading", ["devices", "minimum"])


def test_the_two_readings_estimate_what_they_say():
    path_loss = channel.draw(10, 1, 0).path_loss
    fading = np.random.default_rng(1).exponential(size=(200_000, 10))
    minimum = (fading / path_loss / MNIST.batch_second_moment).min(axis=-1)
    mean = MNIST.mean_gain(path_loss)
    assert policies.estimated_min_gain(mean, "devices") == mean.min()
    error = minimum.std() / np.sqrt(minimum.size)
    estimate = policies.estimated_min_gain(mean, "minimum")
    assert abs(estimate - minimum.mean()) < 4 * error  # 4 standard errors
    # the control: the readings are far apart
    assert abs(mean.min() - minimum.mean()) > 100 * error


@READINGS
@pytest.mark.parametrize("budget", [0.01, 3.0])
def test_estim_future_plans_like_a_plain_loop(reading, budget):
    """Every round is planned anew, the level found by bisection."""
    problem, mean = drawn(SMALL, budget)
    later_floor = SMALL.floor(policies.estimated_min_gain(mean, reading))
    w = policies.EstimFuture(mean, reading).schedule(problem)
    left = budget * 25
    for t, floor in enumerate(problem.min_noise_energy):
        floors = [floor] + [later_floor] * (24 - t)
        level = reference.water_level(floors, left / len(floors))
        # rounding of 25 rounds
        assert w[t] == pytest.approx(max(level, floor), rel=1e-8)
        left -= max(level, floor) - floor


def plan(caps, weights, budget):
    """min(tau weight, cap) that sums to the budget, by a generic root finder."""
    if caps.sum() <= budget:
        return caps
    top = (caps / weights).max()

    def excess(share):
        return np.minimum(share * top * weights, caps).sum() / budget - 1

    share = brentq(excess, 0, 1, xtol=1e-17, rtol=1e-14)
    return np.minimum(share * top * weights, caps)


@pytest.mark.parametrize(
    ("contraction", "share"), [(1.0, 0.03), (1.0, 2.0), (0.7, 0.9)]
)
@pytest.mark.parametrize("subtract", [True, False])
def test_power_control_plans_like_a_plain_loop(contraction, share, subtract):
    problem, mean = drawn(SMALL, 0.04)
    left = share * problem.max_eta.sum()
    later_cap = SMALL.x_max * mean.min()
    policy = policies.PowerControl(mean, left, contraction, "devices", subtract)
    eta = problem.eta(policy.schedule(problem))
    for t, cap in enumerate(problem.max_eta):
        caps = np.array([cap] + [later_cap] * (24 - t))
        weights = contraction ** (-0.5 * np.arange(25 - t))
        assert eta[t] == pytest.approx(plan(caps, weights, left)[0], rel=1e-8)
        left -= eta[t] if subtract else 0


@pytest.mark.parametrize("contraction", [1.0, 0.9])
def test_lyapunov_power_control_minimises_noise_and_queue_pressure(contraction):
    problem, _ = drawn(SMALL, 0.04)
    typical = float(np.median(problem.max_eta))
    penalty = 0.01 * typical**3
    rate = 0.1 * typical
    queue = 0.0
    policy = policies.LyapunovPowerControl(penalty, rate, contraction)
    eta = problem.eta(policy.schedule(problem))
    for t, cap in enumerate(problem.max_eta):
        grid = cap * np.linspace(1e-4, 1, 20_001)
        best = grid[np.argmin(penalty * contraction**-t / grid + queue * grid)]
        assert abs(best - eta[t]) <= cap * 1e-4  # the grid's step
        queue = max(queue + eta[t] - rate, 0.0)


@pytest.mark.parametrize(
    "of",
    [
        lambda r: policies.PowerControl(np.full(10, 1e-11), 1.0, r),
        lambda r: policies.LyapunovPowerControl(1.0, 1.0, r),
    ],
)
def test_a_contraction_too_small_for_the_horizon_is_refused(of):
    problem = drawn(MNIST, 0.04)[0]
    with pytest.raises(ValueError, match=r"at least 0\.301 over 500 rounds"):
        of(0.05).schedule(problem)
    assert np.isfinite(of(0.31).schedule(problem)).all()


def test_a_round_left_out_lets_the_queue_of_shi_et_al_fall():
    policy = policies.LyapunovPowerControl(1.0, 0.25, initial_queue=0.4)
    state = policy.skip(policy.start(MIXED, 0.1))
    assert (state.queue, state.round) == (pytest.approx(0.15), 1)
    assert policy.skip(state).queue == 0


def test_a_contraction_ends_a_stream_without_a_horizon():
    policy = policies.LyapunovPowerControl(1.0, 1.0, 0.5)
    state = replace(policy.start(MIXED, 0.1), round=900)
    with pytest.raises(ValueError, match="contraction must be at least"):
        policy.decide(state, MIXED.floor(1e-10))
