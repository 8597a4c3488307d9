r"""Leakage against the noise budget :math:`\nu` as a tidy table (the paper's Figures 1 and 2)."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adascale import checks as check
from adascale.accounting import Accountant
from adascale.channel import ChannelModel, Rayleigh
from adascale.checks import FloatArray, IndexArray
from adascale.comparison.costs import PER_ROUND, measure
from adascale.comparison.methods import (
    Known,
    Method,
    PolicyBuilder,
    as_method,
    reported_parameters,
)
from adascale.comparison.names import find_method
from adascale.errors import BudgetNotReached
from adascale.policies import EqualAlloc, Policy
from adascale.problem import RENYI, Problem
from adascale.rootfind import bounded, widen
from adascale.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

PAPER = (
    "Optimal",
    "AdaScale",
    "EqualAlloc",
    "EstimFuture",
    "PowerControl",
    "LyapunovPowerControl",
)
"""The policies of the paper's figures, in its order."""

# realisations that one task computes; more would only make the progress bar coarser
_BLOCK = 20
_TOLERANCE = 1.5e-5  # of ln epsilon, and of the ln nu at which it is reached
_FIRST_STEP = 2.0  # of ln nu, from the budget at which EqualAlloc guarantees epsilon on every channel
_FARTHEST = 14.0  # largest distance of ln nu from that budget
_COLUMNS = [
    "cost",
    "floor",
    "total",
    "participation",
    "participation_min",
    "order",
    "rdp",
    "delta",
    "epsilon",
    "epsilon_mean",
    "full_power",
    "floor_max",
    "floor_max_round",
]


def leakage_table(
    scenario: Scenario,
    levels: Iterable[float],
    seeds: Iterable[int],
    policies: Mapping[str, PolicyBuilder] | None = None,
    *,
    target: str = "nu",
    channel: ChannelModel | None = None,
    accountant: Accountant = RENYI,
    delta: float = 1e-5,
    progress: bool = False,
    executor: Executor | None = None,
) -> "pd.DataFrame":
    r"""Tabulate the leakage of policies over noise budgets and channel realisations.

    Parameters
    ----------
    scenario : Scenario
    levels : iterable of float, > 0
        Values of the target.
    seeds : iterable of int, >= 0
    policies : mapping of str to method or policy class, optional
        See :func:`~adascale.comparison.as_method`.  Default: the policies of the paper's figures, which are tuned to
        :math:`\nu` on each realisation.
    target : {"nu", "total", "epsilon"}
        With ``total``, each realisation's :math:`\nu` is :math:`W` less its mean floor.  With ``epsilon`` it is the
        least, to 1e-4, at which no device exceeds :math:`\varepsilon`.  Both **see all rounds**.  A policy that chooses
        who sends has a :math:`W` instead, with ``nu`` that of the others.
    channel : ChannelModel, optional
        Model of the realisations, also assumed by policies that need one; default :class:`~adascale.channel.Rayleigh`.
    accountant : Accountant, optional
        The accountant of ``epsilon``; default :class:`~adascale.accounting.RenyiAccountant`.
    delta : float, in (0, 1)
    executor : concurrent.futures.Executor, optional
        Evaluates one policy on 20 realisations at a time (:func:`~adascale.workers.run_tasks`), with the same results.

    Returns
    -------
    pandas.DataFrame
        One row per ``dataset, policy``, level and ``seed``: ``kind`` and ``knows`` of its
        :class:`~adascale.comparison.Method`; ``nu`` and ``target_total`` or ``target_epsilon``; the tuned parameters;
        ``cost``, the mean ``floor`` and their sum; ``participation`` (mean over devices, and least); ``order, rdp``
        (nats: sum over rounds, mean over devices); ``delta, epsilon``, which holds for every device, and
        ``epsilon_mean``, the mean over devices; ``full_power``, the share of rounds at the power limit; ``floor_max,
        floor_max_round``, the largest floor and its round.  Cost and leakages are NaN where the target cannot be
        reached.
    """
    import pandas as pd  # slow to import
    from tqdm import tqdm

    from adascale.workers import map_tasks

    check.one_of("target", target, "nu", "total", "epsilon")
    levels = np.atleast_1d(check.positive(target, list(levels)))
    seeds = list(seeds)
    _check_distinct(target, levels.tolist())
    _check_distinct("seed", seeds)
    check.fraction("delta", delta)
    policies = dict(map(find_method, PAPER)) if policies is None else policies
    methods = {name: as_method(policy) for name, policy in policies.items()}
    channel = channel or Rayleigh()
    key = "nu" if target == "nu" else f"target_{target}"
    keys = _keys(key)
    every_gain = any(method.chooses_senders for method in methods.values())
    starts = range(0, len(seeds), _BLOCK)
    tasks = (
        _Task(block, name, method, key, some, accountant, delta)
        for block in (
            _Block(scenario, channel, seeds[i : i + _BLOCK], every_gain) for i in starts
        )
        for name in methods
        for method, some in _by_level(methods[name], target, levels, delta)
    )
    tables = []
    with tqdm(
        total=len(starts) * len(methods),
        disable=not progress,
        delay=1,
        unit="policy",
        desc=scenario.name,
    ) as bar:
        for table in map_tasks(_measure, tasks, executor):
            tables.append(table)
            bar.update()
    table = _in_order(pd.concat(tables), key, [*methods])
    parameters = table.columns.difference([*keys, *_COLUMNS], sort=False)
    table = table.reindex(columns=[*keys, *parameters, *_COLUMNS])
    table.attrs["labels"] = {name: _label(name, methods[name]) for name in methods}
    return table


