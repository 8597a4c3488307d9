"""Policies that choose who sends: truncated channel inversion, and the best devices of each round."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting import Accountant, epsilon_by, rdp
from adascale.checks import BoolArray, FloatArray, IndexArray
from adascale.errors import BudgetNotReached, InvalidInput
from adascale.policies.base import NamedFailures, Policy, check_parts
from adascale.policies.equal_alloc import EqualAlloc
from adascale.policies.optimal import water_level
from adascale.problem import RENYI, Problem, over_devices, scaling
from adascale.scenario import Scenario


class State(NamedTuple):
    """What :class:`Truncated` and :class:`Best` know before a round, which does not change."""

    scenario: Scenario
    value: FloatArray
    """The threshold, or the level, of every instance."""


class Selection(NamedTuple):
    r"""Who sends in each round and at which receive scaling, and the noise, participation and privacy that this gives.

    The :math:`K_t` devices of :math:`\mathcal S_t` send with weights :math:`\sqrt{\eta_t} / (K_t h_{m,t})`, or with
    :math:`p_m / \sum_{\mathcal S_t} p_m` in place of :math:`1 / K_t` if the scenario has weights, so that

    .. math::
        \tilde{\mathbf r}_t = \frac1{K_t} \sum_{\mathcal S_t} \mathbf g_{m,t} + \mathcal N(0, \sigma_n^2 / 2 \eta_t),\;
        \eta_t \le x_{\max} \Big(\frac{K_t}M\Big)^2 \min_{m \in \mathcal S_t} \frac{|h_{m,t}|^2 P_m}{P_{\max} k_m^2}
    """

    scenario: Scenario
    eta: FloatArray
    r""":math:`\eta_t` in watts, shape (..., T), whose limit is not checked; 0 in a round without a sender."""
    senders: BoolArray
    r"""Whether :math:`m \in \mathcal S_t`, shape (..., M, T); bool, not 0 and 1."""
    exposure: FloatArray | float = 1.0
    r""":math:`\kappa_{m,t}` of :class:`~adascale.channel.Channel`; guarantees on every channel assume 1."""

    @property
    def noise_energy(self) -> FloatArray:
        r""":math:`w_t = d \sigma_n^2 / \eta_t`, shape (..., T); 0 in a skipped round."""
        sent = self.eta > 0
        eta = np.where(sent, self.eta, 1)
        return np.where(sent, self.scenario.noise_scale / eta, 0)

    @property
    def total(self) -> FloatArray:
        """:math:`W`, the mean of :math:`w_t` over the rounds that are not skipped, shape (...); NaN without one."""
        number = np.sum(self.eta > 0, axis=-1)
        mean = self.noise_energy.sum(axis=-1) / np.maximum(number, 1)
        return np.where(number, mean, np.nan)

    @property
    def participation(self) -> FloatArray:
        """Share of the rounds in which each device sends, shape (..., M)."""
        return self.senders.mean(axis=-1)

    @property
    def noise_multiplier(self) -> FloatArray:
        r""":math:`\sigma_{m,t} = (K_t B_m / G) \sqrt{s_n w_t / 2d}`, shape (..., M, T); inf where a device is idle.

        If the scenario has weights, :math:`K_t` becomes :math:`\sum_{\mathcal S_t} p_n / p_m`.
        """
        if self.senders.dtype != bool:  # 0 and 1 would be read as positions
            raise InvalidInput(
                f"senders must be bool, got {self.senders.dtype}", "senders"
            )
        s = self.scenario
        weight = np.broadcast_to(s.relative_weight, s.num_devices)
        size = np.broadcast_to(s.weighted_batch_size, s.num_devices)[:, None]
        root = np.sqrt(s.noise_share * self.noise_energy / (2 * s.num_parameters))
        # without weights, weight is 1 for every device, and their sum is K_t
        scale = (weight @ self.senders) / s.clip_norm * root
        sigma = size * scale[..., None, :] / np.sqrt(self.exposure)
        return np.where(self.senders, sigma, np.inf)

    def rdp(self) -> FloatArray:
        """Compute the Rényi leakage in nats, the sum over its own rounds and the mean over devices, shape (...)."""
        sigma = np.where(self.senders, self.noise_multiplier, 1.0)
        leakage = rdp(self._rate[:, None], sigma, self.scenario.order)
        return leakage.sum(axis=-1, where=self.senders).mean(axis=-1)

    def epsilon(
        self, accountant: Accountant = RENYI, delta: float = 1e-5
    ) -> FloatArray:
        r"""Compute the largest :math:`\varepsilon` over devices, which holds for every device, shape (...)."""
        return over_devices(self.epsilons(accountant, delta))["epsilon"]

    def epsilons(
        self, accountant: Accountant = RENYI, delta: float = 1e-5
    ) -> FloatArray:
        r"""Compute :math:`\varepsilon` of each device, that of its own rounds, shape (..., M); 0 without any."""
        sigma = self.noise_multiplier
        epsilons = np.zeros(sigma.shape[:-1])
        for index in map(tuple, np.argwhere(self.senders.any(axis=-1))):
            rate = float(self._rate[index[-1]])
            own = sigma[index][self.senders[index]]
            epsilons[index] = epsilon_by(accountant, rate, own, delta)
        return epsilons

    @property
    def _rate(self) -> FloatArray:
        """The sampling rate of each device, shape (M,)."""
        return np.broadcast_to(self.scenario.sampling_rate, self.scenario.num_devices)


def rank_of(gain: FloatArray) -> IndexArray:
    """Return the rank of each device in its round, 0 for the largest gain, shape (..., M, T)."""
    order = np.argsort(-gain, axis=-2, kind="stable")
    return np.argsort(order, axis=-2)


def check_equal_weights(scenario: Scenario) -> None:
    """Refuse a scenario with weights, as a policy that chooses who sends gives equal weights to those that do."""
    if scenario.weights is not None:
        raise InvalidInput(
            "weights must not be given if a policy chooses who sends", "weights"
        )


def choice(policy: "Selecting", when: str, state: Any, gain: FloatArray) -> Any:
    """Return the next state, eta and senders that a policy decides; an error says ``when`` it failed."""
    with NamedFailures(policy, when):
        decision = policy.decide(state, gain)
    check_parts(policy, when, decision, ("the next state", "eta", "senders"))
    return decision


class Selecting(Policy):
    """A policy that chooses who sends, by the channel alone; a subclass defines ``start`` and ``decide``.

    It sees the gains of all devices, where an :class:`OnlinePolicy` sees the floor.  ``decide`` is for any number of
    rounds, which are on the last axis, and must treat each of them without looking at the others.
    """

    kind: ClassVar[str] = "causal"
    fixed_by: ClassVar[tuple[str, ...]] = ()
    """Parameters of which one must be given, or be found by a class method ``of_total`` of the subclass."""

    def start(self, scenario: Scenario) -> Any:
        """Return the state before round 0."""
        raise NotImplementedError

    def decide(self, state: Any, gain: FloatArray) -> tuple[Any, FloatArray, BoolArray]:
        """Return the state, eta (..., T) and senders (..., M, T) of rounds with scaled gains (..., M, T)."""
        raise NotImplementedError

    def skip(self, state: Any) -> Any:
        """Return the state after a round in which no device transmits; by default, the same."""
        return state

    def select(self, scenario: Scenario, gain: ArrayLike) -> Selection:
        """Run all rounds of linear gains :math:`|h_{m,t}|^2`, shape (..., M, T), whose T overrides the scenario's."""
        scaled = scenario.scaled_gain(gain)
        scenario = replace(scenario, num_rounds=scaled.shape[-1])
        with NamedFailures(self, "before round 0"):
            state = self.start(scenario)
        return Selection(scenario, *choice(self, "in its choice", state, scaled)[1:])

    def schedule(self, problem: Problem) -> FloatArray:
        """Refuse a problem, which has no gains to choose from."""
        raise InvalidInput(
            f"{type(self).__name__} needs the gains of all devices, got min_gain",
            "min_gain",
        )


