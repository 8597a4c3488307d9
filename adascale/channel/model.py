"""Channel models: placement of devices, path loss, and fading from round to round.

Each device has its own random stream, so that more rounds or devices extend a realisation without change.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale import registry
from adascale.channel.floors import EmpiricalFloors, FadingFloors, FloorLaw
from adascale.checks import ComplexArray, FloatArray
from adascale.errors import InvalidInput
from adascale.files import from_mapping
from adascale.scenario import Scenario
from adascale.text import shown

Seeds = int | Sequence[int] | range
"""One seed, or a sequence with one per realisation."""

# seed, and number of rounds, of the draws from which a distribution of floors is estimated
_LAW_SEED, _LAW_ROUNDS = 20_000_017, 20_000
# rounds per realisation there if a model defines ``draw``, by which a shadow, for example, lasts for a realisation
_SHORT = 20


class Channel(NamedTuple):
    """Drawn channels of M devices over T rounds; a sequence of seeds adds a leading axis R."""

    distance: FloatArray
    """:math:`d_m` in metres, shape (..., M)."""
    path_loss: FloatArray
    r""":math:`\mathrm{PL}_m`, transmitted over received power (linear) before the first round, shape (..., M)."""
    coefficient: ComplexArray
    """:math:`h_{m,t}`, complex, shape (..., M, T)."""
    exposure: FloatArray | None = None
    r""":math:`\kappa_{m,t} \ge 1`, by which more receive chains divide :math:`\sigma_{m,t}^2`; None if all are 1."""

    @property
    def gain(self) -> FloatArray:
        """Squared channel norms :math:`|h_{m,t}|^2` (linear), shape (..., M, T)."""
        return self.coefficient.real**2 + self.coefficient.imag**2


def cost_hata_path_loss(distance: ArrayLike) -> FloatArray:
    r"""Compute the linear path loss at distances > 0 by COST Hata (paper, "Numerical Experiments").

    .. math:: \mathrm{PL}\,[\mathrm{dB}] = 33.44 + 35.22 \log_{10}(d / 1\,\mathrm m)
    """
    decibels = 33.44 + 35.22 * np.log10(check.positive("distance", distance))
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(10 ** (decibels / 10))


@dataclass(frozen=True)
class ChannelModel:
    r"""A model from which channels are drawn; subclasses define at least ``fading``.

    A subclass that defines ``fading`` or ``draw`` does not inherit ``survival`` and ``floor_law``, unless it is
    declared as ``class Mine(Rayleigh, same_law=True)``.  Its parameters are dataclass fields.

    Parameters
    ----------
    distance_range : tuple of float, > 0, :math:`(r_{\min}, r_{\max})` in metres
    placement : {"radius", "area"}
        With ``radius``, :math:`d_m` is uniform, as in the paper; with ``area``, :math:`d_m^2` is uniform.
    """

    distance_range: tuple[float, float] = (10.0, 200.0)
    placement: str = "radius"
    limits: ClassVar[dict[str, tuple[float, float]]] = {}
    """The range, ends included, of each numeric parameter; a subclass adds to that of its base."""
    choices: ClassVar[dict[str, tuple[str | bool, ...]]] = {
        "placement": ("radius", "area")
    }
    """The values of each other parameter; a subclass adds to those of its base."""

    def __init_subclass__(cls, same_law: bool = False) -> None:
        """Drop the inherited ``survival`` and ``floor_law`` of a class with a fading or draw of its own."""
        own = vars(cls).keys()
        if own & {"fading", "draw"} and not same_law:
            for law in {"survival", "floor_law"} - own:
                setattr(cls, law, getattr(ChannelModel, law))

    def __post_init__(self) -> None:
        ends = check.positive("distance_range", self.distance_range)
        if ends.shape != (2,) or ends[0] > ends[1]:
            message = f"must be (smallest, largest), got {self.distance_range!r}"
            raise InvalidInput(f"distance_range {message}", "distance_range")
        object.__setattr__(self, "distance_range", tuple(ends.tolist()))
        for name, values in self.choices.items():
            check.one_of(name, getattr(self, name), *values)
        for name, (low, high) in self.limits.items():
            value = getattr(self, name)
            if isinstance(getattr(type(self), name), int):  # the default of the field
                value = check.whole(name, value, int(low), int(high))
            else:
                value = check.number(name, value, low, high)
            object.__setattr__(self, name, value)

    def place(self, rng: np.random.Generator) -> float:
        """Draw the distance of one device in metres."""
        nearest, farthest = self.distance_range
        if self.placement == "radius":
            return float(rng.uniform(nearest, farthest))
        return float(np.sqrt(rng.uniform(nearest**2, farthest**2)))

    def path_loss(self, distance: FloatArray) -> FloatArray:
        """Compute the ratio of transmitted to received power (linear) at distances in metres."""
        return cost_hata_path_loss(distance)

    def fading(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        r"""Draw ``num_rounds`` complex coefficients of one device, with :math:`\mathbb E|h|^2 = 1`.

        More rounds must not change the first ones: draw a second series from ``rng.spawn(1)[0]``.
        """
        raise NotImplementedError("the class defines no fading")

    def survival(self, power: FloatArray) -> FloatArray:
        """Return :math:`S(x) = P(|f|^2 > x)` of the fading, from which ``floor_law`` is computed; optional."""
        raise NotImplementedError("the class defines no survival function")

    def floor_law(self, scenario: Scenario, mean_gain: ArrayLike) -> FloorLaw:
        r"""Return the distribution of the floors for devices with known mean gains.

        It follows from ``survival`` if that is defined, else from 20,000 rounds drawn with a fixed seed.

        Parameters
        ----------
        scenario : Scenario
        mean_gain : array_like, shape (..., M), > 0
            :math:`\mathbb E|h_m|^2 / k_m^2`: :meth:`~adascale.scenario.Scenario.mean_gain`.
        """
        if type(self).survival is not ChannelModel.survival:
            return FadingFloors(scenario, mean_gain, self.survival)
        gain = check.per_device("mean_gain", mean_gain, scenario.num_devices)
        power = self._fading_power(scenario.num_devices)
        least = [
            (row[:, None] * power).min(axis=0)
            for row in gain.reshape(-1, gain.shape[-1])
        ]
        shape = *gain.shape[:-1], power.shape[-1]
        return EmpiricalFloors.of(scenario, np.reshape(least, shape))

    def _fading_power(self, num_devices: int) -> FloatArray:
        """Draw the squared fading of the devices in 20,000 rounds, shape (M, T), always the same."""
        if type(self).draw is ChannelModel.draw:
            streams = np.random.SeedSequence(_LAW_SEED).spawn(num_devices)
            generators = map(np.random.default_rng, streams)
            unit = np.stack([self._fade(rng, _LAW_ROUNDS) for rng in generators])
            power = unit.real**2 + unit.imag**2
        else:
            seeds = range(_LAW_SEED, _LAW_SEED + _LAW_ROUNDS // _SHORT)
            channel = self.draw(num_devices, _SHORT, seeds)
            unit_power = channel.gain * channel.path_loss[..., None]
            power = np.moveaxis(unit_power, 0, 1).reshape(num_devices, -1)
        return np.maximum(power, np.finfo(float).tiny)  # a gain of 0 has no floor

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        r"""Draw realisations :math:`h_{m,t} = f_{m,t} / \sqrt{\mathrm{PL}_m}` with the fading :math:`f_{m,t}`.

        Parameters
        ----------
        num_devices, num_rounds : int, >= 1
        seed : int or sequence of int, >= 0
            A sequence adds a leading axis.  A call draws at most 1e8 coefficients.
        """
        check.whole("num_devices", num_devices)
        check.whole("num_rounds", num_rounds)
        name = "a draw of seeds x num_devices x num_rounds"
        check.entries(name, np.size(seed), num_devices, num_rounds)
        seeds = _checked(seed)
        distance = np.empty((seeds.size, num_devices))
        unit = np.empty((*distance.shape, num_rounds), dtype=complex)
        for row, device in np.ndindex(distance.shape):
            entropy = int(seeds.flat[row])
            stream = np.random.SeedSequence(entropy, spawn_key=(device,))
            rng = np.random.default_rng(stream)
            distance[row, device] = self.place(rng)
            unit[row, device] = self._fade(rng, num_rounds)
        distance = distance.reshape(*seeds.shape, num_devices)
        path_loss = check.positive("path_loss", self.path_loss(distance))
        unit = unit.reshape(*distance.shape, num_rounds)
        unit /= np.sqrt(path_loss)[..., None]
        return Channel(distance, path_loss, unit)

    def min_gains(
        self, scenario: Scenario, seed: Sequence[int]
    ) -> tuple[FloatArray, FloatArray]:
        r"""Draw :math:`h_{\min,t}^2`, shape (R, T), and path losses (R, M), holding one realisation at a time."""
        min_gain = []
        path_loss = []
        for number in seed:
            channel = self.draw(scenario.num_devices, scenario.num_rounds, number)
            min_gain.append(scenario.min_gain(channel.gain))
            path_loss.append(channel.path_loss)
        return np.stack(min_gain), np.stack(path_loss)

    def _fade(self, rng: np.random.Generator, num_rounds: int) -> ComplexArray:
        """Return what ``fading``, which may be your own, draws, if it is of the right shape and finite."""
        unit = np.asarray(self.fading(rng, num_rounds))
        if unit.shape != (num_rounds,) or not np.isfinite(unit).all():
            expected = f"must return {num_rounds} finite coefficients"
            got = f"shape {unit.shape} with {unit[~np.isfinite(unit)][:1].tolist()}"
            raise ValueError(f"{type(self).__name__}.fading {expected}, got {got}")
        return unit


def _checked(seed: Seeds) -> NDArray[np.int_]:
    """Return seeds as an array of integers >= 0, of shape () for a single one."""
    seeds = np.asarray(seed)
    if seeds.size == 0 or seeds.dtype.kind not in "iu" or (seeds < 0).any():
        expected = "a whole number >= 0 or a sequence of them"
        raise InvalidInput(f"seed must be {expected}, got {shown(seed)}", "seed")
    return seeds


def each_device(
    seed: Seeds,
    num_devices: int,
    purpose: int,
    draw: Callable[[np.random.Generator], ArrayLike],
) -> FloatArray:
    """Call ``draw`` with one generator per device, and stack the values to ``(..., M, *shape)``.

    ``purpose`` is a number of your own choice, by which the generators differ from those of other draws.
    """
    seeds = np.asarray(seed)
    streams = [
        np.random.SeedSequence(int(entropy), spawn_key=(device, purpose))
        for entropy in seeds.flat
        for device in range(num_devices)
    ]
    values = [draw(np.random.default_rng(stream)) for stream in streams]
    shape = *seeds.shape, num_devices, *np.shape(values[0])
    return np.array(values, dtype=float).reshape(shape)


def find(name: str, **parameters: Any) -> ChannelModel:
    """Make a channel model from a name or ``module:Class``, with arguments as in ``rayleigh:placement=area``."""
    name, options = registry.parse_options(name)
    model = registry.find("channels", name).value
    arguments = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in (options | parameters).items()
    }
    where = f" of channel {name!r}"
    return from_mapping(model, arguments, where)


def specification(model: ChannelModel) -> dict[str, Any]:
    """Return the name, as ``model``, and the parameters from which :func:`find` makes the model."""
    return {"model": registry.name_of("channels", type(model))} | asdict(model)
