r"""Uplink channels: path loss, fading laws, and seeded draws.

A *realisation* is one seed: distances are drawn once and kept, and every round brings a fresh fading coefficient
:math:`h_{m,t} \sim \mathcal{CN}(0, 1/\mathrm{PL}_m)`.  Each device has a random stream of its own, so a longer horizon
or one more device extends a realisation and changes nothing in it.  Time is the last axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from adascale import checks as check

Fading = Callable[[np.random.Generator, int], np.ndarray]
"""A fading law gives, from a generator and a number of rounds, that many complex coefficients with E|h|^2 = 1."""


class Channel(NamedTuple):
    """Drawn channels of M devices over T rounds; a sequence of seeds adds a leading axis R."""

    distance: np.ndarray
    """:math:`d_m` in metres, shape (..., M)."""
    path_loss: np.ndarray
    r""":math:`\mathrm{PL}_m`, transmitted over received power (linear, no unit), shape (..., M)."""
    coefficient: np.ndarray
    """:math:`h_{m,t}`, complex, shape (..., M, T)."""

    @property
    def gain(self) -> np.ndarray:
        """Squared channel norms :math:`|h_{m,t}|^2` (linear), shape (..., M, T)."""
        return self.coefficient.real**2 + self.coefficient.imag**2


def cost_hata_path_loss(distance) -> np.ndarray:
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
        If a distance is not finite and positive.
    """
    return 10 ** ((33.44 + 35.22 * np.log10(check.positive("distance", distance))) / 10)


def rayleigh(rng: np.random.Generator, num_rounds: int) -> np.ndarray:
    r"""Rayleigh fading: ``num_rounds`` draws of :math:`\mathcal{CN}(0, 1)`, i.i.d. across rounds."""
    return rng.standard_normal((num_rounds, 2)).view(complex)[:, 0] / np.sqrt(2)


def draw(
    num_devices: int,
    num_rounds: int,
    seed,
    *,
    fading: Fading = rayleigh,
    distance_range: tuple[float, float] = (10.0, 200.0),
    placement: str = "radius",
) -> Channel:
    r"""Draw channel realisations: :math:`d_m \sim \mathrm{Uniform}[r_{\min}, r_{\max}]`, then fading round by round.

    Parameters
    ----------
    num_devices, num_rounds : int
        :math:`M` and :math:`T`, each >= 1.
    seed : int or sequence of int
        One realisation, or one for each entry (a leading axis).
    fading : callable
        The fading law (default :func:`rayleigh`).
    distance_range : tuple of float
        :math:`(r_{\min}, r_{\max})` in metres, 0 < r_min <= r_max (default: the paper's 10 m and 200 m).
    placement : str
        ``radius``: the distance is uniform, as in the paper.  ``area``: the place is uniform on the ring between the
        two distances, that is :math:`d_m^2` is.

    Returns
    -------
    Channel
        Distances (..., M), path losses (..., M) and coefficients (..., M, T).

    Raises
    ------
    ValueError
        If a count or seed is not a whole number in range, the distances are not positive and ordered, or there is no
        such placement.
    """
    check.whole("num_devices", num_devices)
    check.whole("num_rounds", num_rounds)
    limits = check.positive("distance_range", distance_range)
    if limits.shape != (2,):
        raise ValueError(f"distance_range must be (smallest, largest), got {distance_range!r}")
    nearest, farthest = limits
    if nearest > farthest:
        raise ValueError(f"distance_range must be (smallest, largest), got {tuple(distance_range)}")
    if placement not in ("radius", "area"):
        raise ValueError(f"placement must be 'radius' or 'area', got {placement!r}")
    seeds = np.asarray(seed)
    if seeds.size == 0 or seeds.dtype.kind not in "iu" or (seeds < 0).any():
        raise ValueError(f"seed must be a whole number >= 0 or a sequence of them, got {seed!r}")

    distance = np.empty(seeds.shape + (num_devices,))
    unit = np.empty(seeds.shape + (num_devices, num_rounds), dtype=complex)
    for lane in np.ndindex(seeds.shape):
        streams = np.random.SeedSequence(int(seeds[lane])).spawn(num_devices)
        for device, stream in enumerate(streams):
            rng = np.random.default_rng(stream)
            if placement == "radius":
                distance[lane + (device,)] = rng.uniform(nearest, farthest)
            else:
                distance[lane + (device,)] = np.sqrt(rng.uniform(nearest**2, farthest**2))
            unit[lane + (device,)] = fading(rng, num_rounds)
    path_loss = cost_hata_path_loss(distance)
    return Channel(distance, path_loss, unit / np.sqrt(path_loss)[..., None])
