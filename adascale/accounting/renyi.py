r"""Rényi accounting of the sampled Gaussian mechanism: leakage, its derivative, composition, conversion to DP.

A device's round is a sampled Gaussian mechanism (SGM, Definition 3 of the paper) with sampling rate :math:`q` and
noise multiplier :math:`\sigma`.  Everything here is plain accounting: it knows nothing of channels or policies.
Shapes: functions broadcast :math:`q` against :math:`\sigma`; the rounds of a schedule are the last axis.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting import kernels
from adascale.accounting.orders import DEFAULT_ORDERS, OrdersTooFew, as_orders

FloatArray = NDArray[np.float64]


class DpGuarantee(NamedTuple):
    """An (epsilon, delta)-DP guarantee: ``epsilon`` and the Rényi ``order`` that gave it, arrays of one shape."""

    epsilon: FloatArray
    order: FloatArray


def rdp(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, order: float) -> FloatArray:
    r"""Rényi leakage of one use of the sampled Gaussian mechanism.

    .. math::
        \rho_\alpha(q, \sigma) = \frac{1}{\alpha - 1} \ln \mathbb E_{z \sim \mathcal N(0, \sigma^2)}
            \Big[\Big(1 - q + q e^{(2z - 1)/(2\sigma^2)}\Big)^\alpha\Big],

    for an integer order the finite sum of Lemma 1 (:eq:`eq:sgm-rdp`).  Agrees with 50-digit arithmetic to 6.3e-13
    relative at every order, integer or fractional, and for leakages of any size: the worst of 2,000 points with
    :math:`10^{-12} \le q \le 1 - 10^{-12}`, :math:`10^{-6} \le \sigma \le 10^{12}` and
    :math:`1 + 10^{-10} \le \alpha \le 10^{12}`; the median is one rounding.  A value takes microseconds, and
    milliseconds at the extremes.  A leakage below every floating-point number is 0; one above all is refused.

    Parameters
    ----------
    sampling_rate : array_like
        :math:`q` in (0, 1], any shape.
    noise_multiplier : array_like
        :math:`\sigma > 0`, noise standard deviation over sensitivity (no unit); broadcasts against ``sampling_rate``.
    order : float
        :math:`\alpha > 1`, at most 1e12.

    Returns
    -------
    numpy.ndarray
        :math:`\rho_\alpha`, in nats, of the broadcast shape.

    Raises
    ------
    ValueError
        If an argument is outside its range, the shapes do not broadcast, or the leakage exceeds floating point.
    """
    q, sigma, alpha = _prepare(sampling_rate, noise_multiplier, order)
    with np.errstate(over="ignore"):  # refused below
        leakage = _map(kernels.map_log_moment, q, sigma**-2.0, alpha) / (alpha - 1)
    return _finite("leakage", leakage, sigma, alpha)


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
    q, sigma, alpha = _prepare(sampling_rate, noise_multiplier, order)
    with np.errstate(over="ignore"):
        s = sigma**-2.0
        derivative = -2 * s**1.5 * _map(kernels.map_log_moment_slope, q, s, alpha) / (alpha - 1)
    return _finite("derivative of the leakage", derivative, sigma, alpha)


def compose(leakage: ArrayLike, axis: int = -1) -> FloatArray:
    r"""Rényi leakage of a sequence of mechanisms: the sum over rounds, :math:`\sum_t \rho_\alpha(q, \sigma_t)`.

    Parameters
    ----------
    leakage : array_like
        Per-round leakages >= 0 of one order, nats; rounds along ``axis`` (default: the last).

    Returns
    -------
    numpy.ndarray
        The sum, without that axis.
    """
    total: FloatArray = np.sum(_leakage(leakage), axis=axis)
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
        The orders, each > 1 and at most 1e12, in any order.
    delta : float
        :math:`\delta` in (0, 1).

    Returns
    -------
    DpGuarantee
        ``epsilon`` and the best ``order``, each of the leading shape.

    Warns
    -----
    OrdersTooFew
        If the best of several orders is the smallest or the largest.

    Raises
    ------
    ValueError
        If the last axis does not match ``orders``, a leakage is negative or NaN, or a parameter is out of range.
    """
    orders = as_orders(orders)
    delta = check.fraction("delta", delta)
    leakage = _leakage(leakage)
    if leakage.shape[-1:] != orders.shape:
        raise ValueError(f"the last axis of leakage must match the {orders.size} orders, got shape {leakage.shape}")
    epsilon = leakage + conversion_offset(orders, delta)
    best = np.argmin(epsilon, axis=-1)
    chosen = np.take_along_axis(epsilon, np.expand_dims(best, -1), -1)[..., 0]
    found = DpGuarantee(np.maximum(chosen, 0.0), orders[best])
    for end, is_last in ((1, True), (-1, False)):
        if (there := (at_end(found, orders) == end) & np.isfinite(found.epsilon)).any():
            most, best_there = (orders.max(), np.min) if is_last else (orders.min(), np.max)
            worst = float(best_there(found.epsilon[there]))
            warnings.warn(OrdersTooFew(float(most), worst, int(there.sum()), there.size, is_last), stacklevel=2)
            break
    return found


