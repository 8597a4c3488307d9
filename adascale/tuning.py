r"""Tuning a policy so that its cost is the budget, as the paper does before it compares leakages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import elementwise

from adascale.problem import ReceiveScalingProblem


def match_budget(
    policy: Callable, problem: ReceiveScalingProblem, *statistics, guess=None, tolerance: float = 1e-9
) -> np.ndarray:
    r"""The parameter of a policy whose mean cost equals :math:`\nu` in every lane.

    It runs the policy over the whole horizon again and again: it **sees the whole future**, as the paper's own tuning
    does.  For AdaScale the parameter is the penalty V.

    Parameters
    ----------
    policy : callable
        From an array of positive parameters, one a lane, to a policy with ``schedule``: ``policies.AdaScale``.  The
        cost must be continuous in the parameter and cross the budget once.
    problem : ReceiveScalingProblem
        The lanes to match.
    *statistics : array_like
        What else the policy needs to know of its lanes, each of shape (..., M), for example ``mean_gain``: its leading
        axes broadcast against the lanes.  The policy is called with the parameters and then these, lane by lane.
    guess : array_like, optional
        Where the search starts and widens from, by ratio: positive, broadcasts against the lanes.  Default:
        ``policy.guess(problem)`` where the policy has one, else 1.
    tolerance : float
        Largest :math:`|\mathrm{cost} / \nu - 1|`.

    Returns
    -------
    numpy.ndarray
        The parameter of each lane, shape ``problem.lanes``.

    Raises
    ------
    RuntimeError
        If some lane's cost cannot be brought to its budget: the message names the lane, and nothing is returned.
    """
    lanes = np.arange(int(np.prod(problem.lanes)))
    budget = np.broadcast_to(problem.budget, problem.lanes).ravel()
    gain = np.broadcast_to(problem.min_gain, problem.lanes + (problem.num_rounds,)).reshape(lanes.size, -1)

    known = [np.asarray(each, dtype=float) for each in statistics]
    known = [np.broadcast_to(each, (*problem.lanes, each.shape[-1])).reshape(lanes.size, -1) for each in known]

    def excess(log_parameter, lane):
        chosen = ReceiveScalingProblem(problem.scenario, gain[lane], budget[lane])
        parameter = np.exp(np.clip(log_parameter, -600, 600))
        return chosen.cost(policy(parameter, *(each[lane] for each in known)).schedule(chosen)) / chosen.budget - 1

    if guess is None:
        guess = policy.guess(problem) if hasattr(policy, "guess") else 1.0
    centre = np.log(np.broadcast_to(guess, problem.lanes)).ravel()
    bracket = elementwise.bracket_root(excess, centre - 1, centre + 1, args=(lanes,), maxiter=60)
    found = elementwise.find_root(
        excess,
        bracket.bracket,
        args=(lanes,),
        tolerances={"fatol": tolerance / 2, "frtol": 0, "xatol": 0, "xrtol": 0},
    )
    missed = np.abs(found.f_x) > tolerance
    if missed.any() or not np.isfinite(found.x).all():
        lane = np.unravel_index(np.argmax(missed | ~np.isfinite(found.x)), problem.lanes)
        raise RuntimeError(f"no parameter brings the cost of lane {tuple(map(int, lane))} to its budget")
    return np.exp(found.x).reshape(problem.lanes)
