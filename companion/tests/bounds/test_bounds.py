"""Each guarantee on thousands of random instances, against plain loops in x_t, and with controls that must fail."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adascale import Problem, policies
from adascale.problem import RoundLeakage
from companion import bounds
from tests import reference
from tests.problems import MIXED, MNIST, make

from .bounds_cases import assert_holds, instances, with_floors


def slack(problem):
    """What rounding may cost: w is known to a few units in the last place, and w - floor loses what they share."""
    return 1e-14 * problem.num_rounds * problem.min_noise_energy.max(axis=-1)


def drift(problem, w):
    """Both sides of the drift of a round, the paper's Lemma 2."""
    spend = problem.spend(w)
    length = bounds.queue(problem, w)
    budget = np.asarray(problem.budget)[..., None]
    most = length[..., :-1] * spend + spend**2 / 2 + budget**2 / 2
    return bounds.Sides(np.diff(length**2, axis=-1) / 2, most)


# The inequalities, on some draws of 40 lanes each
FEW = settings(max_examples=settings.default.max_examples // 2)


@FEW
@given(instances(), st.integers(0, 2**32))
def test_drift_lemma_holds_for_any_schedule(instance, seed):
    problem, _ = instance
    share = 10 ** np.random.default_rng(seed).uniform(
        -4, 0, problem.batch_shape + (problem.num_rounds,)
    )
    sides = drift(problem, problem.min_noise_energy / share)
    # squares of queues of up to sum w: differences lose what the squares share
    assert_holds(sides, 1e-12 * sides.right.max(axis=-1, keepdims=True))


@given(instances(orders=(2, 3, 5, 8, 1.05, 1.3, 2.5, 4.7)))
def test_queue_violation_and_regret_keep_their_bounds(instance):
    """The paper's, and the sharp ones, which hold at fractional orders too and are never larger."""
    problem, penalty = instance
    w = policies.AdaScale(penalty).schedule(problem)
    leaked = np.abs(RoundLeakage(problem.scenario)(problem.min_noise_energy))
    for bound, extra in (
        (bounds.queue_bound, slack(problem)[:, None]),
        (bounds.violation_bound, slack(problem)),
        (bounds.regret_bound, 1e-12 * leaked.max(axis=-1)),
    ):
        sharp = bound(problem, w, penalty, sharp=True)
        assert_holds(sharp, extra)
        if problem.scenario.order % 1 == 0:
            paper = bound(problem, w, penalty)
            assert_holds(paper, extra)
            assert (sharp.right <= paper.right * (1 + 1e-12)).all()


@given(instances(orders=(1.3, 2, 3, 8)))
def test_regret_at_the_cost_paid_is_positive_and_below_its_price(instance):
    problem, penalty = instance
    w = policies.AdaScale(penalty).schedule(problem)
    least = 1e-6 * problem.min_noise_energy.min(axis=-1)
    spent = problem.cost(w) > least
    assume(spent.any())
    w, penalty = w[spent], penalty[spent]
    problem = Problem(problem.scenario, problem.min_gain[spent], problem.budget[spent])
    leakage = RoundLeakage(problem.scenario)(problem.min_noise_energy).mean(axis=-1)
    sides = bounds.regret_at_cost(problem, w, penalty)
    sizes = bounds.queue(problem, w).max(axis=-1) + problem.cost(w)
    lost = 1e-12 * leakage + slack(problem) * sizes / penalty
    assert (sides.left >= -lost).all()
    assert_holds(sides, lost)


@given(instances(orders=(1.3, 2, 3, 8)))
def test_queue_never_stays_below_its_bound_from_below(instance):
    problem, penalty = instance
    last = bounds.queue(problem, policies.AdaScale(penalty).schedule(problem))[..., -1]
    below = bounds.queue_from_below(problem, penalty)
    assert (last >= below * (1 - 1e-9) - slack(problem)).all()


# Controls: what must fail, fails


def test_an_even_split_breaks_the_price_of_regret():
    problem = make(MNIST, 0.04, [0, 1, 2], 200)
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
    leakage = RoundLeakage(MIXED, order)
    w = np.geomspace(1e-6, 1e9, 400)
    kappa, (low, high) = -(w**2) * leakage.slope(w), bounds.kappa_limits(leakage)
    assert (np.diff(kappa) <= 1e-12 * kappa[1:]).all()
    assert kappa[-1] == pytest.approx(low, rel=1e-6)
    assert kappa[0] == pytest.approx(high, rel=1e-2 if order < 2 else 1e-6)
    assert (leakage(w) <= high / w).all()


# Plain loops in x_t


@pytest.fixture(scope="module", params=[0.002, 0.05, 1.0])
def in_x(request):
    """A problem, its schedule, and the paper's f_t and y_t by plain sums in x_t."""
    problem, penalty = make(MIXED, request.param, 4, 6), 0.3
    w = policies.AdaScale(penalty).schedule(problem)

    def summed(function, x):
        pairs = zip(x, problem.min_gain, strict=True)
        return [function(MIXED, *pair) for pair in pairs]

    spend = summed(reference.constraint, problem.eta(w) / problem.min_gain)
    return problem, w, penalty, spend, partial(summed, reference.round_leakage)


NEAR = {"rel": 1e-8, "abs": 1e-12}  # the paper's sum loses digits of small leakages


def test_queue_drift_and_violation_are_those_of_the_paper_in_x(in_x):
    """The right sides of the bounds at the horizon are written out in chapter 6."""
    problem, w, penalty, spend, _ = in_x
    nu = float(problem.budget)
    length = [0.0]
    for y in spend:
        length.append(max(length[-1] + y - nu, 0.0))
    np.testing.assert_allclose(bounds.queue(problem, w), length, rtol=1e-9, atol=1e-14)
    sides = drift(problem, w)
    for t, y in enumerate(spend):
        change = length[t + 1] ** 2 / 2 - length[t] ** 2 / 2
        assert sides.left[t] == pytest.approx(change, **NEAR)
        most = length[t] * y + y**2 / 2 + nu**2 / 2
        assert sides.right[t] == pytest.approx(most, **NEAR)
    violation = bounds.violation_bound(problem, w, penalty)
    assert violation.left == pytest.approx(math.fsum(spend) / 6 - nu, **NEAR)


def test_regret_is_that_of_the_paper_in_x(in_x):
    problem, w, penalty, _, leaked = in_x
    nu = float(problem.budget)
    scenario = problem.scenario
    level = reference.water_level(list(problem.min_noise_energy), nu)
    unit = scenario.num_parameters * scenario.noise_power / problem.min_gain
    best = np.minimum(unit / level, reference.x_max(scenario))
    own = leaked(problem.eta(w) / problem.min_gain)
    least = leaked(best)
    regret = bounds.regret_bound(problem, w, penalty)
    expected = math.fsum(f - g for f, g in zip(own, least, strict=True)) / 6
    assert regret.left == pytest.approx(expected, rel=1e-7, abs=1e-10)


def test_another_policy_s_regret_breaks_the_bound():
    problem = make(MNIST, 0.04, [0, 1, 2], 200)
    penalty = 1e6  # the bound is small, and full power has nothing to do with V
    sides = bounds.regret_bound(problem, problem.min_noise_energy, penalty)
    assert (sides.left > sides.right).all()
