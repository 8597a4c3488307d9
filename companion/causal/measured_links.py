r"""Every method on measured links: ``python -m companion make links --source CLONE``.

The links are those of :mod:`companion.causal.link_data`.  No measurement is part of this repository; what is, is what
the methods did.  None without the future sees a round before it comes: what it believes is taken from earlier rounds.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from adascale import accounting, channel, policies
from adascale.channel import Rayleigh
from adascale.comparison import PolicyBuilder, TunedOnModel
from adascale.errors import BudgetNotReached
from adascale.policies import Policy
from adascale.problem import Problem
from adascale.scenario import FloatArray, Scenario
from companion.causal.fresh import CAUSAL, HINDSIGHT, TUNED, learn_with_prior
from companion.causal.link_data import (
    DEVICES,
    Realisation,
    cc1000_dbm,
    evidence,
    groups,
    michigan,
    realisations,
)
from companion.methods import METHODS
from companion.privacy.sharp import SharpAccountant
from companion.results import wide
from companion.summary import intervals

BUDGET = 0.04
SCALES = (0.1, 10.0, np.nan)
"""Other median floors that are tried, over that of the paper's channel; ``nan`` is gains as measured."""
_FORESEEN = (
    "Optimal",
    "ConstantLevel",
    "Learn",
    "Learn, hard",
    "EqualAlloc",
    "AdaScale",
    "AdaScale, warm",
)
EXACT = (*_FORESEEN, *(name + HINDSIGHT for name in TUNED))
"""The policies whose exact epsilon is computed, where floors are those of the paper's channel."""

SCALED = "Michigan, broadcasts"
"""The links that are scaled."""
_KEYS = ["trace", "group", "window"]
_STORED = ("cost", "rdp", "epsilon", "exact")


@cache
def _reference_floor():
    """Return the median floor of the paper's channel, over rounds and 200 placements of ten devices."""
    scenario = Scenario.mnist()
    realisations = channel.draw(DEVICES, 100, range(200))
    return np.median(scenario.floor(scenario.min_gain(realisations.gain)))


def problem_of(measured: Realisation, scale: float = 1.0) -> tuple[Problem, FloatArray]:
    """Return the problem of the evaluated rounds at ``BUDGET`` and the gains of the past, both rescaled.

    The scale is the median floor of the past relative to the paper's channel's, as if all devices had more or less
    power. With ``nan``, gains stay as measured, with the power of the paper.
    """
    scenario = Scenario.mnist()  # with as many devices
    factor = 1.0
    if not np.isnan(scale):
        median = np.median(scenario.floor(scenario.min_gain(measured.past)))
        factor = median / (scale * _reference_floor())
    min_gain = scenario.min_gain(factor * measured.gain)
    return Problem(scenario, min_gain, BUDGET), factor * measured.past


def methods(
    scenario: Scenario, past: FloatArray
) -> dict[str, Callable[[Problem], Policy]]:
    r"""Return all methods by name: the optimum, online policies, and policies tuned on the evaluated rounds.

    The assumed distribution is that of the past floors. After a comma, ``Rayleigh`` means Rayleigh fading with the past
    mean gains, and ``seen`` the coherence of the floors so far (:func:`~adascale.policies.seen_coherence`).
    """
    mean_gain = past.mean(axis=-1) / scenario.batch_second_moment
    assumed = channel.Recorded(gain=past)

    def built(method, assumed=assumed):
        return lambda problem: method(problem, mean_gain, assumed)

    first = (
        *("AdaScale", "PowerControl", "LyapunovPowerControl", "EstimFuture"),
        *("EqualAlloc", "Learn", "Learn, hard", "DynamicProgramme, hard"),
    )
    by_law = (
        *("ConstantLevel", "ReSolve", "ReSolve, hard"),
        *("AdaScale, warm", "Learn, prior", "Learn, prior, hard"),
    )
    seen: dict[str, Any] = {"budget_mode": "hard", "coherence": "seen"}
    by_name: dict[str, PolicyBuilder] = {
        "Optimal": METHODS["Optimal"],
        **{name: CAUSAL[name] for name in first},
        **{name + HINDSIGHT: method for name, method in TUNED.items()},
        "ReSolve, hard, seen": TunedOnModel(policies.ReSolve, **seen),
        "Learn, prior, hard, seen": partial(learn_with_prior, **seen),
        **{name: CAUSAL[name] for name in by_law},
    }
    return {name: built(method) for name, method in by_name.items()} | {
        f"{name}, Rayleigh": built(CAUSAL[name], Rayleigh()) for name in by_law
    }


def links_table(
    measured: Iterable[Realisation],
    scales: Sequence[float] = (1.0,),
) -> pd.DataFrame:
    r"""Cost and leakage of every method on every realisation, a row each.

    ``cost`` over :math:`\nu`; ``rdp``, ``epsilon`` and ``exact`` over those of the optimum at :math:`\nu`.  ``exact``
    is computed of :data:`EXACT` at the scale 1; all are NaN where a method finds no parameter.
    """
    rows = []
    # of leakages near 0, too
    account = accounting.RenyiAccountant(tuple(accounting.order_grid(4096, 1.001)))
    work = [*product(measured, scales)]
    for realisation, scale in tqdm(work, disable=None, unit="realisation"):
        problem, past = problem_of(realisation, scale)
        key = realisation.key | {"scale": scale}
        for name, method in methods(problem.scenario, past).items():
            row = key | {"policy": name}
            rows.append(row)
            try:
                w = method(problem).schedule(problem)
            except BudgetNotReached:
                continue
            figures = {
                "cost": problem.cost(w),
                "rdp": problem.rdp(w),
                "epsilon": problem.epsilon(w, account),
            }
            if scale == 1 and name in EXACT:
                figures["exact"] = problem.epsilon(w, SharpAccountant())
            if name == "Optimal":
                best = figures | {"cost": BUDGET}
            row |= {each: float(figures[each] / best[each]) for each in figures}
    return pd.DataFrame(rows)


