r"""Leakage against the noise budget :math:`\nu` as a tidy table (the paper's Figures 1 and 2)."""

from __future__ import annotations

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
    as_method,
    find_method,
    keeps_its_own_promise,
    knowledge,
)
from adascale.errors import BudgetNotReached
from adascale.policies import EqualAlloc, Policy
from adascale.problem import ReceiveScalingProblem
from adascale.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]

_BLOCK = 20  # realisations computed at once; more would only make the progress bar coarser
_MOST_SEEDS = 1_000_000
_TARGETS = ("nu", "total", "epsilon")
_WITHIN, _FARTHEST = 3e-5, 14.0  # of ln epsilon below its target; of ln nu from the budget that guarantees it
_FIRST = ("dataset", "policy", "kind", "knows", "nu", "target_total", "target_epsilon", "seed")
_LEAKAGES = ("cost", "total", "participation", "participation_min", "rdp", "epsilon", "epsilon_max", "full_power")
_MEASURED = ["cost", "floor", "total", "participation", "participation_min", "order", "rdp", "delta", "epsilon"]
_MEASURED += ["epsilon_max", "full_power", "floor_max", "floor_max_round"]


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
) -> pd.DataFrame:
    r"""Tabulate the leakage of policies over noise budgets and channel realisations.

    For an equal total noise energy :math:`W` or :math:`\varepsilon`, the :math:`\nu` of each realisation is found from
    all of its rounds.

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
        With ``total``, :math:`\nu` is :math:`W` less the mean floor.  With ``epsilon`` it is the least :math:`\nu` at
        which no device exceeds :math:`\varepsilon`, to 1e-4.  A policy that chooses who sends is given the total
        :math:`W` in place of :math:`\nu`; by default it is :math:`\nu` plus the mean floor of all devices.
    channel : ChannelModel, optional
        Model of the realisations, also assumed by policies that need one; default :class:`~adascale.channel.Rayleigh`.
    accountant : Accountant, optional
        The accountant of ``epsilon``; default :class:`~adascale.accounting.RenyiAccountant`.
    delta : float, in (0, 1)

    Returns
    -------
    pandas.DataFrame
        One row per ``dataset, policy``, level and ``seed``: ``kind, knows``
        (:func:`~adascale.comparison.knowledge`); ``nu`` and ``target_total`` or ``target_epsilon``; the parameters that
        were found; ``cost``; ``floor``, the mean over rounds; ``total``, their sum; ``participation`` (mean over
        devices) and ``participation_min``; ``order, rdp`` (nats: sum over rounds, mean over devices); ``delta,
        epsilon`` (mean over devices) and ``epsilon_max``, the largest; ``full_power``, the share of rounds at the power
        limit; ``floor_max, floor_max_round``, the largest floor and its round.  Cost and leakages are NaN where the
        target cannot be reached.
    """
    import pandas as pd  # slow to import
    from tqdm import tqdm

    check.one_of("target", target, *_TARGETS)
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
        chosen = {name: method for name, method in every if not keeps_its_own_promise(method)}
    model, account = channel or Rayleigh(), accountant or RenyiAccountant()
    methods = {name: as_method(each, model) for name, each in chosen.items()}
    key = "nu" if target == "nu" else f"target_{target}"
    rows, labels = [], {}
    parameters: dict[str, None] = {}  # an ordered set
    with tqdm(total=len(methods) * len(seeds), disable=not progress, delay=1, unit="run", desc=scenario.name) as bar:
        for block in (seeds[start : start + _BLOCK] for start in range(0, len(seeds), _BLOCK)):
            if any(getattr(each, "chooses", False) for each in methods.values()):
                drawn = model.draw(scenario.num_devices, scenario.num_rounds, block)
                gain, path_loss, least = drawn.gain, drawn.path_loss, scenario.min_gain(drawn.gain)
            else:  # no policy looks at the gains of all devices
                least, path_loss = gain, _ = model.min_gains(scenario, block)
            problem = ReceiveScalingProblem(scenario, least, wanted[:, None])
            known = (problem.min_noise_energy, scenario.mean_gain(path_loss), gain)
            realisations = _Realisations(scenario, account, delta, problem.min_gain, *known)
            for name, method in methods.items():
                bar.set_postfix_str(name)
                part, policy = realisations.compare(method, target, wanted)
                kind, knows = knowledge(method)
                of = {"policy": name, "kind": kind, "knows": knows, "seed": block * wanted.size}
                rows.append(part.assign(**of, **{key: wanted.repeat(len(block))}))
                if policy is not None:
                    found = _found(policy)
                    if taken := {*_FIRST, *_MEASURED} & found.keys():
                        raise ValueError(f"policy {name} must not tune {min(taken)!r}, which is a column of the table")
                    parameters |= dict.fromkeys(found)
                    labels[name] = policy.label if policy.label and name == type(policy).__name__ else name
                bar.update(len(block))
    first = [name for name in _FIRST if not name.startswith("target") or name == key]
    table = pd.concat([each.reindex(columns=[*first, *parameters, *_MEASURED]) for each in rows])
    rank = {name: i for i, name in enumerate(methods)}
    keys = ["policy", key, "seed"]
    table = table.sort_values(keys, key=lambda x: x.map(rank) if x.name == "policy" else x, ignore_index=True)
    table.attrs["labels"] = labels
    return table


def _found(policy: Policy) -> dict[str, Any]:
    """Return the parameters that were tuned, or given in their place."""
    names = (*policy.tuned, *getattr(policy, "fixed_by", ())[:1])
    return {name: value for name in names if (value := getattr(policy, name)) is not None}


