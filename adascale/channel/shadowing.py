"""Correlated shadowing, device mobility, and a street canyon."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adascale.channel.fading import Rayleigh, waves
from adascale.channel.model import Channel, Seeds, each_device
from adascale.checks import ComplexArray, FloatArray
from adascale.errors import InvalidInput

LIGHT = 299_792_458.0
"""Speed of light in metres per second."""

# purposes of draws, see :func:`each_device`
_ANGLE, _SHADOW, _COURSE, _STREET = 1000, 1001, 1002, 1003
_SERVER_HEIGHT = 10  # metres


@dataclass(frozen=True)
class Shadowed(Rayleigh, same_law=True):
    r"""Rayleigh fading with log-normal shadows, correlated in space [Gudmundson 1991].

    .. math:: h_{m,t} = 10^{-s_m / 20}\, f_{m,t} / \sqrt{\mathrm{PL}_m}, \qquad
        \mathbb E[s_m s_j] = \varsigma^2 e^{-d_{mj} / D}

    with Gaussian :math:`s_m` in dB, for devices at uniform angles around the server, :math:`d_{mj}` apart.

    Parameters
    ----------
    deviation : float, in [0, 30], :math:`\varsigma` in dB
    correlation_distance : float, in [1e-3, 1e6], :math:`D` in metres
    known : bool
        Whether ``path_loss`` includes the shadow.
    """

    deviation: float = 8.0
    correlation_distance: float = 50.0
    known: bool = True
    limits: ClassVar = {"deviation": (0, 30), "correlation_distance": (1e-3, 1e6)}
    choices: ClassVar = Rayleigh.choices | {"known": (True, False)}

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        distance, path_loss, coefficient, _ = super().draw(
            num_devices, num_rounds, seed
        )
        angle = each_device(
            seed, num_devices, _ANGLE, lambda rng: rng.uniform(0, 2 * np.pi)
        )
        fresh = each_device(
            seed, num_devices, _SHADOW, lambda rng: rng.standard_normal()
        )
        place = distance * np.exp(1j * angle)
        apart = np.abs(place[..., :, None] - place[..., None, :])
        # correlations that the columns so far do not explain
        residual = np.exp(-apart / self.correlation_distance)
        normal = np.zeros_like(fresh)
        # Cholesky's factor, entry by entry, so that the first rows do not depend on how many follow, to the last digit
        for j in range(num_devices):
            # two devices at one place leave 0, or less after rounding
            pivot = np.sqrt(np.maximum(residual[..., j, j], 1e-12))
            column = residual[..., j:, j] / pivot[..., None]
            normal[..., j:] += column * fresh[..., j, None]
            residual[..., j:, j:] -= column[..., None] * column[..., None, :]
        shadow = 10 ** (self.deviation / 10 * normal)
        coefficient = coefficient / np.sqrt(shadow)[..., None]
        if self.known:
            path_loss = path_loss * shadow
        return Channel(distance, path_loss, coefficient)


@dataclass(frozen=True)
class Moving(Rayleigh, same_law=True):
    r"""Devices that move straight in uniform directions and are reflected at the limits of the ring.

    .. math:: r_t = \sqrt{b^2 + s_t^2}, \qquad b = r_0 |\sin\vartheta|

    where :math:`|s_t|` moves at the speed v between the limits of the ring, with the waves of :class:`Jakes` at
    :math:`f_D = v f_c / c`.  ``path_loss`` is that of round 0.

    Parameters
    ----------
    speed : float, in [0, 1000], :math:`v` in metres per second
    round_time : float, in [1e-9, 1e9], :math:`\Delta` in seconds per round (default: 26,010 slots at 100 kHz)
    carrier : float, in [1, 1e12], :math:`f_c` in hertz
    paths : int, in [1, 10000]
    """

    speed: float = 1.5
    round_time: float = 0.26
    carrier: float = 2e9
    paths: int = 64
    limits: ClassVar = {
        "speed": (0, 1000),
        "round_time": (1e-9, 1e9),
        "carrier": (1, 1e12),
        "paths": (1, 10_000),
    }

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        # of the largest Doppler shift, per round
        cycles = self.speed * self.round_time * self.carrier / LIGHT
        return waves(rng, num_rounds, cycles, self.paths)

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        distance, path_loss, coefficient, _ = super().draw(
            num_devices, num_rounds, seed
        )
        course = each_device(
            seed, num_devices, _COURSE, lambda rng: rng.uniform(0, 2 * np.pi)
        )
        moved = self.distances(distance, course, num_rounds)
        change = self.path_loss(moved) / self.path_loss(distance)[..., None]
        return Channel(distance, path_loss, coefficient / np.sqrt(change))

    def distances(
        self, distance: FloatArray, course: FloatArray, num_rounds: int
    ) -> FloatArray:
        r"""Compute :math:`r_t`, shape (..., T), from :math:`r_0` and the course :math:`\vartheta` in radians."""
        aside = (distance * np.abs(np.sin(course)))[..., None]
        near, far = (
            np.sqrt(np.maximum(end**2 - aside**2, 0)) for end in self.distance_range
        )
        length = np.maximum(far - near, 1e-300)
        along = (distance * np.cos(course))[..., None]
        step = np.copysign(self.speed * self.round_time, along)
        # |s| is between near and far, where a device turns round: a triangle wave of the way
        way = np.abs(along) - near + step * np.arange(num_rounds)
        reflected = near + length - np.abs(way % (2 * length) - length)
        return np.hypot(aside, reflected)


@dataclass(frozen=True)
class UrbanMicro(Rayleigh):
    """A street canyon of 3GPP TR 38.901 (UMi), where some devices see the server, which is 10 m high.

    Drawn once per device are whether it sees the server (table 7.4.2-1), its path loss (7.4.1-1) with a log-normal
    shadow of 4 dB in sight and 7.82 dB out of sight, and, in sight, a Rician factor K with mean 9 dB and deviation 5 dB
    (7.5-6).  ``path_loss`` includes the shadow, and ``floor_law`` assumes Rayleigh fading.

    Parameters
    ----------
    carrier : float, in [0.5e9, 100e9], :math:`f_c` in hertz
    height : float, in [1.5, 22.5], :math:`h` of the devices in metres
    distance_range : tuple of float, within [10, 5000], in metres
    """

    floor_law = Rayleigh.floor_law  # not inherited by a class with a draw of its own
    carrier: float = 2e9
    height: float = 1.5
    limits: ClassVar = {"carrier": (0.5e9, 100e9), "height": (1.5, 22.5)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distance_range[0] < 10 or self.distance_range[1] > 5000:
            expected = "within 10 ... 5000 in a street canyon"
            message = f"must be {expected}, got {self.distance_range}"
            raise InvalidInput(f"distance_range {message}", "distance_range")

    def sight_probability(self, distance: FloatArray) -> FloatArray:
        r"""Compute the probability :math:`\frac{18}{d} + e^{-d/36} (1 - \frac{18}{d})` of sight, 1 within 18 m."""
        near = np.minimum(18 / distance, 1)
        return near + np.exp(-distance / 36) * (1 - near)

    def path_loss(self, distance: FloatArray) -> FloatArray:
        r"""Compute the linear path loss in sight, with :math:`r^2 = d^2 + (h - 10)^2` and f in GHz.

        .. math:: \mathrm{PL}\,[\mathrm{dB}] = 32.4 + 20 \log_{10} f + \begin{cases} 21 \log_{10} r & d \le d_0 \\
            40 \log_{10} r - 9.5 \log_{10}(d_0^2 + (h - 10)^2) & d > d_0 \end{cases}, \quad d_0 = 36 (h - 1) f_c / c
        """
        up = _SERVER_HEIGHT - self.height
        # in the standard, the effective heights of antennas are 1 m less
        edge = 4 * (_SERVER_HEIGHT - 1) * (self.height - 1) * self.carrier / LIGHT
        log = np.log10(np.hypot(distance, up))
        beyond = 40 * log - 9.5 * np.log10(edge**2 + up**2)
        slope = np.where(distance <= edge, 21 * log, beyond)
        decibels = 32.4 + 20 * np.log10(self.carrier / 1e9) + slope
        return 10 ** (decibels / 10)

    def hidden_path_loss(self, distance: FloatArray) -> FloatArray:
        r"""Compute the linear path loss out of sight, at least that in sight.

        .. math:: \mathrm{PL}\,[\mathrm{dB}] = 22.4 + 35.3 \log_{10} r + 21.3 \log_{10} f - 0.3 (h - 1.5)
        """
        r = np.hypot(distance, _SERVER_HEIGHT - self.height)
        decibels = 22.4 + 35.3 * np.log10(r) + 21.3 * np.log10(self.carrier / 1e9)
        decibels = decibels - 0.3 * (self.height - 1.5)
        return np.maximum(10 ** (decibels / 10), self.path_loss(distance))

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        distance, clear, coefficient, _ = super().draw(num_devices, num_rounds, seed)
        street = each_device(
            seed,
            num_devices,
            _STREET,
            lambda rng: [*rng.random(2), *rng.standard_normal(2)],
        )
        chance, phase, shadow, spread = np.moveaxis(street, -1, 0)
        sees = chance < self.sight_probability(distance)
        # shadows of 7.82 dB and 4 dB, and K of 9 dB with a deviation of 5 dB, as powers of 10
        hidden = self.hidden_path_loss(distance) * 10 ** (0.782 * shadow)
        loss = np.where(sees, clear * 10 ** (0.4 * shadow), hidden)
        K = np.where(sees, 10 ** (0.9 + 0.5 * spread), 0.0)
        sight = np.sqrt(K) * np.exp(2j * np.pi * phase)
        scattered = coefficient * np.sqrt(clear)[..., None]
        unit = (sight[..., None] + scattered) / np.sqrt(K + 1)[..., None]
        return Channel(distance, loss, unit / np.sqrt(loss)[..., None])
