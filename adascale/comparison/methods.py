r"""Methods: what a leakage table compares, by class or by name.

A *method* is a function of a problem and its channel statistics that returns a policy whose cost is the budget there:
on the realisation itself (:class:`~adascale.comparison.Hindsight`), or on average over the law of the channel or on no
path above it (:class:`~adascale.comparison.Foresight`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adascale import registry
from adascale.channel import ChannelModel
from adascale.comparison.classes import PolicyClass
from adascale.comparison.foresight import Foresight
from adascale.comparison.hindsight import Hindsight
from adascale.policies import Policy
from adascale.problem import ReceiveScalingProblem

Method = Callable[[ReceiveScalingProblem, NDArray[np.float64] | None], Policy]
"""From a problem and its ``mean_gain`` of shape (..., M), or None where it is not known, to a policy."""


def as_method(policy: Method | type, channel: ChannelModel | None = None) -> Method:
    r"""A class as its method, a method as it is.

    Parameters
    ----------
    policy : callable or type
        A class that needs the law of the floors becomes a :class:`Foresight`, another one a :class:`Hindsight`.
    channel : ChannelModel, optional
        What a :class:`Foresight` without a channel of its own believes.
    """
    if isinstance(policy, type):
        policy = Foresight(policy) if getattr(policy, "needs_law", False) else Hindsight(policy)
    return policy.believing(channel) if isinstance(policy, Foresight) and channel is not None else policy


def keeps_its_own_promise(policy: Method | type) -> bool:
    r"""Whether a policy keeps the budget in its own way, on average or on every path, instead of spending it exactly.

    Such a class needs the law of the floors, or has a ``promise``.
    """
    made = policy if isinstance(policy, type) else getattr(policy, "policy", None)
    return bool(getattr(made, "needs_law", False)) or hasattr(made, "promise")


def find_method(name: str) -> tuple[str, Method]:
    r"""A method by name: a registered one, or ``module:Class`` for a policy of one's own.

    Parameters
    ----------
    name : str
        See :func:`adascale.registry.find`; with arguments of its constructor behind it, ``learn:promise=hard``.

    Returns
    -------
    tuple
        The name to show, and the method, see :func:`as_method`.

    Raises
    ------
    ValueError
        If there is no such policy, module or class, the class is none, or what is registered takes no arguments.
    """
    kind, options = registry.parse_options(name)
    found = registry.find("policies", kind)
    method: Any = as_method(found.value)
    if options:
        if not isinstance(method, PolicyClass):
            raise ValueError(f"policy {kind!r} takes no parameters, got {name!r}")
        method = type(method)(method.policy, **options)
    return found.label + name[len(kind) :], method
