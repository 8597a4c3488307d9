r"""Without the future (:ref:`chap-causal`): leakages, decisions, beliefs and growth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from adascale import policies
from companion.bounds.causal import LevelValue
from companion.causal import growth as causal_growth
from companion.causal import worlds as channels
from companion.causal import wrong_laws as causal_beliefs
from companion.causal.fresh import HINDSIGHT
from companion.formatting import Texts
from companion.reported.channels import turns
from companion.summary import number, promises


def of_causal(tables: Mapping[str, pd.DataFrame]) -> Texts:
    r"""Of :func:`~companion.causal.fresh.causal_table` for MNIST and CIFAR-10: leakage over the optimum's, and cost."""
    kept = {name: promises(table).set_index(["policy", "nu"]) for name, table in tables.items()}
    mnist, texts = kept["mnist"], {"fresh": f"{tables['mnist'].seed.nunique()}"}
    for name, policy in {"level": "ConstantLevel", "hindsight": "AdaScale" + HINDSIGHT}.items():
        texts |= {
            f"{name}-first": f"{mnist.rdp[policy].iloc[0]:.3f}",
            f"{name}-last": f"{mnist.rdp[policy].iloc[-1]:.3f}",
        }
    mean = tables["mnist"].groupby(["nu", "policy"]).rdp.mean()[tables["mnist"].nu.min()]
    beyond = [frame.rdp["ReSolve, hard"] / frame.rdp["DynamicProgramme, hard"] for frame in kept.values()]
    return texts | {
        "blind-first": f"{mnist.rdp['AdaScale'].iloc[0]:.3f}",
        "learn-first": f"{mnist.rdp['Learn'].iloc[0]:.3f}",
        "learn-rest": f"{mnist.rdp['Learn'][channels.MIDDLE :].max():.3f}",
        "best-mnist": f"{mnist.rdp['ConstantLevel'].max():.3f}",
        "best-cifar": f"{kept['cifar10'].rdp['ConstantLevel'].max():.3f}",
        "ratio-of-means": f"{mean['ConstantLevel'] / mean['Optimal']:.3f}",
        "hard-over-dp": f"{100 * (max(ratio.max() for ratio in beyond) - 1):.1f}",
        "level-over": f"{100 * mnist.over['ConstantLevel'].iloc[0]:.0f}",
        "level-most": f"{100 * mnist.excess['ConstantLevel'].iloc[0]:.1f}",
        "resolve-most": f"{100 * mnist.excess['ReSolve'].iloc[0]:.1f}",
        "reserve": f"{policies.ReSolve.safety_margin:g}",
    }


DECISIONS = {
    "level": ("Rayleigh", "ConstantLevel"),
    "resolve-hard": ("Rayleigh", "ReSolve, hard"),
    "learn-wrong": ("path losses off by 3 dB", "Learn"),
    "learn-hard-wrong": ("path losses off by 3 dB", "Learn, hard"),
    "learn": ("Rayleigh", "Learn"),
    "learn-hard": ("Rayleigh", "Learn, hard"),
    "warm": ("Gauss-Markov, r = 0.99", "AdaScale, warm"),
    "resolve-coherent": ("Gauss-Markov, r = 0.99", "ReSolve, coherent, hard"),
    "learn-coherent": ("Gauss-Markov, r = 0.99", "Learn, coherent, hard"),
}
"""The world and the policy of each row of the first tables of :ref:`chap-causal`."""


def of_decisions(kept: pd.DataFrame, exact: pd.DataFrame) -> Texts:
    r"""What the policies of :data:`DECISIONS` leak in their worlds, in RDP and in exact :math:`\varepsilon`.

    Parameters
    ----------
    kept : pandas.DataFrame
        Of :func:`~companion.causal.worlds.kept`.
    exact : pandas.DataFrame
        Of :func:`~companion.causal.worlds.exactly`.
    """
    middle = kept[kept.nu == channels.MIDDLE].set_index(["world", "policy"])
    texts: Texts = {}
    for name, cell in DECISIONS.items():
        texts |= {
            f"decide-{name}": f"{middle.rdp[cell]:.2f}",
            f"decide-{name}-ratio": f"{exact.ratio[cell]:.2f}",
            f"decide-{name}-eps": f"{exact.exact[cell]:.2f}",
        }
    world = DECISIONS["learn-coherent"][0]
    slow, ratio = middle.loc[world], exact.ratio[world]
    for name in ("Learn, coherent, hard", "EqualAlloc", "EstimFuture"):
        row, key = slow.loc[name], f"slow-{name.partition(',')[0]}"
        texts[f"{key}-rdp"] = f"{row.rdp:.2f}"
        low, high = (number(each, ".2f") for each in (row.rdp_low, row.rdp_high))
        texts[key] = f"95 % interval {low} to {high}, worst {row.rdp_worst:.0f}"
        texts[f"{key}-epsilon"] = f"{ratio[name]:.2f}"
    return texts | {
        "decide-nu": f"{channels.MIDDLE:g}",
        "correlated-turns": f"{turns()[world]:.1g}",
        "slow-level": f"{slow.rdp['ConstantLevel']:.2f}",
        "slow-level-spread": f"{100 * slow.spread['ConstantLevel']:.0f}",
        "slow-warm-spread": f"{100 * slow.spread['AdaScale, warm']:.0f}",
        "queue-rdp": f"{slow.rdp['AdaScale, warm']:.2f}",
        "queue-epsilon": f"{ratio['AdaScale, warm']:.2f}",
    }


