"""What a policy is: a map from noise floors to noise energies, for all rounds at once or one after the other."""

import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.channel import FloorLaw
from adascale.checks import FloatArray
from adascale.errors import AdaScaleError, InvalidInput, PolicyFailed
from adascale.problem import Problem
from adascale.scenario import Scenario
from adascale.text import shown

_ROUNDING = 1e-9  # relative distance below the floor that passes for a rounding error


class Policy:
    """A policy that sees all rounds at once; a subclass defines ``schedule``.

    Derive from :class:`OnlinePolicy` instead if the policy decides round by round: then it can be streamed as well.

    A class may say what it is: its ``kind`` in tables (``optimum``, ``causal``, ``hindsight``, or ``reconstruction`` if
    no code of it is public), and by its ``budget_mode`` how the budget is met: ``hard`` (never exceeded), on
    ``average``, on average over channels with the ``law`` that it is given, in ``hindsight``, by a rule of its
    ``own``, or not at all because it guarantees an ``epsilon``.
    """

    tuned: ClassVar[tuple[str, ...]] = ()
    r"""Positive parameters chosen so that the cost is :math:`\nu`."""
    needs_mean_gain: ClassVar[bool] = False
    """Whether the constructor takes ``mean_gain``, see :meth:`~adascale.scenario.Scenario.mean_gain`."""
    needs_law: ClassVar[bool] = False
    """Whether the constructor takes ``law``, a :class:`~adascale.channel.FloorLaw`."""
    needs_epsilon: ClassVar[bool] = False
    r"""Whether the constructor takes ``epsilon`` and ``delta``, which the policy guarantees in place of :math:`\nu`."""
    label: ClassVar[str] = ""
    """Name in a legend, by default the name of the class."""
    kind: ClassVar[str] = "hindsight"
    budget_mode: str = "own"  # some classes have a parameter of this name

    @classmethod
    def guess(cls, problem: Problem) -> FloatArray:
        """Return the start of the search for the tuned parameter, > 0, of a shape that broadcasts to the instances."""
        return np.array(1.0)

    def schedule(self, problem: Problem) -> FloatArray:
        r"""Return the noise energies :math:`w_t \ge w_{\min,t}` of all rounds, shape (..., T)."""
        raise NotImplementedError


class OnlinePolicy(Policy):
    """A policy that decides one round at a time; a subclass defines ``start`` and ``decide``.

    This is the class to derive a policy of your own from.  ``start`` returns the state before round 0, and ``decide``
    maps the noise floor of a round to its noise energy, which must be finite and at least the floor.  Both are pure:
    return a new state instead of changing the old one, because a state may be kept and used again.  Do not look for
    later rounds: ``schedule`` and :class:`~adascale.streaming.Stream` hand over one floor at a time and nothing else.
    Arrays have one entry per problem instance, so write ``np.maximum`` instead of ``max``.  Arguments are validated
    before they get here.
    """

    kind: ClassVar[str] = "causal"

    def start(self, scenario: Scenario, budget: FloatArray) -> Any:
        r"""Return the state before round 0, for noise budgets :math:`\nu > 0`, one per problem instance."""
        raise NotImplementedError

    def decide(self, state: Any, floor: FloatArray) -> tuple[Any, FloatArray]:
        r"""Return the next state and :math:`w_t`, from the floors :math:`w_{\min,t}`, both one per problem instance."""
        raise NotImplementedError

    def skip(self, state: Any) -> Any:
        """Return the next state if no device transmits, which spends nothing; by default, your state as it is."""
        return state.after(1) if isinstance(state, State) else state

    def schedule(self, problem: Problem) -> FloatArray:
        """Decide round by round."""
        with NamedFailures(self, "before round 0"):
            state = self.start(problem.scenario, _budget_of_instances(problem))
        energy = np.empty((*problem.batch_shape, problem.num_rounds))
        floor = np.broadcast_to(problem.min_noise_energy, energy.shape)
        for t in range(problem.num_rounds):
            # a copy, as a view would give access to later rounds; [()] makes a single instance a scalar
            floor_t = floor[..., t].copy()[()]
            with NamedFailures(self, f"in round {t}"):
                decision = self.decide(state, floor_t)
            state, energy[..., t] = checked_decision(self, decision, floor_t, t)
        return energy


def _budget_of_instances(problem: Problem) -> FloatArray:
    return np.broadcast_to(problem.budget, problem.batch_shape)


def _name(policy: Policy) -> str:
    return policy.label or type(policy).__name__


class NamedFailures:
    """A context in which an error of a policy becomes a ``PolicyFailed`` that says ``when`` it failed.

    Errors of this package stay as they are.  Call the method of the policy directly in the context, because the
    traceback that is reported begins below it.  (A ``contextlib.contextmanager`` would be slow to enter every round.)
    """

    def __init__(self, policy: Policy, when: str) -> None:
        self._policy, self._when = policy, when

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, AdaScaleError):
            return
        failed = f"{_name(self._policy)} failed {self._when}"
        below = trace.tb_next if trace else None
        raise PolicyFailed(
            f"{failed}: {type(error).__name__}: {error}",
            "".join(traceback.format_tb(below)).rstrip(),
        ) from error


