r"""Channel models: where devices are, what distance costs, and how the air fades from round to round.

A *realisation* is one seed: distances are drawn once and kept, and every round brings a fresh fading coefficient
:math:`h_{m,t}`.  Each device has a random stream of its own, so a longer horizon or one more device extends a
realisation and changes nothing in it.  Time is the last axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale import registry
from adascale.channel.floors import EmpiricalFloors, FadingFloors, FloorLaw
from adascale.files import from_mapping
from adascale.scenario import Scenario

Seeds = int | Sequence[int] | range
"""One seed, or one for each realisation."""

PLACEMENTS = ("radius", "area")
"""How devices are placed, see :class:`ChannelModel`."""

_LAW_SEED, _LAW_ROUNDS = 20_000_017, 20_000


class Channel(NamedTuple):
    """Drawn channels of M devices over T rounds; a sequence of seeds adds a leading axis R."""

    distance: NDArray[np.float64]
    """:math:`d_m` in metres, shape (..., M)."""
    path_loss: NDArray[np.float64]
    r""":math:`\mathrm{PL}_m`, transmitted over received power (linear, no unit), shape (..., M), as the server knows it
    before the first round.  Policies are told this; where devices move, a shadow is not known, or one gain stands for
    several in a round, the coefficients have another mean."""
    coefficient: NDArray[np.complex128]
    """:math:`h_{m,t}`, complex, shape (..., M, T)."""

    @property
    def gain(self) -> NDArray[np.float64]:
        """Squared channel norms :math:`|h_{m,t}|^2` (linear), shape (..., M, T)."""
        return np.asarray(self.coefficient.real**2 + self.coefficient.imag**2)


def cost_hata_path_loss(distance: ArrayLike) -> NDArray[np.float64]:
    r"""Path loss of the COST Hata model, as a linear power ratio.

    .. math:: \mathrm{PL}\,[\mathrm{dB}] = 33.44 + 35.22 \log_{10}(d / 1\,\mathrm m)

    Parameters
    ----------
    distance : array_like
        :math:`d > 0` in metres, any shape.

    Returns
    -------
    numpy.ndarray
        Transmitted over received power, of the same shape (paper, Section "Numerical Experiments").

    Raises
    ------
    ValueError
        If a distance is not finite and positive, or its path loss is beyond floating point.
    """
    with np.errstate(over="ignore", under="ignore"):
        loss = np.asarray(10 ** ((33.44 + 35.22 * np.log10(check.positive("distance", distance))) / 10))
    return check.positive("the path loss of these distances", loss)


@dataclass(frozen=True)
class ChannelModel:
    r"""How channels are drawn: placement, path loss and a fading law.  A model of one's own is a subclass.

    It needs ``fading`` at least; ``place`` and ``path_loss`` have the paper's as defaults, and ``draw`` may be replaced
    as a whole, or extended: :class:`Shadowing` and :class:`Motion` are mixins that multiply what ``super()`` draws.
    A subclass that replaces ``fading`` or ``draw`` loses the ``survival`` and ``floor_law`` of its base, and its law of
    floors is drawn.  It defines them anew, or says ``class Mine(Rayleigh, same_law=True)`` where that of a round stays.
    Its parameters are dataclass fields, each a string, a number or a tuple of them: part of a run's address, and
    of what ``--channel module:Class:K=5`` can set.

    Parameters
    ----------
    distance_range : tuple of float
        :math:`(r_{\min}, r_{\max})` in metres, 0 < r_min <= r_max (default: the paper's 10 m and 200 m).
    placement : str
        ``radius``: the distance is uniform, as in the paper.  ``area``: the place is uniform on the ring between the
        two distances, that is :math:`d_m^2` is.
    """

    distance_range: tuple[float, float] = (10.0, 200.0)
    placement: str = "radius"
    _same_law: ClassVar[bool] = False

    def __init_subclass__(cls, same_law: bool = False) -> None:
        cls._same_law = same_law
        for law in ("survival", "floor_law"):
            home = next(each for each in cls.__mro__ if law in vars(each))
            if _redrawn(cls, home, {"fading", "draw"}):
                setattr(cls, law, getattr(ChannelModel, law))

    def __post_init__(self) -> None:
        limits = check.positive("distance_range", self.distance_range)
        if limits.shape != (2,):
            raise ValueError(f"distance_range must be (smallest, largest), got {self.distance_range!r}")
        nearest, farthest = limits.tolist()
        if nearest < 1e-150 or farthest > 1e150:
            raise ValueError(f"distance_range must be within 1e-150 ... 1e150, got {tuple(self.distance_range)}")
        if nearest > farthest:
            raise ValueError(f"distance_range must be (smallest, largest), got {tuple(self.distance_range)}")
        object.__setattr__(self, "distance_range", (nearest, farthest))
        if self.placement not in PLACEMENTS:
            raise ValueError(f"placement must be 'radius' or 'area', got {self.placement!r}")

    def limit(self, **limits: tuple[float, float]) -> None:
        """For a subclass's ``__post_init__``: each of these parameters is one number within its limits, ends included.

        It is kept as a float, so that 5 and 5.0 are the same model; where the default is a whole number, as that.

        Raises
        ------
        ValueError
            If one is not; it names the parameter, the value and what was expected.
        """
        for name, (low, high) in limits.items():
            given, is_whole = getattr(self, name), isinstance(getattr(type(self), name, None), int)
            value = check.as_floats(name, check.whole(name, given) if is_whole else given)
            if value.shape or not low <= value <= high:
                raise ValueError(f"{name} must be one number from {low:g} to {high:g}, got {given!r}")
            object.__setattr__(self, name, int(value) if is_whole else value.item())

    @property
    def metres_a_round(self) -> float:
        """How far a device moves from one round to the next; 0 where devices stand."""
        return 0.0

    def place(self, rng: np.random.Generator) -> float:
        """The distance of one device in metres."""
        nearest, farthest = self.distance_range
        if self.placement == "radius":
            return float(rng.uniform(nearest, farthest))
        return float(np.sqrt(rng.uniform(nearest**2, farthest**2)))

    def path_loss(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        """Transmitted over received power (linear) at distances in metres."""
        return cost_hata_path_loss(distance)

    def fading(self, rng: np.random.Generator, num_rounds: int) -> NDArray[np.complex128]:
        r"""``num_rounds`` complex coefficients of one device, with :math:`\mathbb E|h|^2 = 1`."""
        raise NotImplementedError(f"{type(self).__name__} has no fading law")

    def survival(self, power: NDArray[np.float64]) -> NDArray[np.float64]:
        r""":math:`S(x) = P(|f|^2 > x)` of the fading, from which :meth:`floor_law` is computed; optional."""
        raise NotImplementedError(f"{type(self).__name__} has no survival function")

    def floor_law(self, scenario: Scenario, mean_gain: ArrayLike) -> FloorLaw:
        r"""The law of the floors for devices of known mean gains: what a server knows before the first round.

        From :meth:`survival` where the model defines it; else from 20,000 rounds drawn with a seed of their own, by
        :meth:`draw` where the model has its own, at ``mean_gain`` in the place of its path losses.

        Parameters
        ----------
        scenario : Scenario
            The constants.
        mean_gain : array_like
            :math:`\mathbb E|h_m|^2 / k_m^2 > 0`, shape (..., M): :meth:`~adascale.scenario.Scenario.mean_gain`.

        Returns
        -------
        FloorLaw
            One law a lane.
        """
        if type(self).survival is not ChannelModel.survival:
            return FadingFloors(scenario, mean_gain, self.survival)
        gain = check.positive("mean_gain", mean_gain)
        if gain.shape[-1:] != (scenario.num_devices,):
            raise ValueError(f"mean_gain must have shape (..., {scenario.num_devices}), got {gain.shape}")
        if _redrawn(type(self), ChannelModel, {"draw"}):
            many = self.draw(scenario.num_devices, 20, range(_LAW_SEED, _LAW_SEED + _LAW_ROUNDS // 20))
            power = np.moveaxis(many.gain * many.path_loss[..., None], 0, 1).reshape(-1, _LAW_ROUNDS)
        else:
            streams = np.random.SeedSequence(_LAW_SEED).spawn(scenario.num_devices)
            drawn = np.stack([self._fade(np.random.default_rng(stream), _LAW_ROUNDS) for stream in streams])
            power = drawn.real**2 + drawn.imag**2
        power = np.maximum(power, np.finfo(float).tiny)
        least = [(row[:, None] * power).min(axis=0) for row in gain.reshape(-1, gain.shape[-1])]
        return EmpiricalFloors.of(scenario, np.reshape(least, (*gain.shape[:-1], _LAW_ROUNDS)))

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        r"""Draw realisations: :math:`h_{m,t} = f_{m,t} / \sqrt{\mathrm{PL}_m}`, with the fading :math:`f_{m,t}`.

        Parameters
        ----------
        num_devices, num_rounds : int
            :math:`M` and :math:`T`, each >= 1.
        seed : int or sequence of int
            One realisation, or one for each entry (a leading axis).  All coefficients together are at most 1e8, which
            is 1.6 GB; more are drawn in several calls, since a realisation does not depend on the others.

        Returns
        -------
        Channel
            Distances (..., M), path losses (..., M) and coefficients (..., M, T).

        Raises
        ------
        ValueError
            If a count or seed is not a whole number in range, there are too many coefficients, or the model's own
            ``path_loss`` or ``fading`` returns what is none.
        """
        check.whole("num_devices", num_devices)
        check.whole("num_rounds", num_rounds)
        lanes = len(seed) if isinstance(seed, Sequence) else 1
        check.entries("a draw of seeds x num_devices x num_rounds", lanes, num_devices, num_rounds)
        seeds = np.asarray(seed)
        if seeds.size == 0 or seeds.dtype.kind not in "iu" or (seeds < 0).any():
            raise ValueError(f"seed must be a whole number >= 0 or a sequence of them, got {seed!r}")
        check.entries("a draw of seeds x num_devices x num_rounds", seeds.size, num_devices, num_rounds)
        distance = np.empty((*seeds.shape, num_devices))
        unit: NDArray[np.complex128] = np.empty((*seeds.shape, num_devices, num_rounds), dtype=complex)
        for lane in np.ndindex(seeds.shape):
            streams = np.random.SeedSequence(int(seeds[lane])).spawn(num_devices)
            for device, stream in enumerate(streams):
                rng = np.random.default_rng(stream)
                distance[*lane, device] = self.place(rng)
                unit[*lane, device] = self._fade(rng, num_rounds)
        path_loss = check.positive("path_loss", self.path_loss(distance))
        return Channel(distance, path_loss, unit / np.sqrt(path_loss)[..., None])

    def _fade(self, rng: np.random.Generator, num_rounds: int) -> NDArray[np.complex128]:
        """``fading``, or a ``ValueError`` that it does not return ``num_rounds`` finite coefficients."""
        drawn = np.asarray(self.fading(rng, num_rounds))
        if drawn.shape != (num_rounds,) or not np.isfinite(drawn).all():
            raise ValueError(
                f"{type(self).__name__}.fading must return {num_rounds} finite coefficients, "
                f"got shape {drawn.shape} with {drawn[~np.isfinite(drawn)][:1].tolist()}"
            )
        return drawn


def _redrawn(model: type, home: type, names: set[str]) -> bool:
    """Whether a class that ``home`` does not know replaces one of these methods, and not with the same law."""
    new = (vars(each) for each in model.__mro__ if each not in home.__mro__)
    return any(names & own.keys() and not own.get("_same_law") for own in new)


def each_device(
    seed: Seeds, num_devices: int, purpose: int, draw: Callable[[np.random.Generator], ArrayLike]
) -> NDArray[np.float64]:
    """What ``draw`` makes of a stream of its own for every device, beside that of :meth:`ChannelModel.draw`.

    Parameters
    ----------
    seed, num_devices
        As for :meth:`ChannelModel.draw`.
    purpose : int
        Names the stream: streams of two purposes are independent, those of one are the same whenever they are asked
        for.  The package has 1000 to 1099.
    draw : callable
        From a generator to numbers, of one shape for all devices.

    Returns
    -------
    numpy.ndarray
        Shape (..., M, \\*shape), with a leading axis for a sequence of seeds.
    """
    seeds = np.asarray(seed)
    found = [
        draw(np.random.default_rng(np.random.SeedSequence(int(one), spawn_key=(device, purpose))))
        for one in seeds.flat
        for device in range(num_devices)
    ]
    return np.reshape(np.array(found, dtype=float), (*seeds.shape, num_devices, *np.shape(found[0])))


def find(name: str, **parameters: Any) -> ChannelModel:
    r"""A channel model by its name.

    Parameters
    ----------
    name : str
        A registered one (``rayleigh``) or ``module:Class``; with arguments behind it, ``rayleigh:placement=area``.
    **parameters
        Further arguments of its constructor.

    Raises
    ------
    ValueError
        If there is no such model, it is no :class:`ChannelModel` with a fading law, or it does not have such
        a parameter.
    """
    name, options = registry.parse_options(name)
    found = registry.find("channels", name)
    if found.value.fading is ChannelModel.fading and found.value.draw is ChannelModel.draw:
        raise ValueError(f"channel {name!r} must define fading(rng, num_rounds), the fading law of one device")
    chosen = {key: tuple(value) if isinstance(value, list) else value for key, value in (options | parameters).items()}
    made: ChannelModel = from_mapping(found.value, chosen, f" of channel {name!r}")
    return made


def specification(model: ChannelModel) -> dict[str, Any]:
    """The model as plain values, from which :func:`find` makes it again: its name, as ``model``, and its parameters."""
    return {"model": registry.name_of("channels", type(model))} | asdict(model)
