"""Fading laws: of one round, against closed forms; from round to round, against autocorrelations; and of the floors."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from adascale import channel
from adascale.channel import FadingFloors, GaussMarkov, Jakes, Nakagami, Rayleigh, RayleighFloors, Rician
from adascale.channel.fading import waves

from ..problems import MIXED

ROUNDS = 20_000
GAIN = np.array([1e-10, 2e-11, 4e-11])


def fade(model, devices, rounds=1, seed=11):
    """Unit coefficients of independent devices, (devices, rounds)."""
    drawn = model.draw(devices, rounds, seed)
    return drawn.coefficient * np.sqrt(drawn.path_loss)[:, None]


def rician_power(K):
    return stats.rice(np.sqrt(2 * K), scale=1 / np.sqrt(2 * (K + 1)))


LAWS = {
    "rician 5": (Rician(), lambda x: rician_power(5).cdf(np.sqrt(x))),
    "rician 0.3": (Rician(K=0.3), lambda x: rician_power(0.3).cdf(np.sqrt(x))),
    "rician 200": (Rician(K=200), lambda x: rician_power(200).cdf(np.sqrt(x))),
    "nakagami 2": (Nakagami(), stats.gamma(2, scale=1 / 2).cdf),
    "nakagami 0.5": (Nakagami(m=0.5), lambda x: stats.chi2(1).cdf(x)),
    "nakagami 1": (Nakagami(m=1), stats.expon.cdf),
    "gauss-markov": (GaussMarkov(), stats.expon.cdf),
    "jakes": (Jakes(), stats.expon.cdf),
    "jakes of one path": (Jakes(paths=1), stats.expon.cdf),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("t", [0, 3])
def test_a_round_has_the_law_of_its_model(name, t):
    """Of 3,000 devices in one round: a false alarm once in 1,000 seeds, and the seed is fixed."""
    model, law = LAWS[name]
    power = np.abs(fade(model, 3000, t + 1)[:, t]) ** 2
    assert stats.kstest(power, law).pvalue > 1e-3
    others = {key: other for key, (_, other) in LAWS.items() if abs(other(0.1) - law(0.1)) > 0.04}
    for key, other in others.items():
        assert stats.kstest(power, other).pvalue < 1e-3, key  # the controls


@pytest.mark.parametrize("name", ["rician 5", "nakagami 0.5"])
def test_rounds_of_one_device_are_independent_and_have_the_law_too(name):
    model, law = LAWS[name]
    power = np.abs(fade(model, 1, ROUNDS)[0]) ** 2
    assert stats.kstest(power, law).pvalue > 1e-3
    assert abs(np.corrcoef(power[1:], power[:-1])[0, 1]) < 5 / np.sqrt(ROUNDS)  # five standard errors
    assert abs(power.mean() - 1) < 4 * power.std() / np.sqrt(ROUNDS)


def test_the_line_of_sight_has_one_phase_a_device_and_phases_are_uniform():
    many = fade(Rician(K=100), 2000, 40).mean(axis=1)
    # the scattered part of a mean of 40 rounds is 1/sqrt(4040) strong
    assert (np.abs(np.abs(many) - np.sqrt(100 / 101)) < 5 / np.sqrt(4040)).all()
    assert stats.kstest(np.angle(many), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3
    assert stats.kstest(np.angle(fade(Nakagami(), 1, 3000)[0]), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3


def test_without_line_of_sight_rician_is_rayleigh_draw_by_draw_and_independent_rounds_are_too():
    plain = Rayleigh().draw(4, 30, 5).coefficient
    np.testing.assert_array_equal(Rician(K=0).draw(4, 30, 5).coefficient, plain)
    np.testing.assert_array_equal(GaussMarkov(correlation=0).draw(4, 30, 5).coefficient, plain)


def correlation(drawn, lag):
    """The autocorrelation at a lag over devices, and its standard error."""
    each = (drawn[:, lag:] * drawn[:, : drawn.shape[1] - lag].conj()).mean(axis=1)
    return each.mean(), each.std() / np.sqrt(len(each))


@pytest.mark.parametrize("r", [0.3, 0.9, 0.99])
def test_a_gauss_markov_channel_forgets_geometrically(r):
    drawn = fade(GaussMarkov(correlation=r), 3000, 60)
    for lag in (1, 2, 7, 30):
        found, error = correlation(drawn, lag)
        assert abs(found - r**lag) < 4.5 * error  # once in 1e5
    lag = min(round(-0.7 / np.log(r)), 30)  # where r and its square differ most
    found, error = correlation(drawn, max(lag, 1))
    assert abs(found - r ** (2 * max(lag, 1))) > 4.5 * error  # the control


def test_a_gauss_markov_channel_is_its_recursion():
    plain, drawn = fade(Rayleigh(), 2, 50), fade(GaussMarkov(correlation=0.8), 2, 50)
    expected = [plain[:, 0]]
    for t in range(1, 50):
        expected.append(0.8 * expected[-1] + 0.6 * plain[:, t])
    np.testing.assert_allclose(drawn, np.transpose(expected), rtol=1e-12)
    still = fade(GaussMarkov(correlation=1), 2, 50)
    np.testing.assert_allclose(still, plain[:, :1] * np.ones(50), rtol=1e-12)


@pytest.mark.parametrize(("doppler", "paths"), [(2.0, 64), (0.1, 64), (0.7, 8)])
def test_the_mean_autocorrelation_of_jakes_is_bessel_s(doppler, paths):
    drawn = fade(Jakes(doppler=doppler, paths=paths), 3000, 80)
    for lag in (1, 2, 5, 11, 40, 79):
        found, error = correlation(drawn, lag)
        assert abs(found - special.j0(2 * np.pi * doppler * 0.26 * lag)) < 4.5 * error
    found, error = correlation(drawn, 5)
    assert abs(found - special.j0(2 * np.pi * 1.3 * doppler * 0.26 * 5)) > 4.5 * error  # the control: another speed


def test_waves_are_the_sum_over_paths_round_by_round():
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
def test_the_survival_function_is_the_integral_of_the_density(model, rate):
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


@pytest.mark.parametrize("model", [Rician(), Rician(K=1), Rician(K=300), Nakagami(), Nakagami(m=0.6)], ids=repr)
def test_floors_that_are_drawn_have_the_law_of_the_model(model):
    law = model.floor_law(MIXED, GAIN)
    assert type(law) is FadingFloors
    floor = MIXED.noise_scale / MIXED.x_max / (np.abs(fade(model, 3, ROUNDS)) ** 2 * GAIN[:, None]).min(axis=0)
    # 20,000 draws are nowhere 0.0138 from their law but once in 1,000; and a level's cost is a mean of draws
    assert stats.ks_1samp(floor, law.cdf).statistic < 0.0138
    assert stats.ks_1samp(floor, Rayleigh().floor_law(MIXED, GAIN).cdf).statistic > 0.05  # the control
    cost = np.maximum(float(law.quantile(0.4)) - floor, 0)
    assert abs(law.mean_cost(law.quantile(0.4)) - cost.mean()) < 4.5 * cost.std() / np.sqrt(ROUNDS)


@pytest.mark.parametrize("model", [Rician(K=0), Nakagami(m=1)], ids=repr)
def test_the_law_of_floors_is_rayleigh_s_where_the_fading_is(model):
    closed, law = Rayleigh().floor_law(MIXED, GAIN), model.floor_law(MIXED, GAIN)
    level = closed.quantile([0.01, 0.3, 0.9])
    np.testing.assert_allclose(law.mean_cost(level), closed.mean_cost(level), rtol=2e-7)


@pytest.mark.parametrize("model", [Rician(K=1e4), Nakagami(m=1e4), Nakagami(m=0.5)], ids=repr)
def test_laws_at_the_ends_of_their_range_have_levels(model):
    law = model.floor_law(MIXED, GAIN)
    middle = float(law.quantile(0.5))
    for budget in (1e-3, 1.0, 1e3):
        assert law.mean_cost(law.level(budget * middle)) == pytest.approx(budget * middle, rel=1e-9)


@pytest.mark.parametrize("model", [GaussMarkov(), Jakes()], ids=repr)
def test_correlation_does_not_change_the_law_of_a_round_s_floor(model):
    law = model.floor_law(MIXED, GAIN)
    assert type(law) is RayleighFloors
    power = np.abs(fade(model, 4500, 12)[:, 11]).reshape(3, -1) ** 2  # one round of each device, so all independent
    floor = MIXED.noise_scale / MIXED.x_max / (power * GAIN[:, None]).min(axis=0)
    assert stats.ks_1samp(floor, law.cdf).statistic < 0.051  # once in 1,000 for 1,500 draws


BAD = {
    "negative K": ("rician:K=-1", "K must be one number from 0 to 10000, got -1"),
    "two K": ("rician:K=(1,2)", r"K must be one number from 0 to 10000, got \(1, 2\)"),
    "a word": ("rician:K=much", "K must be a number or an array of numbers, got 'much'"),
    "no number": ("nakagami:m=nan", "m must be a number or an array of numbers, got 'nan'"),
    "m": ("nakagami:m=0.4", "m must be one number from 0.5 to 10000, got 0.4"),
    "r": ("gauss-markov:correlation=1.01", "correlation must be one number from 0 to 1, got 1.01"),
    "doppler": ("jakes:doppler=-2", "doppler must be one number from 0 to 1e[+]09, got -2"),
    "round time": ("jakes:round_time=0", "round_time must be one number from 1e-09 to 1e[+]09, got 0"),
    "half a path": ("jakes:paths=2.5", "paths must be a whole number >= 1, got 2.5"),
    "no path": ("jakes:paths=0", "paths must be a whole number >= 1, got 0"),
    "many paths": ("jakes:paths=10001", "paths must be one number from 1 to 10000, got 10001"),
    "unknown": (
        "jakes:speed=3",
        "unknown key 'speed' of channel 'jakes'; expected distance_range, placement, ",
    ),
    "distances": ("rician:distance_range=(5,2)", "distance_range must be"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_parameter_is_named(bad):
    name, said = BAD[bad]
    with pytest.raises(ValueError, match=f"^{said}") as error:
        channel.find(name)
    assert "\n" not in str(error.value)


def test_not_a_number_is_refused_too():
    with pytest.raises(ValueError, match=r"^K must be one number from 0 to 10000, got nan$"):
        Rician(K=float("nan"))
