"""The online interface: a policy is handed one round at a time and nothing later."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario


class OnlinePolicy(Protocol):
    r"""What an online policy offers; subclass it to get :meth:`schedule` for free.

    ``start`` and ``step`` are pure: a state is never changed, so it can be kept, compared and resumed from.
    """

    def start(self, scenario: Scenario, budget: np.ndarray) -> Any:
        r"""The state before round 0.

        ``scenario.num_rounds`` is the horizon T; ``budget`` is :math:`\nu` of every lane (any shape, maybe ``()``).
        """

    def step(self, state: Any, min_gain_t: np.ndarray) -> tuple[Any, np.ndarray]:
        r"""One round: :math:`h_{\min,t}^2` of every lane gives the next state and :math:`\eta_t`, of the same shape."""

    def schedule(self, problem: ReceiveScalingProblem) -> np.ndarray:
        r"""Run the policy over a whole problem: :math:`\eta_t` of shape (..., T), see :func:`run`."""
        return run(self, problem)


def schedule(policy, problem: ReceiveScalingProblem) -> np.ndarray:
    r""":math:`\eta_t` of a whole problem, shape (..., T): by the policy's own ``schedule``, or by :func:`run`."""
    return policy.schedule(problem) if hasattr(policy, "schedule") else run(policy, problem)


def run(policy, problem: ReceiveScalingProblem) -> np.ndarray:
    r"""Feed a problem's rounds to anything with ``start`` and ``step``, one at a time, all lanes side by side.

    Causality holds by construction: what is decided in round t is decided before round t + 1 is handed over.

    Returns
    -------
    numpy.ndarray
        :math:`\eta_t`, shape (..., T).

    Raises
    ------
    ValueError
        If the policy returns something that is not positive, or exceeds the power limit.
    """
    state = policy.start(problem.scenario, np.broadcast_to(problem.budget, problem.lanes))
    shape = (*problem.lanes, problem.num_rounds)
    gain = np.ascontiguousarray(np.moveaxis(np.broadcast_to(problem.min_gain, shape), -1, 0))
    eta = np.empty(gain.shape)
    for t in range(problem.num_rounds):
        state, eta[t] = policy.step(state, gain[t].copy())  # a copy: a view would lead back to the later rounds
    eta = np.ascontiguousarray(np.moveaxis(eta, 0, -1))
    bad = ~((eta > 0) & (eta <= problem.max_eta))
    if bad.any():
        worst = tuple(int(i) for i in np.argwhere(bad)[0])
        cap = np.broadcast_to(problem.max_eta, eta.shape)[worst]
        raise ValueError(
            f"{type(policy).__name__} returned eta = {eta[worst]} in round {worst[-1]}, expected 0 < eta <= {cap}"
        )
    return eta
