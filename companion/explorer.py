r"""What the explorer knows: channels, levels and constants, as the small script that its page loads.

``python -m companion make explorer`` writes it.  The page computes in JavaScript from rounded gains.
"""

import json
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

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

GAIN_STEPS, LEVEL_STEPS = 1e3, 1e5
"""A decade in hundredths, and in ten-thousandths, of a decibel."""
_HEADER = """\
// Written by `python -m companion make explorer`, not by hand: its docstrings say what is in it.
// A number of `gains` or `levels` is two or three signs of `alphabet`, in base 90, plus the one before it:
// hundredths of a dB of loss, ten-thousandths of a dB of noise energy. `slow` has the levels of `rayleigh`.
"""
# 90 signs that a string may hold
_ALPHABET = "".join(chr(code) for code in range(33, 127) if chr(code) not in "\"'\\<")


def pack(numbers: ArrayLike, width: int) -> str:
    r"""Write whole numbers below :math:`90^{\mathrm{width}}`, each as ``width`` of 90 signs, highest digit first."""
    base = len(_ALPHABET)
    values = np.asarray(numbers)
    digits = values[:, None] // base ** np.arange(width)[::-1] % base
    return "".join(_ALPHABET[digit] for digit in digits.ravel())


def typical_floors() -> NDArray[np.float64]:
    r"""Return twenty floors that stand for the 500 of the first channel, from the lowest to the highest.

    Each has the mean leakage of 25 neighbours at an even split of :data:`TYPICAL_BUDGET`, to the second order in the
    sampling rate: :math:`e^{1/\sigma^2} - 1` is the second moment of the loss.
    """
    scenario = SCENARIOS["mnist"]
    codes = loss_codes("rayleigh", 0)[: scenario.num_rounds]
    unit = float(RoundLeakage(scenario).unit_energy[0])
    scale = scenario.noise_scale / scenario.x_max * scenario.batch_second_moment
    floor = np.sort(float(scale) * 10 ** (codes / GAIN_STEPS)).reshape(20, -1)
    leaked = np.expm1(unit / (floor + TYPICAL_BUDGET)).mean(axis=1)
    return unit / np.log1p(leaked) - TYPICAL_BUDGET


def explorer_script() -> str:
    """Return the text of ``data.js``: constants, gains and levels, some thirty kilobytes."""
    scenarios = {
        name: {
            "rounds": scenario.num_rounds,
            "devices": scenario.num_devices,
            "rate": float(scenario.sampling_rate),
            "unit": float(RoundLeakage(scenario).unit_energy[0]),
            # a floor is this over the gain |h|^2
            "floorScale": float(
                scenario.noise_scale / scenario.x_max * scenario.batch_second_moment
            ),
        }
        for name, scenario in SCENARIOS.items()
    }
    data = {
        "delta": DELTA,
        "nu": LEVELS,
        "scenarios": scenarios,
        "typical": [float(f"{floor:.6g}") for floor in typical_floors()],
        "alphabet": _ALPHABET,
        "gains": {
            channel: _packed(partial(loss_codes, channel), 2) for channel in CHANNELS
        },
        "levels": {
            name: {
                channel: _packed(partial(level_codes, name, channel), 3)
                for channel in CHANNELS
                if channel != "slow"
            }
            for name in SCENARIOS
        },
    }
    return f"{_HEADER}globalThis.ADASCALE_DATA = {json.dumps(data, indent=1)};\n"


def _packed(codes, width):
    """Return all draws of a channel, each as its least code and what the others are above it."""
    return [
        (int(code.min()), pack(code - code.min(), width))
        for code in map(codes, range(DRAWS))
    ]


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
