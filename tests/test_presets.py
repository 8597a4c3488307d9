"""Presets: the paper's numbers, one TOML per data set, and user files over a base."""

import pytest

from adascale import Scenario, presets
from adascale.channel import GaussMarkov, Nakagami, Rayleigh, UrbanMicro
from adascale.errors import InvalidFile
from adascale.learning import Training


@pytest.fixture
def write(tmp_path):
    """The path of a preset with this text."""

    def write(text):
        path = tmp_path / "own.toml"
        path.write_text(text.replace("PATH", str(path)))
        return str(path)

    return write


def test_the_presets_are_complete_and_the_paper_s():
    mnist, cifar = presets.load("mnist"), presets.load("cifar10")
    assert mnist.levels == (0.01, 0.02, 0.04, 0.08, 0.16)
    assert cifar.levels == (*mnist.levels, 0.32)
    assert mnist.channel == cifar.channel == Rayleigh((10.0, 200.0), "radius")
    assert (
        Training.preset("mnist").weight_decay,
        Training.preset("cifar10").momentum,
    ) == (1e-4, 0.9)
    for name in presets.names():  # the constants are in tests/test_scenario.py
        preset = presets.load(name)
        assert preset.scenario == getattr(Scenario, name)()
        assert preset.levels


def test_a_file_of_ones_own_says_only_what_differs(write):
    path = write(
        'base = "cifar10"\nlevels = [1, 2]\nchannel = { placement = "area" }\ntraining = { momentum = 0.5 }\n'
        '[scenario]\nname = "mine"\nnum_devices = 2\nbatch_size = [60, 30]\ndataset_size = [6000, 500]\n'
        "max_power = [0.2, 0.1]\n"
    )
    preset, base = presets.load(path), presets.load("cifar10")
    assert (preset.scenario.name, preset.scenario.clip_norm) == (
        "mine",
        base.scenario.clip_norm,
    )
    assert preset.scenario.power_share.tolist() == [1.0, 0.5]
    assert preset.scenario.sampling_rate.tolist() == [0.01, 0.06]
    assert preset.channel == Rayleigh(placement="area")
    assert preset.levels == (1.0, 2.0)
    assert preset.training == base.training | {"momentum": 0.5}
    assert Training.preset(path).momentum == 0.5


def test_a_preset_names_its_channel_model_with_parameters(write):
    for text, expected in (
        ('model = "Gauss_Markov"\ncorrelation = 0.5', GaussMarkov(correlation=0.5)),
        (
            'model = "urban-micro"\ndistance_range = [10, 100]',
            UrbanMicro(distance_range=(10.0, 100.0)),
        ),
        ('model = "adascale.channel:Nakagami"\nm = 3', Nakagami(m=3.0)),
    ):
        assert (
            presets.load(write(f'base = "mnist"\n[channel]\n{text}\n')).channel
            == expected
        )


BASE = 'base = "mnist"\n'
BAD = {  # what the message names
    "itself as its base": ['base = "PATH"'],
    "unknown": ['base = "nothing"', "base = 3", "x = 1", BASE + "scenario = { x = 3 }"]
    + [
        BASE + 'channel = { model = "magic" }',
        BASE + 'channel = { model = "rician", m = 1 }',
    ],
    "not valid TOML": ["x ="],
    "missing key 'batch_size'": ["levels = [1]"],
    "scenario must": ["scenario = 3"],
    "levels must": [
        f"{BASE}levels = {value}"
        for value in ("[2, 1]", "[true]", "[{ x = 1 }]", "2020-01-01")
    ],
    "name must": [BASE + "scenario.name = ''"],
    "max_power must": [
        BASE + "scenario.max_power = [0.2, 0.1]",
        BASE + "scenario.max_power = { watt = 0.2 }",
    ],
    "model in .channel. must": [BASE + "channel.model = 3"],
    "K must": [BASE + 'channel = { model = "rician", K = -1 }'],
    "distance_range must": [BASE + "channel.distance_range = 2020-01-01"],
}


@pytest.mark.parametrize("said", BAD)
def test_a_bad_preset_is_named_with_its_file(write, said):
    for text in BAD[said]:
        with pytest.raises(InvalidFile, match=said) as error:
            presets.load(write(text))
        assert error.value.path.endswith("own.toml")
        assert "own.toml" in str(error.value)
        assert "\n" not in str(error.value)


def test_units_of_a_file_replace_those_of_its_base(write):
    path = write('base = "mnist"\n[scenario]\nnoise_power_dbm = -100\n')
    assert presets.load(path).scenario.noise_power == pytest.approx(1e-13)
