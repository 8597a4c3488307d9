"""More than one gain in a round: blocks, subcarriers and antennas, against closed forms, sums over taps and loops."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from adascale import channel
from adascale.channel import (
    AntennaSelection,
    BlockFading,
    EmpiricalFloors,
    Rayleigh,
    RayleighFloors,
    SelectionFloors,
    TappedDelayLine,
    each_device,
    effective_gain,
)
from adascale.channel.multi_gain import ENERGIES, TAPS

from ..command import run as adascale
from ..problems import MIXED

ROUNDS = 20_000
CLOSE = 0.0138  # of 20,000 draws the distance from their law is larger once in 1,000


def power_of(model, rounds=ROUNDS, seed=5):
    drawn = model.draw(1, rounds, seed)
    return drawn.gain[0] * drawn.path_loss


def floors(scenario, drawn):
    return scenario.noise_scale / scenario.x_max / scenario.min_gain(drawn.gain)


def harmonic_of_two(x):
    """P(2 / (1/X + 1/Y) <= x) of two exponentials."""
    return 1 - x * np.exp(-x) * special.k1(x)


@pytest.mark.parametrize(
    ("model", "law"),
    [
        (BlockFading(), stats.expon(scale=1 / 2).cdf),
        (BlockFading(blocks=7), stats.expon(scale=1 / 7).cdf),
        (BlockFading(energy="even"), harmonic_of_two),
        (BlockFading(blocks=1), stats.expon.cdf),
        (BlockFading(blocks=1, energy="even"), stats.expon.cdf),
    ],
    ids=["two", "seven", "two, even", "one", "one, even"],
)
def test_the_effective_gain_of_blocks_has_its_law(model, law):
    power = power_of(model)
    assert stats.kstest(power, law).statistic < CLOSE
    assert stats.kstest(power * 1.05, law).statistic > CLOSE  # the control


@given(st.integers(1, 6), st.integers(0, 2**32))
def test_the_effective_gain_is_what_the_power_limit_asks_for(blocks, seed):
    """Symbols of block b cost their energy over its gain: all in the worst block, and spread by permutations."""
    rng = np.random.default_rng(seed)
    gain, share = rng.exponential(size=blocks) + 1e-3, rng.dirichlet(np.ones(blocks))
    spent = (share / gain).sum()
    assert spent <= 1 / effective_gain(gain, "anywhere") * (1 + 1e-12)
    worst = np.eye(blocks)[gain.argmin()]
    assert (worst / gain).sum() == pytest.approx(1 / effective_gain(gain, "anywhere"), rel=1e-12)
    turned = [(np.roll(share, k) / gain).sum() for k in range(blocks)]
    assert np.mean(turned) == pytest.approx(1 / effective_gain(gain, "even"), rel=1e-12)
    assert effective_gain(gain, "anywhere") <= effective_gain(gain, "even") * (1 + 1e-12)


@pytest.mark.parametrize("blocks", [1, 3])
def test_floors_of_blocks_have_rayleigh_s_law_with_as_many_times_the_scale(blocks):
    model = BlockFading(blocks=blocks)
    drawn = model.draw(3, ROUNDS, 6)
    law = model.floor_law(MIXED, MIXED.mean_gain(drawn.path_loss))
    assert type(law) is RayleighFloors
    plain = Rayleigh().floor_law(MIXED, MIXED.mean_gain(drawn.path_loss))
    assert law.scale == pytest.approx(blocks * plain.scale, rel=1e-14)
    assert stats.ks_1samp(floors(MIXED, drawn), law.cdf).statistic < CLOSE
    assert (stats.ks_1samp(floors(MIXED, drawn), plain.cdf).statistic < CLOSE) == (blocks == 1)  # the control


def test_floors_of_blocks_with_even_energy_have_the_law_that_is_drawn():
    model = BlockFading(energy="even")
    drawn = model.draw(3, ROUNDS, 6)
    mean_gain = MIXED.mean_gain(drawn.path_loss)
    law = model.floor_law(MIXED, mean_gain)
    assert type(law) is EmpiricalFloors
    assert stats.ks_1samp(floors(MIXED, drawn), law.cdf).statistic < np.sqrt(2) * CLOSE  # of two samples
    # and the closed form of two blocks
    unit = MIXED.noise_scale / MIXED.x_max / mean_gain

    def exact(w):
        return np.prod([1 - harmonic_of_two(each / np.asarray(w)) for each in unit], axis=0)

    assert stats.kstest(floors(MIXED, drawn), exact).statistic < CLOSE


@pytest.mark.parametrize("profile", TAPS)
def test_each_profile_has_the_delay_spread_1_that_the_standard_normalised_it_to(profile):
    """A digit that is wrong anywhere shows here: a power by 0.1 dB or a delay by 0.001."""
    delay, decibels = (np.array(column) for column in TAPS[profile])
    assert len(delay) == len(decibels) == {"A": 23, "B": 23, "C": 24}[profile]

    def spread(delay, decibels):
        power = 10 ** (decibels / 10) / (10 ** (decibels / 10)).sum()
        return np.sqrt(power @ delay**2 - (power @ delay) ** 2)

    assert spread(delay, decibels) == pytest.approx(1, abs=6e-5)
    wrong = decibels.copy()
    wrong[len(wrong) // 2 + 3] += 1.0
    assert abs(spread(delay, wrong) - 1) > 6e-4  # the control


@pytest.mark.parametrize("profile", TAPS)
def test_subcarriers_are_rayleigh_and_correlated_as_the_sum_over_taps_says(profile):
    model = TappedDelayLine(profile=profile, delay_spread=3e-7, bandwidth=1e7, subcarriers=32)
    drawn = model.subcarrier_fading(np.random.default_rng(4), 8000)
    assert stats.kstest(np.abs(drawn[:, 17]) ** 2, stats.expon.cdf).pvalue > 1e-3
    delay, decibels = (np.array(column) for column in TAPS[profile])
    power = 10 ** (decibels / 10) / (10 ** (decibels / 10)).sum()
    for apart in (1, 4, 31):
        expected = sum(p * np.exp(-2j * np.pi * apart * (1e7 / 32) * tau * 3e-7) for p, tau in zip(power, delay))  # noqa: B905
        for first in (0, 31 - apart):
            product = drawn[:, first + apart] * drawn[:, first].conj()
            assert abs(product.mean() - expected) < 4.5 * product.std() / np.sqrt(8000)
        assert abs(product.mean() - expected.conj()) > 4.5 * product.std() / np.sqrt(8000) or apart > 4  # the control
    # the root mean square delay spread, from how fast the correlation falls: |R(f)|^2 = 1 - (2 pi f s)^2
    response = TappedDelayLine(profile=profile, delay_spread=3e-7, bandwidth=1e3, subcarriers=2).response()
    fall = 1 - abs((response[:, 1] * response[:, 0].conj()).sum()) ** 2
    assert np.sqrt(fall) / (2 * np.pi * 500) == pytest.approx(3e-7, rel=1e-3)


def test_without_delay_spread_or_with_little_bandwidth_all_subcarriers_fade_alike():
    for model in (TappedDelayLine(delay_spread=0), TappedDelayLine(bandwidth=1.0), TappedDelayLine(subcarriers=1)):
        for energy in ENERGIES:
            power = power_of(replace(model, energy=energy), 4000)
            assert stats.kstest(power, stats.expon.cdf).pvalue > 1e-3
    # the paper's 100 kHz is as good as flat: a product of 0.01 with the delay spread
    even, least = (power_of(TappedDelayLine(energy=energy)) for energy in ("even", "anywhere"))
    assert np.median(least / even) > 0.95
    wide = {"bandwidth": 1e8}
    even, least = (power_of(TappedDelayLine(energy=energy, **wide), 2000) for energy in ("even", "anywhere"))
    assert np.median(least / even) < 0.2


def test_many_independent_subcarriers_are_blocks():
    """Two subcarriers whose correlation is almost nothing have the law of two blocks."""
    model = TappedDelayLine(profile="B", delay_spread=1e-3, bandwidth=8.3e6, subcarriers=2)
    response = model.response()
    assert abs((response[:, 0] * response[:, 1].conj()).sum()) < 0.25
    model = replace(model, delay_spread=1e-3, bandwidth=1.234567e9)
    correlation = abs((model.response()[:, 0] * model.response()[:, 1].conj()).sum())
    law = BlockFading(energy="even")
    assert stats.kstest(power_of(model), power_of(law)).statistic < np.sqrt(2) * CLOSE + correlation**2


def test_the_law_of_a_delay_line_s_floors_is_drawn():
    model = TappedDelayLine(bandwidth=2e7, subcarriers=16)
    drawn = model.draw(3, 6000, 2)
    law = model.floor_law(MIXED, MIXED.mean_gain(drawn.path_loss))
    assert type(law) is EmpiricalFloors
    assert stats.ks_1samp(floors(MIXED, drawn), law.cdf).statistic < 0.03


EVEN = replace(MIXED, batch_size=MIXED.batch_size[0], dataset_size=MIXED.dataset_size[0])
"""Devices of one batch, so that the antenna is the one of the best bottleneck."""


@pytest.mark.parametrize("antennas", [1, 2, 5])
def test_the_best_antenna_s_floors_have_the_law_of_the_least(antennas):
    model = AntennaSelection(antennas=antennas)
    drawn = model.draw(3, ROUNDS, 3)
    law = model.floor_law(EVEN, EVEN.mean_gain(drawn.path_loss))
    found = floors(EVEN, drawn)
    assert stats.ks_1samp(found, law.cdf).statistic < CLOSE
    plain = Rayleigh().floor_law(EVEN, EVEN.mean_gain(drawn.path_loss))
    assert (stats.ks_1samp(found, plain.cdf).statistic < CLOSE) == (antennas == 1)  # the control
    cost = np.maximum(float(law.quantile(0.6)) - found, 0)
    assert abs(law.mean_cost(law.quantile(0.6)) - cost.mean()) < 4.5 * cost.std() / np.sqrt(ROUNDS)


@pytest.mark.parametrize("antennas", [1, 2, 4, 16])
@pytest.mark.parametrize("ratio", [0.02, 0.3, 1.0, 5.0, 300.0])
def test_the_cost_under_selection_is_the_integral_of_the_distribution(antennas, ratio):
    law = SelectionFloors(0.7, antennas)
    share = -np.expm1(antennas * np.log1p(-np.exp(-1 / ratio)))
    exact, _ = integrate.quad(lambda w: float(law.cdf(w)), 0, 0.7 * ratio, epsabs=0, epsrel=1e-11, limit=200)
    assert law.mean_cost(0.7 * ratio) == pytest.approx(exact, rel=1e-9)
    assert law.cdf(0.7 * ratio) == pytest.approx(share, rel=1e-9)
    if share < 1 - 1e-9:  # nearer to 1 the share itself has no digits left
        assert law.quantile(share) == pytest.approx(0.7 * ratio, rel=1e-6)


def test_the_law_of_selection_has_lanes_and_levels():
    law = SelectionFloors([0.1, 2.0], 3)
    budget = np.array([[1e-4], [0.1], [40.0]])
    level = law.level(budget)
    np.testing.assert_allclose(law.mean_cost(level), budget * np.ones(2), rtol=1e-11)
    assert law.draw(np.random.default_rng(0), 4).shape == (2, 4)
    np.testing.assert_allclose(SelectionFloors([0.1, 2.0], 1).level(budget), RayleighFloors([0.1, 2.0]).level(budget))


def test_one_antenna_serves_all_devices_in_a_round_and_it_is_the_best():
    seed, devices, rounds, antennas = 9, 4, 60, 3
    drawn, first = (model.draw(devices, rounds, seed) for model in (AntennaSelection(antennas=antennas), Rayleigh()))
    more = each_device(seed, devices, 1010, lambda rng: rng.standard_normal((rounds, 2 * (antennas - 1))))
    chosen = []
    for t in range(rounds):
        heard = [first.coefficient[:, t]]
        for n in range(antennas - 1):
            heard.append((more[:, t, 2 * n] + 1j * more[:, t, 2 * n + 1]) / np.sqrt(2 * first.path_loss))
        best = max(heard, key=lambda h: min(abs(h)))
        np.testing.assert_allclose(drawn.coefficient[:, t], best, rtol=1e-12)
        chosen.append([h is best for h in heard].index(True))
    assert set(chosen) == {0, 1, 2}
    assert (drawn.gain.min(axis=0) >= first.gain.min(axis=0) * (1 - 1e-12)).all()
    np.testing.assert_array_equal(AntennaSelection(antennas=1).draw(4, 60, 9).coefficient, first.coefficient)


BAD = {
    "no block": ("block-fading:blocks=0", "blocks must be a whole number >= 1, got 0"),
    "half a block": ("block-fading:blocks=1.5", "blocks must be a whole number >= 1, got 1.5"),
    "many blocks": ("block-fading:blocks=10001", "blocks must be one number from 1 to 10000, got 10001"),
    "energy": ("block-fading:energy=odd", "energy must be 'anywhere' or 'even', got 'odd'"),
    "energy of a line": ("tapped-delay-line:energy=1", "energy must be 'anywhere' or 'even', got 1"),
    "profile": ("tapped-delay-line:profile=D", "profile must be 'A', 'B' or 'C', got 'D'"),
    "no profile": ("tapped-delay-line:profile=[1]", r"profile must be 'A', 'B' or 'C', got \(1,\)"),
    "spread": ("tapped-delay-line:delay_spread=1", "delay_spread must be one number from 0 to 0.001, got 1"),
    "bandwidth": ("tapped-delay-line:bandwidth=0", "bandwidth must be one number from 1 to 1e[+]12, got 0"),
    "subcarriers": ("tapped-delay-line:subcarriers=0", "subcarriers must be a whole number >= 1, got 0"),
    "antennas": ("antenna-selection:antennas=17", "antennas must be one number from 1 to 16, got 17"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_parameter_is_named(bad):
    name, said = BAD[bad]
    with pytest.raises(ValueError, match=f"^{said}$"):
        channel.find(name)


def test_another_rule_for_the_energy_is_refused():
    with pytest.raises(ValueError, match=r"^energy must be 'anywhere' or 'even', got 'all'$"):
        effective_gain(np.ones(3), "all")


def test_too_much_at_once_is_refused():
    with pytest.raises(ValueError, match=r"^num_rounds x blocks must have at most 100,000,000 entries at once, got 20"):
        BlockFading(blocks=10_000).draw(1, 20_000, 0)
    with pytest.raises(ValueError, match=r"^antennas must be at most 16, where the sum keeps its digits, got 17$"):
        SelectionFloors(1.0, 17)


def test_the_command_line_draws_from_each_model_with_its_parameters(capsys):
    leakage = {}
    for name in (
        "rayleigh",
        "rician:K=5",
        "jakes:doppler=5,round_time=0.26",
        "block-fading:blocks=4",
        "antenna-selection:antennas=4",
        "urban-micro:carrier=3.5e9,distance_range=(10,100)",
    ):
        assert (
            adascale("leakage", "--nu", 0.04, "--realisations", 1, "--policy", "optimal", "--json", "--channel", name)
            == 0
        )
        leakage[name] = json.loads(capsys.readouterr().out)[0]["floor_max"]
    assert leakage["rician:K=5"] < leakage["rayleigh"] < leakage["block-fading:blocks=4"]
    assert leakage["antenna-selection:antennas=4"] < leakage["rayleigh"]
    assert len(set(leakage.values())) == len(leakage)
