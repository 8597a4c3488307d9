r"""Leakage against the noise budget :math:`\nu` as a tidy table (the paper's Figures 1 and 2)."""

import contextlib
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from adascale import checks as check
from adascale.accounting import Accountant, RenyiAccountant
from adascale.channel import ChannelModel, Rayleigh
from adascale.checks import FloatArray, IndexArray
from adascale.comparison.costs import PER_ROUND, measure
from adascale.comparison.methods import (
    Method,
    PolicyBuilder,
    as_method,
    reported_parameters,
)
from adascale.comparison.names import find_method
from adascale.errors import BudgetNotReached
from adascale.policies import EqualAlloc
from adascale.problem import Problem
from adascale.rootfind import widen
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

# realisations computed at once; more would only make the progress bar coarser
_BLOCK = 20
_TOLERANCE = 1.5e-5  # of ln epsilon, and of the ln nu at which it is reached
_FARTHEST = 14.0  # largest distance of ln nu from the budget that guarantees epsilon
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
    accountant: Accountant | None = None,
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
        Does 20 realisations at a time (:func:`~adascale.workers.run_tasks`), with the same results.

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
    accountant = accountant or RenyiAccountant()
    key = "nu" if target == "nu" else f"target_{target}"
    keys = _keys(key)
    blocks = [seeds[i : i + _BLOCK] for i in range(0, len(seeds), _BLOCK)]
    comparison = _Comparison(scenario, channel, accountant, delta, methods, key, levels)
    with tqdm(
        total=len(blocks),
        disable=not progress,
        delay=1,
        unit="block",
        desc=scenario.name,
    ) as bar:
        tables = map_tasks(comparison, blocks, executor, bar.update)
    table = _in_order(pd.concat(tables), key, [*methods])
    parameters = table.columns.difference([*keys, *_COLUMNS], sort=False)
    table = table.reindex(columns=[*keys, *parameters, *_COLUMNS])
    table.attrs["labels"] = {name: _label(name, methods[name]) for name in methods}
    return table


def _keys(key: str) -> list[str]:
    """Return the first columns of a table; ``key`` is that of the target."""
    return ["dataset", "policy", "kind", "knows", *dict.fromkeys(("nu", key)), "seed"]


def _label(name: str, method: Method) -> str:
    """Return what a policy is called in a legend, unless it has a name of its own."""
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


@dataclass(frozen=True)
class _Comparison:
    """The comparison of all policies on one block of realisations."""

    scenario: Scenario
    channel: ChannelModel
    accountant: Accountant
    delta: float
    methods: dict[str, Method]
    key: str
    levels: FloatArray

    def __call__(self, block: list[int]) -> "pd.DataFrame":
        """Return the rows of the block."""
        import pandas as pd

        some_choose = any(method.chooses_senders for method in self.methods.values())
        gains = _draw(self.scenario, self.channel, block, some_choose)
        realisations = _Realisations(*gains, self.channel, self.accountant, self.delta)
        target = self.key.removeprefix("target_")
        tables = [
            realisations.compare(method, target, self.levels).assign(
                policy=name, kind=method.kind, knows=method.knows
            )
            for name, method in self.methods.items()
        ]
        values = {
            "seed": block * (self.levels.size * len(tables)),
            self.key: np.tile(self.levels.repeat(len(block)), len(tables)),
        }
        return pd.concat(tables, ignore_index=True).assign(**values)


def _draw(
    scenario: Scenario, channel: ChannelModel, seeds: list[int], every_gain: bool
) -> tuple[Problem, FloatArray, FloatArray]:
    """Draw realisations: a problem of any budget, mean gains, and the gains of all devices where they are needed."""
    if every_gain or type(channel).draw is not ChannelModel.draw:
        draw = channel.draw(scenario.num_devices, scenario.num_rounds, seeds)
        min_gain = scenario.min_gain(draw.gain)
        problem = Problem(scenario, min_gain, 1.0, draw.exposure)
        return problem, scenario.mean_gain(draw.path_loss), draw.gain
    min_gain, path_loss = channel.min_gains(scenario, seeds)
    problem = Problem(scenario, min_gain, 1.0)
    return problem, scenario.mean_gain(path_loss), min_gain


def _is_free(method: Method) -> bool:
    r"""Return whether a method has no :math:`\nu` to spend."""
    return method.chooses_senders or method.policy.needs_epsilon


