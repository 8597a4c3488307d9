r"""More than one gain in a round: blocks in time, subcarriers, antennas.

The paper gives a round one coefficient a device.  Here it has several, and the modulus of ``coefficient`` is the root
of the effective gain, the one gain with which the paper's power limit is the true one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from adascale import checks as check
from adascale.channel.fading import ComplexArray, Rayleigh
from adascale.channel.floors import FloorLaw, RayleighFloors
from adascale.channel.model import Channel, ChannelModel, Seeds, each_device
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]

ENERGIES = ("anywhere", "even")
"""Where the energy of a gradient lies among the blocks of a round."""

TAPS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "A": (
        (
            0,
            0.3819,
            0.4025,
            0.5868,
            0.4610,
            0.5375,
            0.6708,
            0.5750,
            0.7618,
            1.5375,
            1.8978,
            2.2242,
            2.1718,
            2.4942,
            2.5119,
            3.0582,
            4.0810,
            4.4579,
            4.5695,
            4.7966,
            5.0066,
            5.3043,
            9.6586,
        ),
        (
            -13.4,
            0,
            -2.2,
            -4,
            -6,
            -8.2,
            -9.9,
            -10.5,
            -7.5,
            -15.9,
            -6.6,
            -16.7,
            -12.4,
            -15.2,
            -10.8,
            -11.3,
            -12.7,
            -16.2,
            -18.3,
            -18.9,
            -16.6,
            -19.9,
            -29.7,
        ),
    ),
    "B": (
        (
            0,
            0.1072,
            0.2155,
            0.2095,
            0.2870,
            0.2986,
            0.3752,
            0.5055,
            0.3681,
            0.3697,
            0.5700,
            0.5283,
            1.1021,
            1.2756,
            1.5474,
            1.7842,
            2.0169,
            2.8294,
            3.0219,
            3.6187,
            4.1067,
            4.2790,
            4.7834,
        ),
        (
            0,
            -2.2,
            -4,
            -3.2,
            -9.8,
            -1.2,
            -3.4,
            -5.2,
            -7.6,
            -3,
            -8.9,
            -9,
            -4.8,
            -5.7,
            -7.5,
            -1.9,
            -7.6,
            -12.2,
            -9.8,
            -11.4,
            -14.9,
            -9.2,
            -11.3,
        ),
    ),
    "C": (
        (
            0,
            0.2099,
            0.2219,
            0.2329,
            0.2176,
            0.6366,
            0.6448,
            0.6560,
            0.6584,
            0.7935,
            0.8213,
            0.9336,
            1.2285,
            1.3083,
            2.1704,
            2.7105,
            4.2589,
            4.6003,
            5.4902,
            5.6077,
            6.3065,
            6.6374,
            7.0427,
            8.6523,
        ),
        (
            -4.4,
            -1.2,
            -3.5,
            -5.2,
            -2.5,
            0,
            -2.2,
            -3.9,
            -7.4,
            -7.1,
            -10.7,
            -11.1,
            -5.1,
            -6.8,
            -8.7,
            -13.2,
            -13.9,
            -13.9,
            -15.8,
            -17.1,
            -16,
            -15.7,
            -21.6,
            -22.8,
        ),
    ),
}
"""Delays over the delay spread, and powers in dB, of each profile (3GPP TR 38.901, tables 7.7.2-1 to 7.7.2-3)."""

_ANTENNAS, _CHUNK = 1010, 64


def effective_gain(power: FloatArray, energy: str) -> FloatArray:
    r"""The one gain that stands for those of the B blocks of a round in the power limit.

    Each block carries :math:`d / B` symbols, and a device inverts its gain :math:`|h_{m,b}|^2` in each; one
    :math:`\eta_t` serves all blocks.  A device then spends
    :math:`\frac{\eta_t}{M^2} \sum_b \|\mathbf g_b\|^2 / |h_{m,b}|^2`, where :math:`\mathbf g_b` is the part of its
    gradient in block b.  What this allows depends on where the gradient's energy lies:

    .. math::
        |h_m|^2_\text{anywhere} = \min_b |h_{m,b}|^2, \qquad
        |h_m|^2_\text{even} = \Big(\frac1B \sum_b |h_{m,b}|^{-2}\Big)^{-1}

    All of it may lie in the worst block; or a random rotation or permutation, known to all, spreads it evenly in the
    mean.  One :math:`\eta_t` for all blocks loses nothing in privacy.  All that tells a sample's presence may lie in
    one block, so the block with the least noise sets the leakage; more noise in another one costs, and protects nobody.

    Parameters
    ----------
    power : numpy.ndarray
        :math:`|h_{m,b}|^2 > 0`, shape (..., B).
    energy : str
        ``anywhere`` or ``even``.

    Returns
    -------
    numpy.ndarray
        Shape (...).
    """
    _check_energy(energy)
    return np.asarray(power.min(axis=-1) if energy == "anywhere" else 1 / np.mean(1 / power, axis=-1))


@dataclass(frozen=True)
class BlockFading(ChannelModel):
    r"""Rayleigh fading that changes during a round: B blocks of independent gains.

    The paper's round of 26,010 slots lasts 0.26 s at 100 kHz, longer than a channel stays at walking speed.  Under
    ``anywhere`` the minimum of B exponential gains is exponential with B times the rate, and the floor's law is
    Rayleigh's with the scale :math:`B \omega`.  Under ``even`` the law of floors is drawn.

    Parameters
    ----------
    blocks : int
        :math:`B`, 1 to 10,000.
    energy : str
        ``anywhere`` or ``even``: where the gradient's energy may lie, see :func:`effective_gain`.
    """

    blocks: int = 2
    energy: str = "anywhere"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limit(blocks=(1, 10_000))
        _check_energy(self.energy)

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        r"""Roots of ``num_rounds`` effective gains of one device."""
        check.entries("num_rounds x blocks", num_rounds, self.blocks)
        return np.sqrt(effective_gain(rng.standard_exponential((num_rounds, self.blocks)), self.energy)).astype(complex)

    def floor_law(self, scenario: Scenario, mean_gain: ArrayLike) -> FloorLaw:
        r"""Under ``anywhere`` in closed form; ``mean_gain`` is that of a block."""
        if self.energy == "anywhere":
            return RayleighFloors(self.blocks * RayleighFloors.of(scenario, mean_gain).scale)
        return super().floor_law(scenario, mean_gain)


@dataclass(frozen=True)
class TappedDelayLine(ChannelModel):
    r"""Many subcarriers over the echoes of 3GPP TR 38.901, section 7.7.2, profiles A, B and C.

    .. math:: f_{m,k} = \sum_l a_{m,l}\, e^{-2 \pi i\, k (W/B) \tau_l}, \qquad
        a_{m,l} \sim \mathcal{CN}(0, p_l), \quad \sum_l p_l = 1

    with the powers :math:`p_l`, and the delays :math:`\tau_l` times the delay spread, of tables 7.7.2-1 to 7.7.2-3.
    The B subcarriers are the blocks of a round (:func:`effective_gain`).  Each is Rayleigh fading, and two of them f
    hertz apart have the correlation :math:`\sum_l p_l e^{-2\pi i f \tau_l}`.  Taps are drawn anew in every round.  At
    the defaults :math:`W` times the delay spread is 0.01, and all subcarriers fade alike; they part above a few MHz.

    Parameters
    ----------
    profile : str
        ``A``, ``B`` or ``C``.
    delay_spread : float
        Seconds, 0 to 1e-3; the standard has 10 ns (very short), 100 ns (nominal) and 1 µs (very long).
    bandwidth : float
        :math:`W` in hertz, 1 to 1e12.
    subcarriers : int
        :math:`B`, 1 to 4096.
    energy : str
        ``anywhere`` or ``even``: where the gradient's energy may lie, see :func:`effective_gain`.
    """

    profile: str = "A"
    delay_spread: float = 1e-7
    bandwidth: float = 1e5
    subcarriers: int = 64
    energy: str = "even"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limit(delay_spread=(0, 1e-3), bandwidth=(1, 1e12), subcarriers=(1, 4096))
        if self.profile not in TAPS:
            raise ValueError(f"profile must be 'A', 'B' or 'C', got {self.profile!r}")
        _check_energy(self.energy)

    def response(self) -> ComplexArray:
        r""":math:`\sqrt{p_l}\, e^{-2\pi i\, k (W/B) \tau_l}`, shape (taps, B): taps of unit power to subcarriers."""
        delay, decibels = (np.array(column) for column in TAPS[self.profile])
        power = 10 ** (decibels / 10)
        frequency = np.arange(self.subcarriers) * (self.bandwidth / self.subcarriers)
        turns = np.outer(delay * self.delay_spread, frequency)
        return np.asarray(np.sqrt(power / power.sum())[:, None] * np.exp(-2j * np.pi * turns))

    def subcarrier_fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        r"""``num_rounds`` coefficients of each subcarrier of one device, shape (T, B)."""
        response = self.response()
        check.entries("num_rounds x subcarriers", num_rounds, self.subcarriers)
        # products of one fixed shape: so the last digit of a round does not depend on how many rounds follow
        chunks = -(-num_rounds // _CHUNK)
        normal = np.zeros((chunks * _CHUNK, 2 * len(response)))
        rng.standard_normal(out=normal[:num_rounds])
        taps = normal.view(complex).reshape(chunks, _CHUNK, -1) / np.sqrt(2)
        return np.asarray((taps @ response).reshape(-1, self.subcarriers)[:num_rounds])

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        r"""Roots of ``num_rounds`` effective gains of one device."""
        drawn = self.subcarrier_fading(rng, num_rounds)
        return np.sqrt(effective_gain(drawn.real**2 + drawn.imag**2, self.energy)).astype(complex)


class SelectionFloors(FloorLaw):
    r"""The least of N independent floors under Rayleigh fading.

    .. math:: H(w) = 1 - \big(1 - e^{-\omega/w}\big)^N, \qquad
        g(\ell) = \ell \sum_{n=1}^N \binom Nn (-1)^{n+1} E_2(n \omega / \ell)

    Parameters
    ----------
    scale : array_like
        :math:`\omega > 0` of one antenna, of the shape of the lanes, as in :class:`RayleighFloors`.
    antennas : int
        N, 1 to 16.
    """

    def __init__(self, scale: ArrayLike, antennas: int) -> None:
        self.scale = check.positive("scale", scale)
        self.antennas = check.whole("antennas", antennas)
        if antennas > 16:
            raise ValueError(f"antennas must be at most 16, where the sum keeps its digits, got {antennas}")
        self.lanes = self.scale.shape

    def cdf(self, floor: ArrayLike) -> FloatArray:
        share = np.exp(-self.scale / np.asarray(floor))
        with np.errstate(divide="ignore"):
            return np.asarray(-np.expm1(self.antennas * np.log1p(-share)))

    def mean_cost(self, level: ArrayLike) -> FloatArray:
        number = np.arange(1, self.antennas + 1)
        weight = special.binom(self.antennas, number) * (-1.0) ** (number + 1)
        each = special.expn(2, number * np.asarray(self.scale / np.asarray(level))[..., None])
        return np.asarray(level * (weight * each).sum(axis=-1))

    def quantile(self, share: ArrayLike) -> FloatArray:
        one = -np.expm1(np.log1p(-np.asarray(share, dtype=float)) / self.antennas)
        return np.asarray(self.scale / -np.log(one))


@dataclass(frozen=True)
class AntennaSelection(Rayleigh):
    r"""A server of N antennas and one receive chain, which listens each round with the best antenna.

    .. math:: n_t = \arg\max_n \min_m |h_{m,n,t}|^2

    with independent Rayleigh fading at each antenna.  The model is the paper's with the coefficients of that antenna.
    The law of floors is that of the least of N floors (:class:`SelectionFloors`), exact where all devices have the same
    batch and power, so that this antenna is the one of the largest :math:`h_{\min,t}^2`.  Which antenna is chosen
    depends on all devices: here alone one more device may change the rounds of the others.

    With a receive chain for each antenna the model does not carry over: the server combines them by weights
    :math:`\mathbf f`, and other combinations of what it heard let it hear one device better, by
    :math:`\|\mathbf h_m\|^2 \|\mathbf f\|^2 / |\mathbf f^H \mathbf h_m|^2 \ge 1`, so the noise at the output does not
    bound what leaks.

    Parameters
    ----------
    antennas : int
        N, 1 to 16.
    """

    antennas: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limit(antennas=(1, 16))

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        """As :meth:`ChannelModel.draw`, at the best antenna of each round; the first is that of :class:`Rayleigh`."""
        distance, path_loss, first = super().draw(num_devices, num_rounds, seed)
        more = self.antennas - 1
        if not more:
            return Channel(distance, path_loss, first)
        check.entries("seeds x num_devices x num_rounds x antennas", first.size, self.antennas)
        drawn = each_device(seed, num_devices, _ANTENNAS, lambda rng: rng.standard_normal((num_rounds, 2 * more)))
        others = drawn.view(complex) / np.sqrt(2 * path_loss)[..., None, None]
        every = np.concatenate([first[..., None], others], axis=-1)  # (..., M, T, N)
        best = (every.real**2 + every.imag**2).min(axis=-3, keepdims=True).argmax(axis=-1, keepdims=True)
        return Channel(distance, path_loss, np.take_along_axis(every, best, axis=-1)[..., 0])

    def floor_law(self, scenario: Scenario, mean_gain: ArrayLike) -> FloorLaw:
        """In closed form, see :class:`SelectionFloors`."""
        return SelectionFloors(RayleighFloors.of(scenario, mean_gain).scale, self.antennas)


def _check_energy(energy: str) -> None:
    if energy not in ENERGIES:
        raise ValueError(f"energy must be 'anywhere' or 'even', got {energy!r}")
