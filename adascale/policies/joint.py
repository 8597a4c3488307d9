"""Joint: devices that send and their receive scaling, chosen together at one price of noise."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.checks import BoolArray, FloatArray
from adascale.errors import BudgetNotReached, InvalidInput
from adascale.policies.selection import Selecting, check_equal_weights, rank_of
from adascale.problem import RoundLeakage, scaling
from adascale.scenario import Scenario

# noise energies at which the slope of the leakage is tabulated, in units of the least ``unit_energy``
_GRID = np.geomspace(1e-6, 1e8, 8192)
_ADAPTATION = 0.1  # increase of the logarithm of the price after a round that takes twice its share of the total


class JointState(NamedTuple):
    """The price of noise before a round, and what is left of the total."""

    scenario: Scenario
    log_price: FloatArray
    r""":math:`\ln\lambda` of every instance."""
    remaining: FloatArray
    """Noise energy left for the round to decide and all later ones together; inf if the price is given."""
    later: int
    """Number of rounds after the one to decide."""
    energy: FloatArray
    """Noise energies u at which the slope of the leakage is tabulated, shape (N,)."""
    log_slope: FloatArray
    r""":math:`\ln\lvert f'(u)\rvert`, shape (N,)."""


@dataclass(frozen=True)
class Joint(Selecting):
    r"""Device selection and receive scaling, chosen together at a price :math:`\lambda` of noise energy.

    .. math::
        \min_{K,\, w_t} \; \kappa f(\kappa^2 w_t) + \lambda w_t \quad \text{s.t.} \quad
        \kappa^2 w_t \ge \frac{d \sigma_n^2}{x_{\max} h_{(K),t}^2}, \qquad \kappa = K / M, \quad f = F / M

    The :math:`K` devices with the largest scaled gains send, :math:`h_{(K),t}^2` is the weakest of these gains, and
    :math:`f` is the leakage of one device in one round.  If all devices have equal data, no policy with the same total
    noise energy has a smaller mean leakage (:prf:ref:`thm-joint`).  Otherwise :math:`f` is the mean over devices.

    Parameters
    ----------
    price : array_like, > 0, optional
        :math:`\lambda` in nats per unit of noise energy; it broadcasts against the leading axes of the gains.
    total : array_like, > 0, optional
        Instead of it, the total noise energy :math:`W`, which the policy approaches without knowing later rounds:
        :math:`\lambda` increases by a tenth after a round that takes twice its share of what remains.
    """

    fixed_by: ClassVar[tuple[str, ...]] = ("price", "total")

    price: ArrayLike | None = None
    total: ArrayLike | None = None

    def start(self, scenario: Scenario) -> JointState:
        check_equal_weights(scenario)
        if (self.price is None) == (self.total is None):
            raise InvalidInput(
                f"exactly one of price and total must be given, got {self}", "price"
            )
        leakage = RoundLeakage(scenario)
        energy = _GRID * leakage.unit_energy.min()
        log_slope = np.log(-leakage.slope(energy) / scenario.num_devices)
        if self.total is None:
            log_price = np.log(check.positive("price", self.price))  # type: ignore[arg-type]
            remaining = np.full_like(log_price, np.inf)
        else:
            total = check.positive("total", self.total)
            log_price = np.interp(total, energy, log_slope)
            remaining = total * scenario.num_rounds
        return JointState(
            scenario, log_price, remaining, scenario.num_rounds - 1, energy, log_slope
        )

    def decide(
        self, state: JointState, gain: FloatArray
    ) -> tuple[JointState, FloatArray, BoolArray]:
        check.between("gain", gain, *state.scenario.gain_limits)
        if self.total is None:
            return state, *_best(state, gain)
        rounds = gain.shape[-1]
        eta: list[FloatArray] = []
        senders: list[BoolArray] = []
        for t in range(rounds):
            eta_t, senders_t = _best(state, gain[..., t : t + 1])
            noise = state.scenario.noise_scale / eta_t[..., 0]
            even_share = state.remaining / (state.later + 1)
            change = np.clip(_ADAPTATION * (noise / even_share - 1), -1, 1)
            state = state._replace(
                log_price=state.log_price + change,
                # something is always left, so that the share of a round is not 0
                remaining=np.maximum(state.remaining - noise, 0.01 * state.remaining),
                later=max(state.later - 1, 0),
            )
            eta.append(eta_t)
            senders.append(senders_t)
        return state, np.concatenate(eta, axis=-1), np.concatenate(senders, axis=-1)

    def skip(self, state: JointState) -> JointState:
        """Return the state after a round in which no device transmits, which takes no noise."""
        return state._replace(later=max(state.later - 1, 0))

    @classmethod
    def of_total(cls, scenario: Scenario, gain: ArrayLike, total: ArrayLike) -> "Joint":
        """Find the least price whose total noise energy is at most :math:`W`; it **sees all rounds**.

        Its parameters and errors are those of :meth:`~adascale.policies.Truncated.of_total`.
        """
        scaled = scenario.scaled_gain(gain)
        total = check.positive("total", total)
        state = cls(1.0).start(replace(scenario, num_rounds=scaled.shape[-1]))
        batch = np.broadcast_shapes(total.shape, scaled.shape[:-2])
        low = np.full(batch, state.log_slope[-1])
        high = np.full(batch, state.log_slope[0])

        def total_at(log_price: FloatArray) -> FloatArray:
            """Compute the total noise energy, the mean over rounds, which falls in the price."""
            eta, _ = _best(state._replace(log_price=log_price), scaled)
            return scenario.noise_scale * (1 / eta).mean(axis=-1)

        least = total_at(high)
        if (least > total).any():
            raise BudgetNotReached(f"total must be at least {least}, got {total}")
        for _ in range(60):  # to the last digit
            middle = (low + high) / 2
            over = total_at(middle) > total
            low = np.where(over, middle, low)
            high = np.where(over, high, middle)
        return cls(np.exp(high))


def _best(state: JointState, gain: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return eta (..., T) and senders (..., M, T) for scaled gains (..., M, T), at the price of the state."""
    scenario = state.scenario
    M = scenario.num_devices
    # kappa = K / M, with the number K of senders on axis -2
    share = np.arange(1, M + 1)[:, None] / M
    log_price = state.log_price[..., None, None]
    # in u = kappa^2 w, kappa f(u) + lambda u / kappa^2 is least where |f'(u)| = lambda / kappa^3
    log_slope = log_price - 3 * np.log(share)
    # negative, because np.interp wants ascending points
    log_energy = np.interp(-log_slope, -state.log_slope, np.log(state.energy))
    floor = scenario.floor(-np.sort(-gain, axis=-2))
    received = np.maximum(np.exp(log_energy), floor)
    leakage = share * RoundLeakage(scenario)(received) / M
    value = leakage + np.exp(log_price) * received / share**2
    best = value.argmin(axis=-2)[..., None, :]  # K - 1

    def of_best(array: FloatArray) -> FloatArray:
        every = np.broadcast_to(array, value.shape)
        return np.take_along_axis(every, best, axis=-2)[..., 0, :]

    scale: Any = scenario.noise_scale * of_best(share) ** 2
    floor = of_best(floor)
    eta = scaling(of_best(received), floor, scale / floor, scale)
    return eta, rank_of(gain) <= best
