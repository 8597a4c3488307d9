"""Rounds of finitely many losses, given or bounding rare samples: moments without their 1 (:ref:`app-exact`)."""

import math
from typing import NamedTuple

import numpy as np

from adascale.accounting.exact.moments import (
    MOST_WORK,
    QUIET,
    ULP,
    ComplexArray,
    sum_of_waves,
)
from adascale.accounting.exact.rounds import TOO_MUCH, Atoms, Line, Rounds
from adascale.checks import FloatArray
from adascale.errors import CannotCertify

_TERMS = 18  # of the Taylor series where |z y| <= 1, whose remainder is 1 / 18!
_RATIO = 4.0  # of |z| on a segment of the line
_NOTHING = -50.0  # ln of a G that may count as 0, which is 2e-22
_ZERO = -1000.0  # and what its ln counts as
_MOST_POINTS = 60_000  # on the line: some seconds for a round of a thousand losses


class Segment(NamedTuple):
    """Some points of the line s = tilt + i k h, whose moduli of z are alike; the same for all atoms."""

    first: int
    step: float  # from the imaginary part of one z to that of the next
    z: ComplexArray  # 1 + s (add) or -s
    kernel: ComplexArray  # s (s + 1) = z (z - 1)
    reach: float  # the largest |z|, 1 or more
    ladder: ComplexArray  # (1 + z + ... + z^{k-2}) / (k! reach^{k-2}) for k = 2 ... _TERMS, one in each row


def segments(tilt: float, add: bool, h: float, count: int) -> list[Segment]:
    """Divide the line for :func:`excess`."""
    s = np.asarray(tilt + 1j * h * np.arange(count), dtype=np.complex128)
    z, step = (1 + s, h) if add else (-s, -h)
    size = np.maximum(np.abs(z), 1.0)
    parts = []
    first = 0
    factorials = np.cumprod(np.arange(1.0, _TERMS + 1))[1:, None]
    while first < count:
        last = int(np.searchsorted(size, _RATIO * size[first], "right"))
        part = slice(first, last)
        reach = float(size[last - 1])
        power = z[part] / reach
        ladder = np.ones((_TERMS - 1, last - first), dtype=complex)
        for k in range(2, _TERMS):
            ladder[k - 1] = power * ladder[k - 2] + reach ** (1.0 - k)
        ladder /= factorials
        kernel = s[part] * (s[part] + 1)
        parts.append(Segment(first, step, z[part], kernel, reach, ladder))
        first = last
    return parts


def _until(line: list[Segment], end: int) -> list[Segment]:
    """Return the first points of a line."""
    parts = []
    for part in line:
        if part.first < end:
            first = slice(end - part.first)
            ladder = part.ladder[:, first]
            parts.append(
                part._replace(z=part.z[first], kernel=part.kernel[first], ladder=ladder)
            )
    return parts


def excess(atom: Atoms, line: list[Segment]) -> tuple[ComplexArray, FloatArray]:
    """Compute V = M(z) - 1 on a line, and a bound on its error."""
    y = atom.loss
    p = atom.mass
    # p y^2 (y / unit)^{k-2}, from k = 2, to be summed over the atoms near 0; division by a power of 2 is exact
    unit = 2.0 ** -math.ceil(math.log2(line[-1].reach))
    terms = np.empty((_TERMS - 1, y.size))
    terms[0] = p * y**2
    for k in range(_TERMS - 2):
        np.multiply(terms[k], y / unit, out=terms[k + 1])
    values = []
    offs = []
    for part in line:
        reach = part.reach
        first = y.searchsorted(-1 / reach, "left")
        near = slice(first, y.searchsorted(1 / reach, "right"))
        moment = terms[:, near].sum(axis=1) * (reach * unit) ** np.arange(_TERMS - 1)
        value, off = _near_atoms(atom.subset(near), part, moment)
        if not reach * float(atom.loss_off.max()) < 0.01:
            off[:] = math.inf
        far = np.ones(y.size, dtype=bool)
        far[near] = False
        if far.any():
            far_value, far_off = _far_atoms(atom.subset(far), part)
            value += far_value
            off += far_off
        values.append(value)
        offs.append(off)
    return np.concatenate(values), np.concatenate(offs)


def _near_atoms(
    atom: Atoms, part: Segment, moment: FloatArray
) -> tuple[ComplexArray, FloatArray]:
    """Sum p (e^{zy} - 1 - z (e^y - 1)) over atoms near 0 by its series; add what is lost."""
    # e^{zy} - 1 - z (e^y - 1) = s (s + 1) sum of (1 + z + ... + z^{k-2}) y^k / k!, from k = 2
    total = (moment[:, None] * part.ladder).sum(axis=0)
    value = part.kernel * total - part.z * atom.lost - (1 - part.z) * atom.null_lost
    y, p, y_off, p_off = atom[:4]
    moved = 2.8 * (p * (1 + p_off) * (np.abs(y) + y_off) * y_off).sum()
    size = float((p * y**2 * (p_off + 72 * ULP)).sum() + moved)
    off = np.abs(part.kernel) * size
    off += np.abs(1 - part.z) * (atom.null_lost_off + 4 * ULP * atom.null_lost)
    return value, off + np.abs(part.z) * (atom.lost_off + 4 * ULP * atom.lost)


