"""A sampling rate or a divisor that follows the data leaks more than the lemma says."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from adascale import accounting
from companion.theory.neighbours import size_follows_data


@pytest.mark.parametrize("sigma", [2.0, 10.0, 30.0])
def test_only_public_constants_keep_the_lemma(sigma):
    found = size_follows_data(sigma=sigma)
    assert found.nothing <= 1
    assert min(found.rate, found.divisor) > 1  # negative controls


def test_with_much_noise_a_size_that_follows_the_data_shifts_the_mean_twice_as_far():
    found = size_follows_data(sigma=200.0)  # n = 100: the shift is 2 q n / (n + 1), and the leakage its square
    np.testing.assert_allclose([found.rate, found.divisor], 4 * (100 / 101) ** 2, rtol=5e-3)  # 1 / sigma^2 n q, about


def test_the_leakage_is_that_of_an_independent_integral():
    sizes = {0: 0.25, 1: 0.5, 2: 0.25}  # two gradients 1, rate 1/2
    added = {k: 0.5 * sizes.get(k, 0) + 0.5 * sizes.get(k + 1, 0) for k in (-1, 0, 1, 2)}  # and one of -1

    def density(law, z):
        return sum(weight * norm.pdf(z, mean, 2) for mean, weight in law.items())

    def rdp(top, base):
        return np.log(quad(lambda z: density(top, z) ** 3 * density(base, z) ** -2, -40, 40)[0]) / 2

    larger = max(rdp(added, sizes), rdp(sizes, added)) / accounting.rdp(0.5, 2.0, 3)
    np.testing.assert_allclose(size_follows_data(2, 1, 2.0).nothing, larger, rtol=1e-6)
