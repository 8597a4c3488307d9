"""Epsilon of batches that are no plain Poisson samples: of a fixed size, or cut."""

import contextlib
import math

from scipy.special import betainc

from adascale import checks as check
from adascale.accounting.events import Events, compose_events
from adascale.accounting.exact.certify import epsilon, epsilon_interval
from adascale.accounting.exact.discrete import replaced
from adascale.accounting.interval import CertifiedInterval
from adascale.errors import InvalidInput

_LARGEST = 700.0  # largest epsilon whose e^epsilon is a float


def fixed_batches(events: Events, delta: float) -> CertifiedInterval:
    r"""Bound :math:`\varepsilon` of batches of a fixed size, drawn anew in every round, if a sample is replaced.

    The lower bound is that of data in which all other gradients point the other way, the upper one that of a pair that
    dominates all data (:ref:`sec-fixed-batches`). The truth may be anywhere between. Without sampling and in one round
    both agree.

    Parameters
    ----------
    events
        As in :func:`epsilon`; the sampling rate is the size of the batch over the number of samples.
    delta : float, in (0, 1)

    Examples
    --------
    >>> print(fixed_batches([(0.01, 4.0, 2000)], delta=1e-5))
    [0.899..., 1.04...]
    """
    composition = compose_events(events)
    if composition.discrete:
        expected = "Gaussian mechanisms, got discrete losses"
        raise InvalidInput(f"events must be {expected}", "events")
    delta = check.fraction("delta", delta)
    # clipped gradients of both samples differ by at most twice the clipping norm
    half = composition.scale_noise(0.5)
    rounds = half.to_rounds()
    always = (half.rate > 0).astype(float)
    below = epsilon_interval(rounds, delta)
    if rounds.as_one_gaussian():
        return below
    above = epsilon_interval(half._replace(rate=always).to_rounds(), delta)
    upper = above.upper
    name = above.ends[1]
    with contextlib.suppress(ArithmeticError):
        pair = epsilon_interval(replaced(rounds, delta), delta)
        upper, name = min((upper, name), (pair.upper, "substitution"))
    ends = below.ends[0], name
    return CertifiedInterval(below.lower, upper, ends, "both", upper, upper)


def truncated_batches(
    events: Events, delta: float, samples: int, largest: int
) -> float:
    r"""Bound :math:`\varepsilon` of Poisson batches that are cut to a largest size.

    With T batches, N samples and cuts at B, this adds :math:`T (1 + e^\varepsilon) \Pr[\mathrm{Bin}(N - 1, q) \ge B]`
    to :math:`\delta` (Chua et al., arXiv 2411.04205); the sum over events is at most half of ``delta``.

    Parameters
    ----------
    events, delta
        As in :func:`epsilon`, which may be at most 700.
    samples : int, >= 1
        The number of samples, N, with the protected one.
    largest : int, >= 1
        The largest size of a batch, B.

    Examples
    --------
    >>> truncated_batches([(0.01, 1.0, 1000)], delta=1e-5, samples=60_000, largest=800)
    1.82...
    """
    samples = check.whole("samples", samples)
    largest = check.whole("largest", largest)
    delta = check.fraction("delta", delta)
    rate, _, count, _ = compose_events(events)
    longer = betainc(largest, samples - largest, rate) if largest < samples else 0.0
    chance = float((count * longer).sum()) * (1 + 1e-9)
    uncut = epsilon(events, 0.5 * delta).upper
    if uncut > _LARGEST:
        expected = f"an epsilon of at most {_LARGEST:g}, got {uncut:g}"
        raise InvalidInput(f"events must have {expected}", "events")
    growth = 1 + math.exp(uncut)
    if growth * chance > 0.5 * delta:
        expected = f"so large that a batch is hardly ever cut, got {largest}"
        raise InvalidInput(f"largest must be {expected}", "largest")
    return epsilon(events, math.nextafter(delta - growth * chance, 0.0)).upper
