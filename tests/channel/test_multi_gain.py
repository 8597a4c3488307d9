"""More than one gain in a round: blocks, subcarriers and antennas, against closed forms, sums over taps and loops."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adascale import channel
from adascale.channel import AntennaSelection, Beamforming, Rayleigh, TappedDelayLine
from adascale.channel.multi_gain import TAPS

from ..problems import MIXED


@given(st.integers(1, 6), st.integers(0, 2**32))
def test_effective_gain_is_that_of_the_power_limit(blocks, seed):
    """Symbols of block b cost their energy over its gain: all in the worst block, and spread by permutations."""
    rng = np.random.default_rng(seed)
    gain, share = rng.exponential(size=blocks) + 1e-3, rng.dirichlet(np.ones(blocks))
    spent = (share / gain).sum()
    assert spent <= 1 / channel.effective_gain(gain, "anywhere") * (1 + 1e-12)
    worst = np.eye(blocks)[gain.argmin()]
    assert (worst / gain).sum() == pytest.approx(
        1 / channel.effective_gain(gain, "anywhere"), rel=1e-12
    )
    turned = [(np.roll(share, k) / gain).sum() for k in range(blocks)]
    assert np.mean(turned) == pytest.approx(
        1 / channel.effective_gain(gain, "even"), rel=1e-12
    )
    assert channel.effective_gain(gain, "anywhere") <= channel.effective_gain(
        gain, "even"
    ) * (1 + 1e-12)


@pytest.mark.parametrize("profile", TAPS)
def test_each_profile_has_delay_spread_one(profile):
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
def test_subcarriers_are_rayleigh_correlated_by_the_taps(profile):
    model = TappedDelayLine(
        profile=profile, delay_spread=3e-7, bandwidth=1e7, subcarriers=32
    )
    drawn = model.subcarrier_fading(np.random.default_rng(4), 8000)
    assert stats.kstest(np.abs(drawn[:, 17]) ** 2, stats.expon.cdf).pvalue > 1e-3
    delay, decibels = (np.array(column) for column in TAPS[profile])
    power = 10 ** (decibels / 10) / (10 ** (decibels / 10)).sum()
    for apart in (1, 4, 31):
        expected = sum(
            p * np.exp(-2j * np.pi * apart * (1e7 / 32) * tau * 3e-7)
            for p, tau in zip(power, delay, strict=False)
        )
        for first in (0, 31 - apart):
            product = drawn[:, first + apart] * drawn[:, first].conj()
            assert abs(product.mean() - expected) < 4.5 * product.std() / np.sqrt(8000)
        assert (
            abs(product.mean() - expected.conj()) > 4.5 * product.std() / np.sqrt(8000)
            or apart > 4
        )  # the control
    # the root mean square delay spread, from how fast the correlation falls: |R(f)|^2 = 1 - (2 pi f s)^2
    response = TappedDelayLine(
        profile=profile, delay_spread=3e-7, bandwidth=1e3, subcarriers=2
    ).response()
    fall = 1 - abs((response[:, 1] * response[:, 0].conj()).sum()) ** 2
    assert np.sqrt(fall) / (2 * np.pi * 500) == pytest.approx(3e-7, rel=1e-3)


@pytest.mark.parametrize("energy", ["anywhere", "even"])
def test_delay_line_has_the_effective_gain_of_its_subcarriers(energy):
    model = TappedDelayLine(bandwidth=2e7, subcarriers=9, energy=energy)
    subcarriers = np.abs(model.subcarrier_fading(np.random.default_rng(1), 50)) ** 2
    found = np.abs(model.fading(np.random.default_rng(1), 50)) ** 2
    plain = (
        subcarriers.min(axis=1)
        if energy == "anywhere"
        else 1 / (1 / subcarriers).mean(axis=1)
    )
    np.testing.assert_allclose(found, plain, rtol=1e-12)


def antennas_of(seed, devices, rounds, antennas):
    """The channels of all antennas, shape (T, M, N), one by one."""
    first = Rayleigh().draw(devices, rounds, seed)
    more = channel.each_device(
        seed,
        devices,
        1010,
        lambda rng: rng.standard_normal((rounds, 2 * (antennas - 1))),
    )
    heard = [first.coefficient]
    for n in range(antennas - 1):
        heard.append(
            (more[..., 2 * n] + 1j * more[..., 2 * n + 1])
            / np.sqrt(2 * first.path_loss)[:, None]
        )
    return np.moveaxis(np.array(heard), 0, -1).swapaxes(0, 1)


def test_one_antenna_serves_all_devices_and_is_the_best():
    drawn, every = AntennaSelection(antennas=3).draw(4, 60, 9), antennas_of(9, 4, 60, 3)
    best = abs(every).min(axis=1).argmax(axis=-1)
    assert set(best) == {0, 1, 2}
    chosen = np.transpose([every[t, :, n] for t, n in enumerate(best)])
    np.testing.assert_allclose(drawn.coefficient, chosen, rtol=1e-12)
    first = Rayleigh().draw(4, 60, 9).coefficient
    np.testing.assert_array_equal(
        AntennaSelection(antennas=1).draw(4, 60, 9).coefficient, first
    )


@pytest.mark.parametrize(
    "model", [AntennaSelection(antennas=3, chains="all"), Beamforming(antennas=3)]
)
def test_exposure_is_what_whitening_by_all_antennas_gains(model):
    """The victim's direction among the antennas has the whole norm of its channel, and the beam only a part of it."""
    drawn, every = model.draw(4, 30, 9), antennas_of(9, 4, 30, 3)
    signal = np.linalg.norm(every, axis=-1).T ** 2
    np.testing.assert_allclose(drawn.exposure, signal / drawn.gain, rtol=1e-12)
    assert (drawn.exposure >= 1).all()
    one = replace(model, chains="one").draw(4, 30, 9)
    assert one.exposure is None
    np.testing.assert_array_equal(one.coefficient, drawn.coefficient)


