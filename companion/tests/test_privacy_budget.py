"""The studies of a guaranteed epsilon, on short trainings: plain loops and formulas."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from adascale import Problem, Scenario, channel
from adascale.channel import RayleighFloors
from adascale.policies import PrivacyBudget
from companion.causal import privacy_budget as study

T = 8


@pytest.fixture(autouse=True)
def short(monkeypatch):
    scenario = replace(Scenario.mnist(), num_rounds=T, num_devices=3)
    monkeypatch.setattr(Scenario, "mnist", lambda: scenario)
    monkeypatch.setattr(study, "ROUNDS", T)
    return scenario


def renyi_epsilon(problem, energy, orders=range(2, 200)):
    """Return the worst device's epsilon at the best integer order, by the binomial sum."""
    q, delta = float(problem.scenario.sampling_rate), 1e-5
    found = []
    for sigmas in problem.noise_multiplier(energy):
        values = []
        for a in orders:
            k = np.arange(a + 1)
            ways = np.cumsum(np.log([1, *((a - k[:-1]) / (k[:-1] + 1))]))
            terms = ways + (a - k) * np.log1p(-q) + k * np.log(q)
            each = [
                np.logaddexp.reduce(terms + k * (k - 1) / (2 * s**2)) for s in sigmas
            ]
            offset = np.log1p(-1 / a) - np.log(delta * a) / (a - 1)
            values.append(sum(each) / (a - 1) + offset)
        found.append(min(values))
    return max(found)


def test_hostile_rows_have_the_epsilon_of_the_binomial_sum(short, monkeypatch):
    monkeypatch.setattr(study, "_LATE", np.arange(T) >= 4)
    law = RayleighFloors.of(short, short.mean_gain(channel.draw(3, 1, 0).path_loss))
    floors = law.draw(np.random.default_rng(0), 2, T)
    floors[:, 4:] = 1e3  # deep fades late
    accountant = study.RenyiAccountant(study.order_grid(1e5, 1.01))
    spent = []
    for floor in floors:  # one path at a time
        problem = Problem(short, short.floor(floor), 1.0)
        policy = PrivacyBudget(study.TARGET, law=law, accountant=accountant)
        spent.append(renyi_epsilon(problem, policy.schedule(problem)) / study.TARGET)
    (row,) = study.path_rows("deep fades late", "known law", 2)
    # the study's orders are not whole
    assert row["most"] == pytest.approx(max(spent), rel=1e-2)
    assert row["least"] == pytest.approx(min(spent), rel=1e-2)
    assert row["most"] <= 1
    # control: half the noise, where floors allow it
    free = Problem(short, np.full(T, 1e9), 1.0)
    assert renyi_epsilon(free, policy.schedule(problem) / 2) > study.TARGET


def test_hostile_kinds_are_what_their_names_say():
    floor = np.array([[3.0, 1.0, 2.0, 4.0]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "_LATE", np.arange(4) >= 2)
        found = {kind: make(floor)[0].tolist() for kind, make in study.HOSTILE.items()}
    assert found == {
        "independent": [3, 1, 2, 4],
        "ever weaker": [1, 2, 3, 4],
        "deep fades late": [3, 1, 1e3, 1e3],
        "no floors late": [3, 1, 1e-6, 1e-6],
        "one good round": [1e3, 1, 1e3, 1e3],
    }


def test_noise_rows_have_the_floors_of_the_channel(short):
    rows = {row["policy"]: row for row in study.noise_rows(2.0, 0)}
    gain = channel.draw(3, T, 0).gain
    floor = short.floor(short.min_gain(gain))
    free = Problem(short, np.full(T, 1e9), 1.0)  # floors of nearly zero
    for row in rows.values():
        assert row["exact"] <= 2
        assert row["total"] - row["extra"] == pytest.approx(np.mean(floor))
    # the even level, from the exact epsilon of equal rounds
    exact = study.ExactAccountant()
    log_level = brentq(
        lambda x: float(free.epsilon(np.full(T, np.exp(x)), exact)) - 2, -5, 5
    )
    level = np.exp(log_level)
    even = np.maximum(level, floor).mean()
    # the level has a certified epsilon, which is below 2 by its margin
    assert rows["one level"]["total"] == pytest.approx(even, rel=1e-3)
    assert even > 1.1 * floor.mean()  # control: the level matters
