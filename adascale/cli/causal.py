"""The policy that the options select, from what is known before the first round."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

import adascale
from adascale.cli import common

if TYPE_CHECKING:
    from adascale.channel import Trace
    from adascale.comparison import Method

BUDGET_MODES = {
    "hard": "nu is never exceeded",
    "average": "nu on average over many runs; a single one may spend more",
    "law": "nu on average over many runs with channels like the past; a single one may spend more",
    "past": "none on this trace; the cost was nu on the past trace",
    "hindsight": "the cost is nu on this trace, in hindsight",
    "epsilon": "none; epsilon is not exceeded on any channel",
    "own": "that of the policy",
}
"""Descriptions of how a policy meets the budget."""


def choose(
    options: Namespace, scenario: adascale.Scenario, trace: Trace | None = None
) -> tuple[str, adascale.Policy, str]:
    """Return the name and the policy for ``scenario.num_rounds`` rounds, and a description in :data:`BUDGET_MODES`.

    ``trace`` is the past, or with ``options.hindsight`` the trace on which the policy is evaluated, as in the paper's
    protocol.
    """
    hindsight = bool(getattr(options, "hindsight", False))
    name, method = (
        _find(options, hindsight)
        if options.epsilon is None
        else guarantee_epsilon(options)
    )
    spends_nu = not (method.chooses_senders or method.policy.needs_epsilon)
    # a policy that does not spend nu needs a target only to find a parameter that was not given
    needs_target = spends_nu or not method.needs.isdisjoint({"future", "epsilon"})
    targets = [value for value in (options.nu, options.epsilon) if value is not None]
    if len(targets) > 1 or (needs_target and not targets):
        raise ValueError("exactly one of --nu and --epsilon must be given")
    if "epsilon" in method.needs:
        raise ValueError(f"--policy {options.policy} needs --epsilon in place of --nu")
    if options.past is not None:
        trace = _read_past(options, scenario, trace, hindsight)
    if trace is None and method.needs:
        raise ValueError(_missing_past(options, method))
    policy = _build(options.nu, scenario, method, trace, hindsight)
    return name, policy, BUDGET_MODES[_budget_mode(policy, method, hindsight)]


def _read_past(
    options: Namespace,
    scenario: adascale.Scenario,
    other: Trace | None,
    hindsight: bool,
) -> Trace:
    """Read the trace of ``--past``; refuse it if another option gave the ``other`` trace."""
    if other is not None:
        name = "--hindsight" if hindsight else "--split"
        raise ValueError(f"--past cannot be combined with {name}")
    return common.read_trace(options.past, options, scenario)


def _find(options: Namespace, hindsight: bool) -> tuple[str, Method]:
    """Return the label and the method of ``--policy``.

    A class with ``from_law`` is built from the distribution of the channel, where it could also be tuned on rounds to
    come, unless ``hindsight`` asks for these.
    """
    options.policy = options.policy or ("adascale" if hindsight else "learn")
    name, method = adascale.comparison.find_method(options.policy)
    kind, _ = adascale.registry.parse_options(options.policy)
    own = method.policy
    if ":" in kind and own.label:  # your own class, called as it wants
        name = own.label + name.removeprefix(own.__name__)
    has_law = hasattr(method.policy, "from_law")
    if has_law and "future" in method.needs and not hindsight:
        method = adascale.comparison.TunedOnModel(method.policy, **method.fixed)
    return name, method


def guarantee_epsilon(options: Namespace) -> tuple[str, Method]:
    """Return the label and the method of the policy that guarantees ``--epsilon``."""
    options.policy = options.policy or "privacybudget"
    name, method = adascale.comparison.find_method(options.policy)
    is_truncated = method.policy is adascale.policies.Truncated and not method.fixed
    if "epsilon" not in method.needs and not is_truncated:
        raise ValueError(
            "--epsilon holds on every channel, so --policy must be privacybudget or truncated (without threshold); "
            f"got {options.policy}"
        )
    separator = "," if method.fixed else ":"
    label = f"{name}{separator}epsilon={options.epsilon},delta={options.delta}"
    return adascale.comparison.find_method(label)


def _missing_past(options: Namespace, method: Method) -> str:
    """Say what a method needs that only an earlier trace has."""
    need, instead = "mean gains", ""
    if "law" in method.needs:
        need = "the distribution of the channel"
    elif "future" in method.needs:
        need = "a parameter"
    if method.policy is adascale.policies.AdaScale:
        instead = ", or V by --policy adascale:penalty=V"
    elif method.policy is adascale.policies.Truncated:
        instead = ", or give --epsilon in place of --nu"
    split = ", or --split" * hasattr(options, "split")
    return (
        f"--policy {options.policy} needs {need}: "
        f"add an earlier trace of the same links as --past{split}{instead}"
    )


def _build(
    nu: Any,
    scenario: adascale.Scenario,
    method: Method,
    trace: Trace | None,
    hindsight: bool,
) -> Any:
    """Build the policy for a noise budget, or None, from what it needs of the trace."""
    if trace is not None:
        method = adascale.comparison.with_past(method, scenario, trace, hindsight)
        if method.chooses_senders and nu is not None:
            past = trace.min_gain[-scenario.num_rounds :]  # on which it is tuned
            nu += scenario.floor(past).mean()  # a total noise energy
    return method.build(adascale.comparison.Known(scenario, nu))


def _budget_mode(policy: Any, method: Method, hindsight: bool) -> str:
    """Return the key in :data:`BUDGET_MODES` of how a policy that this method has built meets the budget."""
    mode = policy.budget_mode
    if "future" in method.needs:
        mode = "past"
    elif method.tuned:
        mode = "law"
    elif isinstance(policy, adascale.policies.Truncated) and policy.epsilon is not None:
        mode = "epsilon"
    if hindsight and mode in ("past", "law"):
        mode = "hindsight"
    return mode if mode in BUDGET_MODES else "own"
