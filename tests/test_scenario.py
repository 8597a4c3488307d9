"""Scenarios: the paper's constants, derived quantities device by device, and TOML out and in."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import Scenario, load_preset
from adascale.errors import InvalidFile

from . import reference

HETEROGENEOUS = Scenario(
    "mixed", 3, 20, 1000, (10, 40, 25.5), (100, 50, 25.5), 2.0, 0.1, 1e-12, 4
)


RADIO = {"max_power": 10 ** (23 / 10 - 3), "noise_power": 10 ** (-90 / 10 - 3)}
CONSTANTS = {  # of the paper; 23 dBm and -90 dBm
    "mnist": {
        "num_devices": 10,
        "num_rounds": 5 * 60_000 // 10 // 60,  # five epochs in batches of 60
        "num_parameters": 26_010,
        "clip_norm": 1,
        "sampling_rate": 0.01,
    },
    "cifar10": {
        "num_devices": 10,
        "num_rounds": 60 * (5000 // 400),  # sixty epochs of whole batches of 400
        "num_parameters": 500_000,
        "clip_norm": 2,
        "sampling_rate": 0.08,
    },
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_those_of_the_paper(name):
    scenario = getattr(Scenario, name)()
    for field, value in (CONSTANTS[name] | RADIO | {"order": 3}).items():
        assert getattr(scenario, field) == value, field


def test_derived_quantities_follow_their_formulas_device_by_device():
    s = HETEROGENEOUS
    for m, (batch, size) in enumerate(zip(s.batch_size, s.dataset_size, strict=True)):
        assert s.sampling_rate[m] == batch / size
        moment = 1 + (1 - batch / size) / batch
        assert s.batch_second_moment[m] == pytest.approx(moment, rel=1e-15)
    # one more rounding
    assert s.x_max == pytest.approx(reference.x_max(s), rel=1e-15)
    assert s.noise_scale == 1000 * 1e-12


def test_min_gain_and_mean_gain_follow_their_formulas_device_by_device():
    gain = np.random.default_rng(0).exponential(size=(4, 3, 20))
    loss = np.array([[1e8, 2e9, 3e7]] * 4)
    first, *others = np.swapaxes(gain, 0, 1)
    k2 = HETEROGENEOUS.batch_second_moment
    least = np.minimum(first / k2[0], np.minimum(others[0] / k2[1], others[1] / k2[2]))
    np.testing.assert_array_equal(HETEROGENEOUS.min_gain(gain), least)
    for m in range(3):
        mean = HETEROGENEOUS.mean_gain(loss)[:, m]
        np.testing.assert_allclose(mean, 1 / (loss[:, m] * k2[m]), rtol=1e-15)


numbers = st.floats(1e-30, 1e30)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(TEXT, numbers, st.floats(1e-6, 1), st.floats(1.001, 64) | st.just(3))
def test_toml_gives_a_scenario_back_exactly(tmp_path_factory, name, size, share, order):
    path = tmp_path_factory.mktemp("toml") / "scenario.toml"
    radio = size, (0.1, 0.2 * share), 1e-12
    plain = Scenario(name, 2, 9, 10**12, share * size, size, *radio, order)
    parts = replace(plain, batch_size=(0.1, share), dataset_size=(0.1, 1))
    for scenario in (plain, replace(parts, privacy_noise_power=share * 1e-12)):
        path.write_text(scenario.to_toml(), encoding="utf-8")
        assert Scenario.from_toml(path) == scenario


def test_the_order_of_a_file_is_three_unless_it_says_one(tmp_path):
    lines = Scenario.mnist().to_toml().splitlines()
    path = tmp_path / "short.toml"
    path.write_text("\n".join(line for line in lines if not line.startswith("order")))
    assert Scenario.from_toml(path) == Scenario.mnist()


def test_scenario_reads_powers_in_other_units(tmp_path):
    """Thermal noise of 20 MHz at a noise figure of 7 dB is -174 + 73 + 7 = -94 dBm, to a tenth."""
    text = Scenario.mnist().to_toml()
    text = text.replace("max_power = 0.1995262314968879", "max_power_dbm = 23")

    def read(*lines):
        path = tmp_path / "mine.toml"
        noise = text.replace("noise_power = 1e-12", "\n".join(lines))
        path.write_text(noise)
        return Scenario.from_toml(path)

    in_dbm = read("noise_power_dbm = -90")
    assert (in_dbm.max_power, in_dbm.noise_power) == pytest.approx((0.19952623, 1e-12))
    receiver = "bandwidth_hz = 20e6", "noise_figure_db = 7"
    thermal = read(*receiver).noise_power
    assert 10 * np.log10(thermal) + 30 == pytest.approx(-94, abs=0.1)
    disturbed = read(*receiver, "interference_dbm = -90")
    assert disturbed.noise_power == pytest.approx(thermal + 1e-12)
    assert disturbed.privacy_noise_power == thermal
    text = text.replace("max_power_dbm = 23", f"max_power_dbm = {[23, 20] * 5}")
    assert read(*receiver).power_share[1] == pytest.approx(10**-0.3)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("noise_power = -90", "noise_power_dbm"),
        ("noise_power = 1e-12\nnoise_power_dbm = -90", "noise_power_dbm"),
        ("noise_power = 1e-12\nbandwidth_hz = 1e6", "bandwidth_hz"),
        ("noise_power_dbm = -90\nnoise_figure_db = 7", "noise_figure_db"),
        ("bandwidth_hz = 0", "bandwidth_hz"),
        ("noise_power_dbm = true", "noise_power_dbm"),
    ],
)
def test_power_of_unclear_unit_is_refused(tmp_path, lines, named):
    path = tmp_path / "mine.toml"
    text = Scenario.mnist().to_toml()
    path.write_text(text.replace("noise_power = 1e-12", lines))
    with pytest.raises(InvalidFile, match=named):
        Scenario.from_toml(path)


@pytest.mark.parametrize(
    ("name", "power"),
    [("max_power", 23), ("max_power", 10), ("noise_power", 4e-21), ("noise_power", 1)],
)
def test_power_that_looks_like_another_unit_is_noted(tmp_path, name, power):
    scenario, preset = tmp_path / "mine.toml", tmp_path / "preset/mine.toml"
    scenario.write_text(replace(Scenario.mnist(), **{name: power}).to_toml())
    preset.parent.mkdir()
    preset.write_text(f'base = "mnist"\nscenario.{name} = {power}\n')
    # the control: warnings are errors here
    noted = pytest.warns(UserWarning, match=f"mine.toml: {name} is .* is it in")
    for read, path in ((Scenario.from_toml, scenario), (load_preset, preset)):
        with nullcontext() if power == 10 else noted:
            read(str(path))
