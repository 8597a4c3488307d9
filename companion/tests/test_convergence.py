"""What the convergence chapter measures and solves for, held to plain loops and to the networks themselves."""

import itertools

import numpy as np
import pytest
from scipy import stats

from companion.theory.convergence import (
    Training,
    compare,
    momentum_over_bound,
    relative_bias,
    reuse_breaks,
    reuse_left_side,
    server_decay,
    step_moments,
    used_power,
)
from companion.theory.least_squares import LeastSquares

PROBLEM = LeastSquares([0.5, 1.5], [[1.0, 0.0], [0.0, -2.0], [0.5, 0.5]], 0.4)
TRAINING = Training(PROBLEM, np.array([2.0, 1.0]), 0.05, np.full(30, 2.0), 3, 12)


def test_poisson_sums_over_all_batches():
    """lem-poisson, by summing over every batch of four items."""
    q, rng = 0.3, np.random.default_rng(0)
    vectors, numbers = rng.standard_normal((4, 2)), rng.standard_normal(4)
    B = 4 * q
    k2 = 1 + (1 - q) / B
    totals = np.zeros(2), 0.0, 0.0, 0.0
    for b in itertools.product((0, 1), repeat=4):
        count = sum(b)
        weight = q**count * (1 - q) ** (4 - count)
        inside = np.array(b) @ vectors
        values = inside, inside @ inside, count * (np.array(b) @ numbers), count**2
        totals = tuple(total + weight * value for total, value in zip(totals, values, strict=True))
    mean = vectors.mean(axis=0)
    square = B**2 * mean @ mean + B * (1 - q) * np.sum(vectors**2) / 4
    np.testing.assert_allclose(totals[0], B * mean, rtol=1e-13)
    assert totals[1] == pytest.approx(square, rel=1e-13)
    assert totals[2] == pytest.approx(B**2 * k2 * numbers.mean(), rel=1e-13)
    assert totals[3] == pytest.approx(B**2 * k2, rel=1e-13)
    assert totals[1] != pytest.approx(B**2 * mean @ mean, rel=1e-2)  # negative control: no variance


def half_width(values, tests=1):
    return stats.norm.ppf(1 - 0.0005 / tests) * stats.sem(values)  # fails by chance once in a thousand seeds


def test_every_expectation_of_the_two_lemmas_is_met():
    moments = step_moments(TRAINING, [0.3, -0.4], np.random.default_rng(1), 20_000)
    for name, (values, exact) in moments.items():
        assert abs(values.mean() - exact) < half_width(values, len(moments)), name
    values, _ = moments["squared batch size / B²"]
    assert abs(values.mean() - 1) > half_width(values)  # negative control: batches are not of one size


def test_simulated_gradients_have_the_exact_mean():
    values = TRAINING.squared_gradients(np.random.default_rng(2), 2000).mean(axis=1)
    assert abs(values.mean() - TRAINING.exact()) < half_width(values)
    louder = TRAINING._replace(noise_energy=2 * TRAINING.noise_energy)
    assert abs(values.mean() - louder.exact()) > half_width(values)  # negative control


def test_only_data_that_are_kept_bias_the_gradient():
    for reuse in (True, False):
        estimate, error = relative_bias(TRAINING, np.random.default_rng(3), 2000, reuse=reuse)
        assert abs(estimate[0]) < 4 * error[0]
        assert (estimate[-1] < -4 * error[-1]) == reuse


def by_loop(samples, T):
    lam, gain, total = 1 / np.sqrt(T), 0.0, 0.0
    for _ in range(T):
        total += gain**2 / samples
        gain += lam * (1 - gain)
    return total / T


@pytest.mark.parametrize("T", [4, 17, 462, 2000])
def test_left_side_on_reused_data_is_that_of_the_recursion(T):
    assert float(reuse_left_side(20, T)) == pytest.approx(by_loop(20, T), rel=1e-11)


@pytest.mark.parametrize(("k2", "T"), [(2, 1722), (1, 462)])
def test_reused_data_break_the_bound_from_there_on(k2, T):
    assert reuse_breaks(20, k2) == T
    assert by_loop(20, T) > k2 / np.sqrt(T)
    assert by_loop(20, T - 1) <= k2 / np.sqrt(T - 1)
    later = np.arange(T, 200_000)
    assert (reuse_left_side(20, later) > k2 / np.sqrt(later)).all()


def decay_by_loop(zeta, rounds):
    """Mean squared gradient, from the moments of theta instead of those of the gradient."""
    lam, s = 1 / (4 * (1 + zeta)), 0.99
    first = second = total = 0.0  # E theta and E theta^2
    for _ in range(rounds):
        total += (1 + zeta) ** 2 * second - 2 * (1 + zeta) * first + 1
        keep = 1 - lam * zeta
        moved = 2 * (keep * lam - lam**2 * (1 + s)) * first + lam**2 * (1 + s)
        second = (keep**2 - 2 * keep * lam + lam**2 * (1 + s)) * second + moved
        first = (keep - lam) * first + lam
    return total / rounds


@pytest.mark.parametrize("zeta", [1.0, 0.3, 1e-2])
def test_decay_by_the_server_is_that_of_the_recursion(zeta):
    left, right, broken_from = server_decay(zeta, 500)
    assert left == pytest.approx(decay_by_loop(zeta, 500), rel=1e-10)
    assert right == pytest.approx(2 * 0.5 / (1 + zeta) / (500 / (4 * (1 + zeta))), rel=1e-13)
    assert decay_by_loop(zeta, broken_from + 1) > 4 / (broken_from + 1)
    assert decay_by_loop(zeta, broken_from - 2) < 4 / (broken_from - 2)


