r"""Every method without the future, on fresh realisations: ``python -m companion make causal``.

No parameter depends on any realisation that methods are evaluated on: it comes from T, :math:`\nu`, the scenario and
the distribution of the floors for the devices' mean gains, or from realisations drawn from that distribution
(:class:`~adascale.comparison.TunedOnModel`).  The paper's methods, tuned in hindsight, are evaluated on the same
realisations.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from adascale import policies, presets
from adascale.channel import ChannelModel, Rayleigh
from adascale.comparison import (
    Method,
    PolicyBuilder,
    TunedOnModel,
    leakage_table,
)
from adascale.comparison.methods import SEED
from adascale.comparison.shi_tuning import crossings, mean_inverse
from adascale.errors import BudgetNotReached
from adascale.policies import LyapunovPowerControl
from adascale.problem import Problem
from adascale.tuning import draw_floors
from companion.methods import METHODS
from companion.results import wide

SEEDS = range(70_000, 70_200)
DRAWS = 100
DATASETS = ("mnist", "cifar10")
_RATES = np.array([0.5, 0.7, 0.85, 0.93, 0.97, 1.0, 1.03, 1.07, 1.15, 1.3])
# in units of the cubed scaling at the level of the law
_PENALTIES = np.geomspace(1e-3, 1e4, 15)
_TOLERANCE = 1e-4  # largest |mean cost / nu - 1|


def foreseen_lyapunov(
    problem: Problem,
    mean_gain: Any = None,
    channel: ChannelModel | None = None,
    draws: int = DRAWS,
) -> LyapunovPowerControl:
    r"""Tune the method of Shi et al. without the future.

    Of the pairs :math:`(V, \bar\eta)` whose mean cost over realisations drawn from the law of ``channel``, by default
    Rayleigh fading, is :math:`\nu`, the one of the smallest mean RDP over these.  Rates are tried around the mean
    scaling of the constant level, and penalties on a grid of two a decade; every
    crossing of :math:`\nu` that is seen there is refined.  Of the gains of the problem nothing is read.
    """
    scenario = problem.scenario
    law = (channel or Rayleigh()).floor_law(scenario, mean_gain)
    shape = np.broadcast_shapes(problem.batch_shape, law.batch_shape)
    floors = draw_floors(scenario, law, draws, SEED)
    floors = np.broadcast_to(floors, (*shape, *floors.shape[-2:]))
    budget, level = (
        np.broadcast_to(each, shape)
        for each in (problem.budget, law.level(problem.budget))
    )
    pairs = [
        _best_pair(scenario, floors[lane], budget[lane], level[lane])
        for lane in np.ndindex(shape)
    ]
    both = np.moveaxis(np.reshape(pairs, (*shape, 2)), -1, 0)
    return LyapunovPowerControl(*both)


def _best_pair(scenario, floor, budget, level):
    """Return the penalty and rate that cost the budget on average over the draws, and leak least."""
    caps = scenario.noise_scale / floor
    mean_floor = floor.mean()
    draws, T = floor.shape
    rates = _RATES * np.mean(scenario.noise_scale / np.maximum(level, floor))
    penalties = _PENALTIES * (scenario.noise_scale / level) ** 3

    def excess(_, penalty, rate):
        lane = np.tile(np.arange(draws), penalty.size)
        pair = np.repeat([penalty, rate], draws, axis=1)
        mean = mean_inverse(caps, np.ones(T), lane, *pair)
        energy = scenario.noise_scale * mean.reshape(-1, draws).mean(axis=-1)
        return (energy - mean_floor) / budget - 1

    _, j, penalty = crossings(excess, penalties[None], rates[None], _TOLERANCE)
    if not penalty.size:
        raise BudgetNotReached(
            f"no pair of V and rate brings the mean cost to nu = {budget:g}"
        )
    pairs = np.stack([penalty, rates[j]])
    tried = Problem(scenario, scenario.floor(floor), np.full((penalty.size, 1), budget))
    w = LyapunovPowerControl(*pairs[..., None]).schedule(tried)
    return pairs[:, tried.rdp(w).mean(axis=-1).argmin()]


def learn_with_prior(
    problem: Problem,
    mean_gain: Any = None,
    channel: ChannelModel | None = None,
    **options: Any,
) -> policies.Learn:
    """Build :class:`~adascale.policies.Learn` with the law of the model that is believed as its prior."""
    law = (channel or Rayleigh()).floor_law(problem.scenario, mean_gain)
    return policies.Learn(prior=law, **options)


def _of_model(function, _, known):
    return function(known.problem, known.mean_gain, known.channel)


def _assuming(function, **options):
    """Return the method of a function that reads the channel model that is believed."""
    return Method(partial(_of_model, partial(function, **options)))


CAUSAL: dict[str, PolicyBuilder] = {
    "ConstantLevel": TunedOnModel(policies.ConstantLevel),
    "ReSolve": TunedOnModel(policies.ReSolve),
    "AdaScale, warm": TunedOnModel(policies.AdaScale),
    "Learn, prior": _assuming(learn_with_prior, budget_mode="average"),
    "Learn": TunedOnModel(policies.Learn),
    "AdaScale": TunedOnModel(policies.AdaScale, from_law=False, draws=DRAWS),
    "PowerControl": TunedOnModel(policies.PowerControl, draws=DRAWS),
    "LyapunovPowerControl": _assuming(foreseen_lyapunov),
    "DynamicProgramme, hard": TunedOnModel(policies.DynamicProgramme),
    "ReSolve, hard": TunedOnModel(policies.ReSolve, budget_mode="hard"),
    "Learn, prior, hard": _assuming(learn_with_prior, budget_mode="hard"),
    "Learn, hard": TunedOnModel(policies.Learn, budget_mode="hard"),
    "EstimFuture": TunedOnModel(policies.EstimFuture, estimate="minimum"),
    "EstimFuture, devices": TunedOnModel(policies.EstimFuture, estimate="devices"),
    "EqualAlloc": TunedOnModel(policies.EqualAlloc),
}
"""Every method without the future. The first keep the budget on average and the last never exceed it.

