"""Rényi accounting of the sampled Gaussian mechanism (Definition 3 of the paper) and conversion to DP."""

import warnings
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting import kernels
from adascale.accounting.kernels import FloatArray
from adascale.accounting.orders import DEFAULT_ORDERS, OrdersTooFew, as_orders


class DpGuarantee(NamedTuple):
    """An (epsilon, delta)-DP guarantee: arrays of ``epsilon`` and of its best Rényi ``order``."""

    epsilon: FloatArray
    order: FloatArray


def rdp(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, order: float) -> FloatArray:
    r"""Compute the Rényi leakage of one use of the sampled Gaussian mechanism, in nats (Lemma 1, :eq:`eq:sgm-rdp`).

    .. math::
        \rho_\alpha(q, \sigma) = \frac{1}{\alpha - 1} \ln \mathbb E_{z \sim \mathcal N(0, \sigma^2)}
            \Big[\Big(1 - q + q e^{(2z - 1)/(2\sigma^2)}\Big)^\alpha\Big]

    Parameters
    ----------
    sampling_rate : array_like, in (0, 1]
    noise_multiplier : array_like, > 0
        Noise standard deviation over sensitivity; broadcasts against ``sampling_rate``.
    order : float, in (1, 1e12]
    """
    q, sigma, alpha = _prepare(sampling_rate, noise_multiplier, order)
    with np.errstate(over="ignore"):  # refused below
        leakage = _map(q, sigma**-2.0, alpha) / (alpha - 1)
    return _finite("leakage", leakage, sigma, alpha)


def rdp_derivative(sampling_rate: ArrayLike, noise_multiplier: ArrayLike, order: float) -> FloatArray:
    r"""Compute :math:`\partial \rho_\alpha / \partial \sigma \le 0` (:eq:`eq:sgm-slope`); see :func:`rdp`."""
    q, sigma, alpha = _prepare(sampling_rate, noise_multiplier, order)
    with np.errstate(over="ignore"):
        s = sigma**-2.0
        derivative = -2 * s**1.5 * _map(q, s, alpha, slope=True) / (alpha - 1)
    return _finite("derivative of the leakage", derivative, sigma, alpha)


def compose(leakage: ArrayLike, axis: int = -1) -> FloatArray:
    r"""Compose mechanisms: sum their Rényi leakages :math:`\ge 0` at one order over ``axis``, that of the rounds."""
    return cast("FloatArray", np.sum(_leakage(leakage), axis=axis))


def to_dp(leakage: ArrayLike, orders: ArrayLike = DEFAULT_ORDERS, delta: float = 1e-5) -> DpGuarantee:
    r"""Convert Rényi leakages to the best :math:`(\varepsilon, \delta)` guarantee (Remark 1, :eq:`eq:rdp-to-dp`).

    .. math::
        \varepsilon = \max\Big(0, \min_\alpha \Big[\rho_\alpha + \ln\frac{\alpha - 1}{\alpha}
            - \frac{\ln\delta + \ln\alpha}{\alpha - 1}\Big]\Big)

    Parameters
    ----------
    leakage : array_like, >= 0
        :math:`\rho_\alpha` in nats, with orders on the last axis; ``inf`` marks an order without a guarantee.
    orders : sequence of float, in (1, 1e12]
    delta : float, in (0, 1)

    Warns
    -----
    OrdersTooFew
        If the best of several orders is the smallest or the largest.
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
    r"""Return -1 (1) where the best of several orders is the smallest (largest) and :math:`\varepsilon > 0`, else 0."""
    known = as_orders(orders)
    check.broadcast(epsilon=np.shape(guarantee.epsilon), order=np.shape(guarantee.order))
    inside = (guarantee.epsilon <= 0) | (known.min() == known.max())
    return np.where(inside, 0, (guarantee.order == known.max()).astype(int) - (guarantee.order == known.min()))


def _prepare(q: ArrayLike, sigma: ArrayLike, order: float) -> tuple[FloatArray, FloatArray, float]:
    alpha = check.order("order", order)
    q, sigma = check.sampling_rate("sampling_rate", q), check.positive("noise_multiplier", sigma)
    check.broadcast(sampling_rate=q.shape, noise_multiplier=sigma.shape)
    return q, sigma, alpha


def _finite(what: str, value: FloatArray, sigma: FloatArray, alpha: float) -> FloatArray:
    if not (fits := np.isfinite(value)).all():
        worst = f"noise_multiplier {np.broadcast_to(sigma, value.shape)[~fits].min():g}"
        raise ValueError(f"{worst} is too small: at order {alpha:g} the {what} overflows")
    return value


def _leakage(leakage: ArrayLike) -> FloatArray:
    leakage = check.as_floats("leakage", leakage)
    if not (leakage >= 0).all():
        raise ValueError(f"leakage must be >= 0, got {leakage[~(leakage >= 0)][0]}")
    return leakage


def _map(q: FloatArray, s: FloatArray, alpha: float, slope: bool = False) -> FloatArray:
    q, s = np.broadcast_arrays(q, s)
    out = np.empty(s.shape)
    for rate in np.unique(q):
        chosen = q == rate
        out[chosen] = kernels.map_log_moment(s[chosen], kernels.moment_terms(rate, alpha), slope)
    return out


def conversion_offset(orders: FloatArray, delta: float) -> FloatArray:
    """Compute ln((alpha - 1) / alpha) - (ln delta + ln alpha) / (alpha - 1), which Remark 1 adds to rho."""
    return np.asarray(np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1))
