"""What a policy costs and leaks on a problem, whether it scales all devices or chooses who sends."""

from typing import Any

import numpy as np

from adascale.accounting import Accountant
from adascale.checks import FloatArray
from adascale.policies import Policy, Selecting
from adascale.policies.base import scheduled
from adascale.problem import RENYI, Problem, over_devices

PER_ROUND = ("noise_energy", "eta", "senders")
"""Names of what :func:`measure` returns with the rounds on its last axis."""


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
    mean_floor = problem.min_noise_energy.mean(axis=-1)
    if isinstance(policy, Selecting):
        if gain is None:
            raise ValueError(
                f"{type(policy).__name__} needs the gains of every device, got min_gain"
            )
        selection = policy.select(problem.scenario, gain)
        if problem.exposure is not None:
            selection = selection._replace(exposure=problem.exposure)
        share = selection.participation
        epsilons = selection.epsilons(accountant, delta)
        measured = {
            "noise_energy": np.where(selection.eta > 0, selection.noise_energy, np.inf),
            "eta": selection.eta,
            "senders": selection.senders,
            "cost": selection.total - mean_floor,
            "total": selection.total,
            "rdp": selection.rdp(),
        }
    else:
        w = scheduled(policy, problem)
        share = np.ones(1)
        epsilons = problem.epsilons(w, accountant, delta)
        cost = problem.cost(w)
        measured = {
            "noise_energy": w,
            "eta": problem.eta(w),
            "cost": cost,
            "total": mean_floor + cost,
            "rdp": problem.rdp(w),
            "full_power": (w <= problem.min_noise_energy).mean(axis=-1),
        }
    measured["participation"] = share.mean(axis=-1)
    measured["participation_min"] = share.min(axis=-1)
    return measured | over_devices(epsilons)
