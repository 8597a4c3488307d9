r"""Both figures of the paper under exact accounting: ``python -m companion make exact``.

The schedules are those of the chapters on MNIST and CIFAR-10: the methods of the figures, tuned in hindsight, on a
hundred realisations.  Beside the :math:`\varepsilon` of the Rényi conversion stands the sharp value
(:eq:`eq:inversion`, without a bracket) of the very same schedules.  A third table has the
methods of the first page, with and without the future, on the fresh realisations of :mod:`companion.causal.fresh`.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor

import numpy as np
import pandas as pd

from adascale.comparison import PolicyBuilder
from adascale.problem import RENYI
from companion.causal import fresh as causal
from companion.methods import METHODS
from companion.privacy.sharp import SharpAccountant
from companion.results import wide

SEEDS = range(100)
DATASETS = ("mnist", "cifar10")
"""The realisations of the figures of a hundred, and their scenarios."""
HEADLINE: dict[str, PolicyBuilder] = {
    name: causal.methods()[name]
    for name in (
        *("Optimal", "ConstantLevel", "Learn", "Learn, hard", "EqualAlloc"),
        *("EstimFuture", *(name + causal.HINDSIGHT for name in causal.TUNED)),
    )
}
"""What the first page compares. The optimum, three that see no future, and the paper's others under its protocol."""
_KEYS = ["policy", "nu", "seed"]
_STORED = ["epsilon", "exact"]


def exact_table(
    dataset: str,
    seeds: Sequence[int] = SEEDS,
    budgets: Sequence[float] | None = None,
    policies: Mapping[str, PolicyBuilder] = METHODS,
    executor: Executor | None = None,
) -> pd.DataFrame:
    r"""Compute the DP leakage of methods by both accountants: ``policy, nu, seed, epsilon, exact``."""
    renyi, sharp = (
        causal.causal_table(
            dataset, seeds, budgets, policies, executor=executor, accountant=accountant
        )
        for accountant in (RENYI, SharpAccountant())
    )
    return renyi[[*_KEYS, "epsilon"]].assign(exact=sharp["epsilon"])


def with_exact(table: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    r"""Add the column ``exact`` to a leakage table, from the committed table of the same schedules."""
    joined = table[_KEYS].merge(stored, on=_KEYS, how="left", validate="one_to_one")
    # seven digits are stored
    if not np.allclose(joined["epsilon"], table["epsilon"], rtol=3e-6, atol=0):
        raise ValueError(
            "the stored epsilon must be that of the table, got another one: schedules differ"
        )
    return table.assign(exact=joined["exact"].to_numpy())


def looseness(table: pd.DataFrame) -> pd.DataFrame:
    r"""Compute how much of AdaScale's lead was the looseness of the Rényi conversion, from a table with both epsilons.

    A row per policy and :math:`\nu`, its index: ``loose``, the geometric mean of ``epsilon`` over ``exact``; ``lead``
    and ``lead_exact``, the geometric mean of the policy's leakage over AdaScale's, by either; ``ahead`` and
    ``ahead_exact``, the share of realisations in which AdaScale leaks less.
    """
    logs = np.log(table.set_index([*_KEYS])[_STORED]).dropna()
    over = logs.sub(logs.loc["AdaScale"]).reindex(logs.index)
    columns = {
        "loose": logs["epsilon"] - logs["exact"],
        "lead": over["epsilon"],
        "lead_exact": over["exact"],
    }
    means = pd.DataFrame(columns).groupby(["policy", "nu"], sort=False).mean()
    ahead = (over > 0).groupby(["policy", "nu"], sort=False).mean()
    return np.exp(means).assign(ahead=ahead["epsilon"], ahead_exact=ahead["exact"])


def leads(loose: pd.DataFrame) -> pd.DataFrame:
    """Of :func:`looseness` a table to read: three rows per policy, a column per level; the arrow is Rényi → exact.

    A lead of 1 is none; *ahead in* counts the realisations in which AdaScale leaks less.  Of AdaScale, whose lead over
    itself is 1, there is the first row alone.
    """
    words = {
        "Rényi over exact": loose.loose.map("{:.2f}".format),
        "lead": loose.lead.map("{:.3f}".format)
        + loose.lead_exact.map(" → {:.3f}".format),
        "ahead in": loose.ahead.map("{:.0%}".format)
        + loose.ahead_exact.map(" → {:.0%}".format),
    }
    long = pd.DataFrame(words).rename_axis(columns="what").stack()
    wide = long.unstack("nu", sort=False).drop(
        [("AdaScale", name) for name in [*words][1:]]
    )
    return wide.rename(columns="{:g}".format)


def committed(executor: Executor | None) -> Iterator[pd.DataFrame]:
    """Yield the committed tables: a data set each, and the headline's."""
    for dataset in DATASETS:
        yield wide(exact_table(dataset, executor=executor), _STORED)
    seeds = causal.SEEDS
    table = exact_table("mnist", seeds, policies=HEADLINE, executor=executor)
    yield wide(table, _STORED)
