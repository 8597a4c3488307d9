r"""The method of Liu & Simeone beside what they published: ``python -m companion make published --source CLONE``.

``CLONE`` is a checkout of https://github.com/kclip/Privacy4Free_DPWFL, read at commit 97512c8.  The equations below are
written anew from the paper and from what the scripts there compute; of the checkout only the data set is read.  Privacy
is counted in their unit, :math:`a_t = 2 \gamma^2 c_t^2 / \sigma^2`, which is :math:`\eta_t` over
:math:`M^2 B^2 \sigma_n^2 / G^2`.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.io import loadmat
from scipy.special import lambertw

from adascale.policies import PowerControl
from adascale.scenario import FloatArray, Scenario
from companion.bounds.convergence import Real
from companion.leakage.liu_simeone import scaling_budget, unit

REPOSITORY = "https://github.com/kclip/Privacy4Free_DPWFL"
COMMIT = "97512c8b1c87f00c3c2f0398044ec6bdd8c238b5"
"""Of the repository what was read is its newest commit, of 1 August 2021."""

STOP = (1e8, 1e-8)
"""Where their scripts for online transmission begin to halve the multiplier, and the width at which they stop."""

# the settings of their online experiment
DELTA, POWER, RICE, WEIGHT_DECAY, RADIUS = 0.01, 1e4, 5.0, 5e-4, 10.0
_WATT = 1e-12  # what a unit of privacy is called, so that our scenarios hold it


def published_budget(epsilon: Real, delta: float) -> FloatArray:
    r"""Return the sum of the :math:`a_t` that :math:`(\varepsilon, \delta)` allows, as published, without unit.

    .. math::
        \big(\sqrt{\varepsilon + C^2} - C\big)^2, \qquad
        C = \frac{1}{\delta \sqrt\pi} \exp\Big(-\tfrac12 W_0\Big(\frac{2}{\pi \delta^2}\Big)\Big)
    """
    c = np.exp(-lambertw(2 / (np.pi * delta**2)).real / 2) / (delta * np.sqrt(np.pi))
    return (np.sqrt(epsilon + c**2) - c) ** 2


def published_plan(
    caps: FloatArray, weights: FloatArray, budget: float, *, stop: tuple[float, float]
) -> FloatArray:
    r"""Return the :math:`a_j` of a plan, its multiplier found as in the scripts, by halving an interval of its square.

    .. math:: a_j = \min\big(\omega_j / \lambda, \mathrm{cap}_j\big), \qquad \sum_j a_j \le S

    The weights :math:`\omega_j` are proportional to :math:`r^{-j/2}`.  The search begins at the first of ``stop`` and
    ends at a width of the second, 0 for the last digit.
    """
    if caps.sum() < budget:
        return caps

    def plan(square):
        return np.minimum(weights / np.sqrt(square), caps)

    low, (high, width) = 0.0, stop
    middle = high / 2
    while high - low > width and low < middle < high:
        low, high = (low, middle) if plan(middle).sum() <= budget else (middle, high)
        middle = (low + high) / 2
    return plan(middle)


def forecast(gain: FloatArray, later: int, rice: float) -> FloatArray:
    r"""Return the squared channel norms that the scripts expect of this and later rounds, shape (later + 1, M).

    .. math:: |h_t|^2, \qquad \frac{\kappa |h_t|^2 + 1}{\kappa + 1} \quad \text{in later rounds}

    Today's gain is scaled: the part of the line of sight, which is constant, is taken to be today's.  At
    :math:`\kappa = 0`, Rayleigh fading without memory, it is the mean.  Gains are in units of their mean.
    """
    faded = (np.arange(later + 1) == 0)[:, None]
    return (rice + faded) / (rice + 1) * gain + (1 - faded) / (rice + 1)


class Plan(NamedTuple):
    """A round's plan: caps and weights of the rounds that are left, shape (n,), and what the round spends."""

    caps: FloatArray
    weights: FloatArray
    spent: float


