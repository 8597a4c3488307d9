r"""Floors, cost, leakage and noise budget in :math:`w_t = d \sigma_n^2 / \eta_t` (:eq:`eq:problem-w`)."""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import accounting
from adascale import checks as check
from adascale.accounting.kernels import (
    MomentTerms,
    log_moment,
    log_moment_slopes,
    moment_terms,
)
from adascale.checks import BoolArray, FloatArray, IndexArray
from adascale.compiled import inlined, njit
from adascale.errors import InvalidInput
from adascale.scenario import Scenario

RENYI = accounting.RenyiAccountant()
"""The accountant of the paper and of Opacus, at Opacus' orders."""


class LeakageTerms(NamedTuple):
    """The K kinds of devices (equal rates and weighted batches) of a :class:`RoundLeakage`, as arrays of shape (K,)."""

    moments: MomentTerms
    unit_energy: FloatArray
    r""":math:`2 d G^2 p_m^2 / (s_n B_m^2) = w / \sigma_m^2`, the noise energy at which the noise multiplier is 1."""
    multiplicity: FloatArray
    """Number of devices of each kind."""


class RoundLeakage:
    r"""The leakage of a round, :math:`F(w) = \sum_m \rho_\alpha(q_m, \sigma_m(w))`, and its slope.

    Here :math:`\sigma_m(w)^{-2} = 2 d G^2 p_m^2 / (s_n B_m^2 w)`, with :math:`s_n` from ``scenario.noise_share``, and
    :math:`\alpha > 1` defaults to ``scenario.order``.  F is strictly convex and decreasing (:prf:ref:`lem-convex`).
    """

    def __init__(self, scenario: Scenario, order: float | None = None) -> None:
        self.scenario = scenario
        self.order = check.order("order", scenario.order if order is None else order)
        self.terms = _terms(scenario, self.order)
        # sampling rate, unit energy and number of devices of each kind, shape (K,)
        self.rate, self.unit_energy = self.terms.moments.rate, self.terms.unit_energy
        self.multiplicity = self.terms.multiplicity

    def __call__(self, noise_energy: ArrayLike) -> FloatArray:
        """Compute :math:`F(w)` in nats, for w > 0 of any shape."""
        return self._map(noise_energy, slope=False)

    def slope(self, noise_energy: ArrayLike) -> FloatArray:
        """Compute :math:`F'(w) < 0` in nats per unit of w, for w > 0 of any shape."""
        return self._map(noise_energy, slope=True)

    def _map(self, noise_energy: ArrayLike, slope: bool) -> FloatArray:
        w = check.positive("noise_energy", noise_energy)
        try:
            value = _map_leakage(w.ravel(), self.terms, slope).reshape(w.shape)
        except ZeroDivisionError:  # in the slope, the square of w underflows to 0
            value = np.full(w.shape, np.inf)
        least = w.min(initial=np.inf)
        check.finite(
            f"the leakage at a noise energy of {least:.3g} or its slope", value
        )
        return value


def kind_of_device(scenario: Scenario) -> IndexArray:
    """Return the index of each device's kind in the arrays of :class:`LeakageTerms`, shape (M,)."""
    kind = np.unique(_pairs(scenario), axis=0, return_inverse=True)[1].ravel()
    return np.broadcast_to(kind, scenario.num_devices)


def kinds_that_may_leak_most(leakage: RoundLeakage) -> IndexArray:
    """Return the indices of the kinds that may leak most.

    A kind is left out if another has a rate and a unit energy that are both at least as large, because then it leaks at
    most as much as the other, whatever the noise energy.
    """
    order = np.lexsort((-leakage.unit_energy, -leakage.rate))
    energy = leakage.unit_energy[order]
    before = np.concatenate([[-np.inf], energy[:-1]])
    return np.sort(order[energy > np.maximum.accumulate(before)])


def _pairs(scenario: Scenario) -> FloatArray:
    """Return sampling rate and weighted batch size of each device, or a single row if no parameter is per device."""
    pairs = np.broadcast_arrays(scenario.sampling_rate, scenario.weighted_batch_size)
    return np.stack(pairs, axis=-1).reshape(-1, 2)


