"""The digits of the paper's two presets, the same under every Python and on every platform that the lock covers.

`tests/digits.json` holds them, and each machine of continuous integration compares. A change that is meant to move them
writes the file anew: `python tests/test_digits.py`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from adascale import Problem, Scenario, channel, policies, tuning

FILE = Path(__file__).with_name("digits.json")
PENALTY = {
    "mnist": 0.3,
    "cifar10": 2.0,
}  # of AdaScale, near what nu = 0.04 and 0.32 ask for


def computed(name):
    """Numbers by name: the channel of seed 0, schedules at every hundredth round, leakages, a tuned penalty."""
    scenario = getattr(Scenario, name)()
    drawn = channel.draw(scenario.num_devices, scenario.num_rounds, 0)
    problem = Problem(scenario, scenario.min_gain(drawn.gain), 0.16)
    mean_gain = scenario.mean_gain(drawn.path_loss)
    numbers = {"min_gain": problem.min_gain[::100], "mean_gain": mean_gain}
    by_label = {
        "Optimal": policies.Optimal(),
        "EqualAlloc": policies.EqualAlloc(),
        "AdaScale": policies.AdaScale(PENALTY[name]),
        "EstimFuture": policies.EstimFuture(mean_gain),
        "PowerControl": policies.PowerControl(
            mean_gain, problem.eta(policies.Optimal().schedule(problem)).sum()
        ),
    }
    for label, policy in by_label.items():
        w = policy.schedule(problem)
        numbers[f"{label}: eta"] = problem.eta(w)[::100]
        numbers[f"{label}: cost"] = problem.cost(w)
        numbers[f"{label}: rdp"] = problem.rdp(w)
        numbers[f"{label}: rdp at order 2.5"] = problem.rdp(w, 2.5)
        numbers[f"{label}: epsilon"] = problem.epsilon(w)
    numbers["tuned penalty"] = tuning.match_budget(policies.AdaScale, problem)
    return {key: np.atleast_1d(value).tolist() for key, value in numbers.items()}


def tolerance(key):
    """Relative. A tuned cost meets its budget to a thousandth of 1e-9; the penalty moves a few times as much."""
    return 1e-11 if key == "tuned penalty" else 1e-12


@pytest.mark.parametrize("name", PENALTY)
def test_every_machine_computes_the_same_digits(name):
    stored = json.loads(FILE.read_text())[name]
    numbers = computed(name)
    assert numbers.keys() == stored.keys()
    for key, values in numbers.items():
        np.testing.assert_allclose(
            values, stored[key], rtol=tolerance(key), atol=0, err_msg=key
        )


if __name__ == "__main__":
    FILE.write_text(
        json.dumps({name: computed(name) for name in PENALTY}, indent=1) + "\n"
    )
