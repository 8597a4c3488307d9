"""Rényi accounting of the sampled Gaussian mechanism (Definition 3 of the paper) and conversion to DP."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting import kernels
from adascale.accounting.kernels import LARGEST_ORDER, FloatArray

DEFAULT_ORDERS: tuple[float, ...] = tuple(
    [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))
)
"""The default orders of Opacus, 1.1, 1.2, ..., 10.9 and 12, 13, ..., 63.

:meta hide-value:
"""


@dataclass(eq=False)
class OrdersTooFew(UserWarning):
    """A best order at an end of the list: more orders (:func:`order_grid`) may give a smaller epsilon.

    The guarantee is valid.  For the schedule that gains most, ``better`` bounds its epsilon at an ``order`` beyond the
    ``end`` from above; both are None from :func:`to_dp`.  ``number`` of ``total`` schedules are at this end.
    """

    end: float
    epsilon: float
    number: int
    total: int
    is_last: bool
    order: float | None = None
    better: float | None = None

    def __str__(self) -> str:
        place, kind, ends = (
            ("last", "larger", [1.1, 1024.0])
            if self.is_last
            else ("first", "smaller", [1.01, 1024.0])
        )
        where = f" of {self.number} of {self.total} schedules" if self.total > 1 else ""
        what = f"{kind} ones may give a smaller epsilon"
        if self.order is not None:
            what = f"order {self.order:.12g} gives epsilon {self.better:.4g} for {self.epsilon:.4g}"
            ends[self.is_last] = (
                min(2 * self.order, LARGEST_ORDER)
                if self.is_last
                else 1 + (self.order - 1) / 2
            )
        smallest = f"{ends[0]:.16g}"
        largest = f"{ends[1]:.0f}"
        best = f"the best order{where} is the {place} one given, {self.end:.12g}"
        ways = f"--orders {smallest},{largest} of a command or adascale.accounting.order_grid({largest}, {smallest})"
        return f"{best}, and {what}: give {kind} orders, such as {ways}"


def as_orders(orders: ArrayLike) -> FloatArray:
    """Return a validated list of Rényi orders as an array."""
    listed = check.as_floats("orders", orders)
    if listed.ndim != 1 or listed.size == 0:
        shown = f"shape {listed.shape}" if listed.ndim else orders
        raise ValueError(f"orders must be a list of one or more numbers, got {shown}")
    if not (fits := (listed > 1) & (listed <= LARGEST_ORDER)).all():
        raise ValueError(
            f"orders must be finite and > 1, and at most {LARGEST_ORDER:g}, got {listed[~fits][0]}"
        )
    return listed


class DpGuarantee(NamedTuple):
    """An (epsilon, delta)-DP guarantee: arrays of ``epsilon`` and of its best Rényi ``order``."""

    epsilon: FloatArray
    order: FloatArray


def rdp(
    sampling_rate: ArrayLike, noise_multiplier: ArrayLike, order: float
) -> FloatArray:
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
    return _of_rounds("leakage", sampling_rate, noise_multiplier, order)


def rdp_derivative(
    sampling_rate: ArrayLike, noise_multiplier: ArrayLike, order: float
) -> FloatArray:
    r"""Compute :math:`\partial \rho_\alpha / \partial \sigma \le 0` (:eq:`eq:sgm-slope`); see :func:`rdp`."""
    return _of_rounds(
        "derivative of the leakage", sampling_rate, noise_multiplier, order, slope=True
    )


def compose(leakage: ArrayLike, axis: int = -1) -> FloatArray:
    r"""Compose mechanisms: sum their Rényi leakages :math:`\ge 0` at one order over ``axis``, that of the rounds."""
    return cast(
        "FloatArray",
        np.sum(check.between("leakage", leakage, 0.0, math.inf), axis=axis),
    )


def best_of_trials(leakage: ArrayLike, orders: ArrayLike, trials: float) -> FloatArray:
    r"""Bound the leakage of the best of several trainings, after each of which another follows or not at random.

    .. math::
        \rho'_\alpha = \rho_\alpha + 2 \min_{\hat\alpha} \Big[\Big(1 - \frac1{\hat\alpha}\Big) \rho_{\hat\alpha}
            + \frac{\ln K}{\hat\alpha}\Big] + \frac{\ln K}{\alpha - 1}

    K is the mean number of trainings, after each of which the last was with probability 1 / K. Only the best one is
    published, and nothing of the others, not even their number (Papernot and Steinke, arXiv 2110.03620, theorem 2).

    Parameters
    ----------
    leakage : array_like, shape (..., N), >= 0
        Of one training, at every order.
    orders : sequence of float, shape (N,), in (1, 1e12]
    trials : float, >= 1

    Examples
    --------
    >>> orders = np.array(DEFAULT_ORDERS)
    >>> one = 1000 * np.array([rdp(0.01, 1.0, order) for order in orders])
    >>> float(to_dp(best_of_trials(one, orders, trials=10), orders).epsilon)
    4.1...
    """
    rho, orders = _at_orders(leakage, orders)
    log_trials = np.log(check.number("trials", trials, 1.0))
    once = ((1 - 1 / orders) * rho + log_trials / orders).min(axis=-1, keepdims=True)
    return np.asarray(rho + 2 * once + log_trials / (orders - 1))


def to_dp(
    leakage: ArrayLike, orders: ArrayLike = DEFAULT_ORDERS, delta: float = 1e-5
) -> DpGuarantee:
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
    delta = check.fraction("delta", delta)
    leakage, orders = _at_orders(leakage, orders)
    epsilon = leakage + conversion_offset(orders, delta)
    best = np.argmin(epsilon, axis=-1)
    chosen = np.take_along_axis(epsilon, np.expand_dims(best, -1), -1)[..., 0]
    guarantee = DpGuarantee(np.maximum(chosen, 0.0), orders[best])
    if at_end := next(at_ends(guarantee, orders), None):
        warnings.warn(at_end[1], stacklevel=2)
    return guarantee


def _at_orders(leakage: ArrayLike, orders: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return validated leakages whose last axis are the orders, and the orders."""
    orders = as_orders(orders)
    rho = check.between("leakage", leakage, 0.0, math.inf)
    if rho.shape[-1:] != orders.shape:
        raise ValueError(
            f"the last axis of leakage must match the {orders.size} orders, got shape {rho.shape}"
        )
    return rho, orders


