r"""What lies between: shadows of houses and hills, and devices that move through them.

Each is a mixin over a fading model: it draws what ``super()`` draws and multiplies the coefficients, so that they
combine, as in ``class Mine(Shadowing, Motion, Rician)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale.channel.fading import ComplexArray, Rayleigh, autoregression, waves
from adascale.channel.model import Channel, ChannelModel, Seeds, each_device

FloatArray = NDArray[np.float64]

LIGHT = 299_792_458.0
"""Metres a second."""

_ANGLE, _SHADOW, _COURSE, _STREET = 1000, 1001, 1002, 1003
_SERVER_HEIGHT = 10


@dataclass(frozen=True)
class Shadowing(ChannelModel, same_law=True):
    r"""A mixin: log-normal shadows, correlated over places [Gudmundson 1991].

    .. math:: h_{m,t} = 10^{-s_m / 20}\, f_{m,t} / \sqrt{\mathrm{PL}_m}, \qquad
        \mathbb E[s_m s_j] = \varsigma^2 e^{-d_{mj} / D}

    with Gaussian :math:`s_m` in dB and the distance :math:`d_{mj}` between two devices, which stand at uniform angles
    around the server.  A device that moves by :math:`v \Delta` a round goes through the same field:
    :math:`\mathbb E[s_{m,t+\tau} s_{j,t}] = \varsigma^2 e^{-(d_{mj} + v \Delta \tau) / D}`.

    Parameters
    ----------
    deviation : float
        :math:`\varsigma` in dB, 0 to 30.
    correlation_distance : float
        :math:`D` in metres, 1e-3 to 1e6.
    known : bool
        Whether the server knows the shadow of round 0: ``path_loss`` has it then.  If not, ``path_loss`` is that of the
        distance, and what follows from it, the law of floors above all, is a belief.
    """

    deviation: float = 8.0
    correlation_distance: float = 50.0
    known: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limit(deviation=(0, 30), correlation_distance=(1e-3, 1e6))
        if not isinstance(self.known, bool):
            raise ValueError(f"known must be True or False, got {self.known!r}")

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        """As :meth:`ChannelModel.draw`, in the shadow."""
        check.entries("seeds x num_devices x num_devices", np.size(seed), num_devices, num_devices)
        distance, path_loss, coefficient = super().draw(num_devices, num_rounds, seed)
        angle = each_device(seed, num_devices, _ANGLE, lambda rng: rng.uniform(0, 2 * np.pi))
        place = distance * np.exp(1j * angle)
        apart = np.abs(place[..., :, None] - place[..., None, :])
        steps = num_rounds if self.metres_a_round else 1
        fresh = each_device(seed, num_devices, _SHADOW, lambda rng: rng.standard_normal(steps))
        along = autoregression(fresh, np.exp(-self.metres_a_round / self.correlation_distance))
        shadow = 10 ** (self.deviation / 10 * _correlated(np.exp(-apart / self.correlation_distance), along))
        if self.known:
            path_loss = path_loss * shadow[..., 0]
        return Channel(distance, path_loss, coefficient / np.sqrt(shadow))


@dataclass(frozen=True)
class Shadowed(Shadowing, Rayleigh):
    """Rayleigh fading in log-normal shadow: :class:`Shadowing`, :class:`Rayleigh`.

    Given ``path_loss`` with the shadow in it, the law of floors is Rayleigh's.
    """


@dataclass(frozen=True)
class Motion(ChannelModel, same_law=True):
    r"""A mixin: devices move, and their path loss with them.

    A device goes straight at a constant speed in a uniform direction, and is reflected where it meets the limits of the
    ring.  Reflections keep the distance b of its line from the server, so its own distance is

    .. math:: r_t = \sqrt{b^2 + s_t^2}, \qquad b = r_0 |\sin\vartheta|,

    where :math:`|s_t|` runs up and down at the speed v, between :math:`\sqrt{\max(r_{\min}^2 - b^2, 0)}` and
    :math:`\sqrt{r_{\max}^2 - b^2}`.  A place that is uniform
    on the ring (``placement="area"``) stays so in every round.

    ``path_loss`` is that of round 0; what follows from it, the law of floors above all, is a belief that ages.

    Parameters
    ----------
    speed : float
        :math:`v` in metres a second, 0 to 1,000.
    round_time : float
        :math:`\Delta` in seconds, from one round to the next (default: 26,010 slots at 100 kHz).
    """

    speed: float = 1.5
    round_time: float = 0.26

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limit(speed=(0, 1000), round_time=(1e-9, 1e9))

    @property
    def metres_a_round(self) -> float:
        r""":math:`v \Delta`."""
        return self.speed * self.round_time

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        """As :meth:`ChannelModel.draw`, on the way."""
        distance, path_loss, coefficient = super().draw(num_devices, num_rounds, seed)
        course = each_device(seed, num_devices, _COURSE, lambda rng: rng.uniform(0, 2 * np.pi))
        away = self.distances(distance, course, num_rounds)
        change = self.path_loss(away) / self.path_loss(distance)[..., None]
        return Channel(distance, path_loss, coefficient / np.sqrt(change))

    def distances(self, distance: FloatArray, course: FloatArray, num_rounds: int) -> FloatArray:
        r""":math:`r_t` in metres of every round, shape (..., T).

        Parameters
        ----------
        distance : numpy.ndarray
            :math:`r_0` in metres, within the ring, shape (...).
        course : numpy.ndarray
            :math:`\vartheta`, the direction against that away from the server, in radians, shape (...).
        num_rounds : int
            T.
        """
        nearest, farthest = self.distance_range
        aside = (distance * np.abs(np.sin(course)))[..., None]
        far = np.sqrt(np.maximum(farthest**2 - aside**2, 0))
        near = np.sqrt(np.maximum(nearest**2 - aside**2, 0))
        # |s| is folded between near and far
        length = np.maximum(far - near, 1e-300)
        along = (distance * np.cos(course))[..., None]
        went = np.abs(along) - near + np.copysign(self.metres_a_round, along) * np.arange(num_rounds)
        return np.asarray(np.hypot(aside, near + length - np.abs(went % (2 * length) - length)))


@dataclass(frozen=True)
class Moving(Motion, Rayleigh, same_law=True):
    r"""Devices that move, under the Rayleigh fading of their speed: :class:`Motion` with the waves of :class:`Jakes`.

    .. math:: f_D = v f_c / c

    Parameters
    ----------
    carrier : float
        :math:`f_c` in hertz, 1 to 1e12.
    paths : int
        Waves of a device, 1 to 10,000.
    """

    carrier: float = 2e9
    paths: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limit(carrier=(1, 1e12), paths=(1, 10_000))

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        r"""``num_rounds`` coefficients of one device."""
        return waves(rng, num_rounds, self.metres_a_round * self.carrier / LIGHT, self.paths)


@dataclass(frozen=True)
class UrbanMicro(Rayleigh):
    r"""A street canyon by 3GPP TR 38.901 (UMi): devices that see the server, and devices that do not.

    A device within 18 m sees it, and at d metres beyond with the probability of table 7.4.2-1,

    .. math:: p(d) = \frac{18}{d} + e^{-d/36} \Big(1 - \frac{18}{d}\Big).

    Its path loss is that of table 7.4.1-1 (:meth:`path_loss`, :meth:`hidden_path_loss`), times a log-normal shadow of
    4 dB in sight and 7.82 dB out of it.  Fading is Rician in sight, with a log-normal factor K of 9 dB in the mean and
    a deviation of 5 dB (table 7.5-6), and Rayleigh out of it.  All this is drawn once for every device; devices are
    independent, and rounds too.  The server stands 10 m high.

    ``path_loss`` has sight and shadow in it, as a server measures them.  The law of floors is Rayleigh's at these
    losses, as if no device saw the server: a belief.

    Parameters
    ----------
    carrier : float
        :math:`f_c` in hertz, 0.5e9 to 100e9.
    height : float
        Of the devices in metres, 1.5 to 22.5.

    Raises
    ------
    ValueError
        If a parameter is out of its range, distances are not within 10 m to 5 km, and as :class:`ChannelModel`.
    """

    floor_law = Rayleigh.floor_law
    carrier: float = 2e9
    height: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limit(carrier=(0.5e9, 100e9), height=(1.5, 22.5))
        if self.distance_range[0] < 10 or self.distance_range[1] > 5000:
            raise ValueError(f"distance_range must be within 10 ... 5000 in a street canyon, got {self.distance_range}")

    def sight_probability(self, distance: FloatArray) -> FloatArray:
        """The chance that a device at this distance in metres sees the server."""
        near = np.minimum(18 / distance, 1)
        return np.asarray(near + np.exp(-distance / 36) * (1 - near))

    def path_loss(self, distance: FloatArray) -> FloatArray:
        r"""In sight, as a linear power ratio.

        .. math:: \mathrm{PL}\,[\mathrm{dB}] = 32.4 + 20 \log_{10} f + \begin{cases} 21 \log_{10} r & d \le d_0 \\
            40 \log_{10} r - 9.5 \log_{10}(d_0^2 + (h - 10)^2) & d > d_0 \end{cases}

        with f in GHz, :math:`r^2 = d^2 + (h - 10)^2` for devices h high, and the break point
        :math:`d_0 = 4 \cdot 9 (h - 1) f_c / c`.
        """
        up, edge = _SERVER_HEIGHT - self.height, 4 * (_SERVER_HEIGHT - 1) * (self.height - 1) * self.carrier / LIGHT
        r = np.hypot(distance, up)
        slope = np.where(distance <= edge, 21 * np.log10(r), 40 * np.log10(r) - 9.5 * np.log10(edge**2 + up**2))
        return np.asarray(10 ** ((32.4 + 20 * np.log10(self.carrier / 1e9) + slope) / 10))

    def hidden_path_loss(self, distance: FloatArray) -> FloatArray:
        r"""Out of sight, and never less than in sight.

        .. math:: \mathrm{PL}\,[\mathrm{dB}] = 22.4 + 35.3 \log_{10} r + 21.3 \log_{10} f - 0.3 (h - 1.5)
        """
        r = np.hypot(distance, _SERVER_HEIGHT - self.height)
        decibels = 22.4 + 35.3 * np.log10(r) + 21.3 * np.log10(self.carrier / 1e9) - 0.3 * (self.height - 1.5)
        return np.asarray(np.maximum(10 ** (decibels / 10), self.path_loss(distance)))

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        """As :meth:`ChannelModel.draw`, in the street."""
        distance, clear, coefficient = super().draw(num_devices, num_rounds, seed)
        drawn = each_device(seed, num_devices, _STREET, lambda rng: [*rng.random(2), *rng.standard_normal(2)])
        chance, phase, shadow, line = np.moveaxis(drawn, -1, 0)
        sees = chance < self.sight_probability(distance)
        loss = np.where(sees, clear * 10 ** (0.4 * shadow), self.hidden_path_loss(distance) * 10 ** (0.782 * shadow))
        K = np.where(sees, 10 ** (0.9 + 0.5 * line), 0.0)
        sight = np.sqrt(K) * np.exp(2j * np.pi * phase)
        unit = (sight[..., None] + coefficient * np.sqrt(clear)[..., None]) / np.sqrt(K + 1)[..., None]
        return Channel(distance, loss, unit / np.sqrt(loss)[..., None])


def _correlated(covariance: FloatArray, fresh: FloatArray) -> FloatArray:
    """Independent rows ``fresh``, (..., M, T), mixed to have this covariance, (..., M, M), with ones on its diagonal.

    By Cholesky's factor, entry by entry: so the first rows do not depend on how many follow, to the last digit.
    """
    rest, mixed = covariance.copy(), np.zeros_like(fresh)
    for j in range(rest.shape[-1]):
        # two devices at one place leave 0, which rounding may have made less
        column = rest[..., j:, j] / np.sqrt(np.maximum(rest[..., j, j], 1e-12))[..., None]
        mixed[..., j:, :] += column[..., None] * fresh[..., j, None, :]
        rest[..., j:, j:] -= column[..., None] * column[..., None, :]
    return mixed
