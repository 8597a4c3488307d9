"""Rounds of finitely many losses: made from sampled ones, from below or above, and their moments (:ref:`app-exact`).

Sampled rounds are replaced by such rounds where samples are rare; moments are taken without their 1.
"""

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
from adascale.accounting.exact.rounds import MOVED, TOO_MUCH, Atoms, Line, Rounds
from adascale.checks import FloatArray
from adascale.errors import CannotCertify

_START = -9.5  # the null has a mass of 1e-21 below this
_WIDEST = 0.03  # largest width of a cell, in standard deviations
_FARTHEST = 37.0  # up to here the mass of a cell of the null keeps all its digits
_RULE = np.polynomial.legendre.leggauss(12)
_MOST_ENERGY = 100.0  # of a round that is cut
_TERMS = 18  # of the Taylor series where |z y| <= 1, whose remainder is 1 / 18!
_RATIO = 4.0  # of |z| on a segment of the line
_NOTHING = -50.0  # ln of a G that may count as 0, which is 2e-22
_ZERO = -1000.0  # and what its ln counts as
_MOST_POINTS = 60_000  # on the line: some seconds for a round of a thousand losses


def discretised(
    rounds: Rounds,
    above: bool,
    reach: float,
    *,
    width: float,
    log_lost: float,
    seldom: float,
    most: int,
) -> Rounds:
    """Discretise: if ``above``, delta plus infinite masses does not fall; else delta does not rise.

    The last cell of a round begins where at most e^log_lost can be lost, or already at a loss of ``reach`` if the
    null has larger ones in ``seldom`` of all schedules at most. At most about ``most`` distinct rounds remain.
    """
    if rounds.u.max() > _MOST_ENERGY:
        raise CannotCertify(TOO_MUCH)
    end = max(-float(ndtri_exp(min(log_lost - math.log(rounds.expected), -0.7))), 0.0)
    # u was rounded, and delta increases with it
    factor = 1 + (4 if above else -4) * MOVED
    kinds = np.stack(gathered(rounds, above, most)[:3], axis=1)
    atoms = []
    for q, u, n in kinds.tolist():
        last = min(end, _end(q, u, reach, seldom / (n * len(kinds))))
        atoms.append((atoms_of(q, factor * u, above, width, last), n))
    none = np.empty(0)
    return Rounds(none, none, none, rounds.gaussian, rounds.atoms + tuple(atoms))


def _end(q: float, u: float, reach: float, chance: float) -> float:
    """Find beyond the mean of the mixture where the loss exceeds ``reach`` and has this chance under the null."""
    root = math.sqrt(u)
    log_growth = reach if reach > 30 else math.log(math.expm1(reach) + q)
    x = (log_growth - math.log(q)) / root + 0.5 * root
    seldom = -float(ndtri_exp(math.log(min(chance, 0.5))))
    return max(x - root, seldom - root, 0.0)


