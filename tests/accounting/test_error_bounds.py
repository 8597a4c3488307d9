"""Error bounds of the exact accountant: each holds, and without it an error is seen above the others.

A row names a bound by its formula.  The formula is made zero in the source of its module, which is then run afresh,
and errors are measured in multi-precision, on bad inputs of random searches.  Last, what :ref:`app-exact` assumes of
SciPy's functions is tested.
"""

import ast
import importlib.util
import inspect
import math
import types
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from scipy.special import betainc, erf, erfcx, log_ndtr, ndtr

from adascale.accounting.exact import moments
from adascale.accounting.exact.rounds import Atoms

from .coins import infinite, only, sampled
from .exact import gaussian_delta, moment

DIGIT = mp.mpf(2) ** -48  # of an energy


def changed(name, old, new):
    """The module of this name, with an expression replaced, however both are formatted."""
    spec = importlib.util.find_spec(f"adascale.accounting.exact.{name}")
    source, old = map(plain, (Path(spec.origin).read_text(), old))
    assert old in source, f"{name} has no bound {old}: name it as it is now"
    module = types.ModuleType(spec.name)
    exec(compile(source.replace(old, new), spec.origin, "exec"), vars(module))
    return module


def plain(source):
    return ast.unparse(ast.parse(source))


def within(low, truth, high, value):
    """What is above and below a value, and how far the bounds are from it."""
    value = mp.mpf(float(value))
    return [
        (truth - value, mp.mpf(float(high)) - value),
        (value - truth, value - mp.mpf(float(low))),
    ]


def closed_form(gaussian, energy, epsilon):
    """Energies are known to 48 binary digits."""
    value, low, high = gaussian.delta(energy, epsilon)
    for way in (-1, 1):
        yield from within(
            low,
            gaussian_delta(mp.sqrt(energy * (1 + way * DIGIT)), epsilon),
            high,
            value,
        )


