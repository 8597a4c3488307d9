r"""``ReceiveScalingProblem``: floors, cost, leakage and budget of one or many horizons.

In the effective noise energy :math:`w_t = d \sigma_n^2 / \eta_t` the paper's problem reads

.. math::
    \min_{w} \sum_t F(w_t) \quad \text{s.t.} \quad \frac1T \sum_t (w_t - w_{\min,t}) \le \nu, \quad w_t \ge w_{\min,t},

with one convex decreasing :math:`F(w) = \sum_m \rho_\alpha(q_m, \sigma_m(w))` for all rounds (:eq:`eq:problem-w`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import accounting
from adascale import checks as check
from adascale.accounting.kernels import MomentTerms, few_slopes, log_moment, log_moment_slopes, moment_terms
from adascale.accounting.orders import as_orders
from adascale.compiled import njit
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]


class LeakageTerms(NamedTuple):
    """What the compiled :func:`leakage` and :func:`leakage_slopes` take: the K kinds of devices, shape (K,) each."""

    moments: MomentTerms
    unit: FloatArray
    r""":math:`2 d G^2 / (M^2 B^2)`, which is :math:`w / \sigma^2`."""
    number: FloatArray
    """How many devices there are of each kind."""


class RoundLeakage:
    r"""The leakage of one round as a function of its noise energy, summed over devices.

    .. math::
        F(w) = \sum_{m=1}^M \rho_\alpha(q_m, \sigma_m(w)), \qquad
        \frac{1}{\sigma_m(w)^2} = \frac{2 d G^2}{M^2 B_m^2}\, \frac1w

    Strictly convex and decreasing in :math:`w`, at every real order above 1 (:prf:ref:`lem-convex`).  Devices with
    equal :math:`(q_m, B_m)` are evaluated once.

    Parameters
    ----------
    scenario : Scenario
        The constants.
    order : float, optional
        :math:`\alpha > 1`; default ``scenario.order``.

    Raises
    ------
    ValueError
        If the order is out of range; when called, if a noise energy is not positive, or the result is beyond floating
        point.
    """

    def __init__(self, scenario: Scenario, order: float | None = None) -> None:
        self.order = check.order("order", scenario.order if order is None else order)
        self.terms = _terms(scenario, self.order)
        """What compiled code takes, that is rates and binomial weights, and the two arrays below."""
        self.rate, self.unit, self.count = self.terms.moments.rate, self.terms.unit, self.terms.number

    def __call__(self, noise_energy: ArrayLike) -> FloatArray:
        """:math:`F(w)` in nats, for w > 0 of any shape."""
        return self._map(_map_leakage, noise_energy)

    def slope(self, noise_energy: ArrayLike) -> FloatArray:
        """:math:`F'(w) < 0` in nats per unit of w, for w > 0 of any shape."""
        return self._map(_map_slope, noise_energy)

    def _map(self, kernel: Callable[..., FloatArray], noise_energy: ArrayLike) -> FloatArray:
        w = check.positive("noise_energy", noise_energy)
        try:
            value = kernel(w.ravel(), self.terms).reshape(w.shape)
        except ZeroDivisionError:  # the square of a noise energy is no number any more
            value = np.full(w.shape, np.inf)
        check.held(f"the leakage at a noise energy of {w.min(initial=np.inf):.3g} or its slope", value)
        return value


@lru_cache(maxsize=64)
def _terms(scenario: Scenario, order: float) -> LeakageTerms:
    # one row alone where all devices are alike
    pairs = np.stack(np.broadcast_arrays(scenario.sampling_rate, scenario.batch_size), axis=-1).reshape(-1, 2)
    kinds, count = np.unique(pairs, axis=0, return_counts=True)
    count *= scenario.num_devices // len(pairs)
    unit = 2 * scenario.num_parameters * (scenario.clip_norm / (scenario.num_devices * kinds[:, 1])) ** 2
    return LeakageTerms(moment_terms(kinds[:, 0].copy(), order), unit, count.astype(float))


_LEAST_SCALING = 1e-318
"""Below the least normal number digits get fewer; this many watts still have five."""

_ROUNDING = 1e-9  # by how much of itself an eta may be above the power limit


class DeviceEpsilons(NamedTuple):
    r"""The DP leakage of devices that may differ, each of shape (...)."""

    mean: FloatArray
    r"""The mean over devices of each one's :math:`\varepsilon`."""
    largest: FloatArray
    """The largest, which is the guarantee for every device."""


