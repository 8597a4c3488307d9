"""Each guarantee on thousands of random instances, against plain loops in x_t, and with controls that must fail."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adascale import ReceiveScalingProblem, Scenario, channel, policies
from adascale.problem import RoundLeakage
from companion import bounds
from tests import reference

from .bounds_cases import assert_holds, instances, with_floors

MNIST = Scenario.mnist()
# three devices, two of them alike
MIXED = Scenario(
    "mixed", 3, 6, 1000, (20, 60, 20), (1000, 600, 1000), 1.5, 0.2, 1e-12, 3
)


def slack(problem):
    """What rounding may cost: w is known to a few units in the last place, and w - floor loses what they share."""
    return 1e-14 * problem.num_rounds * problem.min_noise_energy.max(axis=-1)


# The inequalities, on some draws of 40 lanes each
FEW = settings(max_examples=settings.default.max_examples // 2)


@FEW
@given(instances(), st.integers(0, 2**32))
def test_drift_lemma_holds_for_any_schedule(instance, seed):
    problem, _ = instance
    share = 10 ** np.random.default_rng(seed).uniform(
        -4, 0, problem.lanes + (problem.num_rounds,)
    )
    sides = bounds.drift_bound(problem, problem.min_noise_energy / share)
    # squares of queues of up to sum w: differences lose what the squares share
    assert_holds(sides, 1e-12 * sides.right.max(axis=-1, keepdims=True))


@FEW
@given(instances(), instances(orders=(1.05, 1.3, 2.5, 4.7)))
def test_queue_violation_and_regret_keep_their_bounds(whole, fractional):
    """The paper's, and the sharp ones, which hold at fractional orders too and are never larger."""
    for (problem, penalty), kinds in ((whole, (False, True)), (fractional, (True,))):
        w, found = policies.AdaScale(penalty).schedule(problem), []
        lost = 1e-12 * np.abs(
            RoundLeakage(problem.scenario)(problem.min_noise_energy)
        ).max(axis=-1)
        for sharp in kinds:
            every = [
                (bounds.queue_bound, slack(problem)[:, None]),
                (bounds.violation_bound, slack(problem)),
            ]
            every.append((bounds.regret_bound, lost))
            found.append(
                [bound(problem, w, penalty, sharp=sharp) for bound, _ in every]
            )
            for sides, (_, extra) in zip(found[-1], every, strict=True):
                assert_holds(sides, extra)
        for paper, sharp in zip(found[0], found[-1], strict=True):
            np.testing.assert_array_equal(paper.left, sharp.left)
            assert (sharp.right <= paper.right * (1 + 1e-12)).all()


@given(instances(), st.sampled_from(bounds.QueueLimits._fields))
def test_queue_never_exceeds_any_of_the_four_limits(instance, name):
    problem, penalty = instance
    queue = bounds.queue(problem, policies.AdaScale(penalty).schedule(problem))
    limit = getattr(bounds.queue_limits(problem, penalty), name)
    assert_holds(bounds.Sides(queue, limit), slack(problem)[:, None])
    assert (np.diff(limit, axis=-1) >= 0).all()


def price_gap(problem, w, penalty, other):
    """The two sides of V (F(w_t) - F(w'_t)) <= P_t (y'_t - y_t), and what their difference may lose to rounding."""
    leakage, spend = RoundLeakage(problem.scenario), problem.spend(w)
    pressure = bounds.queue(problem, w)[..., :-1] + spend
    V = np.broadcast_to(penalty, problem.lanes)[..., None]
    own, others = (
        V * leakage(problem.min_noise_energy + spend),
        V * leakage(problem.min_noise_energy + other),
    )
    # the root is known to a few units in the last place, and pressures are sums of differences of w and its floor
    lost = 1e-12 * (own + pressure * (other + spend)) + slack(problem)[..., None] * (
        other + spend + pressure
    )
    return own - others, pressure * (other - spend), lost