def of_headline(table: pd.DataFrame) -> Texts:
    r"""Of the exact :math:`\varepsilon` of the first page.

    Over the optimum's: geometric means over realisations, least and largest; learning's own: medians at both ends.
    """
    wide = table.pivot(index=["nu", "seed"], columns="policy", values="exact")
    centre = np.exp(np.log(wide.div(wide["Optimal"], axis=0)).groupby("nu").mean())
    learning, own = centre["Learn, hard"], wide["Learn, hard"].groupby("nu").median()
    return {
        "learning-tight": f"{own.iloc[0]:.2g}",
        "learning-loose": f"{own.iloc[-1]:.2g}",
        "learning-least": f"{learning.min():.2f}",
        "learning-most": f"{learning.max():.2f}",
        "equal-most": f"{centre['EqualAlloc'].max():.1f}",
        "headline-seeds": f"{table.seed.nunique()}",
    }


class Believed(NamedTuple):
    """Causal policies in the worlds of :data:`~companion.causal.wrong_laws.WORLDS`, at two levels of nu."""

    middle: pd.DataFrame
    """At nu = 0.04, a row a world and policy, with mean and largest cost, median and worst ratio."""
    small: pd.DataFrame
    """The same at nu = 0.01."""


def believed(middle: float = 0.04, small: float = 0.01) -> Believed:
    r"""Run the policies of :mod:`companion.causal.wrong_laws` at two levels of :math:`\nu`."""

    def at(nu: float) -> pd.DataFrame:
        groups = causal_beliefs.beliefs_table(nu).groupby(["world", "policy"], sort=False)
        return pd.DataFrame(
            {
                "cost": groups.cost.mean(),
                "largest": groups.cost.max(),
                "median": groups.ratio.median(),
                "worst": groups.ratio.max(),
            }
        )

    return Believed(at(middle), at(small))


def of_beliefs(found: Believed) -> Texts:
    """Of :func:`believed`: what a wrong law and slow fading do."""
    _, wrong, slow = causal_beliefs.WORLDS
    texts = {"worlds": f"{len(causal_beliefs.SEEDS)}"}
    for rows, end in zip(found, ("", "-small"), strict=True):
        texts["wrong-level" + end] = f"{100 * (rows.cost[wrong, 'ConstantLevel'] - 1):.0f}"
        texts["warm-median" + end] = f"{rows['median'][slow, 'AdaScale, warm']:.2f}"
        for name, cost in {"over": rows.cost, "most": rows.largest}.items():
            texts[f"wrong-warm-{name}{end}"] = f"{100 * (cost[wrong, 'AdaScale, warm'] - 1):.0f}"
        texts["slow-hard" + end] = f"{rows.worst[slow, 'Learn, hard']:.3g}"
        for name, policy in {"resolve": "ReSolve", "warm": "AdaScale, warm", "learn": "Learn"}.items():
            texts |= {
                f"wrong-{name}{end}": f"{rows.worst[wrong, policy]:.3g}",
                f"slow-{name}{end}": f"{rows.worst[slow, policy]:.3g}",
            }
    return texts


PLANNERS = {"re-solving, hard": ("resolve", 1), "level of the past": ("past", 1), "learning, hard": ("learn", 2)}
"""Short names of the policies that plan, and how many A a unit of ln T should cost each.

:meta hide-value:
"""


def of_growth(growth: pd.DataFrame, value: LevelValue, rounds: int) -> Texts:
    r"""Of :func:`~companion.causal.growth.growth_table`: slopes and constants, in units of :math:`A`.

    Parameters
    ----------
    growth : pandas.DataFrame
        The table.
    value : LevelValue
        Of its law and its level of :math:`\nu`.
    rounds : int
        T of the paper.
    """
    unit = growth.predicted[growth.policy == "offline optimum"].iloc[0]
    ends = growth[growth["T"] == growth["T"].max()].set_index("policy")
    texts: Texts = {}
    for name, (key, theory) in PLANNERS.items():
        rows = growth[growth.policy == name]
        # the weights are 95 % half-widths, and so is the error of the fit
        fit, covariance = np.polyfit(np.log(rows["T"]), rows.regret / unit, 1, w=unit / rows.half, cov="unscaled")
        constant = ends.regret[name] / unit - theory * np.log(growth["T"].max())
        texts |= {
            f"slope-{key}": f"{fit[0]:.2f} ± {np.sqrt(covariance[0, 0]):.2f}",
            f"constant-{key}": f"{constant:.1f}",
        }
    cold = growth[growth.policy == "AdaScale, empty queue"]
    over, long = cold.regret / cold.predicted, cold[cold["T"] >= rounds]
    past = growth[(growth.policy == "level of the past") & (growth["T"] == rounds)].iloc[0]
    overspend = float((1 - value.wet) / value.wet) * np.log(rounds) / rounds
    return texts | {
        "cold-low": f"{over.min():.2f}",
        "cold-high": f"{over.max():.2f}",
        "cold-exponent": f"{np.polyfit(np.log(long['T']), np.log(long.regret), 1)[0]:.2f}",
        "logarithm": f"{np.log(rounds):.1f}",
        "warm-end": f"{ends.regret['AdaScale, warm queue'] / unit:.0f}",
        "cold-end": f"{ends.regret['AdaScale, empty queue'] / unit:.0f}",
        "past-cost": f"{100 * (past.cost - 1):.1f}",
        "past-half": f"{196 * np.sqrt(float(value.spread) / (past.draws * rounds)) / causal_growth.BUDGET:.1f}",
        "past-theory": f"{100 * overspend:.1f}",
    }
