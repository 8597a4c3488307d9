"""The ends of the exact accountant where epsilon is known, and what may not move them."""

import math

import mpmath as mp
import numpy as np
import pytest

from adascale import rootfind
from adascale.accounting import interval
from adascale.accounting.exact import certify, inversion, rounds, sums
from adascale.errors import CannotCertify

from .coins import (
    ADD,
    EVEN,
    FALLING,
    NUMBER,
    REMOVE,
    RISING,
    coins,
    delta_of_coins,
    is_between,
    most,
    sampled,
)
from .exact import delta_by, epsilon_by


@pytest.mark.parametrize("epsilon", [0.3, 1.5, 3.0])
@pytest.mark.parametrize(
    ("ratios", "binding"), [(RISING, {ADD}), (FALLING, {REMOVE}), (EVEN, {ADD, REMOVE})]
)
def test_both_ends_enclose_a_composition_whichever_direction_binds(
    ratios, binding, epsilon
):
    schedule = coins(ratios)
    both = {name: delta_of_coins(epsilon, name, ratios) for name in interval.DIRECTIONS}
    delta = max(both.values())
    assert {name for name in both if both[name] > 0.999 * delta} == binding  # a control
    for by, given, truth in (
        (epsilon_by, delta, epsilon),
        (delta_by, epsilon, delta),
    ):
        value, lower, upper, direction = by(certify.by_inversion, schedule, given)
        assert lower <= truth <= upper <= lower * (1 + 3e-3)
        assert value == pytest.approx(truth, rel=1e-6)
        assert direction in binding


@pytest.mark.parametrize("off", [0.995, 1.0, 1.005])
@pytest.mark.parametrize("known", [(), (ADD,), (ADD, REMOVE)])
@pytest.mark.parametrize("ratios", [RISING, FALLING])
@pytest.mark.parametrize("direction", interval.DIRECTIONS)
def test_the_ends_hold_whatever_value_and_direction_the_search_finds(
    monkeypatch, ratios, known, off, direction
):
    epsilon = 0.7
    delta = most(epsilon, ratios=ratios)
    found = dict.fromkeys([direction, *known], off * epsilon)
    monkeypatch.setattr(certify, "sharp", lambda *_: found)
    try:
        ends = epsilon_by(certify.by_inversion, coins(ratios), delta)
    except CannotCertify:  # only where what was found is wrong
        binding = ADD if ratios == RISING else REMOVE
        assert off != 1.0 or {direction, *known} != {binding}
    else:
        assert is_between(ends, delta, ratios=ratios)


@pytest.mark.parametrize("change", ["tilt", "beyond", "period", "curvature"])
@pytest.mark.parametrize("factor", [0.7, 0.95, 1.05, 1.4])
def test_the_ends_hold_wherever_the_line_is_laid(monkeypatch, change, factor):
    def moved(*arguments):
        where = inversion.choose_line(*arguments)
        return where._replace(**{change: getattr(where, change) * factor})

    monkeypatch.setattr(sums, "choose_line", moved)
    delta = most(1.5)
    try:
        assert is_between(epsilon_by(certify.by_inversion, coins(), delta), delta)
        _, lower, upper = sums.sharp_delta((coins(),), ADD, 1.5)
        assert lower <= delta <= upper
    except CannotCertify:
        assert abs(math.log(factor)) > 0.1


@pytest.mark.parametrize("direction", interval.DIRECTIONS)
def test_a_direction_is_called_below_where_it_is_and_never_else(direction):
    """Far below; else not, or where nothing can be proven."""
    ratios = RISING if direction == ADD else FALLING
    schedule = coins(ratios)
    delta = delta_of_coins(3.0, direction, ratios)
    assert sums.is_below(schedule, direction, delta, 4.5)
    assert not sums.is_below(schedule, direction, delta * (1 + 1e-9), 2.997)
    assert not sums.is_below(schedule, direction, 0.0, 1.0)


def test_beyond_the_largest_loss_against_the_mixture_there_is_no_delta_of_removal():
    schedule = coins(mu=0.0)
    largest = -NUMBER * math.log(RISING[0])
    for times, is_beyond in ((1 + 1e-11, True), (0.97, False)):
        epsilon = times * largest
        found = sums.sharp_delta((schedule,), REMOVE, epsilon)
        assert (found == (0, 0, 0)) is is_beyond
        assert sums.is_below(schedule, REMOVE, 1e-300, epsilon) is is_beyond


SAMPLED = rounds.rounds_of(np.full(2, 0.2), np.ones(2))
"""Anything: what replaces it is given."""


