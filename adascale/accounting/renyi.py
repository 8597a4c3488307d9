r"""Rényi accounting of the sampled Gaussian mechanism: leakage, its derivative, composition, conversion to DP.

A device's round is a sampled Gaussian mechanism (SGM, Definition 3 of the paper) with sampling rate :math:`q` and
noise multiplier :math:`\sigma`.  Everything here is plain accounting: it knows nothing of channels or policies.
Shapes: functions broadcast :math:`q` against :math:`\sigma`; the rounds of a schedule are the last axis.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting import kernels
from adascale.accounting.tables import table_for

FloatArray = NDArray[np.float64]

DEFAULT_ORDERS: tuple[float, ...] = tuple([1 + x / 10 for x in range(1, 100)] + list(range(12, 64)))
"""The orders over which Opacus' RDP accountant minimises by default, 1.1, 1.2, ..., 10.9 and 12, 13, ..., 63.

:meta hide-value:
"""


class DpGuarantee(NamedTuple):
    """An (epsilon, delta)-DP guarantee: ``epsilon`` and the Rényi ``order`` that gave it, arrays of one shape."""

    epsilon: FloatArray
    order: FloatArray


def rdp(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, order: float) -> FloatArray:
    r"""Rényi leakage of one use of the sampled Gaussian mechanism.

    .. math::
        \rho_\alpha(q, \sigma) = \frac{1}{\alpha - 1} \ln \mathbb E_{z \sim \mathcal N(0, \sigma^2)}
            \Big[\Big(1 - q + q e^{(2z - 1)/(2\sigma^2)}\Big)^\alpha\Big],

    for an integer order the finite sum of Lemma 1 (:eq:`eq:sgm-rdp`).  Agrees with 40-digit arithmetic to 1e-10
    relative at every order, integer or fractional, and for leakages of any size.

    Parameters
    ----------
    sampling_rate : array_like
        :math:`q` in (0, 1], any shape.
    noise_multiplier : array_like
        :math:`\sigma > 0`, noise standard deviation over sensitivity (no unit); broadcasts against ``sampling_rate``.
    order : float
        :math:`\alpha > 1`, finite.

    Returns
    -------
    numpy.ndarray
        :math:`\rho_\alpha`, in nats, of the broadcast shape.

    Raises
    ------
    ValueError
        If an argument is outside its range or the shapes do not broadcast.
    """
    q, s, alpha = _prepare(sampling_rate, noise_multiplier, order)
    return _map(kernels.map_log_moment, q, s, alpha) / (alpha - 1)


def rdp_derivative(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, order: float) -> FloatArray:
    r"""Derivative of :func:`rdp` with respect to the noise multiplier.

    .. math::
        \frac{\partial \rho_\alpha}{\partial \sigma} = -\frac{2}{\sigma^3} \frac{1}{\alpha - 1}
            \frac{\partial A_\alpha}{\partial s}\Big|_{s = 1/\sigma^2}, \qquad
        \frac{\partial A_\alpha}{\partial s} = \frac{\alpha(\alpha-1)}{2}\,
            \frac{q^2\,\mathbb E[e^{2L} (1 - q + q e^L)^{\alpha-2}]}{\mathbb E[(1 - q + q e^L)^\alpha]},

    with :math:`L \sim \mathcal N(-s/2, s)` (:eq:`eq:sgm-slope`): a sum of positive terms, always negative as a whole.
    Arguments, shapes and errors are those of :func:`rdp`; the result is in nats.
    """
    q, s, alpha = _prepare(sampling_rate, noise_multiplier, order)
    return -2 * s**1.5 * _map(kernels.map_log_moment_slope, q, s, alpha) / (alpha - 1)


def compose(leakage: ArrayLike, axis: int = -1) -> FloatArray:
    r"""Rényi leakage of a sequence of mechanisms: the sum over rounds, :math:`\sum_t \rho_\alpha(q, \sigma_t)`.

    Parameters
    ----------
    leakage : array_like
        Per-round leakages of one order, nats; rounds along ``axis`` (default: the last).

    Returns
    -------
    numpy.ndarray
        The sum, without that axis.
    """
    total: FloatArray = np.sum(check.as_floats("leakage", leakage), axis=axis)
    return total


def to_dp(leakage: ArrayLike, orders: ArrayLike = DEFAULT_ORDERS, delta: float = 1e-5) -> DpGuarantee:
    r"""Turn a curve of Rényi leakages into the best :math:`(\varepsilon, \delta)` guarantee.

    .. math::
        \varepsilon = \max\Big(0, \min_\alpha \Big[\rho_\alpha + \ln\frac{\alpha - 1}{\alpha}
            - \frac{\ln\delta + \ln\alpha}{\alpha - 1}\Big]\Big)

    Remark 1 of the paper (:eq:`eq:rdp-to-dp`), at the best of the given orders.  A negative value is clamped at 0.

    Parameters
    ----------
    leakage : array_like
        :math:`\rho_\alpha` in nats, the last axis running over ``orders``; ``inf`` marks an order without a guarantee.
    orders : sequence of float
        The orders, each finite and > 1.
    delta : float
        :math:`\delta` in (0, 1).

    Returns
    -------
    DpGuarantee
        ``epsilon`` and the best ``order``, each of the leading shape.

    Raises
    ------
    ValueError
        If the last axis does not match ``orders``, a leakage is negative or NaN, or a parameter is out of range.
    """
    orders = _orders(orders)
    delta = check.fraction("delta", delta)
    leakage = check.as_floats("leakage", leakage)
    if leakage.shape[-1:] != orders.shape:
        raise ValueError(f"the last axis of leakage must match the {orders.size} orders, got shape {leakage.shape}")
    if not (leakage >= 0).all():
        raise ValueError(f"leakage must be >= 0, got {leakage[~(leakage >= 0)][0]}")
    epsilon = leakage + _conversion_offset(orders, delta)
    best = np.argmin(epsilon, axis=-1)
    chosen = np.take_along_axis(epsilon, np.expand_dims(best, -1), -1)[..., 0]
    return DpGuarantee(np.maximum(chosen, 0.0), orders[best])


def schedule_epsilon(
    sampling_rate: float, noise_multiplier: ArrayLike, delta: float = 1e-5, orders: ArrayLike = DEFAULT_ORDERS
) -> DpGuarantee:
    r"""The DP guarantee of whole schedules :math:`\sigma_0, \dots, \sigma_{T-1}` at the best order.

    The same number as :func:`to_dp` of the composed :func:`rdp` curve, without evaluating every order: since
    :math:`(\alpha - 1)\,\varepsilon(\alpha)` is convex, :math:`\varepsilon` has one valley in :math:`\alpha`
    (:prf:ref:`lem-one-valley`), found by a search over the sorted
    orders that starts where the schedule before it ended.  Equal multipliers are evaluated once, and
    many different ones from a table of eleven digits.

    Parameters
    ----------
    sampling_rate : float
        :math:`q` in (0, 1], the same in every round.
    noise_multiplier : array_like
        :math:`\sigma_t > 0`, shape (..., T): rounds last, leading axes are independent schedules.
    delta : float
        :math:`\delta` in (0, 1).
    orders : sequence of float
        The orders to choose from, each finite and > 1.

    Returns
    -------
    DpGuarantee
        ``epsilon`` (clamped at 0) and the best ``order``, each of shape (...).

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    rate = check.sampling_rate("sampling_rate", sampling_rate)
    if rate.ndim:
        raise ValueError(f"sampling_rate must be one number, got an array of shape {rate.shape}")
    q = float(rate)
    sigma = np.atleast_1d(check.positive("noise_multiplier", noise_multiplier))
    orders = np.unique(_orders(orders))
    s = np.sort(sigma**-2.0, axis=-1)  # equal ones side by side
    composed = _Composed(q, orders, _conversion_offset(orders, check.fraction("delta", delta)), s)
    epsilon, best = np.empty(sigma.shape[:-1]), np.empty(sigma.shape[:-1], dtype=np.intp)
    guess = orders.size // 2
    for lane in np.ndindex(sigma.shape[:-1]):
        guess, epsilon[lane] = _valley(partial(composed, lane), orders.size, guess)
        best[lane] = guess
    return DpGuarantee(np.maximum(epsilon, 0.0), orders[best])


