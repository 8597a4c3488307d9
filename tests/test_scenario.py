"""Scenarios: the paper's constants, derived quantities device by device, and TOML out and in."""

import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adascale import Scenario

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
        max_power=draw(positive),
        noise_power=draw(positive),
        order=draw(st.one_of(st.integers(2, 64), st.floats(1.001, 64))),
    )


def round_trip(scenario):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.toml"
        path.write_text(scenario.to_toml(), encoding="utf-8")
        return Scenario.from_toml(path)


@settings(max_examples=150, deadline=None)
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
