"""Events: sampled Gaussian mechanisms as (sampling rate, noise multiplier, count)."""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adascale.accounting.discrete import DiscreteLoss
from adascale.accounting.exact.rounds import Atoms, Rounds, rounds_of
from adascale.errors import InvalidInput

FloatArray = NDArray[np.float64]
Event = Sequence[float] | DiscreteLoss | tuple[DiscreteLoss, int]
Events = Sequence[Event] | FloatArray
"""A sequence of ``(sampling_rate, noise_multiplier, count)``, or an array of these columns; without count it is 1.

An event may also be a :class:`DiscreteLoss`, alone or as ``(loss, count)``.
"""

LEAST_NOISE, MOST_NOISE, MOST_ROUNDS = 1e-6, 1e150, 2.0**53
_NUMBER = int | float | np.integer | np.floating
_FORM = "(sampling rate, noise multiplier, count)"


class Composition(NamedTuple):
    """Events as arrays of equal length."""

    rate: FloatArray
    sigma: FloatArray
    number: FloatArray
    discrete: tuple[tuple[Atoms, float], ...]

    def rounds(self, scale: float = 1.0) -> Rounds:
        """Return the rounds, with all noise multipliers multiplied by ``scale``."""
        found = rounds_of(self.rate, scale * self.sigma, self.number)
        return found._replace(size=found.size + int(sum(n for _, n in self.discrete)), atoms=self.discrete)


def compose_events(events: Events) -> Composition:
    """Validate events; an error names the index of the event and its value."""
    try:
        rows = [_row(i, event) for i, event in enumerate(events)]
    except TypeError:
        raise InvalidInput(f"events must be a sequence of {_FORM}, got {events!r}", "events") from None
    rate, sigma, number = np.array([row[:3] for row in rows], dtype=float).reshape(-1, 3).T
    for name, values, good, expected in (
        ("sampling rate", rate, (rate >= 0) & (rate <= 1), "in [0, 1]"),
        ("noise multiplier", sigma, sigma != 0, "> 0, as delta is 1 without noise"),
        ("noise multiplier", sigma, (sigma >= LEAST_NOISE) & (sigma <= MOST_NOISE), "within 1e-6 ... 1e150"),
        ("count", number, (number >= 0) & (number <= MOST_ROUNDS) & (number % 1 == 0), "a whole number >= 0"),
    ):
        if not good.all():
            i = int((~good).argmax())
            raise InvalidInput(f"the {name} of events[{i}] must be {expected}, got {values[i]:g}", "events")
    gaussian = np.array([row[3] is None for row in rows], dtype=bool)
    discrete = tuple((row[3].atoms, row[2]) for row in rows if row[3] is not None and row[2] > 0)
    return Composition(rate[gaussian], sigma[gaussian], number[gaussian], discrete)


def _row(i: int, event: Event) -> tuple[float, float, float, DiscreteLoss | None]:
    """Return sampling rate, noise multiplier and count, or 0, 1, the count and the discrete loss."""
    loss: DiscreteLoss | None = None
    with contextlib.suppress(TypeError, ValueError, OverflowError, IndexError):
        values: tuple[Any, ...] = (event,) if isinstance(event, DiscreteLoss) else tuple(event)
        if isinstance(values[0], DiscreteLoss):
            loss, values = values[0], (0.0, 1.0, *values[1:])
        rate, sigma, count = values if len(values) == 3 else (*values, 1)
        if all(isinstance(each, _NUMBER) and not isinstance(each, bool) for each in (rate, sigma, count)):
            return float(rate), float(sigma), float(count), loss
    raise InvalidInput(f"events[{i}] must be {_FORM}, got {event!r}", "events")
