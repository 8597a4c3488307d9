r"""Methods: policies brought to the cost :math:`\nu` of the realisation that they are judged on, as the paper does it.

A *method* is a function of a problem and its channel statistics that returns a policy whose cost is the budget there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from adascale import registry, tuning
from adascale.policies import OnlinePolicy, Policy
from adascale.problem import ReceiveScalingProblem

Method = Callable[[ReceiveScalingProblem, NDArray[np.float64] | None], Policy]
"""From a problem and its ``mean_gain`` of shape (..., M), or None where it is not known, to a policy."""


@runtime_checkable
class _Decides(Protocol):
    """The least that a class of one's own must have."""

    def start(self, scenario: Any, budget: Any) -> Any: ...

    def step(self, state: Any, min_gain_t: Any) -> Any: ...


class Hindsight:
    r"""The method of a policy class: its one ``tuned`` parameter is matched on the realisation itself.

    It **sees the whole future** (:func:`~adascale.tuning.match_budget`).  A class that has nothing ``tuned`` is taken
    as it is, whatever it costs.

    Parameters
    ----------
    policy : type
        A subclass of :class:`~adascale.policies.Policy`, or any class with ``start`` and ``step``.
    **fixed
        Arguments of the constructor that keep one value.

    Raises
    ------
    ValueError
        If it is no such class, or has more than one parameter to tune.
    """

    def __init__(self, policy: type, **fixed: Any):
        if not isinstance(policy, type) or not issubclass(policy, Policy | _Decides):
            raise ValueError(f"policy must be a subclass of adascale.policies.Policy, or a class with start and step, "
                             f"got {policy!r}")  # fmt: skip
        if not issubclass(policy, Policy):
            policy = type(policy.__name__, (policy, OnlinePolicy), {"__module__": policy.__module__})
        self.policy = cast("type[Policy]", policy)
        undecided = self.policy.schedule is Policy.schedule
        if issubclass(self.policy, OnlinePolicy) and self.policy.schedule is OnlinePolicy.schedule:
            undecided = self.policy.start is OnlinePolicy.start or self.policy.step is OnlinePolicy.step
        if undecided:
            raise ValueError(f"policy {policy.__name__} must define start and step, or schedule")
        self.fixed = fixed
        declared: object = self.policy.tuned
        if not isinstance(declared, tuple | list) or not all(isinstance(name, str) for name in declared):
            raise ValueError(f"policy {policy.__name__}: tuned must be a tuple of names, got {declared!r}")
        self.tuned = tuple(name for name in self.policy.tuned if name not in fixed)
        if len(self.tuned) > 1:
            raise ValueError(f"policy {policy.__name__} must have one parameter to tune at most, it declares "
                             f"{', '.join(self.tuned)}; fix the others")  # fmt: skip

    def __call__(self, problem: ReceiveScalingProblem, mean_gain: NDArray[np.float64] | None = None) -> Policy:
        """The policy with its cost brought to the budget of every lane."""
        statistics: tuple[NDArray[np.float64], ...] = ()
        if self.policy.needs_mean_gain:
            if mean_gain is None:
                raise ValueError(f"{self.policy.__name__} needs mean_gain, the mean channel gain of every device")
            statistics = (mean_gain,)
        if not self.tuned:
            return self._build(None, *statistics)
        guess = self.policy.guess(problem)
        return self._build(tuning.match_budget(self._build, problem, *statistics, guess=guess), *statistics)

    def _build(self, value: NDArray[np.float64] | None, *statistics: NDArray[np.float64]) -> Policy:
        chosen = dict.fromkeys(self.tuned, value) | dict(zip(("mean_gain",), statistics, strict=False)) | self.fixed
        try:
            made = self.policy(**chosen)
        except TypeError as error:
            raise ValueError(f"policy {self.policy.__name__}: {error}; a parameter to be tuned is declared in `tuned`, "
                             "channel statistics in `needs_mean_gain`") from None  # fmt: skip
        if forgotten := [name for name in self.tuned if not hasattr(made, name)]:
            raise ValueError(f"policy {self.policy.__name__} must keep what it declares in `tuned` as an attribute, it "
                             f"has no {forgotten[0]!r}")  # fmt: skip
        return made


def as_method(policy: Method | type) -> Method:
    """A class as its :class:`Hindsight` method; a method as it is."""
    return Hindsight(policy) if isinstance(policy, type) else policy


def find_method(name: str) -> tuple[str, Method]:
    r"""A method by name: a registered one, or ``module:Class`` for a policy of one's own.

    Parameters
    ----------
    name : str
        See :func:`adascale.registry.find`.

    Returns
    -------
    tuple
        The name to show, and the method.

    Raises
    ------
    ValueError
        If there is no such policy, module or class, or :class:`Hindsight` does not take the class.
    """
    found = registry.find("policies", name)
    # a method that is no class is for packages that register it
    return found.label, Hindsight(found.value) if ":" in name else as_method(found.value)