@given(instances(orders=(1.3, 2, 3, 8)), st.integers(0, 2**32))
def test_no_choice_gains_more_than_its_price(instance, seed):
    problem, penalty = instance
    w = policies.AdaScale(penalty).schedule(problem)
    shape = problem.lanes + (problem.num_rounds,)
    rng = np.random.default_rng(seed)
    other = (
        problem.budget[:, None]
        * 10 ** rng.uniform(-3, 3, shape)
        * rng.integers(0, 2, shape)
    )
    left, right, lost = price_gap(problem, w, penalty, other)
    assert (left <= right + lost).all()
    # summed, with what the queue gained: the sharper form of the master inequality
    nu, queue, leakage = (
        problem.budget[:, None],
        bounds.queue(problem, w),
        RoundLeakage(problem.scenario),
    )
    own = penalty * leakage(w).sum(axis=-1) + queue[:, -1] ** 2 / 2
    gained = (
        queue[:, :-1] * (other - nu) + np.maximum(other - nu, 0) ** 2 / 2 + nu**2 / 2
    )
    others = penalty * leakage(problem.min_noise_energy + other).sum(
        axis=-1
    ) + gained.sum(axis=-1)
    scale = own + np.abs(gained).sum(axis=-1)
    assert (own <= others + 1e-9 * scale + lost.sum(axis=-1)).all()


@given(instances(orders=(1.3, 2, 3, 8)))
def test_regret_at_the_cost_paid_is_positive_and_below_its_price(instance):
    problem, penalty = instance
    w = policies.AdaScale(penalty).schedule(problem)
    spent = problem.spend(w).mean(axis=-1) > 1e-6 * problem.min_noise_energy.min(
        axis=-1
    )
    leakage = RoundLeakage(problem.scenario)(problem.min_noise_energy).mean(axis=-1)
    if spent.any():
        some = ReceiveScalingProblem(
            problem.scenario, problem.min_gain[spent], problem.budget[spent]
        )
        sides = bounds.regret_at_cost(some, w[spent], penalty[spent])
        sizes = bounds.queue(some, w[spent]).max(axis=-1) + some.cost(w[spent])
        lost = 1e-12 * leakage[spent] + slack(some) * sizes / penalty[spent]
        assert (sides.left >= -lost).all()
        assert (sides.left <= sides.right * (1 + 1e-9) + lost).all()


@given(instances(orders=(1.3, 2, 3, 8)))
def test_queue_never_stays_below_its_bound_from_below(instance):
    problem, penalty = instance
    last = bounds.queue(problem, policies.AdaScale(penalty).schedule(problem))[..., -1]
    below = bounds.queue_from_below(problem, penalty)
    assert (last >= below * (1 - 1e-9) - slack(problem)).all()


# Controls: what must fail, fails


def some_instance(rounds=200):
    floor = (
        MNIST.noise_scale
        / MNIST.x_max
        / MNIST.min_gain(channel.draw(10, rounds, [0, 1, 2]).gain)
    )
    problem = with_floors(MNIST, floor, 0.04)
    return problem, np.full(3, 1.0)


def test_a_schedule_that_is_not_adascale_s_breaks_the_price():
    problem, penalty = some_instance()
    other = np.full((3, problem.num_rounds), 0.02)
    doubled = 2 * problem.min_noise_energy
    for w, holds in (
        (policies.AdaScale(penalty).schedule(problem), True),
        (doubled, False),
    ):
        left, right, lost = price_gap(problem, w, penalty, other)
        assert (left <= right + lost).all() == holds
    equal = policies.EqualAlloc().schedule(problem)
    sides = bounds.regret_at_cost(problem, equal, 100.0)
    assert (sides.left > sides.right).all()


def test_the_bound_from_below_is_not_below_everything():
    """With the upper limit of kappa in place of the lower one it is broken."""
    problem = with_floors(MNIST, np.full(1000, 0.04), 0.04)
    V = 1e9
    last = bounds.queue(problem, policies.AdaScale(V).schedule(problem))[-1]
    assert 0.9 * last < bounds.queue_from_below(problem, V) < last
    low, high = bounds.kappa_limits(RoundLeakage(MNIST))
    assert bounds.queue_from_below(problem, V * high / low) > 2 * last


@pytest.mark.parametrize("order", [1.3, 2, 3, 8.5])
def test_kappa_falls_between_its_limits(order):
    leakage, w = RoundLeakage(MIXED, order), np.geomspace(1e-6, 1e9, 400)
    kappa, (low, high) = -(w**2) * leakage.slope(w), bounds.kappa_limits(leakage)
    assert (np.diff(kappa) <= 1e-12 * kappa[1:]).all()
    assert kappa[-1] == pytest.approx(low, rel=1e-6)
    assert kappa[0] == pytest.approx(high, rel=1e-2 if order < 2 else 1e-6)
    assert (leakage(w) <= high / w).all()


