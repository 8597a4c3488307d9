r"""``ReceiveScalingProblem``: floors, cost, leakage and budget of one or many horizons.

In the effective noise energy :math:`w_t = d \sigma_n^2 / \eta_t` the paper's problem reads

.. math::
    \min_{w} \sum_t F(w_t) \quad \text{s.t.} \quad \frac1T \sum_t (w_t - w_{\min,t}) \le \nu, \quad w_t \ge w_{\min,t},

with one convex decreasing :math:`F(w) = \sum_m \rho_\alpha(q_m, \sigma_m(w))` for all rounds (:eq:`eq:problem-w`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numba import njit

from adascale import accounting
from adascale import checks as check
from adascale.accounting import kernels
from adascale.scenario import Scenario


class RoundLeakage:
    r"""The leakage of one round as a function of its noise energy, summed over devices.

    .. math::
        F(w) = \sum_{m=1}^M \rho_\alpha(q_m, \sigma_m(w)), \qquad
        \frac{1}{\sigma_m(w)^2} = \frac{2 d G^2}{M^2 B_m^2}\, \frac1w

    Convex and decreasing in :math:`w` (:prf:ref:`lem-convex`).  Devices with equal :math:`(q_m, B_m)` are evaluated
    once.

    Parameters
    ----------
    scenario : Scenario
        The constants.
    order : float, optional
        :math:`\alpha > 1`; default ``scenario.order``.
    """

    def __init__(self, scenario: Scenario, order: float | None = None):
        self.order = check.order("order", scenario.order if order is None else order)
        pairs = np.empty((scenario.num_devices, 2))
        pairs[:, 0], pairs[:, 1] = scenario.sampling_rate, scenario.batch_size
        kinds, count = np.unique(pairs, axis=0, return_counts=True)
        self.rate, self.count = kinds[:, 0].copy(), count.astype(float)
        self.unit = 2 * scenario.num_parameters * (scenario.clip_norm / (scenario.num_devices * kinds[:, 1])) ** 2
        """:math:`2 d G^2 / (M^2 B^2)` of each kind of device: :math:`w / \\sigma^2`."""
        tables = [kernels.log_weights(rate, self.order) for rate in self.rate]
        self.tables = np.concatenate(tables)
        self.ends = np.cumsum([0] + [table.size for table in tables])

    @property
    def kernel_args(self) -> tuple:
        """The plain arrays that :func:`leakage` and :func:`leakage_slope` take."""
        return self.order, self.rate, self.unit, self.count, self.tables, self.ends

    def __call__(self, noise_energy) -> np.ndarray:
        """:math:`F(w)` in nats, for w > 0 of any shape."""
        w = check.positive("noise_energy", noise_energy)
        return _map(w.ravel(), False, *self.kernel_args).reshape(w.shape)

    def slope(self, noise_energy) -> np.ndarray:
        """:math:`F'(w) < 0` in nats per unit of w, for w > 0 of any shape."""
        w = check.positive("noise_energy", noise_energy)
        return _map(w.ravel(), True, *self.kernel_args).reshape(w.shape)


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
        If a gain or budget is not finite and positive, or their shapes do not broadcast.
    """

    def __init__(self, scenario: Scenario, min_gain, budget):
        self.min_gain = check.positive("min_gain", min_gain)
        if self.min_gain.ndim == 0 or self.min_gain.shape[-1] == 0:
            raise ValueError(f"min_gain must have a last axis of rounds, got shape {self.min_gain.shape}")
        self.budget = check.positive("budget", budget)
        self.lanes = check.broadcast(budget=self.budget.shape, lanes_of_min_gain=self.min_gain.shape[:-1])
        self.scenario = replace(scenario, num_rounds=self.min_gain.shape[-1])
        self.max_eta = scenario.x_max * self.min_gain
        self.floor = scenario.noise_scale / self.max_eta

    @property
    def num_rounds(self) -> int:
        """:math:`T`, the length of the last axis of ``min_gain``."""
        return self.scenario.num_rounds

    def noise_energy(self, eta) -> np.ndarray:
        r""":math:`w_t = d \sigma_n^2 / \eta_t` of a schedule ``eta`` > 0, shape (..., T), broadcast with the lanes."""
        eta = check.positive("eta", eta)
        if eta.shape[-1:] != (self.num_rounds,):
            raise ValueError(f"eta must have {self.num_rounds} rounds on its last axis, got shape {eta.shape}")
        check.broadcast(eta=eta.shape, schedule=self.lanes + (self.num_rounds,))
        return self.scenario.noise_scale / eta

    def noise_multiplier(self, eta) -> np.ndarray:
        r""":math:`\sigma_{m,t} = (M B_m / G) \sqrt{w_t / (2d)}` (paper, eq. (15)), shape (..., M, T)."""
        scenario = self.scenario
        size = np.broadcast_to(np.asarray(scenario.batch_size, dtype=float), scenario.num_devices)
        root = np.sqrt(self.noise_energy(eta) / (2 * scenario.num_parameters))
        return scenario.num_devices / scenario.clip_norm * size[:, None] * root[..., None, :]

    def cost(self, eta) -> np.ndarray:
        r"""What the constraint limits by :math:`\nu`: the mean over rounds of :math:`w_t - w_{\min,t}`, shape (...).

        In :math:`x_t`: :math:`\frac1T \sum_t \frac{d\sigma_n^2}{h_{\min,t}^2} (\frac1{x_t} - \frac1{x_{\max}})`
        (:eq:`eq:surrogate`).
        """
        return np.mean(self.noise_energy(eta) - self.floor, axis=-1)

    def spend(self, eta) -> np.ndarray:
        r""":math:`y_t = w_t - w_{\min,t} \ge 0`, what each round of a schedule spends, shape (..., T).

        Raises
        ------
        ValueError
            If ``eta`` is not positive, exceeds the power limit, or does not have T rounds.
        """
        eta = check.positive("eta", eta)
        spend = self.noise_energy(eta) - self.floor
        over = eta > self.max_eta
        if over.any():
            worst = tuple(int(i) for i in np.argwhere(over)[0])
            value, cap = (np.broadcast_to(array, over.shape)[worst] for array in (eta, self.max_eta))
            raise ValueError(f"eta must not exceed the power limit, got {value} > {cap} in round {worst[-1]}")
        return np.broadcast_to(np.maximum(spend, 0), np.broadcast_shapes(spend.shape, self.lanes + spend.shape[-1:]))

    def rdp(self, eta, alpha: float | None = None) -> np.ndarray:
        r"""The reported Rényi leakage :math:`\frac1M \sum_m \sum_t \rho_\alpha(q_m, \sigma_{m,t})`, nats, shape (...).

        A **sum** over rounds and a **mean** over devices, as the paper's figures; ``alpha`` defaults to
        ``scenario.order``.
        """
        leakage = RoundLeakage(self.scenario, alpha)
        return accounting.compose(leakage(self.noise_energy(eta))) / self.scenario.num_devices

    def dp_epsilon(self, eta, delta: float = 1e-5, orders=accounting.DEFAULT_ORDERS) -> np.ndarray:
        r"""The reported DP leakage: the mean over devices of :math:`\varepsilon` at each one's best order, shape (...).

        ``delta`` in (0, 1); ``orders`` default to Opacus' (:data:`adascale.accounting.DEFAULT_ORDERS`).
        """
        leakage = RoundLeakage(self.scenario)
        noise_energy = self.noise_energy(eta)
        total = 0.0
        for rate, unit, count in zip(leakage.rate, leakage.unit, leakage.count, strict=True):
            total += count * accounting.schedule_epsilon(rate, np.sqrt(noise_energy / unit), delta, orders).epsilon
        return total / self.scenario.num_devices


