r"""The method of Liu & Simeone beside what they published: ``python -m companion make published --source CLONE``.

``CLONE`` is a checkout of https://github.com/kclip/Privacy4Free_DPWFL, read at commit 97512c8.  The equations below are
written anew from the paper and from what the scripts there compute; of the checkout only the data set is read.  Privacy
is counted in their unit, :math:`a_t = 2 \gamma^2 c_t^2 / \sigma^2`, which is :math:`\eta_t` over
:math:`M^2 B^2 \sigma_n^2 / G^2`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.io import loadmat
from scipy.special import lambertw

from adascale.policies import PowerControl
from adascale.problem import Problem
from adascale.scenario import FloatArray, Scenario
from companion.leakage.liu_simeone import OfflinePowerControl, scaling_budget
from companion.results import Made

REPOSITORY = "https://github.com/kclip/Privacy4Free_DPWFL"
COMMIT = "97512c8b1c87f00c3c2f0398044ec6bdd8c238b5"
"""Of the repository what was read is its newest commit, of 1 August 2021."""

STOP = (1e8, 1e-8)
"""Where their scripts for online transmission begin to halve the multiplier, and the width at which they stop."""

_WATT = 1e-12  # what a unit of privacy is called, so that our scenarios hold it
_SMALLEST = np.finfo(float).tiny


def published_budget(epsilon: ArrayLike, delta: float) -> FloatArray:
    r"""Return the sum of the :math:`a_t` that :math:`(\varepsilon, \delta)` allows, as published, without unit.

    .. math::
        \big(\sqrt{\varepsilon + C^2} - C\big)^2, \qquad
        C = \frac{1}{\delta \sqrt\pi} \exp\Big(-\tfrac12 W_0\Big(\frac{2}{\pi \delta^2}\Big)\Big)
    """
    c = np.exp(-lambertw(2 / (np.pi * delta**2)).real / 2) / (delta * np.sqrt(np.pi))
    return (np.sqrt(np.asarray(epsilon) + c**2) - c) ** 2


def published_plan(
    caps: ArrayLike,
    weights: ArrayLike,
    budget: float,
    *,
    stop: tuple[float, float],
    root: bool = False,
) -> FloatArray:
    r"""Return the :math:`a_j` of a plan, its multiplier found as in the scripts, by halving an interval.

    .. math:: a_j = \min\big(\omega_j / \lambda, \mathrm{cap}_j\big), \qquad \sum_j a_j \le S

    The weights :math:`\omega_j` are proportional to :math:`r^{-j/2}`.  The search begins at the first of ``stop`` and
    ends at a width of the second, 0 for the last digit.  With ``root``, as in the scripts for online transmission,
    :math:`\lambda` is the square root of what is halved.
    """
    limits = np.asarray(caps, dtype=float)
    shares = np.asarray(weights, dtype=float)
    if limits.sum() < budget:
        return limits

    def plan(multiplier):
        price = np.sqrt(multiplier) if root else multiplier
        return np.minimum(shares / price, limits)

    low, (high, width) = 0.0, stop
    while high - low > max(width, _SMALLEST):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if plan(middle).sum() <= budget else (middle, high)
    return plan((low + high) / 2)


def forecast(gain: ArrayLike, later: int, rice: float) -> FloatArray:
    r"""Return the squared channel norms that the scripts expect of this and later rounds, shape (later + 1, M).

    .. math:: |h_t|^2, \qquad \frac{\kappa |h_t|^2 + 1}{\kappa + 1} \quad \text{in later rounds}

    Today's gain is scaled: the part of the line of sight, which is constant, is taken to be today's.  At
    :math:`\kappa = 0`, Rayleigh fading without memory, it is the mean.  Gains are in units of their mean.
    """
    faded = (np.arange(later + 1) == 0)[:, None]
    return (rice + faded) / (rice + 1) * np.asarray(gain) + (1 - faded) / (rice + 1)


@dataclass(frozen=True)
class Published:
    """The settings of the scripts' online experiment over the air."""

    rounds: int = 30
    clip: float = 20.0
    epsilon: float = 20.0
    delta: float = 0.01
    devices: int = 10
    power: float = 1e4
    rice: float = 5.0
    weight_decay: float = 5e-4
    radius: float = 10.0


