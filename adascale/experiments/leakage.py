r"""Leakage against the convergence level :math:`\nu`: the paper's Figures 1 and 2 as a tidy table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd
from tqdm import tqdm

from adascale import _validation as check
from adascale import channel, policies, tuning
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario

POLICIES: dict[str, Callable[[ReceiveScalingProblem], object]] = {
    "Optimal": lambda problem: policies.Optimal(),
    "AdaScale": lambda problem: policies.AdaScale(tuning.match_budget(policies.AdaScale, problem)),
    "EqualAlloc": lambda problem: policies.EqualAlloc(),
}
"""From a problem to a policy whose cost is the budget there, tuned as the paper tunes it."""

_BLOCK = 10  # realisations run side by side; more would only make the progress bar coarser


def leakage_table(
    scenario: Scenario,
    budgets: Iterable[float],
    seeds: Iterable[int],
    chosen: Mapping[str, Callable] = POLICIES,
    *,
    delta: float = 1e-5,
    progress: bool = False,
) -> pd.DataFrame:
    r"""Run policies over budgets and channel realisations.

    Parameters
    ----------
    scenario : Scenario
        The experiment; its order is the one minimised and reported.
    budgets : iterable of float
        The convergence levels :math:`\nu > 0`.
    seeds : iterable of int
        One channel realisation each.
    chosen : mapping
        Names of policies, each with a function from a :class:`~adascale.problem.ReceiveScalingProblem` to
        something with ``schedule``.
    delta : float
        :math:`\delta` of the DP leakage.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    pandas.DataFrame
        One row a policy, budget and seed, in this order: ``dataset, policy, nu, seed``; ``penalty`` (V, NaN where a
        policy has none); ``cost``; ``order, rdp`` (nats: sum over rounds, mean over devices); ``delta, epsilon``;
        ``floor_max, floor_max_round`` (the largest :math:`w_{\min,t}` and its round: floors are heavy-tailed).

    Raises
    ------
    ValueError
        If a budget, seed or delta is out of range.
    RuntimeError
        If a policy cannot spend a budget exactly.
    """
    budgets = np.atleast_1d(check.positive("nu", list(budgets)))
    seeds = list(seeds)
    check.fraction("delta", delta)
    blocks = [seeds[i : i + _BLOCK] for i in range(0, len(seeds), _BLOCK)]
    rows = []
    with tqdm(total=len(chosen) * len(seeds), disable=not progress, delay=2, unit="run", desc=scenario.name) as bar:
        for block in blocks:
            drawn = channel.draw(scenario.num_devices, scenario.num_rounds, block)
            problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), budgets[:, None])
            for name, make in chosen.items():
                rows.append(_rows(name, make(problem), problem, block, delta))
                bar.update(len(block))
    table = pd.concat(rows)
    rank = {name: i for i, name in enumerate(chosen)}
    return table.sort_values(["policy", "nu", "seed"], key=_ranks(rank), ignore_index=True)


def _rows(name, policy, problem, seeds, delta) -> pd.DataFrame:
    eta = policy.schedule(problem)
    columns = {
        "dataset": problem.scenario.name,
        "policy": name,
        "nu": problem.budget,
        "seed": np.array(seeds),
        "penalty": getattr(policy, "penalty", np.nan),
        "cost": problem.cost(eta),
        "order": problem.scenario.order,
        "rdp": problem.rdp(eta),
        "delta": delta,
        "epsilon": problem.dp_epsilon(eta, delta),
        "floor_max": problem.floor.max(axis=-1),
        "floor_max_round": problem.floor.argmax(axis=-1),
    }
    return pd.DataFrame({key: np.broadcast_to(value, problem.lanes).ravel() for key, value in columns.items()})


def _ranks(rank):
    return lambda column: column.map(rank) if column.name == "policy" else column
