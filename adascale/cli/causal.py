"""The policy that the options select, from what is known before the first round."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import adascale
from adascale.cli import common

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
    options: Namespace,
    scenario: adascale.Scenario,
    past: adascale.channel.Trace | None = None,
) -> tuple[str, adascale.Policy, str]:
    """Return the name and the policy for ``scenario.num_rounds`` rounds, and one of :data:`BUDGET_MODES`.

    In hindsight the ``past`` is the trace on which the policy is evaluated, as in the paper's protocol.  ``options.nu``
    becomes the budget that ``--epsilon`` gives.
    """
    policies, comparison = adascale.policies, adascale.comparison
    trace = past if getattr(options, "hindsight", False) else None
    if past is not None and options.past is not None:
        raise ValueError(
            f"--past cannot be combined with {'--hindsight' if trace else '--split'}"
        )
    given = options.policy or (
        "equalalloc" if options.epsilon else "learn" if trace is None else "adascale"
    )
    method: Any
    name, method = comparison.find_method(given)
    kind: Any = method.policy if isinstance(method, comparison.PolicyClass) else None
    chooses = kind is not None and method.chooses
    tuned = method.takes_total if chooses else kind is None or bool(method.tuned)
    if (options.nu is None) == (options.epsilon is None) and not (
        options.nu is None and chooses and not tuned
    ):
        raise ValueError("exactly one of --nu and --epsilon must be given")
    if options.epsilon is not None:
        if kind is policies.Truncated and not method.fixed:
            name, method = comparison.find_method(
                f"{given}:epsilon={options.epsilon},delta={options.delta}"
            )
        elif (
            kind is policies.EqualAlloc
        ):  # rounded up, so that every machine finds the same digits
            nu = policies.EqualAlloc.budget_for(
                scenario, options.epsilon, options.delta
            )
            options.nu = float(f"{nu * (1 + 6e-6):.5e}")
        else:
            known = "equalalloc or truncated (without threshold), whose least noise is known in advance"
            raise ValueError(
                f"--epsilon holds on every channel, so --policy must be {known}; got {given}"
            )
        tuned = False
    warm = kind is policies.AdaScale and trace is None and tuned
    needs_law = warm or getattr(kind, "needs_law", False)
    needs_mean = getattr(kind, "needs_mean_gain", False)
    if options.past is not None:
        past = common.read_trace(options.past, options, scenario)
    problem, mean, fixed = None, None, {}
    if past is not None:
        mean, law = (
            past.mean_gain,
            adascale.channel.EmpiricalFloors.of(scenario, past.min_gain),
        )
        if warm:
            return (
                name,
                policies.AdaScale.from_law(scenario, options.nu, law=law),
                BUDGET_MODES["law"],
            )
        if needs_law:
            fixed = {"law": law}
        elif kind is policies.Learn and trace is None:
            fixed = {"prior": law}
        if (needs_mean or (chooses and tuned)) and mean is None:
            raise ValueError(
                f"{name} needs the gains of every device, which the trace does not have"
            )
        if tuned and past.min_gain.size < scenario.num_rounds:
            wanted = f"a parameter to tune on {scenario.num_rounds} rounds"
            raise ValueError(
                f"--policy {given} has {wanted}, but the past has {past.min_gain.size}"
            )
        if tuned:
            problem = adascale.ReceiveScalingProblem(
                scenario, past.min_gain[-scenario.num_rounds :], options.nu
            )
    elif needs_law or tuned or needs_mean:
        what = (
            "the distribution of the channel"
            if needs_law
            else "a parameter"
            if tuned
            else "mean gains"
        )
        ways = "--past" + ", or V by --policy adascale:penalty=V" * warm
        ways += ", or give --epsilon in place of --nu" * (kind is policies.Truncated)
        raise ValueError(
            f"--policy {given} needs {what}: add an earlier trace of the same links as {ways}"
        )
    if chooses:
        gain: Any = (
            None
            if past is None or past.gain is None
            else past.gain[:, -scenario.num_rounds :]
        )
        policy = method.choosing(
            scenario, gain, problem and problem.min_noise_energy.mean() + options.nu
        )
    else:
        if kind is not None:
            method = comparison.TunedOnRealisation(kind, **method.fixed | fixed)
        policy = method(problem, mean)  # without a problem nothing is tuned
    if isinstance(policy, policies.Optimal) or (tuned and trace is not None):
        mode = "hindsight"
    elif tuned:
        mode = "past"
    elif isinstance(
        policy, policies.EqualAlloc | policies.EstimFuture | policies.DynamicProgramme
    ):
        mode = "hard"
    elif isinstance(policy, policies.ConstantLevel):
        mode = "law" if trace is None else "hindsight"
    elif isinstance(policy, policies.Truncated) and policy.epsilon is not None:
        mode = "epsilon"
    else:
        mode = str(getattr(policy, "budget_mode", "own"))
    return name, policy, BUDGET_MODES.get(mode, BUDGET_MODES["own"])
