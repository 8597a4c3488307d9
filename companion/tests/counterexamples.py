"""A run for every cell of the table of guarantees that fails, beside a control for which the statement must hold."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from adascale import channel, policies
from adascale.accounting import RenyiAccountant
from adascale.channel import RayleighFloors
from adascale.policies import water_level
from adascale.problem import Problem, RoundLeakage
from adascale.scenario import Scenario
from companion.bounds import level_value, stationary_regret_bound
from companion.causal.growth import surplus
from companion.theory.correlated import block_floors
from companion.training import channel_estimates
from tests.problems import with_floors

SCALE, NU, ROUNDS = 0.037, 0.04, 500  # about the median MNIST cell
MNIST = Scenario.mnist()
LAW = RayleighFloors(SCALE)
F = RoundLeakage(MNIST)
VALUE = level_value(F, LAW, NU)
WRONG = RayleighFloors(2 * SCALE)  # path losses are believed 3 dB too large
HARD = {law: policies.ReSolve(law=law, budget_mode="hard") for law in (LAW, WRONG)}
# what a hard budget may cost: five times its leading term, for the constants
MOST_HARD = float(
    1 + 5 * VALUE.log_coefficient * np.log(ROUNDS) / (ROUNDS * VALUE.leakage)
)


def floors(lanes=400, block=1, rounds=ROUNDS):
    return block_floors(SCALE, block, (lanes, rounds), np.random.default_rng(19))


def falling(floor):
    """The same floors, falling from round to round."""
    return -np.sort(-floor, axis=-1)


def halved(floor):
    """The same, with floors of a fifth in the second half: devices come closer."""
    return np.concatenate(
        [floor[:, : floor.shape[1] // 2], floor[:, floor.shape[1] // 2 :] / 5], axis=1
    )


def energy_of(policy, floor):
    problem = with_floors(replace(MNIST, num_rounds=floor.shape[1]), floor, NU)
    return policy.schedule(problem)


def optimum(floor):
    return np.maximum(water_level(floor, NU)[:, None], floor)


def regret(floor, stiffness=1.0):
    """Of AdaScale from an empty queue over the bound for independent rounds, path by path."""
    V = float(5 * NU / VALUE.price) * stiffness
    lost = F(energy_of(policies.AdaScale(V), floor)) - F(optimum(floor))
    return lost.mean(axis=-1) / stationary_regret_bound(SCALE, NU, V)


def longer(arrange):
    """The regret of sixteen times the rounds with four times the V, over the regret as it was."""
    short, long = (
        regret(arrange(floors(100, rounds=n**2 * ROUNDS)), n) / n for n in (1, 4)
    )
    return long / short.mean()


def warm(floor):
    """Priced regret of a warm queue over its bound."""
    policy = policies.AdaScale.from_law(MNIST, NU, law=LAW)
    V = float(policy.penalty)
    Q = float(policy.initial_queue)
    bound = (ROUNDS * VALUE.spread + (Q + NU - V * VALUE.price) ** 2) / (2 * V)
    return surplus(F, VALUE, floor, energy_of(policy, floor)).sum(axis=-1) / bound


def cost(floor, law=LAW):
    """Of a constant level, over the budget."""
    return (energy_of(policies.ConstantLevel(law=law), floor) - floor).mean(
        axis=-1
    ) / NU


def scatter(floor):
    """The squared deviation of the level's cost, over s^2/T."""
    return (NU * (cost(floor) - 1)) ** 2 * ROUNDS / VALUE.spread


def over_optimum(floor, *chosen):
    """The least leakage of these policies, path by path, over the optimum's."""
    leaked = np.min(
        [F(energy_of(policy, floor)).sum(axis=-1) for policy in chosen], axis=0
    )
    return leaked / F(optimum(floor)).sum(axis=-1)


def hard_blocks(block):
    """By how much the regret of the best causal policy grows from 20 blocks to 200, in units of A ln 10.

    Every round of a block counts, so that blocks of ten rounds have ten times the regret (prop-blocks).
    """
    paths = []
    for rounds in (20, 200):
        floor = floors(rounds=rounds)
        programme = policies.DynamicProgramme(law=LAW)
        state = programme.start(replace(MNIST, num_rounds=rounds), np.full(400, NU))
        energy = []
        for t in range(rounds):
            state, energy_t = programme.decide(state, floor[:, t])
            energy.append(energy_t)
        paths.append(surplus(F, VALUE, floor, np.stack(energy, axis=-1)).sum(axis=-1))
    return block * (paths[1] - paths[0]) / (float(VALUE.log_coefficient) * np.log(10))


def estimated(error):
    """Of twenty problems by estimates: the leakage over the accounted one, and the sum's added noise over nu."""
    fading = channel.draw(MNIST.num_devices, ROUNDS, range(20))
    believed = channel_estimates.estimate(fading, error, seed=range(20))
    problem = Problem(MNIST, MNIST.min_gain(np.abs(believed) ** 2), NU)
    accounted = problem.noise_multiplier(policies.Optimal().schedule(problem))
    alignment = fading.coefficient / believed
    remaining = channel_estimates.true_noise_multiplier(accounted, alignment)
    rate = float(np.ravel(MNIST.sampling_rate)[0])
    epsilon = [
        RenyiAccountant().epsilon(rate, sigma, 1e-5) for sigma in (remaining, accounted)
    ]
    variance = channel_estimates.alignment_law(
        believed, fading.path_loss, error
    ).variance
    added = 2 * channel_estimates.misalignment(MNIST, variance)
    return (epsilon[0] / epsilon[1]).max(axis=-1), np.median(added, axis=-1) / NU


class Run(NamedTuple):
    """What a statement allows at most, and functions to values against it and of the control."""

    most: float
    found: partial
    control: partial


def run(most, measure, found, control):
    return Run(most, partial(measure, *found), partial(measure, *control))


ANY = floors()
FEWER = floors(200)
FEW = floors(100)
BOTH = HARD[LAW], policies.Learn("hard")
COUNTEREXAMPLES = {
    "blocks": run(1.0, regret, [floors(block=100)], [ANY]),
    "two halves": run(1.0, regret, [falling(ANY)], [ANY]),
    "two halves, longer": run(0.5, longer, [falling], [np.asarray]),
    "two halves, warm": run(1.0, warm, [falling(ANY)], [ANY]),
    "warm blocks": run(1.0, warm, [floors(block=100)], [ANY]),
    "scatter": run(2.0, scatter, [floors(block=10)], [ANY]),
    "wrong law": run(1.05, cost, [FEWER, WRONG], [FEWER]),
    "two halves, level": run(1.05, cost, [halved(FEWER)], [FEWER]),
    "wrong law, hard": run(
        MOST_HARD, over_optimum, [FEW, HARD[WRONG]], [FEW, HARD[LAW]]
    ),
    "two halves, hard": run(
        MOST_HARD, over_optimum, [halved(FEW), *BOTH], [FEW, *BOTH]
    ),
    "hard blocks": run(2.0, hard_blocks, [10], [1]),
    "estimated leakage": run(1.01, lambda error: estimated(error)[0], [1e-2], [1e-12]),
    "estimated sum": run(0.01, lambda error: estimated(error)[1], [1e-2], [1e-12]),
}
