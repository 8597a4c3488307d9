"""AdaScale and its penalty: the collapse of the plain method, one training, and many with their penalties tuned."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from adascale.policies import EqualAlloc, Optimal, water_level
from adascale.problem import ReceiveScalingProblem
from adascale.statistics import log_interval
from companion.figures.style import STYLE, Look

FloatArray = NDArray[np.float64]

_LEVEL = "noise budget $\\nu$ (no unit)"
_LOOKS: list[Look] = [
    {"color": "#009E73", "marker": "D"},
    {"color": "#E69F00", "marker": "X"},
    {"color": "#CC79A7", "marker": "v"},
]
_RULES = ((0.94, "#E69F00", "o"), (1.06, "#0072B2", "s"))  # shift, colour, marker


def _at_levels(axis: Axes, nus: FloatArray) -> None:
    axis.set_xticks(nus, [f"{value:g}" for value in nus])
    axis.xaxis.set_minor_locator(NullLocator())


def collapse(
    caps: FloatArray, costs: Mapping[int, FloatArray], budget: float, queues: Mapping[float, FloatArray]
) -> Figure:
    r"""The plain method's cost against its cap, a series a horizon, with the line W/T; and its queue, a curve a cap.

    Parameters
    ----------
    caps : numpy.ndarray
        W, shape (K,).
    costs : mapping
        From T to the cost under each cap, shape (K,).
    budget : float
        :math:`\nu`.
    queues : mapping
        From W to the queue, shape (T + 1,); three at most.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
    for (horizon, cost), look in zip(costs.items(), _LOOKS[::2], strict=True):
        left.loglog(caps, cost, linestyle="none", label=f"T = {horizon}", **look)
        left.loglog(caps, caps / horizon, color=look["color"], linewidth=1)
    left.axhline(budget, color="black", linestyle=":", label="$\\nu$")
    left.set(ylim=(0.02, 2000), xlabel="cap $W$ (no unit)", ylabel="cost (no unit); lines: $W/T$")
    left.legend()
    for (cap, queue), look in zip(queues.items(), _LOOKS, strict=False):
        right.semilogy(np.maximum(queue, 1e-2), markevery=60, label=f"W = {cap:g}", **look)
    right.set(xlabel="round $t$", ylabel="queue $Q_t$ (no unit), from 0.01", xlim=(0, queue.size - 1), ylim=(2e-3, 300))
    right.legend(loc="lower center", ncols=3)
    return figure


