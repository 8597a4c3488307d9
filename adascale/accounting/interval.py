"""A number that is known to lie between two proven bounds, and the bounds while they are proven."""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from numbers import Real
from typing import Any

WIDEST = 0.01  # largest relative width of a certified interval
# mixture against null (one sample is added), and null against mixture
ADD, REMOVE = DIRECTIONS = "add", "remove"


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


class Proof:
    """The best bounds proven so far of a number: from below of the larger direction, from above of each.

    ``estimate`` is near the number and not proven, ``direction`` is the one that determines it, and a difference of
    the bounds below ``negligible`` need not be smaller.
    """

    def __init__(self, largest: float, negligible: float) -> None:
        self.lower = 0.0
        self.upper = dict.fromkeys(DIRECTIONS, largest)
        self.names = dict.fromkeys(("lower", *DIRECTIONS), "trivial")
        self.estimate = math.nan
        self.direction = ADD
        self.negligible = negligible

    def raise_lower(self, value: float, name: str) -> None:
        """Record a lower bound."""
        if value > self.lower:
            self.lower, self.names["lower"] = value, name

    def reduce_upper(self, value: float, name: str, *directions: str) -> None:
        """Record an upper bound on one direction or on both."""
        for direction in directions or DIRECTIONS:
            if value < self.upper[direction]:
                self.upper[direction], self.names[direction] = value, name

    def is_wide(self) -> bool:
        """Check whether the interval is too wide to be certified."""
        return not self.interval().certified

    def interval(self) -> CertifiedInterval:
        """Return the interval."""
        larger = max(DIRECTIONS, key=lambda name: self.upper[name])
        upper = float(self.upper[larger])
        lower = float(min(self.lower, upper))
        estimate = min(max(self.estimate, lower), upper)
        if math.isnan(self.estimate):
            estimate = 0.5 * (lower + upper)
        ends = self.names["lower"], self.names[larger]
        return CertifiedInterval(
            lower, upper, ends, self.direction, estimate, upper, self.negligible
        )
