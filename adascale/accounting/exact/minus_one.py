"""Moments of rounds of finitely many losses, with the 1 taken out before anything is rounded (:ref:`app-exact`)."""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from adascale.accounting.exact.moments import MOST_WORK, ULP, ComplexArray
from adascale.accounting.exact.rounds import Atoms, Line, Rounds
from adascale.accounting.kernels import FloatArray

_TERMS = 18  # of the Taylor series where |z y| <= 1, whose remainder is 1 / 18!
_RATIO = 4.0  # of |z| on a segment of the line
_MOST_POINTS = 60_000  # on the line: some seconds for a round of a thousand losses


def excess(atom: Atoms, tilt: float, add: bool, h: float, count: int) -> tuple[ComplexArray, FloatArray]:
    """Compute V = M(z) - 1 at s = tilt + i k h, k < count, where z = 1 + s (add) or -s, and a bound on its error."""
    s = tilt + 1j * h * np.arange(count)
    z = 1 + s if add else -s
    size, sign = np.maximum(np.abs(z), 1.0), 1.0 if add else -1.0
    value = np.asarray(-z * atom.lost, dtype=np.complex128)
    off: FloatArray = np.abs(z) * (atom.lost_off + 4 * ULP * atom.lost)
    y, p, growth = atom.loss, atom.mass, np.expm1(atom.loss)
    first = 0
    while first < count:
        last = int(np.searchsorted(size, _RATIO * size[first], "right"))
        part, reach = slice(first, last), float(size[last - 1])
        near = np.abs(y) * reach <= 1
        # e^{zy} - 1 - z (e^y - 1) = s (s + 1) sum of (1 + z + ... + z^{k-2}) y^k / k!, from k = 2
        weight, scaled, power = p[near] * y[near] ** 2, y[near] * reach, z[part] / reach
        total, ladder, factor = np.zeros(last - first, dtype=complex), np.ones(last - first, dtype=complex), 1.0
        moment = weight.copy()
        for k in range(2, _TERMS + 1):
            factor /= k
            total += ladder * (factor * float(moment.sum()))
            moment *= scaled
            ladder = power * ladder + reach ** (1.0 - k)
        kernel = s[part] * (s[part] + 1)
        value[part] += kernel * total
        moved = 2.8 * (p * (np.abs(y) + atom.loss_off) * atom.loss_off)[near].sum()
        off[part] += np.abs(kernel) * float((weight * (atom.mass_off[near] + 72 * ULP)).sum() + moved)
        if not reach * float(atom.loss_off.max()) < 0.01:
            off[part] = math.inf
        far = ~near
        if far.any():
            y_far, p_far, more, less = y[far], p[far], atom.mass_off[far], atom.loss_off[far]
            grown = p_far * np.exp(z[0].real * y_far)
            turned, lost = _turned(grown, sign * h * y_far, first, last)
            value[part] += turned - (float(p_far.sum()) + z[part] * float((p_far * growth[far]).sum()))
            constant = grown * (more + (lost + 16) * ULP) + p_far * (more + 32 * ULP)
            slope = p_far * np.abs(growth[far]) * (more + 36 * ULP) + 1.2 * ULP * grown * np.abs(y_far)
            slope += 1.02 * less * (grown + p_far * np.exp(y_far))
            off[part] += float(constant.sum()) + np.abs(z[part]) * float(slope.sum())
        first = last
    return value, off


def _turned(weight: FloatArray, angle: FloatArray, first: int, last: int) -> tuple[ComplexArray, float]:
    """Sum weight * e^{i k angle} for first <= k < last; bound the loss in units of the sum of the weights."""
    stride = math.isqrt(last - first) + 1
    coarse = np.arange(first, last, stride)[:, None] * angle
    fine = angle[:, None] * np.arange(stride)
    row, column = weight * (np.cos(coarse) + 1j * np.sin(coarse)), np.cos(fine) + 1j * np.sin(fine)
    block = math.isqrt(weight.size) + 1
    total = np.zeros((row.shape[0], stride), dtype=complex)
    for i in range(0, weight.size, block):
        total += row[:, i : i + block] @ column[i : i + block]
    return total.ravel()[: last - first], 1.5 * block + weight.size / block


