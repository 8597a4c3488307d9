"""What the chapter on the benchmarks says in numbers, by the names under which it glues them, and its tables.

What is claimed of these numbers stands in ``companion/tests/test_benchmarked.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adascale.comparison import Method, TunedOnRealisation, leakage_table
from adascale.comparison.shi_tuning import LyapunovMatch
from adascale.policies import EstimFuture, Optimal
from adascale.problem import ReceiveScalingProblem
from adascale.statistics import log_interval
from companion.causal import fresh as causal
from companion.claims import compare
from companion.figures.style import label_of
from companion.formatting import Texts, number, rounded_up
from companion.leakage.benchmarks import FullPower, late_share
from companion.leakage.published import COMMIT, forecast

FloatArray = NDArray[np.float64]

_DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
_NBSP = "\N{NO-BREAK SPACE}"


def percent(value: float, digits: int = 0) -> str:
    """A share in per cent, without the sign."""
    return f"{100 * value:.{digits}f}"


def protocol_table(protocols: pd.DataFrame) -> pd.DataFrame:
    """Of :func:`~companion.leakage.benchmarks.both_protocols` one row per method: epsilon over Optimal's."""
    columns = {}
    for nu, rows in protocols.groupby("nu"):
        rows = rows.droplevel("nu")
        columns[f"in hindsight, ν = {nu:g}"] = rows["in_hindsight"].map("{:.3f}".format)
        columns[f"unseen, ν = {nu:g}"] = rows["unseen"].map("{:.3f}".format)
        columns[f"deviation of cost, ν = {nu:g}"] = rows["spread"].map("{:.1%}".format)
    names = {"ConstantLevel": "constant level"}
    table = pd.DataFrame(columns).loc[protocols.index.unique("policy")]
    return table.rename(index=lambda name: names.get(name, label_of(name))).rename_axis(index=None)


def of_protocols(protocols: pd.DataFrame) -> Texts:
    """How near a constant comes, what hindsight was worth, and how much an unseen cost deviates."""
    constant = protocols.loc["ConstantLevel"]
    tuned = protocols[protocols.index.isin(causal.TUNED, level="policy")]
    loss = (tuned["unseen"] / tuned["in_hindsight"] - 1).groupby("policy").max()
    first = protocols.index.get_level_values("nu").min()
    found = {
        "constant": rounded_up(100 * abs(constant["unseen"] - 1).max(), 1),
        "constant-spread": rounded_up(100 * constant["spread"].max(), 0),
        "draws": f"{causal.DRAWS}",
    }
    for name, policy, digits in (
        ("ada", "AdaScale", 1),
        ("power", "PowerControl", 1),
        ("queue", "LyapunovPowerControl", 0),
    ):
        found[f"loss-{name}"] = rounded_up(100 * loss[policy], digits)
        found[f"deviation-{name}"] = percent(tuned["spread"][policy, first])
    return found