@dataclass(frozen=True)
class Truncated(Selecting):
    r"""Truncated channel inversion: a device whose gain is below a threshold does not send in that round.

    .. math::
        \mathcal S_t = \Big\{m : \frac{|h_{m,t}|^2 P_m}{P_{\max} k_m^2} \ge g\Big\}, \quad
        \eta_t = x_{\max} g \Big(\frac{K_t}M\Big)^2, \quad
        \sigma_{m,t} = \frac{M B_m}G \sqrt{\frac{s_n w_0}{2d}}, \quad w_0 = \frac{d \sigma_n^2}{x_{\max} g}

    A sender's noise multiplier is one constant, so :meth:`guarantee` is known before round 0, on every channel.

    Parameters
    ----------
    threshold : array_like, > 0, optional
        :math:`g`; it broadcasts against the leading axes of the gains.
    epsilon, delta : float, > 0 and in (0, 1), optional
        Instead of it, the largest epsilon that any device may reach on any channel, by the exact accountant.
    """

    fixed_by: ClassVar[tuple[str, ...]] = ("threshold", "epsilon")

    threshold: ArrayLike | None = None
    epsilon: float | None = None
    delta: float = 1e-5

    def start(self, scenario: Scenario) -> State:
        check_equal_weights(scenario)
        if (self.threshold is None) == (self.epsilon is None):
            raise InvalidInput(
                f"exactly one of threshold and epsilon must be given, got {self}",
                "threshold",
            )
        if self.epsilon is None:
            threshold = check.positive("threshold", self.threshold)  # type: ignore[arg-type]
        else:
            energy = EqualAlloc.budget_for(scenario, self.epsilon, self.delta)
            threshold = np.asarray(scenario.noise_scale / (scenario.x_max * energy))
        check.between("threshold", threshold, *scenario.gain_limits)
        return State(scenario, threshold)

    def decide(
        self, state: State, gain: FloatArray
    ) -> tuple[State, FloatArray, BoolArray]:
        scenario = state.scenario
        threshold = state.value[..., None]
        senders = gain >= threshold[..., None]
        share = senders.sum(-2) / scenario.num_devices
        return state, share**2 * (scenario.x_max * threshold), senders

    def guarantee(
        self, scenario: Scenario, accountant: Accountant = RENYI, delta: float = 1e-5
    ) -> FloatArray:
        r"""Compute the largest :math:`\varepsilon` of a device that sends in all T rounds, which no channel exceeds."""
        # the noise energy w_0 of a sender is the floor of rounds whose weakest gain is the threshold
        threshold = self.start(scenario).value[..., None]
        gain = threshold.repeat(scenario.num_rounds, axis=-1)
        everyone = Problem(scenario, gain, 1.0)
        return everyone.epsilon(everyone.min_noise_energy, accountant, delta)

    @classmethod
    def of_total(
        cls, scenario: Scenario, gain: ArrayLike, total: ArrayLike
    ) -> "Truncated":
        r"""Find the least threshold whose total noise energy is :math:`W`; it **sees all rounds**.

        .. math:: \frac1T \sum_t w_t = \frac{d \sigma_n^2}{x_{\max}} \frac{A(g)}g, \quad A = \frac1T \sum_t (M / K_t)^2

        As :math:`A` is constant between neighbouring gains and does not fall, the first gain with a total of at most
        :math:`W` ends the interval in which :math:`g = d \sigma_n^2 A / (x_{\max} W)`.

        Parameters
        ----------
        scenario : Scenario
        gain : array_like, shape (..., M, T), > 0, linear
        total : array_like, > 0
            :math:`W`; it broadcasts against the leading axes of ``gain``.

        Raises
        ------
        BudgetNotReached
            If every threshold that leaves a sender in each round has a larger total.
        """
        scaled = scenario.scaled_gain(gain)
        total = check.positive("total", total)
        *outer, M, T = scaled.shape
        # how much (M / K)^2 of a round rises where its weakest device drops out, the next one, ..., the last one
        rises = np.append(np.diff((M / np.arange(M, 0.0, -1)) ** 2), np.inf)
        ranked = np.sort(scaled, axis=-2)
        order = np.argsort(ranked.reshape(*outer, M * T), axis=-1)
        edge = np.take_along_axis(ranked.reshape(order.shape), order, axis=-1)
        # order // T is the rank of a gain in its round, 0 for the weakest
        rise = rises[order // T]
        risen = np.insert(rise[..., :-1], 0, 0, axis=-1)
        # A for a threshold up to each gain, below which weaker ones have dropped out
        A = 1 + np.cumsum(risen, axis=-1) / T
        threshold = scenario.noise_scale / scenario.x_max * A / total[..., None]
        within = threshold <= edge
        if not within.any(axis=-1).all():
            least = (threshold / edge).min(axis=-1) * total
            raise BudgetNotReached(f"total must be at least {least}, got {total}")
        # the first of them is the least, as A does not fall
        return cls(np.min(threshold, axis=-1, where=within, initial=np.inf))


@dataclass(frozen=True)
class Best(Selecting):
    r"""The :math:`K` best devices of each round, at a constant level of noise energy.

    .. math:: w_t = \max\{\ell, w_{\min,t}\}, \qquad w_{\min,t} = \frac{d \sigma_n^2 M^2}{x_{\max} h_t^2 K^2}

    Parameters
    ----------
    number : int, in 1 ... M
        :math:`K`; the :math:`K`-th largest scaled gain of a round is :math:`h_t^2`.
    level : array_like, >= 0, optional
        :math:`\ell`; 0 is full power.  It broadcasts against the leading axes of the gains.
    """

    fixed_by: ClassVar[tuple[str, ...]] = ("level",)

    number: int
    level: ArrayLike = 0.0

    def start(self, scenario: Scenario) -> State:
        check_equal_weights(scenario)
        check.whole("number", self.number, most=scenario.num_devices)
        return State(scenario, check.at_least("level", self.level, 0))

    def decide(
        self, state: State, gain: FloatArray
    ) -> tuple[State, FloatArray, BoolArray]:
        scenario = state.scenario
        level = state.value[..., None]
        check.between("gain", gain, *scenario.gain_limits)
        senders = rank_of(gain) < self.number
        weakest = np.where(senders, gain, np.inf).min(axis=-2)
        share = self.number / scenario.num_devices
        max_eta = share**2 * (scenario.x_max * weakest)
        floor = scenario.noise_scale / max_eta
        eta = scaling(np.maximum(level, floor), floor, max_eta, scenario.noise_scale)
        shape = *eta.shape[:-1], *gain.shape[-2:]
        return state, eta, np.broadcast_to(senders, shape)

    @classmethod
    def of_total(
        cls, scenario: Scenario, gain: ArrayLike, total: ArrayLike, number: int
    ) -> "Best":
        """Find the level whose total noise energy is :math:`W`, as :meth:`Truncated.of_total`."""
        total = check.positive("total", total)
        full_power = cls(number).select(scenario, gain)
        extra = total - full_power.total
        if (extra <= 0).any():
            raise BudgetNotReached(
                f"total must be more than {full_power.total}, got {total}"
            )
        return cls(number, water_level(full_power.noise_energy, extra))
