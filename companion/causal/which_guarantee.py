r"""What is guaranteed on which channel: every theorem on policies against every kind of channel.

A cell of :data:`GUARANTEES` holds, with the label of a theorem whose proof covers it; or fails, with a counterexample
that :data:`COUNTEREXAMPLES` runs; or is open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adascale import channel, policies
from adascale.accounting import RenyiAccountant
from adascale.channel import RayleighFloors
from adascale.policies import adascale_energies, water_level
from adascale.problem import ReceiveScalingProblem, RoundLeakage
from adascale.scenario import Scenario
from adascale.statistics import Interval, interval
from companion.bounds import level_value, stationary_regret_bound
from companion.causal.growth import surplus
from companion.theory.correlated import block_floors
from companion.training import channel_estimates

FloatArray = NDArray[np.float64]

KINDS = {
    "known": "independent, law known",
    "unknown": "independent, law unknown",
    "correlated": "one law, correlated (ergodic)",
    "moving": "no law stays",
    "believed": "independent, another law believed",
    "estimated": "coefficients estimated",
}
"""The kinds of channels, columns of the table."""

_SCALE, _NU, _ROUNDS = 0.037, 0.04, 500  # about the median MNIST cell


class Cell(NamedTuple):
    """One theorem on one kind of channel."""

    verdict: str
    """``holds``, ``fails`` or ``open``."""
    why: str
    """The label of a proof, the name of a counterexample, or what is known."""


class Guarantee(NamedTuple):
    """One statement on every kind of channel."""

    statement: str
    """In words."""
    label: str
    """Of its theorem in the book."""
    cells: dict[str, Cell]
    """By the keys of :data:`KINDS`."""


class Counterexample(NamedTuple):
    """A run against a statement: what it allows at most, what was found, and a control for which it must hold."""

    most: float
    found: Interval
    control: Interval


def _row(statement: str, label: str, *cells: str) -> Guarantee:
    """A cell is a label, for holds; ``!name`` of a counterexample; or ``? what is known``."""
    read = {"!": "fails", "?": "open"}
    found = [Cell(read.get(cell[0], "holds"), cell.lstrip("!? ")) for cell in cells]
    return Guarantee(statement, label, dict(zip(KINDS, found, strict=True)))


_ACCOUNTED = "? proved of the accounted leakage only"

GUARANTEES: tuple[Guarantee, ...] = (
    _row("the offline optimum is a water level", "thm-water-filling", *["thm-water-filling"] * 5, _ACCOUNTED),
    _row("a hard budget is kept on every path", "eq:resolving", *["thm-learning-hard"] * 6),
    _row("AdaScale's queue and violation are bounded on every path", "thm-queue-sharp", *["thm-queue-sharp"] * 6),
    _row("AdaScale's regret is bounded on every path", "thm-regret", *["thm-regret"] * 5, _ACCOUNTED),
    _row(
        "AdaScale's mean regret is at most D/2V",
        "thm-regret-iid",
        "thm-regret-iid",
        "thm-regret-iid",
        "!blocks",
        "!two halves",
        "thm-regret-iid",
        _ACCOUNTED,
    ),
    _row(
        "the same, with a lag",
        "thm-correlated",
        *["thm-correlated"] * 3,
        "? the bound needs one law",
        "thm-correlated",
        _ACCOUNTED,
    ),
    _row(
        "AdaScale's regret vanishes with T",
        "cor-vanish",
        "cor-vanish",
        "cor-vanish",
        "thm-correlated",
        "!two halves, longer",
        "cor-vanish",
        _ACCOUNTED,
    ),
    _row(
        "from any start, with V mu >= nu, AdaScale loses at most (T s^2 + (Q0 + nu - V mu)^2)/2V",
        "thm-warm-start",
        "thm-warm-start",
        "thm-warm-start",
        "!warm blocks",
        "!two halves, warm",
        "thm-warm-start",
        _ACCOUNTED,
    ),
    _row(
        "the constant level costs nu in the mean, and leaks least",
        "thm-constant-level",
        "thm-constant-level",
        "!wrong law",
        "thm-constant-level",
        "!two halves, level",
        "!wrong law",
        _ACCOUNTED,
    ),
    _row(
        "its cost scatters about nu with the variance s^2/T",
        "thm-constant-level",
        "thm-constant-level",
        "!wrong law",
        "!scatter",
        "!two halves, level",
        "!wrong law",
        "thm-constant-level",
    ),
    _row(
        "re-solving pays A ln T for a hard budget",
        "thm-hard-budget",
        "thm-hard-budget",
        "!wrong law, hard",
        "!hard blocks",
        "!two halves, hard",
        "!wrong law, hard",
        _ACCOUNTED,
    ),
    _row(
        "learning pays 2A ln T for a hard budget",
        "thm-learning-hard",
        "thm-learning-hard",
        "thm-learning-hard",
        "!hard blocks",
        "!two halves, hard",
        "thm-learning-hard",
        _ACCOUNTED,
    ),
    _row(
        "the bound on the training counts all its noise", "thm-convergence", *["thm-convergence"] * 5, "!estimated sum"
    ),
    _row("epsilon is what is accounted for", "prop-composition", *["prop-composition"] * 5, "!estimated leakage"),
)
"""The table.

