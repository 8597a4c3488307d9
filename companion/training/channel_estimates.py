r"""Estimated channels: devices invert what they believe their coefficient to be (:ref:`sec-estimates-details`).

Device m sends :math:`\sqrt{\eta_t}\, \mathbf g_{m,t} / (M \hat h_{m,t})`, and the server receives its gradient
times the *alignment* :math:`c_{m,t} = h_{m,t} / \hat h_{m,t}`.  Coefficients, estimates and alignments have the shape
(..., M, T), path losses and errors (..., M).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale.channel.model import Channel, Seeds
from adascale.checks import ComplexArray, FloatArray
from adascale.scenario import Scenario

KINDS = ("mmse", "least-squares")
"""How :func:`estimate` makes an estimate."""
_PILOTS = 19_000_019  # apart from the streams of the channel itself


class AlignmentLaw(NamedTuple):
    r"""What a device knows of its alignment: given the estimates, :math:`c \sim \mathcal{CN}(\bar c, v)`."""

    mean: FloatArray
    r""":math:`\bar c_m`, shape (..., M, 1)."""
    variance: FloatArray
    r""":math:`v_{m,t}`, half of it in the real part, shape (..., M, T)."""


def pilot_error(
    path_loss: FloatArray, symbols: int, power: float, noise_power: float
) -> FloatArray:
    r"""Return :math:`\zeta_m^2 = \mathrm{PL}_m \sigma_n^2 / (N_{\mathrm p} P)` of pilots; powers in watts."""
    return path_loss * noise_power / (symbols * power)


def estimate(
    channel: Channel, error: ArrayLike, kind: str = "mmse", *, seed: Seeds
) -> ComplexArray:
    r"""Estimated coefficients of a drawn channel, both kinds of the same measurement.

    .. math::
        \hat h^{\mathrm{LS}} = h + \zeta_m z / \sqrt{\mathrm{PL}_m}, \qquad
        \hat h^{\mathrm{MMSE}} = \hat h^{\mathrm{LS}} / (1 + \zeta_m^2), \qquad z \sim \mathcal{CN}(0, 1)

    ``error`` is :math:`\zeta_m^2`, such as 0.01 for -20 dB.  There is a seed of the errors for each realisation: with
    the same one they are proportional to :math:`\zeta_m`, and more rounds or devices change nothing in those that are
    there.
    """
    shape = *_, devices, rounds = channel.coefficient.shape
    normal = [
        np.random.default_rng(stream).standard_normal((rounds, 2))
        for each in np.ravel(seed)
        for stream in np.random.SeedSequence([_PILOTS, int(each)]).spawn(devices)
    ]
    noise = np.array(normal).view(complex).reshape(shape) / math.sqrt(2)
    square = np.asarray(error)[..., None]
    scale = np.sqrt(square) / np.sqrt(channel.path_loss)[..., None]
    measured = channel.coefficient + scale * noise
    return measured if kind == "least-squares" else measured / (1 + square)


def alignment_law(
    estimate: ComplexArray,
    path_loss: ArrayLike,
    error: ArrayLike,
    kind: str = "mmse",
) -> AlignmentLaw:
    """Return the law of the alignment given the estimates, under Rayleigh fading (:prf:ref:`prop-alignment`)."""
    gain = np.abs(estimate) ** 2
    square = np.asarray(error)
    variance = square / (1 + square) / path_loss
    mean = 1 / (1 + square) if kind == "least-squares" else np.ones(square.shape)
    return AlignmentLaw(mean[..., None], variance[..., None] / gain)


def misalignment(scenario: Scenario, variance: FloatArray) -> FloatArray:
    r"""Return the largest mean energy that misalignment adds, given the estimates (:prf:ref:`prop-misalignment`).

    .. math:: \frac{G^2}{2 M^2} \sum_m k_m^2\, v_{m,t}

    Shape (..., T), in the unit of :math:`\nu`.  It stands beside the receiver's :math:`w_t / 2`.
    """
    total = (scenario.batch_second_moment[..., None] * variance).sum(axis=-2)
    return (scenario.clip_norm / scenario.num_devices) ** 2 / 2 * total


def true_noise_multiplier(
    noise_multiplier: FloatArray, alignment: ArrayLike
) -> FloatArray:
    r"""Return the server's :math:`\sigma_{m,t} / \lvert c_{m,t}\rvert` (:prf:ref:`prop-estimates-privacy`)."""
    return noise_multiplier / np.abs(alignment)


def alignment_bound(law: AlignmentLaw, probability: float) -> FloatArray:
    r"""Bound the alignments of all rounds of a device, but for a probability.

    .. math::
        \Pr\Big[\exists t: \lvert c_{m,t}\rvert > \bar c_m + \sqrt{v_{m,t} \ln(T/\delta')}\Big] \le \delta'

    So where multipliers :math:`\sigma_{m,t}` over this bound have :math:`(\varepsilon, \delta)`, the server has
    :math:`(\varepsilon, \delta + \delta')`, given the estimates.
    """
    spread = math.log(law.variance.shape[-1] / probability)
    return law.mean + np.sqrt(spread * law.variance)


def gain_ratio_survival(ratio: ArrayLike, error: float) -> FloatArray:
    r"""Return :math:`\Upsilon(u; \zeta^2) = \Pr[\lvert h\rvert^2 > u\, \lvert\hat h\rvert^2]` (:eq:`eq:gain-ratio`).

    It is of least squares.  For an MMSE estimate take :math:`u / (1 + \zeta^2)^2`; for the device that is the
    bottleneck of its round with probability p, :math:`\zeta^2 / p`.
    """
    u = np.asarray(ratio)
    a = u * (1 + error) - 1
    b = 4 * u * error
    root = np.sqrt(a**2 + b)
    # 1 - a / root = b / (root (root + a)) where a > 0, without the difference
    return np.where(a > 0, b / (2 * root * (root + np.abs(a))), (1 - a / root) / 2)
