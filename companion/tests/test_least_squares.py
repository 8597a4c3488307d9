"""The least-squares example: its constants, its exact second moments, its simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from companion.theory.least_squares import LeastSquares, empirical_constants, simulate

PROBLEM = LeastSquares([0.5, 1.5], [[1.0, 0.0], [0.0, -2.0], [0.5, 0.5]], 0.4)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(4)  # exact for the moments up to order 7 of a Gaussian
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def sample_moments(problem, model, m):
    """Mean and covariance of the sample gradient of device m, by quadrature over x and the label noise."""
    mean, square = np.zeros(2), np.zeros((2, 2))
    for i, j, k in itertools.product(range(4), repeat=3):
        weight = WEIGHTS[i] * WEIGHTS[j] * WEIGHTS[k]
        x = np.sqrt(problem.feature_variance) * NODES[[i, j]]
        g = x * (x @ (model - problem.targets[m]) - problem.label_noise * NODES[k])
        mean += weight * g
        square += weight * np.outer(g, g)
    return mean, square - np.outer(mean, mean)


coordinates = st.floats(-5, 5)


@given(coordinates, coordinates)
def test_constants_satisfy_the_assumptions(first, second):
    model, known = np.array([first, second]), PROBLEM.constants
    means = []
    for m in range(3):
        mean, covariance = sample_moments(PROBLEM, model, m)
        means.append(mean)
        assert np.trace(covariance) <= (known.A1 * mean @ mean + known.A2) * (1 + 1e-12)
    gradient = np.mean(means, axis=0)
    np.testing.assert_allclose(PROBLEM.gradient(model), gradient, atol=1e-12)
    spread = np.mean(np.sum((np.array(means) - gradient) ** 2, axis=1))
    assert spread == pytest.approx(known.C1 * gradient @ gradient + known.C2, rel=1e-11)
    assert PROBLEM.loss(model) >= known.f_star * (1 - 1e-14)


def test_no_constant_of_the_sample_noise_can_be_smaller():
    known = PROBLEM.constants
    at_its_target = np.trace(sample_moments(PROBLEM, PROBLEM.targets[0], 0)[1])
    assert at_its_target == pytest.approx(known.A2, rel=1e-12)
    far = PROBLEM.targets[0] + np.array([1e4, 0.0])  # along the axis of the least variance
    mean, covariance = sample_moments(PROBLEM, far, 0)
    assert np.trace(covariance) > (1 - 1e-6) * known.A1 * mean @ mean + known.A2


def test_minimum_and_smoothness_are_those_of_the_loss():
    found = optimize.minimize(PROBLEM.loss, np.zeros(2), tol=1e-12)
    np.testing.assert_allclose(found.x, PROBLEM.minimiser, atol=1e-5)  # the loss is flat: half of its digits
    assert found.fun == pytest.approx(PROBLEM.constants.f_star, rel=1e-10)
    step = np.eye(2)[1]
    curvature = PROBLEM.loss(step) - 2 * PROBLEM.loss(0 * step) + PROBLEM.loss(-step)
    assert curvature == pytest.approx(PROBLEM.constants.smoothness, rel=1e-12)


def by_matrices(problem, start, lam, noise_energy, B, n):
    """The second moments with quadrature in place of every formula, and the mean kept beside them."""
    S, (M, d) = np.diag(problem.feature_variance), problem.targets.shape
    U, out = np.outer(start - problem.minimiser, start - problem.minimiser), []
    for w in noise_energy:
        out.append(np.trace(S @ U @ S))
        # an average over devices and models: a model at each column of a root of U, both signs
        root = np.linalg.cholesky(U + 1e-15 * np.eye(d)) * np.sqrt(d)
        noise = np.zeros((d, d))
        for column, sign, m in itertools.product(range(d), (-1, 1), range(M)):
            mean, covariance = sample_moments(problem, problem.minimiser + sign * root[:, column], m)
            noise += ((1 - B / n) * np.outer(mean, mean) + covariance) / (2 * d * M**2 * B)
        shrink = np.eye(d) - lam * S
        U = shrink @ U @ shrink + lam**2 * (noise + w / (2 * d) * np.eye(d))
    return np.array(out)


def test_exact_second_moments_agree_with_quadrature():
    start, w = np.array([2.0, 1.0]), np.linspace(0, 3, 25)
    left = PROBLEM.expected_squared_gradients(start, 0.1, w, 3, 12)
    # the root of a singular U is taken 1e-15 beside it
    np.testing.assert_allclose(left, by_matrices(PROBLEM, start, 0.1, w, 3, 12), rtol=1e-10)


def final_squares(lam=0.1, energy=2.0, batch=3, runs=4000):
    rounds = simulate(PROBLEM, np.random.default_rng(0), [2.0, 1.0], lam, np.full(21, energy), batch, 12, runs=runs)
    return np.sum(PROBLEM.gradient(list(rounds)[-1].model) ** 2, axis=1)


def test_simulation_has_the_exact_second_moment():
    values = final_squares()
    half = stats.norm.ppf(0.9995) * stats.sem(values)  # fails by chance once in a thousand seeds
    for energy, batch, agrees in ((2.0, 3, True), (4.0, 3, False), (2.0, 1.5, False)):  # two negative controls
        exact = PROBLEM.expected_squared_gradients([2.0, 1.0], 0.1, np.full(21, energy), batch, 12)[-1]
        assert (abs(values.mean() - exact) < half) == agrees


def test_signal_is_the_poisson_average_and_fixed_data_give_fixed_gradients():
    data = PROBLEM.draw(np.random.default_rng(1), 1, 12)
    rounds = list(simulate(PROBLEM, np.random.default_rng(2), [0.0, 0.0], 1e-9, np.zeros(3), 12, 12, runs=2, data=data))
    features, labels = data[0][0], data[1][0]
    expected = np.zeros(2)
    for m in range(3):
        for i in range(12):
            expected -= features[m, i] * labels[m, i] / 36
    for now in rounds:
        np.testing.assert_allclose(now.full_gradient, np.tile(expected, (2, 1)), rtol=1e-6)  # the step is 1e-9
        np.testing.assert_array_equal(now.signal, now.full_gradient)  # q = 1: every sample is in the batch
    fresh = list(simulate(PROBLEM, np.random.default_rng(2), [0.0, 0.0], 1e-9, np.zeros(3), 12, 12, runs=2))
    assert not np.allclose(fresh[0].full_gradient, fresh[1].full_gradient)


def test_same_seed_same_training():
    np.testing.assert_array_equal(final_squares(runs=5), final_squares(runs=5))


def plain_gradients(features, labels, model):
    """Gradients, sample-noise mean squares: plain."""
    each = features * (features @ model - labels)[..., None]
    local = each.mean(axis=1)
    return local, np.mean(np.sum((each - local[:, None]) ** 2, axis=-1), axis=1)


FEATURES, LABELS = (array[0] for array in PROBLEM.draw(np.random.default_rng(3), 1, 8))
EMPIRICAL = empirical_constants(FEATURES, LABELS)


def excess(model, known):
    """How far A3 and A4 fail at a model, at most 0 when they hold."""
    local, v = plain_gradients(FEATURES, LABELS, model)
    gradient = local.mean(axis=0)
    third = (v - known.A1 * np.sum(local**2, axis=1) - known.A2).max()
    fourth = np.mean(np.sum((local - gradient) ** 2, axis=1)) - known.C1 * gradient @ gradient - known.C2
    return np.array([third, fourth])


@given(st.floats(-30, 30), st.floats(-30, 30))
def test_empirical_constants_satisfy_the_assumptions(first, second):
    assert (excess(np.array([first, second]), EMPIRICAL) <= 1e-9).all()  # rounding of values up to 1e4


@pytest.mark.parametrize(("row", "changed"), [(0, {"A2": 0.98}), (1, {"C2": 0.98})])
def test_empirical_constants_are_attained(row, changed):
    """Negative control: two per cent less is not enough somewhere."""
    ((name, factor),) = changed.items()
    smaller = EMPIRICAL._replace(**{name: factor * getattr(EMPIRICAL, name)})
    worst = -min(
        optimize.minimize(lambda x: -excess(x, smaller)[row], x0, method="Nelder-Mead").fun for x0 in PROBLEM.targets
    )
    assert worst > 0


def test_empirical_minimum_is_the_least_squares_fit():
    stacked, target = FEATURES.reshape(-1, 2), LABELS.reshape(-1)
    residual = np.linalg.lstsq(stacked, target, rcond=None)[1][0]
    assert EMPIRICAL.f_star == pytest.approx(residual / (2 * target.size), rel=1e-12)


def test_one_device_agrees_with_itself():
    known = empirical_constants(FEATURES[:1], LABELS[:1])
    assert max(known.C1, known.C2) < 1e-20  # rounding, squared


BAD = [
    (lambda: LeastSquares([1.0, 0.0], [[1.0, 1.0]], 1), "feature_variance"),
    (lambda: LeastSquares([[1.0]], [[1.0]], 1), "feature_variance must have shape"),
    (lambda: LeastSquares([1.0], [[math.nan]], 1), "targets"),
    (lambda: LeastSquares([1.0], [[1.0]], [1, 2]), "label_noise must be one number"),
    (lambda: simulate(PROBLEM, None, [0.0], 0.1, [1.0], 3, 12), "start"),
    (lambda: simulate(PROBLEM, None, [0.0, 0.0], [0.1, 0.1], [1.0], 3, 12), "learning_rate must be one number"),
    (lambda: simulate(PROBLEM, None, [0.0, 0.0], 0.1, 1.0, 3, 12), "noise_energy must have shape"),
    (lambda: simulate(PROBLEM, None, [0.0, 0.0], 0.1, [1.0], 13, 12), "sampling rate"),
    (lambda: simulate(PROBLEM, None, [0.0, 0.0], 0.1, [1.0], 3, 12.5), "dataset_size"),
    (lambda: simulate(PROBLEM, None, [0.0, 0.0], 0.1, [1.0], 3, 12, runs=0), "runs"),
    (lambda: simulate(PROBLEM, None, [0.0, 0.0], 0.1, [1.0], 3, 12, data=(np.ones((1, 3, 5, 2)), None)), "data"),
    (lambda: PROBLEM.expected_squared_gradients([0.0, 0.0], 0.1, [1.0], 3, [12, 12]), "must be one number each"),
    (lambda: empirical_constants(FEATURES[:, :1], LABELS[:, :1]), "n >= d"),
    (lambda: empirical_constants(FEATURES, LABELS[:, :1]), "shapes"),
    (lambda: empirical_constants(FEATURES, LABELS, slack=1), "slack must be > 1, got 1"),
]


@pytest.mark.parametrize(("call", "named"), BAD)
def test_bad_input_is_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
