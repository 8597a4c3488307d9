"""What to publish with an epsilon."""

from typing import Any

import numpy as np

from adascale import __version__
from adascale.accounting.curve import beta, gaussian_mu
from adascale.accounting.events import Events, compose_events
from adascale.accounting.exact.certify import advantage, epsilon
from adascale.accounting.interval import round_outward

_FALSE_POSITIVES = 0.01, 0.001
_MOST_EVENTS = 4  # to list


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
    interval = epsilon(events, delta)
    rows = {
        "epsilon": interval.upper,
        "proven interval": str(interval),
        "delta": float(delta),
        "protected unit": unit,
        **setting(events),
        "largest advantage of a membership test": advantage(events).upper,
    }
    miss = beta(events, _FALSE_POSITIVES)
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
    kinds, place = np.unique(rate + 1j * sigma, return_inverse=True)
    columns = kinds.real, kinds.imag, np.bincount(place, number)
    listed = [f"({q:g}, {s:g}, {n:.0f})" for q, s, n in zip(*columns, strict=True)]
    if len(listed) > _MOST_EVENTS:
        rates = f"rates {rate.min():g} to {rate.max():g}"
        sigmas = f"noise multipliers {sigma.min():g} to {sigma.max():g}"
        listed = [f"{len(listed):,} different, {rates}, {sigmas}"]
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
