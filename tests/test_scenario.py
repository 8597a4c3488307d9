"""Scenarios: the paper's constants, derived quantities device by device, and TOML out and in."""

import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adascale import Scenario, channel

from . import reference

HETEROGENEOUS = Scenario("mixed", 3, 20, 1000, (10, 40, 25.5), (100, 50, 25.5), 2.0, 0.1, 1e-12, 4)


def test_mnist_has_the_constants_of_the_paper():
    scenario = Scenario.mnist()
    assert (scenario.num_devices, scenario.num_rounds, scenario.num_parameters) == (10, 500, 26_010)
    assert scenario.num_rounds == 5 * 60_000 // 10 // 60  # five epochs of 6,000 images in batches of 60
    assert scenario.clip_norm == 1
    assert scenario.order == 3
    assert scenario.sampling_rate == 0.01
    assert scenario.max_power == pytest.approx(0.19952623149688797, rel=1e-14)  # 23 dBm
    assert scenario.noise_power == pytest.approx(1e-12, rel=1e-13)  # -90 dBm
    assert scenario.x_max == pytest.approx(5.18967728123e5, rel=1e-10)  # 0.19952623149688797 * 26010 * 100


def test_cifar10_has_the_constants_of_the_paper():
    scenario = Scenario.cifar10()
    assert (scenario.num_devices, scenario.num_rounds, scenario.num_parameters) == (10, 720, 500_000)
    assert scenario.num_rounds == 60 * (5000 // 400)  # sixty epochs of the whole batches of 400 in 5,000 images
    assert scenario.clip_norm == 2
    assert scenario.sampling_rate == 0.08
    assert scenario.x_max == pytest.approx(0.19952623149688797 * 500_000 * 100 / 4, rel=1e-13)
    assert (scenario.max_power, scenario.noise_power) == (Scenario.mnist().max_power, Scenario.mnist().noise_power)


def test_derived_quantities_follow_their_formulas_device_by_device():
    scenario = HETEROGENEOUS
    for m in range(3):
        batch, size = scenario.batch_size[m], scenario.dataset_size[m]
        assert scenario.sampling_rate[m] == batch / size
        assert scenario.batch_second_moment[m] == pytest.approx(1 + (1 - batch / size) / batch, rel=1e-15)
    assert scenario.x_max == pytest.approx(reference.x_max(scenario), rel=1e-15)  # one more rounding
    assert scenario.noise_scale == 1000 * 1e-12


def test_batch_second_moment_is_that_of_a_poisson_batch():
    """E|B|^2 / B_m^2 of a binomial batch, from its probabilities."""
    scenario = Scenario.mnist()
    k = np.arange(6001)
    log_choose = [math.lgamma(6001) - math.lgamma(i + 1) - math.lgamma(6001 - i) for i in k]
    law = np.exp(np.array(log_choose) + k * math.log(0.01) + (6000 - k) * math.log(0.99))
    # lgamma(6001) is 4.6e4: its rounding moves each probability by 1e-11
    assert float(scenario.batch_second_moment) == pytest.approx(float(law @ k**2) / 60**2, rel=1e-9)


def test_without_sampling_the_batch_is_not_random():
    assert Scenario("all", 2, 5, 10, 30, 30, 1.0, 1.0, 1.0).batch_second_moment == 1


def test_min_gain_is_the_minimum_over_devices_of_gain_over_second_moment():
    gain = np.random.default_rng(0).exponential(size=(4, 3, 20))
    for scenario in (HETEROGENEOUS, replace(HETEROGENEOUS, batch_size=10, dataset_size=100)):
        k2 = np.broadcast_to(scenario.batch_second_moment, 3)
        found = scenario.min_gain(gain)
        assert found.shape == (4, 20)
        for lane in range(4):
            for t in range(20):
                assert found[lane, t] == min(gain[lane, m, t] / k2[m] for m in range(3))


def test_mean_gain_is_one_over_path_loss_and_second_moment():
    loss = np.array([[1e8, 2e9, 3e7], [1.0, 2.0, 3.0]])
    expected = [[1 / (row[m] * HETEROGENEOUS.batch_second_moment[m]) for m in range(3)] for row in loss]
    np.testing.assert_allclose(HETEROGENEOUS.mean_gain(loss), expected, rtol=1e-15)


POWERS = replace(HETEROGENEOUS, max_power=(0.1, 0.02, 0.05))


def test_each_device_may_have_a_power_limit_of_its_own():
    """At the largest eta that all devices can send, each spends at most its limit, and the bottleneck all of it."""
    gain = np.random.default_rng(1).exponential(size=(3, 50)) * np.array([[1e-9], [3e-9], [1e-8]])
    eta = POWERS.x_max * POWERS.min_gain(gain)
    k2, d, M = POWERS.batch_second_moment, POWERS.num_parameters, POWERS.num_devices
    spent = eta * (k2 * POWERS.clip_norm**2 / (d * M**2))[:, None] / gain
    limit = np.array(POWERS.max_power)[:, None]
    assert (spent <= limit * (1 + 1e-12)).all()
    np.testing.assert_allclose((spent / limit).max(axis=0), 1, rtol=1e-12)
    assert set((spent / limit).argmax(axis=0)) == {0, 1, 2}
    careless = replace(POWERS, max_power=0.1)  # the control: with the largest limit for all, some spend too much
    assert (careless.min_gain(gain) > POWERS.min_gain(gain)).any()


def test_the_same_limit_for_each_device_is_one_limit_bit_for_bit():
    gain = np.random.default_rng(1).exponential(size=(3, 50))
    same = replace(HETEROGENEOUS, max_power=[0.1] * 3)
    assert same.x_max == HETEROGENEOUS.x_max
    np.testing.assert_array_equal(same.min_gain(gain), HETEROGENEOUS.min_gain(gain))
    np.testing.assert_array_equal(same.mean_gain([1e8, 2e8, 3e8]), HETEROGENEOUS.mean_gain([1e8, 2e8, 3e8]))
    assert round_trip(POWERS) == POWERS
    assert POWERS.max_power == (0.1, 0.02, 0.05)


def test_the_mean_of_the_gains_that_policies_are_told_has_the_powers_too():
    drawn = channel.draw(3, 40_000, 2)
    gain = drawn.gain * POWERS.power_share[:, None] / POWERS.batch_second_moment[:, None]
    np.testing.assert_allclose(POWERS.mean_gain(drawn.path_loss), gain.mean(axis=-1), rtol=0.03)
    law = channel.Rayleigh().floor_law(POWERS, POWERS.mean_gain(drawn.path_loss))
    floor = POWERS.noise_scale / (POWERS.x_max * POWERS.min_gain(drawn.gain))
    assert stats.ks_1samp(floor, law.cdf).statistic < 0.0098  # once in 1,000 for 40,000 draws


@pytest.mark.parametrize(
    ("power", "said"),
    [
        ((0.1, 0.2), r"^max_power must be one number or 3 of them, got shape \(2,\)$"),
        ((0.1, 0.2, 0.0), r"^max_power must be finite and > 0, got 0.0 at index 2$"),
        ((1e-300, 1.0, 1e10), r"^max_power over the largest is beyond floating point for max_power"),
    ],
)
def test_a_bad_power_limit_is_named(power, said):
    with pytest.raises(ValueError, match=said):
        replace(HETEROGENEOUS, max_power=power)


def test_per_device_values_may_be_any_sequence():
    for kind in (list, tuple, np.array):
        scenario = replace(HETEROGENEOUS, batch_size=kind([10, 40, 25.5]))
        assert scenario == HETEROGENEOUS
        assert hash(scenario) == hash(HETEROGENEOUS)


positive = st.floats(1e-30, 1e30)
names = st.text(min_size=1).filter(lambda text: all(not 0xD800 <= ord(c) <= 0xDFFF for c in text))


@st.composite
def scenarios(draw):
    devices = draw(st.integers(1, 5))
    size = draw(st.one_of(positive, st.lists(positive, min_size=devices, max_size=devices)))
    share = draw(st.floats(1e-6, 1))
    batch = [share * one for one in size] if isinstance(size, list) else share * size
    return Scenario(
        name=draw(names),
        num_devices=devices,
        num_rounds=draw(st.integers(1, 10**9)),
        num_parameters=draw(st.integers(1, 10**12)),
        batch_size=batch,
        dataset_size=size,
        clip_norm=draw(positive),
        max_power=draw(st.one_of(positive, st.lists(st.floats(1e-3, 1e3), min_size=devices, max_size=devices))),
        noise_power=draw(positive),
        order=draw(st.one_of(st.integers(2, 64), st.floats(1.001, 64))),
    )


def round_trip(scenario):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.toml"
        path.write_text(scenario.to_toml(), encoding="utf-8")
        return Scenario.from_toml(path)


@given(scenarios())
def test_toml_gives_a_scenario_back_exactly(scenario):
    assert round_trip(scenario) == scenario


@pytest.mark.parametrize("name", ["\x7f", "\U0001f4e1", 'quote " and \\', "two\nlines", "\u00fcber", "tab\t"])
def test_toml_carries_any_name(name):
    scenario = replace(Scenario.mnist(), name=name)
    assert round_trip(scenario) == scenario


def test_toml_gives_back_the_scenarios_of_the_paper():
    for scenario in (Scenario.mnist(), Scenario.cifar10(), HETEROGENEOUS):
        assert round_trip(scenario) == scenario


def test_toml_takes_scenarios_made_of_numpy_numbers():
    scenario = Scenario(
        "numpy",
        np.int64(2),
        np.int32(5),
        np.int64(10),
        np.float32(3),
        np.array(30),
        *map(np.float64, (1, 1, 1)),
        np.int64(3),
    )
    assert round_trip(scenario) == scenario


def test_order_may_be_left_out_of_the_toml(tmp_path):
    lines = [line for line in Scenario.mnist().to_toml().splitlines() if not line.startswith("order")]
    path = tmp_path / "scenario.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert Scenario.from_toml(path) == Scenario.mnist()
