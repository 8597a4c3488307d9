r"""Leakage against the noise budget :math:`\nu` as a tidy table (the paper's Figures 1 and 2)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale import registry
from adascale.accounting import Accountant, RenyiAccountant
from adascale.channel import ChannelModel, Rayleigh
from adascale.comparison.methods import (
    Method,
    PolicyClass,
    TunedOnRealisation,
    as_method,
    find_method,
)
from adascale.errors import BudgetNotReached
from adascale.policies import (
    EqualAlloc,
    LyapunovPowerControl,
    OnlinePolicy,
    Optimal,
    Policy,
)
from adascale.problem import ReceiveScalingProblem, over_devices
from adascale.scenario import FloatArray, Scenario

if TYPE_CHECKING:
    import pandas as pd


_BLOCK = (
    20  # realisations computed at once; more would only make the progress bar coarser
)
_MOST_SEEDS = 1_000_000
_WITHIN, _FARTHEST = (
    3e-5,
    14.0,
)  # of ln epsilon below its target; of ln nu from the budget that guarantees it
_LEAKAGES = (
    "cost",
    "total",
    "participation",
    "participation_min",
    "rdp",
    "epsilon",
    "epsilon_mean",
    "full_power",
)
_MEASURED = [
    "cost",
    "floor",
    "total",
    "participation",
    "participation_min",
    "order",
    "rdp",
    "delta",
    "epsilon",
]
_MEASURED += ["epsilon_mean", "full_power", "floor_max", "floor_max_round"]


def leakage_table(
    scenario: Scenario,
    levels: Iterable[float],
    seeds: Iterable[int],
    chosen: Mapping[str, Method | type] | None = None,
    *,
    target: str = "nu",
    channel: ChannelModel | None = None,
    accountant: Accountant | None = None,
    delta: float = 1e-5,
    progress: bool = False,
) -> "pd.DataFrame":
    r"""Tabulate the leakage of policies over noise budgets and channel realisations.

    Parameters
    ----------
    scenario : Scenario
    levels : iterable of float, > 0
        Values of the target.
    seeds : iterable of int, >= 0, at most a million
    chosen : mapping of str to method or policy class, optional
        See :func:`~adascale.comparison.as_method`.  Default: the registered policies that are tuned to :math:`\nu` on
        each realisation, that is all but :func:`~adascale.comparison.keeps_its_own_promise`.
    target : {"nu", "total", "epsilon"}
        With ``total``, each realisation's :math:`\nu` is :math:`W` less its mean floor.  With ``epsilon`` it is the
        least, to 1e-4, at which no device exceeds :math:`\varepsilon`.  Both **see all rounds**.  A policy that chooses
        who sends has a :math:`W` instead, with ``nu`` that of the others.
    channel : ChannelModel, optional
        Model of the realisations, also assumed by policies that need one; default :class:`~adascale.channel.Rayleigh`.
    accountant : Accountant, optional
        The accountant of ``epsilon``; default :class:`~adascale.accounting.RenyiAccountant`.
    delta : float, in (0, 1)

    Returns
    -------
    pandas.DataFrame
        One row per ``dataset, policy``, level and ``seed``: its :func:`~adascale.comparison.knowledge`; ``nu`` and
        ``target_total`` or ``target_epsilon``; the tuned parameters; ``cost``, the mean ``floor`` and their sum;
        ``participation`` (mean over devices, and least); ``order, rdp`` (nats: sum over rounds, mean over devices);
        ``delta, epsilon``, which holds for every device, and ``epsilon_mean``, the mean over devices; ``full_power``,
        the share of rounds at the power limit; ``floor_max, floor_max_round``, the largest floor and its round.  Cost
        and leakages are NaN where the target cannot be reached.
    """
    import pandas as pd  # slow to import
    from tqdm import tqdm

    check.one_of("target", target, "nu", "total", "epsilon")
    wanted = np.atleast_1d(check.positive(target, list(levels)))
    seeds = list(islice(seeds, _MOST_SEEDS + 1))
    if len(seeds) > _MOST_SEEDS:
        raise ValueError(f"seeds must be at most {_MOST_SEEDS:,}, got more")
    for what, values in ((target, wanted.tolist()), ("seed", seeds)):
        if len({*values}) < len(values):
            raise ValueError(f"{what} must not repeat, got {values}")
    check.fraction("delta", delta)
    if chosen is None:
        every = [find_method(name) for name in registry.names("policies")]
        chosen = {
            name: method for name, method in every if not keeps_its_own_promise(method)
        }
    model, account = channel or Rayleigh(), accountant or RenyiAccountant()
    methods = {name: as_method(each, model) for name, each in chosen.items()}
    chooses = any(getattr(each, "chooses", False) for each in methods.values())
    whole = (
        chooses or type(model).draw is not ChannelModel.draw
    )  # whether all gains, or an exposure, are needed
    key = "nu" if target == "nu" else f"target_{target}"
    first = ["dataset", "policy", "kind", "knows", *dict.fromkeys(("nu", key)), "seed"]
    rows, labels = [], {}
    parameters: dict[str, None] = {}  # an ordered set
    with tqdm(
        total=len(methods) * len(seeds),
        disable=not progress,
        delay=1,
        unit="run",
        desc=scenario.name,
    ) as bar:
        for block in (
            seeds[start : start + _BLOCK] for start in range(0, len(seeds), _BLOCK)
        ):
            exposure = None
            if whole:
                drawn = model.draw(scenario.num_devices, scenario.num_rounds, block)
                gain, path_loss, exposure = drawn.gain, drawn.path_loss, drawn.exposure
                least = scenario.min_gain(gain)
            else:
                least, path_loss = gain, _ = model.min_gains(scenario, block)
            problem = ReceiveScalingProblem(scenario, least, wanted[:, None], exposure)
            realisations = _Realisations(
                problem, scenario.mean_gain(path_loss), gain, account, delta
            )
            for name, method in methods.items():
                bar.set_postfix_str(name)
                part, policy = realisations.compare(method, target, wanted)
                part["policy"], part["seed"], part[key] = (
                    name,
                    block * wanted.size,
                    wanted.repeat(len(block)),
                )
                part["kind"], part["knows"] = knowledge(method)
                rows.append(part)
                if policy is not None:
                    found = _found(policy)
                    if taken := {*first, *_MEASURED} & found.keys():
                        raise ValueError(
                            f"policy {name} must not tune {min(taken)!r}, which is a column of the table"
                        )
                    parameters |= dict.fromkeys(found)
                    labels[name] = (
                        policy.label
                        if policy.label and name == type(policy).__name__
                        else name
                    )
                bar.update(len(block))
    table = pd.concat(
        [each.reindex(columns=[*first, *parameters, *_MEASURED]) for each in rows]
    )
    rank = {name: i for i, name in enumerate(methods)}
    keys = ["policy", key, "seed"]
    table = table.sort_values(
        keys, key=lambda x: x.map(rank) if x.name == "policy" else x, ignore_index=True
    )
    table.attrs["labels"] = labels
    return table


def knowledge(method: Method | type) -> tuple[str, str]:
    r"""Return the kind of a policy, and what it knows besides :math:`\nu` (or a total noise energy) before a round.

    The kind is ``optimum``, ``causal``, ``hindsight``, or ``reconstruction`` of a method without public code; what it
    knows is ``nothing``, the ``law`` of the channel (or its mean gains), or ``gains to come``.
    """
    known: Any = as_method(method)
    made: Any = getattr(known, "policy", getattr(known, "func", known))
    made = (
        made
        if isinstance(made, type)
        else getattr(made, "__annotations__", {}).get("return")
    )
    kinds = {
        Optimal: "optimum",
        LyapunovPowerControl: "reconstruction",
        "LyapunovPowerControl": "reconstruction",
    }
    found = isinstance(known, TunedOnRealisation) and (known.takes_total or known.tuned)
    if (
        not isinstance(known, PolicyClass)
        or found
        or not (known.chooses or issubclass(made, OnlinePolicy))
    ):
        return kinds.get(made, "hindsight"), "gains to come"
    by_law = (
        known.tuned
        or known.takes_law
        or known.takes_gain
        or {"law", "mean_gain", "prior"} & {*known.fixed}
    )
    return kinds.get(made, "causal"), "law" if by_law else "nothing"


def keeps_its_own_promise(policy: Method | type) -> bool:
    """Return whether a policy itself meets the budget on average or as a hard constraint, or chooses who sends."""
    made = policy if isinstance(policy, type) else getattr(policy, "policy", None)
    known = bool(getattr(made, "needs_law", False))
    return known or any(hasattr(made, name) for name in ("budget_mode", "fixed_by"))


def _found(policy: Policy) -> dict[str, Any]:
    """Return the parameters that were tuned, or given in their place."""
    names = (*policy.tuned, *getattr(policy, "fixed_by", ())[:1])
    return {
        name: value for name in names if (value := getattr(policy, name)) is not None
    }


@dataclass(frozen=True)
class _Realisations:
    """Realisations of the channel, with their devices' gains, and what is measured of a policy on them."""

    problem: ReceiveScalingProblem
    mean_gain: FloatArray
    gain: FloatArray
    accountant: Accountant
    delta: float

    def compare(
        self, method: Any, target: str, wanted: FloatArray
    ) -> "tuple[pd.DataFrame, Policy | None]":
        """Measure a policy at each level of the target in each realisation."""
        chooses, mean = (
            getattr(method, "chooses", False),
            self.problem.min_noise_energy.mean(axis=-1),
        )
        offset = {("nu", True): mean, ("total", False): -mean}.get(
            (target, chooses), 0.0
        )
        spend = np.asarray(wanted[:, None] + offset)
        if target == "epsilon" and (not chooses or method.takes_total):
            spend = self.least(method, wanted)
        table, policy = self.measure(method, spend)
        spend = np.broadcast_to(spend, (wanted.size, mean.size)).ravel()
        return table.assign(
            nu=table["cost"] if chooses else np.where(spend > 0, spend, np.nan)
        ), policy

    def least(self, method: Any, wanted: FloatArray) -> FloatArray:
        r"""Find the least :math:`\nu`, or total, at which no device exceeds each epsilon; NaN where there is none."""
        scenario, rows = self.problem.scenario, len(self.mean_gain)
        start = np.log(
            [
                EqualAlloc.budget_for(scenario, float(each), self.delta)
                for each in wanted
            ]
        ).repeat(rows)
        aim = (
            np.log(wanted).repeat(rows) - _WITHIN / 2
        )  # so that rounding exceeds no epsilon
        # of each realisation and level: the ends of the search, and ln epsilon less its aim there
        ends, values = (
            np.array([[-np.inf], [np.inf]]).repeat(start.size, axis=1),
            np.full((2, start.size), np.nan),
        )
        x, lane, turn = np.zeros(start.size), np.arange(start.size), 0
        with np.errstate(divide="ignore", invalid="ignore"):  # values may be infinite
            while lane.size:
                turn += 1
                found, _ = self.take(lane % rows).measure(
                    method, np.exp(start[lane] + x[lane])
                )
                value = np.log(found["epsilon"].fillna(np.inf).to_numpy()) - aim[lane]
                side = np.where(value > 0, 0, 1)
                ends[side, lane], values[side, lane] = x[lane], value
                (low, high), (above, below) = ends, values
                share = (
                    np.clip(np.nan_to_num(above / (above - below), nan=0.5), 0.01, 0.99)
                    if turn % 3
                    else 0.5
                )
                x = np.where(
                    np.isinf(high),
                    low + 2,
                    np.where(np.isinf(low), high - 2, low + share * (high - low)),
                )
                lane = np.flatnonzero(
                    (high - low > _WITHIN / 2)
                    & ~(below >= -_WITHIN)
                    & (abs(x) <= _FARTHEST)
                )
        return np.asarray(
            np.exp(start + np.where(np.isinf(high), np.nan, high)).reshape(-1, rows)
        )

    def measure(
        self, method: Any, spend: FloatArray
    ) -> "tuple[pd.DataFrame, Policy | None]":
        r"""Measure a policy at each :math:`\nu`, or each total of one that chooses who sends; NaN out of reach."""
        import pandas as pd

        scenario, floor, exposure = (
            self.problem.scenario,
            self.problem.min_noise_energy,
            self.problem.exposure,
        )
        lanes, mean = (
            np.broadcast_shapes(spend.shape, floor.shape[:-1]),
            floor.mean(axis=-1),
        )
        measured: dict[str, Any] = dict.fromkeys(_LEAKAGES, np.nan)
        policy: Any = None
        try:
            if not np.all(spend > 0):
                raise BudgetNotReached("a total must exceed the floor")
            if getattr(method, "chooses", False):
                policy, schedule = method.choosing(scenario, self.gain, spend), []
                made: Any = policy.select(scenario, self.gain)._replace(
                    exposure=1.0 if exposure is None else exposure
                )
                found, share = (
                    {"total": made.total, "cost": made.total - mean},
                    made.participation,
                )
            else:
                made = ReceiveScalingProblem(
                    scenario, self.problem.min_gain, spend, exposure
                )
                policy = method(made, self.mean_gain)
                schedule = [policy.schedule(made)]
                full = schedule[0] <= made.min_noise_energy
                found = {"cost": made.cost(*schedule), "full_power": full.mean(axis=-1)}
                found["total"], share = mean + found["cost"], np.ones(1)
        except BudgetNotReached:
            x = np.broadcast_to(spend, lanes).ravel()
            if (
                x.size > 1 and (positive := x > 0).any()
            ):  # in two parts, until only those out of reach are NaN
                lane = np.arange(x.size)
                parts = (
                    np.array_split(lane, 2)
                    if positive.all()
                    else [lane[positive], lane[~positive]]
                )
                pieces = [
                    self.take(part % mean.size).measure(method, x[part])
                    for part in parts
                ]
                whole = pd.concat(
                    [
                        rows.set_axis(part)
                        for (rows, _), part in zip(pieces, parts, strict=True)
                    ]
                )
                return whole.sort_index(), next(
                    (one for _, one in pieces if one is not None), None
                )
        else:
            epsilons = made.epsilons(*schedule, self.accountant, self.delta)
            found |= {"rdp": made.rdp(*schedule)} | over_devices(epsilons)
            found |= {
                "participation": share.mean(axis=-1),
                "participation_min": share.min(axis=-1),
            }
            measured |= _found(policy) | found
        measured |= {
            "dataset": scenario.name,
            "order": scenario.order,
            "delta": self.delta,
            "floor": mean,
        }
        measured |= {
            "floor_max": floor.max(axis=-1),
            "floor_max_round": floor.argmax(axis=-1),
        }
        return pd.DataFrame(
            {
                key: np.broadcast_to(value, lanes).ravel()
                for key, value in measured.items()
            }
        ), policy

    def take(self, rows: NDArray[np.intp]) -> "_Realisations":
        exposure = (
            None if self.problem.exposure is None else self.problem.exposure[rows]
        )
        problem = ReceiveScalingProblem(
            self.problem.scenario, self.problem.min_gain[rows], 1.0, exposure
        )
        return replace(
            self, problem=problem, mean_gain=self.mean_gain[rows], gain=self.gain[rows]
        )
