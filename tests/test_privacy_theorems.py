"""Two theorems of the appendix on exact privacy; its cells evaluate the others, each beside what fails."""

import numpy as np
import pytest

from adascale.policies import water_level
from companion.bounds.two_rounds import two_round_delta


def hinges(w, taus):
    return np.maximum(taus[:, None] - w, 0).sum(axis=1)


def test_the_water_level_is_majorised_by_every_other_feasible_schedule():
    rng = np.random.default_rng(2)
    for _ in range(60):
        floor, nu = rng.exponential(size=7), rng.exponential()
        best = np.maximum(water_level(floor, nu), floor)
        w = floor + 7 * nu * rng.dirichlet(np.full(7, 0.5))
        taus = np.concatenate([w, best])
        assert (hinges(w, taus) >= hinges(best, taus) - 1e-12).all()
    # the control: a more even schedule, which is feasible but for the second floor
    best = np.array([1.1, 4.0])
    w = np.full(2, best.mean())
    assert (hinges(w, w) < hinges(best, w) - 1).all()


@pytest.mark.parametrize("q", [1e-3, 1e-2])
def test_delta_of_two_rounds_is_the_sum_of_theirs_up_to_q_squared(q):
    epsilon, silent = 0.7, 1e4
    b = 1 + 1 / (np.exp(epsilon / 2) - 1)
    for sigma in ((0.2, 0.3), (0.4, 1.0), (2.0, 3.0)):
        alone = [two_round_delta(q, (own, silent), epsilon) for own in sigma]
        error = abs(two_round_delta(q, sigma, epsilon) - sum(alone))
        assert error <= (8 * b + 6 * b**2) * q**2
