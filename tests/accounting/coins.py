"""Schedules whose exact delta is known without quadrature: rounds of two outcomes, with or without a Gaussian one."""

import mpmath as mp
import numpy as np

from adascale.accounting import interval
from adascale.accounting.exact import rounds

from .exact import gaussian_delta

ADD, REMOVE = interval.DIRECTIONS
RISING, FALLING, EVEN = (0.8, 1.6), (1 / 1.6, 1 / 0.8), (0.75, 1 / 0.75)
"""Likelihood ratios of both outcomes: the larger loss is that of the mixture, of the null, of both alike."""
NUMBER, MU = 10, 0.4


def only(energy, *atoms):
    """A schedule without sampled rounds."""
    return rounds.Rounds(*np.empty((3, 0)), energy, atoms)


def sampled(q, u, count, energy=0.0):
    """Kinds of sampled rounds, of one rate and count or of many."""
    kinds = np.broadcast_arrays(q, np.atleast_1d(u), count)
    return rounds.Rounds(*(np.array(each, dtype=float) for each in kinds), energy)


def infinite(lost, off=0.0):
    """Mass of the mixture on no atom, and a bound on its error."""
    return np.array([lost, 0.0]), np.array([off, 0.0])


def coins(ratios=RISING, mu=MU, lost=0.0):
    """Equal rounds of two outcomes, whose mean ratio is 1 but for what is lost, and a Gaussian one."""
    low, high = ratios
    mass = np.array([high - 1 + lost, 1 - lost - low]) / (high - low)
    atom = rounds.Atoms(np.log(ratios), mass, *np.full((2, 2), 1e-15), *infinite(lost))
    return only(mu * mu, (atom, float(NUMBER)))


def delta_of_coins(epsilon, direction, ratios=RISING, lost=0.0):
    """The mean of the Gaussian delta over the losses of all other rounds."""
    low, high = map(mp.mpf, ratios)
    p = (1 - mp.mpf(lost) - low) / (high - low)
    total = mp.mpf(0)
    for k in range(NUMBER + 1):
        ratio = high**k * low ** (NUMBER - k)
        mass = mp.binomial(NUMBER, k) * p**k * (1 - p) ** (NUMBER - k)
        if direction == ADD:
            total += mass * ratio * gaussian_delta(MU, epsilon - mp.log(ratio))
        else:
            total += mass * gaussian_delta(MU, epsilon + mp.log(ratio))
    return float(total)


def most(epsilon, **kind):
    return max(delta_of_coins(epsilon, name, **kind) for name in interval.DIRECTIONS)


def is_between(found, delta, **kind):
    """Whether a bracket of epsilon is one, to the rounding of the reference."""
    _, lower, upper, _ = found
    return most(lower, **kind) >= delta * (1 - 1e-12) and most(
        upper, **kind
    ) <= delta * (1 + 1e-12)


def equal(rate, sigma, count=1):
    return rounds.rounds_of(np.full(count, rate), np.full(count, sigma))