@dataclass(frozen=True)
class _Realisations:
    """R realisations of the channel, and what is measured on them."""

    problem: Problem
    mean_gain: FloatArray
    gain: FloatArray
    channel: ChannelModel
    accountant: Accountant
    delta: float

    def compare(
        self, method: Method, target: str, levels: FloatArray
    ) -> "pd.DataFrame":
        """Measure a policy at each level of the target in each realisation."""
        import pandas as pd

        floor = self.problem.min_noise_energy
        mean = floor.mean(axis=-1)
        if "epsilon" in method.needs and target == "epsilon":
            spend: FloatArray = np.full((levels.size, 1), np.nan)
            methods = [method.guaranteeing(float(e), self.delta) for e in levels]
            tables = [self.measure_together(one, np.ones(1)) for one in methods]
            table = pd.concat(tables, ignore_index=True)
        else:
            spend = self._spend(method, target, levels)
            table = self.measure(method, spend)
        spend = np.broadcast_to(spend, (levels.size, mean.size)).ravel()
        nu = np.where(spend > 0, spend, np.nan)
        described = {
            "dataset": self.problem.scenario.name,
            "nu": table["cost"] if _is_free(method) else nu,
            "order": self.problem.scenario.order,
            "delta": self.delta,
            "floor": np.tile(mean, levels.size),
            "floor_max": np.tile(floor.max(axis=-1), levels.size),
            "floor_max_round": np.tile(floor.argmax(axis=-1), levels.size),
        }
        return table.assign(**described)

    def _spend(self, method: Method, target: str, levels: FloatArray) -> FloatArray:
        r"""Return the :math:`\nu` of each level, or the total of a method that chooses who sends, shape (levels, R)."""
        mean = self.problem.min_noise_energy.mean(axis=-1)
        column = levels[:, None]
        if target == "nu":
            return column + mean if method.chooses_senders else column
        if target == "total":
            return column if method.chooses_senders else column - mean
        is_fixed = _is_free(method) and "future" not in method.needs
        return column if is_fixed else self._least(method, levels)

    def _least(self, method: Method, levels: FloatArray) -> FloatArray:
        r"""Find the least :math:`\nu`, or total, at which no device exceeds each epsilon; NaN where there is none."""
        from scipy.optimize import elementwise  # slow to import

        R = len(self.mean_gain)
        scenario = self.problem.scenario
        delta = self.delta
        budgets = [EqualAlloc.budget_for(scenario, float(e), delta) for e in levels]
        start = np.log(budgets).repeat(R)
        # rounding and the tolerance exceed no epsilon
        aim = np.log(levels).repeat(R) - _TOLERANCE

        def excess(x: FloatArray, instance: IndexArray) -> FloatArray:
            spend = np.exp(start[instance] + x)
            table = self._take(instance % R).measure(method, spend)
            epsilon = table["epsilon"].fillna(np.inf).to_numpy()
            with np.errstate(divide="ignore"):
                value = np.log(epsilon) - aim[instance]
            return np.clip(value, -1e300, 1e300)

        low, high = widen(excess, np.zeros(start.size), 2.0, _FARTHEST)
        result = elementwise.find_root(
            excess,
            (low, high),
            args=(np.arange(start.size),),
            tolerances={"fatol": _TOLERANCE, "xatol": _TOLERANCE, "xrtol": 0.0},
        )
        is_met = result.f_bracket[1] <= 0
        upper_end = np.where(is_met, result.bracket[1], np.nan)
        # epsilon is met for every nu, or falls below it at a jump
        x = np.where(abs(result.f_x) <= _TOLERANCE, result.x, upper_end)
        x = np.where(result.f_bracket[0] <= 0, low, x)
        return np.exp(start + x).reshape(-1, R)

    def measure(self, method: Method, spend: FloatArray) -> "pd.DataFrame":
        r"""Measure a policy at each :math:`\nu`, or total of one that chooses who sends; NaN where out of reach.

        A policy is built for all instances at once.  Where that fails, the instances are halved until those that cannot
        reach their budget are alone.
        """
        import pandas as pd

        if np.all(spend > 0):
            with contextlib.suppress(BudgetNotReached):
                return self.measure_together(method, spend)
        R = len(self.mean_gain)
        shape = np.broadcast_shapes(spend.shape, (R,))
        spend = np.broadcast_to(spend, shape).ravel()
        tables = [pd.DataFrame(columns=["cost", "epsilon"], dtype=float)]
        halves = np.array_split(np.flatnonzero(spend > 0), 2)
        parts = [half for half in halves if half.size]
        while parts:
            part = parts.pop()
            try:
                realisations = self._take(part % R)
                table = realisations.measure_together(method, spend[part])
                tables.append(table.set_axis(part))
            except BudgetNotReached:
                parts += np.array_split(part, 2) if part.size > 1 else []
        return pd.concat(tables).reindex(range(spend.size))

    def measure_together(self, method: Method, spend: FloatArray) -> "pd.DataFrame":
        """Measure a policy that is built for all instances at once."""
        import pandas as pd

        problem = self.problem
        if method.chooses_senders:
            policy = method(problem.scenario, self.gain, spend)
        else:
            problem = Problem(
                problem.scenario, problem.min_gain, spend, problem.exposure
            )
            policy = method(problem, self.mean_gain, self.channel)
        measured = reported_parameters(policy)
        for name in measured.keys() & {*_COLUMNS, *_keys("nu")}:
            raise ValueError(
                f"policy {type(policy).__name__} must not tune {name!r}, which is a column of the table"
            )
        measured |= measure(policy, problem, self.gain, self.accountant, self.delta)
        shape = np.broadcast_shapes(spend.shape, (len(self.mean_gain),))
        columns = {
            name: np.broadcast_to(value, shape).ravel()
            for name, value in measured.items()
            if name not in PER_ROUND
        }
        return pd.DataFrame(columns)

    def _take(self, rows: IndexArray) -> "_Realisations":
        """Return these realisations, which may repeat."""
        problem = self.problem
        exposure = None if problem.exposure is None else problem.exposure[rows]
        min_gain = problem.min_gain[rows]
        return replace(
            self,
            problem=Problem(problem.scenario, min_gain, 1.0, exposure),
            mean_gain=self.mean_gain[rows],
            gain=self.gain[rows],
        )
