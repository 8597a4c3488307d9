r"""Which policy on which channel: ``python -m companion make channels`` and ``channels-exact``.

A *world* is a pair of channel models: what realisations are drawn from, and what is believed by policies that need a
law.  Every policy runs on the same realisations of a world; no parameter has seen one, but where the name says
``hindsight``.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from adascale import channel, policies
from adascale.accounting import Accountant, OrdersTooFew
from adascale.channel import ChannelModel, Rayleigh
from adascale.comparison import (
    PolicyBuilder,
    TunedOnModel,
    TunedOnRealisation,
    leakage_table,
)
from adascale.policies.resolve import SEEN
from adascale.scenario import Scenario
from adascale.workers import map_tasks
from companion.causal.fresh import online_methods
from companion.privacy.sharp import SharpAccountant
from companion.results import wide
from companion.theory.correlated import block_table


class World(NamedTuple):
    """A channel and a belief."""

    truth: ChannelModel
    """What is drawn."""
    belief: ChannelModel = Rayleigh()
    """From what the law of floors is computed, with the path losses that the server knows."""


def _world_of(model):
    return World(model, model)


WORLDS: dict[str, World] = {
    "Rayleigh": _world_of(Rayleigh()),
    "Rician, K = 5": _world_of(channel.Rician(K=5.0)),
    "Nakagami, m = 2": _world_of(channel.Nakagami(m=2.0)),
    "Nakagami, m = 0.5": _world_of(channel.Nakagami(m=0.5)),
    "two antennas, the better": _world_of(channel.AntennaSelection(antennas=2)),
    "two blocks a round": _world_of(channel.BlockFading(blocks=2)),
    "Rician, believed Rayleigh": World(channel.Rician(K=5.0)),
    "path losses off by 3 dB": World(channel.Shadowed(deviation=3.0, known=False)),
    "path losses off by 8 dB": World(channel.Shadowed(deviation=8.0, known=False)),
    "moving at 1.5 m/s": World(channel.Moving()),
    "urban street": World(channel.UrbanMicro()),
    "Jakes, 10 Hz": World(channel.Jakes(doppler=10.0)),
    "Jakes, 0.1 Hz": World(channel.Jakes(doppler=0.1)),
    "Gauss-Markov, r = 0.9": World(channel.GaussMarkov(correlation=0.9)),
    "Gauss-Markov, r = 0.99": World(channel.GaussMarkov(correlation=0.99)),
}
"""The worlds of the table.  In the first six the law of a round is known and rounds are independent; Jakes' and
Gauss-Markov rounds have the law that is believed, and hang together."""

KNOWN = tuple(name for name, world in WORLDS.items() if world.truth == world.belief)
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

_METHODS = (
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
_STORED = ("cost", "rdp", "epsilon")
_EXACT_STORED = ("rdp", "exact")
_BLOCK_ROW = ("nu", "block", "seed")
_BLOCK_STORED = ("cost", "ratio")


def remembered(method: PolicyBuilder) -> PolicyBuilder:
    """Cache the policies of a method that depends on budgets and mean gains alone."""
    policies_by_key = {}

    def again(problem, mean_gain=None):
        key = (
            np.asarray(problem.budget).tobytes(),
            np.asarray(mean_gain, dtype=float).tobytes(),
        )
        if key not in policies_by_key:
            policies_by_key[key] = method(problem, mean_gain)
        return policies_by_key[key]

    return again


def methods(belief: ChannelModel) -> dict[str, PolicyBuilder]:
    """Return every method of the table by name, with this belief; the optimum first."""
    coherent = partial(TunedOnModel, channel=belief, coherence=SEEN)
    by_name = online_methods(belief) | {
        "Optimal": TunedOnRealisation(policies.Optimal),
        "ReSolve, coherent": coherent(policies.ReSolve),
        "ReSolve, coherent, hard": coherent(policies.ReSolve, budget_mode="hard"),
        "Learn, coherent": coherent(policies.Learn),
        "Learn, coherent, hard": coherent(policies.Learn, budget_mode="hard"),
        HINDSIGHT: TunedOnRealisation(policies.AdaScale),
    }
    for name in ("AdaScale", "PowerControl", "LyapunovPowerControl"):
        by_name[name] = remembered(by_name[name])
    return {name: by_name[name] for name in _METHODS}


def worlds_table(
    worlds: Mapping[str, World],
    seeds: Iterable[int] = SEEDS,
    budgets: Sequence[float] | None = None,
    chosen: Sequence[str] | None = None,
    *,
    accountant: Accountant | None = None,
) -> pd.DataFrame:
    """Compute what policies cost and leak in worlds of one belief: a row per world, policy, nu and seed.

    ``budgets`` are by default ``MIDDLE``, and ``OUTER`` for the worlds in :data:`ENDS`; ``chosen``, names of
    :func:`methods`, by default all, the dynamic programme only for the worlds in :data:`KNOWN`.  ``epsilon`` is by
    default computed by :class:`~adascale.accounting.RenyiAccountant`.
    """
    seeds = list(seeds)
    parts = []
    by_name = methods(*{world.belief for world in worlds.values()})
    for name, world in worlds.items():
        names = (
            [policy for policy in by_name if name in KNOWN or policy != PROGRAMME]
            if chosen is None
            else chosen
        )
        for nu in (
            (MIDDLE, *(OUTER if name in ENDS else ())) if budgets is None else budgets
        ):
            # of schedules that leak so much that no order serves them
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OrdersTooFew)
                run = {policy: by_name[policy] for policy in names}
                table = leakage_table(
                    Scenario.mnist(),
                    (nu,),
                    seeds,
                    run,
                    channel=world.truth,
                    accountant=accountant,
                )
            parts.append(table.assign(world=name))
    return pd.concat(parts, ignore_index=True)[
        ["world", "policy", "nu", "seed", *_STORED]
    ]


def channels_table(executor: Executor | None) -> pd.DataFrame:
    """:func:`worlds_table` of all :data:`WORLDS`, at most three of one belief in a task."""
    groups = []
    for belief in dict.fromkeys(world.belief for world in WORLDS.values()):
        names = [name for name, world in WORLDS.items() if world.belief == belief]
        groups += [
            {name: WORLDS[name] for name in names[i : i + 3]}
            for i in range(0, len(names), 3)
        ]
    return pd.concat(map_tasks(worlds_table, groups, executor), ignore_index=True)


def exact_table(
    name: str,
    seeds: Iterable[int] = SEEDS,
    budgets: Sequence[float] | None = None,
    chosen: Sequence[str] = ACCOUNTED,
) -> pd.DataFrame:
    r"""Compute the exact :math:`\varepsilon` of schedules of :func:`worlds_table` in one world (:eq:`eq:inversion`)."""
    table = worlds_table(
        {name: WORLDS[name]}, seeds, budgets, chosen, accountant=SharpAccountant()
    ).rename(columns={"epsilon": "exact"})
    return table[["world", "policy", "nu", "seed", *_EXACT_STORED]]


def committed(executor: Executor | None) -> Iterator[pd.DataFrame]:
    """Yield the committed tables of blocks and of all worlds."""
    blocks = [block_table(nu, seeds=BLOCK_SEEDS) for nu in (MIDDLE, *OUTER)]
    yield wide(pd.concat(blocks), _BLOCK_STORED, _BLOCK_ROW)
    yield wide(channels_table(executor), _STORED, _ROW)


def committed_exact(executor: Executor | None) -> pd.DataFrame:
    """Return the committed table of exact epsilons, a task per world."""
    tables = map_tasks(exact_table, WORLDS, executor)
    return wide(pd.concat(tables), _EXACT_STORED, _ROW)
