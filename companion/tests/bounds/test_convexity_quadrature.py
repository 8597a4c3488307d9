"""Delta of two rounds and its slopes, beside the certified intervals, a closed form and differences."""

import math

import numpy as np
import pytest

from adascale.accounting import exact_delta
from companion.bounds.convexity import delta_slopes, two_round_delta


@pytest.mark.parametrize(
    ("q", "sigma", "epsilon"),
    [
        (0.3, (5.0, 1.0), 1.0),
        (0.01, (50.0, 1.0), 1.0),
        (0.9, (50.0, 0.3), 5.0),
        (1e-4, (3.0, 1.0), 0.02),
    ],
)
def test_two_round_delta_lies_in_the_certified_interval(q, sigma, epsilon):
    found, delta = exact_delta(q, sigma, epsilon), two_round_delta(q, sigma, epsilon)
    assert found.lower <= delta <= found.upper
    assert found.upper < 1.002 * found.lower  # what is certified
    # the quadrature over the other round
    assert delta == pytest.approx(two_round_delta(q, sigma[::-1], epsilon), rel=1e-12)


@pytest.mark.parametrize(
    ("q", "epsilon"),
    [(0.3, 0.73), (0.3, 1.0), (0.5, math.log(4)), (0.05, 5.0), (0.9, 4.7)],
)
def test_delta_of_removal_ends_at_the_largest_loss(q, epsilon):
    most = -2 * math.log(1 - q)  # y_1 y_2 is at least (1 - q)^2
    assert (two_round_delta(q, (0.9, 1.4), epsilon, removed=True) == 0) == (
        epsilon >= most
    )
    # a put is worth at most how far its strike is above the least y_1 y_2, over the strike: 1 - (1 - q)^(2 * 0.001)
    near = two_round_delta(q, (0.3, 0.3), 0.999 * most, removed=True)
    assert 0 < near < 1e-3 * most


def test_slopes_match_differences_of_exact_delta():
    q = 0.3
    v = np.array([25.0, 36.0])
    epsilon = 0.1
    step = 0.05
    slopes = delta_slopes(q, np.sqrt(v), epsilon)

    def at(first, second=0):
        moved = np.sqrt(v + step * np.array([first, second]))
        return two_round_delta(q, tuple(moved), epsilon)

    # differences err by (step / v)^2 = 4e-6 times a few
    assert slopes.delta == pytest.approx(at(0), rel=2e-6)
    first, second = (at(1) - at(-1), at(0, 1) - at(0, -1))
    assert slopes.slope == pytest.approx(
        [first / (2 * step), second / (2 * step)], rel=5e-5
    )
    twice = (at(1) - 2 * at(0) + at(-1)) / step**2
    assert slopes.curvature[0] == pytest.approx(twice, rel=5e-4)
    v = np.array([25.0, 25.0])
    both = at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)
    mixed = delta_slopes(q, np.sqrt(v), epsilon).mixed[0]
    assert mixed == pytest.approx(both / (2 * step) ** 2, rel=5e-4)
