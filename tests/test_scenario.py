"""Scenarios: the paper's constants, derived quantities device by device, and TOML out and in."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adascale import Scenario, channel, load_preset
from adascale.errors import InvalidInput

from . import reference

HETEROGENEOUS = Scenario(
    "mixed", 3, 20, 1000, (10, 40, 25.5), (100, 50, 25.5), 2.0, 0.1, 1e-12, 4
)
POWERS = replace(HETEROGENEOUS, max_power=(0.1, 0.02, 0.05))


def test_constants_are_those_of_the_paper():
    mnist, cifar = Scenario.mnist(), Scenario.cifar10()
    assert (mnist.num_devices, mnist.num_rounds, mnist.num_parameters) == (
        10,
        500,
        26_010,
    )
    assert (
        mnist.num_rounds == 5 * 60_000 // 10 // 60
    )  # five epochs of 6,000 images in batches of 60
    assert (mnist.clip_norm, mnist.order, mnist.sampling_rate) == (1, 3, 0.01)
    assert (
        mnist.max_power
        == 10 ** (23 / 10 - 3)
        == pytest.approx(0.19952623149688797, rel=1e-14)
    )  # 23 dBm
    assert mnist.noise_power == 10 ** (-90 / 10 - 3)  # -90 dBm
    assert mnist.x_max == pytest.approx(
        5.18967728123e5, rel=1e-10
    )  # 0.19952623149688797 * 26010 * 100
    assert (cifar.num_devices, cifar.num_rounds, cifar.num_parameters) == (
        10,
        720,
        500_000,
    )
    assert cifar.num_rounds == 60 * (
        5000 // 400
    )  # sixty epochs of the whole batches of 400 in 5,000 images
    assert (cifar.clip_norm, cifar.order, cifar.sampling_rate) == (2, 3, 0.08)
    assert (cifar.max_power, cifar.noise_power) == (mnist.max_power, mnist.noise_power)
    assert cifar.x_max == pytest.approx(
        0.19952623149688797 * 500_000 * 100 / 4, rel=1e-13
    )


def test_derived_quantities_follow_their_formulas_device_by_device():
    for m, (batch, size) in enumerate(
        zip(HETEROGENEOUS.batch_size, HETEROGENEOUS.dataset_size, strict=True)
    ):
        assert HETEROGENEOUS.sampling_rate[m] == batch / size
        assert HETEROGENEOUS.batch_second_moment[m] == pytest.approx(
            1 + (1 - batch / size) / batch, rel=1e-15
        )
    assert HETEROGENEOUS.x_max == pytest.approx(
        reference.x_max(HETEROGENEOUS), rel=1e-15
    )  # one more rounding
    assert HETEROGENEOUS.noise_scale == 1000 * 1e-12
    assert (
        Scenario("all", 2, 5, 10, 30, 30, 1.0, 1.0, 1.0).batch_second_moment == 1
    )  # no sampling: not random


def test_batch_second_moment_is_that_of_a_poisson_batch():
    """E|B|^2 / B_m^2 of a binomial batch, from its probabilities."""
    k = np.arange(6001)
    expected = float(stats.binom(6000, 0.01).pmf(k) @ k**2) / 60**2
    assert float(Scenario.mnist().batch_second_moment) == pytest.approx(
        expected, rel=1e-9
    )


def test_min_gain_and_mean_gain_follow_their_formulas_device_by_device():
    gain = np.random.default_rng(0).exponential(size=(4, 3, 20))
    for scenario in (
        HETEROGENEOUS,
        replace(HETEROGENEOUS, batch_size=10, dataset_size=100),
    ):
        k2, found = (
            np.broadcast_to(scenario.batch_second_moment, 3),
            scenario.min_gain(gain),
        )
        assert found.shape == (4, 20)
        for lane, t in np.ndindex(4, 20):
            assert found[lane, t] == min(gain[lane, m, t] / k2[m] for m in range(3))
        loss = np.array([[1e8, 2e9, 3e7], [1.0, 2.0, 3.0]])
        expected = [[1 / (row[m] * k2[m]) for m in range(3)] for row in loss]
        np.testing.assert_allclose(scenario.mean_gain(loss), expected, rtol=1e-15)


def test_each_device_may_have_a_power_limit_of_its_own():
    """At the largest eta that all devices can send, each spends at most its limit, and the bottleneck all of it."""
    gain = np.random.default_rng(1).exponential(size=(3, 50)) * np.array(
        [[1e-9], [3e-9], [1e-8]]
    )
    eta = POWERS.x_max * POWERS.min_gain(gain)
    k2, d, M = POWERS.batch_second_moment, POWERS.num_parameters, POWERS.num_devices
    spent = eta * (k2 * POWERS.clip_norm**2 / (d * M**2))[:, None] / gain
    limit = np.array(POWERS.max_power)[:, None]
    assert (spent <= limit * (1 + 1e-12)).all()
    np.testing.assert_allclose((spent / limit).max(axis=0), 1, rtol=1e-12)
    assert set((spent / limit).argmax(axis=0)) == {0, 1, 2}
    careless = replace(
        POWERS, max_power=0.1
    )  # the control: with the largest limit for all, some spend too much
    assert (careless.min_gain(gain) > POWERS.min_gain(gain)).any()
    same = replace(HETEROGENEOUS, max_power=[0.1] * 3)  # one limit, bit for bit
    assert same.x_max == HETEROGENEOUS.x_max
    np.testing.assert_array_equal(same.min_gain(gain), HETEROGENEOUS.min_gain(gain))
    np.testing.assert_array_equal(
        same.mean_gain([1e8, 2e8, 3e8]), HETEROGENEOUS.mean_gain([1e8, 2e8, 3e8])
    )
    for kind in (list, tuple, np.array):  # any sequence will do
        scenario = replace(HETEROGENEOUS, batch_size=kind([10, 40, 25.5]))
        assert (scenario, hash(scenario)) == (HETEROGENEOUS, hash(HETEROGENEOUS))


def test_the_mean_of_the_gains_that_policies_are_told_has_the_powers_too():
    drawn = channel.draw(3, 40_000, 2)
    gain = (
        drawn.gain * POWERS.power_share[:, None] / POWERS.batch_second_moment[:, None]
    )
    np.testing.assert_allclose(
        POWERS.mean_gain(drawn.path_loss), gain.mean(axis=-1), rtol=0.03
    )
    law = channel.Rayleigh().floor_law(POWERS, POWERS.mean_gain(drawn.path_loss))
    floor = POWERS.noise_scale / (POWERS.x_max * POWERS.min_gain(drawn.gain))
    assert (
        stats.ks_1samp(floor, law.cdf).statistic < 0.0098
    )  # once in 1,000 for 40,000 draws


@pytest.fixture(scope="module")
def round_trip(tmp_path_factory):
    path = tmp_path_factory.mktemp("toml") / "scenario.toml"

    def round_trip(scenario):
        path.write_text(scenario.to_toml(), encoding="utf-8")
        return Scenario.from_toml(path)

    return round_trip


positive = st.floats(1e-30, 1e30)


@given(st.data())
def test_toml_gives_a_scenario_back_exactly(round_trip, data):
    draw, devices = data.draw, data.draw(st.integers(1, 5))

    def per_device(values):
        return draw(
            st.one_of(values, st.lists(values, min_size=devices, max_size=devices))
        )

    size, share = per_device(positive), draw(st.floats(1e-6, 1))
    scenario = Scenario(
        name=draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1)),
        num_devices=devices,
        num_rounds=draw(st.integers(1, 10**9)),
        num_parameters=draw(st.integers(1, 10**12)),
        batch_size=[share * one for one in size]
        if isinstance(size, list)
        else share * size,
        dataset_size=size,
        clip_norm=draw(positive),
        max_power=per_device(st.floats(1e-3, 10)),
        noise_power=draw(positive),
        order=draw(st.one_of(st.integers(2, 64), st.floats(1.001, 64))),
    )
    scenario = draw(
        st.sampled_from(
            [
                scenario,
                replace(scenario, privacy_noise_power=share * scenario.noise_power),
            ]
        )
    )
    assert ("privacy_noise_power" in scenario.to_toml()) == (
        scenario.privacy_noise_power is not None
    )
    assert round_trip(scenario) == scenario


@pytest.mark.parametrize("part", [1.1e-12, 0.0, -1e-13, np.nan, [1e-13] * 3])
def test_the_part_of_the_noise_that_protects_is_checked(part):
    with pytest.raises(InvalidInput, match="privacy_noise_power") as error:
        replace(HETEROGENEOUS, privacy_noise_power=part)
    assert error.value.argument == "privacy_noise_power"
    with pytest.raises(InvalidInput, match="beyond floating point"):
        replace(HETEROGENEOUS, noise_power=1e250, privacy_noise_power=1e-100)
    whole = replace(HETEROGENEOUS, privacy_noise_power=HETEROGENEOUS.noise_power)
    assert (
        whole.noise_share,
        HETEROGENEOUS.noise_share,
        replace(whole, noise_power=4e-12).noise_share,
    ) == (1, 1, 0.25)


def test_toml_gives_back_numbers_of_numpy(round_trip, tmp_path):
    whole, real = np.int64, np.float64(1)
    counts = (whole(2), np.int32(5), whole(10), np.float32(3), np.array(30))
    for scenario in (POWERS, Scenario("numpy", *counts, real, real, real, whole(3))):
        assert round_trip(scenario) == scenario
    lines = Scenario.mnist().to_toml().splitlines()
    (tmp_path / "short.toml").write_text(
        "\n".join(line for line in lines if not line.startswith("order"))
    )
    assert (
        Scenario.from_toml(tmp_path / "short.toml") == Scenario.mnist()
    )  # an order may be left out


@pytest.mark.parametrize(
    ("name", "value", "watts"),
    [("noise_power", -90, "1e-12"), ("max_power", -10, "0.0001")],
)
def test_a_negative_power_is_refused_with_what_it_is_in_watts(name, value, watts):
    with pytest.raises(
        InvalidInput,
        match=rf"^{name} must be > 0, in watts, got {value}; .* {value} dBm is {watts} W$",
    ):
        replace(Scenario.mnist(), **{name: value})


@pytest.mark.parametrize(
    ("power", "watts"), [("23", "0.1995"), ("[10.5, 1.0]", "0.01122")]
)
def test_a_power_above_ten_watts_in_a_file_is_a_warning(tmp_path, power, watts):
    two = replace(Scenario.mnist(), num_devices=2)
    (tmp_path / "s.toml").write_text(
        two.to_toml().replace("max_power = 0.1995262314968879", f"max_power = {power}")
    )
    (tmp_path / "p.toml").write_text(
        f'base = "mnist"\n[scenario]\nnum_devices = 2\nmax_power = {power}\n'
    )
    for read, name in ((Scenario.from_toml, "s.toml"), (load_preset, "p.toml")):
        with pytest.warns(
            UserWarning, match=rf"{name}: max_power is .* dBm would be {watts} W$"
        ):
            read(str(tmp_path / name))
    (tmp_path / "s.toml").write_text(
        replace(two, max_power=10.0).to_toml()
    )  # the control
    Scenario.from_toml(tmp_path / "s.toml")
