"""One leakage figure of the paper, recomputed and evaluated: what the chapters on MNIST and CIFAR-10 share.

The tables are :class:`EvaluatedFigure`; what the chapters say in numbers are its texts, by the names under which they
are glued.  What is claimed of the paper's own levels of nu stands in ``companion/tests/test_verdicts.py``: another
level gives other figures here, and no failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from adascale import presets
from adascale.comparison import leakage_table
from adascale.scenario import Scenario
from adascale.statistics import log_interval
from companion import results as committed
from companion.causal import fresh as causal
from companion.claims import CLOSE, QUOTED_ACCURACY, compare, holm, paper_claims, side_by_side, verdicts
from companion.figures.style import LABELS, label_of
from companion.formatting import Texts
from companion.leakage import exact
from companion.methods import METHODS, VARIANTS
from companion.reported.trainings import as_stated
from companion.summary import promises
from companion.training.accuracy import accuracy_claims

UNSEEN = {
    "AdaScale" + causal.HINDSIGHT: "AdaScale, in hindsight",
    "AdaScale": "AdaScale",
    "AdaScale, warm": "AdaScale, warm start",
    "ConstantLevel": "constant level",
    "Learn": "learning",
    "Learn, hard": "learning, hard allowance",
} | {name: LABELS[name] for name in ("EstimFuture", "PowerControl", "LyapunovPowerControl")}
"""The rows of a table without the future, and what it calls them."""


@dataclass(frozen=True)
class EvaluatedFigure:
    """The leakages behind one figure of the paper, and the verdicts on what the paper says of it."""

    scenario: Scenario
    """Its constants."""
    table: pd.DataFrame
    """A row a policy, level and realisation, as :func:`~adascale.comparison.leakage_table` makes it."""
    stored: pd.DataFrame
    """The same with parameters that saw no future, as :func:`~companion.causal.fresh.causal_table` makes it."""
    accuracy: pd.DataFrame
    """The verdicts on accuracy of :func:`~companion.training.accuracy.accuracy_claims`, by the trainings as stated."""

    @cached_property
    def levels(self) -> list[float]:
        r"""The levels of :math:`\nu`, ascending."""
        return sorted(self.table["nu"].unique())

    @cached_property
    def claims(self) -> pd.DataFrame:
        """The verdicts by geometric means, in hindsight."""
        return paper_claims(self.table)

    @cached_property
    def means(self) -> pd.DataFrame:
        """The verdicts by ratios of means, in hindsight."""
        return paper_claims(self.table, average="ratio of means")

    @cached_property
    def protocols(self) -> dict[str, pd.DataFrame]:
        """The verdicts on the fresh realisations, ``in hindsight`` and ``without the future``."""
        return {name: paper_claims(table) for name, table in causal.protocols(self.stored).items()}

    @property
    def views(self) -> dict[str, pd.DataFrame]:
        """The three sets of verdicts that an overview counts; accuracies are means."""
        means, unseen = pd.concat([self.means, self.accuracy]), self.protocols["without the future"]
        return {"geometric": self.claims, "arithmetic": means, "causal": unseen}

    @cached_property
    def ratio(self) -> pd.DataFrame:
        """RDP over the optimum's, a row a level and seed and a column a policy."""
        rdp = self.table.pivot(index=["nu", "seed"], columns="policy", values="rdp")
        return rdp.div(rdp["Optimal"], axis=0)

    def verdicts(self, claim: str, average: str = "geometric", metrics: Iterable[str] | None = None) -> pd.DataFrame:
        """What became of one statement, as a table to read.

        Parameters
        ----------
        claim : str
            See :func:`~companion.claims.paper_claims`.
        average : {"geometric", "arithmetic"}
            Which average.
        metrics : iterable of str, optional
            Which leakages; default all that are evaluated.
        """
        rows = self.claims if average == "geometric" else self.means
        rows = rows[rows["claim"] == claim]
        return readable(rows if metrics is None else rows[rows["metric"].isin([*metrics])])

    def settled(self, few: int = 3) -> tuple[pd.DataFrame, pd.DataFrame]:
        """How many statements the first realisations settle, and all; and those that the first settle otherwise.

        Shares of differences are left out, since three of three settle none; and exact DP, which the paper has not.
        """
        papers = self.table.drop(columns="exact", errors="ignore")
        both = [paper_claims(papers[papers["seed"] < few]), paper_claims(papers)]
        some, every = (each[each["claim"] != "narrows in nats"].reset_index(drop=True) for each in both)
        counts = pd.DataFrame(
            {
                f"{len({*part['seed']})} realisations": each["verdict"].value_counts()
                for part, each in ((papers[papers["seed"] < few], some), (papers, every))
            }
        )
        against = (
            (some["verdict"] != every["verdict"])
            & (some["verdict"] != "not settled")
            & (every["verdict"] != "not settled")
        )
        order = ["holds", "fails", "not settled"]
        return counts.reindex(order).fillna(0).astype(int).rename_axis(index=None), every[against]

    def unseen(self, nu: float) -> pd.DataFrame:
        r"""Cost and leakage without the future at a level of :math:`\nu` that is stored, a row a method."""
        rows = promises(self.stored).set_index(["policy", "nu"]).xs(nu, level="nu").loc[[*UNSEEN]]
        columns = {
            "mean cost over ν": rows["cost"].map("{:.3f}".format),
            "deviation": rows["spread"].map("{:.3f}".format),
            "overspend": rows["over"].map("{:.0%}".format),
            "RDP over Optimal": rows["rdp"].map("{:.3f}".format),
            "DP over Optimal": rows["epsilon"].map("{:.3f}".format),
        }
        return pd.DataFrame(columns).rename(index=UNSEEN).rename_axis(index=None)

    def largest_floors(self, few: int = 3) -> pd.DataFrame:
        """Of each of the first realisations the largest floor, and its round."""
        rows = self.table[(self.table["policy"] == "Optimal") & (self.table["nu"] == self.levels[0])]
        rows = rows[rows["seed"] < few].set_index("seed").rename(index="seed {}".format).rename_axis(index=None)
        return pd.DataFrame(
            {
                "largest floor": rows["floor_max"].map("{:.1f}".format),
                "in round": rows["floor_max_round"].map("{:d}".format),
            }
        )

    def texts(self) -> Texts:
        """What is said of the figure as a whole, of its verdicts, and of a table without the future."""
        levels, ratio, claims = self.levels, self.ratio.groupby("nu"), self.claims
        mean, median = ratio.mean(), ratio.median()
        found = {"cells": f"{len(claims)}", "holm": f"{len(holm(claims))}", "close": f"{100 * (CLOSE - 1):.0f}"}
        found["realisations"] = f"{self.table['seed'].nunique()}"
        for number, nu in enumerate((levels[0], levels[-1])):
            found[f"nu-{number}"] = f"{nu:g}"
            found[f"ada-{number}"] = f"{mean.loc[nu, 'AdaScale']:.2f}"
            found[f"ada-median-{number}"] = f"{median.loc[nu, 'AdaScale']:.2f}"
            for name, policy in (("equal", "EqualAlloc"), ("estim", "EstimFuture")):
                found[f"{name}-{number}"] = f"{median.loc[nu, policy]:.2g}"
        for name, place in (("next", 1), ("third", 2), ("fourth", 3), ("before", len(levels) - 2)):
            found[f"nu-{name}"] = f"{levels[min(max(place, 0), len(levels) - 1)]:g}"
        rdp = self.table.pivot(index=["nu", "seed"], columns="policy", values="rdp")
        first = rdp.xs(levels[0])
        unlucky = first["AdaScale"].sort_values(ascending=False)
        found["five-share"] = f"{100 * unlucky[:5].sum() / unlucky.sum():.0f}"
        found["equal-means"] = f"{first['EqualAlloc'].mean() / first['Optimal'].mean():.2g}"
        found["peak"] = f"{median['EqualAlloc'].idxmax():g}"
        few = self.table[(self.table["seed"] < 3) & (self.table["nu"] == levels[0])]
        band = log_interval(few.loc[few["policy"] == "AdaScale", "rdp"])
        found["three-band"] = f"{np.log10(band.high / band.low):.0f}"
        counts, against = self.settled()
        three = counts.iloc[:, 0]
        found["few-open"] = f"{100 * three['not settled'] / three.sum():.0f}"
        found["few-against"] = f"{len(against)}"
        deepest = self.table[(self.table["policy"] == "Optimal") & (self.table["nu"] == levels[0])]["floor_max"]
        found |= {"floor-median": f"{deepest.median():.0f}", "floor-max": f"{deepest.max():,.0f}"}
        return found | self._of_claims() | self._of_causal()

    def _of_claims(self) -> Texts:
        rows = self.claims.set_index(["claim", "metric", "policy", "nu"]).sort_index()
        first, last = self.levels[0], self.levels[-1]
        lost = rows.loc[("ahead", "rdp", "PowerControl", last)]
        end = rows.loc[("ahead", "epsilon", "PowerControl", last)]
        medians = self.ratio.div(self.ratio["AdaScale"], axis=0).groupby("nu").median()
        power, lyapunov = medians["PowerControl"], medians["LyapunovPowerControl"]
        found = {
            "lost": f"{100 * (1 - lost['ratio']):.1f}",
            "lost-share": f"{100 * lost['share']:.0f}",
            "power-end": f"{100 * (end['ratio'] - 1):.1f}",
            "power-end-share": f"{100 * end['share']:.0f}",
            "kind": f"{100 * (rows.loc[('ahead', 'epsilon', 'LyapunovPowerControl', first), 'ratio'] - 1):.0f}",
            "power-low": f"{power.iloc[0]:.0f}",
            "power-high": f"{power.iloc[-1]:.3f}",
            "lyapunov-low": f"{lyapunov.min():.2f}",
            "lyapunov-high": f"{lyapunov.max():.2f}",
        }
        for name, policy in (("turned", "EqualAlloc"), ("estim-turned", "EstimFuture")):
            found[name] = f"{100 * (1 - rows.loc[('narrows', 'rdp', policy, first), 'share']):.0f}"
        found["estim-dp-turned"] = f"{100 * (1 - rows.loc[('narrows', 'epsilon', 'EstimFuture', first), 'share']):.0f}"
        step = self.means.set_index(["claim", "metric", "policy", "nu"]).loc[("narrows", "rdp", "EqualAlloc", first)]
        found |= {
            f"mean-step{end}": f"{step[column]:.2f}"
            for end, column in (("", "ratio"), ("-low", "low"), ("-high", "high"))
        }
        lead = compare(self.table, "rdp", "EqualAlloc", "AdaScale", "ratio of means")["ratio"]
        return found | {"mean-lead-0": f"{lead.iloc[0]:.1f}", "mean-lead-1": f"{lead.iloc[1]:.0f}"}

    def _of_causal(self) -> Texts:
        kept = promises(self.stored).set_index(["policy", "nu"])
        rdp = kept["rdp"]
        apart = abs(rdp["AdaScale"] / rdp["AdaScale" + causal.HINDSIGHT] - 1).max()
        both = side_by_side(self.protocols).xs("verdict", axis=1, level=1)
        changed = (both["in hindsight"] != both["without the future"]).sum()
        first, last = rdp.index.get_level_values("nu").min(), rdp.index.get_level_values("nu").max()
        return {
            "fresh": f"{kept['realisations'].iloc[0]}",
            "apart": f"{100 * apart:.1f}",
            "cold-0": f"{100 * (rdp['AdaScale', first] - 1):.1f}",
            "warm-0": f"{100 * (rdp['AdaScale, warm', first] - 1):.1f}",
            "warm-spent-0": f"{kept['cost']['AdaScale, warm', first]:.3f}",
            "learn-0": f"{100 * (rdp['Learn', first] - 1):.1f}",
            "learn-1": f"{100 * (rdp['Learn', last] - 1):.1f}",
            "judged-cells": f"{len(both)}",
            "changed": f"{changed}",
        }

    def under_exact(self) -> Texts:
        """What is said of exact accounting; the table must have a column ``exact``."""
        loose = exact.looseness(self.table).set_index(["policy", "nu"])
        last, before = self.levels[-1], self.levels[max(len(self.levels) - 2, 0)]
        each = self.table["epsilon"] / self.table["exact"]
        moved = (loose["lead_exact"] / loose["lead"] - 1).abs()
        small = moved[moved.index.get_level_values("nu") <= self.levels[min(1, len(self.levels) - 1)]]
        evaluated = [self.claims[self.claims["metric"] == name].reset_index(drop=True) for name in ("epsilon", "exact")]
        found = {
            "loose-least": f"{each.min():.2f}",
            "loose-most": f"{each.max():.2f}",
            "loose-ada": f"{loose.loc[('AdaScale', last), 'loose']:.2f}",
            "loose-power": f"{loose.loc[('PowerControl', last), 'loose']:.2f}",
            "small-nu": f"{100 * small.max():.0f}",
            "lead-moved": f"{100 * moved.max():.0f}",
            "judged": f"{len(evaluated[1])}",
            "exact-changed": f"{(evaluated[0]['verdict'] != evaluated[1]['verdict']).sum()}",
        }
        for number, nu in (("last", last), ("fourth", before)):
            for name, lead in (("renyi", "lead"), ("exact", "lead_exact")):
                found[f"lead-{name}-{number}"] = f"{100 * (loose.loc[('PowerControl', nu), lead] - 1):.1f}"
                found[f"equal-{name}-{number}"] = f"{100 * (loose.loc[('EqualAlloc', nu), lead] - 1):.0f}"
        for name, column in (("renyi", "ahead"), ("exact", "ahead_exact")):
            found[f"ahead-{name}"] = f"{100 * loose.loc[('PowerControl', last), column]:.0f}"
        return found


