r"""Estimated channels: devices invert what they believe their coefficient to be.

Device m sends :math:`\sqrt{\eta_t}\, \mathbf g_{m,t} / (M \hat h_{m,t})`, and the server receives its gradient
times the *alignment* :math:`c_{m,t} = h_{m,t} / \hat h_{m,t}`.  What follows for the update, the power limit and
privacy is derived in :ref:`sec-estimates`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.channel.model import Channel, Seeds
from adascale.scenario import Scenario

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

KINDS = ("least-squares", "mmse", "phase")
"""How :func:`estimate` makes an estimate."""
_PILOTS = 19_000_019  # apart from the streams of the channel itself


class AlignmentLaw(NamedTuple):
    r"""What a device knows of its alignment: given the estimates, :math:`c \sim \mathcal{CN}(\bar c, v)`."""

    mean: FloatArray
    r""":math:`\bar c_m = \mathbb E[c_{m,t} \mid \hat h]`, shape (..., M, T)."""
    variance: FloatArray
    r""":math:`v_{m,t} = \mathrm{Var}(c_{m,t} \mid \hat h)`, half of it in the real part, shape (..., M, T)."""


def pilot_error(path_loss: ArrayLike, symbols: int, power: float, noise_power: float) -> FloatArray:
    r"""The error of a coefficient that is measured on pilots, in units of its mean square.

    .. math:: \zeta_m^2 = \frac{\mathrm{PL}_m\, \sigma_n^2}{N_{\mathrm p}\, P}

    Parameters
    ----------
    path_loss : array_like
        :math:`\mathrm{PL}_m > 0` (linear), shape (..., M).
    symbols : int
        :math:`N_{\mathrm p} \ge 1` pilot symbols of each device.
    power : float
        :math:`P > 0`, at which they are sent, in watts.
    noise_power : float
        :math:`\sigma_n^2 > 0` of who listens to them, in watts.
    """
    noise, sent = float(check.positive("noise_power", noise_power)), float(check.positive("power", power))
    error: FloatArray = check.positive("path_loss", path_loss) * noise / (check.whole("symbols", symbols) * sent)
    return error


def estimate(channel: Channel, error: ArrayLike, kind: str = "mmse", *, seed: Seeds) -> ComplexArray:
    r"""Estimated coefficients of a drawn channel.

    Both kinds of estimates come of the same measurement, with :math:`z \sim \mathcal{CN}(0, 1)` of its own in every
    round:

    .. math::
        \hat h^{\mathrm{LS}} = h + \zeta_m z / \sqrt{\mathrm{PL}_m}, \qquad
        \hat h^{\mathrm{MMSE}} = \hat h^{\mathrm{LS}} / (1 + \zeta_m^2)

    (the best linear estimate; under Rayleigh fading the best one).  ``phase`` instead keeps the modulus,
    :math:`\hat h = h e^{i \zeta_m z}` with a standard normal z.

    Parameters
    ----------
    channel : Channel
        Coefficients of shape (..., M, T).
    error : array_like
        :math:`\zeta_m^2 \ge 0`: the variance of the measurement's error over :math:`1/\mathrm{PL}_m`, such as 0.01 for
        -20 dB, or of the phase in rad²; one number, or shape (M,) or (..., M).
    kind : str
        ``least-squares``, ``mmse`` or ``phase``.
    seed : int or sequence of int
        Of the errors, one for each realisation of the channel.  With the same seed they are proportional to
        :math:`\zeta_m`, and more rounds or devices change nothing in those that are there.

    Returns
    -------
    numpy.ndarray
        :math:`\hat h_{m,t}`, complex, shape (..., M, T).
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    coefficient = channel.coefficient
    lanes, (devices, rounds) = coefficient.shape[:-2], coefficient.shape[-2:]
    size = np.sqrt(check.at_least("error", error, 0))
    if size.shape not in ((), (devices,), lanes + (devices,)):
        raise ValueError(f"error must be one number or have shape {lanes + (devices,)}, got shape {size.shape}")
    seeds = np.asarray(seed)
    if seeds.shape != lanes or seeds.dtype.kind not in "iu" or (seeds < 0).any():
        raise ValueError(f"seed must be a whole number >= 0 for each realisation, shape {lanes}, got {seed!r}")
    drawn: ComplexArray = np.empty(coefficient.shape, dtype=complex)
    for lane in np.ndindex(lanes):
        for device, stream in enumerate(np.random.SeedSequence([_PILOTS, int(seeds[lane])]).spawn(devices)):
            normal = np.random.default_rng(stream).standard_normal((rounds, 2))
            drawn[*lane, device] = normal.view(complex)[:, 0] / math.sqrt(2)
    if kind == "phase":
        return np.asarray(coefficient * np.exp(1j * math.sqrt(2) * size[..., None] * drawn.real))
    measured = coefficient + (size / np.sqrt(channel.path_loss))[..., None] * drawn
    return np.asarray(measured if kind == "least-squares" else measured / (1 + size[..., None] ** 2))


