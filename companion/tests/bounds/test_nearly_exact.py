"""The nearly exact convergence theorem: it holds, it is nearly exact, and each of its assumptions is needed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.bounds import SignalMoment, convergence_bound, largest_learning_rate, nearly_exact_bound
from companion.theory.convergence import Training
from companion.theory.least_squares import LeastSquares


def random_training(share, spread, energy, T, batch_size, M, seed):
    """A training at ``share`` of the largest learning rate."""
    rng = np.random.default_rng(seed)
    problem = LeastSquares(rng.uniform(0.3, 2, 3), spread * rng.standard_normal((M, 3)), 0.2)
    training = Training(problem, rng.standard_normal(3), 1.0, np.full(T, energy), batch_size, 20)
    limit = 2 / (training.signal_moment().slope * problem.feature_variance.max())
    return training._replace(learning_rate=float(share * limit))


@given(
    st.floats(0.001, 0.99),
    st.floats(0, 3),
    st.floats(0, 200),
    st.integers(1, 200),
    st.floats(1, 20),
    st.sampled_from([1, 3, 10]),
    st.integers(0, 5),
)
def test_exactly_known_trainings_obey_it(share, spread, energy, T, batch_size, M, seed):
    training = random_training(share, spread, energy, T, batch_size, M, seed)
    bound = float(training.nearly_exact().total)
    assert training.exact() <= bound * (1 + 1e-12)
    if share <= 0.5:  # the learning rates of the older theorem
        assert bound <= training.halved() * (1 + 1e-12)


def example(rate, energy, T=1000):
    """The chapter's."""
    deviation = np.random.default_rng(0).standard_normal((5, 5))
    deviation -= deviation.mean(axis=0)
    problem = LeastSquares(np.array([1, 1, 0.8, 0.6, 0.5]), 0.3 + 0.15 * deviation, 0.3)
    return Training(problem, np.zeros(5), rate, np.full(T, float(energy)), 4, 20)


@pytest.mark.parametrize(("rate", "energy"), [(0.02, 5), (0.02, 100), (0.005, 5)])
def test_it_is_exact_within_four_per_cent_where_the_paper_s_is_off_by_a_factor_above_two(rate, energy):
    training = example(rate, energy)
    exact = training.exact()
    assert 1 < float(training.nearly_exact().total) / exact < 1.04
    assert training.halved() / exact > 2
    assert float(training.paper().total) / exact > 2


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_without_the_second_order_term_it_would_be_wrong(rate):
    """Negative control: the bracket may not be set to 1."""
    training = example(rate, 5, T=20_000)
    bracket = training.signal_moment().bracket(rate, 1.0)
    total = float(training.nearly_exact().total)
    assert bracket * total < 0.96 * training.exact() < training.exact() < total


def test_noise_on_one_axis_breaks_it_and_the_largest_curvature_repairs_it():
    """Negative control: A5 is needed for the mean curvature."""
    training = example(0.02, 100)
    bound = training.nearly_exact()
    skewed = training.exact(noise_split=[1, 0, 0, 0, 0])
    assert skewed > 1.2 * float(bound.total)
    assert skewed < float(bound.total + bound.noise * (1 / 0.78 - 1))
    assert training.exact(noise_split=[0.2] * 5) == pytest.approx(training.exact(), rel=1e-12)


def test_a_matrix_that_does_not_bound_the_curvature_breaks_it():
    """Negative control: four fifths of the curvature are not enough."""
    training = example(0.02, 100)
    bound = training.nearly_exact()
    assert float(bound.total - 0.2 * bound.noise) < 0.9 * training.exact()


@given(st.floats(0.01, 1), st.floats(0.1, 9), st.floats(0, 9), st.floats(0, 9), st.floats(0, 9), st.floats(1, 4))
def test_it_is_never_above_the_paper_s_under_the_paper_s_assumptions(share, L, A1, A2, C1, k2):
    known = {"A1": A1, "A2": A2, "C1": C1, "C2": 0.7, "batch_second_moment": k2}
    rate = share * float(largest_learning_rate(L, A1, C1, k2))
    w = np.array([0.3, 2.0])
    paper = convergence_bound(w, rate, 1.5, smoothness=L, **known)
    new = nearly_exact_bound(w, rate, 1.5, smoothness=L, signal=SignalMoment.any_samples(**known))
    for name in paper._fields:
        assert float(getattr(new, name)) <= float(getattr(paper, name)) * (1 + 1e-12)
    # its learning rates reach four times as far
    bracket = SignalMoment.any_samples(**known).bracket(4 * float(largest_learning_rate(L, A1, C1, k2)), L)
    assert float(bracket) == pytest.approx(0, abs=1e-12)