def of_estim_future(
    many: ReceiveScalingProblem,
    mean_gain: FloatArray,
    later_floor: Mapping[str, FloatArray],
    start: float,
    seeds: FloatArray,
) -> Texts:
    r"""What both readings of EstimFuture assume and leak, and when "devices" spends its budget.

    Parameters
    ----------
    many : ReceiveScalingProblem
        Lanes (budgets, realisations).
    mean_gain : numpy.ndarray
        Shape (realisations, M).
    later_floor : mapping
        The floor that each reading expects, shape (realisations,).
    start : float
        The first level over the water level, in the realisation that is drawn.
    seeds : numpy.ndarray
        The realisations.
    """
    below = {name: (many.min_noise_energy < each[:, None]).mean() for name, each in later_floor.items()}
    methods: dict[str, Method | type] = {"Optimal": Optimal}
    methods |= {name: TunedOnRealisation(EstimFuture, estimate=name) for name in later_floor}
    table = leakage_table(many.scenario, np.ravel(many.budget), seeds, methods)
    spent = many.noise_energy(EstimFuture(mean_gain, "devices").schedule(many)) - many.min_noise_energy
    late = spent[..., -many.scenario.num_rounds // 20 :].sum(axis=-1) / spent.sum(axis=-1)
    found = {
        "below-devices": percent(below["devices"]),
        "ef-start": f"{start:.2f}",
        "ef-late": percent(float(np.median(late[0]))),
    }
    for name in later_floor:
        ratio = compare(table, "rdp", name, "Optimal")["ratio"]
        found |= {f"ef-{name}-low": f"{ratio.iloc[0]:.2g}", f"ef-{name}-high": f"{ratio.iloc[-1]:.2f}"}
    return found


def published_table(published: pd.DataFrame) -> pd.DataFrame:
    """Of the committed comparison with the authors' scripts the online plans, as a table to read."""
    rows = published[published["what"] == "online plans"]
    columns = {
        "clip": rows["clip"].map("{:g}".format),
        "rounds": rows["rounds"].map("{:.0f}".format),
        "plans compared": rows["compared"].map("{:.0f}".format),
        "ours, solved exactly": rows["solved"].map(lambda each: number(each, 1)),
        "stopped, least": rows["stopped_low"].map(number),
        "stopped, most": rows["stopped_high"].map("{:.2f}".format),
        "spent, least": rows["spent_low"].map("{:.2f}".format),
        "spent, most": rows["spent_high"].map("{:.2f}".format),
    }
    return pd.DataFrame(columns).set_index("clip").rename(index="clip {}".format).rename_axis(index=None)


def of_published(published: pd.DataFrame) -> Texts:
    """How the authors' scripts agree with their equations and with ours."""
    online = published[published["what"] == "online plans"]
    longest = published[published["rounds"] == 30]
    today = forecast([2.0], 1, rice=5.0)[1, 0] - forecast([1.0], 1, rice=5.0)[1, 0]
    return {
        "matlab-commit": COMMIT[:7],
        "matlab-budget": number(published.loc[published["what"] == "budgets", "solved"].item(), 1),
        "matlab-plan": number(online["solved"].max(), 1),
        "matlab-off": f"{1e-7 / longest['stopped_low'].min():.0f}",
        "matlab-today": percent(today),
        "matlab-r": f"{online['contraction'].iloc[0]:.2f}",
        "matlab-low": f"{online['spent_low'].min():.1f}",
        "matlab-high": f"{online['spent_high'].max():.1f}",
    }


def of_late_release(many: ReceiveScalingProblem, eta: FloatArray) -> Texts:
    r"""What the last rounds of a schedule leak, and what is spared where they are held at the optimum's scaling.

    Parameters
    ----------
    many : ReceiveScalingProblem
        Lanes (3 budgets, realisations); the second budget's first realisation is the one that is drawn.
    eta : numpy.ndarray
        The schedule of PowerControl, shape (3, realisations, T).
    """
    optimal, T = Optimal().schedule(many), many.scenario.num_rounds
    last = late_share(many, eta, T // 100)
    median = np.median(last, axis=-1)
    excess = eta.sum(axis=-1) / optimal.sum(axis=-1) - 1
    held = eta[-1].copy()
    held[:, -T // 20 :] = np.minimum(held[:, -T // 20 :], optimal[-1][:, -T // 20 :])
    end = ReceiveScalingProblem(many.scenario, many.min_gain, float(np.ravel(many.budget)[-1]))
    least = end.dp_epsilon(optimal[-1])
    spared = [log_interval(end.dp_epsilon(each) / least).centre for each in (eta[-1], held)]
    return {
        "late-one": percent(last[1, 0]),
        "late-low": percent(median[0]),
        "late-mid": percent(median[1]),
        "late-high": percent(median[-1]),
        "excess": percent(float(np.median(excess[0]))),
        "spared-with": f"{spared[0]:.2f}",
        "spared-without": f"{spared[1]:.2f}",
    }


def of_pairs(pairs: pd.DataFrame, rounds: FullPower) -> Texts:
    """How much the choice of a pair matters, where the kindest lies, and what its needless rounds at full power leak.

    Parameters
    ----------
    pairs : pandas.DataFrame
        Of :func:`~companion.leakage.shi_pairs.pair_table`.
    rounds : FullPower
        Of the kindest pairs' schedules, lanes (budgets, realisations).
    """
    over = pairs.groupby("lane")["over"]
    spread = over.max() / over.min()
    best = pairs.loc[pairs.groupby("lane")["epsilon"].idxmin()]
    found = {
        "spread-min": f"{spread.min():.1f}",
        "spread-max": f"{spread.max():.0f}",
        "at-one": percent(best["relative_rate"].between(0.97, 1.03).mean()),
        "opening-high": percent(rounds.first[-1].max()),
        "opening-over-high": f"{(rounds.first[-1] > 0.5).sum()}",
    }
    for name, i in (("low", 0), ("high", -1)):
        found |= {
            f"full-{name}": percent(rounds.rounds[i].mean()),
            f"full-optimal-{name}": percent(rounds.optimal[i].mean()),
            f"needless-{name}": percent(rounds.needless[i].mean(), 1),
            f"carried-{name}": percent(rounds.carried[i].mean()),
            f"early-{name}": percent(rounds.early[i].sum() / rounds.carried[i].sum()),
        }
    return found


def starts_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Of :func:`~companion.leakage.shi_pairs.lyapunov_starts`, by data set, a table to read.

    Parameters
    ----------
    cells : pandas.DataFrame
        With a column ``data``.
    """
    text = cells["ratio"].map("{:.3f}".format) + (100 * cells["gone"]).map(f" ({{:.0f}}{_NBSP}%)".format)
    shown = cells.assign(
        text=text.str.replace("-", "−").where(cells["start"] != "empty", cells["ratio"].map("{:.3f}".format))
    )
    shown = shown[shown["nu"].isin([0.01, 0.04, 0.16, 0.32])]
    wide = shown.pivot(index="start", columns=["data", "nu"], values="text").loc[cells["start"].unique()]
    named = [f"{_DATA.get(data, data)}, ν{_NBSP}={_NBSP}{nu:g}" for data, nu in wide.columns]
    return wide.set_axis(named, axis=1).rename(index=_start_in_words).rename_axis(index=None)


def _start_in_words(start: str) -> str:
    fill, comma, multiple = start.partition(", ")
    return fill + (f", V{_NBSP}={_NBSP}{multiple}{_NBSP}η̄³" if comma else "")


def of_starts(cells: pd.DataFrame, matched: LyapunovMatch, own: pd.DataFrame) -> Texts:
    r"""How much of the excess of the kindest pair goes with its start, with 95 % intervals.

    Parameters
    ----------
    cells : pandas.DataFrame
        See :func:`starts_table`.
    matched : LyapunovMatch
        The kindest pairs on MNIST.
    own : pandas.DataFrame
        A leakage table with AdaScale and Optimal on the same realisations.
    """
    row = cells.set_index(["data", "start", "nu"]).sort_index()
    first, last = cells["nu"].min(), cells.loc[cells["data"] == "mnist", "nu"].max()
    found = {"far": f"{(matched.penalty / matched.rate**3 > 1e3).sum()}", "of-far": f"{matched.rate.size}"}
    for name, data, start, nu in (
        ("low", "mnist", "filled", first),
        ("high", "mnist", "filled", last),
        ("thirty", "mnist", "filled, 30", first),
        ("thirty-high", "mnist", "filled, 30", last),
        ("three", "mnist", "filled, 3", first),
        ("alone", "mnist", "empty, 30", first),
        ("cifar", "cifar10", "filled", first),
        ("rest", "mnist", "at rest", first),
        ("rest-high", "mnist", "at rest", last),
        ("rest-thirty", "mnist", "at rest, 30", first),
        ("cifar-rest", "cifar10", "at rest", first),
    ):
        low, middle, high = sorted(abs(100 * row.loc[(data, start, nu), ["gone_low", "gone", "gone_high"]]))
        found[f"gone-{name}"] = f"{middle:.0f} [{low:.0f}, {high:.0f}]"
    ada = compare(own, "epsilon", "AdaScale", "Optimal").set_index("nu")["ratio"]
    found["ada-04"] = f"{ada.loc[0.04]:.3f}"
    for name, data in (("fill", "mnist"), ("fill-cifar", "cifar10")):
        found[name] = f"{row.loc[(data, 'filled', first), 'fill']:.1f}"
    for name, start in (("thirty", "filled, 30"), ("ten", "filled, 10")):
        found[f"{name}-04"] = f"{row.loc[('mnist', start, 0.04), 'ratio']:.3f}"
    return found


def orders_table(by_order: pd.DataFrame) -> pd.DataFrame:
    """Of :func:`~companion.leakage.benchmarks.order_table`, by data set: a row an order, geometric means and ranges."""
    wide = by_order.groupby(["data", "nu"]).agg(
        lambda values: f"{log_interval(values).centre:.3f} ({values.min():.2f} to {values.max():.2f})"
    )
    named = [f"{_DATA.get(data, data)}, ν = {nu:g}" for data, nu in wide.index]
    return wide.set_axis(named).T.rename(index="α = {}".format).rename_axis(index=None)


def of_orders(by_order: pd.DataFrame, own: pd.DataFrame) -> Texts:
    """By how much another order moves AdaScale's epsilon, and how far it is from the optimum's at the smallest nu."""
    moved, first = abs(by_order - 1), own["nu"].min()
    ada = compare(own, "epsilon", "AdaScale", "Optimal").set_index("nu")["ratio"]
    low = by_order.xs("mnist", level="data").xs(first, level="nu")
    return {
        "order-worst": percent(moved.to_numpy().max()),
        "order-near": percent(moved[[2, 4]].to_numpy().max()),
        "gap-low": percent(ada[first] - 1),
        "order-mnist-low": percent(log_interval(low[32]).centre - 1),
    }
