"""Epsilon by a privacy loss distribution, which shares no code with the package.

The losses of a round lie on a grid: every cell is spread to its ends with mass and mean ratio kept, which raises delta.
The masses are tilted by an exponential before they are convolved by FFTs of long doubles, so that the tail keeps its
digits, and two grids are extrapolated.
"""

import numpy as np
from scipy import fft
from scipy.special import ndtr

LONG = np.longdouble


def round_on_grid(q, sigma, step, most):
    """First index and mixture masses of one round against its null; the last point takes what lies beyond."""
    root = 1 / sigma
    first = int(np.floor(np.log1p(-q) / step)) if q < 1 else int(np.floor(-most / step))
    y = step * np.arange(first, int(np.ceil(most / step)) + 1)
    ratio = np.expm1(y) / q + 1  # e^L
    x = np.where(ratio > 0, np.log(np.maximum(ratio, 1e-300)) / root + 0.5 * root, -40.0)

    def masses(shift):
        low, high = x[:-1] - shift, x[1:] - shift
        return np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)).astype(LONG)

    null, sampled = masses(0.0), masses(root)
    gain = np.expm1(LONG(y))
    excess = LONG(q) * (sampled - null) - gain[:-1] * null  # of the mixture over the lower end
    right = np.clip(excess / np.diff(gain), 0, null)
    mass = np.zeros(y.size, dtype=LONG)
    mass[:-1] += null - right
    mass[1:] += right
    mass = mass * (1 + gain)
    mass[-1] += LONG((1 - q) * ndtr(-x[-1]) + q * ndtr(root - x[-1]))
    return first, mass


def epsilon(kinds, delta, step, tilt, span, most):
    """Epsilon of rounds (q, sigma, count) on a grid as wide as ``span``, of losses up to ``most`` in each round."""
    size = fft.next_fast_len(int(span / step))
    total, first, log_norm = np.ones(size, dtype=np.clongdouble), 0, LONG(0)
    for q, sigma, count in kinds:
        start, mass = round_on_grid(q, sigma, step, most)
        tilted = mass * np.exp(LONG(tilt * step) * np.arange(mass.size))
        norm = tilted.sum()
        total *= fft.fft(np.pad(tilted / norm, (0, size - mass.size))) ** count
        first, log_norm = first + count * start, log_norm + count * np.log(norm)
    mass = np.maximum(fft.ifft(total).real, 0)
    place = np.arange(size)
    y = step * (first + place)
    log_back = log_norm - LONG(tilt * step) * place

    def too_much(at):
        above = y > at
        return (mass[above] * np.exp(log_back[above]) * -np.expm1(at - y[above])).sum() > delta

    low, high = 0.0, float(y[-1])
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if too_much(middle) else (low, middle)
    return high


def extrapolated(kinds, delta, step, *rest):
    coarse, fine = (epsilon(kinds, delta, each, *rest) for each in (step, step / 2))
    return fine - (coarse - fine) / 3
