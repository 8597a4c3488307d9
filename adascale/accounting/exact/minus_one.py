"""Rounds of finitely many losses, given or bounding rare samples: moments without their 1 (:ref:`app-exact`)."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from adascale.accounting.exact.moments import (
    MOST_WORK,
    QUIET,
    ULP,
    ComplexArray,
    sum_of_waves,
)
from adascale.accounting.exact.rounds import MOVED, Atoms, Line, Rounds
from adascale.accounting.kernels import FloatArray
from adascale.errors import CannotCertify

_TERMS = 18  # of the Taylor series where |z y| <= 1, whose remainder is 1 / 18!
_RATIO = 4.0  # of |z| on a segment of the line
_START = -9.5  # the null has a mass of 1e-21 below this
_WIDEST = 0.03  # largest width of a cell, in standard deviations
_FARTHEST = 37.0  # up to here the mass of a cell of the null keeps all its digits
_RULE = np.polynomial.legendre.leggauss(12)
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
    z = 1 + s if add else -s
    size, found, first = np.maximum(np.abs(z), 1.0), [], 0
    while first < count:
        last = int(np.searchsorted(size, _RATIO * size[first], "right"))
        part, reach = slice(first, last), float(size[last - 1])
        power, ladder = (
            z[part] / reach,
            np.ones((_TERMS - 1, last - first), dtype=complex),
        )
        for k in range(2, _TERMS):
            ladder[k - 1] = power * ladder[k - 2] + reach ** (1.0 - k)
        ladder /= np.cumprod(np.arange(1.0, _TERMS + 1))[1:, None]
        found.append(
            Segment(
                first, h if add else -h, z[part], s[part] * (s[part] + 1), reach, ladder
            )
        )
        first = last
    return found


def excess(atom: Atoms, line: list[Segment]) -> tuple[ComplexArray, FloatArray]:
    """Compute V = M(z) - 1 on a line, and a bound on its error."""
    y, p, growth = atom.loss, atom.mass, np.expm1(atom.loss)
    # p y^2 (y / unit)^{k-2}, from k = 2, to be summed over the atoms near 0; division by a power of 2 is exact
    unit = 2.0 ** -math.ceil(math.log2(line[-1].reach))
    terms = np.empty((_TERMS - 1, y.size))
    terms[0] = p * y**2
    for k in range(_TERMS - 2):
        np.multiply(terms[k], y / unit, out=terms[k + 1])
    values, offs = [], []
    for part in line:
        z, reach = part.z, part.reach
        # e^{zy} - 1 - z (e^y - 1) = s (s + 1) sum of (1 + z + ... + z^{k-2}) y^k / k!, from k = 2
        near = slice(
            y.searchsorted(-1 / reach, "left"), y.searchsorted(1 / reach, "right")
        )
        moment = terms[:, near].sum(axis=1) * (reach * unit) ** np.arange(_TERMS - 1)
        total = (moment[:, None] * part.ladder).sum(axis=0)
        value = part.kernel * total - z * atom.lost
        moved = (
            2.8
            * (p * (1 + atom.mass_off) * (np.abs(y) + atom.loss_off) * atom.loss_off)[
                near
            ].sum()
        )
        off = np.abs(part.kernel) * float(
            (terms[0] * (atom.mass_off + 72 * ULP))[near].sum() + moved
        )
        off += np.abs(z) * (atom.lost_off + 4 * ULP * atom.lost)
        if not reach * float(atom.loss_off.max()) < 0.01:
            off[:] = math.inf
        far = np.ones(y.size, dtype=bool)
        far[near] = False
        if far.any():
            y_far, p_far, more, less = (
                y[far],
                p[far],
                atom.mass_off[far],
                atom.loss_off[far],
            )
            grown = p_far * np.exp(z[0].real * y_far)
            start = part.first * (part.step * y_far)
            waves, lost = sum_of_waves(
                grown * (np.cos(start) + 1j * np.sin(start)), y_far, part.step, z.size
            )
            value += waves - (
                float(p_far.sum()) + z * float((p_far * growth[far]).sum())
            )
            constant = grown * (more + (lost + 16) * ULP) + p_far * (more + 32 * ULP)
            slope = p_far * np.abs(growth[far]) * (
                more + 36 * ULP
            ) + 1.3 * ULP * grown * np.abs(y_far)
            slope += 1.02 * less * (1 + more) * (grown + p_far * np.exp(y_far))
            off += float(constant.sum()) + np.abs(z) * float(slope.sum())
        values.append(value)
        offs.append(off)
    return np.concatenate(values), np.concatenate(offs)


@QUIET
def line_of_atoms(rounds: Rounds, tilt: float, add: bool, h: float, count: int) -> Line:
    """Compute (G - 1) / G(tilt) on the line in place of the moments' shares."""
    failed = Line(
        math.nan, np.ones(count, dtype=complex), math.inf, np.full(count, math.inf)
    )
    if (
        count > _MOST_POINTS
        or not sum(atom.loss.size for atom, _ in rounds.atoms) * count < MOST_WORK
    ):
        return failed
    log, off, top, known = (
        np.zeros(count, dtype=complex),
        *np.zeros((2, count)),
        np.ones(count, dtype=bool),
    )
    line = segments(tilt, add, h, count)
    for atom, number in rounds.atoms:
        v, v_off = excess(atom, line)
        size, modulus = np.abs(v), np.abs(1 + v)
        near = 0.5 * np.log1p(v.real * (2 + v.real) + v.imag**2)
        each = np.where(size < 0.5, near, np.log(modulus)) + 1j * np.arctan2(
            v.imag, 1 + v.real
        )
        log += number * each
        known &= v_off < 0.04 * modulus
        top += number * np.log(modulus + v_off)
        rounding = 4 * size * (2 + size) / modulus**2 + (
            4 + len(rounds.atoms)
        ) * np.abs(each)
        off += number * (1.03 * v_off / modulus + ULP * rounding)
    lead = float(log[0].real)
    if not (known[0] and off[0] < 0.05 and abs(lead) < 690):
        return failed
    x, angle, modulus = log.real, log.imag, np.exp(log.real - lead)
    if lead > 1:
        share = modulus * (np.cos(angle) + 1j * np.sin(angle)) - math.exp(-lead)
        rounding = modulus * (8 + np.abs(log) + lead) + 4
    else:
        share = (
            np.expm1(x) * np.cos(angle)
            - 2 * np.sin(0.5 * angle) ** 2
            + 1j * np.exp(x) * np.sin(angle)
        )
        share *= math.exp(-lead)
        rounding = 15 * np.abs(log) * np.exp(np.maximum(x, 0.0) - lead)
    sure = modulus * np.expm1(np.minimum(off, 700.0)) + ULP * rounding
    unsure = modulus + 1.1 * np.exp(top - lead) + 16 * ULP * most(lead)
    share_off = np.minimum(
        np.where(known, np.minimum(sure, unsure), unsure), np.abs(share) + most(lead)
    )
    return Line(lead, share, float(off[0]), share_off)