def check_parts(
    policy: Policy, when: str, decision: object, parts: tuple[str, ...]
) -> None:
    """Refuse what ``decide`` of a policy returned if it is not a tuple of these parts."""
    if not isinstance(decision, tuple) or len(decision) != len(parts):
        raise PolicyFailed(
            f"{_name(policy)} failed {when}: decide must return {', '.join(parts)} as a tuple, got {shown(decision)}"
        )


def checked_decision(
    policy: OnlinePolicy, decision: Any, floor: FloatArray, t: int
) -> tuple[Any, FloatArray]:
    """Return the state and the noise energies that a policy decided in round t.

    Noise energies must be finite and at least their floor, to which a rounding error below it is raised.
    """
    parts = "the next state", "noise energies"
    check_parts(policy, f"in round {t}", decision, parts)
    name = f"the noise energy of {_name(policy)} in round {t}"
    energy = check.as_floats(name, decision[1])
    if energy.shape != np.shape(floor):
        raise InvalidInput(
            f"{name} must have shape {np.shape(floor)} like its floor, got {energy.shape}"
        )
    bad = ~((energy >= floor * (1 - _ROUNDING)) & (energy < np.inf))
    if bad.any():
        floor = np.asarray(floor)
        raise InvalidInput(
            f"{name} must be finite and at least its floor {floor[bad][0]}, got {energy[bad][0]}"
        )
    return decision[0], np.maximum(energy, floor)


class CompiledPolicy(OnlinePolicy):
    """An online policy of this package that decides many rounds in one call; a subclass defines ``decide_rounds``.

    A subclass that overrides ``decide`` alone is scheduled round by round, as any other online policy.
    """

    def decide_rounds(self, state: Any, floor: FloatArray) -> tuple[Any, FloatArray]:
        r"""Return the state after rounds with these floors, shape (..., rounds), and their :math:`w_t`."""
        raise NotImplementedError

    def decide(self, state: Any, floor: FloatArray) -> tuple[Any, FloatArray]:
        state, energy = self.decide_rounds(state, np.asarray(floor)[..., None])
        return state, energy[..., 0]

    def schedule(self, problem: Problem) -> FloatArray:
        if type(self).decide is not CompiledPolicy.decide:
            return super().schedule(problem)
        state = self.start(problem.scenario, _budget_of_instances(problem))
        instances = np.shape(state.budget)
        if instances != problem.batch_shape:
            raise InvalidInput(
                f"{_name(self)} has parameters for instances {instances}, the problem has {problem.batch_shape}",
                "problem",
            )
        floor = np.broadcast_to(
            problem.min_noise_energy, (*problem.batch_shape, problem.num_rounds)
        )
        return self.decide_rounds(state, floor)[1]


@dataclass(frozen=True)
class State:
    """What a policy knows before a round: a subclass adds what its policy remembers of earlier rounds."""

    scenario: Scenario
    budget: FloatArray
    r""":math:`\nu` of every instance of the problem and of the policy's parameters."""
    round: int
    """Number of rounds that are over, whether decided or skipped."""

    def after(self, rounds: int, **changes: Any) -> Self:
        """Return the state after some rounds, in which these fields have changed."""
        return replace(self, round=self.round + rounds, **changes)


@dataclass(frozen=True)
class PlanState(State):
    """The state of a policy that plans T rounds."""

    @property
    def later(self) -> int:
        """Number of rounds after the one to decide."""
        return self.scenario.num_rounds - 1 - self.round

    def after(self, rounds: int, **changes: Any) -> Self:
        if rounds > self.later + 1:
            T = self.scenario.num_rounds
            raise InvalidInput(
                f"the policy has planned for num_rounds = {T}, and all rounds are over",
                "num_rounds",
            )
        return super().after(rounds, **changes)


@dataclass(frozen=True)
class HorizonState(PlanState):
    """The state of a policy that divides a noise budget among T rounds."""

    remaining: FloatArray
    """The remaining budget of all rounds together."""

    @classmethod
    def begin(cls, scenario: Scenario, budget: FloatArray, *remembered: Any) -> Self:
        r"""Return the state before round 0, when :math:`T \nu` is left."""
        remaining = np.asarray(budget * scenario.num_rounds)
        return cls(scenario, budget, 0, remaining, *remembered)


def check_law(name: str, law: object) -> FloorLaw:
    """Return an argument that is a distribution of floors."""
    if not isinstance(law, FloorLaw):
        raise InvalidInput(f"{name} must be a FloorLaw, got {law!r}", name)
    return law


def quantiles(law: FloorLaw, share: FloatArray) -> FloatArray:
    """Return the floors of each distribution at shares of shape (n,), shape (..., n)."""
    column = share.reshape(-1, *[1] * len(law.batch_shape))
    return np.moveaxis(law.quantile(column), 0, -1)


def in_rows(array: ArrayLike, batch: Sequence[int], *rounds: int) -> FloatArray:
    """Return a new array of shape (instances,), or (instances, rounds), which compiled code may change.

    Its first axis joins the axes of ``batch``, and the array is broadcast to both.
    """
    values = np.broadcast_to(np.asarray(array, dtype=float), (*batch, *rounds))
    return np.array(values, order="C").reshape(math.prod(batch), *rounds)
