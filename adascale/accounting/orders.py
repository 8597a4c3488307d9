r"""Lists of Rényi orders: the usual one, longer ones, and what to say where a list was too short."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting.kernels import LARGEST_ORDER

DEFAULT_ORDERS: tuple[float, ...] = tuple([1 + x / 10 for x in range(1, 100)] + list(range(12, 64)))
"""The orders over which Opacus' RDP accountant minimises by default, 1.1, 1.2, ..., 10.9 and 12, 13, ..., 63.

:meta hide-value:
"""


class OrdersTooFew(UserWarning):
    r"""The best of the given orders is the first or the last of them, and one beyond gives a smaller epsilon.

    The guarantee is valid, and larger than need be: :func:`order_grid` has more orders.  It is raised once a call.

    Attributes
    ----------
    end : float
        The order at the end.
    epsilon : float
        There, of the schedule that has most to win.
    order : float or None
        An order beyond; None from :func:`to_dp`, which cannot try.
    better : float or None
        The epsilon there, or slightly more than it.
    number : int
        How many schedules have their best order at this end.
    total : int
        How many there are.
    """

    def __init__(
        self,
        end: float,
        epsilon: float,
        number: int,
        total: int,
        is_last: bool,
        order: float | None = None,
        better: float | None = None,
    ) -> None:
        self.end, self.epsilon, self.order, self.better = end, epsilon, order, better
        self.number, self.total, self._is_last = number, total, is_last
        place, kind = ("last", "larger") if is_last else ("first", "smaller")
        where = f" of {number} of {total} schedules" if total > 1 else ""
        what = f"{kind} ones may give a smaller epsilon"
        grid = f"order_grid({'' if is_last else 'smallest='}...)"
        if order is not None and better is not None:
            what = f"order {_digits(order)} gives epsilon {better:.4g} for {epsilon:.4g}"
            largest = min(2.0 ** np.ceil(np.log2(1.5 * order)), LARGEST_ORDER)
            enough = f"{largest:.0f}" if is_last else f"smallest={_digits(1 + (order - 1) / 2)}"
            grid = f"order_grid({enough})"
        super().__init__(
            f"the best order{where} is the {place} one given, {_digits(end)}, and {what}: give {kind} "
            f"orders, such as adascale.accounting.{grid}"
        )

    def __reduce__(self) -> tuple[type[OrdersTooFew], tuple[object, ...]]:
        """Processes may pass it on."""
        return OrdersTooFew, (self.end, self.epsilon, self.number, self.total, self._is_last, self.order, self.better)


def _digits(order: float) -> str:
    """An order as Python reads it, with digits that tell it from 1."""
    return f"{order:.6g}" if order > 1.001 else f"1 + {order - 1:.3g}"


def order_grid(largest: float = 1024, smallest: float = 1.1) -> tuple[float, ...]:
    r"""Opacus' orders, continued in steps of 5 % beyond 63, and below 1.1 in steps of 20 % of :math:`\alpha - 1`.

    Parameters
    ----------
    largest : float
        The last order, at most 1e12; 63 or less only leaves orders out.
    smallest : float
        The first order, > 1 and less than ``largest``.

    Returns
    -------
    tuple of float
        The orders, increasing.
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


def as_orders(orders: ArrayLike) -> NDArray[np.float64]:
    """A list of Rényi orders as an array, or a ``ValueError`` that names the first that is none."""
    listed = check.as_floats("orders", orders)
    if listed.ndim != 1 or listed.size == 0:
        raise ValueError(
            f"orders must be a list of one or more numbers, got {f'shape {listed.shape}' if listed.ndim else orders}"
        )
    if not (fits := (listed > 1) & (listed <= LARGEST_ORDER)).all():
        raise ValueError(f"orders must be finite and > 1, and at most {LARGEST_ORDER:g}, got {listed[~fits][0]}")
    return listed
