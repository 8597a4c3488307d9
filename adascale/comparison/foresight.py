r"""Tune policies on what is known before round 0, never on the realisation they are evaluated on."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale import tuning
from adascale.channel import ChannelModel, FloorLaw, Rayleigh
from adascale.comparison.classes import PolicyClass
from adascale.policies import OnlinePolicy, Policy
from adascale.problem import ReceiveScalingProblem

FloatArray = NDArray[np.float64]

SEED = 51_000_017
"""The seed of the draws of the law on which :class:`Foresight` tunes."""


class Foresight(PolicyClass):
    r"""The method of an online policy without the future, tuning included.

    What it sees of a problem is T, :math:`\nu`, the scenario and the devices' mean gains; and from these the law of the
    floors under the channel that is *believed* (:meth:`~adascale.channel.ChannelModel.floor_law`).  It sees not one
    gain of the realisation: another realisation of the same mean gains gets the same policy.

    ================================ ==================================================================================
    the class                        is built
    ================================ ==================================================================================
    has ``from_law``                 by it, from scenario, budget and law
    has one ``tuned`` parameter      with the value whose mean cost over ``draws`` realisations of the law, drawn for it
                                     alone, is :math:`\nu` (:func:`~adascale.tuning.match_law`)
    has none                         as it is; with ``law`` or ``mean_gain`` where it declares that it needs them
    ================================ ==================================================================================

    So the cost of a realisation is not :math:`\nu`: see :func:`~adascale.comparison.promises`.

    Parameters
    ----------
    policy : type
        A subclass of :class:`~adascale.policies.OnlinePolicy`, or any class with ``start`` and ``step``.
    channel : ChannelModel, optional
        What is believed.  Default: the channel of the :func:`~adascale.comparison.leakage_table` that asks, elsewhere
        :class:`~adascale.channel.Rayleigh`, the paper's.
    draws : int
        How many realisations of T rounds a parameter is tuned on, :math:`\ge 1`.
    seed : int
        Their seed, :math:`\ge 0`.  They are drawn from the law of the floors, so no seed of a channel can meet them.
    from_law : bool
        Whether to use the ``from_law`` of a class that has one; otherwise its parameter is tuned.
    **fixed
        Arguments of the constructor, or of ``from_law``, that keep one value.

    Raises
    ------
    ValueError
        If it is no such class, has more than one parameter to tune, or decides with all rounds in view; if ``draws`` or
        ``seed`` is out of range, or ``channel`` is none; when called, if it needs mean gains and there are none.
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
        super().__init__(policy, fixed)
        name = self.policy.__name__
        if not issubclass(self.policy, OnlinePolicy):
            raise ValueError(f"policy {name} decides with all rounds in view, expected an OnlinePolicy")
        if channel is not None and not isinstance(channel, ChannelModel):
            raise ValueError(f"channel must be a ChannelModel, got {channel!r}")
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ValueError(f"seed must be a whole number >= 0, got {seed!r}")
        self.channel, self.draws, self.seed = channel, check.whole("draws", draws), int(seed)
        self.by_law = bool(from_law and self.tuned and callable(getattr(self.policy, "from_law", None)))

    def believing(self, channel: ChannelModel) -> Foresight:
        """The same method with this channel believed, if none was given."""
        if self.channel is not None:
            return self
        return Foresight(
            self.policy, channel=channel, draws=self.draws, seed=self.seed, from_law=self.by_law, **self.fixed
        )

    def __call__(self, problem: ReceiveScalingProblem, mean_gain: FloatArray | None = None) -> Policy:
        """The policy of every lane, from its budget and the law of its floors."""
        scenario, budget = problem.scenario, problem.budget
        takes_law = (self.policy.needs_law or self.by_law) and not {"law", "mean_gain"} & {*self.fixed}
        takes_gain = self.policy.needs_mean_gain and "mean_gain" not in self.fixed
        searched = bool(self.tuned) and not self.by_law
        if (takes_law or takes_gain or searched) and mean_gain is None:
            raise ValueError(f"{self.policy.__name__} needs mean_gain, the mean channel gain of every device")
        given: dict[str, Any] = {"mean_gain": mean_gain} if takes_gain else {}
        if takes_law:
            given["law"] = self._law(problem, cast("FloatArray", mean_gain))
        if self.by_law:
            return self.build(self.policy.from_law, scenario=scenario, budget=budget, **given)  # type: ignore[attr-defined]
        if not searched:
            return self.build(**given)
        (name,) = self.tuned
        if takes_law:  # one law for all lanes that are tuned side by side would be another problem
            raise ValueError(f"{self.policy.__name__} needs the law and has a parameter to tune; give it a from_law")
        statistics = (cast("FloatArray", mean_gain),) if takes_gain else ()

        def made(value: FloatArray, *known: FloatArray) -> Policy:
            return self.build(**{name: value}, **dict(zip(("mean_gain",), known, strict=False)))

        law = self._law(problem, cast("FloatArray", mean_gain))
        found = tuning.match_law(
            made, scenario, budget, law, *statistics, draws=self.draws, seed=self.seed, guess=self.policy.guess
        )
        return self.build(**{name: found}, **given)

    def _law(self, problem: ReceiveScalingProblem, mean_gain: FloatArray) -> FloorLaw:
        believed = Rayleigh() if self.channel is None else self.channel
        return believed.floor_law(problem.scenario, mean_gain)
