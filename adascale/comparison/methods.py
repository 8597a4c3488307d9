"""Methods: how a policy is built for a problem, and what must be known for it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from adascale import registry, tuning
from adascale.channel import ChannelModel, Rayleigh
from adascale.checks import FloatArray
from adascale.policies import OnlinePolicy, Policy, Selecting
from adascale.problem import Problem
from adascale.scenario import Scenario

Arguments = dict[str, Any]
PolicyBuilder = Callable[..., Policy]
"""A method, a policy class, or a function of a problem and its mean gains that returns a policy."""

SEED = 51_000_017
"""Default seed of :func:`TunedOnModel`."""


@dataclass(frozen=True, eq=False)
class Method:
    r"""How a policy is built for a problem, and what must be known for it.

    Call a method with a problem, the mean gains of its devices, shape (..., M), and the channel model that the server
    assumes; it returns the policy.  Leave out what it does not need.  If it ``chooses_senders``, call it with the
    scenario, the gains of all devices, shape (..., M, T), and the total noise energy :math:`W` instead.
    """

    build: PolicyBuilder
    """The function behind the call."""
    policy: type[Policy] = Policy
    """The class of the policy; the base class if only ``build`` knows."""
    fixed: Arguments = field(default_factory=dict)
    """Arguments of the class that are given."""
    needs: frozenset[str] = frozenset({"future"})
    """What it is built from, of ``future`` (the rounds on which it is evaluated), ``past`` (:func:`with_past`), ``law,
    mean_gain`` and ``epsilon``, which :meth:`guaranteeing` gives."""
    constructor: PolicyBuilder | None = None
    """The class method that builds it, ``from_law`` or ``of_total``, if that is not the class itself."""

    def __call__(self, *arguments: Any) -> Any:
        """Build the policy."""
        return self.build(*arguments)

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
        is_told = {"law", "mean_gain", "past", "prior"} & {*self.needs, *self.fixed}
        return "law" if is_told else "nothing"


def TunedOnRealisation(policy: type[Policy], **fixed: Any) -> Method:
    """Return the method of a policy class whose parameter is tuned on the realisation on which it is evaluated.

    It **sees the whole future** (:func:`~adascale.tuning.match_budget`).  A class without ``tuned`` is used as it is.
    One that chooses who sends gets its parameter from its class method ``of_total``.
    """
    parameters, needs = _declared(policy, fixed)
    if issubclass(policy, Selecting):
        return _choosing_senders(policy, fixed)
    if "law" in needs:
        raise ValueError(
            f"{policy.__name__} needs the law of the floors: use TunedOnModel, or give law="
        )
    make = partial(_make, policy, parameters, fixed)
    build = partial(_tuned_on_realisation, policy, bool(parameters), needs, make)
    future = frozenset({"future"} if parameters else ())
    return Method(build, policy, fixed, needs | future)


def _tuned_on_realisation(
    policy: type[Policy],
    is_tuned: bool,
    needs: frozenset[str],
    make: PolicyBuilder,
    problem: Problem,
    mean_gain: FloatArray | None = None,
    *_: Any,
) -> Policy:
    gains = _statistics(policy, needs, problem.scenario, mean_gain).values()
    if not is_tuned:
        return make(None, *gains)
    guess = policy.guess(problem)
    value = tuning.match_budget(make, problem, *gains, guess=guess)
    return make(value, *gains)


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
    parameters, needs = _declared(policy, fixed)
    if not issubclass(policy, OnlinePolicy):
        raise ValueError(
            f"policy {policy.__name__} sees all rounds at once, expected an OnlinePolicy"
        )
    constructor = None
    if from_law and parameters:
        constructor = getattr(policy, "from_law", None)
    is_searched = bool(parameters) and constructor is None
    if is_searched or (constructor and {"law", "mean_gain"}.isdisjoint(fixed)):
        needs |= {"law"}
    method = Method(Policy, policy, fixed, needs, constructor)
    how = {"draws": draws, "seed": seed, "guess": policy.guess} if is_searched else None
    build = partial(_tuned_on_model, method, parameters, channel, how)
    return replace(method, build=build)


def _tuned_on_model(
    method: Method,
    parameters: list[str],
    channel: ChannelModel | None,
    search: Arguments | None,
    problem: Problem,
    mean_gain: FloatArray | None = None,
    assumed: ChannelModel | None = None,
) -> Policy:
    policy = method.policy
    fixed = method.fixed
    scenario = problem.scenario
    budget = problem.budget
    model = channel or assumed or Rayleigh()
    statistics = _statistics(policy, method.needs, scenario, mean_gain, model)
    if search is not None:
        law = statistics.pop("law")
        gains = statistics.values()
        make = partial(_make, policy, parameters, fixed)
        value = tuning.match_law(make, scenario, budget, law, *gains, **search)
        return make(value, *gains)
    if method.constructor is not None:
        statistics |= {"scenario": scenario, "budget": budget}
    return construct(policy, statistics | fixed, method.constructor)


def _choosing_senders(policy: type[Selecting], fixed: Arguments) -> Method:
    """Return the method of a policy that chooses who sends, at a total noise energy unless that is fixed."""
    of_total: Any = getattr(policy, "of_total", None)
    if of_total is None or not {*policy.fixed_by}.isdisjoint(fixed):
        build: Any = partial(_fixed, policy, fixed)
        return Method(build, policy, fixed, frozenset())
    build = partial(_of_total, policy, fixed, of_total)
    return Method(build, policy, fixed, constructor=of_total)


def _fixed(policy: type[Selecting], fixed: Arguments, *_: Any) -> Policy:
    return construct(policy, fixed)


def _of_total(
    policy: type[Selecting],
    fixed: Arguments,
    constructor: PolicyBuilder,
    scenario: Scenario,
    gain: FloatArray,
    total: FloatArray,
) -> Policy:
    arguments = {"scenario": scenario, "gain": gain, "total": total}
    return construct(policy, arguments | fixed, constructor)


def _declared(
    policy: type[Policy], fixed: Arguments
) -> tuple[list[str], frozenset[str]]:
    """Return the parameters to tune, at most one, and the statistics of the channel that a class needs."""
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
    if policy.needs_law and {"law", "mean_gain"}.isdisjoint(fixed):
        needs.add("law")
    if policy.needs_epsilon and "epsilon" not in fixed:
        needs.add("epsilon")
    return parameters, frozenset(needs)


def _statistics(
    policy: type[Policy],
    needs: frozenset[str],
    scenario: Scenario,
    mean_gain: FloatArray | None,
    channel: ChannelModel | None = None,
) -> Arguments:
    """Return what a policy needs of the channel's statistics, by the name of the argument."""
    if not needs:
        return {}
    if "epsilon" in needs:
        raise ValueError(f"{policy.__name__} needs epsilon, and spends no nu")
    if mean_gain is None:
        raise ValueError(
            f"{policy.__name__} needs mean_gain, the mean channel gain of every device"
        )
    statistics: Arguments = {"mean_gain": mean_gain} if "mean_gain" in needs else {}
    if channel is not None and "law" in needs:
        statistics["law"] = channel.floor_law(scenario, mean_gain)
    return statistics


