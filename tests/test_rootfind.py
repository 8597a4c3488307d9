"""The root finders against scipy's, and what they say where there is no root."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import rootfind
from adascale.rootfind import (
    bounded,
    find_roots,
    power_law_step,
    search_from,
    widen,
)

exponents = st.floats(-3, 3).map(lambda x: 10.0**x)


def solve(ratio, decay, start, steps=100):
    """Advance a search in plain Python; how it ended and after how many values."""
    search = search_from(start, 0.0)
    count = 0
    while count < steps and not search.converged:
        search = power_law_step(search, ratio(search.x), decay(search.x))
        count += 1
    return search, count


@given(exponents, exponents, st.floats(0.5, 50))
def test_a_power_law_is_solved_wherever_the_search_starts(root, start, power):
    search, count = solve(lambda x: (x / root) ** -power, lambda x: power, start)
    assert search.converged
    assert search.x == pytest.approx(root, rel=1e-14)  # a power of 50 and its root
    assert count <= 6  # one step far away, a Padé step or two near the root


@pytest.mark.parametrize("root", [1e-250, 1e250])
def test_a_bracket_is_halved_where_the_product_of_its_ends_leaves_floating_point(root):
    # a decay of inf says nothing, so every step doubles or halves: 53 halves of a factor of two
    search, _ = solve(lambda x: root / x, lambda x: math.inf, root / 100, 200)
    assert search.converged
    assert search.x == pytest.approx(root, rel=1e-15)


def test_a_search_without_a_root_does_not_claim_one():
    for ratio in (lambda x: 2.0, lambda x: math.nan):
        search, count = solve(ratio, lambda x: 1e-3, 1.0)
        assert not search.converged
        assert count == 100


SHAPES = {
    "line": lambda x, c: x - c,
    "cubic": lambda x, c: (x - c) ** 3,
    "falling": lambda x, c: np.exp(-x) - np.exp(-c),
    "steep": lambda x, c: np.tanh(40 * (x - c)),
    "kink": lambda x, c: np.where(x > c, 5 * (x - c), 0.1 * (x - c)),
    "infinite": lambda x, c: np.where(
        np.abs(x - c) > 2, np.copysign(np.inf, x - c), x - c
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_function_finds_its_own_root_however_far_away(name):
    root = np.array([-12.0, -0.3, 0.0, 1e-9, 0.7, 3.0, 17.5])
    start = np.array([5.0, 0.0, 0.0, -2.0, 0.7, 2.9, -4.0])
    seen = []

    def function(x, index):
        seen.append(index.size)
        return bounded(SHAPES[name](x, root[index]))

    low, high = widen(function, start, 0.5, 100.0)
    assert ((low <= root) & (root <= high)).all()
    roots, residual = find_roots(function, low, high, 1e-13)
    assert (np.abs(residual) <= 1e-13).all()
    # a cubic within 1e-13 of zero is within 5e-5 of its root
    np.testing.assert_allclose(roots, root, atol=5e-5 if name == "cubic" else 1e-11)
    assert sum(seen) < 45 * root.size
    assert min(seen) < root.size  # what is done is not evaluated again


@pytest.mark.parametrize(
    ("root", "function"),
    [
        (2.0, lambda x: math.inf if x < 1 else 2 - x),
        (1.0, lambda x: -math.log(x)),
        (math.pi, lambda x: 1.0 if x > math.pi else -1.0),
        (9.0, lambda x: x - 9),
        (math.nan, lambda x: 1.0),
        (math.nan, lambda x: math.nan),
    ],
)
def test_solve_finds_a_root_or_nan_where_the_sign_does_not_change(root, function):
    found = rootfind.solve(function, 1e-9, 9.0)
    assert found == pytest.approx(root, rel=3e-11, nan_ok=True)