def alignment(coefficient: ArrayLike, estimate: ArrayLike) -> ComplexArray:
    r"""The alignment :math:`c_{m,t} = h_{m,t} / \hat h_{m,t}`, complex, of two arrays of one shape."""
    h, believed = np.asarray(coefficient, dtype=complex), np.asarray(estimate, dtype=complex)
    if h.shape != believed.shape:
        raise ValueError(f"coefficient and estimate must have one shape, got {h.shape} and {believed.shape}")
    if (believed == 0).any():
        raise ValueError("estimate must not be zero, got a device that believes to have no channel")
    with np.errstate(over="ignore", invalid="ignore"):
        c = h / believed
    if not np.isfinite(c).all():
        raise ValueError(f"coefficient / estimate must be finite, got {c[~np.isfinite(c)][0]}")
    return np.asarray(c)


def alignment_law(estimate: ArrayLike, path_loss: ArrayLike, error: ArrayLike, kind: str = "mmse") -> AlignmentLaw:
    r"""The law of the alignment given the estimates, under Rayleigh fading.

    .. math::
        \bar c_m = \frac{1}{1 + \zeta_m^2} \text{ or } 1 \text{ (MMSE)}, \qquad
        v_{m,t} = \frac{\zeta_m^2}{1 + \zeta_m^2}\, \frac{1}{\mathrm{PL}_m\, \lvert\hat h_{m,t}\rvert^2}

    Parameters
    ----------
    estimate : array_like
        :math:`\hat h_{m,t} \ne 0`, complex, shape (..., M, T), of the kind that is named.
    path_loss : array_like
        :math:`\mathrm{PL}_m`, shape (..., M).
    error : array_like
        :math:`\zeta_m^2 \ge 0`, one number or shape (..., M).
    kind : str
        ``least-squares`` or ``mmse``.
    """
    if kind not in KINDS[:2]:
        raise ValueError(f"kind must be least-squares or mmse, got {kind!r}")
    gain = check.positive("|estimate|^2", np.abs(np.asarray(estimate, dtype=complex)) ** 2)
    square = check.at_least("error", error, 0)
    left = square / (1 + square) / check.positive("path_loss", path_loss)
    mean = 1 / (1 + square) if kind == "least-squares" else np.ones(square.shape)
    return AlignmentLaw(np.broadcast_to(mean[..., None], gain.shape), left[..., None] / gain)


