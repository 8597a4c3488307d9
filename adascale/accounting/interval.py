"""A number that is known to lie between two proven bounds."""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from numbers import Real
from typing import Any

WIDEST = 0.01  # largest relative width of a certified interval


def round_outward(value: float, up: bool, digits: int = 6) -> float:
    """Round up or down, unless the value has no more digits."""
    nearest = float(f"{value:.{digits}g}")
    way = ROUND_CEILING if up else ROUND_FLOOR
    return (
        nearest
        if nearest == value
        else float(Context(digits, way).create_decimal(value))
    )


def _by_safe_end(
    operation: Callable[[float, float], bool],
) -> Callable[["CertifiedInterval", Any], bool]:
    """Compare the safe end with a number or with another safe end."""

    def compare(interval: "CertifiedInterval", other: Any) -> bool:
        if isinstance(other, Real | CertifiedInterval):
            return operation(interval.safe, float(other))
        return NotImplemented

    return compare


@dataclass(frozen=True)
class CertifiedInterval:
    """A number between two proven bounds; ``str()`` gives both, rounded outwards.

    Where one number is needed, it is the safe bound: in ``float()`` and ``round()``, where a format is given, as in
    ``f"{interval:.2f}"``, and in ``<``, ``<=``, ``>`` and ``>=``, also between two intervals. Two intervals are equal
    if all their fields are; an interval equals no number.

    Parameters
    ----------
    lower, upper : float, >= 0
        The proven bounds.
    ends : tuple of str
        The names of the proofs of the lower and of the upper bound.
    direction : str
        The direction that determines the number: ``add`` compares outputs with the sample to those without it,
        ``remove`` the reverse (dp_accounting calls the first REMOVE and the second ADD), and ``both`` is a curve's.
    estimate : float, within the bounds
        Near the number, but not proven.
    safe : float
        The bound that does not understate the leakage: ``lower`` for a miss rate, else ``upper``.
    negligible : float, >= 0
        A difference of the bounds that need not be smaller.
    """

    lower: float
    upper: float
    ends: tuple[str, str]
    direction: str
    estimate: float
    safe: float
    negligible: float = 1e-290

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", tuple(self.ends))  # JSON has lists

    def __float__(self) -> float:
        return self.safe

    def __round__(self, digits: int | None = None) -> float:
        return round(self.safe, digits)

    def __format__(self, specification: str) -> str:
        return format(self.safe, specification) if specification else str(self)

    __lt__ = _by_safe_end(operator.lt)
    __le__ = _by_safe_end(operator.le)
    __gt__ = _by_safe_end(operator.gt)
    __ge__ = _by_safe_end(operator.ge)

    def __str__(self) -> str:
        return f"[{round_outward(self.lower, up=False):.6g}, {round_outward(self.upper, up=True):.6g}]"

    @property
    def certified(self) -> bool:
        """Whether the interval is at most one per cent wide, or negligibly wide."""
        if math.isinf(self.upper):
            return self.lower == self.upper
        return self.upper - self.lower <= max(WIDEST * self.upper, self.negligible)
