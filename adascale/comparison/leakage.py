r"""Leakage against the convergence level :math:`\nu`: the paper's Figures 1 and 2 as a tidy table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from tqdm import tqdm

from adascale import channel, policies
from adascale import checks as check
from adascale.comparison.hindsight import POLICIES, Method, method
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario
from adascale.tuning import BudgetNotReached

_BLOCK = 20  # realisations run side by side; more would only make the progress bar coarser
_PARAMETERS = ("penalty", "rate", "privacy_budget")


def leakage_table(
    scenario: Scenario,
    budgets: Iterable[float],
    seeds: Iterable[int],
    chosen: Mapping[str, Method | type] = POLICIES,
    *,
    delta: float = 1e-5,
    placement: str = "radius",
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
        Names of policies, each with its method or simply its class, see :func:`~adascale.comparison.method`.
    delta : float
        :math:`\delta` of the DP leakage.
    placement : str
        Of the devices, see :func:`adascale.channel.draw`.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    pandas.DataFrame
        One row a policy, budget and seed, in this order: ``dataset, policy, nu, seed``; what was tuned, ``penalty``
        (V), ``rate`` and ``privacy_budget`` (NaN where a policy has none); ``cost``; ``order, rdp`` (nats: sum over
        rounds, mean over devices); ``delta, epsilon``; ``full_power``, the share of rounds at the power limit;
        ``floor_max, floor_max_round`` (the largest :math:`w_{\min,t}` and its round: floors are heavy-tailed).
        Where a policy cannot reach :math:`\nu`, its cost and leakages are NaN.

    Raises
    ------
    ValueError
        If a budget, seed or delta is out of range, one repeats, or a policy is none.
    """
    budgets = np.atleast_1d(check.positive("nu", list(budgets)))
    seeds = list(seeds)
    for what, values in (("nu", budgets.tolist()), ("seed", seeds)):
        if len({*values}) < len(values):
            raise ValueError(f"{what} must not repeat, got {values}")
    check.fraction("delta", delta)
    methods = {name: method(each) if isinstance(each, type) else each for name, each in chosen.items()}
    rows = []
    with tqdm(total=len(methods) * len(seeds), disable=not progress, delay=1, unit="run", desc=scenario.name) as bar:
        for start in range(0, len(seeds), _BLOCK):
            block = seeds[start : start + _BLOCK]
            drawn = channel.draw(scenario.num_devices, scenario.num_rounds, block, placement=placement)
            problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), budgets[:, None])
            mean_gain = scenario.mean_gain(drawn.path_loss)
            for name, make in methods.items():
                bar.set_postfix_str(name)
                rows.append(_rows(make, problem, mean_gain, delta).assign(policy=name, seed=block * budgets.size))
                bar.update(len(block))
    table = pd.concat(rows)
    rank = {name: i for i, name in enumerate(methods)}
    table = table.sort_values(["policy", "nu", "seed"], key=_ranks(rank), ignore_index=True)
    return table[["dataset", "policy", "nu", "seed", *table.columns.drop(["dataset", "policy", "nu", "seed"])]]


def _rows(make, problem, mean_gain, delta) -> pd.DataFrame:
    """A row a lane, budgets outside and realisations inside; NaN in the lanes whose budget is out of reach."""
    try:
        policy = make(problem, mean_gain)
    except BudgetNotReached:
        if problem.lanes != (1, 1):
            gains, budgets = problem.min_gain, problem.budget
            return pd.concat(
                _rows(make, ReceiveScalingProblem(problem.scenario, gains[[r]], budgets[[k]]), mean_gain[[r]], delta)
                for k, r in np.ndindex(problem.lanes)
            )
        eta, parameters, result = np.nan, {}, dict.fromkeys(("cost", "rdp", "epsilon"), np.nan)
    else:
        eta = policies.schedule(policy, problem)
        parameters = {name: getattr(policy, name) for name in _PARAMETERS if hasattr(policy, name)}
        result = {"cost": problem.cost(eta), "rdp": problem.rdp(eta), "epsilon": problem.dp_epsilon(eta, delta)}
    columns = {
        "dataset": problem.scenario.name,
        "nu": problem.budget,
        **{name: parameters.get(name, np.nan) for name in _PARAMETERS},
        "cost": result["cost"],
        "order": problem.scenario.order,
        "rdp": result["rdp"],
        "delta": delta,
        "epsilon": result["epsilon"],
        "full_power": np.where(np.isnan(result["cost"]), np.nan, (eta == problem.max_eta).mean(axis=-1)),
        "floor_max": problem.floor.max(axis=-1),
        "floor_max_round": problem.floor.argmax(axis=-1),
    }
    return pd.DataFrame({key: np.broadcast_to(value, problem.lanes).ravel() for key, value in columns.items()})


def _ranks(rank):
    return lambda column: column.map(rank) if column.name == "policy" else column
