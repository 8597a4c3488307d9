"""Fading: one round against closed forms, and the rounds against autocorrelations."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from adascale.channel import GaussMarkov, Jakes, Nakagami, Rayleigh, Rician
from adascale.channel.fading import waves

from ..problems import MIXED

ROUNDS = 20_000
GAIN = np.array([1e-10, 2e-11, 4e-11])


def fade(model, devices, rounds=1, seed=11):
    """Unit coefficients of independent devices, (devices, rounds)."""
    drawn = model.draw(devices, rounds, seed)
    return drawn.coefficient * np.sqrt(drawn.path_loss)[:, None]


@pytest.mark.parametrize("model", [Rician(), Nakagami(m=0.5)])
def test_rounds_of_a_device_are_uncorrelated(model):
    """Their distribution is that of test_laws.py."""
    power = np.abs(fade(model, 1, ROUNDS)[0]) ** 2
    assert abs(np.corrcoef(power[1:], power[:-1])[0, 1]) < 5 / np.sqrt(ROUNDS)  # five standard errors
    assert np.corrcoef(power[1:] + power[:-1], power[:-1])[0, 1] > 5 / np.sqrt(ROUNDS)  # the control


def test_line_of_sight_has_one_uniform_phase_per_device():
    many = fade(Rician(K=100), 2000, 40).mean(axis=1)
    # the scattered part of a mean of 40 rounds is 1/sqrt(4040) strong
    assert (np.abs(np.abs(many) - np.sqrt(100 / 101)) < 5 / np.sqrt(4040)).all()
    assert stats.kstest(np.angle(many), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3
    for model in (Rayleigh(), Nakagami()):
        assert stats.kstest(np.angle(fade(model, 1, 3000)[0]), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3


def test_rayleigh_is_the_limit_of_rician_and_gauss_markov():
    plain = Rayleigh().draw(4, 30, 5).coefficient
    np.testing.assert_array_equal(Rician(K=0).draw(4, 30, 5).coefficient, plain)
    np.testing.assert_array_equal(GaussMarkov(correlation=0).draw(4, 30, 5).coefficient, plain)


def correlation(drawn, lag):
    """The autocorrelation at a lag over devices, and its standard error."""
    each = (drawn[:, lag:] * drawn[:, : drawn.shape[1] - lag].conj()).mean(axis=1)
    return each.mean(), each.std() / np.sqrt(len(each))


def test_gauss_markov_is_its_recursion():
    plain, drawn = fade(Rayleigh(), 2, 50), fade(GaussMarkov(correlation=0.8), 2, 50)
    expected = [plain[:, 0]]
    for t in range(1, 50):
        expected.append(0.8 * expected[-1] + 0.6 * plain[:, t])
    np.testing.assert_allclose(drawn, np.transpose(expected), rtol=1e-12)
    still = fade(GaussMarkov(correlation=1), 2, 50)
    np.testing.assert_allclose(still, plain[:, :1] * np.ones(50), rtol=1e-12)


@pytest.mark.parametrize(("doppler", "paths"), [(2.0, 64), (0.7, 8)])
def test_mean_autocorrelation_of_jakes_is_bessel(doppler, paths):
    drawn = fade(Jakes(doppler=doppler, paths=paths), 1500, 80)
    for lag in (1, 2, 5, 11, 40, 79):
        found, error = correlation(drawn, lag)
        assert abs(found - special.j0(2 * np.pi * doppler * 0.26 * lag)) < 4.5 * error
    found, error = correlation(drawn, 5)
    assert abs(found - special.j0(2 * np.pi * 1.3 * doppler * 0.26 * 5)) > 4.5 * error  # the control: another speed


def test_waves_are_the_sum_over_paths():
    rounds, turns, paths = 1300, 0.37, 9
    rng = np.random.default_rng(3)
    angle, height = rng.random(paths), rng.standard_normal((paths, 2)) @ [1, 1j] / np.sqrt(2 * paths)
    expected = [
        sum(a * np.exp(2j * np.pi * turns * t * np.cos(2 * np.pi * x)) for a, x in zip(height, angle, strict=True))
        for t in range(rounds)
    ]
    found = waves(np.random.default_rng(3), rounds, turns, paths)
    np.testing.assert_allclose(found, expected, atol=1e-11)  # phases of 3,000 radians have thirteen digits


@pytest.mark.parametrize("rate", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("model", [Rician(), Rician(K=0.5), Rician(K=60), Nakagami(), Nakagami(m=0.5)], ids=repr)
def test_survival_is_the_integral_of_the_density(model, rate):
    if isinstance(model, Rician):
        K = model.K

        def density(x):  # of the squared modulus
            z = 2 * np.sqrt(K * (K + 1) * x)
            return (K + 1) * np.exp(z - K - (K + 1) * x) * special.i0e(z)
    else:

        def density(x):
            return model.m**model.m * x ** (model.m - 1) * np.exp(-model.m * x) / special.gamma(model.m)

    exact, _ = integrate.quad(density, rate, 60, epsabs=0, epsrel=1e-11)
    assert model.survival(np.array([rate]))[0] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("model", [Rician(K=1e4), Nakagami(m=1e4), Nakagami(m=0.5)], ids=repr)
def test_laws_at_the_ends_of_their_range_have_levels(model):
    law = model.floor_law(MIXED, GAIN)
    middle = float(law.quantile(0.5))
    for budget in (1e-3, 1.0, 1e3):
        assert law.mean_cost(law.level(budget * middle)) == pytest.approx(budget * middle, rel=1e-9)