def _keys(key: str) -> list[str]:
    """Return the first columns of a table; ``key`` is the column of the target, which may be ``nu`` itself."""
    return ["dataset", "policy", "kind", "knows", *dict.fromkeys(("nu", key)), "seed"]


def _label(name: str, method: Method) -> str:
    """Return the label of a policy class in a legend, or the name in the table if that is not the name of the class."""
    policy = method.policy
    return (name == policy.__name__ and policy.label) or name


def _check_distinct(name: str, values: list[Any]) -> None:
    if len({*values}) < len(values):
        raise ValueError(f"{name} must not repeat, got {values}")


def _in_order(table: "pd.DataFrame", key: str, names: list[str]) -> "pd.DataFrame":
    """Sort rows by policy, in the order of the names, then by level and seed."""
    rank = table["policy"].map(names.index)
    columns = ["rank", key, "seed"]
    ranked = table.assign(rank=rank).sort_values(columns, ignore_index=True)
    return ranked.drop(columns="rank")


def _by_level(
    method: Method, target: str, levels: FloatArray, delta: float
) -> list[tuple[Method, FloatArray]]:
    """Return pairs of a method and its levels, one for all levels, or one per epsilon if the policy needs epsilon."""
    if target == "epsilon" and "epsilon" in method.needs:
        epsilons = levels.tolist()
        return [(method.guaranteeing(e, delta), np.array([[e]])) for e in epsilons]
    return [(method, levels[:, None])]


class _Drawn(NamedTuple):
    """R channel realisations, with a row for each on the first axis."""

    problem: Problem
    """Their floors; its budget, 1, is not used."""
    mean_gain: FloatArray
    gain: FloatArray
    """The gains of all devices, shape (R, M, T); without a policy that needs them, the least of each round."""
    seeds: IndexArray

    def rows(self, rows: IndexArray) -> "_Drawn":
        """Return the realisations with these numbers, which may repeat."""
        scenario, exposure = self.problem.scenario, self.problem.exposure
        if exposure is not None:
            exposure = exposure[rows]
        problem = Problem(scenario, self.problem.min_gain[rows], 1.0, exposure)
        return _Drawn(problem, self.mean_gain[rows], self.gain[rows], self.seeds[rows])


