"""Presets: the paper's numbers, one TOML a data set, and one of one's own over a base."""

import pytest

from adascale import Scenario, presets
from adascale.channel import (
    GaussMarkov,
    Jakes,
    Nakagami,
    Rayleigh,
    Rician,
    Shadowed,
    TappedDelayLine,
    UrbanMicro,
)
from adascale.learning import Training


def test_the_presets_are_the_paper_s():
    mnist, cifar = presets.load("mnist"), presets.load("cifar10")
    assert mnist.scenario.max_power == cifar.scenario.max_power == 10 ** (23 / 10 - 3)  # 23 dBm
    assert mnist.scenario.noise_power == cifar.scenario.noise_power == 10 ** (-90 / 10 - 3)  # -90 dBm
    assert mnist.scenario.num_rounds == 5 * 6000 // 60
    assert cifar.scenario.num_rounds == 60 * (5000 // 400)
    assert mnist.levels == (0.01, 0.02, 0.04, 0.08, 0.16)
    assert cifar.levels == (*mnist.levels, 0.32)
    assert mnist.channel == cifar.channel == Rayleigh((10.0, 200.0), "radius")
    assert (Training.mnist().weight_decay, Training.cifar10().momentum) == (1e-4, 0.9)


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_is_complete(name):
    found = presets.load(name)
    assert found.scenario == getattr(Scenario, name)()
    assert Training.preset(name) == getattr(Training, name)()
    assert found.levels


def test_a_file_of_ones_own_says_only_what_differs(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'base = "cifar10"\nlevels = [1, 2]\n[scenario]\nname = "mine"\n[channel]\nplacement = "area"\n'
        "[training]\nmomentum = 0.5\n"
    )
    found, base = presets.load(str(path)), presets.load("cifar10")
    assert (found.scenario.name, found.scenario.clip_norm) == ("mine", base.scenario.clip_norm)
    assert found.channel == Rayleigh(placement="area")
    assert found.levels == (1.0, 2.0)
    assert found.training == base.training | {"momentum": 0.5}
    assert Training.preset(str(path)).momentum == 0.5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('model = "rician"\nK = 5', Rician(K=5.0)),
        ('model = "jakes"\ndoppler = 5\nround_time = 0.26', Jakes(doppler=5.0)),
        ('model = "Gauss_Markov"\ncorrelation = 0.5', GaussMarkov(correlation=0.5)),
        ('model = "shadowed"\nknown = false', Shadowed(known=False)),
        ('model = "tapped-delay-line"\nprofile = "C"\nsubcarriers = 12', TappedDelayLine(profile="C", subcarriers=12)),
        ('model = "urban-micro"\ndistance_range = [10, 100]', UrbanMicro(distance_range=(10.0, 100.0))),
        ('model = "adascale.channel:Nakagami"\nm = 3', Nakagami(m=3.0)),
    ],
)
def test_a_preset_names_its_channel_model_with_parameters(tmp_path, text, expected):
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "mnist"\n[channel]\n{text}\n')
    assert presets.load(str(path)).channel == expected


def test_a_preset_may_have_devices_of_different_data_batch_and_power(tmp_path):
    path = tmp_path / "mixed.toml"
    path.write_text(
        'base = "mnist"\n[scenario]\nname = "mixed"\nnum_devices = 3\nbatch_size = [60, 30, 10]\n'
        "dataset_size = [6000, 6000, 500]\nmax_power = [0.2, 0.1, 0.05]\n"
    )
    found = presets.load(str(path)).scenario
    assert found.power_share.tolist() == [1.0, 0.5, 0.25]
    assert found.sampling_rate.tolist() == [0.01, 0.005, 0.02]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('base = "{path}"', "has itself as its base"),
        ('base = "nothing"', "preset 'nothing' is unknown: neither one of cifar10, digits, mnist nor a file"),
        ("x = 1", "unknown key 'x'; expected scenario, channel, training, base, levels"),
        ("scenario = 3", "scenario must be a table, got 3"),
        ('base = "mnist"\nscenario = {{ x = 3 }}', "unknown key 'x'; expected name, num_devices"),
        ("levels = [1]", "missing key 'batch_size'"),
        ('base = "mnist"\nlevels = [2, 1]', "levels must be ascending numbers"),
        ('base = "mnist"\nchannel = {{ model = "magic" }}', "channel 'magic' is unknown"),
        ("x =", "is not valid TOML"),
        ("base = 3", "preset '3' is unknown"),
        ('base = "mnist"\nchannel = {{ model = "rician", K = -1 }}', "K must be one number from 0 to 10000, got -1"),
        ('base = "mnist"\nchannel = {{ model = "rician", m = 1 }}', "channel 'rician' has no parameter 'm'; expected"),
        ('base = "mnist"\nchannel = {{ model = "jakes", paths = 1.5 }}', "paths must be a whole number >= 1, got 1.5"),
        ('base = "mnist"\nscenario = {{ max_power = [0.2, 0.1] }}', "max_power must be one number or 10 of them"),
        ('base = "mnist"\nchannel = {{ model = 3 }}', r"model in \[channel\] must be a name, got 3"),
        ('base = "mnist"\nchannel = {{ distance_range = 2020-01-01 }}', "distance_range must be"),
        ('base = "mnist"\nchannel = {{ placement = true }}', "placement must be 'radius' or 'area', got True"),
        ('base = "mnist"\nlevels = [true]', "levels must be"),
        ('base = "mnist"\nlevels = [{{ x = 1 }}]', "levels must be"),
        ('base = "mnist"\nlevels = 2020-01-01', "levels must be"),
        ('base = "mnist"\nscenario = {{ max_power = {{ watt = 0.2 }} }}', "max_power must be"),
        ('base = "mnist"\nscenario = {{ num_rounds = true }}', "num_rounds must be"),
        ('base = "mnist"\nscenario = {{ num_devices = 1000000000000 }}', "num_devices must be"),
        ('base = "mnist"\nscenario = {{ clip_norm = 1e200 }}', "clip_norm"),
    ],
)
def test_a_bad_preset_is_named(tmp_path, text, said):
    path = tmp_path / "bad.toml"
    path.write_text(text.format(path=path))
    with pytest.raises(ValueError, match=said) as error:
        presets.load(str(path))
    assert "bad.toml" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("learning_rate = '0.1'", "learning_rate must be"),
        ("learning_rate = true", "learning_rate must be"),
        ("learning_rate = 2020-01-01", "learning_rate must be"),
        ("momentum = [0.1, 0.2]", "momentum must be one number"),
        ("chunk = 1.5", "chunk must be a whole number"),
        ("model = 3", "model must be a name, got 3"),
        ("dataset = { x = 1 }", "dataset must be a name"),
    ],
)
def test_a_training_of_another_type_is_named(tmp_path, text, said):
    path = tmp_path / "bad.toml"
    path.write_text(f'base = "mnist"\n[training]\n{text}\n')
    with pytest.raises(ValueError, match=said) as error:
        Training.preset(str(path))
    assert "bad.toml" in str(error.value)


def test_a_training_without_what_it_needs_is_named(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text('base = "mnist"\n[training]\nspeed = 3\n')
    with pytest.raises(ValueError, match=r"bad.toml: unknown key 'speed' in \[training\]"):
        Training.preset(str(path))