class _Composed:
    """Epsilon of one of many schedules at the i-th order; with many schedules an order gets a table of its own."""

    def __init__(self, q: float, orders: FloatArray, offset: FloatArray, s: FloatArray) -> None:
        self.q, self.orders, self.offset, self.s = q, orders, offset, s
        self.worth_a_table = s.size > 5000  # a table costs about as much as that many fractional orders
        if self.worth_a_table:
            self.log_s = np.log(s)
            self.range = float(self.log_s.min()), float(self.log_s.max())
        self.ready: dict[int, Callable[[tuple[int, ...]], float]] = {}

    def __call__(self, lane: tuple[int, ...], i: int) -> float:
        if i not in self.ready:
            self.ready[i] = self._prepare(float(self.orders[i]))
        return float(self.ready[i](lane) / (self.orders[i] - 1) + self.offset[i])

    def _prepare(self, alpha: float) -> Callable[[tuple[int, ...]], float]:
        if self.worth_a_table and alpha != int(alpha):
            table = table_for(self.q, alpha, *self.range)
            if table.accurate:
                return lambda lane: table.total(self.log_s[lane])
        terms = kernels.moment_terms(self.q, alpha)
        return lambda lane: float(kernels.total_log_moment(self.s[lane], terms, 0))


def _valley(value: Callable[[int], float], size: int, guess: int) -> tuple[int, float]:
    """Where the one valley of value(0), ..., value(size - 1) is deepest: gallop away from ``guess``, then bisect."""
    known: dict[int, float] = {}

    def at(i: int) -> float:
        if i not in known:
            known[i] = value(i)
        return known[i]

    low, high, middle, step = 0, size - 1, min(guess, size - 2), 1
    while low < high:  # the deepest point is in low ... high
        if at(middle) <= at(middle + 1):
            high, middle = middle, middle - step
        else:
            low, middle = middle + 1, middle + step
        step *= 2
        if not low <= middle < high or (low > 0 and high < size - 1):
            middle = (low + high) // 2
    return low, at(low)