:meta hide-value:
"""


def guarantees_table() -> pd.DataFrame:
    """:data:`GUARANTEES` as a table of text: statements in rows, kinds of channels in columns."""
    rows = {each.statement: [f"{cell.verdict}: {cell.why}" for cell in each.cells.values()] for each in GUARANTEES}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(KINDS.values()))


# Counterexamples ------------------------------------------------------------------------------------------------------


class _Cell:
    """Floors of one law, in one cell of the MNIST scenario."""

    def __init__(self, lanes: int, block: int = 1, seed: int = 19, rounds: int = _ROUNDS) -> None:
        self.scenario = replace(Scenario.mnist(), num_rounds=rounds)
        self.leakage, self.law = RoundLeakage(self.scenario), RayleighFloors(_SCALE)
        self.value = level_value(self.leakage, self.law, _NU)
        self.floor = block_floors(_SCALE, block, (lanes, rounds), np.random.default_rng(seed))

    def energy(self, policy: policies.Policy) -> FloatArray:
        gain = self.scenario.noise_scale / (self.scenario.x_max * self.floor)
        problem = ReceiveScalingProblem(self.scenario, gain, _NU)
        return problem.noise_energy(policy.schedule(problem))

    def optimum(self) -> FloatArray:
        return np.maximum(water_level(self.floor, _NU)[:, None], self.floor)

    def surplus(self, energy: FloatArray) -> FloatArray:
        """What a path leaks beyond the constant level at its price; its mean is the priced regret."""
        return np.asarray(surplus(self.leakage, self.value, self.floor, energy).sum(axis=-1))

    def worst_first(self) -> FloatArray:
        """The same floors, falling from round to round."""
        return -np.sort(-self.floor, axis=-1)

    def in_two_halves(self) -> _Cell:
        """The same, with floors of a fifth in the second half."""
        self.floor[:, self.floor.shape[-1] // 2 :] /= 5
        return self


def _blocks() -> Counterexample:
    """Regret against the optimum, in blocks of 100 rounds and in independent ones."""
    V = float(5 * _NU / _Cell(1).value.price)
    cells = (_Cell(400, block) for block in (100, 1))
    found = [interval(_regret(cell.floor, V, cell.leakage)) for cell in cells]
    return Counterexample(float(stationary_regret_bound(_SCALE, _NU, V)), *found)


def _regret(floor: FloatArray, V: float, leakage: RoundLeakage) -> FloatArray:
    """Of AdaScale from an empty queue, in the mean of a round, path by path."""
    energy, _ = adascale_energies(floor, _NU, V, leakage)
    best = np.maximum(water_level(floor, _NU)[:, None], floor)
    return np.asarray((leakage(energy) - leakage(best)).mean(axis=-1))


def _two_halves() -> Counterexample:
    """Regret where floors fall from round to round, and where the same floors come in any order."""
    cell = _Cell(400)
    V = float(5 * _NU / cell.value.price)
    found = [interval(_regret(floor, V, cell.leakage)) for floor in (cell.worst_first(), cell.floor)]
    return Counterexample(float(stationary_regret_bound(_SCALE, _NU, V)), *found)


def _two_halves_longer() -> Counterexample:
    """The regret of sixteen times the rounds with four times the V, over the regret as it was; floors fall, or not."""
    found = []
    for ordered in (True, False):
        mean = []
        for longer in (1, 16):
            cell = _Cell(100, rounds=longer * _ROUNDS)
            V = float(5 * _NU / cell.value.price * np.sqrt(longer))
            mean.append(_regret(cell.worst_first() if ordered else cell.floor, V, cell.leakage))
        found.append(interval(mean[1] / mean[0].mean()))
    return Counterexample(0.5, *found)


def _two_halves_warm() -> Counterexample:
    """Priced regret of a warm queue over its bound, where floors fall from round to round and in any order."""
    ordered, cell = _Cell(400), _Cell(400)
    ordered.floor = ordered.worst_first()
    return Counterexample(1.0, _warm(ordered), _warm(cell))


def _warm(cell: _Cell) -> Interval:
    """Priced regret of a warm queue over its bound."""
    warm = policies.AdaScale.from_law(cell.scenario, _NU, law=cell.law)
    V, Q = float(warm.penalty), float(warm.initial_queue)
    bound = (_ROUNDS * cell.value.spread + (Q + _NU - V * cell.value.price) ** 2) / (2 * V)
    return interval(cell.surplus(cell.energy(warm)) / bound)


def _warm_blocks() -> Counterexample:
    """The same in blocks of 100 rounds."""
    return Counterexample(1.0, *(_warm(_Cell(400, block)) for block in (100, 1)))


def _scatter() -> Counterexample:
    """The squared deviation of the level's cost, over s^2/T."""
    found = []
    for block in (10, 1):
        cell = _Cell(400, block)
        cost = (cell.energy(policies.ConstantLevel(law=cell.law)) - cell.floor).mean(axis=-1)
        found.append(interval((cost - _NU) ** 2 * _ROUNDS / cell.value.spread))
    return Counterexample(2.0, *found)


