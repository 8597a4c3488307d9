"""Methods that learn from the earlier rounds of a trace."""

from dataclasses import replace
from typing import Any

from adascale.channel import EmpiricalFloors, Trace
from adascale.comparison.methods import Method, TunedOnModel
from adascale.errors import InvalidInput
from adascale.policies import Learn, PrivacyBudget
from adascale.scenario import Scenario

_LAW = {Learn: "prior", PrivacyBudget: "law"}
"""The argument of policies that can, but need not, be told the distribution of the floors."""


def with_past(
    method: Method, scenario: Scenario, past: Trace, is_future: bool = False
) -> Method:
    """Return a method that gets from earlier rounds what it would get from those on which it is evaluated.

    A policy with ``from_law`` is built by it, ``Learn`` starts from the floors seen, and another parameter is tuned on
    the last earlier rounds, as many as there are to come.  A policy that sees all rounds at once stays as it is.

    Parameters
    ----------
    method : Method
    scenario : Scenario
    past : Trace
    is_future : bool
        Whether these are the rounds on which it is evaluated: then a parameter is always tuned, and Learn is told
        nothing.
    """
    policy = method.policy
    if "future" in method.needs and hasattr(policy, "from_law") and not is_future:
        method = TunedOnModel(policy, **method.fixed)
    told = _told_by(method, scenario, past, is_future)
    needs = method.needs - {*told}
    if method.tuned and method.constructor is None and "law" in told:
        # the floors on which the parameter is tuned are drawn from the law
        method = replace(method, model=method.model | told, needs=needs)
    else:
        method = replace(method, fixed=told | method.fixed, needs=needs)
    if "future" not in method.needs:
        return method
    return replace(method, needs=method.needs - {"future"} | {"past"}, past=past)


def _told_by(
    method: Method, scenario: Scenario, past: Trace, is_future: bool
) -> dict[str, Any]:
    """Return what earlier rounds tell a policy of the channel, by the name of the argument."""
    law = EmpiricalFloors.of(scenario, past.min_gain)
    statistics = {"law": law, "mean_gain": past.mean_gain}
    told = {name: statistics[name] for name in method.needs & statistics.keys()}
    policy = method.policy
    if policy in _LAW and not (is_future and policy is Learn):
        told[_LAW[policy]] = law
    if any(value is None for value in told.values()):
        raise InvalidInput(
            f"{policy.__name__} needs the gains of every device, which the trace does not have",
            "gain",
        )
    return told