def nearby(lost):
    """Atoms of a thousandth less and more noise, in place of those on either side."""
    less, more = (
        (1 - (1 - RISING[0]) * f, 1 + (RISING[1] - 1) * f) for f in (1 - 1e-3, 1 + 1e-3)
    )
    return (
        less,
        more,
        lambda _, above, *__, **___: (
            coins(more, lost=lost / NUMBER) if above else coins(less)
        ),
    )


def test_lower_ends_are_of_atoms_below_and_upper_ends_of_atoms_above_and_what_they_lose(
    monkeypatch,
):
    delta = most(1.5)
    lost = 1e-3 * delta
    less, more, cut = nearby(lost)
    monkeypatch.setattr(certify, "discretised", cut)
    each = {"ratios": more, "lost": lost / NUMBER}
    _, lower, upper, _ = epsilon_by(certify.by_discretisation, SAMPLED, delta)
    assert most(lower, ratios=less) >= delta >= most(lower * (1 + 3e-3), ratios=less)
    assert most(upper * (1 - 3e-3), **each) >= delta - lost >= most(upper, **each)
    _, lower, upper, _ = delta_by(certify.by_discretisation, SAMPLED, 1.5)
    assert lower <= most(1.5, ratios=less) <= lower * (1 + 6e-3)
    assert (upper - lost) * (1 - 6e-3) <= most(1.5, **each) <= upper - lost


def test_upper_end_of_a_delta_near_one_is_one():
    """What was rounded and what is lost are added, and a probability ends there."""
    many = rounds.rounds_of(np.full(20, 0.5), np.repeat(np.linspace(0.15, 0.165, 4), 5))
    value, lower, upper, _ = delta_by(certify.by_discretisation, many, 0.0)
    assert 0.9999 < lower <= value <= upper <= 1


@pytest.mark.parametrize("epsilon", [120.0, 1000.0])
def test_a_delta_below_the_smallest_double_is_not_proven_to_be_zero(epsilon):
    """By the sum on the line, and by Chernoff's bound."""
    found = certify.delta([(0.5, 1.0, 10)], epsilon)
    assert found.lower == 0 < found.upper < 1e-300
    assert found.certified


def test_epsilon_holds_at_the_smallest_double():
    """Its delta is 4.935e-324 at 118.93: by the trapezoidal rule on the line, in forty digits."""
    assert certify.epsilon([(0.5, 1.0, 10)], 2.0**-1074).upper > 118.929


@pytest.mark.parametrize(
    ("q", "u", "number", "energy"),
    [
        (1e-150, 1e-8, 40, 0.0),
        (1e-3, 1e-3, 1, 1e-3),
        (0.2, 1.0, 10**5, 0.5),
    ],
)
def test_total_variation_is_bounded_by_that_of_rounds_in_forty_digits(
    q, u, number, energy
):
    many = sampled(q, u, number, energy)
    with mp.workdps(340):
        equal = (1 - q * mp.erf(mp.sqrt(mp.mpf(u) / 8))) ** number
        total = 1 - equal * (1 - mp.erf(mp.sqrt(mp.mpf(energy) / 8)))
    with mp.workdps(40):
        assert total <= certify.total_variation(many) <= total * (1 + 3e-9)


def test_the_largest_loss_against_the_mixture_is_not_below_itself_in_forty_digits():
    counts = {1e-9: 3.0, 0.3: 500.0}
    many = sampled([*counts], np.ones(2), [*counts.values()])
    with mp.workdps(40):
        truth = -3 * mp.log(1 - mp.mpf(1e-9)) - 500 * mp.log(1 - mp.mpf(0.3))
        assert truth <= many.largest_loss <= truth * (1 + 3e-12)
    assert many._replace(gaussian=1e-30).largest_loss == math.inf


@pytest.mark.parametrize("off", [-1e-3, -5e-9, 0.0, 5e-9, 1e-3])
@pytest.mark.parametrize("start", [1.9, 2.1])
def test_at_each_end_the_bound_itself_is_on_its_side_of_delta(monkeypatch, start, off):
    """Its root may be found a little or much too far to either side."""
    monkeypatch.setattr(
        sums, "solve", lambda *given: rootfind.solve(*given) * (1 + off)
    )
    delta = math.exp(-6)
    lower, upper = (
        sums.nearest(lambda x: math.exp(-3 * x), delta, start, 0.01, sign)
        for sign in (-1, 1)
    )
    assert math.exp(-3 * lower) >= delta >= math.exp(-3 * upper)
    assert upper - lower < 0.1