def _links_statistics(measured):
    """Compute what the links are like, in the rounds that are evaluated, a row per realisation.

    ``links_spread_db``, the median over links of the standard deviation; ``floor_spread_db``, that of the floors;
    ``drift_db``, the median floor over that of the past; ``lag1``, the autocorrelation of the floors from round to
    round; ``changed``, the share of rounds in which a gain differs from the round before; ``same``, that in which the
    device that is the weakest most often is the weakest.
    """
    rows = []
    for realisation in measured:
        gain = realisation.gain
        floor, before = (
            -10 * np.log10(part.min(axis=0)) for part in (gain, realisation.past)
        )
        changed = (np.diff(gain, axis=1) != 0).any(axis=0)
        row = realisation.key | {
            "links_spread_db": np.median((10 * np.log10(gain)).std(axis=1)),
            "floor_spread_db": floor.std(),
            "drift_db": np.median(floor) - np.median(before),
            "lag1": _lag1(10 ** (floor / 10)),
            "changed": changed.mean(),
            "same": np.bincount(gain.argmin(axis=0)).max() / gain.shape[1],
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _lag1(values):
    """Return the sample autocorrelation from one round to the next; NaN of a constant."""
    off = values - values.mean()
    total = off @ off
    return off[1:] @ off[:-1] / total if total > 0 else np.nan


_FIRST_LOOK = ("Optimal", "AdaScale" + HINDSIGHT, "PowerControl" + HINDSIGHT)


def _first_look(folder):
    """Return the paper's two best methods, tuned in hindsight on the first five groups, by what one takes the file for.

    A round is every sixth sample; ``unit`` is ``CC1000``, or ``-dBm`` where a count is taken for a decibel below a
    milliwatt.  A row each and group, with epsilon over the optimum's.
    """
    rows = []
    for unit, convert in (("CC1000", cc1000_dbm), ("-dBm", np.negative)):
        links = groups(michigan(folder, convert))[:5]
        for number, group in enumerate(links, start=1):
            gain = group[:, : 6 * 500 : 6]
            problem, past = problem_of(Realisation("", "", 0, gain, gain))
            by_name = methods(problem.scenario, past)
            best, *others = (
                problem.epsilon(by_name[name](problem).schedule(problem))
                for name in _FIRST_LOOK
            )
            rows.append((unit, number, *(each / best for each in others)))
    return pd.DataFrame(rows, columns=["unit", "group", "AdaScale", "PowerControl"])


SHOWN = ("Optimal", "AdaScale, warm", "Learn, hard", "ReSolve, hard")
"""The schedules of the page's figure."""


def example(measured: Realisation) -> pd.DataFrame:
    """Round by round: the weakest, the median and the strongest link in dB, the floor, and what methods make of it."""
    problem, past = problem_of(measured)
    level = 10 * np.log10(measured.gain)
    by_name = methods(problem.scenario, past)
    energy = {name: by_name[name](problem).schedule(problem) for name in SHOWN}
    return pd.DataFrame(
        {
            "round": np.arange(problem.num_rounds),
            "weakest_db": level.min(axis=0),
            "median_db": np.median(level, axis=0),
            "strongest_db": level.max(axis=0),
            "floor": problem.min_noise_energy,
        }
        | energy
    )


def summary(table: pd.DataFrame) -> pd.DataFrame:
    r"""Return means over realisations of each data set and policy.

    ``cost`` over :math:`\nu`, ``over``, the share above :math:`\nu`, and ``most``; for ``rdp`` and ``epsilon`` over the
    optimum's the mean, and ``_worst``; the median of ``rdp``, and the 95 % t interval of ``epsilon`` over groups, whose
    windows are averaged before; the mean of ``exact``.
    """
    kept = table.dropna(subset=["cost"])
    by = ["trace", "policy"]
    groups = kept.assign(over=kept["cost"] > 1 + 1e-6).groupby(by, sort=False)
    windows = kept.groupby([*by, "group"])["epsilon"].mean()
    ends = intervals(windows.groupby(by))
    means = groups[[*_STORED, "over"]].mean()
    return means.assign(
        rdp_worst=groups["rdp"].max(),
        epsilon_worst=groups["epsilon"].max(),
        most=groups["cost"].max(),
        rdp_median=groups["rdp"].median(),
        epsilon_low=ends["low"],
        epsilon_high=ends["high"],
    ).reset_index()


def committed(source: Path) -> list[pd.DataFrame]:
    """Return the committed tables, of a clone at the commit that ``companion/results.toml`` names."""
    measured = realisations(source)
    table = links_table(measured)
    server = [realisation for realisation in measured if realisation.trace == SCALED]
    scaled = pd.concat([table[table["trace"] == SCALED], links_table(server, SCALES)])
    by_scale = scaled.groupby(["scale", "policy"], sort=False, dropna=False)
    in_order = {
        name: pd.CategoricalDtype(table[name].unique(), ordered=True) for name in _KEYS
    }
    return [
        wide(table.astype(in_order), _STORED, _KEYS),
        by_scale["epsilon"].mean().reset_index(),
        _links_statistics(measured),
        evidence(michigan(source)),
        _first_look(source),
        example(server[0]),
    ]
