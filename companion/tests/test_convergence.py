"""What the convergence chapter measures and solves for, held to plain loops and to the networks themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from companion.theory import convergence as theory
from companion.theory.least_squares import LeastSquares, empirical_constants

PROBLEM = LeastSquares(
    np.array([0.5, 1.5]), np.array([[1.0, 0.0], [0.0, -2.0], [0.5, 0.5]]), 0.4
)
TRAINING = theory.Training(PROBLEM, np.array([2.0, 1.0]), 0.05, np.full(30, 2.0), 3, 12)
# exact for the moments up to order 7 of a Gaussian
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(4)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
coordinates = st.floats(-5, 5)
FEATURES, LABELS = (array[0] for array in PROBLEM.draw(np.random.default_rng(3), 1, 8))
EMPIRICAL = empirical_constants(FEATURES, LABELS)


def half_width(values, tests=1):
    # fails by chance once in a thousand seeds
    return stats.norm.ppf(1 - 0.0005 / tests) * stats.sem(values)


def test_every_expectation_of_the_two_lemmas_is_met():
    moments = theory.step_moments(
        TRAINING, [0.3, -0.4], np.random.default_rng(1), 20_000
    )
    for name, (values, exact) in moments.items():
        assert abs(values.mean() - exact) < half_width(values, len(moments)), name
    values, _ = moments["squared batch size / B²"]
    # negative control: batches are not of one size
    assert abs(values.mean() - 1) > half_width(values)


def test_only_data_that_are_kept_bias_the_gradient():
    for reuse in (True, False):
        estimate, error = theory.relative_bias(
            TRAINING, np.random.default_rng(3), 2000, reuse=reuse
        )
        assert abs(estimate[0]) < 4 * error[0]
        assert (estimate[-1] < -4 * error[-1]) == reuse


def by_loop(T):
    lam = 1 / np.sqrt(T)
    gain = 0.0
    total = 0.0
    for _ in range(T):
        total += gain**2 / 20
        gain += lam * (1 - gain)
    return total / T


@pytest.mark.parametrize("T", [4, 17, 462, 2000])
def test_left_side_on_reused_data_is_that_of_the_recursion(T):
    assert float(theory.reuse_left_side(20, T)) == pytest.approx(by_loop(T), rel=1e-11)


@pytest.mark.parametrize(("k2", "T"), [(2, 1722), (1, 462)])
def test_reused_data_break_the_bound_from_there_on(k2, T):
    assert theory.reuse_breaks(20, k2) == T
    assert by_loop(T) > k2 / np.sqrt(T)
    assert by_loop(T - 1) <= k2 / np.sqrt(T - 1)
    later = np.arange(T, 200_000)
    assert (theory.reuse_left_side(20, later) > k2 / np.sqrt(later)).all()


def decay_by_loop(zeta, rounds):
    """Mean squared gradient, from the moments of theta instead of those of the gradient."""
    lam = 1 / (4 * (1 + zeta))
    keep, noise = 1 - lam * zeta, 1.99 * lam**2
    first = second = total = 0.0  # E theta and E theta^2
    for _ in range(rounds):
        total += (1 + zeta) ** 2 * second - 2 * (1 + zeta) * first + 1
        moved = 2 * (keep * lam - noise) * first + noise
        second = (keep**2 - 2 * keep * lam + noise) * second + moved
        first = (keep - lam) * first + lam
    return total / rounds


@pytest.mark.parametrize("zeta", [1.0, 0.3, 1e-2])
def test_decay_by_the_server_breaks_the_bound_from_there_on(zeta):
    broken_from = theory.server_decay(zeta)
    assert decay_by_loop(zeta, broken_from) > 4 / broken_from
    assert decay_by_loop(zeta, broken_from - 1) <= 4 / (broken_from - 1)
    # negative control: at q = 1 there is hardly any variance
    assert theory.server_decay(zeta, variance=1e-11) > 1000 * broken_from


def test_a_device_whose_samples_agree_uses_all_of_its_power():
    agreeing = LeastSquares(np.ones(1), np.zeros((2, 1)), 1e-9)
    near, far = (
        theory.used_power(agreeing, [model], 1e-3, 4, 0.01, np.random.default_rng(4))
        for model in (1e-9, 1e6)
    )
    assert near < 1e-6
    # all gradients are clipped to one and the same
    assert far == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(("mu", "lam"), [(0.0, 0.25), (0.9, 0.25), (0.5, 1.3)])
def test_momentum_is_that_of_the_recursion_of_moments(mu, lam):
    xx = xv = vv = 0.0
    for _ in range(3000):
        new_vv = mu**2 * vv + xx + 2 * mu * xv + 0.5  # E xi^2 = w / 2 with w = 1
        moved = mu * xv + xx
        xx = xx - 2 * lam * moved + lam**2 * new_vv
        xv = moved - lam * new_vv
        vv = new_vv
    ratio = float(theory.momentum_over_bound(mu, lam))
    assert xx / (lam / 2) == pytest.approx(ratio, rel=1e-10)
    # negative control: without momentum the bound holds
    assert (ratio <= 1) == (mu == 0)


def sample_moments(problem, model, m):
    """Mean and covariance of the sample gradient of device m, by quadrature over x and the label noise."""
    first, second, noise = (each.ravel() for each in np.meshgrid(*[NODES] * 3))
    weight = np.prod(np.meshgrid(*[WEIGHTS] * 3), axis=0).ravel()
    x = np.sqrt(problem.feature_variance) * np.column_stack([first, second])
    error = x @ (model - problem.targets[m]) - problem.label_noise * noise
    g = x * error[:, None]
    mean = weight @ g
    return mean, (weight * g.T) @ g - np.outer(mean, mean)


@given(coordinates, coordinates)
def test_constants_satisfy_the_assumptions(first, second):
    model = np.array([first, second])
    constants = PROBLEM.constants
    means = []
    for m in range(3):
        mean, covariance = sample_moments(PROBLEM, model, m)
        means.append(mean)
        assert np.trace(covariance) <= (constants.A1 * mean @ mean + constants.A2) * (
            1 + 1e-12
        )
    gradient = np.mean(means, axis=0)
    np.testing.assert_allclose(PROBLEM.gradient(model), gradient, atol=1e-12)
    spread = np.mean(np.sum((np.array(means) - gradient) ** 2, axis=1))
    assert spread == pytest.approx(
        constants.C1 * gradient @ gradient + constants.C2, rel=1e-11
    )
    assert PROBLEM.loss(model) >= constants.f_star * (1 - 1e-14)


def test_no_constant_of_the_sample_noise_can_be_smaller():
    constants = PROBLEM.constants
    at_its_target = np.trace(sample_moments(PROBLEM, PROBLEM.targets[0], 0)[1])
    assert at_its_target == pytest.approx(constants.A2, rel=1e-12)
    # along the axis of the least variance
    far = PROBLEM.targets[0] + np.array([1e4, 0.0])
    mean, covariance = sample_moments(PROBLEM, far, 0)
    assert np.trace(covariance) > (1 - 1e-6) * constants.A1 * mean @ mean + constants.A2


def test_minimum_and_smoothness_are_those_of_the_loss():
    minimum = optimize.minimize(PROBLEM.loss, np.zeros(2), tol=1e-12)
    # the loss is flat: half of its digits
    np.testing.assert_allclose(minimum.x, PROBLEM.minimiser, atol=1e-5)
    assert minimum.fun == pytest.approx(PROBLEM.constants.f_star, rel=1e-10)
    step = np.eye(2)[1]
    curvature = PROBLEM.loss(step) - 2 * PROBLEM.loss(0 * step) + PROBLEM.loss(-step)
    assert curvature == pytest.approx(PROBLEM.constants.smoothness, rel=1e-12)


def test_simulation_has_the_exact_second_moment():
    training = TRAINING._replace(learning_rate=0.1, noise_energy=np.full(21, 2.0))
    rng = np.random.default_rng(0)
    values = training.squared_gradients(rng, 4000)[:, -1]
    # fails by chance once in a thousand seeds
    half = stats.norm.ppf(0.9995) * stats.sem(values)
    # two negative controls
    for energy, batch, agrees in (
        (2.0, 3, True),
        (4.0, 3, False),
        (2.0, 1.5, False),
    ):
        changed = {"noise_energy": np.full(21, energy), "batch_size": batch}
        exact = training._replace(**changed).exact_squares()[-1]
        assert (abs(values.mean() - exact) < half) == agrees


@given(st.floats(-30, 30), st.floats(-30, 30))
def test_empirical_constants_satisfy_the_assumptions(first, second):
    model, (_, A1, A2, C1, C2, _) = np.array([first, second]), EMPIRICAL
    samples = FEATURES * (FEATURES @ model - LABELS)[..., None]
    local = samples.mean(axis=1)
    gradient = local.mean(axis=0)
    noise = ((samples - local[:, None]) ** 2).sum(axis=-1).mean(axis=1)
    # 1e-9: rounding of values up to 1e4
    assert (noise <= A1 * (local**2).sum(axis=1) + A2 + 1e-9).all()
    spread = ((local - gradient) ** 2).sum(axis=1).mean()
    assert spread <= C1 * gradient @ gradient + C2 + 1e-9


def test_signal_of_fixed_data_matches_plain_sums():
    rng = np.random.default_rng(1)
    data = features, labels = PROBLEM.draw(rng, 1, 12)
    expected = -np.mean(features * labels[..., None], axis=(1, 2))[0]
    training = theory.Training(PROBLEM, np.zeros(2), 1e-9, np.zeros(3), 12, 12)
    for now in training.rounds(rng, 2, data):
        np.testing.assert_allclose(now.full_gradient, [expected] * 2, rtol=1e-6)
        # q = 1: every sample is in the batch
        np.testing.assert_array_equal(now.signal, now.full_gradient)
