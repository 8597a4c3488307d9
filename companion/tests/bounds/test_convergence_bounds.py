"""Both convergence bounds: the paper's formula, the nearly exact theorem, and trainings that must obey them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.bounds import (
    Constants,
    SignalMoment,
    convergence_bound,
    largest_learning_rate,
    nearly_exact_bound,
)
from companion.theory.convergence import Training
from companion.theory.least_squares import LeastSquares

KNOWN = Constants(2.0, 0.5, 0.3, 0.2, 0.7)


def by_the_paper(eta, d, noise_power, lam, gap, L, A1, A2, C1, C2):
    """Theorem 1 in eta, with plain sums."""
    T = len(eta)
    phi = 2 * gap / (lam * T) + 2 * L * lam * (2 * C2 * (A1 + 1) + A2)
    return phi + L * lam / (2 * T) * math.fsum(d * noise_power / value for value in eta)


@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20),
    *(st.floats(0.01, 1), st.floats(0, 1e3), st.floats(1e-3, 1e3)),
    *[st.floats(0, 1e3)] * 4,
)
def test_right_side_is_the_paper_s(eta, share, gap, L, A1, A2, C1, C2):
    d, noise_power = 26_010, 1e-12
    lam = share / (4 * L * (C1 + 1) * (A1 + 1))
    energy = d * noise_power / np.array(eta)
    bound = convergence_bound(energy, lam, gap, Constants(L, A1, A2, C1, C2))
    expected = by_the_paper(eta, d, noise_power, lam, gap, L, A1, A2, C1, C2)
    # a handful of roundings
    assert float(bound.total) == pytest.approx(expected, rel=1e-12)


def test_the_largest_learning_rate_is_the_paper_s_and_is_admitted():
    limit = 1 / (4 * 2.0 * 1.2 * 1.5)
    assert float(largest_learning_rate(KNOWN)) == pytest.approx(limit)
    convergence_bound([1.0], limit, 1.0, KNOWN)
    with pytest.raises(ValueError, match=f"learning_rate must be at most {limit:.6g}"):
        convergence_bound([1.0], [limit / 2, 1.01 * limit], 1.0, KNOWN)
    signal = SignalMoment(1.0, 0.0, 0.1)
    with pytest.raises(ValueError, match="learning_rate must be below 1"):
        nearly_exact_bound(
            [1.0], 1.0, 1.0, smoothness=2.0, signal=signal, mean_curvature=2.0
        )


def random_training(spread, energy, T, batch_size, M, seed):
    """A training, and the largest learning rates of the paper and of the nearly exact theorem."""
    rng = np.random.default_rng(seed)
    problem = LeastSquares(
        rng.uniform(0.3, 2, 3), spread * rng.standard_normal((M, 3)), 0.2
    )
    training = Training(
        problem, rng.standard_normal(3), 1.0, np.full(T, energy), batch_size, 20
    )
    older = float(largest_learning_rate(problem.constants))
    limit = 2 / (training.signal_moment().slope * problem.feature_variance.max())
    return training, older, float(limit)


@given(
    *(
        st.floats(0.001, 0.99),
        st.floats(0, 3),
        st.floats(0, 200),
        st.integers(1, 200),
        st.floats(1, 20),
    ),
    st.sampled_from([1, 3, 10]),
    st.integers(0, 5),
)
def test_exactly_known_trainings_obey_both(
    share, spread, energy, T, batch_size, M, seed
):
    training, older, limit = random_training(spread, energy, T, batch_size, M, seed)
    at_older = training._replace(learning_rate=share * older)
    assert at_older.exact() <= float(at_older.paper().total) * (1 + 1e-12)
    training = training._replace(learning_rate=share * limit)
    bound = float(training.nearly_exact().total)
    assert training.exact() <= bound * (1 + 1e-12)
    if share <= 0.5:  # the learning rates of the older theorem
        assert bound <= training.halved() * (1 + 1e-12)


@pytest.mark.parametrize("term", ["initial", "noise"])
def test_without_one_of_its_terms_the_paper_s_would_be_wrong(term):
    """Negative control: neither term is slack enough to hide behind the others."""
    problem = LeastSquares(np.ones(3), np.zeros((2, 3)), 1e-3)
    lam = float(largest_learning_rate(problem.constants))
    start, energy = (
        (np.full(3, 2.0), 0.0) if term == "initial" else (np.full(3, 1e-3), 50.0)
    )
    training = Training(problem, start, lam, np.full(100, energy), 10, 20)
    bound = training.paper()
    assert bound.total - getattr(bound, term) < training.exact() <= bound.total


@given(st.floats(0.01, 1), st.floats(0.1, 9), *[st.floats(0, 9)] * 3)
def test_nearly_exact_bound_is_never_above_the_paper_s(share, L, A1, A2, C1):
    constants = Constants(L, A1, A2, C1, C2=0.7)
    limit = float(largest_learning_rate(constants))
    signal = SignalMoment.any_samples(constants, 2)
    w = [0.3, 2.0]
    paper = convergence_bound(w, share * limit, 1.5, constants)
    new = nearly_exact_bound(
        w, share * limit, 1.5, smoothness=L, signal=signal, mean_curvature=L
    )
    for name in paper._fields:
        assert float(getattr(new, name)) <= float(getattr(paper, name)) * (1 + 1e-12)
    # its rates reach four times as far
    assert float(signal.bracket(4 * limit, L)) == pytest.approx(0, abs=1e-12)
