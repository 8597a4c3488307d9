"""Replacement of a round by finitely many losses, from above or below (:ref:`app-exact`)."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from adascale.accounting.exact.moments import ULP
from adascale.accounting.exact.rounds import MOVED, TOO_MUCH, Atoms, Rounds
from adascale.checks import FloatArray
from adascale.errors import CannotCertify

_START = -9.5  # the null has a mass of 1e-21 below this
_WIDEST = 0.03  # largest width of a cell, in standard deviations
_FARTHEST = 37.0  # up to here the mass of a cell of the null keeps all its digits
_RULE = np.polynomial.legendre.leggauss(12)
_MOST_ENERGY = 100.0  # of a round that is cut


def cut(
    rounds: Rounds,
    above: bool,
    reach: float,
    *,
    width: float,
    log_lost: float,
    seldom: float,
    most: int,
) -> Rounds:
    """Discretise: if ``above``, delta plus ``lost`` does not fall; else delta does not rise.

    The last cell of a round begins where at most e^log_lost can be lost, or already at a loss of ``reach`` if the
    null has larger ones in ``seldom`` of all schedules at most. At most about ``most`` distinct rounds remain.
    """
    if max(float(u[-1]) for u in rounds.energies) > _MOST_ENERGY:
        raise CannotCertify(TOO_MUCH)
    end = max(-float(ndtri_exp(min(log_lost - math.log(rounds.expected), -0.7))), 0.0)
    # u was rounded, and delta increases with it
    factor = 1 + (4 if above else -4) * MOVED
    kinds = gathered(rounds, above, most).kinds
    atoms = []
    for q, u, n in kinds:
        last = min(end, _end(q, u, reach, seldom / (n * len(kinds))))
        atoms.append((atoms_of(q, factor * u, above, width, last), n))
    return rounds._replace(
        rates=(), energies=(), counts=(), atoms=rounds.atoms + tuple(atoms)
    )


def _end(q: float, u: float, reach: float, chance: float) -> float:
    """Find beyond the mean of the mixture where the loss exceeds ``reach`` and has this chance under the null."""
    root = math.sqrt(u)
    log_growth = reach if reach > 30 else math.log(math.expm1(reach) + q)
    x = (log_growth - math.log(q)) / root + 0.5 * root
    seldom = -float(ndtri_exp(math.log(min(chance, 0.5))))
    return max(x - root, seldom - root, 0.0)


def gathered(rounds: Rounds, above: bool, most: int) -> Rounds:
    """Replace many energies by few that are no smaller, or no larger: delta increases with each."""
    energies = []
    counts = []
    most = max(most // max(len(rounds.rates), 1), 1)
    for u, n in zip(rounds.energies, rounds.counts, strict=True):
        if u.size > most:
            # steps are shorter where more depends on them; that the power is 3 is by trial
            growth = np.expm1(np.minimum(u, 50.0)) / math.expm1(min(u[-1], 50.0))
            gap = np.diff(np.log(u), prepend=math.log(u[0]))
            place = np.cumsum(np.sqrt(n * growth**3 * gap))
            bucket = np.ceil(place / place[-1] * (most - 1))
            first = np.flatnonzero(np.diff(bucket, prepend=-1.0))
            n = np.add.reduceat(n, first)
            u = u[np.append(first[1:], u.size) - 1] if above else u[first]
        energies.append(u)
        counts.append(n)
    return rounds._replace(energies=tuple(energies), counts=tuple(counts))


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
        return Atoms(loss, mass, loss_off, mass_off, 0.0, 0.0)
    first = cells.ends[0]
    last = cells.ends[-1]
    # below the first cell two masses are a difference
    mass_off[:2] += 7 * (first - root) ** 2 * ULP * cells.left / mass[:2]
    tail = q * float(ndtr(root - last))
    lost = -tail * math.expm1(root * last - 0.5 * u - cells.log_high)
    lost_off = tail * ULP * (64 + 5 * last**2)
    return Atoms(loss, mass, loss_off, mass_off, lost, lost_off)


def replaced(rounds: Rounds, delta: float) -> Rounds:
    """Discretise rounds of batches of fixed size, in one of which a sample may be replaced; delta does not fall."""
    log_lost = math.log(1e-4 * delta)
    above = cut(
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
    rest = 1 - atom.lost - math.fsum(p) - math.fsum(mixture)
    if not rest > 0:
        raise CannotCertify("half of the losses are above 0")
    size = y.size
    off = np.concatenate([(p_off + y_off * (1 + p_off) + 8 * ULP)[::-1], [0.0], p_off])
    return Atoms(
        np.concatenate([-y[::-1], [0.0], y]),
        np.concatenate([mixture[::-1], [rest], p]),
        np.insert(np.concatenate([y_off[::-1], y_off]), size, 0.0),
        off,
        *2 * (atom.lost, atom.lost_off),
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