class Plan(NamedTuple):
    """A round's plan: caps and weights of the rounds that are left, shape (n,), and what the round spends."""

    caps: FloatArray
    weights: FloatArray
    spent: float


def training(
    features: FloatArray,
    targets: FloatArray,
    contraction: float,
    settings: Published,
    rng: np.random.Generator,
) -> Iterator[Plan]:
    r"""Their online experiment: least squares over the air, a plan a round, nothing subtracted from the budget.

    The first n/M of the samples, (n, d) and (n,), are the first device's.  The step size is :math:`1 - r`, by the
    contraction :math:`r = 1 - \mu / L`.
    """
    (n, d), T, M, clip = (
        features.shape,
        settings.rounds,
        settings.devices,
        settings.clip,
    )
    budget = float(published_budget(settings.epsilon, settings.delta))
    line, scatter = np.sqrt(np.array([settings.rice, 0.5]) / (settings.rice + 1))
    faded = line + scatter * (
        rng.standard_normal((T, M)) + 1j * rng.standard_normal((T, M))
    )
    gain = np.abs(faded) ** 2
    noise = rng.standard_normal((T, d))
    share = n // M
    model = np.zeros(d)
    bound = n / M * clip
    for t in range(T):
        gradients = features * (features @ model - targets)[:, None]
        gradients *= np.minimum(1, clip / np.linalg.norm(gradients, axis=1))[:, None]
        expected = forecast(gain[t], T - 1 - t, settings.rice).min(axis=1)
        caps = 2 * clip**2 * settings.power * expected / bound**2
        weights = np.sqrt(2) * clip * contraction ** ((T - np.arange(t + 1, T + 1)) / 2)
        spent = float(published_plan(caps, weights, budget, stop=STOP, root=True)[0])
        yield Plan(caps, weights, spent)
        amplitude = np.sqrt(spent / (2 * clip**2))
        sums = (
            gradients[: share * M].reshape(M, share, d).sum(axis=1)
            + 2 * share * settings.weight_decay * model
        )
        room = (
            np.sqrt(settings.power * gain[t]) / amplitude / np.linalg.norm(sums, axis=1)
        )
        received = (np.minimum(1, room) @ sums + noise[t] / amplitude) / n
        bound = float(np.linalg.norm(received)) * n / M
        model = model - (1 - contraction) * received
        model *= min(1.0, settings.radius / float(np.linalg.norm(model)))


def our_first(plan: Plan, budget: float, contraction: float) -> float:
    """Compute what :class:`~adascale.policies.PowerControl` spends in the first round of a plan with one later cap."""
    scenario = replace(Scenario.mnist(), num_rounds=plan.caps.size)
    now, later = plan.caps[[0, -1]] * (_WATT / scenario.x_max)
    policy = PowerControl(np.array([later]), np.array(budget * _WATT), contraction)
    _, energy = policy.decide(
        policy.start(scenario, np.array(1.0)), scenario.floor(now)
    )
    return float(scenario.noise_scale / energy) / _WATT


def budgets() -> dict[str, Any]:
    """Compare :func:`published_budget` with :func:`~companion.leakage.liu_simeone.scaling_budget`."""
    scenario = Scenario.mnist()
    epsilon = np.arange(1.0, 101.0)
    unit = (
        scenario.noise_power
        * (scenario.num_devices * np.min(scenario.batch_size) / scenario.clip_norm) ** 2
    )
    off = [
        scaling_budget(scenario, epsilon, delta)
        / unit
        / published_budget(epsilon, delta)
        for delta in (1e-2, 1e-5)
    ]
    return {
        "what": "budgets",
        "compared": 2 * epsilon.size,
        "solved": np.abs(np.array(off) - 1).max(),
    }


