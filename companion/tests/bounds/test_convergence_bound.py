"""The convergence bound: the paper's formula, its terms, and trainings that must obey it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.bounds import ConvergenceBound, convergence_bound, largest_learning_rate
from companion.theory.least_squares import LeastSquares

KNOWN = {"smoothness": 2.0, "A1": 0.5, "A2": 0.3, "C1": 0.2, "C2": 0.7}


def by_the_paper(eta, d, noise_power, lam, gap, L, A1, A2, C1, C2):
    """Theorem 1 as printed, in eta, with plain sums."""
    T = len(eta)
    phi = 2 * gap / (lam * T) + 2 * L * lam * (2 * C2 * (A1 + 1) + A2)
    return phi + L * lam / (2 * T) * math.fsum(d * noise_power / value for value in eta)


nonnegative, positive = st.floats(0, 1e3), st.floats(1e-3, 1e3)


@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20),
    st.floats(0.01, 1),
    nonnegative,
    positive,
    nonnegative,
    nonnegative,
    nonnegative,
    nonnegative,
)
def test_right_side_is_the_paper_s(eta, share, gap, L, A1, A2, C1, C2):
    d, noise_power = 26_010, 1e-12
    lam = share / (4 * L * (C1 + 1) * (A1 + 1))
    bound = convergence_bound(d * noise_power / np.array(eta), lam, gap, smoothness=L, A1=A1, A2=A2, C1=C1, C2=C2)
    expected = by_the_paper(eta, d, noise_power, lam, gap, L, A1, A2, C1, C2)
    assert float(bound.total) == pytest.approx(expected, rel=1e-12)  # a handful of roundings


def test_only_the_noise_term_knows_the_schedule_and_only_through_its_mean():
    w = np.array([1.0, 2.0, 6.0])
    same_mean, louder = (convergence_bound(v, 0.05, 1.0, **KNOWN) for v in (np.full(3, 3.0), 2 * w))
    bound = convergence_bound(w, 0.05, 1.0, **KNOWN)
    assert bound == same_mean
    assert bound[:3] == louder[:3]
    assert float(louder.noise) == 2 * float(bound.noise)


def test_lanes_broadcast():
    w = np.random.default_rng(0).uniform(0, 2, (2, 5))
    gaps = np.array([0.5, 1.0, 2.0])[:, None]
    bound = convergence_bound(w, [0.01, 0.02], gaps, **KNOWN)
    assert all(term.shape == (3, 2) for term in bound)
    assert bound.total.shape == (3, 2)
    for k in range(3):
        for r in range(2):
            alone = convergence_bound(w[r], [0.01, 0.02][r], gaps[k, 0], **KNOWN)
            for name in ConvergenceBound._fields:
                # the mean of a row may be summed in another order
                assert getattr(bound, name)[k, r] == pytest.approx(float(getattr(alone, name)), rel=1e-14)


def test_the_largest_learning_rate_is_the_paper_s_and_is_admitted():
    for A1, C1 in np.random.default_rng(1).uniform(0, 9, (200, 2)):
        limit = 1 / (4 * 2.0 * (C1 + 1) * (A1 + 1))
        assert float(largest_learning_rate(2.0, A1, C1)) == pytest.approx(limit, rel=1e-14)
        convergence_bound([1.0], limit, 1.0, **(KNOWN | {"A1": A1, "C1": C1}))
    # the factor of the descent is exactly one half there
    descent = 1 - 2 * 2.0 * largest_learning_rate(2.0, 0.5, 0.2) * 1.2 * 1.5
    assert float(descent) == pytest.approx(0.5, rel=1e-14)


def test_a_larger_learning_rate_is_refused_by_name():
    limit = float(largest_learning_rate(2.0, 0.5, 0.2))
    with pytest.raises(ValueError, match=rf"learning_rate must be at most {limit:.6g} .* got {1.01 * limit:.6g}"):
        convergence_bound([1.0], [limit / 2, 1.01 * limit], 1.0, **KNOWN)
    with pytest.raises(ValueError, match="learning_rate"):  # smaller batches allow less
        convergence_bound([1.0], limit, 1.0, **KNOWN, batch_second_moment=3)


def test_batches_larger_than_the_paper_allows_for_tighten_the_bound():
    two, one = (convergence_bound([1.0], 0.05, 1.0, **KNOWN, batch_second_moment=k2) for k2 in (2, 1))
    assert float(two.sampling) == pytest.approx(2 * float(one.sampling), rel=1e-14)
    assert float(two.heterogeneity) == pytest.approx(2 * float(one.heterogeneity), rel=1e-14)
    assert (two.initial, two.noise) == (one.initial, one.noise)


@given(
    st.floats(0.02, 1),
    st.floats(0, 3),
    st.floats(0, 200),
    st.integers(1, 200),
    st.floats(1, 20),
    st.sampled_from([1, 3, 10]),
    st.integers(0, 5),
)
def test_exactly_known_trainings_obey_it(share, spread, noise_energy, T, batch_size, M, seed):
    rng = np.random.default_rng(seed)
    problem = LeastSquares(rng.uniform(0.3, 2, 3), spread * rng.standard_normal((M, 3)), 0.2)
    known = {name: value for name, value in problem.constants._asdict().items() if name != "f_star"}
    lam = share * float(largest_learning_rate(known["smoothness"], known["A1"], known["C1"]))
    start, w = rng.standard_normal(3), np.full(T, noise_energy)
    left = problem.expected_squared_gradients(start, lam, w, batch_size, 20).mean()
    bound = convergence_bound(w, lam, problem.loss(start) - problem.constants.f_star, **known)
    assert left <= float(bound.total) * (1 + 1e-12)


@pytest.mark.parametrize("term", ["initial", "noise"])
def test_without_one_of_its_terms_it_would_be_wrong(term):
    """Negative control: neither term is slack enough to hide behind the others."""
    problem = LeastSquares(np.ones(3), np.zeros((2, 3)), 1e-3)
    known = {name: value for name, value in problem.constants._asdict().items() if name != "f_star"}
    lam = float(largest_learning_rate(1, known["A1"], 0))
    start = np.full(3, 2.0 if term == "initial" else 1e-3)
    w = np.full(100, 0.0 if term == "initial" else 50.0)
    left = problem.expected_squared_gradients(start, lam, w, 10, 20).mean()
    bound = convergence_bound(w, lam, problem.loss(start) - problem.constants.f_star, **known)
    assert bound.total - getattr(bound, term) < left <= bound.total


BAD = [
    ({"noise_energy": [1.0, -1.0]}, "noise_energy must be finite and >= 0, got -1.0 at index 1"),
    ({"noise_energy": 1.0}, "noise_energy must have a last axis"),
    ({"noise_energy": []}, "noise_energy must have a last axis"),
    ({"learning_rate": 0}, "learning_rate must be finite and > 0"),
    ({"initial_gap": -0.1}, "initial_gap must be finite and >= 0, got -0.1"),
    ({"smoothness": math.inf}, "smoothness"),
    ({"A1": -1}, "A1"),
    ({"A2": math.nan}, "A2"),
    ({"C1": -1}, "C1"),
    ({"C2": "x"}, "C2"),
    ({"batch_second_moment": 0.5}, "batch_second_moment must be finite and >= 1, got 0.5"),
    ({"initial_gap": [1.0, 2.0, 3.0], "A2": [1.0, 2.0]}, r"initial_gap \(3,\)"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_named(change, message):
    good = {"noise_energy": [1.0, 2.0], "learning_rate": 0.01, "initial_gap": 1.0, **KNOWN}
    convergence_bound(**good)
    with pytest.raises(ValueError, match=message):
        convergence_bound(**(good | change))
