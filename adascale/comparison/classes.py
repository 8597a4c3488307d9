"""A policy class as a method takes it: what it declares, and how its constructor is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast, runtime_checkable

from adascale.policies import OnlinePolicy, Policy


@runtime_checkable
class _Decides(Protocol):
    """The least that a class of one's own must have."""

    def start(self, scenario: Any, budget: Any) -> Any: ...

    def step(self, state: Any, min_gain_t: Any) -> Any: ...


class PolicyClass:
    r"""A policy class with the arguments of its constructor that keep one value.

    Parameters
    ----------
    policy : type
        A subclass of :class:`~adascale.policies.Policy`, or any class with ``start`` and ``step``.
    fixed : dict
        Arguments of the constructor that keep one value.

    Attributes
    ----------
    policy : type
        The class, a subclass of :class:`~adascale.policies.Policy`.
    fixed : dict
        The arguments given.
    tuned : tuple of str
        What is left to be tuned: at most one name.

    Raises
    ------
    ValueError
        If it is no such class, or has more than one parameter to tune.
    """

    def __init__(self, policy: type, fixed: dict[str, Any]):
        if not isinstance(policy, type) or not issubclass(policy, Policy | _Decides):
            raise ValueError(
                f"policy must be a subclass of adascale.policies.Policy, or a class with start and step, got {policy!r}"
            )
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
            raise ValueError(
                f"policy {policy.__name__} must have one parameter to tune at most, it declares "
                f"{', '.join(self.tuned)}; fix the others"
            )

    def build(self, constructor: Callable[..., Policy] | None = None, /, **given: Any) -> Policy:
        """The policy with these arguments and the fixed ones, which win; by the class, or another constructor of it."""
        try:
            made = (constructor or self.policy)(**(given | self.fixed))
        except TypeError as error:
            raise ValueError(
                f"policy {self.policy.__name__}: {error}; a parameter to be tuned is declared in `tuned`, "
                "channel statistics in `needs_mean_gain`, the law of the floors in `needs_law`"
            ) from None
        if forgotten := [name for name in self.tuned if not hasattr(made, name)]:
            raise ValueError(
                f"policy {self.policy.__name__} must keep what it declares in `tuned` as an attribute, it "
                f"has no {forgotten[0]!r}"
            )
        return made