def scaling(noise_energy, floor, max_eta, noise_scale) -> np.ndarray:
    r""":math:`\eta_t = d \sigma_n^2 / w_t`, exactly at the cap where :math:`w_t` is at its floor and never above it."""
    return np.where(noise_energy > floor, np.minimum(noise_scale / noise_energy, max_eta), max_eta)


@njit(cache=True)
def leakage(w, order, rate, unit, count, tables, ends):
    """F(w), compiled."""
    total = 0.0
    for i in range(rate.size):
        total += count[i] * kernels.log_moment(unit[i] / w, rate[i], order, tables[ends[i] : ends[i + 1]])
    return total / (order - 1)


@njit(cache=True)
def leakage_slope(w, order, rate, unit, count, tables, ends):
    """F'(w), compiled."""
    total = 0.0
    for i in range(rate.size):
        slope = kernels.log_moment_slope(unit[i] / w, rate[i], order, tables[ends[i] : ends[i + 1]])
        total -= count[i] * slope * unit[i] / w**2
    return total / (order - 1)


@njit(cache=True)
def _map(w, slope, order, rate, unit, count, tables, ends):
    out = np.empty(w.size)
    for i in range(w.size):
        if slope:
            out[i] = leakage_slope(w[i], order, rate, unit, count, tables, ends)
        else:
            out[i] = leakage(w[i], order, rate, unit, count, tables, ends)
    return out
