r"""The methods that the paper compares, each brought to the cost :math:`\nu` as the paper does it.

A *method* is a function of a problem and its channel statistics that returns a policy whose cost is the budget there.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from functools import partial

import numpy as np

from adascale import policies, tuning
from adascale.problem import ReceiveScalingProblem

Method = Callable[[ReceiveScalingProblem, np.ndarray], object]
"""From a problem and its ``mean_gain`` of shape (..., M) to a policy: something with ``start`` and ``step``."""


class method:
    r"""The method of a policy class, read off its constructor.

    ``mean_gain`` is given if the class asks for it; **one** other argument without a default is a positive
    parameter, which :func:`~adascale.tuning.match_budget` tunes until the cost is :math:`\nu`; a class without one is
    taken as it is, whatever it costs.

    Parameters
    ----------
    policy : type
        A class with ``start`` and ``step``, such as :class:`~adascale.policies.EstimFuture`, or with ``schedule``.
    **fixed
        Arguments of the constructor that keep one value.

    Attributes
    ----------
    parameter : str or None
        What is tuned.
    asks : bool
        Whether the policy needs ``mean_gain``.

    Raises
    ------
    ValueError
        If the class has neither ``start`` and ``step`` nor ``schedule``, or asks for more than one parameter.
    """

    def __init__(self, policy: type, **fixed):
        decides = hasattr(policy, "schedule") or (hasattr(policy, "start") and hasattr(policy, "step"))
        if not isinstance(policy, type) or not decides:
            raise ValueError(f"policy must be a class with start and step, or with schedule, got {policy!r}")
        arguments = inspect.signature(policy).parameters
        needed = [
            name
            for name, each in arguments.items()
            if each.default is each.empty
            and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            and name not in ("mean_gain", *fixed)
        ]
        if len(needed) > 1:
            raise ValueError(
                f"policy {policy.__name__} must have one parameter to tune at most, it has {', '.join(needed)}"
            )
        self.policy, self.fixed = policy, fixed
        self.parameter = needed[0] if needed else None
        self.asks = "mean_gain" in arguments

    def __call__(self, problem: ReceiveScalingProblem, mean_gain=None):
        """The policy with its cost brought to the budget of every lane."""
        if self.asks and mean_gain is None:
            raise ValueError(f"{self.policy.__name__} needs mean_gain, the mean channel gain of every device")
        statistics = (mean_gain,) if self.asks else ()
        if self.parameter is None:
            return self._build(None, *statistics)
        guess = self.policy.guess(problem) if hasattr(self.policy, "guess") else None
        return self._build(tuning.match_budget(self._build, problem, *statistics, guess=guess), *statistics)

    def _build(self, value, *statistics):
        chosen = {} if self.parameter is None else {self.parameter: value}
        known = {"mean_gain": statistics[0]} if statistics else {}
        return self.policy(**chosen, **known, **self.fixed)


def kindest_lyapunov(
    problem: ReceiveScalingProblem, mean_gain=None, relative_rates=None
) -> policies.LyapunovPowerControl:
    r"""[28] with the pair of parameters of the smallest epsilon found, at delta = 1e-5.

    See :func:`adascale.tuning.match_lyapunov`.
    """
    found = tuning.match_lyapunov(problem, relative_rates)
    return policies.LyapunovPowerControl(found.penalty, found.rate)


def filled_lyapunov(
    problem: ReceiveScalingProblem, mean_gain=None, multiple: float = 30.0
) -> policies.LyapunovPowerControl:
    r"""A variant of [28] of this book: its queue starts where it rests, not empty (:ref:`chap-benchmarks`).

    :math:`V = 30\,\bar\eta^3` and :math:`Q_0 = V / \bar\eta^2`; the rate :math:`\bar\eta` is tuned.  ``multiple`` is
    the 30.
    """

    def build(rate):
        return policies.LyapunovPowerControl(multiple * rate**3, rate, initial_queue=multiple * rate)

    guess = policies.Optimal().schedule(problem).mean(axis=-1)
    return build(tuning.match_budget(build, problem, guess=guess))


POLICIES: dict[str, Method] = {
    "Optimal": method(policies.Optimal),
    "AdaScale": method(policies.AdaScale),
    "EqualAlloc": method(policies.EqualAlloc),
    "EstimFuture": method(policies.EstimFuture),
    "PowerControl": method(policies.PowerControl),
    "LyapunovPowerControl": kindest_lyapunov,
}
"""Every method of the paper's figures by the name of its policy.

:meta hide-value:
"""


READINGS: dict[str, Method] = {
    "EstimFuture, minimum": method(policies.EstimFuture, reading="minimum"),
    "PowerControl, minimum": method(policies.PowerControl, reading="minimum"),
    "PowerControl, r = 0.99": method(policies.PowerControl, contraction=0.99),
    "PowerControl, not subtracted": method(policies.PowerControl, subtract=False),
    "LyapunovPowerControl, half the rate": partial(kindest_lyapunov, relative_rates=0.5),
    "LyapunovPowerControl, 1.2 times the rate": partial(kindest_lyapunov, relative_rates=1.2),
    "LyapunovPowerControl, filled queue": filled_lyapunov,
}
"""Other readings of what the paper leaves open about its benchmarks, one change at a time (:ref:`chap-benchmarks`).

:meta hide-value:
"""


def load(name: str) -> tuple[str, Method]:
    r"""A method by name: one of the paper's, or ``module:Class`` for a policy of one's own.

    Parameters
    ----------
    name : str
        Case, ``-`` and ``_`` do not matter in a name of the book's; a module may lie in the working directory.

    Returns
    -------
    tuple
        The name to show, and the method.

    Raises
    ------
    ValueError
        If there is no such policy, module or class, or :func:`method` does not take the class.
    """
    if ":" not in name:
        for known in POLICIES:
            if name.replace("-", "").replace("_", "").lower() == known.lower():
                return known, POLICIES[known]
        listed = ", ".join(known.lower() for known in POLICIES)
        raise ValueError(f"policy {name!r} is unknown; expected one of {listed}, or module:Class")
    module, _, wanted = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except Exception as error:  # whatever the user's module does when it is imported
        raise ValueError(f"policy {name!r}: cannot import {module!r}: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
    if not hasattr(found, wanted):
        raise ValueError(f"policy {name!r}: module {module!r} has no {wanted!r}")
    return wanted, method(getattr(found, wanted))
