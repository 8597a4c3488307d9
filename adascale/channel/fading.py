r"""Fading distributions: the coefficients of one device, with :math:`\mathbb E|f_t|^2 = 1`."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from adascale.channel.floors import FloorLaw, RayleighFloors
from adascale.channel.model import Channel, ChannelModel, Seeds
from adascale.checks import ComplexArray, FloatArray
from adascale.scenario import Scenario

# a product of matrices with _LONG rows and _SHORT columns makes _LONG * _SHORT rounds of a sum of waves
_LONG, _SHORT = 32, 16


@dataclass(frozen=True)
class Rayleigh(ChannelModel):
    r"""The paper's channel: independent :math:`h_{m,t} \sim \mathcal{CN}(0, 1/\mathrm{PL}_m)` in every round."""

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        return complex_normal(rng, num_rounds)

    def survival(self, power: FloatArray) -> FloatArray:
        return np.exp(-power)

    def floor_law(self, scenario: Scenario, mean_gain: ArrayLike) -> FloorLaw:
        return RayleighFloors.of(scenario, mean_gain)


@dataclass(frozen=True)
class Rician(ChannelModel):
    r"""Rician fading: a line of sight K times as strong as the scattered power.

    .. math:: f_t = \frac{\sqrt K\, e^{i\varphi} + z_t}{\sqrt{K + 1}}, \qquad z_t \sim \mathcal{CN}(0, 1)

    with one uniform phase :math:`\varphi` per device.

    Parameters
    ----------
    K : float, linear power ratio in [0, 10000]
    """

    K: float = 5.0
    limits: ClassVar = {"K": (0, 1e4)}

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        sight = np.sqrt(self.K) * np.exp(2j * np.pi * rng.spawn(1)[0].random())
        total = sight + complex_normal(rng, num_rounds)
        return total / np.sqrt(self.K + 1)

    def survival(self, power: FloatArray) -> FloatArray:
        r"""Return :math:`Q_1(\sqrt{2K}, \sqrt{2(K+1)x})`; :math:`2(K+1)|f|^2` is noncentral :math:`\chi^2_2`."""
        from scipy import stats

        # the amplitude is about normal around sqrt(2K): ten deviations below, S is 1, and thirty above, it is 0;
        # farther out the function overflows
        middle = np.sqrt(2 * self.K)
        low, high = max(middle - 10, 0) ** 2, (middle + 30) ** 2
        squared = np.clip(2 * (self.K + 1) * power, low, high)
        return stats.ncx2.sf(squared, 2, 2 * self.K)


@dataclass(frozen=True)
class Nakagami(ChannelModel):
    r"""Nakagami fading of independent phases: :math:`|f_t|^2` has a gamma distribution of mean 1.

    .. math:: P(|f_t|^2 > x) = \Gamma(m, m x) / \Gamma(m)

    Parameters
    ----------
    m : float, in [0.5, 10000]
        Shape; 1 is Rayleigh fading.
    """

    m: float = 2.0
    limits: ClassVar = {"m": (0.5, 1e4)}

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        phase = rng.spawn(1)[0].random(num_rounds)
        power = rng.gamma(self.m, 1 / self.m, num_rounds)
        return np.sqrt(power) * np.exp(2j * np.pi * phase)

    def survival(self, power: FloatArray) -> FloatArray:
        return special.gammaincc(self.m, self.m * power)


@dataclass(frozen=True)
class GaussMarkov(Rayleigh, same_law=True):
    r"""Rayleigh fading, correlated over the rounds by an autoregression of order one.

    .. math:: f_t = r f_{t-1} + \sqrt{1 - r^2}\, z_t, \quad f_0 = z_0, \qquad \mathbb E[f_{t+\tau} \bar f_t] = r^\tau

    Parameters
    ----------
    correlation : float, in [0, 1], :math:`r`
    """

    correlation: float = 0.9
    limits: ClassVar = {"correlation": (0, 1)}

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        from scipy import signal

        fresh = np.full(num_rounds, np.sqrt(1 - self.correlation**2))
        fresh[0] = 1
        noise = complex_normal(rng, num_rounds) * fresh
        return signal.lfilter([1.0], [1.0, -self.correlation], noise)


@dataclass(frozen=True)
class Jakes(Rayleigh, same_law=True):
    r"""Rayleigh fading of a moving receiver, as a sum of waves [Clarke 1968, Jakes 1974].

    .. math:: f_t = \sum_{n=1}^{N} a_n e^{2\pi i f_D \Delta\, t \cos\alpha_n}, \qquad
        \mathbb E[f_{t+\tau} \bar f_t] = J_0(2\pi f_D \Delta\, \tau)

    with :math:`a_n \sim \mathcal{CN}(0, 1/N)` and uniform angles :math:`\alpha_n`.

    Parameters
    ----------
    doppler : float, in [0, 1e9], :math:`f_D = v f_c / c` in hertz
    round_time : float, in [1e-9, 1e9], :math:`\Delta` in seconds per round (default: 26,010 slots at 100 kHz)
    paths : int, in [1, 10000], :math:`N`
    """

    doppler: float = 2.0
    round_time: float = 0.26
    paths: int = 64
    limits: ClassVar = {
        "doppler": (0, 1e9),
        "round_time": (1e-9, 1e9),
        "paths": (1, 10_000),
    }

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        return waves(rng, num_rounds, self.doppler * self.round_time, self.paths)


def complex_normal(rng: np.random.Generator, num: int) -> ComplexArray:
    r"""Draw ``num`` independent numbers from :math:`\mathcal{CN}(0, 1)`."""
    return rng.standard_normal((num, 2)).view(complex)[..., 0] / np.sqrt(2)


def waves(
    rng: np.random.Generator, num_rounds: int, turns: float, paths: int
) -> ComplexArray:
    r"""Draw a sum of waves as in :class:`Jakes`; ``turns`` is :math:`f_D \Delta`."""
    angle = rng.random(paths)
    amplitude = complex_normal(rng, paths) / np.sqrt(paths)
    omega = 2j * np.pi * turns * np.cos(2 * np.pi * angle)
    # round start + n has the waves e^{omega start} e^{omega n}; products have a fixed shape, so that the last digit of
    # a round does not depend on how many follow
    steps = _LONG * _SHORT
    start = np.arange(0, num_rounds, steps)[:, None] + np.arange(0, steps, _SHORT)
    at_start = amplitude * np.exp(omega * start[..., None])
    onwards = np.exp(omega[:, None] * np.arange(_SHORT))
    return (at_start @ onwards).reshape(-1)[:num_rounds]


def draw(
    num_devices: int, num_rounds: int, seed: Seeds, model: ChannelModel | None = None
) -> Channel:
    """Draw realisations of a channel model, :class:`Rayleigh` by default; see :meth:`ChannelModel.draw`."""
    return (Rayleigh() if model is None else model).draw(num_devices, num_rounds, seed)
