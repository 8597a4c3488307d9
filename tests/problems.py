"""Problems that the tests of the policies share."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from adascale import Problem, Scenario, channel, policies

MNIST, CIFAR = Scenario.mnist(), Scenario.cifar10()
# three devices, two of them alike
MIXED = Scenario(
    "mixed", 3, 8, 1000, (20, 60, 20), (1000, 600, 1000), 1.5, 0.2, 1e-12, 3
)
FULL = replace(MIXED, name="full", batch_size=40, dataset_size=40)  # q = 1
PART = replace(
    MIXED, name="part", privacy_noise_power=8e-13
)  # the server cancels a fifth of the noise
PAPER = [(MNIST, nu) for nu in (0.01, 0.02, 0.04, 0.08, 0.16)] + [
    (CIFAR, nu) for nu in (0.01, 0.32)
]


def powers(low, high):
    """Numbers over many decades."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


gains = st.lists(powers(-13, -8), min_size=1, max_size=12)
budgets, penalties = powers(-3, 1), powers(-6, 4)


def drawn(scenario, budget, seeds=0, rounds=None):
    """A problem on the paper's channel, and the mean gains of its devices."""
    realisation = channel.draw(
        scenario.num_devices, rounds or scenario.num_rounds, seeds
    )
    return Problem(
        scenario, scenario.min_gain(realisation.gain), budget
    ), scenario.mean_gain(realisation.path_loss)


def make(scenario, budget, seeds=0, rounds=None):
    return drawn(scenario, budget, seeds, rounds)[0]


def with_floors(scenario, floor, budget):
    """A problem that has these floors."""
    return Problem(
        scenario, scenario.noise_scale / (scenario.x_max * np.array(floor)), budget
    )


def feasible(problem, w):
    return (w >= problem.min_noise_energy).all() and (w < np.inf).all()


def spend_of(policy, problem):
    """What each round of a schedule spends, which is feasible."""
    w = policy.schedule(problem)
    assert feasible(problem, w)
    return np.maximum(w - problem.min_noise_energy, 0)


def best_energy(floor, queue, penalty, leakage):
    """The noise energy of one round of AdaScale."""
    floor = np.asarray(floor, dtype=float)[..., None]
    return policies.adascale_energies(floor, 1.0, penalty, leakage, queue)[0][..., 0]


class FullPower(policies.OnlinePolicy):
    def start(self, scenario, budget):
        return scenario

    def decide(self, scenario, floor):
        return scenario, floor
