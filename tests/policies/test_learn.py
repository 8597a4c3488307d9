"""Learn, against its defining equation solved with all floors in a row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import policies
from adascale.channel import RayleighFloors

from ..problems import MNIST, powers, with_floors
from .test_causal import planned

LAW = RayleighFloors(0.03)


def level_of(seen, counted, share, left):
    """Where a sum over all floors, each times max(level - floor, 0), and more for the last, is what is left."""
    floor = np.append(seen, seen[-1])
    weight = np.append(np.full(len(seen), share), counted)
    order = np.argsort(floor)
    floor, weight = floor[order], weight[order]
    spent = (weight * np.maximum(floor[:, None] - floor, 0)).sum(axis=1)
    wet = int(np.flatnonzero((spent <= left) & (np.cumsum(weight) > 0))[-1])
    return floor[wet] + (left - spent[wet]) / weight[: wet + 1].sum()


@pytest.mark.parametrize(
    ("mode", "margin", "hold"),
    [
        ("average", 2.0, 0.0),
        ("average", 2.0, 0.6),
        ("hard", 0.0, 0.1),
        ("hard", 2.5, 0),
    ],
)
@given(
    st.lists(powers(-8, 8), min_size=1, max_size=70),
    powers(-6, 6),
    st.sampled_from([1.0, 3.5, 40.0, "seen"]),
    st.sampled_from([(None, 20), (LAW, 1), (LAW, 20)]),
)
def test_learn_solves_its_equation_in_deep_fades(
    mode, margin, hold, floor, budget, coherence, prior
):
    problem = with_floors(MNIST, floor, budget)
    law, weight = prior
    believed = [] if law is None else law.quantile((np.arange(weight) + 0.5) / weight)

    def level(seen, counted, later, left):
        seen = np.append(believed, seen)
        return level_of(seen, counted, later / (len(seen) + (law is None)), left)

    spends = planned(
        problem,
        level,
        budget_mode=mode,
        safety_margin=margin,
        hold=hold,
        coherence=coherence,
    )
    policy = policies.Learn(mode, margin, hold, law, weight, coherence)
    expected = problem.min_noise_energy + spends
    np.testing.assert_allclose(policy.schedule(problem), expected, rtol=1e-9)


def test_rounds_of_learn_are_its_schedule_while_its_runs_are_merged():
    drawn = 0.03 / np.random.default_rng(0).exponential(size=600)
    problem = with_floors(MNIST, drawn, 0.04)
    policy = policies.Learn(coherence="seen", prior=LAW, weight=3)
    w = policy.schedule(problem)
    state = policy.start(problem.scenario, problem.budget)
    for t, floor in enumerate(problem.min_noise_energy):
        policy.decide(state, floor / 2)  # a state can be left in two ways
        state, energy = policy.decide(state, floor)
        assert energy == w[t]
