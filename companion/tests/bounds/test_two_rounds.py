"""Delta of two rounds, beside the certified intervals and a closed form."""

import math

import pytest

from adascale.accounting import exact_delta
from companion.bounds.two_rounds import two_round_delta


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
