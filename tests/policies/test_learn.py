"""Learn, against its defining equation solved with all floors in a row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import policies
from adascale.channel import RayleighFloors
from adascale.policies import seen_coherence

from ..problems import MNIST, with_floors

LAW = RayleighFloors(0.03)
PROMISED = [
    ("average", 2.0, 0.0),
    ("average", 2.0, 0.1),
    ("average", 2.0, 0.6),
    ("hard", 0.0, 0.1),
    ("hard", 2.5, 0.1),
]
FLOORS = st.lists(st.floats(-8, 8).map(lambda x: 10.0**x), min_size=1, max_size=70)
COHERENCE = (1.0, 3.5, 40.0, "seen")
PRIORS = ({}, {"prior": LAW, "weight": 1}, {"prior": LAW, "weight": 20})


def level_of(seen, own, each, left):
    """Where a sum over all floors, each times max(level - floor, 0), and own for the last, is what is left."""
    order = np.argsort(np.append(seen, seen[-1]))
    floor, weight = (
        np.append(seen, seen[-1])[order],
        np.append(np.full(len(seen), each), own)[order],
    )
    spent = np.array([np.sum(weight * np.maximum(level - floor, 0)) for level in floor])
    wet = int(np.flatnonzero((spent <= left) & (np.cumsum(weight) > 0))[-1])
    return floor[wet] + (left - spent[wet]) / weight[: wet + 1].sum()


def energies(
    problem, *, budget_mode, safety_margin, hold, coherence, prior=None, weight=20
):
    """The noise energies of all rounds, at a cost that is quadratic in their number."""
    T, spent, level = problem.num_rounds, [], 0.0
    believed = (
        [] if prior is None else prior.quantile((np.arange(weight) + 0.5) / weight)
    )
    left = T * float(problem.budget)
    for t, floor in enumerate(problem.min_noise_energy):
        n, seen = T - t, np.append(believed, problem.min_noise_energy[: t + 1])
        c = (
            float(seen_coherence(problem.min_noise_energy[: t + 1]))
            if coherence == "seen"
            else coherence
        )
        if budget_mode == "hard" or n > hold * T:
            m = (
                n
                - min(c, n)
                + (
                    safety_margin * (1 + c) / 2 * np.log(max(n / c, 1))
                    if budget_mode == "hard"
                    else 0
                )
            )
            level = level_of(seen, min(c, n), m / (len(seen) + (prior is None)), left)
        y = max(level - floor, 0.0)
        if budget_mode == "hard":
            y = min(y, left) if n > 1 else left
        spent.append(y)
        left = max(left - y, 0.0)
    return problem.min_noise_energy + spent


@pytest.mark.parametrize(("budget_mode", "safety_margin", "hold"), PROMISED)
@given(
    FLOORS,
    st.floats(-6, 6).map(lambda x: 10.0**x),
    st.sampled_from(COHERENCE),
    st.sampled_from(PRIORS),
)
def test_learn_solves_its_equation_in_deep_fades(
    budget_mode, safety_margin, hold, floor, budget, coherence, prior
):
    options = prior | {
        "budget_mode": budget_mode,
        "safety_margin": safety_margin,
        "hold": hold,
        "coherence": coherence,
    }
    problem = with_floors(MNIST, floor, budget)
    w = policies.Learn(**options).schedule(problem)
    np.testing.assert_allclose(w, energies(problem, **options), rtol=1e-9)


def test_rounds_of_learn_are_its_schedule_beyond_4096_floors_and_a_state_can_be_left_in_two_ways():
    """In two instances: runs are merged after 4096 floors, and again after 8192."""
    floor = 0.03 / np.random.default_rng(0).exponential(size=(2, 8300))
    policy, problem = (
        policies.Learn(coherence="seen", prior=LAW, weight=3),
        with_floors(MNIST, floor, 0.04),
    )
    w, state, kept = (
        policy.schedule(problem),
        policy.start(problem.scenario, problem.budget + np.zeros(2)),
        [],
    )
    for t, floor_t in enumerate(problem.min_noise_energy.T):
        kept.append(state)
        state, energy = policy.decide(state, floor_t)
        np.testing.assert_array_equal(energy, w[:, t])
    for t in (0, 1, 63, 4091, 4092, 4093, 4094, 4095, 4096):
        first, _ = policy.decide(kept[t], problem.min_noise_energy[:, t])
        policy.decide(kept[t], problem.min_noise_energy[:, t] / 2)
        again, _ = policy.decide(kept[t], problem.min_noise_energy[:, t])
        for name, value in vars(first).items():
            np.testing.assert_array_equal(value, getattr(again, name))


@pytest.mark.parametrize("coherence", [1.0, 40.0])
def test_learn_meets_its_equation_over_200_000_rounds(coherence):
    T = 200_000  # minutes, were each round to look at all floors before it
    floor = 0.03 / np.random.default_rng(2).exponential(size=T)
    problem = with_floors(MNIST, floor, 0.04)
    energy = policies.Learn(coherence=coherence).schedule(problem)
    spent = np.maximum(energy - floor, 0)
    for t in np.random.default_rng(3).choice(
        np.flatnonzero(spent[: T // 2] > 1e-9), 20
    ):
        left, level, n = T * 0.04 - spent[:t].sum(), energy[t], T - t
        below = np.maximum(level - floor[: t + 1], 0).sum()
        assert coherence * (level - floor[t]) + (n - coherence) / (
            t + 2
        ) * below == pytest.approx(left, rel=1e-9)
