"""Base classes of policies: a whole schedule, or one decision per round."""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from inspect import isfunction
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.channel import FloorLaw, RayleighFloors
from adascale.problem import ReceiveScalingProblem, scaling
from adascale.scenario import FloatArray, Scenario

AnyCallable = TypeVar("AnyCallable", bound=Callable[..., Any])


def _checked_start(start: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(start)
    def checked(self: OnlinePolicy, scenario: Scenario, budget: ArrayLike, *rest: Any, **more: Any) -> Any:
        return start(self, scenario, check.positive("budget", budget), *rest, **more)

    return checked


def _checked_step(step: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(step)
    def checked(self: OnlinePolicy, state: Any, min_gain_t: ArrayLike, *rest: Any, **more: Any) -> Any:
        gain, scenario = check.positive("min_gain_t", min_gain_t)[()], getattr(state, "scenario", state)
        if isinstance(scenario, Scenario):
            check.within("min_gain_t", gain, *scenario.gain_limits)
        batch = getattr(state, "lanes", None)
        if isinstance(batch, tuple) and batch != gain.shape:
            raise ValueError(f"min_gain_t must have the shape of the instances, {batch}, got {gain.shape}")
        return step(self, state, gain, *rest, **more)

    return checked


class Policy:
    """A policy that sees all rounds at once; a subclass defines ``schedule``."""

    tuned: ClassVar[tuple[str, ...]] = ()
    r"""Positive parameters chosen so that the cost is :math:`\nu`."""
    needs_mean_gain: ClassVar[bool] = False
    """Whether the constructor takes ``mean_gain``, see :meth:`~adascale.scenario.Scenario.mean_gain`."""
    needs_law: ClassVar[bool] = False
    """Whether the constructor takes ``law``, a :class:`~adascale.channel.FloorLaw`."""
    label: ClassVar[str] = ""
    """Name in a legend, by default the name of the class."""
    former: ClassVar[Mapping[str, str]] = {}
    """New names of parameters by their old names."""

    @classmethod
    def guess(cls, problem: ReceiveScalingProblem) -> FloatArray:
        """Return the start of the search for the tuned parameter, > 0, of a shape that broadcasts to the instances."""
        return np.array(1.0)

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        r"""Return :math:`\eta_t` of all rounds, shape (..., T), in watts."""
        raise NotImplementedError(f"{type(self).__name__} has no schedule")


class OnlinePolicy(Policy):
    """A policy that decides one round at a time; a subclass defines ``start`` and ``step``.

    Both must be pure: a state is never changed, so it can be kept and resumed from.  Their arguments are validated
    float64 arrays.  After a ``ValueError`` the round can be repeated or skipped.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Validate the arguments of ``start`` and ``step``; redefining one of them drops an inherited schedule."""
        super().__init_subclass__(**options)
        own = vars(cls).keys()
        if own & {"start", "step"} and not own & {"schedule", "rounds", "energies", "energy"}:
            cls.schedule = OnlinePolicy.schedule  # type: ignore[method-assign]  # this replaces an inherited schedule
        for name, checked in (("start", _checked_start), ("step", _checked_step)):
            method = getattr(cls, name)  # its own, or that of another base class
            known = method is vars(OnlinePolicy)[name] or hasattr(method, "checks_arguments")
            if isfunction(method) and not known:
                setattr(cls, name, checked(method))
                getattr(cls, name).checks_arguments = True

    def start(self, scenario: Scenario, budget: FloatArray) -> Any:
        r"""Return the state before round 0, for noise budgets :math:`\nu > 0` of any shape.

        If the state has an attribute ``lanes``, ``step`` refuses gains of any other shape.
        """
        raise NotImplementedError(f"{type(self).__name__} has no start")

    def step(self, state: Any, min_gain_t: FloatArray) -> tuple[Any, FloatArray]:
        r"""Return the next state and :math:`\eta_t` in watts, with the shape of the gains :math:`h_{\min,t}^2 > 0`."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def skip(self, state: Any) -> Any:
        """Return the next state if no device transmits, which spends nothing; by default, the same state."""
        return state

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        return run(self, problem)


def renamed(**names: str) -> Callable[[AnyCallable], AnyCallable]:
    """Let a policy or a function accept old names of arguments, with a ``DeprecationWarning``."""

    def decorate(called: AnyCallable) -> AnyCallable:
        cls: Any = called if isinstance(called, type) else None
        function: Any = cls.__init__ if cls else called

        @wraps(function)
        def renaming(*given: Any, **options: Any) -> Any:
            for old, new in names.items():
                if old in options and new not in options:
                    warnings.warn(f"{old} is deprecated, use {new}", DeprecationWarning, stacklevel=2)
                    options[new] = options.pop(old)
            return function(*given, **options)

        if not cls:
            return cast("AnyCallable", renaming)
        cls.former, cls.__init__ = names, renaming
        return called

    return decorate


@dataclass(frozen=True)
class State:
    """The scenario and the noise budget of every instance; a subclass adds what its policy remembers."""

    scenario: Scenario
    budget: FloatArray

    @property
    def lanes(self) -> tuple[int, ...]:
        """Shape of the gains of a round."""
        return self.budget.shape


class RoundsPolicy(OnlinePolicy):
    """An online policy that runs many rounds at once; a subclass defines ``energy``, ``energies`` or ``rounds``."""

    def energy(self, state: Any, floor: FloatArray) -> tuple[Any, FloatArray]:
        r"""Return the state after a round with this floor, and its :math:`w_t`."""
        raise NotImplementedError(f"{type(self).__name__} has no energy")

    def energies(self, state: Any, floor: FloatArray) -> tuple[Any, FloatArray]:
        r"""Return the state after rounds with these floors, shape (..., rounds), and their :math:`w_t`."""
        energy = np.empty(floor.shape)
        for t in range(floor.shape[-1]):
            state, energy[..., t] = self.energy(state, floor[..., t].copy())
        return state, energy

    def rounds(self, state: Any, max_eta: FloatArray) -> tuple[Any, FloatArray]:
        r"""Return the state after rounds with these power limits, shape (..., rounds), and their :math:`\eta_t`."""
        noise_scale = state.scenario.noise_scale
        floor = noise_scale / max_eta
        state, energy = self.energies(state, floor)
        return state, scaling(energy, floor, max_eta, noise_scale)

    def step(self, state: Any, min_gain_t: FloatArray) -> tuple[Any, FloatArray]:
        state, eta = self.rounds(state, np.asarray(state.scenario.x_max * min_gain_t)[..., None])
        return state, eta[..., 0]

    def schedule(self, problem: ReceiveScalingProblem) -> FloatArray:
        state = self.start(problem.scenario, np.broadcast_to(problem.budget, problem.lanes))
        check_fit(problem.lanes, batch_of_parameters=state.lanes)
        _, eta = self.rounds(state, np.broadcast_to(problem.max_eta, (*problem.lanes, problem.num_rounds)))
        return within_limit(eta, problem, type(self).__name__)


@dataclass(frozen=True)
class HorizonState(State):
    """The number of rounds after the next one, and the remaining budget."""

    later: int
    left: FloatArray


class HorizonPolicy(RoundsPolicy):
    """An online policy that divides a budget among T rounds."""

    def skip(self, state: Any) -> Any:
        return replace(state, later=self.count_down(state))

    def count_down(self, state: Any, rounds: int = 1) -> int:
        """Return the ``later`` of the state after some rounds; raise a ``ValueError`` beyond the horizon."""
        if state.later < 0:
            name, T = type(self).__name__, state.scenario.num_rounds
            raise ValueError(f"{name} has planned for scenario.num_rounds = {T} rounds, and all are over")
        return int(state.later) - rounds


@dataclass(frozen=True)
class LawPolicy(RoundsPolicy):
    """An online policy that knows the distribution of the floors: a ``law``, or Rayleigh fading of ``mean_gain``."""

    needs_law: ClassVar[bool] = True

    mean_gain: FloatArray | None = None
    law: FloorLaw | None = None

    def __post_init__(self) -> None:
        if (self.mean_gain is None) == (self.law is None):
            raise ValueError(f"exactly one of mean_gain and law must be given, got {self.mean_gain} and {self.law}")
        if self.mean_gain is not None:
            check.positive("mean_gain", self.mean_gain, "devices")
        if self.law is not None and not isinstance(self.law, FloorLaw):
            raise ValueError(f"law must be a FloorLaw, got {self.law!r}")

    def known(self, scenario: Scenario) -> FloorLaw:
        """Return the distribution of the floors."""
        return RayleighFloors.of(scenario, self.mean_gain) if self.law is None else self.law  # type: ignore[arg-type]


def run(policy: OnlinePolicy, problem: ReceiveScalingProblem) -> FloatArray:
    r"""Run an online policy round by round, and return its :math:`\eta_t` in watts, shape (..., T)."""
    state = policy.start(problem.scenario, np.broadcast_to(problem.budget, problem.lanes))
    eta = np.empty((*problem.lanes, problem.num_rounds))
    gain = np.broadcast_to(problem.min_gain, eta.shape)
    for t in range(problem.num_rounds):
        returned = policy.step(state, gain[..., t].copy()[()])  # a copy, as a view would give access to later rounds
        is_pair = isinstance(returned, tuple) and len(returned) == 2
        eta_t = np.asarray(returned[1] if is_pair else "")
        if eta_t.shape != problem.lanes or eta_t.dtype.kind not in "iuf":
            wanted = f"the next state and eta, numbers of shape {problem.lanes} like the gains"
            got = f"a state and {eta_t.dtype} of shape {eta_t.shape}" if is_pair else type(returned).__name__
            raise ValueError(f"{type(policy).__name__}.step must return {wanted}, got {got}")
        state, eta[..., t] = returned[0], eta_t
    return within_limit(eta, problem, type(policy).__name__)


def within_limit(eta: FloatArray, problem: ReceiveScalingProblem, name: str) -> FloatArray:
    """Return ``eta``, or raise a ``ValueError`` unless it is in (0, cap]."""
    good = (eta > 0) & (eta <= problem.max_eta)
    if not good.all():
        worst = tuple(int(i) for i in np.argwhere(~good)[0])
        cap = np.broadcast_to(problem.max_eta, eta.shape)[worst]
        raise ValueError(f"{name} returned eta = {eta[worst]} in round {worst[-1]}, expected 0 < eta <= {cap}")
    return eta


def check_fit(batch: tuple[int, ...], **shapes: tuple[int, ...]) -> None:
    """Raise a ``ValueError`` unless each shape broadcasts to that of the instances and adds no axis."""
    for name, shape in shapes.items():
        if check.broadcast(**{name: shape, "instances": batch}) != batch:
            raise ValueError(f"{name} must broadcast to instances {batch}, got shape {shape}")


def spread(budget: FloatArray, **shapes: tuple[int, ...]) -> FloatArray:
    """Return the budget of every instance, given the shapes of a policy's parameters."""
    return np.broadcast_to(budget, check.broadcast(**shapes, budget=np.shape(budget)))


def whole_horizon(
    scenario: Scenario, budget: FloatArray, **shapes: tuple[int, ...]
) -> tuple[Scenario, FloatArray, int, FloatArray]:
    r"""Return the fields of a :class:`HorizonState` before round 0, when :math:`T \nu` is left."""
    budget, T = spread(budget, **shapes), scenario.num_rounds
    with np.errstate(over="ignore"):
        left = budget * T
    check.finite(f"the budget of all {T} rounds", left)
    return scenario, budget, T - 1, left


def in_rows(array: ArrayLike, batch: tuple[int, ...], *rounds: int) -> FloatArray:
    """Return a new array with one row of instances, each a number or ``rounds`` numbers."""
    fresh = np.array(np.broadcast_to(np.asarray(array, dtype=float), (*batch, *rounds)), order="C")
    return fresh.reshape(math.prod(batch), *rounds)
