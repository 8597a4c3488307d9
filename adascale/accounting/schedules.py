"""Lists of Rényi orders, and epsilon of whole schedules at the best one, without evaluating every order."""

import math
import warnings
from collections.abc import Callable
from functools import cache, lru_cache
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting import kernels
from adascale.accounting.kernels import LARGEST_ORDER, FloatArray
from adascale.accounting.renyi import (
    DEFAULT_ORDERS,
    DpGuarantee,
    OrdersTooFew,
    as_orders,
    at_ends,
    conversion_offset,
)
from adascale.rootfind import valley

# least 1 / sigma^2 of a round: anything smaller adds nothing to epsilon
_TINIEST = 1e-300
_HUGEST = 1e200  # above this 1 / sigma^2, entries of a table would overflow
_TABLES = 100.0  # above this order the knots of a table are too many to be worth it
# no warning if an order beyond the list lowers epsilon by less than 1 %
_WORTH_IT = 0.99
_KNOTS = 8  # of a table's spline in a unit of ln s, before there are more where they are needed
_DEGREE = 7
_REFINED = 12  # halvings at most
_ACCURACY = 1e-11
# ends of a table are rounded outwards to powers of 256, so that it can be reused
_SPAN = 8 * math.log(2)
_STEPS = 81  # number of orders to try beyond the end, in ratios of the fourth root of 2, up to a million times as far


def order_grid(largest: float = 1024, smallest: float = 1.1) -> tuple[float, ...]:
    r"""Extend Opacus' orders in steps of 5 % above 63, and of 20 % of :math:`\alpha - 1` below 1.1.

    Parameters
    ----------
    largest : float, > smallest, <= 1e12
    smallest : float, > 1
    """
    last = check.order("largest", largest)
    first = check.order("smallest", smallest)
    if not first < last <= LARGEST_ORDER:
        raise ValueError(
            f"largest must be above smallest and at most {LARGEST_ORDER:g}, got {largest} and {smallest}"
        )
    grid = {first, last, *DEFAULT_ORDERS}
    order = max(DEFAULT_ORDERS)
    above = min(DEFAULT_ORDERS) - 1
    while order < last:
        grid.add(order := math.ceil(order * 1.05))
    while above > first - 1:
        grid.add(1 + (above := above * 0.8))
    return tuple(sorted(order for order in grid if first <= order <= last))


