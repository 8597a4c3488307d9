"""Methods that learn from the earlier rounds of a trace."""

from dataclasses import replace
from functools import partial
from typing import Any

from adascale.channel import Trace
from adascale.comparison.methods import Known, Method, TunedOnModel
from adascale.errors import InvalidInput
from adascale.policies import Learn, PrivacyBudget
from adascale.scenario import Scenario

_LAW = {Learn: "prior", PrivacyBudget: "law"}
"""The argument of policies that can, but need not, be told the distribution of the floors."""


def with_past(
    method: Method, scenario: Scenario, past: Trace, is_future: bool = False
) -> Method:
    """Return a method that is given earlier rounds in place of those on which it is evaluated.

    A policy with ``from_law`` is built by it from their floors, ``Learn`` has these floors as its prior, and any other
    parameter is tuned on the last of them, as many as there are rounds to come.  A policy that sees all rounds at once
    still does.

    Parameters
    ----------
    method : Method
    scenario : Scenario
    past : Trace
    is_future : bool
        Whether ``past`` are the very rounds on which it is evaluated, for a comparison with hindsight: then a parameter
        is always tuned on them, and Learn is given no prior.
    """
    policy, needs = method.policy, method.needs
    if "future" in needs and hasattr(policy, "from_law") and not is_future:
        method = TunedOnModel(policy, **method.fixed)
        needs = method.needs
    if "mean_gain" in needs and past.mean_gain is None:
        raise InvalidInput(
            f"{policy.__name__} needs the gains of every device, which the trace does not have",
            "gain",
        )
    fixed = method.fixed
    if policy in _LAW and not (is_future and policy is Learn):
        fixed = {_LAW[policy]: past.floor_law(scenario)} | fixed
    if "future" in needs:
        needs = needs - {"future"} | {"past"}
    builder = partial(_from_past, past, method.builder)
    return replace(method, builder=builder, fixed=fixed, needs=needs)


def _from_past(past: Trace, builder: Any, method: Method, known: Known) -> Any:
    """Build the policy with the statistics of the earlier rounds, and the last of them in place of those to come."""
    known = replace(known, mean_gain=past.mean_gain, channel=past)
    if "past" in method.needs:
        rounds = known.scenario.num_rounds
        seen = past.gain if method.chooses_senders else past.min_gain
        if seen is None or seen.shape[-1] < rounds:
            got = "min_gain alone" if seen is None else seen.shape[-1]
            raise InvalidInput(
                f"the earlier rounds must be {rounds} at least, on which {method.policy.__name__} is tuned, got {got}",
                "gain",
            )
        last = seen[..., -rounds:]
        known = replace(known, min_gain=last, gain=last)
    return builder(method, known)