def _make(
    policy: type[Policy],
    parameters: list[str],
    fixed: Arguments,
    value: FloatArray | None,
    mean_gain: FloatArray | None = None,
) -> Policy:
    """Build a policy with a value of its parameter, if it has one, and the mean gains, if it needs them."""
    arguments: Arguments = dict.fromkeys(parameters, value)
    if mean_gain is not None:
        arguments["mean_gain"] = mean_gain
    return construct(policy, arguments | fixed)


def construct(
    policy: type[Policy],
    arguments: Arguments,
    constructor: PolicyBuilder | None = None,
) -> Policy:
    """Build a policy by its class or another constructor, and say what to declare if an argument does not fit."""
    try:
        build: PolicyBuilder = constructor or policy
        return build(**arguments)
    except TypeError as error:
        hint = (
            "give an argument as policy:name=value; in a class of your own, "
            "declare a parameter to be tuned in `tuned`, statistics in `needs_mean_gain` or `needs_law`"
        )
        raise ValueError(f"policy {policy.__name__}: {error}; {hint}") from None


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
    build: PolicyBuilder,
    problem: Problem,
    mean_gain: FloatArray | None = None,
    *_: Any,
) -> Policy:
    return build(problem, mean_gain)


def reported_parameters(policy: Policy) -> dict[str, Any]:
    """Return the parameters of a policy that were tuned, or given in their place."""
    names = (*policy.tuned, *getattr(policy, "fixed_by", ())[:1])
    values = {name: getattr(policy, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