def second_moment_of_all_batches(sample, q, shared):
    """E||s||^2 for fixed samples (M, n, d), exactly: batches of each device's own, or one for all."""
    M, n, _ = sample.shape
    mean = sample.mean(axis=(0, 1))
    if shared:
        spread = np.sum(sample.mean(axis=0) ** 2, axis=-1).sum()
    else:
        spread = np.sum(sample**2, axis=-1).sum() / M**2
    return mean @ mean + (1 - q) / q * spread / n**2


@given(st.integers(1, 6), st.integers(1, 9), st.floats(0.01, 1), st.integers(0, 99))
def test_bounded_samples_need_no_constants(M, n, q, seed):
    rng = np.random.default_rng(seed)
    sample = rng.standard_normal((M, n, 3)) + 3 * rng.standard_normal((M, 1, 3))
    sample *= 2 / np.maximum(2, np.linalg.norm(sample, axis=-1, keepdims=True))
    signal = SignalMoment.bounded(2, M * q * n)
    limit = float(signal.slope * np.sum(sample.mean(axis=(0, 1)) ** 2) + signal.sampling + signal.heterogeneity)
    assert second_moment_of_all_batches(sample, q, shared=False) <= limit * (1 + 1e-12)


def test_devices_that_share_their_batches_exceed_it():
    """Negative control: A0 wants batches drawn device by device."""
    sample = np.random.default_rng(0).standard_normal((1, 50, 3)).repeat(20, axis=0)
    sample /= np.linalg.norm(sample, axis=-1, keepdims=True)
    signal = SignalMoment.bounded(1, 20 * 5)
    limit = float(np.sum(sample.mean(axis=(0, 1)) ** 2) + signal.sampling)
    assert second_moment_of_all_batches(sample, 0.1, shared=False) < limit
    assert second_moment_of_all_batches(sample, 0.1, shared=True) > 3 * limit


def test_lanes_broadcast_and_only_the_mean_of_the_noise_counts():
    signal = SignalMoment.uncorrelated([0.5, 1.0], 0.3, 0.2, 0.7, 20)
    bound = nearly_exact_bound([[1.0, 3.0], [2.0, 2.0]], 0.05, 1.0, smoothness=2.0, signal=signal)
    assert all(term.shape == (2,) for term in bound)
    alone = nearly_exact_bound(
        [2.0, 2.0], 0.05, 1.0, smoothness=2.0, signal=SignalMoment.uncorrelated(0.5, 0.3, 0.2, 0.7, 20)
    )
    assert float(bound.total[0]) == pytest.approx(float(alone.total), rel=1e-14)


GOOD = {
    "noise_energy": [1.0, 2.0],
    "learning_rate": 0.1,
    "initial_gap": 1.0,
    "smoothness": 2.0,
    "signal": SignalMoment.bounded(1, 10),
    "mean_curvature": 1.0,
}
BAD = [
    ({"noise_energy": 1.0}, "noise_energy must have a last axis"),
    ({"noise_energy": [-1.0]}, "noise_energy"),
    ({"learning_rate": 1.0}, "learning_rate must be below 1 for these constants, got 1"),
    ({"learning_rate": 0.0}, "learning_rate"),
    ({"initial_gap": -1.0}, "initial_gap"),
    ({"smoothness": math.inf}, "smoothness"),
    ({"mean_curvature": 2.1}, "mean_curvature must be at most smoothness"),
    ({"signal": SignalMoment(0.5, 0.0, 0.0)}, "signal.slope"),
    ({"signal": SignalMoment(1.0, -1.0, 0.0)}, "signal.heterogeneity"),
    ({"initial_gap": [1.0, 2.0, 3.0], "learning_rate": [0.1, 0.1]}, r"initial_gap \(3,\)"),
    ({"initial_gap": 1e308, "learning_rate": 1e-9}, "beyond floating point"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_named(change, message):
    nearly_exact_bound(**GOOD)
    with pytest.raises(ValueError, match=message):
        nearly_exact_bound(**(GOOD | change))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: SignalMoment.uncorrelated(-1, 0, 0, 0, 1), "A1"),
        (lambda: SignalMoment.uncorrelated(0, 0, 0, 0, 0), "averaged"),
        (lambda: SignalMoment.any_samples(0, 0, 0, 0, 0.5), "batch_second_moment"),
        (lambda: SignalMoment.bounded(0, 1), "clip_norm"),
    ],
)
def test_bad_constants_are_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
