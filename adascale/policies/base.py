"""What a policy is: a schedule of receive scalings, or a decision a round that sees nothing later.

A policy also says of itself what others need to know: which parameters of its constructor are tuned to a budget,
whether it needs channel statistics, and how a legend names it.  Nothing is read off its signature.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.channel import FloorLaw, RayleighFloors
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]
_FLOAT64, _LARGEST = np.dtype(np.float64), float(np.finfo(float).max)
_LEAST, _MOST = np.minimum.reduce, np.maximum.reduce


class Policy:
    r"""Anything that gives a problem its receive scalings; subclass it for a method that sees all rounds at once."""

    tuned: ClassVar[tuple[str, ...]] = ()
    r"""The constructor's positive parameters that have to be chosen so that the cost is :math:`\nu`: the columns that a
    table has for them.  With exactly one, :class:`~adascale.comparison.Hindsight` finds it."""
    needs_mean_gain: ClassVar[bool] = False
    r"""Whether the constructor takes ``mean_gain``, the channel statistics :math:`\mathbb E|h_m|^2/k_m^2`."""
    needs_law: ClassVar[bool] = False
    r"""Whether the constructor takes ``law``, a :class:`~adascale.channel.FloorLaw`."""
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

    What ``start`` and ``step`` of a subclass are handed is checked before they see it, and is an array of float64 then.
    After a ``ValueError`` the state is what it was, and the round can be repeated, or left out by ``skip``.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Whoever changes a round of a policy gets the rounds one by one, not the parent's compiled horizon."""
        super().__init_subclass__(**options)
        own = vars(cls)
        if ("start" in own or "step" in own) and "schedule" not in own:
            cls.schedule = OnlinePolicy.schedule  # type: ignore[method-assign]  # what the class would inherit from here
        for name, checked in (("start", _checked_start), ("step", _checked_step)):
            method = getattr(cls, name)  # its own, or that of a class beside this one
            known = method is vars(OnlinePolicy)[name] or hasattr(method, "checks_what_it_is_given")
            if isfunction(method) and not known:
                setattr(cls, name, checked(method))

    def start(self, scenario: Scenario, budget: FloatArray) -> Any:
        r"""The state before round 0.

        Parameters
        ----------
        scenario : Scenario
            The constants; ``scenario.num_rounds`` is the horizon T.
        budget : array_like
            :math:`\nu > 0` of every lane, any shape, maybe ``()``.

        Returns
        -------
        object
            Whatever ``step`` needs to know.  Where it has an attribute ``lanes``, the shape of the lanes, ``step``
            refuses gains of any other shape.
        """
        raise NotImplementedError(f"{type(self).__name__} has no start")

    def step(self, state: Any, min_gain_t: FloatArray) -> tuple[Any, FloatArray]:
        r"""One round.

        Parameters
        ----------
        state : object
            From ``start``, ``step`` or ``skip``.
        min_gain_t : array_like
            :math:`h_{\min,t}^2 > 0` of every lane.

        Returns
        -------
        tuple
            The next state, and :math:`\eta_t` of the shape of the gains.

        Raises
        ------
        ValueError
            If a gain is not finite and positive, there is not one for every lane, or the policy has planned for T
            rounds and they are over.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def skip(self, state: Any) -> Any:
        r"""The next state if nobody transmits in this round: :math:`\eta_t = 0`, nothing leaks and nothing is spent.

        The round counts towards T all the same.  By default the state remains as it is, which is right where the state
        does not count rounds or budget.  What later rounds do with the budget that was not spent is the policy's: see
        its ``skip``.
        """
        return state

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        r"""Run the policy over a whole problem: :math:`\eta_t` of shape (..., T), see :func:`run`."""
        return run(self, problem)


def _checked_start(start: Callable[..., Any]) -> Callable[..., Any]:
    """``start``, handed budgets that are finite and positive."""

    @wraps(start)
    def checked(self: OnlinePolicy, scenario: Scenario, budget: ArrayLike, *rest: Any, **more: Any) -> Any:
        return start(self, scenario, check.positive("budget", budget), *rest, **more)

    checked.checks_what_it_is_given = True  # type: ignore[attr-defined]
    return checked


def _checked_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step``, handed gains that are finite and positive, one for every lane that the state has."""

    @wraps(step)
    def checked(self: OnlinePolicy, state: Any, min_gain_t: ArrayLike, *rest: Any, **more: Any) -> Any:
        gain: Any = min_gain_t
        low, high = _limits(state)
        if isinstance(gain, np.float64):
            good = bool(low <= gain <= high)
        elif type(gain) is np.ndarray and gain.dtype is _FLOAT64 and gain.size:
            good = bool(_LEAST(gain, axis=None) >= low and _MOST(gain, axis=None) <= high)
        else:
            good = False
        if not good:
            gain = check.positive("min_gain_t", gain)
            check.within("min_gain_t", gain, low, high)
        lanes = getattr(state, "lanes", None)
        if isinstance(lanes, tuple) and lanes != gain.shape:
            raise ValueError(f"min_gain_t must have the shape of the lanes, {lanes}, got {gain.shape}")
        return step(self, state, gain, *rest, **more)

    checked.checks_what_it_is_given = True  # type: ignore[attr-defined]
    return checked