def _cost_of_level(law: RayleighFloors, cell: _Cell) -> Interval:
    return interval((cell.energy(policies.ConstantLevel(law=law)) - cell.floor).mean(axis=-1) / _NU)


def _wrong_law() -> Counterexample:
    """The level's cost over the budget, with path losses believed 3 dB too large."""
    return Counterexample(1.05, *(_cost_of_level(RayleighFloors(scale * _SCALE), _Cell(200)) for scale in (2, 1)))


def _two_halves_level() -> Counterexample:
    """The same where devices come closer after the first half."""
    law = RayleighFloors(_SCALE)
    return Counterexample(1.05, _cost_of_level(law, _Cell(200).in_two_halves()), _cost_of_level(law, _Cell(200)))


def _over_optimum(cell: _Cell, *chosen: policies.Policy) -> Interval:
    """The least leakage of these policies, path by path, over the optimum's."""
    leaked = np.min([cell.leakage(cell.energy(policy)).sum(axis=-1) for policy in chosen], axis=0)
    return interval(leaked / cell.leakage(cell.optimum()).sum(axis=-1))


def _most_hard(cell: _Cell) -> float:
    """What a hard budget may cost; five times its leading term, for the constants."""
    return float(1 + 5 * cell.value.log_coefficient * np.log(_ROUNDS) / (_ROUNDS * cell.value.leakage))


def _wrong_law_hard() -> Counterexample:
    """Re-solving with path losses believed 3 dB too large: the leakage over the optimum's."""
    cell = _Cell(100)
    resolve = [policies.ReSolve(law=RayleighFloors(scale * _SCALE), budget_mode="hard") for scale in (2, 1)]
    return Counterexample(_most_hard(cell), *(_over_optimum(cell, policy) for policy in resolve))