def _prepare(
    sampling_rate: ArrayLike, noise_multiplier: ArrayLike, order: float
) -> tuple[FloatArray, FloatArray, float]:
    alpha = check.order("order", order)
    q = check.sampling_rate("sampling_rate", sampling_rate)
    sigma = check.positive("noise_multiplier", noise_multiplier)
    check.broadcast(sampling_rate=q.shape, noise_multiplier=sigma.shape)
    with np.errstate(over="ignore"):  # sigma below 1e-154: infinite leakage
        return q, sigma**-2.0, alpha


def _map(kernel: Callable[..., FloatArray], q: FloatArray, s: FloatArray, alpha: float) -> FloatArray:
    q, s = np.broadcast_arrays(q, s)
    out = np.empty(s.shape)
    for rate in np.unique(q):
        chosen = q == rate
        out[chosen] = kernel(s[chosen], kernels.moment_terms(rate, alpha), 0)
    return out


def _orders(orders: ArrayLike) -> FloatArray:
    orders = np.atleast_1d(check.as_floats("orders", orders))
    if orders.ndim != 1 or orders.size == 0 or not (np.isfinite(orders) & (orders > 1)).all():
        raise ValueError(f"orders must be finite and > 1, got {orders.tolist()}")
    return orders


def _conversion_offset(orders: FloatArray, delta: float) -> FloatArray:
    """What Remark 1 adds to rho: ln((alpha - 1) / alpha) - (ln delta + ln alpha) / (alpha - 1)."""
    offset: FloatArray = np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    return offset
