"""Methods: how a policy is built for a problem, and what must be known for it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from adascale import registry, tuning
from adascale.channel import ChannelModel, Rayleigh, Trace
from adascale.checks import FloatArray
from adascale.errors import InvalidInput
from adascale.policies import OnlinePolicy, Policy, Selecting
from adascale.problem import Problem
from adascale.scenario import Scenario

Arguments = dict[str, Any]
PolicyBuilder = Callable[..., Policy]
"""A method, a policy class, or a function of a problem and its mean gains that returns a policy."""

_STATISTICS = {"law", "mean_gain"}
SEED = 51_000_017
"""Default seed of :func:`TunedOnModel`."""


@dataclass(frozen=True, eq=False)
class Method:
    r"""How a policy is built for a problem, and what must be known for it.

    Call a method with a problem, the mean gains of its devices, shape (..., M), and the channel model that the server
    assumes; it returns the policy.  Leave out what it does not need.  If it ``chooses_senders``, call it with the
    scenario, the gains of all devices, shape (..., M, T), and the total noise energy :math:`W` instead.
    """

    function: PolicyBuilder | None = None
    """A function that does all this in place of the class."""
    policy: type[Policy] = Policy
    """The class of the policy; the base class if only ``function`` knows."""
    fixed: Arguments = field(default_factory=dict)
    """Arguments of the class that are given."""
    needs: frozenset[str] = frozenset({"future"})
    """What it is built from, of ``future`` (the rounds on which it is evaluated), ``past`` (:func:`with_past`), ``law,
    mean_gain`` and ``epsilon``, which :meth:`guaranteeing` gives."""
    constructor: PolicyBuilder | None = None
    """The class method that builds it, ``from_law`` or ``of_total``, if that is not the class itself."""
    tuned: str = ""
    """The parameter that is tuned, if there is one."""
    model: Arguments = field(default_factory=dict)
    """How the channel is modelled by :func:`TunedOnModel`: ``channel, draws`` and ``seed``, or what earlier rounds
    say of it: ``law`` and ``mean_gain``."""
    past: Trace | None = None
    """The rounds that stand in for the future (:func:`with_past`)."""

    def __call__(self, *arguments: Any) -> Any:
        """Build the policy."""
        return self.build(*arguments)

    @property
    def build(self) -> PolicyBuilder:
        """What is called with these arguments."""
        if self.past is not None:
            return partial(self._from_past, self.past)
        by_class = self._selecting if self.chooses_senders else self._scaling
        return self.function or by_class

    def _from_past(self, past: Trace, first: Any, *rest: Any) -> Policy:
        """Build the policy with the last earlier rounds in place of those to come."""
        build = replace(self, past=None).build
        if self.chooses_senders:
            later, *total = rest
            return build(first, self.last_rounds(past.gain, later.shape[-1]), *total)
        budget = np.broadcast_to(first.budget, first.batch_shape)
        earlier = self.last_rounds(past.min_gain, first.num_rounds)
        return build(Problem(first.scenario, earlier, budget), *rest)

    def last_rounds(self, past: FloatArray | None, rounds: int) -> FloatArray:
        """Return the last of earlier rounds, on which the policy is tuned; refuse to take fewer."""
        if past is None or past.shape[-1] < rounds:
            got = "min_gain alone" if past is None else past.shape[-1]
            raise InvalidInput(
                f"the earlier rounds must be {rounds} at least, on which {self.policy.__name__} is tuned, got {got}",
                "gain",
            )
        return past[..., -rounds:]

    def _selecting(self, scenario: Scenario, gain: Any, total: Any) -> Policy:
        if self.constructor is None:
            return self.build_policy()
        return self.build_policy(scenario=scenario, gain=gain, total=total)

    def _scaling(
        self,
        problem: Problem,
        mean_gain: FloatArray | None = None,
        assumed: ChannelModel | None = None,
    ) -> Policy:
        scenario = problem.scenario
        statistics = self._statistics(scenario, mean_gain, assumed)
        if self.constructor is not None:
            return self.build_policy(
                scenario=scenario, budget=problem.budget, **statistics
            )
        if not self.tuned:
            return self.build_policy(**statistics)
        law = statistics.pop("law", None)
        gains = statistics.values()
        if law is None:
            guess = self.policy.guess(problem)
            value = tuning.match_budget(self.of_value, problem, *gains, guess=guess)
        else:
            value = tuning.match_law(
                self.of_value,
                scenario,
                problem.budget,
                law,
                *gains,
                draws=self.model["draws"],
                seed=self.model["seed"],
                guess=self.policy.guess,
            )
        return self.of_value(value, *gains)

    def of_value(self, value: FloatArray, *mean_gain: FloatArray) -> Policy:
        """Build the policy with a value of its parameter, and the mean gains if it needs them."""
        return self.build_policy(
            **{self.tuned: value}, **dict(zip(["mean_gain"], mean_gain, strict=False))
        )

    def build_policy(self, **arguments: Any) -> Policy:
        """Build the policy from these arguments and the fixed ones; say what to declare if one does not fit."""
        build: PolicyBuilder = self.constructor or self.policy
        try:
            return build(**(arguments | self.fixed))
        except TypeError as error:
            raise ValueError(
                f"policy {self.policy.__name__}: {error}; give an argument as policy:name=value; in a class of your "
                "own, declare a parameter to be tuned in `tuned`, statistics in `needs_mean_gain` or `needs_law`"
            ) from None

    def _statistics(
        self,
        scenario: Scenario,
        mean_gain: Any,
        assumed: ChannelModel | None,
    ) -> Arguments:
        """Return what the policy needs of the channel's statistics, by the name of the argument."""
        needs = self.needs - {"future", "past"}
        name = self.policy.__name__
        if "epsilon" in needs:
            raise ValueError(f"{name} needs epsilon, and spends no nu")
        if needs and mean_gain is None:
            raise ValueError(
                f"{name} needs mean_gain, the mean channel gain of every device"
            )
        statistics: Arguments = {"mean_gain": mean_gain}
        if "law" in needs:
            channel = self.model["channel"] or assumed or Rayleigh()
            statistics["law"] = channel.floor_law(scenario, mean_gain)
        needed = {name: value for name, value in statistics.items() if name in needs}
        return needed | {name: self.model[name] for name in _STATISTICS & {*self.model}}

    def guaranteeing(self, epsilon: float, delta: float) -> "Method":
        """Return the method of the same class that guarantees epsilon at delta, or at its own delta."""
        return as_method(
            self.policy, **({"delta": delta} | self.fixed | {"epsilon": epsilon})
        )

    @property
    def chooses_senders(self) -> bool:
        """Whether the policy chooses who sends."""
        return issubclass(self.policy, Selecting)

    @property
    def kind(self) -> str:
        """The kind of the policy (:class:`~adascale.policies.Policy`); tuned with the future, none is ``causal``."""
        kind = self.policy.kind
        return "hindsight" if kind == "causal" and "future" in self.needs else kind

    @property
    def knows(self) -> str:
        r"""What the policy knows besides :math:`\nu`, or the total, before a round.

        ``nothing``, the ``law`` of the channel (its mean gains, or earlier rounds), or ``gains to come``.
        """
        decides_by_round = issubclass(self.policy, OnlinePolicy | Selecting)
        if "future" in self.needs or not decides_by_round:
            return "gains to come"
        is_told = {"law", "mean_gain", "past", "prior"} & {
            *self.needs,
            *self.fixed,
            *self.model,
        }
        return "law" if is_told else "nothing"