@dataclass(frozen=True)
class _Realisations:
    """Realisations of the channel, one per row of the arrays, and what is measured of a policy on them."""

    scenario: Scenario
    accountant: Accountant
    delta: float
    min_gain: FloatArray
    floor: FloatArray
    mean_gain: FloatArray
    gain: FloatArray

    def compare(self, method: Any, target: str, wanted: FloatArray) -> tuple[pd.DataFrame, Policy | None]:
        """Measure a policy at each level of the target in each realisation."""
        chooses = getattr(method, "chooses", False)
        mean = self.floor.mean(axis=-1)
        offset = {("nu", True): mean, ("total", False): -mean}.get((target, chooses), 0.0)
        spend = np.asarray(wanted[:, None] + offset)
        if target == "epsilon" and (not chooses or method.takes_total):
            spend = self.least(method, wanted)
        table, policy = self.measure(method, np.where(spend > 0, spend, wanted[:, None]))
        spend = np.broadcast_to(spend, (wanted.size, mean.size)).ravel()
        table["nu"] = table["cost"] if chooses else spend
        unknown = ["nu", *_LEAKAGES, *({} if policy is None else _found(policy))]
        table.loc[~(spend > 0), unknown] = np.nan
        return table, policy

    def least(self, method: Any, wanted: FloatArray) -> FloatArray:
        r"""Find the least :math:`\nu`, or total, at which no device exceeds each epsilon; NaN where there is none."""
        rows = len(self.floor)
        start = np.log([EqualAlloc.budget_for(self.scenario, float(each), self.delta) for each in wanted]).repeat(rows)
        aim = np.log(wanted).repeat(rows) - _WITHIN / 2  # so that rounding exceeds no epsilon
        low, high, x = np.full(start.size, -np.inf), np.full(start.size, np.inf), np.zeros(start.size)
        above, below = np.full(start.size, np.nan), np.full(start.size, np.nan)  # ln epsilon less its aim at both ends
        lane, turn = np.arange(start.size), 0
        with np.errstate(divide="ignore", invalid="ignore"):  # values may be infinite
            while lane.size:
                turn += 1
                at = x[lane]
                found, _ = self.take(lane % rows).measure(method, np.exp(start[lane] + at))
                value = np.log(found["epsilon_max"].fillna(np.inf).to_numpy()) - aim[lane]
                over = value > 0
                low[lane[over]], above[lane[over]] = at[over], value[over]
                high[lane[~over]], below[lane[~over]] = at[~over], value[~over]
                share = np.clip(np.nan_to_num(above / (above - below), nan=0.5), 0.01, 0.99) if turn % 3 else 0.5
                x = np.where(np.isinf(high), low + 2, np.where(np.isinf(low), high - 2, low + share * (high - low)))
                lane = np.flatnonzero((high - low > _WITHIN / 2) & ~(below >= -_WITHIN) & (abs(x) <= _FARTHEST))
        return np.asarray(np.exp(start + np.where(np.isinf(high), np.nan, high)).reshape(-1, rows))

    def measure(self, method: Any, spend: FloatArray) -> tuple[pd.DataFrame, Policy | None]:
        r"""Measure a policy at each :math:`\nu`, or each total of one that chooses who sends; NaN out of reach."""
        import pandas as pd

        lanes, mean = np.broadcast_shapes(spend.shape, self.floor.shape[:-1]), self.floor.mean(axis=-1)
        measured: dict[str, Any] = dict.fromkeys(_LEAKAGES, np.nan)
        policy: Any = None
        try:
            if getattr(method, "chooses", False):
                policy = method.choosing(self.scenario, self.gain, spend)
                made: Any = policy.select(self.scenario, self.gain)
                share, schedule = made.participation, []
                found = {"total": made.total, "cost": made.total - mean, "participation": share.mean(axis=-1)}
                found["participation_min"] = share.min(axis=-1)
            else:
                made = ReceiveScalingProblem(self.scenario, self.min_gain, spend)
                policy = method(made, self.mean_gain)
                eta = policy.schedule(made)
                schedule, cost = [eta], made.cost(eta)
                found = {"total": mean + cost, "cost": cost, "full_power": (eta == made.max_eta).mean(axis=-1)}
                found |= {"participation": 1.0, "participation_min": 1.0}
        except BudgetNotReached:
            if np.prod(lanes) > 1:  # one at a time, so that only those out of reach are NaN
                each = [(np.broadcast_to(spend, lanes)[lane], lane[-1:]) for lane in np.ndindex(lanes)]
                parts = [self.take(np.array(r)).measure(method, np.array([x])) for x, r in each]
                whole = pd.concat([rows for rows, _ in parts], ignore_index=True)
                return whole, next((one for _, one in parts if one is not None), None)
        else:
            epsilon, largest = made.device_epsilons(*schedule, self.accountant, self.delta)
            measured |= _found(policy) | found
            measured |= {"rdp": made.rdp(*schedule), "epsilon": epsilon, "epsilon_max": largest}
        constant = {"dataset": self.scenario.name, "order": self.scenario.order, "delta": self.delta, "floor": mean}
        largest_floor = {"floor_max": self.floor.max(axis=-1), "floor_max_round": self.floor.argmax(axis=-1)}
        columns = {**measured, **constant, **largest_floor}
        return pd.DataFrame({key: np.broadcast_to(value, lanes).ravel() for key, value in columns.items()}), policy

    def take(self, rows: NDArray[np.intp]) -> _Realisations:
        """Return these realisations."""
        return replace(self, **{name: getattr(self, name)[rows] for name in ("min_gain", "floor", "mean_gain", "gain")})