def line_of_atoms(rounds: Rounds, tilt: float, add: bool, h: float, count: int) -> Line:
    """Compute (G - 1) / G(tilt) on the line in place of the moments' shares."""
    failed = Line(math.nan, np.ones(count, dtype=complex), math.inf, np.full(count, math.inf))
    if count > _MOST_POINTS or not sum(atom.loss.size for atom, _ in rounds.atoms) * count < MOST_WORK:
        return failed
    log, off, known = np.zeros(count, dtype=complex), np.zeros(count), np.ones(count, dtype=bool)
    top = np.zeros(count)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for atom, number in rounds.atoms:
            v, v_off = excess(atom, tilt, add, h, count)
            size, modulus = np.abs(v), np.abs(1 + v)
            near = 0.5 * np.log1p(v.real * (2 + v.real) + v.imag**2)
            each = np.where(size < 0.5, near, np.log(modulus)) + 1j * np.arctan2(v.imag, 1 + v.real)
            log += number * each
            known &= v_off < 0.04 * modulus
            top += number * np.log(modulus + v_off)
            rounding = 4 * size * (2 + size) / modulus**2 + (4 + len(rounds.atoms)) * np.abs(each)
            off += number * (1.03 * v_off / modulus + ULP * rounding)
        lead = float(log[0].real)
        if not (known[0] and off[0] < 0.05 and abs(lead) < 690):
            return failed
        x, angle, modulus = log.real, log.imag, np.exp(log.real - lead)
        if lead > 1:
            share = modulus * (np.cos(angle) + 1j * np.sin(angle)) - math.exp(-lead)
            rounding = modulus * (8 + np.abs(log) + lead) + 4
        else:
            share = np.expm1(x) * np.cos(angle) - 2 * np.sin(0.5 * angle) ** 2 + 1j * np.exp(x) * np.sin(angle)
            share *= math.exp(-lead)
            rounding = 15 * np.abs(log) * np.exp(np.maximum(x, 0.0) - lead)
        sure = modulus * np.expm1(np.minimum(off, 700.0)) + ULP * rounding
        unsure = modulus + 1.1 * np.exp(top - lead) + 16 * ULP * most(lead)
        share_off = np.minimum(np.where(known, np.minimum(sure, unsure), unsure), np.abs(share) + most(lead))
    return Line(lead, share, float(off[0]), share_off)


def log_moment_above(rounds: Rounds, c: float) -> float:
    """Bound ln M(c) from above; each term is off by at most the largest relative error of all."""
    total = 0.0
    for atom, number in rounds.atoms:
        exponent = np.log(atom.mass) + c * atom.loss
        off = atom.mass_off + abs(c) * (atom.loss_off + 4 * ULP * np.abs(atom.loss)) + 4 * ULP * np.abs(exponent)
        value = float(logsumexp(exponent))
        total += number * (value + 1.05 * float(off.max()) + ULP * (atom.loss.size + 8 + 4 * abs(value)))
        if not off.max() < 0.04:
            return math.inf
    return total + ULP * len(rounds.atoms) * abs(total)


def most(lead: float) -> float:
    """Bound |G - 1| / G(tilt) on the line, as |G| is at most G(tilt), known to five per cent."""
    return 1.1 * (1 + math.exp(-lead))


def apart(rounds: Rounds) -> float:
    """Bound the total variation of the atoms, in the direction in which it is larger."""
    total = 0.0
    for atom, n in rounds.atoms:
        change = np.maximum(-np.expm1(atom.loss), 0.0) + 2 * atom.loss_off
        total += n * float((atom.mass * (1 + atom.mass_off) * change).sum())
    return min(total * (1 + 1e-9), 1.0)


def log_moment_of_atoms(rounds: Rounds) -> Callable[[FloatArray, float], FloatArray]:
    """Return a function that approximates ln M at orders c."""
    loss, mass = (np.concatenate(each) for each in zip(*(atom[:2] for atom, _ in rounds.atoms), strict=True))
    start = np.cumsum([0, *(atom.loss.size for atom, _ in rounds.atoms)])[:-1]
    number = np.array([n for _, n in rounds.atoms])

    def log_moment(c: FloatArray, digits: float) -> FloatArray:
        excess = np.add.reduceat(mass * np.expm1(np.multiply.outer(c, loss)), start, axis=-1)
        return np.asarray(np.log1p(excess) @ number)

    return log_moment