def _two_halves_hard() -> Counterexample:
    """Re-solving and learning, the better of both on each path."""
    both = policies.ReSolve(law=RayleighFloors(_SCALE), budget_mode="hard"), policies.Learn("hard")
    cell = _Cell(100)
    return Counterexample(
        _most_hard(cell), _over_optimum(_Cell(100).in_two_halves(), *both), _over_optimum(cell, *both)
    )


def _hard_blocks() -> Counterexample:
    """By how much the regret of the best causal policy grows from 20 blocks to 200, in units of A ln 10.

    In blocks of ten rounds, and in single ones: of a block every round is counted ten times (:prf:ref:`prop-blocks`).
    """
    paths = []
    for rounds in (20, 200):
        cell = _Cell(400, rounds=rounds)
        programme = policies.DynamicProgramme(law=cell.law)
        state, energy = programme.start(cell.scenario, np.full(400, _NU)), []
        for t in range(rounds):
            gain = cell.scenario.noise_scale / (cell.scenario.x_max * cell.floor[:, t])
            state, eta = programme.step(state, gain)
            energy.append(cell.scenario.noise_scale / eta)
        paths.append(cell.surplus(np.stack(energy, axis=-1)))
    growth = (paths[1] - paths[0]) / (float(cell.value.log_coefficient) * np.log(10))
    return Counterexample(2.0, interval(10 * growth), interval(growth))


def _estimated(error: float) -> tuple[ReceiveScalingProblem, FloatArray, NDArray[np.complex128], FloatArray]:
    """A problem by estimates at 1e-12 and at this error; schedule, alignment and its variance."""
    scenario = Scenario.mnist()
    drawn = channel.draw(scenario.num_devices, scenario.num_rounds, range(20))
    believed = channel_estimates.estimate(drawn, error, seed=range(20))
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(np.abs(believed) ** 2), _NU)
    variance = channel_estimates.alignment_law(believed, drawn.path_loss, error).variance
    return problem, policies.Optimal().schedule(problem), drawn.coefficient / believed, variance


def _estimated_leakage() -> Counterexample:
    """The leakage with the multipliers that are left, over what is accounted for; pilots 20 dB above the noise."""
    found = []
    for error in (1e-2, 1e-12):
        problem, eta, alignment, _ = _estimated(error)
        accounted = problem.noise_multiplier(eta)
        left = channel_estimates.true_noise_multiplier(accounted, alignment)
        epsilon = [
            RenyiAccountant().epsilon(float(np.ravel(problem.scenario.sampling_rate)[0]), sigma, 1e-5)
            for sigma in (left, accounted)
        ]
        found.append(interval((epsilon[0] / epsilon[1]).max(axis=-1)))
    return Counterexample(1.01, *found)


def _estimated_sum() -> Counterexample:
    """What misalignment adds to the sum's noise in the median round, over the budget."""
    found = []
    for error in (1e-2, 1e-12):
        problem, _, _, variance = _estimated(error)
        found.append(interval(np.median(2 * channel_estimates.misalignment(problem.scenario, variance), axis=-1) / _NU))
    return Counterexample(0.01, *found)


COUNTEREXAMPLES: dict[str, Callable[[], Counterexample]] = {
    "blocks": _blocks,
    "two halves": _two_halves,
    "two halves, longer": _two_halves_longer,
    "two halves, warm": _two_halves_warm,
    "warm blocks": _warm_blocks,
    "scatter": _scatter,
    "wrong law": _wrong_law,
    "two halves, level": _two_halves_level,
    "wrong law, hard": _wrong_law_hard,
    "two halves, hard": _two_halves_hard,
    "hard blocks": _hard_blocks,
    "estimated leakage": _estimated_leakage,
    "estimated sum": _estimated_sum,
}
"""A run for every cell that fails.

:meta hide-value:
"""