def cells(discrete, q, u, end, width):
    """First and last atoms and some between, above and below; what is beyond the last cell is lost."""
    root = mp.sqrt(mp.mpf(u))
    for above in (True, False):
        atom = discrete.atoms_of(q, u, above, width, end)
        last = atom.loss.size - 1
        inner = np.linspace(-9.5, end + math.sqrt(u), last).tolist()
        points = [-mp.inf, *map(mp.mpf, inner), mp.inf]
        ratio = [mp.exp(root * x - root**2 / 2) for x in points[:-1]]

        def mass(i, shift=0, points=points):
            low, high = points[i] - shift, points[i + 1] - shift
            low, high = (-high, -low) if low > 0 else (low, high)
            return mp.ncdf(high) - mp.ncdf(low)

        def to_upper_end(i, mass=mass, ratio=ratio, last=last):
            if i in (-1, last):
                return 0
            return (mass(i, root) - ratio[i] * mass(i)) / (ratio[i + 1] - ratio[i])

        # where the ratio leaves 1
        bend = max(2, min(int(np.searchsorted(atom.loss, 1e-3)), last - 5))
        for i in {0, 1, *range(2, last, last // 9), *range(bend, bend + 5), last}:
            if above:
                right = to_upper_end(i - 1) + mass(i) - to_upper_end(i)
                growth = ratio[i] - 1
            else:
                right, growth = mass(i), mass(i, root) / mass(i) - 1
            yield abs(atom.loss[i] - mp.log(1 + q * growth)), atom.loss_off[i]
            yield abs(1 - right / atom.mass[i]), atom.mass_off[i]
        if above:
            lost = q * (mass(last, root) - ratio[last] * mass(last))
            yield abs(atom.infinite[0] - lost), atom.infinite_off[0]


def excess(discrete, loss, tilt, h, add, k, lost=0.0):
    """One loss at z = 1 + s or -s, s = tilt + i k h, whose digits are what it is off by in the bound."""
    atom = Atoms(*(np.array([each]) for each in (loss, 0.3, 0.0, 0.0)), *infinite(lost))
    value, off = discrete.moment_less_one(atom, discrete.segments(tilt, add, h, k + 1))
    s, y = mp.mpc(tilt, k * mp.mpf(h)), mp.mpf(loss)
    z = 1 + s if add else -s
    truth = mp.mpf(0.3) * (mp.expm1(z * y) - z * mp.expm1(y)) - z * mp.mpf(lost)
    yield abs(mp.mpc(complex(value[k])) - truth), off[k]


def apart(rounds, loss, loss_off, mass_off):
    """The total variation of two outcomes, of which one is known to so many digits."""
    atom = rounds.Atoms(
        np.array([loss, 1.0]),
        np.array([0.3, 0.7]),
        *np.array([[loss_off, 0], [mass_off, 0]]),
        *infinite(0.0),
    )
    yield (
        0.3 * (1 + mp.mpf(mass_off)) * -mp.expm1(mp.mpf(loss) - loss_off),
        rounds.Rounds(*np.empty((3, 0)), 0.0, ((atom, 1.0),)).variation_of_atoms,
    )


def real_moment(moments, u, q, c, digits):
    value, off = moments.log_moments(u, q, c, digits)
    yield abs(mp.expm1(float(value) - mp.log(moment(u, q, c)))), off


def product(rounds, off, drift, way):
    """Three rounds whose moments are e^{z (z - 1) u / 2}, off by as much as they say, against each other."""
    c, u, k = 3.0, np.array([0.01, 0.03, 0.1]), np.arange(4)
    z = c + 0.7j * k
    truth = np.exp(0.5 * u[:, None] * (z * (z - 1) - c * (c - 1)))
    wrong = truth - way * truth / np.abs(truth) * (off + drift * k) * np.where(
        k == 0, -1, 1
    )
    rounds.complex_moments = lambda *_: (
        wrong,
        0.5 * u * c * (c - 1),
        np.full(3, off),
        np.full(3, drift),
    )
    found = rounds.moments_on_line(sampled(0.5, u, 1), c, 0.7, 4, 27.0)
    yield from zip(np.abs(found.share - truth.prod(axis=0)), found.off, strict=True)


def interpolated(rounds, low, width, q, c, digits, off):
    """Moments between nodes; nodes are right, or off by as much as they say with the worst signs."""
    logs = math.log(low) + np.linspace(0, width, 60)
    rounds.complex_moments = lambda *given: (
        *moments.complex_moments(*given)[:2],
        *np.full((2, len(given[0])), off),
    )
    ends = float(logs[0]), float(logs[-1])
    nodes = rounds.nodes_needed(q, *ends, c, digits, 65)
    matrix, values, scale, error, _ = rounds.interpolated(
        q, *ends, logs, nodes, c, 1.0, 3
    )
    truth, own, *_ = moments.complex_moments(np.exp(logs), q, c, 1.0, 3)
    size = truth[:, 0].real
    wrong = np.abs((matrix @ values) * np.exp(scale - own)[:, None] - truth).max(axis=1)
    wrong += off * np.abs(matrix) @ values[:, 0].real * np.exp(scale - own)
    yield from zip(wrong / size, error, strict=True)


def inversion(inversion, energy, epsilon, tilt, beyond, period, count):
    """The sum of one Gaussian round."""
    schedule, where = (
        only(energy),
        inversion.Plan((1 + tilt) - 1, beyond, period, 1.0),
    )
    found = inversion.Inversion(schedule, "add", where, count, 0.0, 27.0)
    found.prepare_bounds()
    low, high = found.bounds(epsilon)
    for way in (-1, 1):
        truth = gaussian_delta(mp.sqrt(energy * (1 + way * DIGIT)), epsilon)
        yield from within(low, truth, high, found.partial_sum(np.asarray(epsilon)))


# of each check the bounds, with bad cases
ROWS = {
    closed_form: {
        "first * (4 + z * z)": [(2.6337521878059786e-07, 0.0)],
        "density * (size + 1) * (size + mu)": [(68277074.51363873, 34138537.256819375)],
        "1e-300": [(1.0, 40.0)],
    },
    cells: {
        "32 * ULP * size": [(0.04023963763, 3.924152235, 12.36585, 0.057378)],
        "ULP * (32 + 2 * at * at)": [
            (
                0.046204206308572464,
                0.003983932373963069,
                24.352281808862216,
                0.04377620811,
            )
        ],
        "7 * (first - root) ** 2 * ULP * cells.left / mass[:2]": [
            (1.965114e-06, 47.4879, 3.63474, 0.059493),
            (0.001, 1e-10, 9.0, 0.1),
        ],
        "tail * ULP * (64 + 5 * last**2)": [
            (1.0032319126e-07, 1.51344489e-13, 25.7261164298, 0.3116893)
        ],
    },
    excess: {
        "4 * ULP * atom.infinite": [(0.0, 0.0051, 0.30967, True, 106, 0.00197485)],
        "72 * ULP": [(4.88e-05, 2.17, 0.96, True, 32), (-0.001, 60.0, 9.0, False, 20)],
        "36 * ULP": [(47.17524029, 8.7636046977, 0.097356398, False, 205)],
        "1.3 * ULP * grown * np.abs(y)": [
            (0.4669082431, 42.44331663, 41.896833, True, 196)
        ],
    },
    apart: {
        "(1 + self.mass_off)": [(-1.0, 0.0, 0.01)],
        "2 * self.loss_off": [(-1e-09, 0.0001, 0.0)],
    },
    real_moment: {
        "math.exp(-accuracy)": [(0.0019102220682, 0.9999937641439, 1.0280963572, 3.0)],
        "ULP * lost": [(1.42651922e-05, 0.000404676675, -51.55655629459718, 50.9)],
    },
    product: {
        "2.1 * off + 8 * ULP": [(1e-05, 0.0, 1), (1e-05, 0.0, -1)],
        "2.1 * off_k": [(1e-12, 1e-06, 1), (1e-12, 1e-06, -1)],
    },
    interpolated: {
        "1.01 * truncated": [
            (1.2998174595, 0.0140018921, 0.0416878497, 8.3469007417, 0.6371333644, 0.0)
        ],
        "2 + 0.64 * math.log(nodes)": [
            (0.31424348, 3.539628747, 0.0003097079, -4.41282, 27.0, 1.2628e-06)
        ],
    },
    inversion: {
        "min(1.0, 1 / (kappa * end**2))": [
            (0.09411184457, 0.079624, 5.1544, 30.4, 3000.0, 5329)
        ],
        "np.exp(np.minimum(log_right, 700.0))": [
            (3.9654664763, 0.0539633317, 0.171290036, 0.4551888605, 0.5530056953, 12)
        ],
        "math.exp(-a * period) / -math.expm1(-a * period)": [
            (1.810889, 0.190741, 0.0173863, 3.377959, 33.29633, 60)
        ],
        "_UNDERFLOW * (1 + float(size.sum()))": [(1.0, 40.0, 39.0, 60.0, 40.0, 60)],
    },
}


def is_exceeded(check, bound, scale, cases):
    """Whether an error is above its bound, of which a part is scaled, in the module that the check takes first."""
    module = changed(
        next(iter(inspect.signature(check).parameters)), bound, f"({scale} * ({bound}))"
    )
    with np.errstate(all="ignore"), mp.workdps(40):
        found = [pair for case in cases for pair in check(module, *case)]
        return any(error > max(off, 0) for error, off in found)


@pytest.mark.parametrize(
    ("check", "bound"),
    [(check, bound) for check in ROWS for bound in ROWS[check]],
    ids=lambda each: getattr(each, "__name__", each)[:40],
)
def test_a_bound_holds_and_is_needed(check, bound):
    cases = ROWS[check][bound]
    assert not is_exceeded(check, bound, 1, cases)
    assert is_exceeded(check, bound, 0, cases)


ANY = [
    *np.random.default_rng(0).uniform(-37, 8, 600).tolist(),
    *np.linspace(-3, 3, 601).tolist(),
]
FAR = (-np.geomspace(37, 1e4, 60)).tolist()
ASSUMED = {  # of a function: the truth, what it may be off by, and where: first points that are worse than most
    ndtr: (
        mp.ncdf,
        lambda x, right: 2 * (3 + min(x, 0) ** 2) * right,
        [-1.3791287610920775, *ANY],
    ),
    log_ndtr: (
        lambda x: mp.log(mp.ncdf(x)),
        lambda x, _: 2 * (3 + min(x, 0) ** 2),
        [-0.9699923531417325, -1.4861985572765515, *ANY, *FAR],
    ),
    erfcx: (
        lambda x: mp.exp(x * x) * mp.erfc(x),
        lambda x, right: (6 + 2 * min(x, 0) ** 2) * right,
        [
            0.03606184244578482,
            *np.abs([*ANY, *FAR]).tolist(),
            *np.linspace(-26.2, 0, 600).tolist(),
        ],
    ),
    erf: (
        mp.erf,
        lambda _, right: 2 * right,
        [0.22928618619989507, *np.abs(ANY).tolist()],
    ),
}


@pytest.mark.parametrize("function", ASSUMED, ids=lambda each: each.__name__)
def test_a_function_is_off_by_no_more_than_assumed(function):
    truth, units, where = ASSUMED[function]
    with mp.workdps(40):
        for x in where:
            right = truth(mp.mpf(x))
            assert (
                abs(mp.mpf(float(function(x))) - right)
                <= units(mp.mpf(x), right) * moments.ULP
            ), x


@pytest.mark.parametrize(
    ("samples", "size", "q"),
    [(10**3, 5, 1e-3), (10**6, 1042, 1e-3), (10**9, 30_043_149, 0.03)],
)
def test_chance_of_cut_batches_is_off_by_no_more_than_assumed(samples, size, q):
    """A thousand millionth; the tail over its first term is a hypergeometric series."""
    with mp.workdps(40):
        rate = mp.mpf(q)
        log_ways = mp.loggamma(samples) - mp.loggamma(size + 1)
        log_ways -= mp.loggamma(samples - size)
        first = log_ways + size * mp.log(rate) + (samples - 1 - size) * mp.log(1 - rate)
        ratio = -rate / (1 - rate)
        right = mp.exp(first) * mp.hyp2f1(
            1, size + 1 - samples, size + 1, ratio, maxterms=10**6
        )
        assert abs(betainc(size, samples - size, q) / right - 1) < 1e-9


def test_the_rule_of_twelve_points_is_off_by_no_more_than_assumed():
    """By a unit in a node, and by 7.8 in a weight on average; the rule is Gauss's, here from multi-precision."""
    off_node, off_weight = [], []
    for x, w in zip(*np.polynomial.legendre.leggauss(12), strict=True):
        with mp.workdps(40):
            node = mp.findroot(lambda t: mp.legendre(12, t), mp.mpf(float(x)))
            weight = 2 * (1 - node**2) / (12 * mp.legendre(11, node)) ** 2
            off_node.append(abs(node - x) / moments.ULP)
            off_weight.append(abs(weight - w) / moments.ULP)
    assert max(off_node) < 1
    assert 0.5 * sum(off_weight) < 7.8