def misalignment(scenario: Scenario, variance: ArrayLike) -> FloatArray:
    r"""The largest energy that misalignment adds to a round, in the unit of :math:`\nu`, given the estimates.

    .. math::
        \mathbb E\Big\lVert \frac1M \sum_m (\mathrm{Re}\, c_{m,t} - \bar c_m)\, \mathbf g_{m,t} \Big\rVert^2
        = \frac{1}{2 M^2} \sum_m v_{m,t}\, \mathbb E\lVert\mathbf g_{m,t}\rVert^2
        \le \frac{G^2}{2 M^2} \sum_m k_m^2\, v_{m,t}

    It stands beside the receiver's :math:`w_t / 2`, and does not depend on :math:`\eta_t`.

    Parameters
    ----------
    scenario : Scenario
        M, G and :math:`k_m^2`.
    variance : array_like
        :math:`v_{m,t} \ge 0`, shape (..., M, T), see :func:`alignment_law`.

    Returns
    -------
    numpy.ndarray
        Shape (..., T).
    """
    v = check.at_least("variance", variance, 0)
    if v.ndim < 2 or v.shape[-2] != scenario.num_devices:
        raise ValueError(f"variance must have shape (..., {scenario.num_devices}, T), got {v.shape}")
    total = (scenario.batch_second_moment[..., None] * v).sum(axis=-2)
    return np.asarray((scenario.clip_norm / scenario.num_devices) ** 2 / 2 * total)


def true_noise_multiplier(noise_multiplier: ArrayLike, alignment: ArrayLike) -> FloatArray:
    r"""What the server is left with: :math:`\sigma_{m,t} / \lvert c_{m,t}\rvert`.

    The server sees both quadratures and may know c; who sees the model only has
    :math:`\sigma_{m,t} / \lvert\mathrm{Re}\, c_{m,t}\rvert`.

    Parameters
    ----------
    noise_multiplier : array_like
        :math:`\sigma_{m,t} > 0` that is accounted for, shape (..., M, T).
    alignment : array_like
        :math:`c_{m,t} \ne 0`, real or complex, or a bound of its modulus, broadcast with it.
    """
    modulus = check.positive("|alignment|", np.abs(np.asarray(alignment)))
    left: FloatArray = check.positive("noise_multiplier", noise_multiplier) / modulus
    return left


def alignment_bound(law: AlignmentLaw, probability: float) -> FloatArray:
    r"""What no round of a device exceeds, but for a probability: for a server that does not know the alignments.

    .. math::
        \Pr\Big[\exists t: \lvert c_{m,t}\rvert > \bar c_m + \sqrt{v_{m,t} \ln(T/\delta')}\Big] \le \delta'

    So where multipliers :math:`\sigma_{m,t}` over this bound have :math:`(\varepsilon, \delta)`, the server has
    :math:`(\varepsilon, \delta + \delta')`, given the estimates.

    Parameters
    ----------
    law : AlignmentLaw
        Shape (..., M, T).
    probability : float
        :math:`\delta'` in (0, 1), for each device.

    Returns
    -------
    numpy.ndarray
        Shape (..., M, T).
    """
    rounds = law.variance.shape[-1]
    spread = math.sqrt(math.log(rounds / check.fraction("probability", probability)))
    return np.asarray(law.mean + spread * np.sqrt(law.variance))


def gain_ratio_survival(ratio: ArrayLike, error: ArrayLike) -> FloatArray:
    r""":math:`\Pr[\lvert h\rvert^2 > u\, \lvert\hat h\rvert^2]` of a least-squares estimate under Rayleigh fading.

    .. math::
        \Pr[\lvert c\rvert^2 > u] = \frac12 \Big(1 - \frac{a}{\sqrt{a^2 + 4 u \zeta^2}}\Big), \qquad
        a = u (1 + \zeta^2) - 1

    For an MMSE estimate take :math:`u / (1 + \zeta^2)^2`; for the device that is the bottleneck of its round with
    probability p, :math:`\zeta^2 / p`.

    Parameters
    ----------
    ratio : array_like
        :math:`u > 0`.
    error : array_like
        :math:`\zeta^2 > 0`, broadcast with it.
    """
    u, square = check.positive("ratio", ratio), check.positive("error", error)
    a, b = u * (1 + square) - 1, 4 * u * square
    root = np.sqrt(a**2 + b)
    # 1 - a / root = b / (root (root + a)) where a > 0, without the difference
    return np.asarray(np.where(a > 0, b / (2 * root * (root + np.abs(a))), (1 - a / root) / 2))