def test_beam_is_a_unit_vector_near_the_fairest():
    drawn, every = Beamforming(antennas=3).draw(4, 30, 9), antennas_of(9, 4, 30, 3)
    for t, h in enumerate(every):  # the conjugate of the beam is unique if M >= N
        beam = np.linalg.lstsq(h, drawn.coefficient[:, t], rcond=None)[0]
        assert np.linalg.norm(
            h @ beam - drawn.coefficient[:, t]
        ) <= 1e-9 * np.linalg.norm(drawn.coefficient[:, t])
        assert np.linalg.norm(beam) == pytest.approx(1, rel=1e-9)
        rng = np.random.default_rng(t)
        others = rng.standard_normal((3, 4000)) + 1j * rng.standard_normal((3, 4000))
        fairest = (
            (abs(h @ (others / np.linalg.norm(others, axis=0))) ** 2).min(axis=0).max()
        )
        assert drawn.gain[:, t].min() >= 0.8 * fairest
    best = AntennaSelection(antennas=3).draw(4, 30, 9).gain.min(axis=0)
    assert (drawn.gain.min(axis=0) >= best * (1 - 1e-12)).all()
    assert np.median(drawn.gain.min(axis=0) / best) > 1.5
    single = Beamforming(antennas=1).draw(4, 30, 9)
    np.testing.assert_allclose(single.gain, Rayleigh().draw(4, 30, 9).gain, rtol=1e-12)
    np.testing.assert_allclose(single.exposure, 1, rtol=1e-12)


def test_floors_of_a_beam_have_no_known_distribution():
    with pytest.raises(NotImplementedError, match="no known distribution"):
        Beamforming().floor_law(MIXED, np.ones(3))
    assert "chains" not in channel.specification(Beamforming())
    for model in (
        Beamforming(chains="one"),
        Beamforming(),
        AntennaSelection(chains="all"),
    ):
        given = channel.specification(model)
        assert channel.find(given.pop("model"), **given) == model