def log_moment_above(rounds: Rounds, c: float) -> float:
    """Bound ln M(c) from above; each term is off by at most the largest relative error of all."""
    total = 0.0
    for atom, number in rounds.atoms:
        exponent = np.log(atom.mass) + c * atom.loss
        off = (
            atom.mass_off
            + abs(c) * (atom.loss_off + 4 * ULP * np.abs(atom.loss))
            + 4 * ULP * np.abs(exponent)
        )
        peak = float(exponent.max())
        value = peak + math.log(float(np.exp(exponent - peak).sum()))
        total += number * (
            value
            + 1.05 * float(off.max())
            + ULP * (atom.loss.size + 8 + 4 * abs(value))
        )
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


def log_moment_of_atoms(rounds: Rounds, c: FloatArray) -> FloatArray:
    """Approximate ln M at orders c."""
    growth = [
        (np.expm1(np.multiply.outer(c, atom.loss)) * atom.mass).sum(axis=-1)
        for atom, _ in rounds.atoms
    ]
    return np.asarray(
        sum(
            n * np.log1p(change)
            for change, (_, n) in zip(growth, rounds.atoms, strict=True)
        )
    )


def cut(rounds: Rounds, above: bool, width: float, log_lost: float) -> Rounds:
    """Discretise: if ``above``, delta plus ``lost`` (at most e^log_lost) does not fall; else delta does not rise."""
    end = max(-float(ndtri_exp(min(log_lost - math.log(rounds.expected), -0.7))), 0.0)
    factor = (
        1 + (1 if above else -1) * 4 * MOVED
    )  # u was rounded, and delta increases with it
    atoms = tuple(
        (atoms_of(q, factor * u, above, width, end), n) for q, u, n in rounds.kinds
    )
    return rounds._replace(rates=(), energies=(), counts=(), atoms=rounds.atoms + atoms)