def schedule_epsilon(
    sampling_rate: float,
    noise_multiplier: ArrayLike,
    delta: float = 1e-5,
    orders: ArrayLike = DEFAULT_ORDERS,
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
        raise ValueError(
            f"sampling_rate must be one number, got an array of shape {rate.shape}"
        )
    q = float(rate)
    sigma = np.atleast_1d(check.positive("noise_multiplier", noise_multiplier))
    orders = np.unique(as_orders(orders))
    delta = check.fraction("delta", delta)
    # s = 1 / sigma^2, which is refused below if it overflows
    with np.errstate(over="ignore"):
        s = np.maximum(sigma**-2.0, _TINIEST)
    epsilon_of = _composed(q, orders, delta, s)
    batch_shape = sigma.shape[:-1]
    epsilon = np.empty(batch_shape)
    best = np.empty(batch_shape, dtype=np.intp)
    guess = orders.size // 2
    for index in np.ndindex(batch_shape):
        guess, epsilon[index] = valley(epsilon_of(s[index]), orders.size, guess)
        best[index] = guess
    if not np.isfinite(epsilon).all():
        worst = sigma[~np.isfinite(epsilon)].min()
        raise ValueError(
            f"noise_multiplier {worst:g} is too small: epsilon overflows at every order"
        )
    guarantee = DpGuarantee(np.maximum(epsilon, 0.0), orders[best])
    warning = _beyond(guarantee, orders, q, delta, s)
    if warning is not None:
        warnings.warn(warning, stacklevel=2)
    return guarantee


def _beyond(
    guarantee: DpGuarantee, orders: FloatArray, q: float, delta: float, s: FloatArray
) -> OrdersTooFew | None:
    """Try orders beyond the end of the list, on the schedule that gains most."""
    size = s.shape[-1]
    for index, warning in at_ends(guarantee, orders):
        ratio = 2.0 ** (np.arange(_STEPS) / 4)
        if warning.is_last:
            beyond = warning.end * ratio
        else:
            beyond = 1 + (warning.end - 1) / ratio
        beyond = np.unique(np.minimum(beyond[beyond > 1], LARGEST_ORDER))
        # rounded up to about two hundred different entries
        block = -(-size // 200) or 1
        last_of_block = np.minimum(np.arange(size) // block * block + block, size) - 1
        few = np.sort(s[index])[last_of_block]
        start = 0 if warning.is_last else beyond.size - 1
        epsilon_of = _composed(q, beyond, delta, few)
        best, epsilon = valley(epsilon_of(few), beyond.size, start)
        epsilon = max(epsilon, 0.0)
        if epsilon < _WORTH_IT * warning.epsilon:
            warning.order = float(beyond[best])
            warning.better = epsilon
            return warning
    return None


def _composed(
    q: float, orders: FloatArray, delta: float, s: FloatArray
) -> Callable[[FloatArray], Callable[[int], float]]:
    """Return epsilon as a function of a row of ``s`` = 1 / sigma^2 and then of the index of an order.

    Log-moments come from tables where these save work.
    """
    offset = conversion_offset(orders, delta)
    ends = None
    # a table costs about as much as five thousand fractional orders
    if s.size > 5000 and s.max() < _HUGEST:
        low = math.floor(math.log(s.min()) / _SPAN)
        high = math.ceil(math.log(s.max()) / _SPAN)
        ends = _SPAN * low, _SPAN * max(high, low + 1)

    @cache
    def log_moment(i: int) -> Callable[[FloatArray, FloatArray], FloatArray]:
        alpha = float(orders[i])
        if ends and alpha <= _TABLES and (of_log := log_log_spline(q, alpha, *ends)):
            return lambda _, log_s: np.exp(of_log(log_s))
        terms = kernels.moment_terms(q, alpha)
        return lambda s, _: kernels.map_log_moment(s, terms)

    def epsilon_of(schedule: FloatArray) -> Callable[[int], float]:
        distinct, counts = np.unique(schedule, return_counts=True)
        logs = np.log(distinct)

        def epsilon(i: int) -> float:
            total = (counts * log_moment(i)(distinct, logs)).sum()
            return float(total / (orders[i] - 1) + offset[i])

        return epsilon

    return epsilon_of


@lru_cache(maxsize=512)
def log_log_spline(
    q: float, alpha: float, low: float, high: float
) -> Callable[[FloatArray], FloatArray] | None:
    """Return ``ln ln A(q, s)`` at one order as a spline in ``ln s``, s = 1 / sigma^2; None if it is not accurate."""
    from scipy.interpolate import PPoly, make_interp_spline  # slow to import

    terms = kernels.moment_terms(q, alpha)

    def log_log_moment(x: FloatArray) -> FloatArray:
        # zero has no logarithm
        return np.log(np.maximum(kernels.map_log_moment(np.exp(x), terms), 1e-300))

    knot = np.linspace(low, high, math.ceil(_KNOTS * (high - low)) + 1)
    value = log_log_moment(knot)
    new = np.arange(knot.size - 1)
    for _ in range(_REFINED):
        spline = make_interp_spline(knot, value, _DEGREE)
        middle = 0.5 * (knot[new] + knot[new + 1])
        exact = log_log_moment(middle)
        off = np.abs(spline(middle) - exact) > _ACCURACY
        if not off.any():
            # faster to evaluate
            powers = [
                spline(knot[:-1], nu=k) / math.factorial(k)
                for k in range(_DEGREE, -1, -1)
            ]
            return cast("Callable[[FloatArray], FloatArray]", PPoly(powers, knot))
        new = new[off]
        knot = np.insert(knot, new + 1, middle[off])
        value = np.insert(value, new + 1, exact[off])
        # both halves and one on either side
        near = (new + np.arange(new.size))[:, None] + np.arange(-1, 3)
        new = np.unique(np.clip(near, 0, knot.size - 2))
    return None
