"""The digits of the exact accountant: every value that its proofs state, and the steps of the searches between them.

`exact_digits.json` holds them.  That a bound holds is tested elsewhere; here it is seen to be what it was, so that a
margin is changed knowingly: `python -m tests.accounting.test_exact_digits` writes the file anew.
"""

import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from adascale.accounting.exact import certify as bracket
from adascale.accounting.exact import discretize as atoms
from adascale.accounting.exact import gaussian, inversion, minus_one, moments, rounds, search
from adascale.accounting.exact.inversion import DIRECTIONS, Inversion, Plan
from adascale.errors import CannotCertify

from .coins import EVEN, FALLING, RISING, coins
from .exact import delta_by, epsilon_by

FILE = Path(__file__).with_name("exact_digits.json")
ROUNDS = [(1e-3, 1e-2, 30.0), (0.05, 0.5, 4.0), (0.05, 0.5, -3.0), (0.3, 9.0, 2.5), (0.9, 4.0, -6.0), (1e-5, 2.0, 9.0)]
"""q, u and a real order."""


def few(found):
    """Numbers by name, a few of every array: its size, its sum and some entries."""
    shown = {}
    for name, value in found.items():
        each = np.ravel(np.asarray(value))
        each = np.concatenate([each.real, each.imag]) if np.iscomplexobj(each) else each.astype(float)
        if each.size > 12:
            each = np.concatenate([[each.size, each[np.isfinite(each)].sum()], each[:: each.size // 7]])
        shown[name] = each.tolist()
    return shown


def or_refused(function):
    try:
        return function()
    except CannotCertify:
        return math.nan


def spread(rate, sigmas, gaussian_sigmas=()):
    """Rounds of one rate and some that use every sample."""
    sigma = np.array([*sigmas, *gaussian_sigmas])
    return rounds.rounds_of(np.repeat([rate, 1.0], [len(sigmas), len(gaussian_sigmas)]), sigma)


FEW = spread(0.05, [2.0, 2.0, 3.0, 1.5])
MANY = spread(0.02, np.linspace(1.0, 2.0, 30), [5.0])
RARE = spread(1e-4, [0.8, 0.9, 0.9])
LINES = {"few": FEW, "many": MANY, "cut": atoms.cut(RARE, True, 0.5, -14.0)}
SCHEDULES = {"few": FEW, "many": MANY, "rare": RARE}
COINS = {"rising": coins(RISING), "falling": coins(FALLING)}
COINS |= {"no gaussian": coins(RISING, mu=0.0), "two": coins(EVEN, 2)}


def named(name, values):
    """Several values, by their number."""
    return {f"{name}{i}": each for i, each in enumerate(values)}


def one_round():
    places = [(0.3, 0.7), (45.0, 1.0), (-6.0, 2.0), (9.0, 6.0), (-1.0, 0.1), (3.0, 11.0)]
    for q in (1e-12, 0.02, 0.97):
        yield {f"ratio {q}, {x}, {root}": moments.log_ratio(np.array([x]), root, q) for x, root in places}
    for q, u, c in ROUNDS:
        name = f"{q}, {u}, {c}"
        for digits in (9.0, 24.0, 33.0):
            value, off = moments.log_moments(u, q, c, digits)
            yield {f"moment {name}, {digits}": value, f"off {name}, {digits}": off}
        yield {f"above {name}": moments.log_moments_above(u, q, c)}
        yield {f"above coarse {name}": moments.log_moments_above(u, q, c, 4.0)}
    for q, u, c in [(0.5, 1e-30, 2.0), (0.5, 1e4, 30.0), (0.5, 1.0, 1e9)]:  # the ends of what can be summed
        yield {f"end {q}, {u}, {c}": [moments.log_moments(u, q, c)[0], moments.log_moments_above(u, q, c)]}


def one_line():
    for q, u, c in ROUNDS:
        yield named(f"line {q}, {u}, {c}, ", moments.line(np.array([u, 1.1 * u]), q, c, 0.7, 5))
    for q, u, c in [(0.2, 4.0, 3.0), (0.2, 4.0, -3.0)]:  # so many points that a larger step is looked for
        yield named(f"long {q}, {u}, {c}, ", moments.line(np.array([u]), q, c, 0.5, 300))
    u, number = np.array([0.1, 0.4, 1.0]), np.array([1.0, 5.0, 2.0])
    for c in (-2.0, 7.0):
        above = moments.total_log_moment_above(u, 0.1, number, c)
        yield {f"total above {c}": above}


def atoms_of_one_round():
    for q, u, end in [(1e-3, 0.7, 2.0), (0.3, 4.0, 1.0), (1e-6, 9.0, 5.0)]:
        for above in (True, False):
            atom = atoms.atoms_of(q, u, above, 0.2, end)
            name = f"{q}, {u}, {end}, {above}"
            yield named(f"atoms {name}, ", atom)
            yield named(f"atoms {name} off, to ", (each[::97] for each in atom[2:4]))
            for c in (5.0, -4.0):
                only = rounds.Rounds((), (), (), 0.0, 2, ((atom, 2.0),))
                yield {f"atoms {name}: moment at {c}": minus_one.log_moment_above(only, c)}
                tilt, add = (c - 1, True) if c > 0 else (-c, False)
                yield named(f"atoms {name}: excess at {c}, ", minus_one.excess(atom, tilt, add, 0.6, 4))
                yield named(f"atoms {name}: line at {c}, ", minus_one.line_of_atoms(only, tilt, add, 0.6, 4))


def schedules():
    for name, each in SCHEDULES.items():
        for q, u, number in zip(each.rates, each.energies, each.counts, strict=True):
            yield {f"{name}: rate and size": [q, each.size, each.gaussian], f"{name}: u": u, f"{name}: counts": number}
        for width in (0.2, 0.05):
            yield named(f"{name}: thinned by {width}, ", rounds.thinned(each, width))
        for c in (6.0, -5.0):
            yield {f"{name}: quick at {c}": rounds.quick_log_moment(each)(np.array([c]), 24.0)}
            yield {f"{name}: proven at {c}": rounds.proven_log_moment(each, c)}
            yield named(f"{name}: line at {c}, ", rounds.moments_on_line(each, c, 0.4, 6, 27.0))
    small = rounds.rounds_of(np.full(3, 1e-6), np.array([1e3, 2e3, 2e3]))
    yield {f"small: proven at {c}": rounds.proven_log_moment(small, c) for c in (40.0, -40.0)}
    for above in (True, False):
        cut = atoms.cut(RARE, above, 0.2, -14.0)
        yield {f"cut {above}: lost": cut.lost, f"cut {above}: losses": cut.atoms[0][0].loss}
        for c in (6.0, -5.0):
            yield {f"cut {above}: quick at {c}": minus_one.log_moment_of_atoms(cut)(np.array([c]), 24.0)}
            yield {f"cut {above}: apart": minus_one.apart(cut)}


def interpolation():
    """Panels of many noises, wide and narrow, at gentle and at steep orders; without, every round comes by itself."""
    for low, high, size in [(1.0, 1.3, 40), (0.7, 3.0, 80), (2.0, 2.001, 20)]:
        each = spread(0.03, np.linspace(low, high, size))
        for c in (4.0, 25.0, -8.0):
            for digits in (12.0, 27.0):
                yield named(f"{low} to {high} at {c}, {digits}: ", rounds.moments_on_line(each, c, 0.3, 3, digits))


def looks():
    for name, each in LINES.items():
        for direction in DIRECTIONS:
            for log_delta, at in ((-12.0, 0.0), (-3.0, 0.0), (None, 1.5), (None, 0.1)):
                tilts = inversion.look(each, direction, log_delta, at)
                label = f"{name}, {direction}, {log_delta}, {at}"
                yield {f"look {label}: {name}": value for name, value in tilts._asdict().items() if name != "direction"}
                for tau in (0.0, 0.1):
                    near = at or tilts.top
                    planned = partial(inversion.plan, tilts, 0.98 * near, 1.02 * near, log_delta or -9.0, -12.0, tau)
                    yield {f"plan {label}, {tau}": or_refused(planned)}
    yield {"offsets": [inversion.chernoff_offset(a) for a in (1e-3, 0.7, 30.0)]}
    yield {f"hats {tau}": np.concatenate(inversion.hats(tau)) for tau in (1e-3, 0.1, 0.5)}


def inversions():
    for name, each in LINES.items():
        for direction in DIRECTIONS:
            for tau in (0.05, 0.2):
                sums = Inversion(each, direction, Plan(3.0, 5.0, 4.0, 1.0), 24, tau, 27.0)
                sums.prove()
                label = f"{name}, {direction}, {tau}"
                yield {f"{label}: error": sums.error, f"{label}: right": sums.log_right}
                places = np.array([-5.0, -0.3, 0.0, 0.2, 0.9, 2.0, 9.0])
                low, high = sums.bounds(places)
                yield {f"{label}: value": sums.value(places), f"{label}: bounds": [low, high]}
                yield named(f"{label}: aliases ", sums.aliases_left(places))
                yield {f"{label}: ends": [sums.lower(0.9), sums.upper(0.9), sums.lower(2.0)]}
                yield {f"{label}: died out": [sums.died_out(size) for size in np.arange(-9.0, 3.0)]}


def closed_forms():
    for energy in (1e-6, 0.3, 40.0, 3000.0):
        for at in (0.0, 0.2, 3.0, 2000.0):
            yield {f"gaussian delta {energy}, {at}": gaussian.delta(energy, at)}
            yield {f"sampled delta {energy}, {at}": gaussian.sampled_delta(0.1, energy, at)}
        for delta in (1e-200, 1e-5, 0.3):
            yield {f"gaussian epsilon {energy}, {delta}": gaussian.epsilon(energy, delta)}
            yield {f"sampled epsilon {energy}, {delta}": gaussian.sampled_epsilon(0.1, energy, delta)}
    # so far that what is lost shows
    far = [gaussian.delta(0.3, 19.0), gaussian.delta(1e-6, 0.03)]
    far += [gaussian.sampled_delta(0.01, 0.3, 12.0), gaussian.sampled_delta(0.01, 1e-6, 3e-4)]
    yield {f"width {i}": (high - low) / value for i, (value, low, high) in enumerate(far)}
    for name, each in SCHEDULES.items():
        yield {f"{name}: apart": search.most_apart(each), f"{name}: largest": search.largest_loss(each)}
    yield {"far apart": search.most_apart(spread(0.5, [1e-3, 3.0])), "near": search.most_apart(spread(1e-9, [1e140]))}


def searches():
    for name, each in COINS.items():
        for at in (0.2, 1.5):
            found = [bracket.delta_of(each, each, way, at) for way in DIRECTIONS]
            yield {f"{name}: delta of {way} at {at}": one for way, one in zip(DIRECTIONS, found, strict=True)}
            *both, direction = delta_by(bracket.by_inversion, each, at)
            yield {f"{name}: delta at {at}": [*both, DIRECTIONS.index(direction)]}
            delta = both[0]
            value, direction, known = search.sharp(each, delta)
            yield {f"{name}: sharp near {at}": [value, DIRECTIONS.index(direction), *known.values()]}
            *both, direction = epsilon_by(bracket.by_inversion, each, delta)
            yield {f"{name}: epsilon near {at}": [*both, DIRECTIONS.index(direction)]}
            for factor in (0.98, 1.002, 1.05, 1.3):
                values = (None, at, 0.99 * at)
                cases = [(way, value) for way in DIRECTIONS for value in values]
                below = [bracket.is_below(each, way, delta, factor * at, value) for way, value in cases]
                yield {f"{name}: below {factor} times {at}": below}


def brackets():
    """Of rounds and of atoms in their place: slow where nothing is compiled."""
    for name, each, delta, at in [("few", FEW, 1e-5, 0.3), ("many", MANY, 1e-3, 0.1), ("rare", RARE, 1e-5, 0.0)]:
        ends = {"epsilon": bracket.epsilon_interval(each, delta), "delta": bracket.delta_interval(each, at)}
        for what, end in ends.items():
            yield {f"{what} of {name}": [end.value, end.lower, end.upper, DIRECTIONS.index(end.direction)]}


PARTS = [one_round, one_line, atoms_of_one_round, schedules, interpolation, looks, inversions, closed_forms, searches]
PARTS = {part.__name__: part for part in (*PARTS, brackets)}


def computed(part):
    found = {}
    for some in PARTS[part]():
        found |= few(some)
    return found


def tolerance(key, values):
    """Relative, and to the largest where there are sums that cancel; a width is a difference of what is rounded."""
    largest = np.nanmax(np.abs(values)) if key.endswith(("value", "bounds")) else 0.0
    return {"rtol": 1e-2 if key.startswith("width") else 1e-7, "atol": 1e-9 * largest}


@pytest.mark.parametrize("part", PARTS)
def test_every_stated_value_has_the_digits_that_it_had(part):
    stored, found = json.loads(FILE.read_text())[part], computed(part)
    assert found.keys() == stored.keys()
    for key, values in found.items():
        np.testing.assert_allclose(values, stored[key], **tolerance(key, stored[key]), err_msg=key)


if __name__ == "__main__":
    lines = {
        part: ",\n".join(f"  {json.dumps(key)}: {json.dumps(values)}" for key, values in computed(part).items())
        for part in PARTS
    }
    FILE.write_text("{\n" + ",\n".join(f' "{part}": {{\n{each}\n }}' for part, each in lines.items()) + "\n}\n")