``AdaScale`` starts with an empty queue, as in the paper, with V from draws; ``warm`` is
:meth:`~adascale.policies.AdaScale.from_law`."""

TUNED = {
    name: METHODS[name] for name in ("AdaScale", "PowerControl", "LyapunovPowerControl")
}
"""The paper's methods that have a parameter, tuned on the realisation that they are evaluated on."""
HINDSIGHT = ", hindsight"
"""Behind the name of a method that is tuned on the realisation."""


def methods() -> dict[str, PolicyBuilder]:
    """Optimal, :data:`CAUSAL`, and :data:`TUNED` with :data:`HINDSIGHT` behind the name."""
    tuned = {name + HINDSIGHT: method for name, method in TUNED.items()}
    return {"Optimal": METHODS["Optimal"], **CAUSAL, **tuned}


def causal_table(
    dataset: str,
    seeds: Sequence[int] = SEEDS,
    budgets: Sequence[float] | None = None,
    policies: Mapping[str, PolicyBuilder] | None = None,
    **how: Any,
) -> pd.DataFrame:
    r"""Return the leakage of methods on fresh realisations of a preset's scenario, a row per policy, level and seed.

    By default at the preset's levels of :math:`\nu`, of all :func:`methods`, on the realisations of the committed
    tables; ``how`` is for :func:`~adascale.comparison.leakage_table`.
    """
    preset = presets.load(dataset)
    return leakage_table(
        preset.scenario,
        budgets or preset.levels,
        seeds,
        policies or methods(),
        progress=sys.stderr.isatty(),
        **how,
    )


def protocols(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    r"""Return the paper's methods under both protocols, each as :func:`~companion.claims.paper_claims` takes it.

    In hindsight every method spends :math:`\nu` on every realisation.  Without the future the three that have a
    parameter spend :math:`\nu` on average over the law; their leakage is compared as it is, with that of the optimum at
    :math:`\nu`, and the cost stands beside it (:func:`~companion.summary.promises`).
    """

    hindsight = {name + HINDSIGHT * (name in TUNED): name for name in METHODS}
    policy = table["policy"]
    seen = table.assign(policy=policy.map(hindsight))
    return {
        "in hindsight": seen[policy.isin(hindsight)].reset_index(drop=True),
        "without the future": table[policy.isin(METHODS)].reset_index(drop=True),
    }


def committed(executor: Executor | None) -> Iterator[pd.DataFrame]:
    """Yield the committed tables, a data set each."""
    for dataset in DATASETS:
        table = causal_table(dataset, executor=executor)
        yield wide(table, ("cost", "rdp", "epsilon"))
