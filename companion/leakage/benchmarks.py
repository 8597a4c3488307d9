r"""What the chapter on the benchmarks shows: where a schedule leaks, what a choice does."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from adascale import channel, policies, presets
from adascale.comparison import TunedOnRealisation, leakage_table
from adascale.comparison.shi_tuning import match_lyapunov
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import FloatArray
from adascale.statistics import log_interval
from companion.claims import compare
from companion.methods import METHODS, VARIANTS
from companion.shi import filled_lyapunov

CHOICES = [
    "EstimFuture, devices",
    "PowerControl, minimum",
    "PowerControl, r = 0.999",
    "PowerControl, r = 0.99",
    "PowerControl, not subtracted",
]
"""Choices that change a method of the figures."""


def late_share(problem: Problem, w: FloatArray, rounds: int) -> FloatArray:
    """Return the share of the RDP leakage that the last ``rounds`` rounds carry, of every lane."""
    loss = RoundLeakage(problem.scenario)(w)
    return loss[..., -rounds:].sum(axis=-1) / loss.sum(axis=-1)


def full_power(problem: Problem, w: FloatArray) -> dict[str, FloatArray]:
    """Return how many rounds of every lane are at full power, and shares of the RDP leakage in those of them.

    A round is *needlessly* at full power where the optimum is not.
    """
    loss = RoundLeakage(problem.scenario)(w)
    floor = problem.min_noise_energy
    at_limit = w <= floor
    optimal = policies.Optimal().schedule(problem) <= floor
    needless = at_limit & ~optimal
    share = loss / loss.sum(axis=-1, keepdims=True)
    wasted = share * needless
    return {
        "at full power": at_limit.mean(axis=-1),
        "... under the optimum": optimal.mean(axis=-1),
        "needlessly": needless.mean(axis=-1),
        "RDP of needless rounds": wasted.sum(axis=-1),
        "... of the first ten": wasted[..., :10].sum(axis=-1),
        "... of round 0": share[..., 0],
    }


def order_table(
    dataset: str, levels: Sequence[float], seeds: Sequence[int], orders: Sequence[float]
) -> pd.DataFrame:
    r"""Compute AdaScale's epsilon, tuned at several orders, over that at the first; a row per level and seed."""
    scenario = presets.load(dataset).scenario
    adascale = {"AdaScale": METHODS["AdaScale"]}
    epsilon = {}
    for order in orders:
        table = leakage_table(replace(scenario, order=order), levels, seeds, adascale)
        epsilon[order] = table.set_index(["nu", "seed"])["epsilon"]
    wide = pd.DataFrame(epsilon)
    return wide.div(wide[orders[0]], axis=0)


def choices_table(
    dataset: str, levels: Sequence[float], seeds: Sequence[int]
) -> pd.DataFrame:
    """Compute what each choice that the paper leaves open does: epsilon with it, over epsilon as in the figures.

    A row per choice and level: ``choice, nu, ratio, low, high`` (geometric mean and 95 % interval).
    """
    scenario = presets.load(dataset).scenario
    by_name = METHODS | VARIANTS
    by_name[CHOICES[2]] = TunedOnRealisation(policies.PowerControl, contraction=0.999)
    chosen = {name: by_name[name] for name in ("EstimFuture", "PowerControl", *CHOICES)}
    table = leakage_table(scenario, levels, seeds, chosen)
    tables = [
        compare(table, "epsilon", name, name.partition(",")[0]).assign(choice=name)
        for name in CHOICES
    ]

    gain = channel.draw(scenario.num_devices, scenario.num_rounds, seeds).gain
    problem = Problem(scenario, scenario.min_gain(gain), np.array(levels)[:, None])
    matched = match_lyapunov(problem)
    by_lane = matched.pairs.groupby("instance")["epsilon"]
    found = {"worst pair on the grid": by_lane.max()}
    for r in (0.999, 0.99):
        pairs = match_lyapunov(problem, contraction=r).pairs
        found[f"r = {r:g}"] = pairs.groupby("instance")["epsilon"].min()
    for name, multiple in (
        ("queue filled at the start", matched.penalty / matched.rate**3),
        ("filled, and V = 30 η̄³", 30.0),
    ):
        filled = filled_lyapunov(problem, multiple=multiple).schedule(problem)
        found[name] = problem.epsilon(filled).ravel()
    ratios = {
        f"LyapunovPowerControl, {name}": epsilon / by_lane.min()
        for name, epsilon in found.items()
    }
    by_order = order_table(dataset, levels, seeds, (scenario.order, 32))
    ratios["AdaScale, order 32"] = by_order[32]
    columns = ["choice", "nu", "ratio", "low", "high"]
    rows = [
        (name, nu, *log_interval(row))
        for name, ratio in ratios.items()
        for nu, row in zip(levels, np.reshape(ratio, problem.batch_shape), strict=True)
    ]
    return pd.concat([*tables, pd.DataFrame(rows, columns=columns)], ignore_index=True)[
        columns
    ]
