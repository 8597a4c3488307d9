"""Rounds that hang together: for how many a floor counts, known or seen."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import policies
from adascale.channel import RayleighFloors
from adascale.policies import seen_coherence
from companion.theory.correlated import block_floors, gauss_markov_floors

from ..problems import MNIST, with_floors

SCALES = np.array([0.02, 0.01, 0.007])  # of devices, as in the paper's MNIST cell
KNOWING = {
    "resolve": lambda **more: policies.ReSolve(law=RayleighFloors(SCALES.sum()), budget_mode="hard", **more),
    "learn": lambda **more: policies.Learn("hard", **more),
}


def excess(policy, floor, budget):
    """Leakage over the offline optimum's, less 1."""
    problem = with_floors(MNIST, floor, budget)
    best = problem.rdp(policies.Optimal().schedule(problem))
    return problem.rdp(policy.schedule(problem)) / best - 1


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
    np.testing.assert_allclose(seen_coherence(1e200 * floor), seen_coherence(floor), rtol=1e-12)
    np.testing.assert_array_equal(seen_coherence(np.full((2, 7), 3e-300)), 7)
    assert seen_coherence([0.1]) == 1
    assert seen_coherence([1e-300, 1e300, 1e300]) == pytest.approx(2)  # x is 1, 0, 0, and 6 (2/3) / 1 - 2
    for bad in ([], [1.0, -1.0]):
        with pytest.raises(ValueError, match=r"^min_noise_energy"):
            seen_coherence(bad)


@pytest.mark.parametrize("name", KNOWING)
def test_in_slow_fading_a_hard_budget_needs_a_coherence_and_elsewhere_it_costs_next_to_nothing(name):
    slow = gauss_markov_floors(SCALES, 0.99, (20, 500), np.random.default_rng(6))
    plain, seen = (excess(KNOWING[name](coherence=c), slow, 0.04) for c in (1.0, "seen"))
    assert seen.mean() < plain.mean() / 4
    assert seen.max() < plain.max() / 4
    independent = block_floors(SCALES.sum(), 1, (20, 500), np.random.default_rng(7))
    # the control: a coherence of 50 that is not there costs
    plain, seen, known = (excess(KNOWING[name](coherence=c), independent, 0.04) for c in (1.0, "seen", 50))
    assert abs(seen.mean() - plain.mean()) < 0.1 * plain.mean()
    assert known.mean() > 3 * plain.mean()
