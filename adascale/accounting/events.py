"""Events: sampled Gaussian mechanisms as (sampling rate, noise multiplier, count), and discrete privacy losses."""

import contextlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting.exact.moments import ULP
from adascale.accounting.exact.rounds import Atoms, Rounds, rounds_of
from adascale.accounting.logs import (
    LEAST_NOISE,
    LIMITS,
    MOST_NOISE,
    is_log,
    read_events,
)
from adascale.checks import FloatArray
from adascale.errors import InvalidInput
from adascale.text import shown

_FORM = "(sampling rate, noise multiplier, count)"
_LARGEST = 600.0  # largest privacy loss, so that e^loss times a mass that is not negligible is a float
_LEAST = 1e-280  # masses under Q below this are taken for 0
_MOST_OFF = 1e-9  # largest relative error of the sums of the masses
_MOST_UNBALANCED = 0.25  # up to here no mass is off by more than 4/3 of |balance - 1| + |scale - 1|; twice is taken


@dataclass(frozen=True, eq=False)
class DiscreteLoss:
    """A mechanism with a discrete privacy loss, made by :func:`from_pmf`; it is an event."""

    atoms: Atoms


def from_pmf(loss: ArrayLike, mass: ArrayLike) -> DiscreteLoss:
    r"""Make an event from the distribution of the privacy loss :math:`\ln(P / Q)` under P.

    P and Q are the outputs with and without the sample. The event stands for both directions, P against Q and Q
    against P, and goes among other events alone or as ``(event, count)``.

    Parameters
    ----------
    loss : array_like, shape (N,), within -600 ... 600, or inf or -inf
        An infinite loss is an output that is impossible without the sample, or with it (-inf).
    mass : array_like, shape (N,), >= 0; at a loss of -inf the mass under Q
        The masses under P, which sum to 1, as do the masses ``mass * exp(-loss)`` under Q.  They must be right to
        rounding, up to one factor for all losses > 0 and one for all < 0: an error in a single mass is not seen in the
        sums.  Masses under Q below 1e-280 are taken for 0, so that bounds on delta below 1e-250 are not certified.

    Examples
    --------
    Randomised response with a probability of 0.75, a hundred times:

    >>> response = from_pmf([math.log(3), -math.log(3)], [0.75, 0.25])
    >>> float(epsilon([(response, 100)], delta=1e-5))
    90.7...
    """
    y = check.as_floats("loss", loss)
    p = check.at_least("mass", mass, 0.0)
    if y.ndim != 1 or y.shape != p.shape:
        raise InvalidInput(
            f"loss and mass must be of one shape (N,), got {y.shape} and {p.shape}",
            "loss",
        )
    if (bad := ~((np.abs(y) <= _LARGEST) | np.isinf(y))).any():
        raise InvalidInput(
            f"loss must be within -600 ... 600 or infinite, got {y[bad][0]:g}", "loss"
        )
    null_lost = math.fsum(p[y == -math.inf])
    y, p = y[y > -math.inf], p[y > -math.inf]
    order = np.argsort(y, kind="stable")
    y = y[order]
    p = p[order]
    q = p * np.exp(-y)
    has_mass = q >= _LEAST
    lost = math.fsum(p[~has_mass])
    y = y[has_mass]
    q = q[has_mass]
    if not y.size:
        raise InvalidInput("loss must have a finite entry with mass", "loss")
    # of P - Q: what is gained where P is larger, and what is lost where Q is
    change = q * np.expm1(y)
    gain = math.fsum(change[y > 0]) + lost
    loss_of_mass = -math.fsum(change[y < 0])
    loss_of_mass += null_lost
    of_p = math.fsum(p)
    of_q = math.fsum(q) + null_lost
    if not max(abs(of_q - 1), abs(gain - loss_of_mass), abs(of_p - 1)) <= _MOST_OFF:
        sums = f"{of_p:.12g} and {of_q:.12g}"
        raise InvalidInput(
            f"mass and mass * exp(-loss) must each sum to 1, got {sums}", "mass"
        )
    # both sums are made 1: the first factor balances P and Q, the second one scales both
    balance = gain / loss_of_mass if loss_of_mass > 0 else math.inf if gain > 0 else 1.0
    if not abs(balance - 1) <= _MOST_UNBALANCED:
        sums = f"{gain:.3g} for losses > 0 and {-loss_of_mass:.3g} for losses < 0"
        raise InvalidInput(f"mass * (1 - exp(-loss)) must sum to 0, got {sums}", "mass")
    q = np.where(y < 0, balance * q, q)
    null_lost *= balance
    scale = math.fsum(q) + null_lost
    off = abs(balance - 1) + abs(scale - 1)
    loss_off = 2 * ULP * np.abs(y)
    mass_off = ULP * (16 + 2 * np.abs(y)) + 2 * off
    infinite = np.array([lost, null_lost]) / scale
    (lost, null_lost), offs = infinite.tolist(), infinite * (16 * ULP + 2 * off)
    lost_off, null_lost_off = offs.tolist()
    masses = lost, lost_off, null_lost, null_lost_off
    return DiscreteLoss(Atoms(y, q / scale, loss_off, mass_off, *masses))


Event = Sequence[float] | DiscreteLoss | tuple[DiscreteLoss, int]
Events = Any
"""A sequence of ``(sampling_rate, noise_multiplier, count)``, or an array of these columns; without count it is 1.

An event may also be a :class:`DiscreteLoss`, alone or as ``(loss, count)``. Instead of a sequence, give whatever
:func:`read_events` reads: a table, a history of Opacus, or the file of one.
"""


