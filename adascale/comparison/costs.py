"""What a policy costs and leaks on a problem, whether it scales all devices or chooses who sends."""

from typing import Any

import numpy as np

from adascale.accounting import Accountant
from adascale.channel import Channel, ChannelModel
from adascale.checks import FloatArray
from adascale.comparison.methods import Known, Method
from adascale.policies import Policy, Selecting, Selection
from adascale.policies.base import NamedFailures
from adascale.problem import RENYI, Problem, over_devices

PER_ROUND = ("noise_energy", "eta", "senders")
"""Names of what :func:`measure` returns with the rounds on its last axis."""


def decide(
    method: Method, problem: Problem, draw: Channel, total: Any, assumed: ChannelModel
) -> tuple[Any, FloatArray | Selection]:
    """Build the policy of a method for the realisation ``draw``, run it, and return it and its schedule.

    It is built for the budget of the problem or, if it chooses who sends, for the ``total``.  ``assumed`` is the model
    of the channel from which a policy that needs it gets the distribution of the floors.
    """
    scenario = problem.scenario
    budget = total if method.chooses_senders else problem.budget
    mean_gain = scenario.mean_gain(draw.path_loss)
    policy = method.build(
        Known(scenario, budget, problem.min_gain, mean_gain, draw.gain, assumed)
    )
    return policy, run(policy, problem, draw.gain)


def run(
    policy: Policy, problem: Problem, gain: FloatArray | None = None
) -> FloatArray | Selection:
    """Return the schedule of a policy: its noise energies, or a ``Selection`` by ``gain`` if it chooses who sends.

    ``gain`` holds the linear gains of all devices, shape (..., M, T).
    """
    if not isinstance(policy, Selecting):
        with NamedFailures(policy, "in its schedule"):
            return policy.schedule(problem)
    if gain is None:
        raise ValueError(
            f"{type(policy).__name__} needs the gains of every device, got min_gain"
        )
    selection = policy.select(problem.scenario, gain)
    exposure = selection.exposure if problem.exposure is None else problem.exposure
    return selection._replace(exposure=exposure)


def costs(problem: Problem, schedule: FloatArray | Selection) -> dict[str, Any]:
    """Return by name what a schedule of :func:`run` does in each round and what it costs; see :func:`measure`."""
    mean_floor = problem.min_noise_energy.mean(axis=-1)  # of all devices
    if isinstance(schedule, Selection):
        share = schedule.participation
        measured = {
            "noise_energy": np.where(schedule.eta > 0, schedule.noise_energy, np.inf),
            "eta": schedule.eta,
            "senders": schedule.senders,
            "cost": schedule.total - mean_floor,
            "total": schedule.total,
            "rdp": schedule.rdp(),
        }
    else:
        share = np.ones(1)
        cost = problem.cost(schedule)
        measured = {
            "noise_energy": schedule,
            "eta": problem.eta(schedule),
            "cost": cost,
            "total": mean_floor + cost,
            "rdp": problem.rdp(schedule),
            "full_power": (schedule <= problem.min_noise_energy).mean(axis=-1),
        }
    measured["participation"] = share.mean(axis=-1)
    measured["participation_min"] = share.min(axis=-1)
    return measured


def measure(
    policy: Policy,
    problem: Problem,
    gain: FloatArray | None = None,
    accountant: Accountant = RENYI,
    delta: float = 1e-5,
) -> dict[str, Any]:
    """Run a policy, and return by name what it does in each round and what this costs and leaks.

    Of a policy that scales all devices these are ``noise_energy, eta, cost, total, rdp, epsilon, epsilon_mean,
    full_power, participation`` and ``participation_min`` (1).  One that chooses who sends has ``senders`` instead of
    ``full_power``, is given ``gain`` of shape (..., M, T), and may leave out a round, whose noise energy is infinite.
    """
    schedule = run(policy, problem, gain)
    if isinstance(schedule, Selection):
        epsilons = schedule.epsilons(accountant, delta)
    else:
        epsilons = problem.epsilons(schedule, accountant, delta)
    return costs(problem, schedule) | over_devices(epsilons)