def TunedOnRealisation(policy: type[Policy], **fixed: Any) -> Method:
    """Return the method of a policy class whose parameter is tuned on the realisation on which it is evaluated.

    It **sees the whole future** (:func:`~adascale.tuning.match_budget`).  A class without ``tuned`` is used as it is.
    One that chooses who sends gets its parameter from its class method ``of_total``.
    """
    tuned, needs = _declared(policy, fixed)
    constructor = None
    if issubclass(policy, Selecting):
        tuned = ""
        if {*policy.fixed_by}.isdisjoint(fixed):
            constructor = getattr(policy, "of_total", None)
    if "law" in needs:
        raise ValueError(
            f"{policy.__name__} needs the law of the floors: use TunedOnModel, or give law="
        )
    if tuned or constructor:
        needs |= {"future"}
    return Method(None, policy, fixed, needs, constructor, tuned)


def TunedOnModel(
    policy: type[Policy],
    *,
    channel: ChannelModel | None = None,
    draws: int = 30,
    seed: int = SEED,
    from_law: bool = True,
    **fixed: Any,
) -> Method:
    r"""Return the method of an online policy that is tuned on a model of the channel.

    A class with ``from_law`` is built by it; one with a ``tuned`` parameter meets :math:`\nu` on average over ``draws``
    realisations (:func:`~adascale.tuning.match_law`); any other is used as it is.

    Parameters
    ----------
    policy : type
        A subclass of :class:`~adascale.policies.OnlinePolicy`.
    channel : ChannelModel, optional
        The assumed model; default: the one with which the method is called, or else Rayleigh.
    draws : int, >= 1
    seed : int, >= 0
    from_law : bool
        Whether to use the ``from_law`` of a class that has one.
    **fixed : arguments of the class, or of its ``from_law``
    """
    tuned, needs = _declared(policy, fixed)
    if not issubclass(policy, OnlinePolicy):
        raise ValueError(
            f"policy {policy.__name__} sees all rounds at once, expected an OnlinePolicy"
        )
    constructor = getattr(policy, "from_law", None) if from_law and tuned else None
    if tuned and not (constructor and "law" in fixed):
        needs |= {"law"}
    model = {"channel": channel, "draws": draws, "seed": seed}
    return Method(None, policy, fixed, needs, constructor, tuned, model)


