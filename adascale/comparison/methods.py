"""Methods that tune a policy to a budget, on the realisation itself or on a channel model."""

from collections.abc import Callable
from typing import Any, cast

from adascale import checks as check
from adascale import registry, tuning
from adascale.channel import ChannelModel, Rayleigh
from adascale.policies import OnlinePolicy, Policy, Selecting
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import FloatArray, Scenario

Method = Callable[[ReceiveScalingProblem, FloatArray | None], Policy]
"""A function of a problem and its ``mean_gain``, shape (..., M) or None, that returns a policy."""

SEED = 51_000_017
"""Default seed of :class:`TunedOnModel`."""


class PolicyClass:
    """A policy class with some arguments fixed."""

    def __init__(self, policy: type, **fixed: Any):
        if not isinstance(policy, type) or not issubclass(policy, Policy):
            raise ValueError(
                f"policy must be {registry.KINDS['policies']}, got {policy!r}"
            )
        name = policy.__name__
        self.policy, self.fixed = policy, fixed
        declared: object = self.policy.tuned
        if not isinstance(declared, tuple | list) or not all(
            isinstance(each, str) for each in declared
        ):
            raise ValueError(
                f"policy {name}: tuned must be a tuple of names, got {declared!r}"
            )
        self.tuned = tuple(each for each in declared if each not in fixed)
        """Parameters left to be tuned, at most one."""
        if len(self.tuned) > 1:
            listed = ", ".join(self.tuned)
            raise ValueError(
                f"policy {name} must have at most one parameter to tune, got {listed}; fix the others"
            )
        self.takes_law = self.policy.needs_law and not {"law", "mean_gain"} & {*fixed}
        self.takes_gain = self.policy.needs_mean_gain and "mean_gain" not in fixed
        self.chooses = issubclass(self.policy, Selecting)  # who sends
        self.takes_total = hasattr(self.policy, "of_total") and not {
            *getattr(self.policy, "fixed_by", ())
        } & {*fixed}

    def build(
        self, constructor: Callable[..., Policy] | None = None, /, **given: Any
    ) -> Policy:
        """Build the policy by its class or another constructor; fixed arguments take precedence."""
        name = self.policy.__name__
        try:
            made = (constructor or self.policy)(**(given | self.fixed))
        except TypeError as error:
            hint = "a parameter to be tuned is declared in `tuned`, statistics in `needs_mean_gain` or `needs_law`"
            raise ValueError(f"policy {name}: {error}; {hint}") from None
        if forgotten := [each for each in self.tuned if not hasattr(made, each)]:
            kept = "must keep what it declares in `tuned` as an attribute"
            raise ValueError(f"policy {name} {kept}, it has no {forgotten[0]!r}")
        return made

    def choosing(
        self, scenario: Scenario, gain: FloatArray, total: FloatArray
    ) -> Selecting:
        """Build a policy that chooses who sends, which **sees all rounds** if it ``takes_total``."""
        given = (
            {"scenario": scenario, "gain": gain, "total": total}
            if self.takes_total
            else {}
        )
        return cast(
            "Selecting",
            self.build(
                getattr(self.policy, "of_total", None) if given else None, **given
            ),
        )

    def _made(self, value: FloatArray | None, *mean_gain: FloatArray) -> Policy:
        return self.build(
            **dict.fromkeys(self.tuned, value),
            **dict(zip(("mean_gain",), mean_gain, strict=False)),
        )

    def _gain(self, mean_gain: FloatArray | None) -> FloatArray:
        if mean_gain is None:
            raise ValueError(
                f"{self.policy.__name__} needs mean_gain, the mean channel gain of every device"
            )
        return mean_gain


class TunedOnRealisation(PolicyClass):
    """The method of a policy class whose parameter is tuned on the evaluated realisation.

    It **sees the whole future** (:func:`~adascale.tuning.match_budget`).  A class without ``tuned`` is used as it is.
    """

    def __call__(
        self, problem: ReceiveScalingProblem, mean_gain: FloatArray | None = None
    ) -> Policy:
        if self.takes_law:
            raise ValueError(
                f"{self.policy.__name__} needs the law of the floors: use TunedOnModel, or give law="
            )
        statistics = (self._gain(mean_gain),) if self.takes_gain else ()
        if not self.tuned:
            return self._made(None, *statistics)
        guess = self.policy.guess(problem)
        return self._made(
            tuning.match_budget(self._made, problem, *statistics, guess=guess),
            *statistics,
        )


