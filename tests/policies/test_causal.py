"""Policies that see no future, tuning included: their equations, their promises, and the best that is possible."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from adascale import ReceiveScalingProblem, policies
from adascale.channel import FadingFloors, RayleighFloors
from adascale.policies import seen_coherence
from adascale.problem import RoundLeakage
from companion.theory.correlated import gauss_markov_floors

from ..problems import (
    MIXED,
    MNIST,
    feasible,
    gains,
    make,
    powers,
    spend_of,
    with_floors,
)

GAIN = np.array([1e-10, 2e-11, 4e-11])
OMEGA = float(RayleighFloors.of(MIXED, GAIN).scale)
BELIEVED = FadingFloors(
    MIXED, GAIN, lambda x: (1 + 2 * x) * np.exp(-2 * x)
)  # Nakagami fading, m = 2

HARD = {
    "resolve": lambda: policies.ReSolve(GAIN, budget_mode="hard"),
    "resolve without reserve": lambda: policies.ReSolve(
        GAIN, budget_mode="hard", safety_margin=0.0
    ),
    "resolve by another law": lambda: policies.ReSolve(
        law=BELIEVED, budget_mode="hard", safety_margin=7.0
    ),
    "resolve with the coherence seen": lambda: policies.ReSolve(
        GAIN, budget_mode="hard", coherence="seen"
    ),
    "learn": lambda: policies.Learn("hard"),
    "learn with the coherence seen": lambda: policies.Learn("hard", coherence="seen"),
    "learn with a coherence": lambda: policies.Learn(
        "hard", prior=BELIEVED, weight=3, coherence=4.5
    ),
    "learn without reserve": lambda: policies.Learn("hard", safety_margin=0.0),
    "learn from a prior": lambda: policies.Learn("hard", prior=BELIEVED, weight=3),
    "programme": lambda: policies.DynamicProgramme(GAIN),
}
AVERAGE = {
    "level": lambda: policies.ConstantLevel(GAIN),
    "resolve": lambda: policies.ReSolve(GAIN),
    "resolve to the end": lambda: policies.ReSolve(law=BELIEVED, hold=0.0),
    "learn": lambda: policies.Learn(),
    "learn from a prior": lambda: policies.Learn(prior=BELIEVED),
    "resolve with the coherence seen": lambda: policies.ReSolve(GAIN, coherence="seen"),
}
EVERY = {f"hard: {name}": make_it for name, make_it in HARD.items()} | AVERAGE
hostile = st.lists(
    st.sampled_from([1e-13, 3e-11, 3.001e-11, 1e-10, 1e-7, 1e-5]),
    min_size=2,
    max_size=40,
)
CASES = [
    ("average", 1.5, 0.0, 1.0),
    ("average", 1.5, 0.1, 1.0),
    ("average", 1.5, 0.6, 1.0),
]
CASES += [
    ("hard", 0.0, 0.1, 1.0),
    ("hard", 2.5, 0.1, 1.0),
    ("hard", 2.0, 0.1, 3.5),
    ("hard", 2.0, 0.1, 40.0),
]
CASES += [
    ("hard", 2.0, 0.1, "seen"),
    ("average", 2.0, 0.1, 3.5),
    ("average", 2.0, 0.1, "seen"),
]
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
    problem = ReceiveScalingProblem(MIXED, gain, OMEGA * budget)
    total = spend_of(HARD[name](), problem).sum()
    assert total == pytest.approx(
        problem.budget * len(gain), rel=1e-12, abs=rounding(problem)
    )


def test_without_a_hard_promise_some_paths_exceed_the_budget():
    """The control: what is promised on average is not kept by each."""
    problem = with_floors(
        MIXED, RayleighFloors(OMEGA).draw(np.random.default_rng(0), 40, 30), 0.1
    )
    for name, make_it in AVERAGE.items():
        cost = problem.cost(make_it().schedule(problem))
        assert (cost > 0.1 * (1 + 1e-9)).any() == (
            name != "resolve to the end"
        )  # which holds no level


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("exponent", [-30, 30])
def test_extreme_budgets_have_schedules(name, exponent):
    if name in ("level", "hard: programme") and exponent == -30:
        exponent = -12  # what a level or a price is, is in floating point
    problem = make(MIXED, OMEGA * 10.0**exponent, seeds=[0, 1], rounds=15)
    assert feasible(problem, EVERY[name]().schedule(problem))


def test_the_leakage_plays_no_part_but_where_it_is_said_to():
    problem = make(MIXED, 0.1, rounds=12)
    other = ReceiveScalingProblem(
        replace(problem.scenario, order=9, batch_size=5),
        problem.min_gain,
        problem.budget,
    )
    for name, make_it in EVERY.items():
        same = np.array_equal(make_it().schedule(problem), make_it().schedule(other))
        assert same == (name != "hard: programme")


@pytest.mark.parametrize(("mode", "margin", "hold", "coherence"), CASES)
@pytest.mark.parametrize("nu", [0.002, 3.0])
def test_resolving_is_the_root_of_its_equation_in_every_round(
    nu, mode, margin, hold, coherence
):
    floors = gauss_markov_floors([OMEGA], 0.8, (1, 25), np.random.default_rng(3))[0]
    problem = with_floors(MIXED, floors, nu)
    T, left, level, wanted = 25, 25 * nu, None, []
    for t, floor in enumerate(problem.min_noise_energy):
        n = T - t
        c = (
            float(seen_coherence(problem.min_noise_energy[: t + 1]))
            if coherence == "seen"
            else coherence
        )
        own = min(c, n)
        rounds = (
            n
            - own
            + (margin * (1 + c) / 2 * math.log(max(n / c, 1)) if mode == "hard" else 0)
        )

        def over(level, own=own, floor=floor, rounds=rounds, left=left):
            return (
                own * max(level - floor, 0.0)
                + rounds * level * special.expn(2, OMEGA / level)
                - left
            )

        if mode == "hard" or n > hold * T:
            level = optimize.brentq(
                over, 1e-4 * OMEGA, floor + left / own + 1e-9, xtol=1e-15, rtol=1e-14
            )
        wanted.append(
            min(max(level - floor, 0.0), left)
            if mode == "hard"
            else max(level - floor, 0.0)
        )
        left = max(left - wanted[-1], 0.0)
    options = {
        "budget_mode": mode,
        "safety_margin": margin,
        "hold": hold,
        "coherence": coherence,
    }
    found = spend_of(policies.ReSolve(GAIN, **options), problem)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8 * nu)
    controls = (
        {"coherence": 7.0},
        {"mean_gain": 2 * GAIN},
    )  # but this round's floor alone counts at a coherence of 40
    for control in controls[: 1 if coherence == 40.0 else 2]:
        other = spend_of(
            policies.ReSolve(**{"mean_gain": GAIN, **options, **control}), problem
        )
        assert np.abs(other - wanted).max() > 1e-3 * nu


def test_from_the_law_the_queue_starts_at_the_price_of_the_level():
    nu = np.array([0.01, 0.16])[:, None]
    gain = np.full((3, 10), 3e-11) * [[1], [2], [3]]
    warm = policies.AdaScale.from_law(MNIST, nu, gain)
    level = RayleighFloors.of(MNIST, gain).level(nu)
    np.testing.assert_allclose(
        warm.penalty * -RoundLeakage(MNIST).slope(level),
        30 * nu + 0 * level,
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        warm.initial_queue, 29 * nu + 0 * level, rtol=1e-14
    )  # and a round spends nu
    by_law = policies.AdaScale.from_law(MNIST, nu, law=RayleighFloors.of(MNIST, gain))
    np.testing.assert_array_equal(by_law.penalty, warm.penalty)
    # the stiffer, the closer to the constant level
    problem, law = make(MNIST, 0.04, seeds=[0, 1]), RayleighFloors([0.03, 0.05])
    level = policies.ConstantLevel(law=law).schedule(problem)
    warm = [
        policies.AdaScale.from_law(MNIST, 0.04, law=law, stiffness=s).schedule(problem)
        for s in (30, 3e3, 3e5)
    ]
    gap = [np.abs(level / w - 1).max() for w in warm]
    assert gap[0] > 0.02
    assert gap[2] < gap[1] / 8 < gap[0] / 64


def test_with_three_rounds_the_programme_is_what_a_fine_grid_finds():
    nu = 0.2
    b = np.geomspace(1e-4, 3 * nu, 80)
    ends = np.array([1e-6, 0.3, 1, 3, 8, 40])  # x = omega / w is exponential
    nodes, weights = np.polynomial.legendre.leggauss(16)
    x = np.concatenate(
        [low + (high - low) * (nodes + 1) / 2 for low, high in pairwise(ends)]
    )
    weight = np.concatenate([width * weights / 2 for width in np.diff(ends)]) * np.exp(
        -x
    )
    floor = OMEGA / x
    last = np.array([F(floor + one) @ weight for one in b])

    def least(floor, budget, later):
        """Over a fine grid of what is spent, the least of this round and the later ones."""
        y = budget * (1 - np.geomspace(1e-4, 1, 1000))[:, None]
        value = F(floor + y) + np.interp(np.log(budget - y), np.log(b), later)
        at = value.argmin(axis=0)
        return value[at, np.arange(len(floor))], y[at, 0]

    two = np.array([least(floor, one, last)[0] @ weight for one in b])
    for first in OMEGA * np.array([0.2, 0.5, 1.0]):
        best, spent = least(np.array([first]), 3 * nu, two)
        y = spend_of(
            policies.DynamicProgramme(GAIN), with_floors(MIXED, [first, 1.0, 1.0], nu)
        )[0]
        value = float(F(first + y)) + np.interp(np.log(3 * nu - y), np.log(b), two)
        assert value <= best[0] * (1 + 5e-4)
        assert y == pytest.approx(spent[0], abs=0.03 * nu)


def test_what_is_out_of_range_is_refused():
    start, given = (
        policies.AdaScale.from_law,
        {"scenario": MIXED, "budget": 0.1, "mean_gain": GAIN},
    )
    tables = {"scenario": MNIST, "budget": np.linspace(0.1, 0.2, 10_000)}
    for function, known, name, *values in (
        (policies.Learn, {}, "budget_mode", "soft"),
        (policies.Learn, {}, "safety_margin", [1, 2]),
        (policies.Learn, {}, "hold", math.nan),
        (policies.Learn, {}, "weight", 0),
        (policies.Learn, {}, "prior", GAIN),
        (policies.Learn, {}, "coherence", 0.5, [1, 2]),
        (policies.ReSolve, {"mean_gain": GAIN}, "coherence", math.nan, "known"),
        (start, given, "stiffness", 0, [1, 2]),
        (start, given, "budget", math.nan),
        (policies.AdaScale, {"penalty": 1.0}, "initial_queue", -0.1),
    ):
        for value in values:
            with pytest.raises(ValueError, match=f"^{name} "):
                function(**(known | {name: value}))
    with pytest.raises(ValueError, match=r"^exactly one of"):
        start(**given | {"mean_gain": None})
    with pytest.raises(ValueError, match=r"^the tables of"):
        policies.DynamicProgramme(np.full(10, 3e-11)).start(**tables)


@pytest.mark.parametrize(
    "kind", [policies.ConstantLevel, policies.ReSolve, policies.DynamicProgramme]
)
def test_the_law_is_given_in_one_way_and_is_the_same_in_both(kind):
    both = {"mean_gain": GAIN, "law": RayleighFloors(0.1)}
    for arguments in (
        {},
        both,
        {"law": GAIN},
        {"mean_gain": [1.0, -1.0, 1.0]},
        {"mean_gain": 1.0},
    ):
        with pytest.raises(ValueError, match=r"mean_gain|law"):
            kind(**arguments)
    with pytest.raises(ValueError, match=r"^mean_gain"):
        kind(GAIN[:2]).start(MIXED, 0.1)
    two = RayleighFloors([0.1, 0.2])
    with pytest.raises(ValueError, match=r"broadcast|mismatch"):
        kind(law=two).start(MIXED, np.full(3, 0.1))
    for policy in (kind(law=two), policies.Learn(prior=two)):
        with pytest.raises(ValueError, match=r"\(2,\)"):
            policy.schedule(make(MIXED, 0.1))
    problem = make(MIXED, 0.1, rounds=9)
    by_law = kind(law=RayleighFloors.of(MIXED, GAIN)).schedule(problem)
    np.testing.assert_array_equal(by_law, kind(GAIN).schedule(problem))
    assert kind.needs_law
    assert not policies.Learn.needs_law


SCALES = np.array([0.02, 0.01, 0.007])  # of devices, as in the paper's MNIST cell


def by_loops(floor):
    x = [1 / w for w in floor]
    mean = sum(x) / len(x)
    steps = sum((b - a) ** 2 for a, b in pairwise(x))
    if steps == 0:
        return len(x)
    return min(max(6 * sum((v - mean) ** 2 for v in x) / steps - 2, 1), len(x))


@given(st.lists(st.floats(-3, 3).map(lambda x: 10.0**x), min_size=1, max_size=30))
def test_the_coherence_seen_is_von_neumanns_ratio(floor):
    assert seen_coherence(floor) == pytest.approx(by_loops(floor), rel=1e-6)


def test_the_unit_of_floors_does_not_matter_and_equal_ones_hang_together_for_good():
    floor = gauss_markov_floors(SCALES, 0.9, (3, 50), np.random.default_rng(2))
    np.testing.assert_allclose(
        seen_coherence(1e200 * floor), seen_coherence(floor), rtol=1e-12
    )
    np.testing.assert_array_equal(seen_coherence(np.full((2, 7), 3e-300)), 7)
    assert seen_coherence([0.1]) == 1
    assert seen_coherence([1e-300, 1e300, 1e300]) == pytest.approx(
        2
    )  # x is 1, 0, 0, and 6 (2/3) / 1 - 2
    for bad in ([], [1.0, -1.0]):
        with pytest.raises(ValueError, match=r"^min_noise_energy"):
            seen_coherence(bad)