def test_without_random_batches_decay_by_the_server_is_harmless():
    """Negative control: q = 1 leaves no variance; from any number of rounds on."""
    found = server_decay(1.0, 10_000, batch_size=100, dataset_size=100.0000001)
    assert found.left < found.right


def test_a_device_whose_samples_agree_uses_all_of_its_power():
    agreeing = LeastSquares([1.0], [[0.0], [0.0]], 1e-9)
    near, far = (used_power(agreeing, [model], 1e-3, 4, 0.01, np.random.default_rng(4)) for model in (1e-9, 1e6))
    assert near < 1e-6
    assert far == pytest.approx(1, abs=0.02)  # all gradients are clipped to one and the same


def test_bad_input_is_named():
    for call, named in (
        (lambda: reuse_left_side(20, 1), "rounds"),
        (lambda: reuse_left_side(0, 4), "samples"),
        (lambda: reuse_breaks(20, 0.5), "batch_second_moment"),
        (lambda: momentum_over_bound(1.0, 0.1), "momentum"),
        (lambda: momentum_over_bound(0.5, 3.0), "learning_rate < 2"),
        (lambda: server_decay(0.0, 10), "zeta"),
        (lambda: server_decay(1.0, 0), "rounds"),
        (lambda: server_decay(1.0, 10, 0.5), "batch_size"),
        (lambda: server_decay(1.0, 10, 5, 4), "batch_size / dataset_size"),
        (lambda: PROBLEM.expected_squared_gradients([0.0, 0.0], 0.1, [1.0], 3, 12, noise_split=[1.0]), "noise_split"),
    ):
        with pytest.raises(ValueError, match=named):
            call()


@pytest.mark.parametrize(("name", "shape", "hidden"), [("mnist_cnn", (1, 28, 28), 32), ("tanh_cnn", (3, 32, 32), 128)])
def test_the_networks_have_no_smoothness_constant(name, shape, hidden):
    """Second differences of the cross entropy: (H + 1)/2 along the last layer, c^2 along a hidden bias."""
    torch = pytest.importorskip("torch")
    from adascale.learning import models

    torch.manual_seed(0)
    network = getattr(models, name)().double()
    images, labels = torch.randn(4, *shape, dtype=torch.float64), torch.randint(0, 10, (4,))
    *_, inner, outer = (layer for layer in network if isinstance(layer, torch.nn.Linear))
    assert outer.weight.shape[1] == hidden

    def second_difference(move, step):
        values = []
        for shift in (-step, step, 0.0):
            move(shift)
            values.append(torch.nn.functional.cross_entropy(network(images), labels).item())
            move(-shift)
        return (values[0] + values[1] - 2 * values[2]) / step**2

    def last_layer(shift):
        each = shift / np.sqrt(2 * (hidden + 1))
        for parameter in (outer.weight, outer.bias):
            parameter[0] += each
            parameter[1] -= each

    def hidden_bias(shift):
        inner.bias[0] += shift

    with torch.no_grad():
        inner.weight.zero_()
        inner.bias.fill_(25.0)  # tanh = 1
        outer.weight.zero_()
        outer.bias.fill_(-50.0)
        outer.bias[:2] = 0
        assert second_difference(last_layer, 1e-3) == pytest.approx((hidden + 1) / 2, rel=1e-4)
        inner.bias.zero_()
        for c in (1.0, 10.0, 100.0):
            outer.weight[0, 0], outer.weight[1, 0] = c, -c
            assert second_difference(hidden_bias, 1e-3 / c) == pytest.approx(c**2, rel=1e-4)


@pytest.mark.parametrize(("mu", "lam"), [(0.0, 0.25), (0.9, 0.25), (0.5, 1.3)])
def test_momentum_is_that_of_the_recursion_of_moments(mu, lam):
    xx = xv = vv = 0.0
    for _ in range(3000):
        new_vv = mu**2 * vv + xx + 2 * mu * xv + 0.5  # E xi^2 = w / 2 with w = 1
        moved = mu * xv + xx
        xx, xv, vv = xx - 2 * lam * moved + lam**2 * new_vv, moved - lam * new_vv, new_vv
    ratio = float(momentum_over_bound(mu, lam))
    assert xx / (lam / 2) == pytest.approx(ratio, rel=1e-10)
    assert (ratio <= 1) == (mu == 0)  # negative control: without momentum the bound holds


def test_comparison_is_that_of_each_training():
    quiet = TRAINING._replace(learning_rate=0.005)
    found = compare([quiet, quiet._replace(noise_energy=3 * quiet.noise_energy)])
    assert (found["exact"] < found["near"]).all()
    assert (found["near"] < found["total"]).all()
    assert found["noise"][1] == pytest.approx(3 * found["noise"][0], rel=1e-14)
    assert found["exact"][0] == quiet.exact()
    parts = sum(found[name] for name in ("initial", "heterogeneity", "sampling", "noise"))
    np.testing.assert_allclose(found["total"], parts, rtol=1e-14)


def test_second_moment_on_fixed_data_carries_one_minus_q():
    rng = np.random.default_rng(5)
    features, labels = (array[0] for array in PROBLEM.draw(rng, 1, 12))
    each = features * (features @ np.array([0.3, -0.4]) - labels)[..., None]
    q, (M, n) = 0.4, each.shape[:2]
    mean = each.mean(axis=(0, 1))
    squares = np.sum(each**2, axis=-1).mean()  # of f_m's gradient and v_m together
    values = np.einsum("rmi,mid->rd", rng.random((20_000, M, n)) < q, each) / (M * q * n)
    values = np.sum(values**2, axis=1)
    assert abs(values.mean() - mean @ mean - (1 - q) * squares / (M * q * n)) < half_width(values)
    assert abs(values.mean() - mean @ mean - squares / (M * q * n)) > half_width(values)  # negative control