def gathered(rounds: Rounds, above: bool, most: int) -> Rounds:
    """Replace many energies by few that are no smaller, or no larger: delta increases with each."""
    most = max(most // np.unique(rounds.rate).size, 1)

    def gather(u: FloatArray, n: FloatArray) -> tuple[FloatArray, FloatArray]:
        if u.size <= most:
            return u, n
        # steps are shorter where more depends on them; that the power is 3 is by trial
        growth = np.expm1(np.minimum(u, 50.0)) / math.expm1(min(u[-1], 50.0))
        gap = np.diff(np.log(u), prepend=math.log(u[0]))
        place = np.cumsum(np.sqrt(n * growth**3 * gap))
        bucket = np.ceil(place / place[-1] * (most - 1))
        first = np.flatnonzero(np.diff(bucket, prepend=-1.0))
        last = np.append(first[1:], u.size) - 1
        return u[last if above else first], np.add.reduceat(n, first)

    return rounds.replace_rates(gather)


class Cells(NamedTuple):
    """Cells of x = L / sqrt(u) + sqrt(u) / 2, which is standard normal under the null."""

    u: float
    root: float
    ends: FloatArray
    half: FloatArray  # half their widths
    nodes: FloatArray  # of a rule in each, in a row
    density: FloatArray  # of the null at the nodes, times the weights of the rule
    left: float  # the mass of the null below the first cell
    right: float  # and beyond the last one
    log_low: float  # ln of the mean of e^L below the first cell
    log_high: float  # and beyond the last one


def cells_of(u: float, width: float, end: float) -> Cells:
    """Cut x into cells no wider than ``width`` in L, up to ``end`` under the mixture."""
    root = math.sqrt(u)
    if end + root > _FARTHEST:
        raise CannotCertify(
            "sampling is rare, and the masses that matter are beyond floating point"
        )
    size = math.ceil((end + root - _START) / min(width / root, _WIDEST)) + 1
    x = np.linspace(_START, end + root, size)
    half = 0.5 * np.diff(x)[:, None]
    nodes = x[:-1, None] + half * (1 + _RULE[0])
    density = half * _RULE[1] * np.exp(-0.5 * nodes * nodes) / math.sqrt(2 * math.pi)
    left = float(ndtr(x[0]))
    right = float(ndtr(-x[-1]))
    log_low = float(log_ndtr(x[0] - root) - log_ndtr(x[0]))
    log_high = float(log_ndtr(root - x[-1]) - log_ndtr(-x[-1]))
    return Cells(u, root, x, half, nodes, density, left, right, log_low, log_high)


def atoms_of(q: float, u: float, above: bool, width: float, end: float) -> Atoms:
    """Cut L into cells: if ``above``, spread each to its ends (raising delta), else put it at its mean (lowering)."""
    cells = cells_of(u, width, end)
    mass, growth, at = _spread_to_ends(cells) if above else _put_at_means(cells)
    loss = np.log1p(q * growth)
    root = cells.root
    share_of = q * np.exp(np.minimum(root * at - 0.5 * u, 700.0)) * np.exp(-loss)
    size = share_of * (4 + 4 * root * np.abs(at) + u + at * at)
    size += np.abs(loss) / min(2 * (1 - q), 1.0)
    loss_off = 32 * ULP * size
    mass_off = ULP * (32 + 2 * at * at)
    if not above:
        return Atoms(loss, mass, loss_off, mass_off, np.zeros(2), np.zeros(2))
    first = cells.ends[0]
    last = cells.ends[-1]
    # below the first cell two masses are a difference
    mass_off[:2] += 7 * (first - root) ** 2 * ULP * cells.left / mass[:2]
    tail = q * float(ndtr(root - last))
    lost = -tail * math.expm1(root * last - 0.5 * u - cells.log_high)
    lost_off = tail * ULP * (64 + 5 * last**2)
    infinite = np.array([lost, 0.0])
    return Atoms(loss, mass, loss_off, mass_off, infinite, np.array([lost_off, 0.0]))


def replaced(rounds: Rounds, delta: float) -> Rounds:
    """Discretise rounds of batches of fixed size, in one of which a sample may be replaced; delta does not fall."""
    log_lost = math.log(1e-4 * delta)
    above = discretised(
        rounds, True, 600.0, width=0.01, log_lost=log_lost, seldom=1e-300, most=200
    )
    atoms = tuple((symmetric(atom), n) for atom, n in above.atoms)
    return above._replace(atoms=atoms)


def symmetric(atom: Atoms) -> Atoms:
    """Return the atoms whose losses above 0 are these in both directions, and whose other losses are 0.

    The mass at 0 is in no moment without its 1, and so its error is not needed.
    """
    above = atom.subset(atom.loss + atom.loss_off > 0)
    y, p, y_off, p_off = above[:4]
    mixture = p * np.exp(y)
    rest = 1 - float(atom.infinite[0]) - math.fsum(p) - math.fsum(mixture)
    if not rest > 0:
        raise CannotCertify("half of the losses are above 0")
    size = y.size
    off = np.concatenate([(p_off + y_off * (1 + p_off) + 8 * ULP)[::-1], [0.0], p_off])
    return Atoms(
        np.concatenate([-y[::-1], [0.0], y]),
        np.concatenate([mixture[::-1], [rest], p]),
        np.insert(np.concatenate([y_off[::-1], y_off]), size, 0.0),
        off,
        np.repeat(atom.infinite[0], 2),
        np.repeat(atom.infinite_off[0], 2),
    )


def _spread_to_ends(cells: Cells) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return masses at all ends of cells and at no likelihood, where e^L keeps its mean; e^L - 1; and x."""
    x = cells.ends
    root = cells.root
    u = cells.u
    lengths = root * cells.half
    share = np.expm1(lengths * (1 + _RULE[0])) / np.expm1(2 * root * cells.half)
    mass = np.zeros(x.size + 1)
    mass[1:-1] += (cells.density * (1 - share)).sum(axis=1)
    mass[2:] += (cells.density * share).sum(axis=1)
    # ln of the share of the first cell's upper end
    first = cells.log_low - root * x[0] + 0.5 * u
    mass[0] = -cells.left * math.expm1(first)
    mass[1] += cells.left * math.exp(first)
    mass[-1] += cells.right
    if not mass[:2].min() > 0:
        raise CannotCertify(
            "a round has so much noise that the mass of its first cell is lost in rounding"
        )
    growth = np.concatenate([[-1.0], np.expm1(root * x - 0.5 * u)])
    return mass, growth, np.concatenate([x[:1], x])


def _put_at_means(cells: Cells) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the masses of all cells and of what is beyond, the mean of e^L - 1 in each, and x near it."""
    mass = np.concatenate([[cells.left], cells.density.sum(axis=1), [cells.right]])
    growth = np.expm1(cells.root * cells.nodes - 0.5 * cells.u)
    mean = (cells.density * growth).sum(axis=1) / mass[1:-1]
    low = math.expm1(cells.log_low)
    high = math.expm1(cells.log_high)
    growth = np.concatenate([[low], mean, [high]])
    return mass, growth, np.concatenate([cells.ends, cells.ends[-1:]])


class Segment(NamedTuple):
    """Some points of the line s = tilt + i k h, whose moduli of z are alike; the same for all atoms."""

    first: int
    step: float  # from the imaginary part of one z to that of the next
    z: ComplexArray  # 1 + s (add) or -s
    kernel: ComplexArray  # s (s + 1) = z (z - 1)
    reach: float  # the largest |z|, 1 or more
    ladder: ComplexArray  # (1 + z + ... + z^{k-2}) / (k! reach^{k-2}) for k = 2 ... _TERMS, one in each row


def segments(tilt: float, add: bool, h: float, count: int) -> list[Segment]:
    """Divide the line for :func:`moment_less_one`."""
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


def moment_less_one(
    atom: Atoms, line: list[Segment]
) -> tuple[ComplexArray, FloatArray]:
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
    """Sum p (e^{zy} - 1 - z (e^y - 1)) over atoms near 0 by its series; take off infinite losses."""
    # e^{zy} - 1 - z (e^y - 1) = s (s + 1) sum of (1 + z + ... + z^{k-2}) y^k / k!, from k = 2
    total = (moment[:, None] * part.ladder).sum(axis=0)
    # masses on no atom are missing in the sums of p e^y and of p
    missing = np.stack([part.z, 1 - part.z])
    value = part.kernel * total - (atom.infinite[:, None] * missing).sum(axis=0)
    y, p, y_off, p_off = atom[:4]
    moved = 2.8 * (p * (1 + p_off) * (np.abs(y) + y_off) * y_off).sum()
    size = float((p * y**2 * (p_off + 72 * ULP)).sum() + moved)
    off = np.abs(part.kernel) * size
    of_infinite = atom.infinite_off + 4 * ULP * atom.infinite
    return value, off + (of_infinite[:, None] * np.abs(missing)).sum(axis=0)


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
        v, v_off = moment_less_one(atom, _until(line, end))
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
    unsure = modulus + 1.1 * np.exp(log_above - lead) + 16 * ULP * largest_share(lead)
    share_off = np.where(is_known, np.minimum(sure, unsure), unsure)
    share_off = np.minimum(share_off, np.abs(share) + largest_share(lead))
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
        (v,), (off,) = moment_less_one(atom, line)
        above = float(v.real + off)
        if not math.isfinite(above):
            return math.inf
        log_moment = math.log1p(above)
        total += number * log_moment
        size += number * abs(log_moment)
    return total + ULP * (len(rounds.atoms) + 8) * size


def largest_share(lead: float) -> float:
    """Bound |G - 1| / G(tilt) on the line, as |G| is at most G(tilt), known to five per cent."""
    return 1.1 * (1 + math.exp(-lead))
