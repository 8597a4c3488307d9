"""Rounds that hang together: for how many a floor counts, known or seen."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

from adascale import ReceiveScalingProblem, policies
from adascale.channel import RayleighFloors
from adascale.policies import seen_coherence
from companion.theory.correlated import block_floors, gauss_markov_floors

from ..problems import MIXED, MNIST, feasible

GAIN = np.array([1e-10, 2e-11, 4e-11])
OMEGA = float(RayleighFloors.of(MIXED, GAIN).scale)
SCALES = np.array([0.02, 0.01, 0.007])  # of devices, as in the paper's MNIST cell


def problem_of(floor, budget, scenario=MNIST):
    return ReceiveScalingProblem(scenario, scenario.noise_scale / (scenario.x_max * floor), budget)


def spend_of(policy, problem):
    eta = policy.schedule(problem)
    assert feasible(problem, eta)
    return np.maximum(problem.noise_energy(eta) - problem.floor, 0)


def excess(policy, floor, budget):
    """Leakage over the offline optimum's, less 1."""
    problem = problem_of(floor, budget)
    best = problem.rdp(policies.Optimal().schedule(problem))
    return problem.rdp(policy.schedule(problem)) / best - 1


# What is seen --------------------------------------------------------------------------------------------------------


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


def test_independent_rounds_have_none_and_blocks_three_times_their_length():
    rng = np.random.default_rng(1)
    assert seen_coherence(block_floors(0.037, 1, (20, 5000), rng)).mean() == pytest.approx(1, abs=0.05)
    # neighbours correlate by 1 - 1/b: 1 + (3/2)(2b - 2)
    assert seen_coherence(block_floors(0.037, 10, (20, 20_000), rng)).mean() == pytest.approx(28, rel=0.05)
    slow, fast = (seen_coherence(gauss_markov_floors(SCALES, r, (20, 5000), rng)).mean() for r in (0.99, 0.9))
    assert 3 < fast < 8 < 20 < slow < 99


def test_the_unit_of_floors_does_not_matter_and_equal_ones_hang_together_for_good():
    floor = gauss_markov_floors(SCALES, 0.9, (3, 50), np.random.default_rng(2))
    np.testing.assert_allclose(seen_coherence(1e200 * floor), seen_coherence(floor), rtol=1e-12)
    np.testing.assert_array_equal(seen_coherence(np.full((2, 7), 3e-300)), 7)
    assert seen_coherence([0.1]) == 1
    assert seen_coherence([1e-300, 1e300, 1e300]) == pytest.approx(2)  # x is 1, 0, 0, and 6 (2/3) / 1 - 2
    for bad, said in (([], r"^floor must have a last axis of floors"), ([1.0, -1.0], r"^floor must be finite and > 0")):
        with pytest.raises(ValueError, match=said):
            seen_coherence(bad)


# Equations -----------------------------------------------------------------------------------------------------------


def replayed(problem, level_of, coherence, promise, reserve, hold):
    """A policy in plain Python: ``level_of(floors seen, own, rounds counted, left)`` says the level of a round."""
    T, left, level, spend = problem.num_rounds, problem.budget * problem.num_rounds, None, []
    for t, floor in enumerate(problem.floor):
        n, seen = T - t, problem.floor[: t + 1]
        c = by_loops(seen) if coherence == "seen" else coherence
        own = min(c, n)
        if promise == "hard":
            level = level_of(seen, own, n - own + reserve * (1 + c) / 2 * math.log(max(n / c, 1)), left)
        elif n > hold * T:
            level = level_of(seen, own, n - own, left)
        spend.append(min(max(level - floor, 0.0), left) if promise == "hard" else max(level - floor, 0.0))
        left = max(left - spend[-1], 0.0)
    return np.array(spend)


CASES = [(1.0, "hard"), (3.5, "hard"), (40.0, "hard"), ("seen", "hard"), (3.5, "average"), ("seen", "average")]


@pytest.mark.parametrize(("coherence", "promise"), CASES)
def test_a_floor_counts_for_as_many_rounds_in_the_equation_of_resolving(coherence, promise):
    floor = gauss_markov_floors([OMEGA], 0.8, (1, 25), np.random.default_rng(3))[0]
    problem = problem_of(floor, 0.1, MIXED)

    def level_of(seen, own, rounds, left):
        def over(level):
            return own * max(level - seen[-1], 0.0) + rounds * level * special.expn(2, OMEGA / level) - left

        return optimize.brentq(over, 1e-4 * OMEGA, seen[-1] + left / own + 1e-9, xtol=1e-15, rtol=1e-14)

    wanted = replayed(problem, level_of, coherence, promise, 2.0, 0.1)
    found = spend_of(policies.ReSolve(GAIN, promise=promise, coherence=coherence), problem)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9)
    if coherence != 1.0:  # the control: that it is another policy
        assert np.abs(found - spend_of(policies.ReSolve(GAIN, promise=promise), problem)).max() > 1e-3


