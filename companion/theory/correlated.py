r"""Floors that are correlated over rounds, and AdaScale's regret on them: the checks of :prf:ref:`thm-correlated`.

Every kind has the same law of a round, that of Rayleigh fading (:eq:`eq:floor-law`); they differ in how rounds hang
together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike

from adascale import channel, policies
from adascale.channel import RayleighFloors
from adascale.policies import adascale_energies
from adascale.policies.resolve import SEEN
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import FloatArray, Scenario
from adascale.statistics import interval
from companion.bounds import (
    correlated_regret_bound,
    level_value,
    stationary_level,
    stationary_regret_bound,
)
from companion.bounds.guarantees import optimum

BLOCKS = (1, 5, 10, 25, 50, 100)
BLOCK_OPTIMUM = "causal optimum"
BLOCK_PREDICTED = "c A ln(T/c)"


def block_floors(
    scale: float, block: int, shape: tuple[int, int], rng: np.random.Generator
) -> FloatArray:
    """Draw realisations times rounds of floors, each of which stays for ``block`` rounds; 1 makes them independent."""
    lanes, rounds = shape
    blocks = scale / rng.exponential(size=(lanes, -(-rounds // block)))
    return np.repeat(blocks, block, axis=1)[:, :rounds]


def gauss_markov_floors(
    scales: ArrayLike,
    correlation: float,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> FloatArray:
    r"""Draw floors of Gauss-Markov Rayleigh fading: :math:`h_{m,t+1} = r\,h_{m,t} + \sqrt{1 - r^2}\,e_{m,t}`.

    Devices have the scales :math:`\omega_m` and are independent; the shape is realisations times rounds.  The
    strong-mixing coefficient of the floors across k rounds is at most :math:`r^{2k}/4`.
    """
    r = correlation
    floor = np.zeros(shape)
    for scale in np.asarray(scales):
        fading = (
            rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        ) / np.sqrt(2)
        fading[:, 1:] *= np.sqrt(1 - r**2)
        floor = np.maximum(
            floor,
            scale / np.abs(scipy.signal.lfilter([1], [1, -r], fading, axis=1)) ** 2,
        )
    return floor


def compare(
    kinds: Mapping[str, tuple[FloatArray, FloatArray]],
    scale: float,
    budget: float,
    penalties: Sequence[float],
    leakage: RoundLeakage,
) -> pd.DataFrame:
    r"""Measured regret beside the bound for independent rounds and the one for correlated ones.

    ``regret`` is AdaScale's mean leakage over that of the stationary level, in nats a round, whose expectation
    :prf:ref:`thm-regret-iid` and :prf:ref:`thm-correlated` bound; it is at least the expected regret.  ``high`` is the
    upper end of its 95 % interval.  ``kinds`` has floors by name, realisations times rounds, each with the
    coefficients :math:`\chi(1), \chi(2), \dots` of their mixing.
    """
    rows = []
    level = stationary_level(scale, budget)
    for (name, (floor, mixing)), penalty in product(kinds.items(), penalties):
        energy, _ = adascale_energies(floor, budget, penalty, leakage)
        over = leakage(energy) - leakage(np.maximum(level, floor))
        regret = interval(np.mean(over, axis=-1))
        row = {
            "rounds": name,
            "V": penalty,
            "regret": regret.centre,
            "high": regret.high,
            "independent": stationary_regret_bound(scale, budget, penalty),
            "correlated": correlated_regret_bound(
                leakage, scale, budget, penalty, floor.shape[-1], mixing
            ),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def block_table(
    budget: float, blocks: Sequence[int] = BLOCKS, seeds: Iterable[int] = range(40)
) -> pd.DataFrame:
    r"""Compute what policies leak with a hard budget under block fading, and what can be reached.

    Blocks of c rounds with one floor are :math:`T/c` independent rounds of c times the cost and the leakage, so the
    dynamic programme of :math:`T/c` rounds is the optimum of all causal policies, and leaks :math:`T\,\Phi(\nu) + c A
    \ln(T/c) + O(c)` (:prf:ref:`prop-blocks`).  A row per block length, policy and seed: ``cost`` over :math:`\nu`, and
    ``ratio``, the Rényi leakage over that of the offline optimum.  ``BLOCK_PREDICTED`` is :math:`(T\Phi + c A \ln(T/c))
    / (T\Phi + c A)`.
    """
    scenario = Scenario.mnist()
    T = scenario.num_rounds
    seeds = list(seeds)
    leakage = RoundLeakage(scenario)
    rows = []
    law = RayleighFloors.of(
        scenario,
        scenario.mean_gain(channel.draw(scenario.num_devices, 1, seeds).path_loss),
    )
    value = level_value(leakage, law, budget)
    for c in blocks:
        block_values = [
            scale / np.random.default_rng([19, seed]).exponential(size=T // c)
            for scale, seed in zip(law.scale, seeds, strict=True)
        ]
        shorter = replace(scenario, num_rounds=T // c)
        floor = np.repeat(block_values, c, axis=-1)
        problem = Problem(scenario, scenario.floor(floor), budget)
        of_blocks = Problem(shorter, problem.min_gain[:, ::c], budget)
        best = leakage(optimum(floor, budget)).sum(axis=-1)
        steady = T * value.leakage
        hard = c * value.log_coefficient
        predicted = (steady + hard * np.log(T / c)) / (steady + hard)
        causal = policies.DynamicProgramme(law=law).schedule(of_blocks)
        resolve = partial(policies.ReSolve, law=law, budget_mode="hard")
        learn = partial(policies.Learn, "hard")
        online = {
            "ReSolve, hard": resolve(),
            "ReSolve, coherence known, hard": resolve(coherence=c),
            "ReSolve, coherent, hard": resolve(coherence=SEEN),
            "Learn, hard": learn(),
            "Learn, coherence known, hard": learn(coherence=c),
            "Learn, coherent, hard": learn(coherence=SEEN),
            "EqualAlloc": policies.EqualAlloc(),
        }
        energies = {BLOCK_OPTIMUM: np.repeat(causal, c, axis=-1)}
        energies |= {name: policy.schedule(problem) for name, policy in online.items()}
        for name, energy in energies.items():
            columns = {
                "block": c,
                "policy": name,
                "nu": budget,
                "seed": seeds,
                "cost": (energy - floor).mean(axis=-1) / budget,
                "ratio": leakage(energy).sum(axis=-1) / best,
            }
            rows.append(pd.DataFrame(columns))
        rows.append(rows[-1].assign(policy=BLOCK_PREDICTED, cost=1.0, ratio=predicted))
    return pd.concat(rows, ignore_index=True)