def against_cost(problem: ReceiveScalingProblem, factors: FloatArray, cost: FloatArray, rdp: FloatArray) -> Figure:
    r"""Cost and leakage against the penalty, and the leakage against the cost, beside Optimal and EqualAlloc.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        One realisation, with one :math:`\nu`.
    factors : numpy.ndarray
        Penalties over the tuned one, shape (K,).
    cost, rdp : numpy.ndarray
        Of AdaScale at each, shape (K,).
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
    nu = float(problem.budget)
    least = problem.rdp(Optimal().schedule(problem))
    left.loglog(factors, cost / nu, markevery=4, label="cost / $\\nu$", **_LOOKS[0])
    left.loglog(factors, rdp / least, markevery=4, label="leakage / optimum", **_LOOKS[2])
    left.axvline(1, color="black", linestyle=":")
    left.set(xlabel="penalty $V$ over its tuned value", ylabel="ratio")
    left.legend()
    budgets = np.geomspace(cost.min(), cost.max(), 40)
    family = ReceiveScalingProblem(problem.scenario, problem.min_gain, budgets)
    for name, policy in {"Optimal": Optimal(), "EqualAlloc": EqualAlloc()}.items():
        right.loglog(budgets, family.rdp(policy.schedule(family)), label=name, markevery=8, **STYLE[name])
    right.loglog(cost, rdp, linestyle="none", label="AdaScale", **STYLE["AdaScale"])
    right.axvline(nu, color="black", linestyle=":")
    right.set(xlabel="cost (no unit)", ylabel=f"RDP leakage at order {problem.scenario.order:g} [nats]")
    right.legend()
    return figure


def one_training(problem: ReceiveScalingProblem, eta: FloatArray, queue: FloatArray) -> Figure:
    r"""A schedule over its rounds: noise energies beside floors and water level, the queue, and the cost so far.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        One realisation, with one :math:`\nu`.
    eta : numpy.ndarray
        AdaScale's schedule, shape (T,).
    queue : numpy.ndarray
        :math:`Q_t`, shape (T + 1,).
    """
    figure, axes = plt.subplots(3, 1, figsize=(7.5, 7), sharex=True)
    nu, w = float(problem.budget), problem.noise_energy(eta)
    rounds = np.arange(w.size)
    axes[0].fill_between(rounds, 1e-3, problem.min_noise_energy, step="mid", color="0.85", linewidth=0, label="floor")
    axes[0].semilogy(w, linestyle="none", markersize=2.5, label="AdaScale", **STYLE["AdaScale"])
    level, color = float(water_level(problem.min_noise_energy, problem.budget)), STYLE["EqualAlloc"]["color"]
    axes[0].axhline(level, color=color, linestyle="--", zorder=3, label="water level")
    axes[0].set(ylabel="noise energy $w_t$", ylim=(5e-3, 200))
    axes[0].legend(loc="upper center", ncols=3)
    axes[1].plot(queue / nu, color=STYLE["AdaScale"]["color"])
    axes[1].set(ylabel="queue $Q_t / \\nu$")
    axes[2].plot(np.cumsum(w - problem.min_noise_energy) / (rounds + 1) / nu, color=STYLE["AdaScale"]["color"])
    axes[2].axhline(1, color="black", linestyle=":")
    axes[2].set(ylabel="running cost / $\\nu$", xlabel="round $t$", xlim=(0, w.size))
    return figure


def near_optimal(nus: FloatArray, ratio: Mapping[str, FloatArray]) -> Figure:
    r"""How much more than the optimum policies leak: every realisation, geometric means and 95 % intervals.

    Parameters
    ----------
    nus : numpy.ndarray
        Levels of :math:`\nu`, shape (K,).
    ratio : mapping
        From a policy of the package to its leakage over the optimum's, shape (K, realisations).
    """
    figure, axis = plt.subplots()
    for name, rows in ratio.items():
        centre, low, high = np.array([log_interval(row) for row in rows]).T - 1
        axis.fill_between(nus, low, high, color=STYLE[name]["color"], alpha=0.2, linewidth=0)
        axis.loglog(nus, centre, label=name, **STYLE[name])
        places = np.repeat(nus, rows.shape[1])
        axis.loglog(places, rows.ravel() - 1, linestyle="none", alpha=0.35, markersize=3, **STYLE[name])
    axis.set(xlabel=_LEVEL, ylabel="leakage over the optimum, minus 1")
    _at_levels(axis, nus)
    axis.legend()
    return figure


def tuned_penalties(nus: FloatArray, penalty: FloatArray, scaled: FloatArray, start: float) -> Figure:
    r"""Tuned penalties, raw and in units of :math:`\nu/\lvert F'(\ell)\rvert`, with the value at which a search starts.

    Parameters
    ----------
    nus : numpy.ndarray
        Levels of :math:`\nu`, shape (K,).
    penalty, scaled : numpy.ndarray
        Shape (K, realisations).
    start : float
        In the unit of ``scaled``.
    """
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
    for axis, values in zip(axes, (penalty, scaled), strict=True):
        places = np.repeat(nus, values.shape[1])
        axis.loglog(places, values.ravel(), linestyle="none", alpha=0.6, **STYLE["AdaScale"])
        _at_levels(axis, nus)
        axis.set_xlabel(_LEVEL)
    axes[0].set_ylabel("tuned penalty $V$ [1/nats]")
    axes[1].axhline(start, color="black", linestyle=":", label="the search starts here")
    axes[1].set(ylim=(0.5, 50), ylabel="$V\\,|F'(\\ell)|\\,/\\,\\nu$ (no unit)")
    axes[1].legend()
    return figure


def blind_penalties(nus: FloatArray, share: Mapping[str, FloatArray], leaked: Mapping[str, FloatArray]) -> Figure:
    r"""What penalties cost and leak that have not seen the future, a point a realisation, for two rules.

    Parameters
    ----------
    nus : numpy.ndarray
        Levels of :math:`\nu`, shape (K,).
    share, leaked : mapping
        From a rule's name to its cost over :math:`\nu`, and to its leakage over the optimum's at :math:`\nu`, both of
        shape (K, realisations).
    """
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
    for axis, values, ticks, label in (
        (axes[0], share, (0.6, 0.8, 1, 1.5, 2), "cost / $\\nu$"),
        (axes[1], leaked, (0.1, 0.2, 0.5, 1, 2), "leakage / optimum at $\\nu$"),
    ):
        for (rule, heights), (shift, color, marker) in zip(values.items(), _RULES, strict=True):
            axis.loglog(
                np.repeat(shift * nus, heights.shape[1]),
                heights.ravel(),
                linestyle="none",
                marker=marker,
                color=color,
                alpha=0.5,
                markersize=5,
                label=rule,
            )
        axis.axhline(1, color="black", linestyle=":")
        _at_levels(axis, nus)
        axis.set_yticks(ticks, [f"{value:g}" for value in ticks])
        axis.yaxis.set_minor_locator(NullLocator())
        axis.set(xlabel=_LEVEL, ylabel=label)
    axes[1].legend()
    return figure
