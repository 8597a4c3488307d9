"""The digits of the exact accountant: what its sums, looks and searches state, and all parts that they call in them.

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
from adascale.accounting.exact import inversion, minus_one, rounds, search
from adascale.accounting.exact.inversion import DIRECTIONS, Inversion, Plan
from adascale.errors import CannotCertify

from .coins import EVEN, FALLING, RISING, coins
from .exact import delta_by, epsilon_by

FILE = Path(__file__).with_name("exact_digits.json")


def numbers(found):
    """All numbers of a result in their order; of an array of more than twelve its size, its sum and some entries."""
    if isinstance(found, tuple | list):
        return [each for part in found for each in numbers(part)]
    each = np.ravel(DIRECTIONS.index(found) if isinstance(found, str) else found)
    each = np.concatenate([each.real, each.imag]) if np.iscomplexobj(each) else each.astype(float)
    if each.size > 12:
        each = np.concatenate([[each.size, each[np.isfinite(each)].sum()], each[:: each.size // 7]])
    return each.tolist()


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
LINES = {"few": FEW, "many": MANY, "cut": minus_one.cut(RARE, True, 0.5, -14.0)}
COINS = {"rising": coins(RISING), "falling": coins(FALLING)}
COINS |= {"no gaussian": coins(RISING, mu=0.0), "two": coins(EVEN, 2)}


def interpolation():
    """Panels of many noises, wide and narrow, at gentle and at steep orders; without, every round comes by itself."""
    for low, high, size in [(1.0, 1.3, 40), (0.7, 3.0, 80), (2.0, 2.001, 20)]:
        each = spread(0.03, np.linspace(low, high, size))
        for c in (4.0, 25.0, -8.0):
            lines = [rounds.moments_on_line(each, c, 0.3, 3, digits) for digits in (12.0, 27.0)]
            yield f"{low} to {high} at {c}", lines


def looks():
    for name, each in LINES.items():
        for direction in DIRECTIONS:
            for log_delta, at in ((-12.0, 0.0), (-3.0, 0.0), (None, 1.5), (None, 0.1)):
                tilts = inversion.look(each, direction, log_delta, at)
                near = at or tilts.top
                plans = (
                    or_refused(partial(inversion.plan, tilts, 0.98 * near, 1.02 * near, log_delta or -9.0, -12.0, tau))
                    for tau in (0.0, 0.1)
                )
                yield f"{name}, {direction}, {log_delta}, {at}", [tilts, *plans]
    yield "offsets", [inversion.chernoff_offset(a) for a in (1e-3, 0.7, 30.0)]
    yield "hats", [inversion.hats(tau) for tau in (1e-3, 0.1, 0.5)]


def inversions():
    places = np.array([-5.0, -0.3, 0.0, 0.2, 0.9, 2.0, 9.0])
    for name, each in LINES.items():
        for direction in DIRECTIONS:
            for tau in (0.05, 0.2):
                sums = Inversion(each, direction, Plan(3.0, 5.0, 4.0, 1.0), 24, tau, 27.0)
                sums.prove()
                label = f"{name}, {direction}, {tau}"
                yield label, [sums.error, sums.log_right, sums.aliases_left(places)]
                yield f"{label}: ends", [sums.lower(0.9), sums.upper(0.9), sums.lower(2.0)]
                yield f"{label}: value", sums.value(places)
                yield f"{label}: bounds", sums.bounds(places)
                yield f"{label}: died out", [sums.died_out(size) for size in np.arange(-9.0, 3.0)]


def searches():
    for name, each in COINS.items():
        for at in (0.2, 1.5):
            yield f"{name}: delta of each way at {at}", [bracket.delta_of(each, each, way, at) for way in DIRECTIONS]
            found = delta_by(bracket.by_inversion, each, at)
            yield f"{name}: delta at {at}", found
            delta = found[0]
            value, direction, known = search.sharp(each, delta)
            yield f"{name}: sharp near {at}", [value, direction, *known.values()]
            yield f"{name}: epsilon near {at}", epsilon_by(bracket.by_inversion, each, delta)
            for factor in (0.98, 1.002, 1.05, 1.3):
                cases = [(way, value) for way in DIRECTIONS for value in (None, at, 0.99 * at)]
                below = [bracket.is_below(each, way, delta, factor * at, value) for way, value in cases]
                yield f"{name}: below {factor} times {at}", below


def brackets():
    """Of rounds and of atoms in their place: slow where nothing is compiled."""
    for name, each, delta, at in [("few", FEW, 1e-5, 0.3), ("many", MANY, 1e-3, 0.1), ("rare", RARE, 1e-5, 0.0)]:
        ends = bracket.epsilon_interval(each, delta), bracket.delta_interval(each, at)
        yield name, [[end.value, end.lower, end.upper, end.direction] for end in ends]


PARTS = {part.__name__: part for part in (interpolation, looks, inversions, searches, brackets)}


def computed(part):
    return {key: numbers(found) for key, found in PARTS[part]()}


@pytest.mark.parametrize("part", PARTS)
def test_every_stated_value_has_the_digits_that_it_had(part):
    """Relative, and to the largest where there are sums that cancel."""
    stored, found = json.loads(FILE.read_text())[part], computed(part)
    assert found.keys() == stored.keys()
    for key, values in found.items():
        atol = 1e-9 * np.nanmax(np.abs(stored[key])) if key.endswith(("value", "bounds")) else 0.0
        np.testing.assert_allclose(values, stored[key], 1e-7, atol, err_msg=key)


if __name__ == "__main__":
    made = {
        part: ",\n".join(f"{json.dumps(key)}: {json.dumps(each)}" for key, each in computed(part).items())
        for part in PARTS
    }
    FILE.write_text("{\n" + ",\n".join(f'"{part}": {{\n{each}\n}}' for part, each in made.items()) + "\n}\n")