class TunedOnModel(PolicyClass):
    r"""The method of an online policy that is tuned on a model of the channel.

    A class with ``from_law`` is built by it; one with a ``tuned`` parameter meets :math:`\nu` on average over ``draws``
    realisations (:func:`~adascale.tuning.match_law`); any other is used as it is.

    Parameters
    ----------
    policy : type
        A subclass of :class:`~adascale.policies.OnlinePolicy`.
    channel : ChannelModel, optional
        The assumed model; default: that of the :func:`~adascale.comparison.leakage_table`, or else Rayleigh.
    draws : int, >= 1
    seed : int, >= 0
    from_law : bool
        Whether to use the ``from_law`` of a class that has one.
    **fixed : arguments of the constructor, or of ``from_law``
    """

    def __init__(
        self,
        policy: type,
        *,
        channel: ChannelModel | None = None,
        draws: int = 30,
        seed: int = SEED,
        from_law: bool = True,
        **fixed: Any,
    ):
        super().__init__(policy, **fixed)
        if not issubclass(self.policy, OnlinePolicy):
            raise ValueError(
                f"policy {self.policy.__name__} sees all rounds at once, expected an OnlinePolicy"
            )
        if channel is not None and not isinstance(channel, ChannelModel):
            raise ValueError(f"channel must be a ChannelModel, got {channel!r}")
        self.channel, self.draws, self.seed = (
            channel,
            check.whole("draws", draws),
            check.whole("seed", seed, 0),
        )
        self.by_law = bool(
            from_law and self.tuned and callable(getattr(self.policy, "from_law", None))
        )
        self.takes_law = (self.policy.needs_law or self.by_law) and not {
            "law",
            "mean_gain",
        } & {*fixed}

    def believing(self, channel: ChannelModel) -> "TunedOnModel":
        """Return the same method with this channel assumed, if none was given."""
        if self.channel is not None:
            return self
        how: dict[str, Any] = {
            "draws": self.draws,
            "seed": self.seed,
            "from_law": self.by_law,
        }
        return TunedOnModel(self.policy, channel=channel, **how, **self.fixed)

    def __call__(
        self, problem: ReceiveScalingProblem, mean_gain: FloatArray | None = None
    ) -> Policy:
        scenario, budget = problem.scenario, problem.budget
        searched = bool(self.tuned) and not self.by_law
        if self.takes_law or searched:
            law = (self.channel or Rayleigh()).floor_law(
                scenario, self._gain(mean_gain)
            )
        given: dict[str, Any] = (
            {"mean_gain": self._gain(mean_gain)} if self.takes_gain else {}
        )
        if searched:
            if self.takes_law:  # one distribution for all instances tuned at once would change the problem
                name = self.policy.__name__
                raise ValueError(
                    f"{name} needs the law and has a parameter to tune; give it a from_law"
                )
            how: dict[str, Any] = {
                "draws": self.draws,
                "seed": self.seed,
                "guess": self.policy.guess,
            }
            found = tuning.match_law(
                self._made, scenario, budget, law, *given.values(), **how
            )
            return self._made(found, *given.values())
        if self.takes_law:
            given["law"] = law
        if self.by_law:
            from_law: Any = getattr(self.policy, "from_law")  # noqa: B009
            return self.build(from_law, scenario=scenario, budget=budget, **given)
        return self.build(**given)


def as_method(policy: Method | type, channel: ChannelModel | None = None) -> Method:
    """Return the method of a policy class, or a method as it is.

    A class that needs the distribution of the floors becomes a :class:`TunedOnModel` (of ``channel``, if it has none),
    any other a :class:`TunedOnRealisation`.
    """
    if isinstance(policy, type):
        policy = (
            TunedOnModel(policy)
            if getattr(policy, "needs_law", False)
            else TunedOnRealisation(policy)
        )
    return (
        policy.believing(channel)
        if isinstance(policy, TunedOnModel) and channel is not None
        else policy
    )


def find_method(name: str) -> tuple[str, Method]:
    """Find a method by name, and return its label and the method.

    For names see :func:`adascale.registry.find`; arguments may follow, as in ``learn:budget_mode=hard``.
    """
    kind, options = registry.parse_options(name)
    found = registry.find("policies", kind)
    method: Any = as_method(found.value)
    if options:
        if not isinstance(method, PolicyClass):
            raise ValueError(f"policy {kind!r} takes no parameters, got {name!r}")
        method = type(method)(method.policy, **options)
    return found.label + name[len(kind) :], method