def atoms_of(q: float, u: float, above: bool, width: float, end: float) -> Atoms:
    """Cut L into cells: if ``above``, spread each to its ends (raising delta), else put it at its mean (lowering)."""
    root = math.sqrt(u)
    if end + root > _FARTHEST:
        raise CannotCertify(
            "sampling is rare, and the masses that matter are beyond floating point"
        )
    size = math.ceil((end + root - _START) / min(width / root, _WIDEST)) + 1
    x = np.linspace(_START, end + root, size)
    half = 0.5 * np.diff(x)[:, None]
    inner = x[:-1, None] + half * (1 + _RULE[0])
    density = half * _RULE[1] * np.exp(-0.5 * inner * inner) / math.sqrt(2 * math.pi)
    left, right = float(ndtr(x[0])), float(ndtr(-x[-1]))
    # the mean of e^L below the first cell and beyond the last one, as a logarithm
    low, high = (
        float(log_ndtr(sign * (x[i] - root)) - log_ndtr(sign * x[i]))
        for i, sign in ((0, 1), (-1, -1))
    )
    lost, lost_off, cancelled = 0.0, 0.0, np.zeros(2)
    if above:
        share = np.expm1(root * half * (1 + _RULE[0])) / np.expm1(2 * root * half)
        mass = np.zeros(size + 1)
        mass[1:-1] += (density * (1 - share)).sum(axis=1)
        mass[2:] += (density * share).sum(axis=1)
        first = (
            low - root * x[0] + 0.5 * u
        )  # ln of the share of the first cell's upper end
        mass[0], mass[1], mass[-1] = (
            -left * math.expm1(first),
            mass[1] + left * math.exp(first),
            mass[-1] + right,
        )
        ratio = q * np.concatenate([[-1.0], np.expm1(root * x - 0.5 * u)])
        at = np.concatenate([x[:1], x])
        tail, top = q * float(ndtr(root - x[-1])), root * x[-1] - 0.5 * u
        if not mass[:2].min() > 0:
            raise CannotCertify(
                "a round has so much noise that the mass of its first cell is lost in rounding"
            )
        cancelled = 7 * (x[0] - root) ** 2 * ULP * left / mass[:2]
        lost, lost_off = (
            -tail * math.expm1(top - high),
            tail * ULP * (64 + 5 * x[-1] ** 2),
        )
    else:
        mass = np.concatenate([[left], density.sum(axis=1), [right]])
        mean = (density * np.expm1(root * inner - 0.5 * u)).sum(axis=1) / mass[1:-1]
        ratio = q * np.concatenate([[math.expm1(low)], mean, [math.expm1(high)]])
        at = np.concatenate([x, x[-1:]])
    loss = np.log1p(ratio)
    share_of = q * np.exp(np.minimum(root * at - 0.5 * u, 700.0)) * np.exp(-loss)
    off = (
        32 * ULP * (np.abs(loss) + share_of * (4 + 4 * root * np.abs(at) + u + at * at))
    )
    mass_off = ULP * (32 + 2 * at * at)
    mass_off[:2] += cancelled
    return Atoms(loss, mass, off, mass_off, lost, lost_off)