def training(
    features: FloatArray,
    targets: FloatArray,
    contraction: float,
    rng: np.random.Generator,
    *,
    rounds: int = 30,
    clip: float = 20.0,
    epsilon: float = 20.0,
    devices: int = 10,
) -> Iterator[Plan]:
    r"""Their online experiment: least squares over the air, a plan a round, nothing subtracted from the budget.

    The first n/M of the samples, (n, d) and (n,), are the first device's.  The step size is :math:`1 - r`, by the
    contraction :math:`r = 1 - \mu / L`.
    """
    (n, d), T, M = features.shape, rounds, devices
    budget = float(published_budget(epsilon, DELTA))
    line, scatter = np.sqrt(np.array([RICE, 0.5]) / (RICE + 1))
    normal = rng.standard_normal
    gain = np.abs(line + scatter * (normal((T, M)) + 1j * normal((T, M)))) ** 2
    noise = normal((T, d))
    share = n // M
    model = np.zeros(d)
    bound = n / M * clip
    for t in range(T):
        gradients = features * (features @ model - targets)[:, None]
        gradients *= np.minimum(1, clip / np.linalg.norm(gradients, axis=1))[:, None]
        expected = forecast(gain[t], T - 1 - t, RICE).min(axis=1)
        caps = 2 * clip**2 * POWER * expected / bound**2
        weights = np.sqrt(2) * clip * contraction ** (np.arange(T - t)[::-1] / 2)
        spent = published_plan(caps, weights, budget, stop=STOP)[0]
        yield Plan(caps, weights, spent)
        amplitude = np.sqrt(spent / (2 * clip**2))
        sums = gradients[: share * M].reshape(M, share, d).sum(axis=1)
        sums += 2 * share * WEIGHT_DECAY * model
        room = np.sqrt(POWER * gain[t]) / amplitude / np.linalg.norm(sums, axis=1)
        received = (np.minimum(1, room) @ sums + noise[t] / amplitude) / n
        bound = np.linalg.norm(received) * n / M
        model = model - (1 - contraction) * received
        model *= min(1.0, RADIUS / np.linalg.norm(model))


def our_first(plan: Plan, budget: float, contraction: float) -> float:
    """Compute what :class:`~adascale.policies.PowerControl` spends in the first round of a plan with one later cap."""
    scenario = replace(Scenario.mnist(), num_rounds=plan.caps.size)
    now, later = plan.caps[[0, -1]] * (_WATT / scenario.x_max)
    policy = PowerControl(np.array([later]), np.array(budget * _WATT), contraction)
    _, energy = policy.decide(
        policy.start(scenario, np.array(1.0)), scenario.floor(now)
    )
    return float(scenario.noise_scale / energy) / _WATT


def _budgets():
    """Compare :func:`published_budget` with :func:`~companion.leakage.liu_simeone.scaling_budget`."""
    scenario = Scenario.mnist()
    epsilon = np.arange(1.0, 101.0)
    ours = [scaling_budget(scenario, epsilon, delta) for delta in (1e-2, 1e-5)]
    theirs = [published_budget(epsilon, delta) for delta in (1e-2, 1e-5)]
    off = np.divide(ours, theirs) / unit(scenario)
    return {"what": "budgets", "compared": off.size, "solved": np.abs(off - 1).max()}


def online(
    features: FloatArray,
    targets: FloatArray,
    contraction: float,
    seeds: int = 10,
    epsilon: float = 20.0,
    **settings: Any,
) -> dict[str, Any]:
    """Compare every round's plan of their experiment with :class:`~adascale.policies.PowerControl`.

    ``solved`` is the largest relative difference with the multiplier found to the last digit, ``stopped`` theirs over
    ours with the multiplier found as their scripts do, ``spent`` what a training spends over its budget.
    """
    budget = float(published_budget(epsilon, DELTA))
    solved = []
    stopped = []
    total = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        plans = training(
            features, targets, contraction, rng, epsilon=epsilon, **settings
        )
        spent = 0.0
        for plan in plans:
            spent += plan.spent / budget
            ours = our_first(plan, budget, contraction)
            exact = published_plan(plan.caps, plan.weights, budget, stop=(1e80, 0.0))
            solved.append(abs(exact[0] / ours - 1))
            stopped.append(plan.spent / ours)
        total.append(spent)
    return {
        "what": "online plans",
        "contraction": contraction,
        **settings,
        "compared": len(solved),
        "solved": max(solved),
        "stopped_low": min(stopped),
        "stopped_high": max(stopped),
        "spent_low": min(total),
        "spent_high": max(total),
    }


def committed(source: Path) -> pd.DataFrame:
    """Return the committed table, of a clone at :data:`COMMIT`: a row per comparison."""
    git = ["git", "-C", str(source), "rev-parse", "HEAD"]
    head = subprocess.check_output(git, text=True).strip()
    if head != COMMIT:
        raise SystemExit(f"{source} must be at commit {COMMIT}, it is at {head}")
    data = loadmat(source / "generated_Data_dim10.mat")
    contraction = 1 - data["mu"].item() / data["L"].item()
    experiment = data["X"].astype(float), data["Y"].astype(float).ravel(), contraction
    rows = [_budgets()]
    rows += [
        online(*experiment, rounds=rounds, clip=clip)
        for clip in (4.0, 20.0)
        for rounds in (10, 20, 30, 70)
    ]
    return pd.DataFrame(rows, columns=[*rows[-1]]).astype({"rounds": "Int64"})