def _limits(state: Any) -> tuple[float, float]:
    """What float64 holds of gains: in the scenario that the state has, or at all."""
    scenario = getattr(state, "scenario", state)
    return scenario.gain_limits if isinstance(scenario, Scenario) else (5e-324, _LARGEST)


def rounds_left(policy: OnlinePolicy, scenario: Scenario, left: int) -> None:
    """A ``ValueError`` unless the horizon that a policy plans for has a round left."""
    if left < 1:
        name, rounds = type(policy).__name__, scenario.num_rounds
        raise ValueError(f"{name} has planned for scenario.num_rounds = {rounds} rounds, and all are over")


def one_law(mean_gain: ArrayLike | None, law: FloorLaw | None) -> None:
    """A ``ValueError`` unless exactly one of the two is given, and is what it has to be."""
    if (mean_gain is None) == (law is None):
        raise ValueError(f"exactly one of mean_gain and law must be given, got {'none' if law is None else 'both'}")
    if mean_gain is not None and check.positive("mean_gain", mean_gain).ndim == 0:
        raise ValueError(f"mean_gain must have a last axis of devices, got {mean_gain}")
    if law is not None and not isinstance(law, FloorLaw):
        raise ValueError(f"law must be a FloorLaw, got {law!r}")


def known_law(scenario: Scenario, mean_gain: ArrayLike | None, law: FloorLaw | None) -> FloorLaw:
    """The law of the floors that a policy plans with: ``law`` itself, or that of Rayleigh fading with these means."""
    one_law(mean_gain, law)
    return RayleighFloors.of(scenario, mean_gain) if law is None else law  # type: ignore[arg-type]  # one of the two


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
        If ``step`` returns no state and scalings of the shape of the lanes, or a scaling that is not positive or
        exceeds the power limit; it names the class.
    """
    state = policy.start(problem.scenario, np.broadcast_to(problem.budget, problem.lanes))
    shape = (*problem.lanes, problem.num_rounds)
    gain = np.ascontiguousarray(np.moveaxis(np.broadcast_to(problem.min_gain, shape), -1, 0))
    eta = np.empty(gain.shape)
    for t in range(problem.num_rounds):
        returned = policy.step(state, gain[t].copy())  # a copy: a view would lead back to the later rounds
        state, eta[t] = _stepped(policy, returned, problem.lanes)
    return within_limit(np.ascontiguousarray(np.moveaxis(eta, 0, -1)), problem, type(policy).__name__)


def _stepped(policy: OnlinePolicy, returned: Any, lanes: tuple[int, ...]) -> tuple[Any, Any]:
    """What ``step`` has returned: a state, and a scaling for every lane; numpy would spread a single one over all."""
    got = f"{type(returned).__name__}"
    if isinstance(returned, tuple) and len(returned) == 2:
        eta = np.asarray(returned[1])
        if eta.shape == lanes and eta.dtype.kind in "iuf":
            return returned
        got = f"a state and {eta.dtype} of shape {eta.shape}"
    raise ValueError(
        f"{type(policy).__name__}.step must return the next state and eta, numbers of shape {lanes} as "
        f"the gains it was given, got {got}"
    )


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
    return fresh.reshape(math.prod(lanes), *rounds)
