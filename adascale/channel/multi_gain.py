"""Several gains per round (blocks in time, subcarriers, antennas), and the effective gain for the power limit."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.channel.fading import Rayleigh
from adascale.channel.floors import FloorLaw, RayleighFloors, SelectionFloors
from adascale.channel.model import Channel, ChannelModel, Seeds, each_device
from adascale.checks import ComplexArray, FloatArray
from adascale.scenario import Scenario

TAPS: dict[str, FloatArray] = {
    profile: np.array([tap.split() for tap in taps.split(",")], dtype=float).T
    for profile, taps in {
        "A": """0 -13.4, 0.3819 0, 0.4025 -2.2, 0.5868 -4, 0.461 -6, 0.5375 -8.2, 0.6708 -9.9, 0.575 -10.5, 0.7618 -7.5,
            1.5375 -15.9, 1.8978 -6.6, 2.2242 -16.7, 2.1718 -12.4, 2.4942 -15.2, 2.5119 -10.8, 3.0582 -11.3,
            4.081 -12.7, 4.4579 -16.2, 4.5695 -18.3, 4.7966 -18.9, 5.0066 -16.6, 5.3043 -19.9, 9.6586 -29.7""",
        "B": """0 0, 0.1072 -2.2, 0.2155 -4, 0.2095 -3.2, 0.287 -9.8, 0.2986 -1.2, 0.3752 -3.4, 0.5055 -5.2,
            0.3681 -7.6, 0.3697 -3, 0.57 -8.9, 0.5283 -9, 1.1021 -4.8, 1.2756 -5.7, 1.5474 -7.5, 1.7842 -1.9,
            2.0169 -7.6, 2.8294 -12.2, 3.0219 -9.8, 3.6187 -11.4, 4.1067 -14.9, 4.279 -9.2, 4.7834 -11.3""",
        "C": """0 -4.4, 0.2099 -1.2, 0.2219 -3.5, 0.2329 -5.2, 0.2176 -2.5, 0.6366 0, 0.6448 -2.2, 0.656 -3.9,
            0.6584 -7.4, 0.7935 -7.1, 0.8213 -10.7, 0.9336 -11.1, 1.2285 -5.1, 1.3083 -6.8, 2.1704 -8.7,
            2.7105 -13.2, 4.2589 -13.9, 4.6003 -13.9, 5.4902 -15.8, 5.6077 -17.1, 6.3065 -16, 6.6374 -15.7,
            7.0427 -21.6, 8.6523 -22.8""",
    }.items()
}
"""Delays over the delay spread, and powers in dB, of each profile (3GPP TR 38.901, tables 7.7.2-1 to 7.7.2-3)."""

_ANTENNAS = 1010  # purpose of the draws of further antennas, see :func:`each_device`
_CHUNK = 64  # rounds in a product of matrices
_BEAM_STEPS = 40  # of gradient ascent, from each of two starts
_ENERGY = ("anywhere", "even")


def effective_gain(power: FloatArray, energy: str) -> FloatArray:
    r"""Compute the single gain that replaces those of the B blocks of a round in the power limit.

    .. math:: |h_m|^2_\text{anywhere} = \min_b |h_{m,b}|^2, \qquad
        |h_m|^2_\text{even} = \Big(\frac1B \sum_b |h_{m,b}|^{-2}\Big)^{-1}

    With ``anywhere`` one block may have all the gradient's energy.  With ``even``, a random rotation that everyone
    knows spreads it over the blocks.

    Parameters
    ----------
    power : numpy.ndarray, shape (..., B), > 0, :math:`|h_{m,b}|^2`
    energy : str, ``anywhere`` or ``even``
    """
    check.one_of("energy", energy, *_ENERGY)
    if energy == "anywhere":
        return power.min(axis=-1)
    return 1 / np.mean(1 / power, axis=-1)


@dataclass(frozen=True)
class BlockFading(ChannelModel):
    """Rayleigh fading that changes during a round, in B blocks of independent gains.

    Parameters
    ----------
    blocks : int, in [1, 10000], :math:`B`
    energy : str, ``anywhere`` or ``even``, see :func:`effective_gain`
    """

    blocks: int = 2
    energy: str = "anywhere"
    limits: ClassVar = {"blocks": (1, 10_000)}
    choices: ClassVar = ChannelModel.choices | {"energy": _ENERGY}

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        power = rng.standard_exponential((num_rounds, self.blocks))
        return np.sqrt(effective_gain(power, self.energy)).astype(complex)

    def floor_law(self, scenario: Scenario, mean_gain: ArrayLike) -> FloorLaw:
        r"""Return the distribution for mean gains of a block; under ``anywhere`` it has the scale :math:`B \omega`."""
        if self.energy == "anywhere":
            scale = RayleighFloors.of(scenario, mean_gain).scale
            return RayleighFloors(self.blocks * scale)
        return super().floor_law(scenario, mean_gain)


@dataclass(frozen=True)
class TappedDelayLine(ChannelModel):
    r"""Subcarriers that fade with the delayed paths (taps) of 3GPP TR 38.901, section 7.7.2, profiles A, B and C.

    .. math:: f_{m,k} = \sum_l a_{m,l}\, e^{-2 \pi i\, k (W/B) \tau_l}, \qquad
        a_{m,l} \sim \mathcal{CN}(0, p_l), \quad \sum_l p_l = 1

    The B subcarriers are the blocks of a round (:func:`effective_gain`); the taps are drawn anew in every round.

    Parameters
    ----------
    profile : str, ``A``, ``B`` or ``C``
    delay_spread : float, in [0, 1e-3], seconds
    bandwidth : float, in [1, 1e12], :math:`W` in hertz
    subcarriers : int, in [1, 4096], :math:`B`
    energy : str, ``anywhere`` or ``even``
    """

    profile: str = "A"
    delay_spread: float = 1e-7
    bandwidth: float = 1e5
    subcarriers: int = 64
    energy: str = "even"
    limits: ClassVar = {
        "delay_spread": (0, 1e-3),
        "bandwidth": (1, 1e12),
        "subcarriers": (1, 4096),
    }
    choices: ClassVar = ChannelModel.choices | {
        "profile": tuple(TAPS),
        "energy": _ENERGY,
    }

    def response(self) -> ComplexArray:
        r"""Return :math:`\sqrt{p_l}\, e^{-2\pi i\, k (W/B) \tau_l}`, shape (taps, B)."""
        delay, decibels = TAPS[self.profile]
        power = 10 ** (decibels / 10)
        spacing = self.bandwidth / self.subcarriers
        frequency = np.arange(self.subcarriers) * spacing
        turns = np.outer(delay * self.delay_spread, frequency)
        amplitude = np.sqrt(power / power.sum())
        return amplitude[:, None] * np.exp(-2j * np.pi * turns)

    def subcarrier_fading(
        self, rng: np.random.Generator, num_rounds: int
    ) -> ComplexArray:
        r"""Draw ``num_rounds`` coefficients of each subcarrier of one device, shape (T, B)."""
        response = self.response()
        # products have one fixed shape, so that the last digit of a round does not depend on how many rounds follow
        chunks = -(-num_rounds // _CHUNK)  # rounded up
        normal = np.zeros((chunks * _CHUNK, 2 * len(response)))
        rng.standard_normal(out=normal[:num_rounds])
        taps = normal.view(complex).reshape(chunks, _CHUNK, -1) / np.sqrt(2)
        return (taps @ response).reshape(-1, self.subcarriers)[:num_rounds]

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        unit = self.subcarrier_fading(rng, num_rounds)
        power = unit.real**2 + unit.imag**2
        return np.sqrt(effective_gain(power, self.energy)).astype(complex)


@dataclass(frozen=True)
class AntennaSelection(Rayleigh):
    r"""A server of N antennas, which uses the best antenna in each round.

    .. math:: n_t = \arg\max_n \min_m |h_{m,n,t}|^2

    with independent Rayleigh fading.  The distribution of the floors is exact if all devices have the same batch size
    and power.

    Parameters
    ----------
    antennas : int, in [1, 16], :math:`N`
    chains : {"one", "all"}
        With ``one`` receive chain the server gets the combined signal alone.  With ``all`` it gets every antenna's, so
        the exposure of a device is :math:`\kappa_{m,t} = \lVert \mathbf h_{m,t} \rVert^2 / |h_{m,t}|^2`.
    """

    antennas: int = 2
    chains: str = "one"
    limits: ClassVar = {"antennas": (1, 16)}
    choices: ClassVar = Rayleigh.choices | {"chains": ("one", "all")}

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        distance, path_loss, first, _ = super().draw(num_devices, num_rounds, seed)
        # real and imaginary parts of the other antennas
        shape = num_rounds, 2 * self.antennas - 2
        normal = each_device(
            seed, num_devices, _ANTENNAS, lambda rng: rng.standard_normal(shape)
        )
        more = normal.view(complex) / np.sqrt(2 * path_loss)[..., None, None]
        antennas = np.concatenate([first[..., None], more], axis=-1)  # (..., M, T, N)
        combined = self._combined(antennas)
        if self.chains == "one":
            return Channel(distance, path_loss, combined)
        norm = (antennas.real**2 + antennas.imag**2).sum(axis=-1)
        exposure = np.maximum(norm / (combined.real**2 + combined.imag**2), 1.0)
        return Channel(distance, path_loss, combined, exposure)

    def _combined(self, antennas: ComplexArray) -> ComplexArray:
        """Return the coefficients of the signal that the server decodes, shape (..., M, T)."""
        least = (antennas.real**2 + antennas.imag**2).min(axis=-3, keepdims=True)
        best = least.argmax(axis=-1, keepdims=True)
        return np.take_along_axis(antennas, best, axis=-1)[..., 0]

    def floor_law(self, scenario: Scenario, mean_gain: ArrayLike) -> FloorLaw:
        scale = RayleighFloors.of(scenario, mean_gain).scale
        return SelectionFloors(scale, self.antennas)


@dataclass(frozen=True)
class Beamforming(AntennaSelection):
    r"""A server that combines N antennas, and decodes :math:`\mathbf b_t^H \mathbf r_t`.

    .. math:: \mathbf b_t \approx \arg\max_{\lVert \mathbf b \rVert = 1} \min_m |\mathbf b^H \mathbf h_{m,t}|^2,
        \qquad \kappa_{m,t} = \lVert \mathbf h_{m,t} \rVert^2 / |\mathbf b_t^H \mathbf h_{m,t}|^2

    Devices invert :math:`\mathbf b_t^H \mathbf h_{m,t}`.  The weights are never worse than :class:`AntennaSelection`.

    Parameters
    ----------
    antennas, chains : see :class:`AntennaSelection`
    """

    chains: str = "all"

    def _combined(self, antennas: ComplexArray) -> ComplexArray:
        # real numbers, because their products do not depend on the number of rounds, to the last digit.  With b as 2 N
        # real numbers, pair @ b is the real and the imaginary part of b^H h, shape (2, ..., M, T)
        pair = np.stack([antennas, -1j * antennas]).view(float)
        power = antennas.real**2 + antennas.imag**2
        # gradient ascent from the best antenna alone, and from the mean of the devices' directions
        best = np.eye(self.antennas)[power.min(axis=-3).argmax(axis=-1)].astype(complex)
        mean = (antennas / power.sum(axis=-1, keepdims=True)).sum(axis=-3)
        response, top = pair[..., 0], -np.ones(best.shape[:-1])[..., None, :]
        for start in (best, mean):
            b = start.view(float)
            for _ in range(_BEAM_STEPS):
                b = b / np.sqrt((b * b).sum(axis=-1, keepdims=True))
                trial = (pair * b[..., None, :, :]).sum(axis=-1)
                power = (trial**2).sum(axis=0)
                least = power.min(axis=-2, keepdims=True)
                response = np.where(least > top, trial, response)
                top = np.maximum(least, top)
                # a gradient to which the weakest devices contribute most
                share = (least / power) ** 2 / power * trial
                step = (share[..., None] * pair).sum(axis=0).sum(axis=-3)
                b = b + step / (2 * np.sqrt((step * step).sum(axis=-1, keepdims=True)))
        return response[0] + 1j * response[1]

    def floor_law(self, scenario: Scenario, mean_gain: ArrayLike) -> FloorLaw:
        raise NotImplementedError("Beamforming has no known distribution of floors")
