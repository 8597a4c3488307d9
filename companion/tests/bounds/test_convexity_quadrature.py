"""The two integrals of companion.bounds.convexity, each beside a closed form or a plain sum."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from companion.bounds.convexity import delta_slopes, two_round_delta

# Two rounds


def hockey_stick(q, sigma, epsilon):
    """E[(y_1 y_2 - e^epsilon)_+] from the tails of the first round, by trapezoids over the second.

    They settle where the first noise is so large that its tail is flat where the threshold leaves its range.
    """
    first = 1 / sigma[0]
    second = 1 / sigma[1]
    strike = math.exp(epsilon)
    x, step = np.linspace(-10, 10 + second, 200001, retstep=True)
    y = 1 - q + q * np.exp(second * x - second**2 / 2)
    level = np.log(np.maximum(strike / y - 1 + q, 1e-300) / q)
    null, drawn = (ndtr((sign * first**2 / 2 - level) / first) for sign in (-1, 1))
    inner = y * ((1 - q) * null + q * drawn) - strike * null
    return float((inner * np.exp(-x * x / 2)).sum() * step / math.sqrt(2 * math.pi))


@pytest.mark.parametrize(
    ("q", "sigma", "epsilon"),
    [
        (q, (50.0, 1.0), epsilon)
        for q, epsilon in ((0.3, 5.0), (0.01, 1.0), (1e-4, 0.0), (1e-4, 0.02))
    ]
    + [
        (1 - 1e-9, (50.0, 0.3), 0.02),
        (0.9, (50.0, 0.3), 5.0),
        (1 - 1e-9, (50.0, 0.1), 5.0),
        (0.01, (0.5, 0.05), 0.1),
    ],
)
def test_two_round_delta_has_ten_digits(q, sigma, epsilon):
    # a sigma of 50 is a kink of width 0.02; of 0.05, a range of x up to 30, in most of which y_2 does not change
    assert np.isclose(
        two_round_delta(q, sigma, epsilon),
        hockey_stick(q, sigma, epsilon),
        rtol=1e-10,
        atol=0,
    )


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
        return two_round_delta(
            q, tuple(np.sqrt(v + step * np.array([first, second]))), epsilon
        )

    # differences err by (step / v)^2 = 4e-6 times a few
    np.testing.assert_allclose(slopes.delta, at(0), rtol=2e-6)
    np.testing.assert_allclose(
        slopes.slope,
        [at(1) - at(-1), at(0, 1) - at(0, -1)] / np.array(2 * step),
        rtol=5e-5,
    )
    np.testing.assert_allclose(
        slopes.curvature[0], (at(1) - 2 * at(0) + at(-1)) / step**2, rtol=5e-4
    )
    v = np.array([25.0, 25.0])
    both = at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)
    mixed = delta_slopes(q, np.sqrt(v), epsilon).mixed[0]
    np.testing.assert_allclose(mixed, both / (2 * step) ** 2, rtol=5e-4)
