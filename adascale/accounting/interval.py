"""A number that is known to lie between two proven bounds."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

WIDEST = 0.01  # largest relative width of a certified interval


def round_outward(value: float, up: bool, digits: int = 6) -> float:
    """Round up or down, unless the value has no more digits."""
    nearest, way = float(f"{value:.{digits}g}"), ROUND_CEILING if up else ROUND_FLOOR
    return nearest if nearest == value else float(Context(digits, way).create_decimal(value))


@dataclass(frozen=True)
class CertifiedInterval:
    """A number between two proven bounds; ``float()`` gives the safe one, ``str()`` both, rounded outwards.

    Parameters
    ----------
    lower, upper : float, >= 0
        The proven bounds.
    ends : tuple of str
        The names of the proofs of the lower and of the upper bound.
    direction : str
        The direction that determines the number: ``add``, ``remove`` or ``both``.
    estimate : float, within the bounds
        Near the number, but not proven.
    safe : float
        The bound that does not understate the leakage: ``lower`` for a miss rate, else ``upper``.
    negligible : float, >= 0
        A difference of the bounds that needs not be smaller.
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

    def __str__(self) -> str:
        return f"[{round_outward(self.lower, up=False):.6g}, {round_outward(self.upper, up=True):.6g}]"

    @property
    def certified(self) -> bool:
        """Whether the interval is at most one per cent wide, or negligibly wide."""
        return self.upper - self.lower <= max(WIDEST * self.upper, self.negligible)