def evaluated(
    dataset: str,
    nus: Sequence[float] | None = None,
    seeds: Iterable[int] = exact.SEEDS,
    results: Path | str | None = None,
) -> EvaluatedFigure:
    r"""Recompute a leakage figure of the paper, and join the committed tables that go with it.

    Parameters
    ----------
    dataset : {"mnist", "cifar10"}
        A preset with committed tables.
    nus : sequence of float, optional
        Levels of :math:`\nu`; default those of the preset.  With others the table has no column ``exact``, which is
        committed for the preset's alone.
    seeds : iterable of int
    results : path, optional
        The folder of the committed tables; default :func:`companion.results.folder`.
    """
    preset, folder = presets.load(dataset), committed.folder() if results is None else Path(results)
    levels = preset.levels if nus is None else sorted(nus)
    table = leakage_table(preset.scenario, levels, seeds, METHODS)
    accounted = exact.read(folder / "exact" / f"{dataset}.csv")
    if {*levels} <= {*accounted["nu"]} and {*table["seed"]} <= {*accounted["seed"]}:
        table = exact.with_exact(table, accounted)
    accuracy = accuracy_claims(as_stated(folder / dataset), QUOTED_ACCURACY[dataset])
    return EvaluatedFigure(preset.scenario, table, causal.read(folder / "causal" / f"{dataset}.csv"), accuracy)