def _declared(policy: type[Policy], fixed: Arguments) -> tuple[str, frozenset[str]]:
    """Return the parameter to tune, if there is one, and the statistics of the channel that a class needs."""
    if not isinstance(policy, type) or not issubclass(policy, Policy):
        raise ValueError(f"policy must be {registry.KINDS['policies']}, got {policy!r}")
    parameters = [name for name in policy.tuned if name not in fixed]
    if len(parameters) > 1:
        raise ValueError(
            f"policy {policy.__name__} must have at most one parameter to tune, "
            f"got {', '.join(parameters)}; fix the others"
        )
    needs = set()
    if policy.needs_mean_gain and "mean_gain" not in fixed:
        needs.add("mean_gain")
    if policy.needs_law and "law" not in fixed:
        needs.add("law")
    if policy.needs_epsilon and "epsilon" not in fixed:
        needs.add("epsilon")
    return "".join(parameters), frozenset(needs)


def as_method(policy: PolicyBuilder, **fixed: Any) -> Method:
    """Return the method of a policy class, or of a function of a problem and its mean gains; or a method as it is.

    A class that needs the distribution of the floors becomes a :func:`TunedOnModel`, any other a
    :func:`TunedOnRealisation`, with these arguments fixed.  A function is taken to see the gains to come.
    """
    if isinstance(policy, Method):
        return policy
    if isinstance(policy, type):
        needs_law = getattr(policy, "needs_law", False)
        return (TunedOnModel if needs_law else TunedOnRealisation)(policy, **fixed)
    return Method(partial(_without_channel, policy))


def _without_channel(
    build: PolicyBuilder, problem: Problem, mean_gain: Any = None, *_: Any
) -> Policy:
    return build(problem, mean_gain)


def reported_parameters(policy: Policy) -> dict[str, Any]:
    """Return the parameters of a policy that were tuned, or given in their place."""
    names = (*policy.tuned, *getattr(policy, "fixed_by", ())[:1])
    values = {name: getattr(policy, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