def at_ends(
    guarantee: DpGuarantee, orders: FloatArray
) -> Iterator[tuple[tuple[np.intp, ...], OrdersTooFew]]:
    """Yield the schedule that gains most by orders beyond each end, with a warning; above the list comes first."""
    epsilon = guarantee.epsilon
    limited = np.isfinite(epsilon) & (epsilon > 0)
    for sign, end in ((1, float(orders.max())), (-1, float(orders.min()))):
        at_end = limited & (guarantee.order == end)
        if orders.min() < orders.max() and at_end.any():
            # above the list, the smallest epsilon has the farthest best order; below it, the largest
            place = np.argmin(np.where(at_end, sign * epsilon, np.inf))
            index = np.unravel_index(place, at_end.shape)
            yield (
                index,
                OrdersTooFew(
                    end,
                    float(epsilon[index]),
                    int(at_end.sum()),
                    at_end.size,
                    is_last=sign > 0,
                ),
            )


def _of_rounds(
    what: str, rate: ArrayLike, multiplier: ArrayLike, order: float, slope: bool = False
) -> FloatArray:
    alpha = check.order("order", order)
    q = check.sampling_rate("sampling_rate", rate)
    sigma = check.positive("noise_multiplier", multiplier)
    check.broadcast(sampling_rate=q.shape, noise_multiplier=sigma.shape)
    q, sigma = np.broadcast_arrays(q, sigma)
    value = np.empty(sigma.shape)
    with np.errstate(over="ignore"):  # refused below
        s = sigma**-2.0
        for rate in np.unique(q):
            same_rate = q == rate
            terms = kernels.moment_terms(rate, alpha)
            value[same_rate] = kernels.map_log_moment(s[same_rate], terms, slope)
        value = (-2 * s**1.5 if slope else 1.0) * value / (alpha - 1)
    if not (fits := np.isfinite(value)).all():
        raise ValueError(
            f"noise_multiplier {sigma[~fits].min():g} is too small: at order {alpha:g} the {what} overflows"
        )
    return value


def conversion_offset(orders: FloatArray, delta: float) -> FloatArray:
    """Compute ln((alpha - 1) / alpha) - (ln delta + ln alpha) / (alpha - 1), which Remark 1 adds to rho."""
    return np.asarray(
        np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    )
