r"""Leakage against the noise budget :math:`\nu` as a tidy table (the paper's Figures 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

_BLOCK = 20  # realisations computed at once; more would only make the progress bar coarser
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
    r"""Tabulate the leakage of policies over noise budgets and channel realisations.

    Parameters
    ----------
    scenario : Scenario
    budgets : iterable of float, :math:`\nu > 0`
    seeds : iterable of int, >= 0, at most a million
    chosen : mapping of str to method or policy class, optional
        See :func:`~adascale.comparison.as_method`.  Default: the registered policies that are tuned to :math:`\nu` on
        each realisation, that is all but :func:`~adascale.comparison.keeps_its_own_promise`.
    channel : ChannelModel, optional
        Model of the realisations, also assumed by policies that need one; default :class:`~adascale.channel.Rayleigh`.
    accountant : Accountant, optional
        The accountant of ``epsilon``; default :class:`~adascale.accounting.RenyiAccountant`.
    delta : float, in (0, 1)

    Returns
    -------
    pandas.DataFrame
        One row per ``dataset, policy, nu, seed``: the ``tuned`` parameters; ``cost``; ``order, rdp`` (nats: sum over
        rounds, mean over devices); ``delta, epsilon`` (mean over devices) and ``epsilon_max`` (the largest) if devices
        differ; ``full_power``, the share of rounds at the power limit; ``floor_max, floor_max_round``, the largest
        floor and its round.  Cost and leakages are NaN where :math:`\nu` cannot be reached.
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
    model, account = channel or Rayleigh(), accountant or RenyiAccountant()
    methods = {name: as_method(each, model) for name, each in chosen.items()}
    rows, labels = [], {}
    parameters: dict[str, None] = {}  # an ordered set
    with tqdm(total=len(methods) * len(seeds), disable=not progress, delay=1, unit="run", desc=scenario.name) as bar:
        for block in (seeds[start : start + _BLOCK] for start in range(0, len(seeds), _BLOCK)):
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
    keys = ["policy", "nu", "seed"]
    table = table.sort_values(keys, key=lambda x: x.map(rank) if x.name == "policy" else x, ignore_index=True)
    table.attrs["labels"] = labels
    return table


def _rows(
    method: Method, problem: ReceiveScalingProblem, mean_gain: NDArray[np.float64], accountant: Accountant, delta: float
) -> tuple[pd.DataFrame, Policy | None]:
    import pandas as pd

    measured: dict[str, Any] = dict.fromkeys(("cost", "rdp", "epsilon", "epsilon_max", "full_power"), np.nan)
    policy = None
    try:
        policy = method(problem, mean_gain)
    except BudgetNotReached:
        if problem.lanes != (1, 1):  # one instance at a time, so that only those that cannot reach it are NaN
            parts = []
            for k, r in np.ndindex(problem.lanes):
                alone = ReceiveScalingProblem(problem.scenario, problem.min_gain[[r]], problem.budget[[k]])
                parts.append(_rows(method, alone, mean_gain[[r]], accountant, delta))
            return pd.concat([rows for rows, _ in parts]), next((each for _, each in parts if each is not None), None)
    else:
        eta = policy.schedule(problem)
        epsilon, largest = problem.device_epsilons(eta, accountant, delta)
        measured = {name: getattr(policy, name) for name in policy.tuned}
        measured |= {"cost": problem.cost(eta), "rdp": problem.rdp(eta), "epsilon_max": largest, "epsilon": epsilon}
        measured["full_power"] = (eta == problem.max_eta).mean(axis=-1)
    constant = {"dataset": problem.scenario.name, "order": problem.scenario.order, "delta": delta}
    largest_floor = {
        "floor_max": problem.min_noise_energy.max(axis=-1),
        "floor_max_round": problem.min_noise_energy.argmax(axis=-1),
    }
    columns = {"nu": problem.budget, **measured, **constant, **largest_floor}
    return pd.DataFrame({key: np.broadcast_to(value, problem.lanes).ravel() for key, value in columns.items()}), policy
