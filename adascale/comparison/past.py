"""Methods that learn from the earlier rounds of a trace."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from adascale.channel import EmpiricalFloors
from adascale.checks import FloatArray
from adascale.comparison.methods import Method, TunedOnModel, TunedOnRealisation
from adascale.errors import InvalidInput
from adascale.policies import Learn, Policy
from adascale.problem import Problem
from adascale.scenario import Scenario


def with_past(method: Method, scenario: Scenario, gain: FloatArray) -> Method:
    """Return a method that gets from earlier rounds what it would get from those on which it is evaluated.

    A policy with ``from_law`` is built by it, ``Learn`` starts from the floors seen, and another parameter is tuned on
    the last earlier rounds, as many as there are to come.  A policy that sees all rounds at once stays as it is.

    Parameters
    ----------
    method : Method
    scenario : Scenario
    gain : numpy.ndarray, shape (M, N), > 0
        Linear gains of the earlier rounds.
    """
    policy = method.policy
    fixed = method.fixed
    min_gain = scenario.min_gain(gain)
    if policy is Learn and "prior" not in fixed:
        prior = EmpiricalFloors.of(scenario, min_gain)
        return TunedOnRealisation(Learn, **fixed, prior=prior)
    if "future" not in method.needs:
        return method
    if hasattr(policy, "from_law"):
        return TunedOnModel(policy, **fixed)

    build = (
        partial(_select_by_past, method, gain)
        if method.chooses_senders
        else partial(_scale_by_past, method, min_gain)
    )
    return replace(method, build=build, needs=method.needs - {"future"} | {"past"})


def _select_by_past(
    method: Method,
    gain: FloatArray,
    scenario: Scenario,
    later: FloatArray,
    total: FloatArray,
) -> Policy:
    return method.build(scenario, _last(method, gain, later.shape[-1]), total)


def _scale_by_past(
    method: Method, min_gain: FloatArray, problem: Problem, *statistics: Any
) -> Policy:
    budget = np.broadcast_to(problem.budget, problem.batch_shape)
    earlier = _last(method, min_gain, problem.num_rounds)
    return method.build(Problem(problem.scenario, earlier, budget), *statistics)


def _last(method: Method, past: FloatArray, rounds: int) -> FloatArray:
    if past.shape[-1] < rounds:
        raise InvalidInput(
            f"the earlier rounds must be {rounds} at least, on which {method.policy.__name__} is tuned, "
            f"got {past.shape[-1]}",
            "gain",
        )
    return past[..., -rounds:]
