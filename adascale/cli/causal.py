"""A policy that sees no later round, from its name and from what was known before the first one."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adascale import registry
from adascale.cli import common

if TYPE_CHECKING:
    from adascale.channel import Trace
    from adascale.policies import Policy
    from adascale.scenario import Scenario

PROMISES = {
    "hard": "nu is never exceeded",
    "average": "nu on average over many runs; a single one may spend more",
    "law": "nu on average over many runs with channels like the past; a single one may spend more",
    "past": "none here; the cost was nu on the past trace",
    "hindsight": "the cost is nu here, by hindsight",
    "own": "the policy's own",
}
"""What a policy promises of the budget, in words."""


class Chosen(NamedTuple):
    """A policy that was asked for."""

    name: str
    policy: Policy
    promise: str
    """One of :data:`PROMISES`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the commands take that decide."""
    common.add_policy(parser, "learn")
    parser.set_defaults(policy=None)  # learn, but adascale where an option is of the paper's protocol alone
    parser.add_argument(
        "--promise",
        choices=("average", "hard"),
        help="of learn and resolve: nu is kept on average, or never exceeded (default: average)",
    )
    parser.add_argument(
        "--past",
        type=Path,
        metavar="FILE",
        help="an earlier trace of the same links, in the form and unit of this "
        "one, for policies that have to know the channel",
    )
    parser.add_argument("--penalty", type=float, metavar="V", help="AdaScale's V, with a queue that is empty at first")


def choose(options: argparse.Namespace, scenario: Scenario, trace: Trace | None = None) -> Chosen:
    """The policy of the options, for a horizon of ``scenario.num_rounds``.

    Where ``trace`` is given, the policy is evaluated on it and knows it beforehand: the paper's protocol.
    """
    from adascale import policies
    from adascale.channel import EmpiricalFloors, read_gains
    from adascale.comparison import PolicyClass, TunedOnRealisation, find_method
    from adascale.problem import ReceiveScalingProblem

    given = options.policy or ("learn" if options.penalty is None and trace is None else "adascale")
    name, found = find_method(given)
    method: Any = found
    kind: Any = method.policy if isinstance(method, PolicyClass) else None
    if registry.parse_options(given)[1] and (options.penalty is not None or options.promise):
        raise ValueError(f"--penalty and --promise cannot be combined with --policy {given}, which has parameters")
    if options.penalty is not None:
        if kind is not policies.AdaScale:
            raise ValueError(f"--penalty is AdaScale's, got it with --policy {given}")
        return Chosen(name, policies.AdaScale(options.penalty), PROMISES["own"])
    if options.promise and (kind is None or "budget_mode" not in inspect.signature(kind).parameters):
        raise ValueError(f"--promise is of learn and resolve, got it with --policy {given}")
    if trace is not None and options.past is not None:
        raise ValueError("--past is for decisions that see no later round, got it with --hindsight")

    fixed: dict[str, Any] = {"budget_mode": options.promise} if options.promise else {}
    tuned = kind is None or bool(method.tuned)
    warm = kind is policies.AdaScale and trace is None and tuned
    needs_law = warm or (kind is not None and kind.needs_law)
    needs_mean = kind is not None and kind.needs_mean_gain
    problem, known = None, trace
    if known is None and options.past is not None:
        known = read_gains(options.past, scenario, options.unit)
        common.note(known.unended)
    if known is None and (needs_law or tuned or needs_mean):
        what = "the law of the channel" if needs_law else "a parameter" if tuned else "mean gains"
        raise ValueError(
            f"--policy {given} needs {what}, to be taken from an earlier trace of the same links: give it "
            f"as --past{', or V as --penalty' * warm}; learn needs nothing"
        )
    if known is not None:
        law = EmpiricalFloors.of(scenario, known.min_gain)
        if warm:
            return Chosen(name, policies.AdaScale.from_law(scenario, options.nu, law=law), PROMISES["law"])
        if needs_law:
            fixed["law"] = law
        elif kind is policies.Learn and trace is None:
            fixed["prior"] = law
        if needs_mean and known.mean_gain is None:
            raise ValueError(
                f"{name} needs mean_gain, the mean channel gain of every device, which the trace does not have"
            )
        if tuned:
            if known.min_gain.size < scenario.num_rounds:
                raise ValueError(
                    f"--policy {given} has a parameter, which is found on {scenario.num_rounds} rounds; "
                    f"{options.past} has {known.min_gain.size}"
                )
            problem = ReceiveScalingProblem(scenario, known.min_gain[-scenario.num_rounds :], options.nu)
    if isinstance(method, PolicyClass):
        method = TunedOnRealisation(method.policy, **method.fixed | fixed)
    with common.naming_own_code():
        policy = method(problem, None if known is None else known.mean_gain)  # without a problem nothing is tuned
    return Chosen(name, policy, PROMISES[_promise(policy, tuned, trace is not None)])


def _promise(policy: Policy, tuned: bool, hindsight: bool) -> str:
    from adascale import policies

    if isinstance(policy, policies.Optimal) or (tuned and hindsight):
        return "hindsight"
    if tuned:
        return "past"
    if isinstance(policy, policies.EqualAlloc | policies.EstimFuture | policies.DynamicProgramme):
        return "hard"
    if isinstance(policy, policies.ConstantLevel):
        return "hindsight" if hindsight else "law"
    promise = getattr(policy, "budget_mode", getattr(policy, "promise", "own"))
    return promise if promise in PROMISES else "own"
