"""What a policy is: a schedule of receive scalings, or a decision a round that sees nothing later.

A policy also says of itself what others need to know: which parameters of its constructor are tuned to a budget,
whether it needs channel statistics, and how a legend names it.  Nothing is read off its signature.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]


class Policy:
    r"""Anything that gives a problem its receive scalings; subclass it for a method that sees all rounds at once."""

    tuned: ClassVar[tuple[str, ...]] = ()
    r"""The constructor's positive parameters that have to be chosen so that the cost is :math:`\nu`: the columns that a
    table has for them.  With exactly one, :class:`~adascale.comparison.Hindsight` finds it."""
    needs_mean_gain: ClassVar[bool] = False
    r"""Whether the constructor takes ``mean_gain``, the channel statistics :math:`\mathbb E|h_m|^2/k_m^2`."""
    label: ClassVar[str] = ""
    """What a legend says; empty for the name of the class."""

    @classmethod
    def guess(cls, problem: ReceiveScalingProblem) -> FloatArray:
        """Where the search for the one tuned parameter starts: positive, of the shape of the lanes or ()."""
        return np.array(1.0)

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        r""":math:`\eta_t` of every lane, shape (..., T), in watts, within the power limit."""
        raise NotImplementedError(f"{type(self).__name__} has no schedule")


class OnlinePolicy(Policy):
    r"""A policy that is handed one round at a time; subclass it and define ``start`` and ``step``.

    Both are pure: a state is never changed, so it can be kept, compared and resumed from.  A subclass may run the whole
    horizon at once in a ``schedule`` of its own.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Whoever changes a round of a policy gets the rounds one by one, not the parent's compiled horizon."""
        super().__init_subclass__(**options)
        own = vars(cls)
        if ("start" in own or "step" in own) and "schedule" not in own:
            cls.schedule = OnlinePolicy.schedule  # type: ignore[method-assign]  # what the class would inherit from here

    def start(self, scenario: Scenario, budget: FloatArray) -> Any:
        r"""The state before round 0.

        ``scenario.num_rounds`` is the horizon T; ``budget`` is :math:`\nu` of every lane (any shape, maybe ``()``).
        """
        raise NotImplementedError(f"{type(self).__name__} has no start")

    def step(self, state: Any, min_gain_t: FloatArray) -> tuple[Any, FloatArray]:
        r"""One round: :math:`h_{\min,t}^2` of every lane gives the next state and :math:`\eta_t`, of the same shape."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        r"""Run the policy over a whole problem: :math:`\eta_t` of shape (..., T), see :func:`run`."""
        return run(self, problem)


def run(policy: OnlinePolicy, problem: ReceiveScalingProblem) -> FloatArray:
    r"""Feed a problem's rounds to an online policy, one at a time, all lanes side by side.

    Causality holds by construction: what is decided in round t is decided before round t + 1 is handed over.

    Returns
    -------
    numpy.ndarray
        :math:`\eta_t`, shape (..., T).

    Raises
    ------
    ValueError
        If the policy returns something that is not positive, or exceeds the power limit.
    """
    state = policy.start(problem.scenario, np.broadcast_to(problem.budget, problem.lanes))
    shape = (*problem.lanes, problem.num_rounds)
    gain = np.ascontiguousarray(np.moveaxis(np.broadcast_to(problem.min_gain, shape), -1, 0))
    eta = np.empty(gain.shape)
    for t in range(problem.num_rounds):
        state, eta[t] = policy.step(state, gain[t].copy())  # a copy: a view would lead back to the later rounds
    return within_limit(np.ascontiguousarray(np.moveaxis(eta, 0, -1)), problem, type(policy).__name__)


def within_limit(eta: FloatArray, problem: ReceiveScalingProblem, name: str) -> FloatArray:
    """``eta`` itself, or a ``ValueError`` that ``name`` returned another shape or something that is not in (0, cap]."""
    if eta.shape != (*problem.lanes, problem.num_rounds):
        raise ValueError(f"{name} has parameters for other lanes than {problem.lanes}, it returned shape {eta.shape}")
    good = (eta > 0) & (eta <= problem.max_eta)
    if not good.all():
        worst = tuple(int(i) for i in np.argwhere(~good)[0])
        cap = np.broadcast_to(problem.max_eta, eta.shape)[worst]
        raise ValueError(f"{name} returned eta = {eta[worst]} in round {worst[-1]}, expected 0 < eta <= {cap}")
    return eta


def in_rows(array: ArrayLike, lanes: tuple[int, ...], *rounds: int) -> FloatArray:
    """A fresh array for a kernel: a number, or a row of ``rounds``, for every lane; the lanes in one row."""
    fresh = np.array(np.broadcast_to(np.asarray(array, dtype=float), (*lanes, *rounds)), order="C")
    return fresh.reshape(-1, *rounds)