@dataclass(frozen=True)
class _Block:
    """Realisations of a channel, which are drawn when they are first needed: in the process that measures on them."""

    scenario: Scenario
    channel: ChannelModel
    seeds: list[int]
    every_gain: bool

    @cached_property
    def drawn(self) -> _Drawn:
        """The realisations of the seeds."""
        scenario, channel, seeds = self.scenario, self.channel, self.seeds
        numbers = np.array(seeds)
        if self.every_gain or type(channel).draw is not ChannelModel.draw:
            draw = channel.draw(scenario.num_devices, scenario.num_rounds, seeds)
            min_gain = scenario.min_gain(draw.gain)
            problem = Problem(scenario, min_gain, 1.0, draw.exposure)
            mean_gain = scenario.mean_gain(draw.path_loss)
            return _Drawn(problem, mean_gain, draw.gain, numbers)
        min_gain, path_loss = channel.min_gains(scenario, seeds)
        problem = Problem(scenario, min_gain, 1.0)
        return _Drawn(problem, scenario.mean_gain(path_loss), min_gain, numbers)


class _Task(NamedTuple):
    """One policy on one block of realisations, at levels of a target."""

    block: _Block
    name: str
    method: Method
    key: str
    """The column of the levels: ``nu, target_total`` or ``target_epsilon``."""
    levels: FloatArray
    """Values of the target: shape (K, 1) for all of them in every realisation, or (R,) for one per realisation."""
    accountant: Accountant
    delta: float
    chosen: _Drawn | None = None
    """Realisations in place of those of the block."""

    @property
    def drawn(self) -> _Drawn:
        """The realisations on which the policy is measured."""
        return self.chosen or self.block.drawn


def _measure(task: _Task) -> "pd.DataFrame":
    r"""Return a row for each instance, a level in a realisation; cost and leakages are NaN if it cannot be reached.

    A policy is built for all instances at once.  Where that fails, the instances are halved until those that cannot
    reach their budget are alone.
    """
    import pandas as pd

    method, drawn = task.method, task.drawn
    scenario = drawn.problem.scenario
    spend = _spend(task)
    R = len(drawn.mean_gain)
    shape = np.broadcast_shapes(spend.shape, (R,))
    spend_of = np.broadcast_to(spend, shape).ravel()
    # instance k R + r is level k in realisation r; parts are instances that are still to be measured together
    reachable = np.flatnonzero(spend_of > 0)
    parts = [reachable] if reachable.size else []
    tables = [pd.DataFrame(columns=["cost", "epsilon"], dtype=float)]
    while parts:
        part = parts.pop()
        chosen, own_spend = drawn, spend
        if part.size < spend_of.size:
            chosen, own_spend = drawn.rows(part % R), spend_of[part]
        rounds = chosen.problem
        problem = Problem(scenario, rounds.min_gain, own_spend, rounds.exposure)
        known = Known(
            scenario,
            own_spend,
            rounds.min_gain,
            mean_gain=chosen.mean_gain,
            gain=chosen.gain,
            channel=task.block.channel,
        )
        try:
            policy = method.build(known)
            columns = _columns(policy, problem, chosen.gain, own_spend, task)
        except BudgetNotReached:
            parts += np.array_split(part, 2) if part.size > 1 else []
        else:
            tables.append(pd.DataFrame(columns, index=part))
    table = pd.concat(tables).reindex(range(spend_of.size))
    return table.assign(**_described(task, spend_of, shape, table["cost"]))


def _spend(task: _Task) -> FloatArray:
    r"""Return what a method may spend at each level: :math:`\nu`, or a total if it chooses who sends.

    Its shape, (K, 1), (K, R) or that of the levels, broadcasts to the instances.
    """
    method, levels = task.method, task.levels
    mean_floor = task.drawn.problem.min_noise_energy.mean(axis=-1)
    if task.key == "nu":
        return levels + mean_floor if method.chooses_senders else levels
    if task.key == "target_total":
        return levels if method.chooses_senders else levels - mean_floor
    # a method that guarantees each epsilon, or whose parameter is given, has nothing to spend: any number > 0 will do
    is_fixed = _has_no_budget(method) and "future" not in method.needs
    return levels if is_fixed else _least_spend(task)


