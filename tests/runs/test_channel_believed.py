"""A policy that needs the law of the floors believes the channel of its run."""

from dataclasses import dataclass, replace

import numpy as np

from adascale import policies
from adascale.channel import Rayleigh
from adascale.runs import execution
from adascale.runs.specification import make_run


@dataclass(frozen=True)
class Weaker(Rayleigh):
    """Rayleigh fading of a hundredth of the power, of which the mean gains know nothing."""

    def fading(self, rng, num_rounds):
        return super().fading(rng, num_rounds) / 10

    def floor_law(self, scenario, mean_gain):
        return super().floor_law(scenario, np.asarray(mean_gain) / 100)


def test_the_channel_of_the_run_is_believed():
    run = make_run("digits", "adascale.policies:ConstantLevel", 0.5, 0, rounds=3, every=3)
    run = replace(run, channel=Weaker())
    problem, mean_gain = execution.problem_of(run)

    def cost(law):
        return float(problem.cost(policies.ConstantLevel(law=law).schedule(problem)))

    found = execution.perform(run).row["cost"]
    assert found == cost(Weaker().floor_law(run.scenario, mean_gain))
    assert cost(Rayleigh().floor_law(run.scenario, mean_gain)) < 0.1 * found  # the control