@pytest.mark.parametrize(("coherence", "promise"), CASES)
def test_a_floor_counts_for_as_many_rounds_in_the_equation_of_learning(coherence, promise):
    floor = gauss_markov_floors([OMEGA], 0.8, (1, 25), np.random.default_rng(4))[0]
    problem = problem_of(floor, 0.1, MIXED)

    def level_of(seen, own, rounds, left):
        def over(level):
            fill = np.maximum(level - seen, 0)
            return own * fill[-1] + rounds / (len(seen) + 1) * fill.sum() - left

        return optimize.brentq(over, 0, seen[-1] + left / own + 1e-9, xtol=1e-15, rtol=1e-14)

    wanted = replayed(problem, level_of, coherence, promise, 2.0, 0.1)
    found = spend_of(policies.Learn(promise, coherence=coherence), problem)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9)


def test_a_block_is_begun_as_one_round_of_a_shorter_horizon():
    """Without a reserve, re-solving with the length of blocks plans as re-solving of T/c rounds does."""
    long = problem_of(np.full(60, 0.03), 0.04)
    short = problem_of(np.full(6, 0.03), 0.04)
    law = RayleighFloors(0.037)
    whole = spend_of(policies.ReSolve(law=law, promise="hard", reserve=0.0, coherence=10), long)
    assert whole[0] == pytest.approx(spend_of(policies.ReSolve(law=law, promise="hard", reserve=0.0), short)[0])
    plain = spend_of(policies.ReSolve(law=law, promise="hard", reserve=0.0), long)
    assert plain[0] > 1.05 * whole[0]  # the control


@pytest.mark.parametrize(
    "make_it",
    [
        lambda: policies.ReSolve(GAIN, promise="hard", coherence="seen"),
        lambda: policies.ReSolve(GAIN, coherence=4.0),
        lambda: policies.Learn("hard", coherence="seen"),
        lambda: policies.Learn("hard", coherence="seen", prior=RayleighFloors(OMEGA)),
    ],
)
def test_round_by_round_is_the_whole_horizon(make_it):
    floor = gauss_markov_floors([OMEGA], 0.8, (3, 20), np.random.default_rng(5))
    problem = problem_of(floor, np.array([0.01, 0.1, 1.0]), MIXED)
    np.testing.assert_array_equal(policies.run(make_it(), problem), make_it().schedule(problem))


@pytest.mark.parametrize("kind", [lambda **more: policies.ReSolve(GAIN, **more), policies.Learn])
def test_what_is_no_coherence_is_refused(kind):
    for bad, said in (
        (0.5, r"^coherence must be finite and >= 1, got 0.5$"),
        (math.nan, r"^coherence must be finite and >= 1, got nan$"),
        ([1.0, 2.0], r"^coherence must be one number, got \[1.0, 2.0\]$"),
        ("known", r"^coherence must be a number of rounds >= 1, or 'seen', got 'known'$"),
    ):
        with pytest.raises(ValueError, match=said):
            kind(coherence=bad)


# What it is good for -------------------------------------------------------------------------------------------------

KNOWING = {
    "resolve": lambda **more: policies.ReSolve(law=RayleighFloors(SCALES.sum()), promise="hard", **more),
    "learn": lambda **more: policies.Learn("hard", **more),
}


@pytest.mark.parametrize("name", KNOWING)
def test_in_slow_fading_a_hard_budget_needs_a_coherence(name):
    floor = gauss_markov_floors(SCALES, 0.99, (60, 500), np.random.default_rng(6))
    plain, seen = (excess(KNOWING[name](coherence=c), floor, 0.04) for c in (1.0, "seen"))
    assert seen.mean() < plain.mean() / 4
    assert seen.max() < plain.max() / 4


@pytest.mark.parametrize("name", KNOWING)
def test_in_independent_rounds_seeing_the_coherence_costs_next_to_nothing(name):
    floor = block_floors(SCALES.sum(), 1, (60, 500), np.random.default_rng(7))
    plain, seen = (excess(KNOWING[name](coherence=c), floor, 0.04) for c in (1.0, "seen"))
    assert abs(seen.mean() - plain.mean()) < 0.1 * plain.mean()
    known = excess(KNOWING[name](coherence=50), floor, 0.04)  # the control: a coherence that is not there costs
    assert known.mean() > 3 * plain.mean()
