r"""What the explorer knows: channels, levels and constants, as the small script that its page loads.

``python -m companion make explorer`` writes it.  The page computes in JavaScript from rounded gains.
"""

import json

import numpy as np
from numpy.typing import NDArray

from adascale.channel import (
    AntennaSelection,
    ChannelModel,
    GaussMarkov,
    Nakagami,
    Rayleigh,
    Rician,
)
from adascale.problem import RoundLeakage
from adascale.scenario import Scenario

CHANNELS: dict[str, ChannelModel] = {
    "rayleigh": Rayleigh(),
    "rician": Rician(K=5),
    "nakagami": Nakagami(m=0.75),
    "slow": GaussMarkov(correlation=0.95),
    "antennas": AntennaSelection(antennas=2),
}
"""The channel models that the explorer offers, by the name that the page has for them."""

SCENARIOS: dict[str, Scenario] = {
    "mnist": Scenario.mnist(),
    "cifar10": Scenario.cifar10(),
}
"""The scenarios that it offers."""

DRAWS = 3
"""How many draws of each channel model there are, by the seeds 0, 1, ..."""

LEVELS: tuple[float, ...] = tuple(
    round(0.005 * 2 ** (step / 4), 6) for step in range(25)
)
r"""The :math:`\nu` of its slider, from 0.005 to 0.32 in steps of the fourth root of 2, to six places."""

DELTA = 1e-5
r"""The :math:`\delta` of its epsilon."""

TYPICAL_BUDGET = 0.015
r"""The :math:`\nu` at which twenty rounds leak as much as the 500 that they stand for."""

GAIN_STEPS = 1e3
"""A decade in hundredths of a decibel."""
LEVEL_STEPS = 1e5
"""A decade in ten-thousandths of a decibel."""
_HEADER = """\
// Written by `python -m companion make explorer`, not by hand: its docstrings say what is in it.
// `gains` are in hundredths of a dB of loss, `levels` in ten-thousandths of a dB of noise energy.
// `slow` has the levels of `rayleigh`.
"""


def typical_floors() -> NDArray[np.float64]:
    r"""Return twenty floors that stand for the 500 of the first channel, from the lowest to the highest.

    Each has the mean leakage of 25 neighbours at an even split of :data:`TYPICAL_BUDGET`, to the second order in the
    sampling rate: :math:`e^{1/\sigma^2} - 1` is the second moment of the loss.
    """
    scenario = SCENARIOS["mnist"]
    codes = loss_codes("rayleigh", 0)[: scenario.num_rounds]
    unit = float(RoundLeakage(scenario).unit_energy[0])
    floor = np.sort(_floor_scale(scenario) * 10 ** (codes / GAIN_STEPS)).reshape(20, -1)
    leaked = np.expm1(unit / (floor + TYPICAL_BUDGET)).mean(axis=1)
    return unit / np.log1p(leaked) - TYPICAL_BUDGET


def _floor_scale(scenario):
    """Return what a floor is over the gain |h|^2."""
    scale = scenario.noise_scale / scenario.x_max * scenario.batch_second_moment
    return float(scale)


def explorer_script() -> str:
    """Return the text of ``data.js``: constants, gains and levels, some sixty kilobytes."""
    scenarios = {
        name: {
            "rounds": scenario.num_rounds,
            "devices": scenario.num_devices,
            "rate": float(scenario.sampling_rate),
            "unit": float(RoundLeakage(scenario).unit_energy[0]),
            "floorScale": _floor_scale(scenario),
        }
        for name, scenario in SCENARIOS.items()
    }
    data = {
        "delta": DELTA,
        "nu": LEVELS,
        "scenarios": scenarios,
        "typical": [float(f"{floor:.6g}") for floor in typical_floors()],
        "gains": {
            channel: [loss_codes(channel, draw).tolist() for draw in range(DRAWS)]
            for channel in CHANNELS
        },
        "levels": {
            name: {
                channel: [
                    level_codes(name, channel, draw).tolist() for draw in range(DRAWS)
                ]
                for channel in CHANNELS
                if channel != "slow"
            }
            for name in SCENARIOS
        },
    }
    text = json.dumps(data, separators=(",", ":"))
    return f"{_HEADER}globalThis.ADASCALE_DATA = {text};\n"


def loss_codes(channel: str, draw: int) -> NDArray[np.int64]:
    r"""Return :math:`-10 \log_{10} \min_m |h_{m,t}|^2` in hundredths of a dB, for the longest scenario."""
    rounds = max(scenario.num_rounds for scenario in SCENARIOS.values())
    devices = SCENARIOS["mnist"].num_devices
    least = CHANNELS[channel].draw(devices, rounds, seed=draw).gain.min(axis=-2)
    return np.rint(-GAIN_STEPS * np.log10(least)).astype(np.int64)


def level_codes(scenario: str, channel: str, draw: int) -> NDArray[np.int64]:
    """Return the constant level at each of :data:`LEVELS`, in ten-thousandths of a dB.

    It is that of :class:`~adascale.policies.ConstantLevel`, from the law of the floors for the path losses of the draw.
    """
    constants = SCENARIOS[scenario]
    model = CHANNELS[channel]
    places = model.draw(constants.num_devices, 1, seed=draw).path_loss
    level = model.floor_law(constants, constants.mean_gain(places)).level(LEVELS)
    return np.rint(LEVEL_STEPS * np.log10(level)).astype(np.int64)