class ReceiveScalingProblem:
    r"""Choosing the receive scaling :math:`\eta_t` of every round: the paper's problem (28), many lanes at once.

    Parameters
    ----------
    scenario : Scenario
        The constants of the experiment.
    min_gain : array_like
        :math:`h_{\min,t}^2 = \min_m |h_{m,t}|^2 / k_m^2 > 0` (linear), shape (..., T), as
        :meth:`~adascale.scenario.Scenario.min_gain` makes it of raw gains.  Its last axis is the horizon;
        ``self.scenario`` carries that T.
    budget : array_like
        :math:`\nu > 0`, the mean extra noise energy a round may spend; broadcasts against the leading axes of
        ``min_gain``: gains (R, T) with nu (K, 1) make lanes (K, R).

    Attributes
    ----------
    lanes : tuple of int
        The common leading shape of budgets and gains.
    max_eta : numpy.ndarray
        The caps :math:`x_{\max} h_{\min,t}^2`, shape (..., T).
    floor : numpy.ndarray
        The floors :math:`w_{\min,t} = d \sigma_n^2 / (x_{\max} h_{\min,t}^2)`, shape (..., T).

    Raises
    ------
    ValueError
        If a gain or budget is not finite and positive, their shapes do not broadcast, a gain is outside
        ``scenario.gain_limits``, or the sum of the floors and :math:`T \nu`, or the :math:`\eta` of a round that spends
        it all, is beyond floating point.
    """

    def __init__(self, scenario: Scenario, min_gain: ArrayLike, budget: ArrayLike) -> None:
        self.min_gain = check.positive("min_gain", min_gain)
        if self.min_gain.ndim == 0 or self.min_gain.shape[-1] == 0:
            raise ValueError(f"min_gain must have a last axis of rounds, got shape {self.min_gain.shape}")
        self.budget = check.positive("budget", budget)
        self.lanes = check.broadcast(budget=self.budget.shape, lanes_of_min_gain=self.min_gain.shape[:-1])
        self.scenario = replace(scenario, num_rounds=self.min_gain.shape[-1])
        check.within("min_gain", self.min_gain, *scenario.gain_limits)
        self.max_eta = scenario.x_max * self.min_gain
        self.floor = scenario.noise_scale / self.max_eta
        with np.errstate(over="ignore"):
            total = self.floor.sum(axis=-1) + self.num_rounds * self.budget
        check.held("the floors and budgets of all rounds together", total)
        if (least := np.min(self.scenario.noise_scale / total, initial=np.inf)) < _LEAST_SCALING:
            raise ValueError(
                f"beyond floating point: eta = {least:.3g} in a round that spends the budgets of all; "
                f"expected at least {_LEAST_SCALING:.3g}"
            )

    @property
    def num_rounds(self) -> int:
        """:math:`T`, the length of the last axis of ``min_gain``."""
        return self.scenario.num_rounds

    def noise_energy(self, eta: ArrayLike) -> FloatArray:
        r""":math:`w_t = d \sigma_n^2 / \eta_t` of a schedule, shape (..., T), broadcast with the lanes.

        ``eta`` is > 0 and above the power limit by rounding at most; this and all methods below raise a ``ValueError``
        otherwise.
        """
        eta = check.positive("eta", eta)
        if eta.shape[-1:] != (self.num_rounds,):
            raise ValueError(f"eta must have {self.num_rounds} rounds on its last axis, got shape {eta.shape}")
        check.broadcast(eta=eta.shape, schedule=self.lanes + (self.num_rounds,))
        over = eta / (1 + _ROUNDING) > self.max_eta
        if over.any():
            worst = tuple(int(i) for i in np.argwhere(over)[0])
            value, cap = (np.broadcast_to(array, over.shape)[worst] for array in (eta, self.max_eta))
            raise ValueError(f"eta must not exceed the power limit, got {value} > {cap} in round {worst[-1]}")
        return self.scenario.noise_scale / eta

    def noise_multiplier(self, eta: ArrayLike) -> FloatArray:
        r""":math:`\sigma_{m,t} = (M B_m / G) \sqrt{w_t / (2d)}` (paper, eq. (15)), shape (..., M, T)."""
        scenario = self.scenario
        size = np.broadcast_to(np.asarray(scenario.batch_size, dtype=float), scenario.num_devices)
        root = np.sqrt(self.noise_energy(eta) / (2 * scenario.num_parameters))
        return scenario.num_devices / scenario.clip_norm * size[:, None] * root[..., None, :]

    def cost(self, eta: ArrayLike) -> FloatArray:
        r"""What the constraint limits by :math:`\nu`: the mean over rounds of :math:`w_t - w_{\min,t}`, shape (...).

        In :math:`x_t`: :math:`\frac1T \sum_t \frac{d\sigma_n^2}{h_{\min,t}^2} (\frac1{x_t} - \frac1{x_{\max}})`
        (:eq:`eq:surrogate`).  A :math:`w_t` of float64 is known to 1e-16 of itself, and so is what it costs: of a cost
        far below the floors no digit may be right.
        """
        mean: FloatArray = np.mean(self.noise_energy(eta) - self.floor, axis=-1)
        return mean

    def spend(self, eta: ArrayLike) -> FloatArray:
        r""":math:`y_t = w_t - w_{\min,t} \ge 0`, what each round of a schedule spends, shape (..., T)."""
        spend = self.noise_energy(eta) - self.floor
        return np.broadcast_to(np.maximum(spend, 0), np.broadcast_shapes(spend.shape, self.lanes + spend.shape[-1:]))

    def rdp(self, eta: ArrayLike, alpha: float | None = None) -> FloatArray:
        r"""The reported Rényi leakage :math:`\frac1M \sum_m \sum_t \rho_\alpha(q_m, \sigma_{m,t})`, nats, shape (...).

        A **sum** over rounds and a **mean** over devices, as the paper's figures; ``alpha`` defaults to
        ``scenario.order``.
        """
        leakage = RoundLeakage(self.scenario, alpha)
        return accounting.compose(leakage(self.noise_energy(eta))) / self.scenario.num_devices

    def dp_epsilon(
        self, eta: ArrayLike, delta: float = 1e-5, orders: Sequence[float] = accounting.DEFAULT_ORDERS
    ) -> FloatArray:
        r"""The reported DP leakage: the mean over devices of :math:`\varepsilon` at each one's best order, shape (...).

        ``delta`` in (0, 1); ``orders`` default to Opacus' (:data:`adascale.accounting.DEFAULT_ORDERS`).
        Another accountant: :meth:`epsilon`.
        """
        return self.epsilon(eta, accounting.RenyiAccountant(tuple(as_orders(orders))), delta)

    def epsilon(self, eta: ArrayLike, accountant: accounting.Accountant, delta: float = 1e-5) -> FloatArray:
        r"""The DP leakage by any accountant: the mean over devices of each one's :math:`\varepsilon`, shape (...).

        ``delta`` in (0, 1).  The guarantee for every device is the largest instead: :meth:`device_epsilons`.
        """
        return self.device_epsilons(eta, accountant, delta).mean

    def device_epsilons(self, eta: ArrayLike, accountant: accounting.Accountant, delta: float = 1e-5) -> DeviceEpsilons:
        """The mean over devices and the largest; devices with equal rate and batch size are accounted for once."""
        leakage = RoundLeakage(self.scenario)
        noise_energy = self.noise_energy(eta)
        total = largest = np.zeros(noise_energy.shape[:-1])
        for rate, unit, count in zip(leakage.rate, leakage.unit, leakage.count, strict=True):
            sigma = np.sqrt(noise_energy / unit)
            epsilon = accounting.epsilon_by(accountant, float(rate), sigma, delta)
            total, largest = total + count * epsilon, np.maximum(largest, epsilon)
        return DeviceEpsilons(total / self.scenario.num_devices, largest)