@lru_cache(maxsize=64)
def _terms(scenario: Scenario, order: float) -> LeakageTerms:
    pairs = _pairs(scenario)
    kinds, count = np.unique(pairs, axis=0, return_counts=True)
    count *= scenario.num_devices // len(pairs)  # a single row stands for all devices
    sensitivity = scenario.clip_norm / (scenario.num_devices * kinds[:, 1])
    unit_energy = 2 * scenario.num_parameters * sensitivity**2 / scenario.noise_share
    # contiguous, the memory layout for which the kernels are compiled
    moments = moment_terms(kinds[:, 0].copy(), order)
    return LeakageTerms(moments, unit_energy, count.astype(float))


_ROUNDING = 1e-9  # relative excess over the power limit that passes for rounding
# in these limits, no noise energy or receive scaling overflows or underflows
_BUDGETS = 1e-200, 1e200


class Problem:
    r"""The choice of the receive scaling :math:`\eta_t` of every round, the paper's problem (28).

    .. math::
        \min_{w_t \ge w_{\min,t}} \sum_t F(w_t) \quad\text{so that}\quad \frac1T \sum_t (w_t - w_{\min,t}) \le \nu,
        \qquad w_t = d \sigma_n^2 / \eta_t

    The noise energy :math:`w_t` is twice the mean squared norm of the noise in the mean gradient, in the squared unit
    of the gradient.

    A schedule is its noise energies, ``w`` of shape (..., T) with w >= ``min_noise_energy`` up to rounding.  Policies
    and all methods work in ``w``; :meth:`eta` is for the antenna, and :meth:`noise_energy` for what comes from there.

    Parameters
    ----------
    scenario : Scenario
    min_gain : array_like, shape (..., T), > 0
        :math:`h_{\min,t}^2` (linear), see :meth:`~adascale.scenario.Scenario.min_gain`; T overrides the scenario's.
    budget : array_like, > 0
        :math:`\nu`, the noise budget per round, in the unit of :math:`w_t`.  It broadcasts against the leading axes of
        ``min_gain``: gains (R, T) with budgets (K, 1) make K x R instances.
    exposure : array_like, shape (..., M, T), >= 1, optional
        :math:`\kappa_{m,t}` of :class:`~adascale.channel.Channel`, by which leakages divide :math:`\sigma_{m,t}^2`.
        Policies do not see it: an optimum that did would have more noise where it is large, not one water level.

    Attributes
    ----------
    batch_shape : tuple of int
        Common leading shape of budgets and gains, one entry per problem instance.
    max_eta : numpy.ndarray
        :math:`x_{\max} h_{\min,t}^2`, shape (..., T).
    min_noise_energy : numpy.ndarray
        :math:`w_{\min,t} = d \sigma_n^2 / (x_{\max} h_{\min,t}^2)`, shape (..., T).
    """

    def __init__(
        self,
        scenario: Scenario,
        min_gain: ArrayLike,
        budget: ArrayLike,
        exposure: ArrayLike | None = None,
    ):
        self.min_gain = check.positive("min_gain", min_gain, "rounds")
        check.between("min_gain", self.min_gain, *scenario.gain_limits)
        self.budget = check.between("budget", budget, *_BUDGETS)
        self.batch_shape = check.broadcast(
            budget=self.budget.shape, min_gain=self.min_gain.shape[:-1]
        )
        self.scenario = replace(scenario, num_rounds=self.min_gain.shape[-1])
        self.exposure = None
        if exposure is not None:
            self.exposure = check.at_least("exposure", exposure, 1)
            check.broadcast(
                exposure=self.exposure.shape,
                schedule=(*self.batch_shape, scenario.num_devices, self.num_rounds),
            )
        self.max_eta = scenario.x_max * self.min_gain
        self.min_noise_energy = scenario.noise_scale / self.max_eta

    @property
    def num_rounds(self) -> int:
        """:math:`T`, the length of the last axis of ``min_gain``."""
        return self.scenario.num_rounds

    def noise_energy(self, eta: ArrayLike) -> FloatArray:
        r"""Compute :math:`w_t = d \sigma_n^2 / \eta_t`, shape (..., T)."""
        eta = self._checked_rounds("eta", eta)
        over = eta / (1 + _ROUNDING) > self.max_eta
        if over.any():
            place = first_of(over, eta, self.max_eta)
            raise InvalidInput(
                f"eta must not exceed the power limit, got {place}", "eta"
            )
        return self.scenario.noise_scale / eta

    def eta(self, w: ArrayLike) -> FloatArray:
        r"""Compute :math:`\eta_t = d \sigma_n^2 / w_t` in watts, shape (..., T): at the floor, the power limit."""
        return scaling(
            self._checked_energy(w),
            self.min_noise_energy,
            self.max_eta,
            self.scenario.noise_scale,
        )

    def _checked_rounds(self, name: str, values: ArrayLike) -> FloatArray:
        """Return values > 0 of all rounds, shape (..., T), that broadcast with the instances."""
        values = check.positive(name, values)
        T = self.num_rounds
        if values.shape[-1:] != (T,):
            raise InvalidInput(
                f"{name} must have {T} rounds on its last axis, got shape {values.shape}",
                name,
            )
        check.broadcast(**{name: values.shape}, schedule=(*self.batch_shape, T))
        return values

    def _checked_energy(self, w: ArrayLike) -> FloatArray:
        """Return a schedule, shape (..., T), none of whose noise energies is below its floor."""
        w = self._checked_rounds("w", w)
        floor = self.min_noise_energy
        below = w * (1 + _ROUNDING) < floor
        if below.any():
            place = first_of(below, w, floor)
            raise InvalidInput(
                f"w must be at least its floor, the power limit, got {place}", "w"
            )
        return w

    def noise_multiplier(self, w: ArrayLike) -> FloatArray:
        r"""Compute :math:`\sigma_{m,t} = B_m / (p_m G) \sqrt{s_n w_t / (2d)}` (paper, eq. (15)), shape (..., M, T)."""
        s = self.scenario
        size = np.broadcast_to(s.weighted_batch_size, s.num_devices)
        root = np.sqrt(s.noise_share * self._checked_energy(w) / (2 * s.num_parameters))
        sigma = s.num_devices / s.clip_norm * size[:, None] * root[..., None, :]
        return sigma if self.exposure is None else sigma / np.sqrt(self.exposure)

    def cost(self, w: ArrayLike) -> FloatArray:
        r"""Compute the mean of :math:`w_t - w_{\min,t}`, which :math:`\nu` limits (:eq:`eq:surrogate`), shape (...)."""
        spend = self._checked_energy(w) - self.min_noise_energy
        return spend.mean(axis=-1)

    def spend(self, w: ArrayLike) -> FloatArray:
        r"""Compute :math:`y_t = w_t - w_{\min,t}`, shape (..., T); 0 where rounding has put it below 0."""
        spend = np.maximum(self._checked_energy(w) - self.min_noise_energy, 0)
        instances = (*self.batch_shape, self.num_rounds)
        return np.broadcast_to(spend, np.broadcast_shapes(spend.shape, instances))

    def rdp(self, w: ArrayLike, alpha: float | None = None) -> FloatArray:
        r"""Compute Rényi leakage :math:`\frac1M \sum_m \sum_t \rho_\alpha(q_m, \sigma_{m,t})` in nats, shape (...).

        The order :math:`\alpha` is by default that of the scenario.
        """
        leakage = RoundLeakage(self.scenario, alpha)
        if self.exposure is not None:
            rate = np.ravel(self.scenario.sampling_rate)[:, None]
            by_round = accounting.rdp(rate, self.noise_multiplier(w), leakage.order)
            return accounting.compose(by_round).mean(axis=-1)
        return (
            accounting.compose(leakage(self._checked_energy(w)))
            / self.scenario.num_devices
        )

    def epsilon(
        self,
        w: ArrayLike,
        accountant: accounting.Accountant = RENYI,
        delta: float = 1e-5,
    ) -> FloatArray:
        r"""Compute the largest :math:`\varepsilon` over devices, which holds for every device, shape (...)."""
        return over_devices(self.epsilons(w, accountant, delta))["epsilon"]

    def epsilons(
        self,
        w: ArrayLike,
        accountant: accounting.Accountant = RENYI,
        delta: float = 1e-5,
    ) -> FloatArray:
        r"""Compute :math:`\varepsilon` of each device by any accountant, shape (..., M)."""
        M = self.scenario.num_devices
        if self.exposure is None:
            leakage = RoundLeakage(self.scenario)
            energy = self._checked_energy(w)
            sigmas = [np.sqrt(energy / unit) for unit in leakage.unit_energy]
            rates = leakage.rate
            kind = kind_of_device(self.scenario)
        else:  # the exposure may differ between any two devices, so each is a kind of its own
            sigmas = [*np.moveaxis(self.noise_multiplier(w), -2, 0)]
            rates = np.broadcast_to(self.scenario.sampling_rate, M)
            kind = np.arange(M)
        by_kind = [
            accounting.epsilon_by(accountant, float(rate), sigma, delta)
            for rate, sigma in zip(rates, sigmas, strict=True)
        ]
        return np.stack(by_kind, axis=-1)[..., kind]


