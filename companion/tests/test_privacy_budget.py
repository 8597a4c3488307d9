"""The studies of a guaranteed epsilon, on short trainings: plain loops and formulas."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from adascale import Problem, Scenario, channel
from companion.causal import privacy_budget as study

T = 8


@pytest.fixture(autouse=True)
def short(monkeypatch):
    scenario = replace(Scenario.mnist(), num_rounds=T, num_devices=3)
    monkeypatch.setattr(Scenario, "mnist", lambda: scenario)
    monkeypatch.setattr(study, "ROUNDS", T)
    return scenario


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