def test_the_paper_s_drift_lemma_needs_its_square():
    problem, penalty = some_instance()
    w = policies.AdaScale(penalty).schedule(problem)
    sides, spend = bounds.drift_bound(problem, w), w - problem.min_noise_energy
    # without y^2 / 2 the right side is too small
    assert (sides.left > sides.right - spend**2 / 2).any()


# Plain loops in x_t


@pytest.mark.parametrize("nu", [0.002, 0.05, 1.0])
def test_both_sides_are_those_of_the_paper_in_x(nu):
    scenario, V, T = MIXED, 0.3, 6
    problem = ReceiveScalingProblem(
        scenario, scenario.min_gain(channel.draw(3, T, 4).gain), nu
    )
    gains = problem.min_gain
    w = policies.AdaScale(V).schedule(problem)
    x, x_max = problem.eta(w) / gains, reference.x_max(scenario)
    spend = [reference.constraint(scenario, x[t], gains[t]) for t in range(T)]
    Q = [0.0]
    for y in spend:
        Q.append(max(Q[-1] + y - nu, 0.0))
    near = {
        "rel": 1e-8,
        "abs": 1e-12,
    }  # the plain sum of Lemma 1 loses digits of small leakages
    np.testing.assert_allclose(bounds.queue(problem, w), Q, rtol=1e-9, atol=1e-14)
    drift = bounds.drift_bound(problem, w)
    for t in range(T):
        assert drift.left[t] == pytest.approx(Q[t + 1] ** 2 / 2 - Q[t] ** 2 / 2, **near)
        assert drift.right[t] == pytest.approx(
            Q[t] * spend[t] + spend[t] ** 2 / 2 + nu**2 / 2, **near
        )
    full = [reference.round_leakage(scenario, x_max, gains[t], 3) for t in range(T)]
    limit = [math.sqrt(2 * V * math.fsum(full[:R]) + R * nu**2) for R in range(T + 1)]
    assert bounds.queue_bound(problem, w, V).right == pytest.approx(limit, **near)
    violation = bounds.violation_bound(problem, w, V)
    assert violation.left == pytest.approx(math.fsum(spend) / T - nu, **near)
    assert violation.right == pytest.approx(limit[T] / T, **near)
    level = reference.water_level(list(problem.min_noise_energy), nu)
    a = [scenario.num_parameters * scenario.noise_power / g for g in gains]
    best = [min(a_t / level, x_max) for a_t in a]
    pairs = [
        (reference.round_leakage(scenario, x[t], gains[t], 3), best[t])
        for t in range(T)
    ]
    left = (
        math.fsum(
            f - reference.round_leakage(scenario, b, gains[t], 3)
            for t, (f, b) in enumerate(pairs)
        )
        / T
    )
    regret = bounds.regret_bound(problem, w, V)
    assert regret.left == pytest.approx(left, rel=1e-7, abs=1e-10)
    assert regret.right == pytest.approx(
        limit[T] * nu / V + T * nu**2 / (2 * V) + nu**2 / (2 * V), **near
    )


def test_the_four_limits_against_plain_sums():
    V, nu = 2.0, 0.05
    problem = ReceiveScalingProblem(
        MIXED, MIXED.min_gain(channel.draw(3, 6, 5).gain), nu
    )
    limits = bounds.queue_limits(problem, V)
    slope = reference.exact_slope(MIXED, 3)
    one = MIXED.num_parameters * MIXED.noise_power  # x at h = 1 is one / w
    for R in range(7):
        floors = problem.min_noise_energy[:R]
        equal = math.fsum(
            reference.round_leakage(MIXED, one / (w + nu), 1.0, 3) for w in floors
        )
        assert limits.equal[R] == pytest.approx(
            math.sqrt(2 * V * equal + nu**2) - nu, rel=1e-8
        )
        low = nu + min(floors) if R else None
        fall = -float(slope(mp.mpf(low))) if R else 0.0
        assert limits.threshold[R] == pytest.approx(max(V * fall - nu, 0), rel=1e-9)
        assert limits.growth[R] == pytest.approx(
            (2.25 * V * low**2 * fall * R**2) ** (1 / 3) if R else 0, rel=1e-9
        )