def over_devices(epsilon: FloatArray) -> dict[str, FloatArray]:
    """Return the largest epsilon of devices (..., M), which holds for every device, and the mean, by name."""
    largest = epsilon.max(axis=-1)
    mean = np.minimum(epsilon.mean(axis=-1), largest)  # rounding may exceed it
    return {"epsilon": largest, "epsilon_mean": mean}


def first_of(bad: BoolArray, values: FloatArray, limits: FloatArray) -> str:
    """Describe the first bad value of a schedule in a message, with the limit that it violates and its round."""
    place = np.unravel_index(bad.argmax(), bad.shape)
    value = np.broadcast_to(values, bad.shape)[place]
    limit = np.broadcast_to(limits, bad.shape)[place]
    return f"{value} against {limit} in round {place[-1]}"


def scaling(
    noise_energy: FloatArray, floor: FloatArray, max_eta: FloatArray, noise_scale: float
) -> FloatArray:
    r"""Compute :math:`\eta_t = d \sigma_n^2 / w_t`, which is exactly ``max_eta`` at the floor, and never above it.

    A quotient alone might be rounded beyond the power limit.  ``noise_scale`` is :math:`d \sigma_n^2`.
    """
    eta = np.minimum(noise_scale / noise_energy, max_eta)
    return np.where(noise_energy > floor, eta, max_eta)


@inlined
def leakage(w: float, terms: LeakageTerms) -> float:
    """Compute F(w) from the ``terms`` of a :class:`RoundLeakage`."""
    total = 0.0
    for i in range(terms.unit_energy.size):
        total += terms.multiplicity[i] * log_moment(
            terms.unit_energy[i] / w, terms.moments, i
        )
    return total / (terms.moments.order - 1)


@inlined
def slopes(w: float, terms: LeakageTerms) -> tuple[float, float]:
    """Compute F'(w), and F''(w) as accurately as a Newton step needs it."""
    first = second = 0.0
    for i in range(terms.unit_energy.size):
        s = terms.unit_energy[i] / w
        slope, curvature = log_moment_slopes(s, terms.moments, i)
        first -= terms.multiplicity[i] * s * slope
        second += terms.multiplicity[i] * s * (2 * slope + s * curvature)
    scale = (terms.moments.order - 1) * w
    return first / scale, second / (scale * w)


@njit(cache=True, nogil=True)
def _map_leakage(w: FloatArray, terms: LeakageTerms, slope: bool) -> FloatArray:
    out = np.empty(w.size)
    for i in range(w.size):
        out[i] = slopes(w[i], terms)[0] if slope else leakage(w[i], terms)
    return out
