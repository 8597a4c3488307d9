"""What to publish with an epsilon: a report, and the Gaussian mechanism that leaks as much."""

from typing import Any

import numpy as np

from adascale import __version__
from adascale.accounting import certified
from adascale.accounting.events import Events, compose_events
from adascale.accounting.exact import gaussian
from adascale.accounting.interval import CertifiedInterval, round_outward
from adascale.checks import FloatArray

_FIRST, _MOST, _STEPS = 9, 40, 50  # evaluations of delta, and steps between two of them
_NEAR = 4e-3  # relative width of mu to aim for
_FALSE_POSITIVES = 0.01, 0.001
_MOST_EVENTS = 4  # to list


def gaussian_mu(events: Events, delta: float) -> CertifiedInterval:
    r"""Compute the least :math:`\mu` of a Gaussian mechanism that leaks as much at every :math:`\varepsilon`.

    .. math::
        \mu^\star = \sup_{\delta \le \delta(\varepsilon) \le 1 - \delta} \mu(\varepsilon, \delta(\varepsilon)),
        \qquad \delta_\mu(\varepsilon) = \Phi(\mu/2 - \varepsilon/\mu) - e^\varepsilon \Phi(-\mu/2 - \varepsilon/\mu)

    It says nothing where :math:`\delta(\varepsilon)` is below ``delta``: with sampling, no :math:`\mu` holds for every
    :math:`\varepsilon`. (Gomez et al., arXiv 2503.10945.)

    Parameters
    ----------
    events, delta
        As in :func:`~adascale.accounting.epsilon`.

    Examples
    --------
    >>> print(gaussian_mu([(1, 2.0, 1)], delta=1e-5))
    [0.499999, 0.501...]
    """
    start = certified.epsilon(events, 1 - delta).lower if delta < 0.5 else 0.0
    end = certified.epsilon(events, delta).upper
    if end == 0:
        return CertifiedInterval(0.0, 0.0, ("trivial", "trivial"), "both", 0.0, 0.0)
    points: dict[float, CertifiedInterval] = {}
    missing = np.linspace(start, end, _FIRST).tolist()
    while True:
        points |= {eps: certified.delta(events, eps) for eps in missing}
        eps = np.array(sorted(points))
        lower, upper = np.array([(points[x].lower, points[x].upper) for x in eps]).T
        fine = np.linspace(eps[:-1], eps[1:], _STEPS, endpoint=False, axis=1).ravel()
        # delta is convex in e^epsilon, and so below its chords
        left, right, low, high = (
            np.repeat(ends, _STEPS)
            for ends in (eps[:-1], eps[1:], upper[1:], upper[:-1])
        )
        with np.errstate(over="ignore", invalid="ignore"):
            share = np.nan_to_num(np.expm1(fine - left) / np.expm1(right - left))
        bound = (high + share * (low - high)) * (1 + 1e-12)
        # mu increases with epsilon and with delta
        largest = _mu(np.append(fine[1:], end), bound, 1)
        worst = int(largest.argmax())
        least = _mu(eps, lower, 2)
        best = int(least.argmax())
        lowest = float(least[best])
        highest = float(largest[worst])
        if highest - lowest <= _NEAR * highest or len(points) >= _MOST:
            break
        gap = worst // _STEPS
        missing = [float(0.5 * (eps[gap] + eps[gap + 1]))]
    ends = points[float(eps[best])].ends[0], "convexity"
    lowest = min(lowest, highest)
    return CertifiedInterval(lowest, highest, ends, "both", highest, highest)


def _mu(eps: FloatArray, delta: FloatArray, side: int) -> FloatArray:
    """Solve for mu by bisection, with the lower (1) or upper (2) bound of the Gaussian delta."""
    low = np.full(eps.shape, 1e-9)
    high = np.full(eps.shape, 1e6)
    for _ in range(70):
        mu = np.sqrt(low * high)
        is_below = gaussian.delta(mu * mu, eps)[side] < delta
        low = np.where(is_below, mu, low)
        high = np.where(is_below, high, mu)
    return np.where(delta > 0, high if side == 1 else low, 0.0)


class Report(dict[str, Any]):
    """Names and values; ``str()`` has one on a line, notebooks show a table, and ``json.dumps`` takes it as it is."""

    def __str__(self) -> str:
        width = max(map(len, self))
        return "\n".join(f"{name:<{width}}  {_text(self[name])}" for name in self)

    def _repr_markdown_(self) -> str:
        rows = "".join(f"| {name} | {_text(self[name])} |\n" for name in self)
        return f"| | |\n| --- | --- |\n{rows}"


def report(events: Events, delta: float, unit: str = "one training sample") -> Report:
    r"""Collect what belongs to a published :math:`\varepsilon` (NIST SP 800-226), all of it proven.

    Parameters
    ----------
    events, delta
        As in :func:`~adascale.accounting.epsilon`.
    unit : str
        Whose presence is protected: what one event clips and samples.

    Returns
    -------
    Report
        A dict of names and numbers or words.

    Examples
    --------
    >>> report([(0.01, 1.0, 1000)], delta=1e-5)["epsilon"]
    1.82...
    """
    interval = certified.epsilon(events, delta)
    rows = {
        "epsilon": interval.upper,
        "proven interval": str(interval),
        "delta": float(delta),
        "protected unit": unit,
        **setting(events),
        "largest advantage of a membership test": certified.advantage(events).upper,
    }
    miss = certified.beta(events, _FALSE_POSITIVES)
    for rate, bound in zip(_FALSE_POSITIVES, miss, strict=True):
        rows[f"largest true positive rate at {rate:.1%} false positives"] = (
            1 - bound.lower
        )
    rows["mu of a Gaussian mechanism that leaks as much"] = gaussian_mu(
        events, delta
    ).upper
    rows["proofs"] = ", ".join(interval.ends)
    rows["accountant"] = f"adascale {__version__}"
    return Report(rows)


def setting(events: Events) -> dict[str, str | int]:
    """Describe events in words: adjacency, sampling, ``events`` as (rate, noise multiplier, count), and rounds."""
    composition = compose_events(events)
    used = composition.rate * composition.number > 0
    rate, sigma, number = (column[used] for column in composition[:3])
    pairs = np.stack([rate, sigma], axis=1)
    kinds, place = np.unique(pairs, axis=0, return_inverse=True)
    counts = np.bincount(place.ravel(), number)
    listed = [
        f"({q:g}, {s:g}, {n:.0f})" for (q, s), n in zip(kinds, counts, strict=True)
    ]
    if len(listed) > _MOST_EVENTS:
        (q, s), (most_q, most_s) = kinds.min(axis=0), kinds.max(axis=0)
        ranges = f"rates {q:g} to {most_q:g}, noise multipliers {s:g} to {most_s:g}"
        listed = [f"{len(listed):,} different, {ranges}"]
    if composition.discrete:
        listed.append(f"{len(composition.discrete)} with discrete losses")
    return {
        "adjacency": "add or remove one",
        "sampling": "Poisson" if (rate < 1).any() else "none",
        "events": ", ".join(listed) or "none",
        "rounds": int(number.sum() + sum(n for _, n in composition.discrete)),
    }


def _text(value: Any) -> str:
    """Return a value as text, with numbers rounded up."""
    is_bound = isinstance(value, float)
    return f"{round_outward(value, up=True):.6g}" if is_bound else str(value)
