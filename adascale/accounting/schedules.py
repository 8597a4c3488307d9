"""Epsilon of whole schedules at the best order, without evaluating every order."""

import warnings
from collections.abc import Callable
from functools import cache, partial

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting import kernels
from adascale.accounting.interpolation import table_for
from adascale.accounting.kernels import FloatArray
from adascale.accounting.orders import DEFAULT_ORDERS, OrdersTooFew, as_orders
from adascale.accounting.renyi import DpGuarantee, at_end, conversion_offset

_TINIEST = 1e-300  # least 1 / sigma^2 of a round: anything smaller adds nothing to epsilon
_HUGEST = 1e200  # above this 1 / sigma^2, entries of a table would overflow
_TABLES = 100.0  # above this order the panels of a table are too narrow to be worth it
_WORTH_IT = 0.99  # no warning if an order beyond the list lowers epsilon by less than 1 %
_STEPS = 81  # number of orders to try beyond the end, in ratios of the fourth root of 2, up to a million times as far


def schedule_epsilon(
    sampling_rate: float, noise_multiplier: ArrayLike, delta: float = 1e-5, orders: ArrayLike = DEFAULT_ORDERS
) -> DpGuarantee:
    r"""Compute the DP guarantee of whole schedules: :func:`to_dp` of the composed :func:`rdp` at the best order.

    A search finds that order, as :math:`\varepsilon(\alpha)` has a single valley (:prf:ref:`lem-one-valley`).

    Parameters
    ----------
    sampling_rate : float, in (0, 1]
    noise_multiplier : array_like, shape (..., T), > 0
    delta : float, in (0, 1)
    orders : sequence of float, in (1, 1e12]

    Warns
    -----
    OrdersTooFew
        If an order beyond the list lowers epsilon by more than 1 %.
    """
    rate = check.sampling_rate("sampling_rate", sampling_rate)
    if rate.ndim:
        raise ValueError(f"sampling_rate must be one number, got an array of shape {rate.shape}")
    q = float(rate)
    sigma = np.atleast_1d(check.positive("noise_multiplier", noise_multiplier))
    orders = np.unique(as_orders(orders))
    delta = check.fraction("delta", delta)
    with np.errstate(over="ignore"):  # refused below
        s = np.sort(np.maximum(sigma**-2.0, _TINIEST), axis=-1)  # so that equal entries are adjacent
    composed = _composed(q, orders, delta, s)
    epsilon, best = np.empty(sigma.shape[:-1]), np.empty(sigma.shape[:-1], dtype=np.intp)
    guess = orders.size // 2
    for lane in np.ndindex(sigma.shape[:-1]):
        guess, epsilon[lane] = valley(partial(composed, lane), orders.size, guess)
        best[lane] = guess
    if not np.isfinite(epsilon).all():
        worst = sigma[~np.isfinite(epsilon)].min()
        raise ValueError(f"noise_multiplier {worst:g} is too small: epsilon overflows at every order")
    found = DpGuarantee(np.maximum(epsilon, 0.0), orders[best])
    if (missed := _beyond(found, orders, q, delta, s)) is not None:
        warnings.warn(missed, stacklevel=2)
    return found


def _beyond(guarantee: DpGuarantee, orders: FloatArray, q: float, delta: float, s: FloatArray) -> OrdersTooFew | None:
    """Try orders beyond the end of the list, on the schedule that gains most."""
    side = at_end(guarantee, orders)
    for end in (1, -1):
        there = side == end
        if not there.any():
            continue
        # above the list, the smallest epsilon has the farthest best order; below it, the largest
        lane = np.unravel_index(np.argmin(np.where(there, end * guarantee.epsilon, np.inf)), there.shape)
        last, epsilon = float(guarantee.order[lane]), float(guarantee.epsilon[lane])
        ratio = 2.0 ** (np.arange(_STEPS) / 4)
        beyond = np.minimum(last * ratio, kernels.LARGEST_ORDER) if end > 0 else 1 + (last - 1) / ratio
        beyond = np.unique(beyond[beyond > 1])
        tried = _composed(q, beyond, delta, _rounded_up(s[lane]))
        best, better = valley(partial(tried, ()), beyond.size, 0 if end > 0 else beyond.size - 1)
        if max(better, 0.0) < _WORTH_IT * epsilon:
            counts = int(there.sum()), there.size
            return OrdersTooFew(last, epsilon, *counts, end > 0, float(beyond[best]), max(better, 0.0))
    return None


def _rounded_up(s: FloatArray) -> FloatArray:
    """Round a sorted schedule up to at most about two hundred different entries."""
    block = -(-s.size // 200) or 1
    return np.repeat(s[np.minimum(np.arange(block - 1, s.size + block - 1, block), s.size - 1)], block)[: s.size]


def _composed(q: float, orders: FloatArray, delta: float, s: FloatArray) -> Callable[[tuple[int, ...], int], float]:
    """Return the epsilon of one of many schedules at the i-th order, from tables if they save work."""
    offset = conversion_offset(orders, delta)
    # a table costs about as much as five thousand fractional orders
    log_s = np.log(s) if s.size > 5000 and s.max() < _HUGEST else None

    @cache
    def total(i: int) -> Callable[[tuple[int, ...]], float]:
        alpha = float(orders[i])
        if log_s is not None and alpha != int(alpha) and alpha <= _TABLES:
            table = table_for(q, alpha, float(log_s.min()), float(log_s.max()))
            if table.accurate:
                return lambda lane: table.total(log_s[lane])
        terms = kernels.moment_terms(q, alpha)
        return lambda lane: float(kernels.total_log_moment(s[lane], terms, 0))

    return lambda lane, i: float(total(i)(lane) / (orders[i] - 1) + offset[i])


def valley(value: Callable[[int], float], size: int, guess: int) -> tuple[int, float]:
    """Find the minimum of unimodal value(0), ..., value(size - 1) by galloping from ``guess``, then bisection."""
    at = cache(value)
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
