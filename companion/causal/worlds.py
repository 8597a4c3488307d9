r"""Which policy on which channel: ``python -m companion make channels`` and ``channels-exact``.

A *world* is a channel model: what realisations are drawn from, and what is believed by policies that need a law.
Every policy runs on the same realisations of a world; no parameter has seen one, but where the name says
``hindsight``.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

import pandas as pd

from adascale import channel, policies
from adascale.accounting import Accountant, OrdersTooFew
from adascale.channel import Channel, ChannelModel, Rayleigh
from adascale.channel.model import Seeds
from adascale.comparison import (
    TunedOnModel,
    leakage_table,
)
from adascale.policies.resolve import SEEN
from adascale.problem import RENYI
from adascale.scenario import Scenario
from adascale.workers import map_tasks
from companion.causal.fresh import CAUSAL
from companion.methods import METHODS
from companion.privacy.sharp import SharpAccountant
from companion.results import wide
from companion.theory.correlated import block_table


@dataclass(frozen=True)
class BelievedRayleigh(Rayleigh, same_law=True):
    """Channels of another model that policies take for Rayleigh fading, with the path losses that the server knows."""

    truth: ChannelModel = field(default_factory=Rayleigh)

    def draw(self, num_devices: int, num_rounds: int, seed: Seeds) -> Channel:
        """Draw from the true model."""
        return self.truth.draw(num_devices, num_rounds, seed)


_KNOWN = {
    "Rayleigh": "rayleigh",
    "Rician, K = 5": "rician:K=5",
    "Nakagami, m = 2": "nakagami:m=2",
    "Nakagami, m = 0.5": "nakagami:m=0.5",
    "two antennas, the better": "antenna-selection:antennas=2",
    "two blocks a round": "block-fading:blocks=2",
}
_MISTAKEN = {
    "Rician, believed Rayleigh": "rician:K=5",
    "path losses off by 3 dB": "shadowed:deviation=3,known=False",
    "path losses off by 8 dB": "shadowed:deviation=8,known=False",
    "moving at 1.5 m/s": "moving",
    "urban street": "urban-micro",
    "Jakes, 10 Hz": "jakes:doppler=10",
    "Jakes, 0.1 Hz": "jakes:doppler=0.1",
    "Gauss-Markov, r = 0.9": "gauss-markov:correlation=0.9",
    "Gauss-Markov, r = 0.99": "gauss-markov:correlation=0.99",
}
WORLDS = {name: channel.find(model) for name, model in _KNOWN.items()} | {
    name: BelievedRayleigh(truth=channel.find(model))
    for name, model in _MISTAKEN.items()
}
"""The worlds of the table.  In the first six the law of a round is known and rounds are independent; Jakes' and
Gauss-Markov rounds have the law that is believed, and hang together."""

KNOWN = tuple(_KNOWN)
"""The worlds of independent rounds with a known law, where the dynamic programme is what can be reached."""

ENDS = (
    "Rayleigh",
    "path losses off by 8 dB",
    "moving at 1.5 m/s",
    "Gauss-Markov, r = 0.99",
)
"""The worlds that have the smallest and the largest budget of MNIST, too."""


PROGRAMME = "DynamicProgramme, hard"
HINDSIGHT = "AdaScale, hindsight"
"""AdaScale with its penalty matched on the realisation itself, as the paper does it."""

_coherent = partial(TunedOnModel, coherence=SEEN)
_ALL = CAUSAL | {
    "Optimal": METHODS["Optimal"],
    "ReSolve, coherent": _coherent(policies.ReSolve),
    "ReSolve, coherent, hard": _coherent(policies.ReSolve, budget_mode="hard"),
    "Learn, coherent": _coherent(policies.Learn),
    "Learn, coherent, hard": _coherent(policies.Learn, budget_mode="hard"),
    HINDSIGHT: METHODS["AdaScale"],
}
_NAMES = (
    *("Optimal", "ConstantLevel", "ReSolve", "ReSolve, coherent", "AdaScale, warm"),
    *("AdaScale", "Learn", "Learn, coherent", "PowerControl", "LyapunovPowerControl"),
    *(PROGRAMME, "ReSolve, hard", "ReSolve, coherent, hard", "Learn, hard"),
    *("Learn, coherent, hard", "EstimFuture", "EqualAlloc", HINDSIGHT),
)
ACCOUNTED = (
    *("Optimal", "ConstantLevel", "AdaScale, warm", "Learn"),
    *("ReSolve, hard", "ReSolve, coherent, hard"),
    *("Learn, hard", "Learn, coherent, hard", "EqualAlloc"),
)
"""The policies that have an exact epsilon, in every world."""

SEEDS = range(91_000, 91_100)
MIDDLE = 0.04
OUTER = (0.01, 0.16)
BLOCK_SEEDS = range(92_000, 92_040)
_ROW = ("world", "nu", "seed")


def world_table(
    name: str,
    seeds: Iterable[int] = SEEDS,
    budgets: Sequence[float] | None = None,
    chosen: Sequence[str] = _NAMES,
    accountant: Accountant = RENYI,
) -> pd.DataFrame:
    """Compute what policies cost and leak in one world: a row per policy, nu and seed.

    ``budgets`` are by default ``MIDDLE``, and ``OUTER`` for the worlds in :data:`ENDS`; the dynamic programme is only
    for the worlds in :data:`KNOWN`.
    """
    if budgets is None:
        budgets = (MIDDLE, *OUTER) if name in ENDS else (MIDDLE,)
    # of schedules that leak so much that no order serves them
    with warnings.catch_warnings(action="ignore", category=OrdersTooFew):
        table = leakage_table(
            Scenario.mnist(),
            budgets,
            seeds,
            {each: _ALL[each] for each in chosen if each != PROGRAMME or name in KNOWN},
            channel=WORLDS[name],
            accountant=accountant,
        )
    return table.assign(world=name)


def exact_table(
    name: str,
    seeds: Iterable[int] = SEEDS,
    budgets: Sequence[float] | None = None,
) -> pd.DataFrame:
    r"""Compute the exact :math:`\varepsilon` of schedules of :func:`world_table` (:eq:`eq:inversion`)."""
    table = world_table(name, seeds, budgets, ACCOUNTED, SharpAccountant())
    return table.rename(columns={"epsilon": "exact"})


def committed(executor: Executor | None) -> Iterator[pd.DataFrame]:
    """Yield the committed tables of blocks and of all worlds."""
    blocks = [block_table(nu, seeds=BLOCK_SEEDS) for nu in (MIDDLE, *OUTER)]
    yield wide(pd.concat(blocks), ("cost", "ratio"), ("nu", "block", "seed"))
    worlds = map_tasks(world_table, WORLDS, executor)
    yield wide(pd.concat(worlds), ("cost", "rdp", "epsilon"), _ROW)


def committed_exact(executor: Executor | None) -> pd.DataFrame:
    """Return the committed table of exact epsilons, a task per world."""
    tables = map_tasks(exact_table, WORLDS, executor)
    return wide(pd.concat(tables), ("rdp", "exact"), _ROW)