def readable(claims: pd.DataFrame) -> pd.DataFrame:
    """:func:`~companion.claims.verdicts` of one statement with names for people, under one row of heading."""
    table = verdicts(claims).droplevel("claim").rename(index=label_of, level="policy")
    if table.index.get_level_values("leakage").nunique() == 1:
        table = table.droplevel("leakage")
    return table.rename_axis(index=[None] * table.index.nlevels, columns="ν")


@dataclass(frozen=True)
class Readings:
    """The benchmarks with one choice changed at a time, and what becomes of two statements."""

    table: pd.DataFrame
    """As :func:`~adascale.comparison.leakage_table` makes it, of the methods that have no other reading, and the rest.
    """

    @cached_property
    def ahead(self) -> pd.DataFrame:
        """Whether AdaScale is ahead, in DP; of EstimFuture in RDP too."""
        rdp = self._evaluated(others=(), drawn=("EstimFuture, devices",)).query("claim == 'ahead' and metric == 'rdp'")
        rest = self._evaluated()
        return pd.concat(
            [rdp, rest[(rest["claim"] == "ahead") & (rest["metric"] == "epsilon") & rest["policy"].isin([*VARIANTS])]]
        )

    @cached_property
    def higher(self) -> pd.DataFrame:
        """Whether the two that the paper leaves out of its RDP panel leak more RDP than those that it draws."""
        rows = self._evaluated()
        return rows[(rows["claim"] == "higher") & (rows["policy"] != "EstimFuture, devices")]

    def _evaluated(
        self, drawn: Sequence[str] = ("EqualAlloc", "EstimFuture"), others: Sequence[str] = tuple(VARIANTS)
    ) -> pd.DataFrame:
        return paper_claims(self.table, drawn=drawn, others=others)

    def texts(self) -> Texts:
        """What the chapters say of them."""
        ahead = self.ahead.set_index(["policy", "metric", "nu"])["ratio"].sort_index()
        kind = (
            self._evaluated(others=())
            .set_index(["claim", "policy", "metric", "nu"])["ratio"]
            .sort_index()["ahead", "EstimFuture"]
        )
        rdp, epsilon = ahead["EstimFuture, devices", "rdp"], ahead["EstimFuture, devices", "epsilon"]
        started = self.ahead[self.ahead["policy"] == "LyapunovPowerControl, filled queue"].set_index("nu")
        filled = ahead["LyapunovPowerControl, filled queue, V = 30 η̄³", "epsilon"]
        leads = 100 * (started["ratio"].to_numpy()[-3:] - 1)
        last = self.table[self.table["nu"] == self.table["nu"].max()]
        last = last.pivot(index="seed", columns="policy", values="epsilon")
        worst = (last["LyapunovPowerControl, filled queue"] / last["AdaScale"]).max()
        return {
            "reading-seeds": f"{self.table['seed'].nunique()}",
            "estim-devices-0": f"{rdp.iloc[0]:.0f}",
            "estim-devices-1": f"{rdp.iloc[-1]:.2f}",
            "estim-minimum-0": f"{kind['rdp'].iloc[0]:.1f}",
            "devices-0": f"{epsilon.iloc[0]:.2f}",
            "minimum-0": f"{kind['epsilon'].iloc[0]:.2f}",
            "filled-end": f"{100 * (1 - filled.iloc[-1]):.1f}",
            "started-leads": ", ".join(f"{lead:.0f}" for lead in leads[:-1]) + f" and {leads[-1]:.0f}",
            "started-behind": f"{-leads[-1]:.1f}",
            "started-ahead": f"{100 * (1 - started['share'].iloc[-1]):.0f}",
            "started-ahead-before": f"{100 * (1 - started['share'].iloc[-2]):.0f}",
            "started-worst": f"{worst:.1f}",
        }


def readings(scenario: Scenario, nus: Sequence[float], seeds: Iterable[int] = exact.SEEDS) -> Readings:
    r"""Leakages under other readings of the benchmarks, :data:`~companion.methods.VARIANTS`.

    Parameters
    ----------
    scenario : Scenario
        The constants.
    nus : sequence of float
        Levels of :math:`\nu`.
    seeds : iterable of int
    """
    basic = {name: METHODS[name] for name in ("Optimal", "AdaScale", "EqualAlloc", "EstimFuture")}
    return Readings(leakage_table(scenario, nus, seeds, basic | VARIANTS))