def events_of_schedule(
    sampling_rate: ArrayLike, noise_multiplier: ArrayLike
) -> FloatArray:
    """Return the events of a schedule, one per round, for one sampling rate or one per round."""
    rate = check.between("sampling_rate", sampling_rate, 0.0, 1.0)
    sigma = check.between("noise_multiplier", noise_multiplier, LEAST_NOISE, MOST_NOISE)
    if sigma.ndim != 1 or sigma.size == 0:
        raise ValueError(
            f"noise_multiplier must have shape (T,), one or more rounds, got shape {sigma.shape}"
        )
    if rate.shape not in ((), (1,), sigma.shape):
        raise ValueError(
            f"sampling_rate must be one number or one per round, got {rate.shape} and {sigma.shape}"
        )
    return np.column_stack(np.broadcast_arrays(rate, sigma))


class Composition(NamedTuple):
    """Validated events: those of Gaussian mechanisms as arrays of equal length, and the others."""

    rate: FloatArray
    sigma: FloatArray
    number: FloatArray  # how often each event occurs
    discrete: tuple[tuple[Atoms, float], ...]  # discrete losses, and how often

    @property
    def variance(self) -> float:
        """The squared mu of the Gaussian mechanism to which sampled rounds come near; no proof uses it."""
        with np.errstate(over="ignore"):
            u = np.minimum(self.sigma**-2.0, 700.0)
        per_round = np.minimum(self.rate**2 * np.expm1(u), self.sigma**-2.0)
        return float((self.number * per_round).sum())

    def scale_noise(self, factor: float) -> "Composition":
        """Return the events with every noise multiplier times the factor."""
        return self._replace(sigma=factor * self.sigma)

    def repeat(self, times: int) -> "Composition":
        """Return the events with every count times an integer."""
        return self._replace(number=times * self.number)

    def to_rounds(self) -> Rounds:
        """Collect equal events into rounds, for the proofs."""
        rounds = rounds_of(self.rate, self.sigma, self.number)
        size = rounds.size + int(sum(n for _, n in self.discrete))
        return rounds._replace(size=size, atoms=self.discrete)

    def join(self, other: "Composition") -> "Composition":
        """Return the events of both."""
        return Composition(
            np.append(self.rate, other.rate),
            np.append(self.sigma, other.sigma),
            np.append(self.number, other.number),
            self.discrete + other.discrete,
        )


def compose_events(events: Events) -> Composition:
    """Validate events; an error names the index of the event and its value."""
    rows, losses = _rows(read_events(events) if is_log(events) else events)
    for (name, good, expected), values in zip(LIMITS.values(), rows.T, strict=True):
        if not (fits := good(values)).all():
            i = int((~fits).argmax())
            raise InvalidInput(
                f"the {name} of events[{i}] must be {expected}, got {shown(float(values[i]))}",
                "events",
            )
    discrete = tuple(
        (loss.atoms, float(rows[i, 2])) for i, loss in losses.items() if rows[i, 2] > 0
    )
    rate, sigma, count = (np.delete(rows, [*losses], axis=0) if losses else rows).T
    return Composition(rate, sigma, count, discrete)


def _rows(events: Any) -> tuple[FloatArray, dict[int, DiscreteLoss]]:
    """Return rate, noise multiplier and count of every event, and the discrete losses by their index."""
    table = _table(events)
    if table is not None:
        return table, {}
    rows = []
    losses = {}
    try:
        for i, event in enumerate(events):
            row, loss = _row(i, event)
            rows.append(row)
            if loss is not None:
                losses[i] = loss
    except TypeError:
        raise InvalidInput(
            f"events must be a sequence of {_FORM}, got {shown(events)}", "events"
        ) from None
    return np.array(rows, dtype=float).reshape(-1, 3), losses


def _table(events: Any) -> FloatArray | None:
    """Return events of Python's numbers or an array of numbers as an array, fast; None if there are others."""
    if isinstance(events, list):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            if {*map(type, itertools.chain.from_iterable(events))} <= {float, int}:
                events = np.array(events)
    if not isinstance(events, np.ndarray) or events.dtype.kind not in "iuf":
        return None
    if events.shape[1:] == (2,):
        return np.column_stack([events, np.ones(len(events))])
    return events.astype(float) if events.shape[1:] == (3,) else None


def _row(
    i: int, event: Event
) -> tuple[tuple[float, float, float], DiscreteLoss | None]:
    """Return rate, noise multiplier and count, or 0, 1 and count of a discrete loss."""
    loss: DiscreteLoss | None = None
    with contextlib.suppress(
        TypeError, ValueError, OverflowError, RuntimeError, IndexError
    ):
        values: tuple[Any, ...] = (
            (event,) if isinstance(event, DiscreteLoss) else tuple(event)
        )
        if isinstance(values[0], DiscreteLoss):
            loss = values[0]
            values = (0.0, 1.0, *values[1:])
        rate, sigma, count = values if len(values) == 3 else (*values, 1)
        return (_number(rate), _number(sigma), _number(count)), loss
    raise InvalidInput(f"events[{i}] must be {_FORM}, got {shown(event)}", "events")


def _number(value: Any) -> float:
    """Return a number of any library, such as a tensor of one entry, as a float."""
    if isinstance(value, str | bytes | bool | np.bool_):
        raise TypeError
    return float(value)
