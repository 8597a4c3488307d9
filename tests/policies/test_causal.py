"""Policies that see no future, tuning included: their equations, their promises, and the best that is possible."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from adascale import Problem, policies
from adascale.channel import FadingFloors, RayleighFloors
from adascale.policies import seen_coherence
from adascale.problem import RoundLeakage
from companion.theory.correlated import gauss_markov_floors

from ..problems import (
    MIXED,
    MNIST,
    gains,
    powers,
    spend_of,
    with_floors,
)

GAIN = np.array([1e-10, 2e-11, 4e-11])
LAW = RayleighFloors.of(MIXED, GAIN)
OMEGA = float(LAW.scale)
# Nakagami fading, m = 2
BELIEVED = FadingFloors(MIXED, GAIN, lambda x: (1 + 2 * x) * np.exp(-2 * x))


HARD = {
    "resolve by another law": policies.ReSolve(
        law=BELIEVED, budget_mode="hard", safety_margin=7.0
    ),
    "resolve, coherence seen": policies.ReSolve(
        LAW, budget_mode="hard", coherence="seen"
    ),
    "learn": policies.Learn("hard"),
    "learn from a prior, coherent": policies.Learn(
        "hard", prior=BELIEVED, weight=3, coherence=4.5
    ),
    "programme": policies.DynamicProgramme(LAW),
}
AVERAGE = {
    "level": policies.ConstantLevel(LAW),
    "resolve on average": policies.ReSolve(LAW),
    "learn on average": policies.Learn(),
}
hostile = st.lists(
    st.sampled_from([1e-13, 3e-11, 3.001e-11, 1e-10, 1e-7, 1e-5]),
    min_size=2,
    max_size=40,
)
F = RoundLeakage(MIXED)


def rounding(problem):
    """What the sum over rounds of w - floor is known to: w is a float64, as is its floor."""
    return 4e-16 * (
        problem.min_noise_energy.sum(axis=-1) + 2 * problem.num_rounds * problem.budget
    )


@pytest.mark.parametrize("name", HARD)
@settings(max_examples=settings.default.max_examples // 3)
@given(gains | hostile, powers(-12, 6))
@example([2e-11], 1.0)
def test_a_hard_budget_is_spent_and_never_exceeded_whatever_the_floors(
    name, gain, budget
):
    """Ties, steps of many decades, budgets that vanish in the floors or drown them."""
    problem = Problem(MIXED, gain, OMEGA * budget)
    total = spend_of(HARD[name], problem).sum()
    assert total == pytest.approx(
        problem.budget * len(gain), rel=1e-12, abs=rounding(problem)
    )


@pytest.mark.parametrize("name", AVERAGE)
def test_without_a_hard_promise_some_paths_exceed_the_budget(name):
    """The control: what is promised on average is not kept by each."""
    floor = RayleighFloors(OMEGA).draw(np.random.default_rng(0), 40, 30)
    problem = with_floors(MIXED, floor, 0.1)
    cost = problem.cost(AVERAGE[name].schedule(problem))
    assert (cost > 0.1 * (1 + 1e-9)).any()


CASES = [
    {"hold": 0.0},
    {"hold": 0.6},
    {"coherence": 3.5},
    {"coherence": "seen"},
    {"budget_mode": "hard", "safety_margin": 2.5},
    {"budget_mode": "hard", "coherence": 40.0},
    {"budget_mode": "hard", "coherence": "seen"},
]


def planned(problem, level_of, *, budget_mode, safety_margin, hold, coherence):
    """What each round spends, whose level is found from the floors so far, their weights, and what is left."""
    floor = problem.min_noise_energy
    T = problem.num_rounds
    is_hard = budget_mode == "hard"
    spends = []
    left = T * float(problem.budget)
    for t, w in enumerate(floor):
        n = T - t
        c = coherence
        if c == "seen":
            c = float(seen_coherence(floor[: t + 1]))
        counted = min(c, n)
        later = n - counted
        if is_hard:
            later += safety_margin * (1 + c) / 2 * math.log(max(n / c, 1))
        if is_hard or n > hold * T:
            level = level_of(floor[: t + 1], counted, later, left)
        spend = max(level - w, 0.0)
        if is_hard:
            spend = min(spend, left) if n > 1 else left
        spends.append(spend)
        left = max(left - spend, 0.0)
    return np.array(spends)


def level_by_law(seen, counted, later, left):
    """The level of ReSolve, by a generic root finder."""

    def excess(level):
        own = counted * max(level - seen[-1], 0.0)
        return own + later * level * special.expn(2, OMEGA / level) - left

    ends = 1e-4 * OMEGA, seen[-1] + left / counted + 1e-9
    return optimize.brentq(excess, *ends, xtol=1e-15, rtol=1e-14)


@pytest.mark.parametrize("changed", CASES, ids=str)
@pytest.mark.parametrize("nu", [0.002, 3.0])
def test_resolving_is_the_root_of_its_equation_in_every_round(nu, changed):
    options = {"budget_mode": "average", "safety_margin": 2.0, "hold": 0.1}
    options |= {"coherence": 1.0} | changed
    rng = np.random.default_rng(3)
    problem = with_floors(MIXED, gauss_markov_floors([OMEGA], 0.8, (1, 25), rng)[0], nu)
    expected = planned(problem, level_by_law, **options)
    spend = spend_of(policies.ReSolve(LAW, **options), problem)
    np.testing.assert_allclose(spend, expected, rtol=1e-8, atol=1e-8 * nu)
    # the control
    other = spend_of(policies.ReSolve(LAW, **options | {"coherence": 7.0}), problem)
    assert np.abs(other - expected).max() > 1e-3 * nu


def test_from_the_law_the_queue_starts_at_the_price_of_the_level():
    nu = np.array([0.01, 0.16])
    law = RayleighFloors.of(MNIST, np.full(10, 3e-11))
    warm = policies.AdaScale.from_law(MNIST, nu, law)
    price = warm.penalty * -RoundLeakage(MNIST).slope(law.level(nu))
    np.testing.assert_allclose(price, 30 * nu, rtol=1e-12)
    # and a round spends nu
    np.testing.assert_allclose(warm.initial_queue, price - nu, rtol=1e-12)


def test_with_three_rounds_the_programme_is_what_a_fine_grid_finds():
    nu = 0.2
    b = np.geomspace(1e-4, 3 * nu, 80)
    # x = omega / w is exponential
    x, weight = np.polynomial.laguerre.laggauss(60)
    floor = OMEGA / x
    last = np.array([F(floor + one) @ weight for one in b])

    def cost(floor, spend, budget, later):
        return F(floor + spend) + np.interp(np.log(budget - spend), np.log(b), later)

    def least(floor, budget, later):
        """Over a fine grid of what is spent, the least of this round and the later ones."""
        spend = budget * (1 - np.geomspace(1e-4, 1, 1000))[:, None]
        return cost(floor, spend, budget, later).min(axis=0)

    two = np.array([least(floor, budget, last) @ weight for budget in b])
    for first in OMEGA * np.array([0.2, 0.5, 1.0]):
        problem = with_floors(MIXED, [first, 1.0, 1.0], nu)
        spend = spend_of(policies.DynamicProgramme(LAW), problem)[0]
        best = least(np.array([first]), 3 * nu, two)[0]
        assert float(cost(first, spend, 3 * nu, two)) <= best * (1 + 5e-4)
        even = float(cost(first, nu, 3 * nu, two))  # the control
        assert even > best * (1 + 5e-4) or abs(spend / nu - 1) < 0.1


@pytest.mark.parametrize(
    "kind", [policies.ConstantLevel, policies.ReSolve, policies.DynamicProgramme]
)
def test_what_is_no_law_of_the_floors_is_refused(kind):
    with pytest.raises(ValueError, match="law must be a FloorLaw"):
        kind(GAIN).start(MIXED, 0.1)


@pytest.mark.parametrize(
    "options",
    [
        {"budget_mode": "soft"},
        {"safety_margin": [1, 2]},
        {"hold": 1.0},
        {"weight": 0},
        {"prior": GAIN},
        {"coherence": 0.5},
        {"coherence": "known"},
    ],
    ids=str,
)
def test_options_of_learn_are_checked(options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))} must"):
        policies.Learn(**options)


def test_tables_too_large_for_memory_are_refused():
    policy = policies.DynamicProgramme(RayleighFloors(1e-3))
    with pytest.raises(ValueError, match=r"^the tables of"):
        policy.start(MNIST, np.linspace(0.1, 0.2, 10_000))


def von_neumann(floor):
    """The coherence, as it is defined."""
    x = 1 / np.array(floor)
    steps = (np.diff(x) ** 2).sum()
    ratio = ((x - x.mean()) ** 2).sum() / steps if steps else np.inf
    return min(max(6 * ratio - 2, 1), len(x))


@given(st.lists(powers(-3, 3), min_size=1, max_size=30))
def test_the_coherence_seen_is_von_neumanns_ratio(floor):
    assert seen_coherence(floor) == pytest.approx(von_neumann(floor), rel=1e-6)


@pytest.mark.parametrize(
    ("floor", "coherence"),
    [
        ([0.1], 1),
        ([3e-300] * 7, 7),  # equal floors hang together for good
        ([1e-300, 1e300, 1e300], 2),  # x is 1, 0, 0, and 6 (2/3) / 1 - 2
    ],
)
def test_the_coherence_seen_at_its_ends(floor, coherence):
    assert seen_coherence(floor) == pytest.approx(coherence)
