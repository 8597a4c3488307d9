"""Methods: how a policy is built for a problem, and what must be known for it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from adascale import registry, tuning
from adascale.channel import ChannelModel, Rayleigh, Trace
from adascale.checks import FloatArray
from adascale.policies import OnlinePolicy, Policy, Selecting
from adascale.problem import Problem
from adascale.scenario import Scenario

Arguments = dict[str, Any]
PolicyBuilder = Callable[..., Policy]
"""A method, a policy class, or a function of a problem and its mean gains that returns a policy."""

SEED = 51_000_017
"""Default seed of :func:`TunedOnModel`."""


@dataclass(frozen=True)
class Known:
    """What a policy may be built from; a method reads of it what is in its ``needs``."""

    scenario: Scenario
    budget: ArrayLike | None = None
    r""":math:`\nu`, or the total noise energy :math:`W` of a policy that chooses who sends."""
    min_gain: FloatArray | None = None
    r""":math:`h_{\min,t}^2`, shape (..., T), of the rounds for tuning: those to come, or earlier ones."""
    mean_gain: FloatArray | None = None
    """Mean gains of the devices, shape (..., M), see :meth:`~adascale.scenario.Scenario.mean_gain`."""
    gain: FloatArray | None = None
    """Linear gains of all devices in the same rounds, shape (..., M, T), for a policy that chooses who sends."""
    channel: ChannelModel | Trace | None = None
    """The channel model that the server assumes, or earlier rounds; default Rayleigh."""

    @property
    def problem(self) -> Problem:
        """The rounds at the budget."""
        return Problem(self.scenario, self.min_gain, self.budget)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Method:
    r"""How a policy is built for a problem, and what must be known for it.

    Call a method with a problem, the mean gains of its devices, shape (..., M), the channel model that the server
    assumes, and the gains of all devices, shape (..., M, T); it returns the policy.  Leave out what it does not need.
    If it ``chooses_senders``, the budget of the problem is the total noise energy :math:`W`.
    """

    builder: Callable[["Method", Known], Policy]
    """A function that builds the policy from what is known; one of a module, so that it can be pickled."""
    policy: type[Policy] = Policy
    """The class of the policy; the base class if only ``builder`` knows."""
    fixed: Arguments = field(default_factory=dict)
    """Arguments of the class that are given."""
    needs: frozenset[str] = frozenset({"future"})
    """What it is built from, of ``future`` (the rounds on which it is evaluated), ``past`` (:func:`with_past`), ``law,
    mean_gain`` and ``epsilon``, which :meth:`guaranteeing` gives."""
    tuned: str = ""
    """The parameter that is tuned, if there is one."""

    def __call__(
        self,
        problem: Problem,
        mean_gain: FloatArray | None = None,
        channel: ChannelModel | None = None,
        gain: FloatArray | None = None,
    ) -> Any:
        """Build the policy."""
        rounds = problem.min_gain
        return self.build(
            Known(problem.scenario, problem.budget, rounds, mean_gain, gain, channel)
        )

    @property
    def build(self) -> Callable[[Known], Any]:
        """The builder of the policy from what is known, as a function of it alone."""
        return partial(self.builder, self)

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
    tuned, needs = _declared(policy, fixed)
    if "law" in needs:
        raise ValueError(
            f"{policy.__name__} needs the law of the floors: use TunedOnModel, or give law="
        )
    builder = _with_statistics
    if issubclass(policy, Selecting):
        is_free = {*policy.fixed_by}.isdisjoint(fixed)
        if is_free and hasattr(policy, "of_total"):
            builder = _of_total
    elif tuned:
        builder = _tuned_on_rounds
    if builder is not _with_statistics:
        needs |= {"future"}
    return Method(builder, policy, fixed, needs, tuned)


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
    builder: Callable[[Method, Known], Policy] = _with_statistics
    if tuned:
        is_built = from_law and hasattr(policy, "from_law")
        builder = _from_law if is_built else partial(_tuned_on_draws, draws, seed)
        if not (is_built and "law" in fixed):
            needs |= {"law"}
    if channel is not None:
        builder = partial(_assuming, channel, builder)
    return Method(builder, policy, fixed, needs, tuned)


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
    declared = {
        "mean_gain": policy.needs_mean_gain,
        "law": policy.needs_law,
        "epsilon": policy.needs_epsilon,
    }
    needs = {name for name, is_needed in declared.items() if is_needed}
    return "".join(parameters), frozenset(needs - fixed.keys())


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
    return Method(partial(of_function, policy))


def of_function(function: PolicyBuilder, _: Method, known: Known) -> Policy:
    """Build the policy by a function of a problem and its mean gains; as a builder, it is given the method as well."""
    return function(known.problem, known.mean_gain)


def _with_statistics(method: Method, known: Known) -> Policy:
    """Build the class itself, with the statistics that it needs."""
    if "epsilon" in method.needs:
        raise ValueError(f"{method.policy.__name__} needs epsilon, and spends no nu")
    return _construct(method.policy, statistics(method, known) | method.fixed)


def _tuned_on_rounds(method: Method, known: Known) -> Policy:
    """Tune the parameter on the rounds that are known."""
    problem = known.problem
    given = statistics(method, known)
    guess = method.policy.guess(problem)
    build = partial(_of_value, method)
    value = tuning.match_budget(build, problem, *given.values(), guess=guess)
    return build(value, *given.values())


def _tuned_on_draws(draws: int, seed: int, method: Method, known: Known) -> Policy:
    """Tune the parameter on rounds that are drawn from the distribution of the floors."""
    given = statistics(method, known)
    law = given.pop("law")
    build = partial(_of_value, method)
    budget: Any = known.budget
    value = tuning.match_law(
        build,
        known.scenario,
        budget,
        law,
        *given.values(),
        draws=draws,
        seed=seed,
        guess=method.policy.guess,
    )
    return build(value, *given.values())


def _of_value(
    method: Method, value: FloatArray, mean_gain: FloatArray | None = None
) -> Policy:
    """Build the class with a value of the tuned parameter, and the mean gains if it needs them."""
    given = {} if mean_gain is None else {"mean_gain": mean_gain}
    return _construct(method.policy, {method.tuned: value} | given | method.fixed)


def _from_law(method: Method, known: Known) -> Policy:
    """Build the class by its ``from_law``."""
    policy: Any = method.policy
    given = {"scenario": known.scenario, "budget": known.budget}
    given |= statistics(method, known)
    return _construct(policy.from_law, given | method.fixed)


def _of_total(method: Method, known: Known) -> Policy:
    """Build a class that chooses who sends by its ``of_total``."""
    policy: Any = method.policy
    given = {"scenario": known.scenario, "gain": known.gain, "total": known.budget}
    return _construct(policy.of_total, given | method.fixed)


def _assuming(
    channel: ChannelModel,
    builder: Callable[[Method, Known], Policy],
    method: Method,
    known: Known,
) -> Policy:
    """Build the policy of a server that assumes this channel model."""
    return builder(method, replace(known, channel=channel))


def _construct(build: Any, arguments: Arguments) -> Any:
    """Call a class or a class method of it; if an argument does not fit, the error says what to declare."""
    try:
        return build(**arguments)
    except TypeError as error:
        name = getattr(build, "__self__", build).__name__
        raise ValueError(
            f"policy {name}: {error}; give an argument as policy:name=value; in a class of your "
            "own, declare a parameter to be tuned in `tuned`, statistics in `needs_mean_gain` or `needs_law`"
        ) from None


def statistics(method: Method, known: Known) -> Arguments:
    """Return the statistics of the channel that a policy needs by name: ``mean_gain``, then ``law``."""
    channel, mean_gain = known.channel or Rayleigh(), known.mean_gain
    needs = method.needs & {"law", "mean_gain"}
    if needs and mean_gain is None and not isinstance(channel, Trace):
        raise ValueError(
            f"{method.policy.__name__} needs mean_gain, the mean channel gain of every device"
        )
    given: Arguments = {"mean_gain": mean_gain} if "mean_gain" in needs else {}
    if "law" in needs:
        given["law"] = channel.floor_law(known.scenario, mean_gain)  # type: ignore[arg-type]
    return given


def reported_parameters(policy: Policy) -> dict[str, Any]:
    """Return the tuned parameters of a policy or, if it chooses who sends, the first in ``fixed_by``."""
    names = (*policy.tuned, *getattr(policy, "fixed_by", ())[:1])
    values = {name: getattr(policy, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
