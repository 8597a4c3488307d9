"""Results of trainings realisation by realisation: tables by seed, and differences with their intervals as text."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
from numpy.typing import ArrayLike

from adascale.statistics import Interval, interval
from companion.formatting import fixed

ARM = ("reading", "policy", "nu")
"""The columns that distinguish the trainings of one realisation."""

KEPT = 1e-6
"""An excess below this share of the budget does not count."""


def by_seed(table: pd.DataFrame, arm: Sequence[str] = ARM) -> pd.DataFrame:
    """Arrange a sweep's accuracies in per cent: a row per seed, a column per arm, which the columns ``arm`` name."""
    wide = table.pivot(index="seed", columns=list(arm), values="test_accuracy")
    return 100 * wide.sort_index(axis=1)


def band(values: ArrayLike, digits: int = 1, sign: bool = False) -> str:
    """Mean and 95 % t interval as text, such as ``−1.2 [−2.0, −0.4]``; with ``sign``, a plus where it is positive."""
    centre, low, high = (
        fixed(end, f"{'+' if sign else ''}.{digits}f") for end in interval(values)
    )
    return f"{centre} [{low}, {high}]"


def intervals(
    groups: Iterable[tuple[Any, ArrayLike]], average: Callable[..., Interval] = interval
) -> pd.DataFrame:
    """Average groups of values, each with its key: a row per key, with ``centre, low, high`` of the 95 % interval."""
    found = {key: average(values) for key, values in groups}
    return pd.DataFrame(found, [*Interval._fields]).T


def with_ends(name: str, found: Interval) -> dict[str, float]:
    """Name a mean and the ends of its interval, such as ``fall, fall_low, fall_high``."""
    return dict(zip((name, f"{name}_low", f"{name}_high"), found, strict=True))


def promises(table: pd.DataFrame) -> pd.DataFrame:
    r"""Summarise cost and leakage relative to the optimum per policy, :math:`\nu` and, if there is one, ``world``.

    ``realisations``; ``cost, spread`` (mean and standard deviation of cost over :math:`\nu`); ``over`` (share of
    realisations above 1); ``excess`` (the largest, or 0); and of the ratios ``rdp`` and ``epsilon`` to the optimum's on
    the same realisation the mean, and the largest, ``..._worst``.  Realisations with a cost of NaN are left out.
    """
    world = [name for name in ("world",) if name in table]
    same = [*world, "nu", "seed"]
    best = table.loc[table["policy"] == "Optimal", [*same, "rdp", "epsilon"]]
    joined = table.dropna(subset=["cost"]).merge(
        best, on=same, how="left", suffixes=("", "_best"), validate="many_to_one"
    )
    cost = joined["cost"] / joined["nu"]
    over = cost > 1 + KEPT
    ratios = {
        name: joined[name] / joined[f"{name}_best"] for name in ("rdp", "epsilon")
    }
    shares = joined.assign(
        cost=cost, over=over, excess=(cost - 1).where(over, 0.0), **ratios
    )
    return (
        shares.groupby([*world, "policy", "nu"], sort=False)
        .agg(
            realisations=("seed", "size"),
            cost=("cost", "mean"),
            spread=("cost", "std"),
            over=("over", "mean"),
            excess=("excess", "max"),
            rdp=("rdp", "mean"),
            rdp_worst=("rdp", "max"),
            epsilon=("epsilon", "mean"),
            epsilon_worst=("epsilon", "max"),
        )
        .reset_index()
    )