def scaling(noise_energy: FloatArray, floor: FloatArray, max_eta: FloatArray, noise_scale: float) -> FloatArray:
    r""":math:`\eta_t = d \sigma_n^2 / w_t`, exactly at the cap where :math:`w_t` is at its floor and never above it."""
    return np.where(noise_energy > floor, np.minimum(noise_scale / noise_energy, max_eta), max_eta)


@njit(cache=True, inline="always")
def leakage(w: float, terms: LeakageTerms) -> float:
    """F(w), compiled; ``terms`` are those of a :class:`RoundLeakage`."""
    total = 0.0
    for i in range(terms.unit.size):
        total += terms.number[i] * log_moment(terms.unit[i] / w, terms.moments, i)
    return total / (terms.moments.order - 1)


@njit(cache=True, nogil=True)
def leakage_slopes(w: float, terms: LeakageTerms) -> tuple[float, float]:
    """F'(w) and F''(w), compiled; the second as well as a Newton step needs it."""
    first = second = 0.0
    for i in range(terms.unit.size):
        s = terms.unit[i] / w
        slope, curvature = log_moment_slopes(s, terms.moments, i)
        first -= terms.number[i] * s * slope
        second += terms.number[i] * s * (2 * slope + s * curvature)
    scale = (terms.moments.order - 1) * w
    return first / scale, second / (scale * w)


@njit(cache=True, inline="always")
def few_leakage_slopes(w: float, terms: LeakageTerms) -> tuple[float, float]:
    """:func:`leakage_slopes` where the terms ``are_few``, several times faster."""
    first = second = 0.0
    for i in range(terms.unit.size):
        s = terms.unit[i] / w
        slope, curvature = few_slopes(s, terms.moments, i)
        first -= terms.number[i] * s * slope
        second += terms.number[i] * s * (2 * slope + s * curvature)
    scale = (terms.moments.order - 1) * w
    return first / scale, second / (scale * w)


@njit(cache=True, nogil=True)
def _map_leakage(w: FloatArray, terms: LeakageTerms) -> FloatArray:
    out = np.empty(w.size)
    for i in range(w.size):
        out[i] = leakage(w[i], terms)
    return out


@njit(cache=True, nogil=True)
def _map_slope(w: FloatArray, terms: LeakageTerms) -> FloatArray:
    out = np.empty(w.size)
    for i in range(w.size):
        out[i] = leakage_slopes(w[i], terms)[0]
    return out