def at_end(guarantee: DpGuarantee, orders: ArrayLike = DEFAULT_ORDERS) -> NDArray[np.int64]:
    r"""Whether the best order is an end of the list: -1 for its smallest, 1 for its largest, 0 for one inside.

    An end is where an order beyond may give a smaller :math:`\varepsilon`.  It is 0 where :math:`\varepsilon = 0`, or
    where there is one order alone.

    Parameters
    ----------
    guarantee : DpGuarantee
        What :func:`to_dp` or :func:`schedule_epsilon` gave.
    orders : sequence of float
        The orders it had.

    Returns
    -------
    numpy.ndarray
        Whole numbers, of the shape of ``guarantee.order``.
    """
    known = as_orders(orders)
    check.broadcast(epsilon=np.shape(guarantee.epsilon), order=np.shape(guarantee.order))
    inside = (guarantee.epsilon <= 0) | (known.min() == known.max())
    side = (guarantee.order == known.max()).astype(int) - (guarantee.order == known.min())
    return np.where(inside, 0, side)


def _prepare(
    sampling_rate: ArrayLike, noise_multiplier: ArrayLike, order: float
) -> tuple[FloatArray, FloatArray, float]:
    alpha = check.order("order", order)
    q = check.sampling_rate("sampling_rate", sampling_rate)
    sigma = check.positive("noise_multiplier", noise_multiplier)
    check.broadcast(sampling_rate=q.shape, noise_multiplier=sigma.shape)
    return q, sigma, alpha


def _finite(what: str, value: FloatArray, sigma: FloatArray, alpha: float) -> FloatArray:
    if not (fits := np.isfinite(value)).all():
        worst = np.broadcast_to(sigma, value.shape)[~fits].min()
        raise ValueError(
            f"noise_multiplier {worst:g} is too small: at order {alpha:g} the {what} exceeds floating point"
        )
    return value


def _leakage(leakage: ArrayLike) -> FloatArray:
    leakage = check.as_floats("leakage", leakage)
    if not (leakage >= 0).all():
        raise ValueError(f"leakage must be >= 0, got {leakage[~(leakage >= 0)][0]}")
    return leakage


def _map(kernel: Callable[..., FloatArray], q: FloatArray, s: FloatArray, alpha: float) -> FloatArray:
    q, s = np.broadcast_arrays(q, s)
    out = np.empty(s.shape)
    for rate in np.unique(q):
        chosen = q == rate
        out[chosen] = kernel(s[chosen], kernels.moment_terms(rate, alpha), 0)
    return out


def conversion_offset(orders: FloatArray, delta: float) -> FloatArray:
    """What Remark 1 adds to rho: ln((alpha - 1) / alpha) - (ln delta + ln alpha) / (alpha - 1)."""
    offset: FloatArray = np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    return offset