def _has_no_budget(method: Method) -> bool:
    r"""Return whether a method has no :math:`\nu` to spend."""
    return method.chooses_senders or method.policy.needs_epsilon


def _least_spend(task: _Task) -> FloatArray:
    r"""Find the least :math:`\nu`, or total, at which no device exceeds each epsilon, shape (K, R); NaN without one."""
    from scipy.optimize import elementwise  # slow to import

    R = len(task.drawn.mean_gain)
    levels = task.levels.ravel()
    scenario = task.drawn.problem.scenario
    budgets = [EqualAlloc.budget_for(scenario, float(e), task.delta) for e in levels]
    start = np.log(budgets).repeat(R)
    # below the target by the tolerance, so that neither it nor rounding exceeds an epsilon
    aim = np.log(levels).repeat(R) - _TOLERANCE
    key = "target_total" if task.method.chooses_senders else "nu"

    def excess(x: FloatArray, instance: IndexArray) -> FloatArray:
        spend = np.exp(start[instance] + x)
        realisations = task.drawn.rows(instance % R)
        part = task._replace(key=key, levels=spend, chosen=realisations)
        epsilon = _measure(part)["epsilon"].fillna(np.inf).to_numpy()
        with np.errstate(divide="ignore"):
            return bounded(np.log(epsilon) - aim[instance])

    low, high = widen(excess, np.zeros(start.size), _FIRST_STEP, _FARTHEST)
    result = elementwise.find_root(
        excess,
        (low, high),
        args=(np.arange(start.size),),
        tolerances={"fatol": _TOLERANCE, "xatol": _TOLERANCE, "xrtol": 0.0},
    )
    # where epsilon jumps over its aim, no value is within the tolerance, and the upper end of the bracket is the least
    is_met = result.f_bracket[1] <= 0
    upper_end = np.where(is_met, result.bracket[1], np.nan)
    x = np.where(abs(result.f_x) <= _TOLERANCE, result.x, upper_end)
    # where even the lowest nu meets it, that is the answer
    x = np.where(result.f_bracket[0] <= 0, low, x)
    return np.exp(start + x).reshape(-1, R)


def _columns(
    policy: Policy, problem: Problem, gain: FloatArray, spend: FloatArray, task: _Task
) -> dict[str, FloatArray]:
    """Return the tuned parameters, and what is measured of a policy, with an entry for each instance."""
    measured = reported_parameters(policy)
    for name in measured.keys() & {*_COLUMNS, *_keys("nu")}:
        raise ValueError(
            f"policy {type(policy).__name__} must not tune {name!r}, which is a column of the table"
        )
    measured |= measure(policy, problem, gain, task.accountant, task.delta)
    shape = np.broadcast_shapes(spend.shape, problem.min_gain.shape[:-1])
    return {
        name: np.broadcast_to(value, shape).ravel()
        for name, value in measured.items()
        if name not in PER_ROUND
    }


def _described(
    task: _Task, spend: FloatArray, shape: tuple[int, ...], cost: "pd.Series"
) -> dict[str, Any]:
    """Return the columns that say what is measured in each row: policy, level and realisation."""
    scenario, method = task.block.scenario, task.method
    floor = task.drawn.problem.min_noise_energy
    nu = cost if _has_no_budget(method) else np.where(spend > 0, spend, np.nan)
    by_instance = {
        task.key: task.levels,
        "seed": task.drawn.seeds,
        "floor": floor.mean(axis=-1),
        "floor_max": floor.max(axis=-1),
        "floor_max_round": floor.argmax(axis=-1),
    }
    return {
        "dataset": scenario.name,
        "policy": task.name,
        "kind": method.kind,
        "knows": method.knows,
        "nu": nu,
        "order": scenario.order,
        "delta": task.delta,
    } | {
        name: np.broadcast_to(values, shape).ravel()
        for name, values in by_instance.items()
    }