def _far_atoms(atom: Atoms, part: Segment) -> tuple[ComplexArray, FloatArray]:
    """Sum p (e^{zy} - 1 - z (e^y - 1)) over atoms by its terms."""
    y, p, y_off, p_off = atom[:4]
    growth = np.expm1(y)
    grown = p * np.exp(part.z[0].real * y)
    start = part.first * (part.step * y)
    weight = grown * (np.cos(start) + 1j * np.sin(start))
    waves, lost = sum_of_waves(weight, y, part.step, part.z.size)
    value = waves - (float(p.sum()) + part.z * float((p * growth).sum()))
    constant = grown * (p_off + (lost + 16) * ULP) + p * (p_off + 32 * ULP)
    slope = p * np.abs(growth) * (p_off + 36 * ULP) + 1.3 * ULP * grown * np.abs(y)
    slope += 1.02 * y_off * (1 + p_off) * (grown + p * np.exp(y))
    return value, float(constant.sum()) + np.abs(part.z) * float(slope.sum())


@QUIET
def line_of_atoms(rounds: Rounds, tilt: float, add: bool, h: float, count: int) -> Line:
    """Compute (G - 1) / G(tilt) on the line in place of the moments' shares."""
    work = sum(atom.loss.size for atom, _ in rounds.atoms) * count
    if count > _MOST_POINTS or not work < MOST_WORK:
        raise CannotCertify(TOO_MUCH)
    log = np.zeros(count, dtype=complex)
    is_known = np.ones(count, dtype=bool)
    off, log_above = np.zeros((2, count))
    line = segments(tilt, add, h, count)
    end = count  # from here on the rounds so far make G nothing
    most_first = sorted(rounds.atoms, key=lambda kind: -kind[1] * kind[0].variance)
    for atom, number in most_first:
        v, v_off = excess(atom, _until(line, end))
        size = np.abs(v)
        modulus = np.abs(1 + v)
        near = 0.5 * np.log1p(v.real * (2 + v.real) + v.imag**2)
        angle = np.arctan2(v.imag, 1 + v.real)
        log_moment = np.where(size < 0.5, near, np.log(modulus)) + 1j * angle
        log[:end] += number * log_moment
        is_known[:end] &= v_off < 0.04 * modulus
        above = number * np.log(modulus + v_off)
        log_above[:end] += above
        log_above[end:] += above[0]  # a moment is largest on the real axis
        rounding = 4 * size * (2 + size) / modulus**2
        rounding = rounding + (4 + len(rounds.atoms)) * np.abs(log_moment)
        off[:end] += number * (1.03 * v_off / modulus + ULP * rounding)
        end = 1 + int(np.flatnonzero(log_above[:end] > _NOTHING).max(initial=0))
    log[end:] = _ZERO
    is_known[end:] = False
    lead = float(log[0].real)
    if not (is_known[0] and off[0] < 0.05 and abs(lead) < 690):
        raise CannotCertify(TOO_MUCH)
    share, rounding = _less_one(log, lead)
    modulus = np.exp(log.real - lead)
    sure = modulus * np.expm1(np.minimum(off, 700.0)) + ULP * rounding
    unsure = modulus + 1.1 * np.exp(log_above - lead) + 16 * ULP * most(lead)
    share_off = np.where(is_known, np.minimum(sure, unsure), unsure)
    share_off = np.minimum(share_off, np.abs(share) + most(lead))
    return Line(lead, share, float(off[0]), share_off)


def _less_one(log: ComplexArray, lead: float) -> tuple[ComplexArray, FloatArray]:
    """Compute (e^log - 1) / e^lead without cancellation, and its rounding error in units of the last place."""
    x = log.real
    angle = log.imag
    if lead > 1:
        modulus = np.exp(x - lead)
        share = modulus * (np.cos(angle) + 1j * np.sin(angle)) - math.exp(-lead)
        return share, modulus * (8 + np.abs(log) + lead) + 4
    real = np.expm1(x) * np.cos(angle) - 2 * np.sin(0.5 * angle) ** 2
    share = (real + 1j * np.exp(x) * np.sin(angle)) * math.exp(-lead)
    return share, 15 * np.abs(log) * np.exp(np.maximum(x, 0.0) - lead)


@QUIET
def log_moment_above(rounds: Rounds, tilt: float, add: bool) -> float:
    """Bound ln G(tilt) from above; inf where it is not known, as e^{z y} overflows."""
    total = 0.0
    size = 0.0
    line = segments(tilt, add, 0.0, 1)
    for atom, number in rounds.atoms:
        (v,), (off,) = excess(atom, line)
        above = float(v.real + off)
        if not math.isfinite(above):
            return math.inf
        log_moment = math.log1p(above)
        total += number * log_moment
        size += number * abs(log_moment)
    return total + ULP * (len(rounds.atoms) + 8) * size


def most(lead: float) -> float:
    """Bound |G - 1| / G(tilt) on the line, as |G| is at most G(tilt), known to five per cent."""
    return 1.1 * (1 + math.exp(-lead))