def offline(contraction: float, seeds: int = 30) -> dict[str, Any]:
    """Compare schedules with :class:`~companion.leakage.liu_simeone.OfflinePowerControl`."""
    rounds, rice = 30, 10.0
    rng = np.random.default_rng(0)
    scenario = replace(Scenario.mnist(), num_rounds=rounds)
    solved = []
    weights = contraction ** ((rounds - np.arange(1, rounds + 1)) / 2)
    for _ in range(seeds):
        faded = np.sqrt(rice) + np.sqrt(0.5) * (
            rng.standard_normal(rounds) + 1j * rng.standard_normal(rounds)
        )
        caps = np.abs(faded) ** 2
        lane = Problem(scenario, caps * _WATT / scenario.x_max, 1.0)
        for epsilon in (1.0, 10.0, 100.0):  # few rounds at their caps, and many
            budget = float(published_budget(epsilon, 0.01))
            ours = (
                lane.eta(
                    OfflinePowerControl(np.array(budget * _WATT), contraction).schedule(
                        lane
                    )
                )
                / _WATT
            )
            solved.append(
                np.abs(
                    published_plan(caps, weights, budget, stop=(1e9, 0.0)) / ours - 1
                ).max()
            )
    row = {"what": "offline schedules", "contraction": contraction, "rounds": rounds}
    return row | {"compared": len(solved), "solved": max(solved)}


def online(
    features: FloatArray,
    targets: FloatArray,
    contraction: float,
    settings: Published,
    seeds: int = 10,
) -> dict[str, Any]:
    """Compare every round's plan of their experiment with :class:`~adascale.policies.PowerControl`.

    ``solved`` is the largest relative difference with the multiplier found to the last digit, ``stopped`` theirs over
    ours with the multiplier found as their scripts do, ``spent`` what a training spends over its budget.
    """
    budget = float(published_budget(settings.epsilon, settings.delta))
    solved = []
    stopped = []
    total = []
    for seed in range(seeds):
        plans = list(
            training(
                features, targets, contraction, settings, np.random.default_rng(seed)
            )
        )
        total.append(sum(plan.spent for plan in plans) / budget)
        for plan in plans:
            ours = our_first(plan, budget, contraction)
            exact = published_plan(
                plan.caps, plan.weights, budget, stop=(1e80, 0.0), root=True
            )[0]
            solved.append(abs(exact / ours - 1))
            stopped.append(plan.spent / ours)
    row = {
        "what": "online plans",
        "contraction": contraction,
        "rounds": settings.rounds,
        "clip": settings.clip,
    }
    row |= {"compared": len(solved), "solved": max(solved)}
    row |= {"stopped_low": min(stopped), "stopped_high": max(stopped)}
    return row | {"spent_low": min(total), "spent_high": max(total)}


def committed(source: Path) -> Made:
    """Return the committed table, of a clone at :data:`COMMIT`: a row a comparison."""
    git = subprocess.run(
        ["git", "-C", str(source), "rev-parse", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    )
    if (head := git.stdout.strip()) != COMMIT:
        raise SystemExit(f"{source} must be at commit {COMMIT}, it is at {head}")
    data = loadmat(source / "generated_Data_dim10.mat")
    contraction = 1 - data["mu"].item() / data["L"].item()
    experiment = data["X"].astype(float), data["Y"].astype(float).ravel(), contraction
    rows = [budgets(), offline(contraction), offline(1 - 1e-3)]
    rows += [
        online(*experiment, Published(rounds, clip))
        for clip in (4.0, 20.0)
        for rounds in (10, 20, 30, 70)
    ]
    table = pd.DataFrame(rows, columns=[*rows[-1]]).astype({"rounds": "Int64"})
    provenance = {
        "repository": REPOSITORY,
        "repository_commit": COMMIT,
        "contraction": contraction,
        "seeds": 10,
    }
    yield table.to_csv(index=False, float_format="%.3g"), provenance
