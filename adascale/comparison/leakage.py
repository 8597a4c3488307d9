r"""Leakage against the convergence level :math:`\nu` as a tidy table: the paper's Figures 1 and 2, and a user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale import registry
from adascale.accounting import Accountant, RenyiAccountant
from adascale.channel import ChannelModel, Rayleigh
from adascale.comparison.methods import Method, as_method, find_method, keeps_its_own_promise
from adascale.errors import BudgetNotReached
from adascale.policies import Policy
from adascale.problem import ReceiveScalingProblem, RoundLeakage
from adascale.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

_BLOCK = 20  # realisations run side by side; more would only make the progress bar coarser
_MOST_SEEDS = 1_000_000
_FIRST = ("dataset", "policy", "nu", "seed")
_MEASURED = ("cost", "order", "rdp", "delta", "epsilon_max", "epsilon", "full_power", "floor_max", "floor_max_round")


def leakage_table(
    scenario: Scenario,
    budgets: Iterable[float],
    seeds: Iterable[int],
    chosen: Mapping[str, Method | type] | None = None,
    *,
    channel: ChannelModel | None = None,
    accountant: Accountant | None = None,
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
        One channel realisation each, a million at the most.
    chosen : mapping, optional
        Names of policies, each with its method or simply its class, see :func:`~adascale.comparison.as_method`.
        Default: every registered policy that can be brought to :math:`\nu` on every realisation, as the paper compares
        them; those that promise :math:`\nu` on average or as a limit, and so spend something else on each, are to be
        named (:func:`~adascale.comparison.keeps_its_own_promise`).
    channel : ChannelModel, optional
        What realisations are drawn from, and what is believed by a policy that needs the law of the floors and was
        given none; default :class:`~adascale.channel.Rayleigh`, the paper's.
    accountant : Accountant, optional
        What ``epsilon`` is computed by; default :class:`~adascale.accounting.RenyiAccountant`, the paper's.
    delta : float
        :math:`\delta` of the DP leakage.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    pandas.DataFrame
        One row a policy, budget and seed, in this order: ``dataset, policy, nu, seed``; a column for every parameter
        that a policy declares as ``tuned`` (NaN where a policy has none of that name); ``cost``; ``order, rdp`` (nats:
        sum over rounds, mean over devices); ``delta, epsilon`` (mean over devices) and before it, where devices differ,
        ``epsilon_max``, the guarantee for every device; ``full_power``, the share of rounds at the power limit;
        ``floor_max, floor_max_round`` (the largest :math:`w_{\min,t}` and its round: floors are heavy-tailed).
        Where a policy cannot reach :math:`\nu`, its cost and leakages are NaN.  ``attrs["labels"]`` has the labels that
        policies declare, where they go by the name of their class.

    Raises
    ------
    ValueError
        If a budget, seed or delta is out of range, one repeats, or a policy is none or tunes what has the name of
        another column.
    """
    import pandas as pd  # slow to import
    from tqdm import tqdm

    levels = np.atleast_1d(check.positive("nu", list(budgets)))
    seeds = list(islice(seeds, _MOST_SEEDS + 1))
    if len(seeds) > _MOST_SEEDS:
        raise ValueError(f"seeds must be at most {_MOST_SEEDS:,}, got more")
    for what, values in (("nu", levels.tolist()), ("seed", seeds)):
        if len({*values}) < len(values):
            raise ValueError(f"{what} must not repeat, got {values}")
    check.fraction("delta", delta)
    if chosen is None:
        known = [find_method(name) for name in registry.names("policies")]
        chosen = {name: method for name, method in known if not keeps_its_own_promise(method)}
    model = Rayleigh() if channel is None else channel
    methods = {name: as_method(each, model) for name, each in chosen.items()}
    account = RenyiAccountant() if accountant is None else accountant
    rows, labels = [], {}
    parameters: dict[str, None] = {}  # an ordered set
    with tqdm(total=len(methods) * len(seeds), disable=not progress, delay=1, unit="run", desc=scenario.name) as bar:
        for start in range(0, len(seeds), _BLOCK):
            block = seeds[start : start + _BLOCK]
            drawn = model.draw(scenario.num_devices, scenario.num_rounds, block)
            problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), levels[:, None])
            mean_gain = scenario.mean_gain(drawn.path_loss)
            for name, method in methods.items():
                bar.set_postfix_str(name)
                part, policy = _rows(method, problem, mean_gain, account, delta)
                rows.append(part.assign(policy=name, seed=block * levels.size))
                if policy is not None:
                    if taken := {*_FIRST, *_MEASURED} & {*policy.tuned}:
                        raise ValueError(f"policy {name} must not tune {min(taken)!r}, which is a column of the table")
                    parameters |= dict.fromkeys(policy.tuned)
                    labels[name] = policy.label if policy.label and name == type(policy).__name__ else name
                bar.update(len(block))
    measured = [each for each in _MEASURED if each != "epsilon_max" or RoundLeakage(scenario).rate.size > 1]
    table = pd.concat([each.reindex(columns=[*_FIRST, *parameters, *measured]) for each in rows])
    rank = {name: i for i, name in enumerate(methods)}
    table = table.sort_values(["policy", "nu", "seed"], key=_ranks(rank), ignore_index=True)
    table.attrs["labels"] = labels
    return table


def _rows(
    method: Method, problem: ReceiveScalingProblem, mean_gain: NDArray[np.float64], accountant: Accountant, delta: float
) -> tuple[pd.DataFrame, Policy | None]:
    """A row a lane, budgets outside and realisations inside; NaN in the lanes whose budget is out of reach."""
    import pandas as pd

    parameters: dict[str, Any] = {}
    measured: dict[str, Any] = dict.fromkeys(("cost", "rdp", "epsilon", "epsilon_max", "full_power"), np.nan)
    policy = None
    try:
        policy = method(problem, mean_gain)
    except BudgetNotReached:
        if problem.lanes != (1, 1):
            gains, budgets = problem.min_gain, problem.budget
            parts = [
                _rows(
                    method,
                    ReceiveScalingProblem(problem.scenario, gains[[r]], budgets[[k]]),
                    mean_gain[[r]],
                    accountant,
                    delta,
                )
                for k, r in np.ndindex(problem.lanes)
            ]
            reached = [each for _, each in parts if each is not None]
            return pd.concat([rows for rows, _ in parts]), reached[0] if reached else None
    else:
        eta = policy.schedule(problem)
        parameters = {name: getattr(policy, name) for name in policy.tuned}
        epsilon = problem.device_epsilons(eta, accountant, delta)
        measured = {
            "cost": problem.cost(eta),
            "rdp": problem.rdp(eta),
            "epsilon_max": epsilon.largest,
            "epsilon": epsilon.mean,
            "full_power": (eta == problem.max_eta).mean(axis=-1),
        }
    columns = {
        "dataset": problem.scenario.name,
        "nu": problem.budget,
        **parameters,
        **measured,
        "order": problem.scenario.order,
        "delta": delta,
        "floor_max": problem.floor.max(axis=-1),
        "floor_max_round": problem.floor.argmax(axis=-1),
    }
    return pd.DataFrame({key: np.broadcast_to(value, problem.lanes).ravel() for key, value in columns.items()}), policy


def _ranks(rank: Mapping[str, int]) -> Callable[[Any], Any]:
    return lambda column: column.map(rank) if column.name == "policy" else column
