"""More than one gain in a round: blocks, subcarriers and antennas, against closed forms, sums over taps and loops."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from adascale import channel
from adascale.channel import AntennaSelection, Beamforming, Rayleigh, TappedDelayLine
from adascale.channel.multi_gain import TAPS

from ..problems import MIXED


def delays_and_powers(profile):
    delay, decibels = TAPS[profile]
    power = 10 ** (decibels / 10)
    return delay, power / power.sum()


@pytest.mark.parametrize(("profile", "taps"), [("A", 23), ("B", 23), ("C", 24)])
def test_each_profile_has_delay_spread_one(profile, taps):
    """A digit that is wrong anywhere shows here: a power by 0.1 dB or a delay by 0.001."""
    delay, power = delays_and_powers(profile)
    assert delay.size == taps
    spread = np.sqrt(power @ delay**2 - (power @ delay) ** 2)
    assert spread == pytest.approx(1, abs=6e-5)


@pytest.mark.parametrize("profile", TAPS)
def test_subcarriers_are_rayleigh_correlated_by_the_taps(profile):
    model = TappedDelayLine(
        profile=profile, delay_spread=3e-7, bandwidth=1e7, subcarriers=32
    )
    drawn = model.subcarrier_fading(np.random.default_rng(4), 8000)
    assert stats.kstest(np.abs(drawn[:, 17]) ** 2, stats.expon.cdf).pvalue > 1e-3
    delay, power = delays_and_powers(profile)
    for first, apart in ((30, 1), (0, 4), (0, 31)):
        product = drawn[:, first + apart] * drawn[:, first].conj()
        turns = apart * (1e7 / 32) * delay * 3e-7
        expected = power @ np.exp(-2j * np.pi * turns)
        error = 4.5 * product.std() / np.sqrt(8000)
        assert abs(product.mean() - expected) < error
    assert abs(product.mean() - expected.conj()) > error  # the control


@pytest.mark.parametrize("energy", ["anywhere", "even"])
def test_delay_line_has_the_effective_gain_of_its_subcarriers(energy):
    model = TappedDelayLine(bandwidth=2e7, subcarriers=9, energy=energy)
    subcarriers = np.abs(model.subcarrier_fading(np.random.default_rng(1), 50)) ** 2
    gain = np.abs(model.fading(np.random.default_rng(1), 50)) ** 2
    least, harmonic = subcarriers.min(axis=1), stats.hmean(subcarriers, axis=1)
    expected = least if energy == "anywhere" else harmonic
    np.testing.assert_allclose(gain, expected, rtol=1e-12)


def antennas_of(rounds):
    """The channels of three antennas to four devices, shape (T, 4, 3), one by one."""
    first = Rayleigh().draw(4, rounds, 9)
    shape = rounds, 4
    more = channel.each_device(9, 4, 1010, lambda rng: rng.standard_normal(shape))
    unit = 1 / np.sqrt(2 * first.path_loss)[:, None]
    others = [(more[..., n] + 1j * more[..., n + 1]) * unit for n in (0, 2)]
    return np.stack([first.coefficient, *others], axis=-1).swapaxes(0, 1)


def test_one_antenna_serves_all_devices_and_is_the_best():
    drawn, antennas = AntennaSelection(antennas=3).draw(4, 60, 9), antennas_of(60)
    best = abs(antennas).min(axis=1).argmax(axis=-1)
    assert {*best} == {0, 1, 2}
    chosen = np.transpose([antennas[t, :, n] for t, n in enumerate(best)])
    np.testing.assert_allclose(drawn.coefficient, chosen, rtol=1e-12)


@pytest.mark.parametrize(
    "model", [AntennaSelection(antennas=3, chains="all"), Beamforming(antennas=3)]
)
def test_exposure_is_what_whitening_by_all_antennas_gains(model):
    """The victim's direction among the antennas has the whole norm of its channel, and the beam only a part of it."""
    drawn = model.draw(4, 30, 9)
    norm = np.linalg.norm(antennas_of(30), axis=-1).T
    np.testing.assert_allclose(drawn.exposure, norm**2 / drawn.gain, rtol=1e-12)
    assert (drawn.exposure >= 1).all()
    single = replace(model, chains="one").draw(4, 30, 9)
    assert single.exposure is None
    np.testing.assert_array_equal(single.coefficient, drawn.coefficient)


def test_beam_is_a_unit_vector_near_the_fairest():
    drawn, antennas = Beamforming(antennas=3).draw(4, 30, 9), antennas_of(30)
    real, imaginary = np.random.default_rng(0).standard_normal((2, 3, 4000))
    others = real + 1j * imaginary
    others /= np.linalg.norm(others, axis=0)
    for h, heard in zip(antennas, drawn.coefficient.T, strict=True):
        beam = np.linalg.lstsq(h, heard, rcond=None)[0]  # unique if M >= N
        np.testing.assert_allclose(h @ beam, heard, rtol=1e-9)
        assert np.linalg.norm(beam) == pytest.approx(1, rel=1e-9)
        fairest = (abs(h @ others) ** 2).min(axis=0).max()
        assert (abs(heard) ** 2).min() >= 0.8 * fairest


def test_floors_of_a_beam_have_no_known_distribution():
    with pytest.raises(NotImplementedError, match="no known distribution"):
        Beamforming().floor_law(MIXED, np.ones(3))
