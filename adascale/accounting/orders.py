"""Lists of Rényi orders, and the warning that a list is too short."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting.kernels import LARGEST_ORDER, FloatArray

DEFAULT_ORDERS: tuple[float, ...] = tuple([1 + x / 10 for x in range(1, 100)] + list(range(12, 64)))
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

    @property
    def gain(self) -> float:
        """The factor by which another order lowers epsilon, at least."""
        return self.epsilon / self.better if self.better else 1.0

    def __str__(self) -> str:
        place, kind = ("last", "larger") if self.is_last else ("first", "smaller")
        where = f" of {self.number} of {self.total} schedules" if self.total > 1 else ""
        what, largest, smallest = f"{kind} ones may give a smaller epsilon", 1024.0, 1.01
        if self.order is not None and self.better is not None:
            what = f"order {_digits(self.order)} gives epsilon {self.better:.4g} for {self.epsilon:.4g}"
            largest = min(2.0 ** np.ceil(np.log2(1.5 * self.order)), LARGEST_ORDER)
            smallest = 1 + (self.order - 1) / 2
        grid = option = f"{largest:.0f}"
        if not self.is_last:
            grid, option = f"smallest={_digits(smallest)}", f"{smallest:.12g},1024"
        best = f"the best order{where} is the {place} one given, {_digits(self.end)}"
        ways = f"--orders {option} of a command or adascale.accounting.order_grid({grid})"
        return f"{best}, and {what}: give {kind} orders, such as {ways}"


def _digits(order: float) -> str:
    return f"{order:.6g}" if order > 1.001 else f"1 + {order - 1:.3g}"


def order_grid(largest: float = 1024, smallest: float = 1.1) -> tuple[float, ...]:
    r"""Extend Opacus' orders in steps of 5 % above 63, and of 20 % of :math:`\alpha - 1` below 1.1.

    Parameters
    ----------
    largest : float, > smallest, <= 1e12
    smallest : float, > 1
    """
    last, first = check.order("largest", largest), check.order("smallest", smallest)
    if not first < last <= LARGEST_ORDER:
        raise ValueError(f"largest must be above smallest and at most {LARGEST_ORDER:g}, got {largest} and {smallest}")
    grid = {first, last, *DEFAULT_ORDERS}
    order, above = max(DEFAULT_ORDERS), min(DEFAULT_ORDERS) - 1
    while order < last:
        grid.add(order := math.ceil(order * 1.05))
    while above > first - 1:
        grid.add(1 + (above := above * 0.8))
    return tuple(sorted(each for each in grid if first <= each <= last))


def as_orders(orders: ArrayLike) -> FloatArray:
    """Return a validated list of Rényi orders as an array."""
    listed = check.as_floats("orders", orders)
    if listed.ndim != 1 or listed.size == 0:
        shown = f"shape {listed.shape}" if listed.ndim else orders
        raise ValueError(f"orders must be a list of one or more numbers, got {shown}")
    if not (fits := (listed > 1) & (listed <= LARGEST_ORDER)).all():
        raise ValueError(f"orders must be finite and > 1, and at most {LARGEST_ORDER:g}, got {listed[~fits][0]}")
    return listed
