"""Theorems on policies that know or learn the law and not the future, each with a control that must fail."""

import numpy as np
import pytest

from adascale import policies
from adascale.channel import RayleighFloors
from adascale.policies import adascale_energies, water_level
from companion.causal.growth import surplus

from .unit_case import (
    BOTH,
    UNIT,
    unit_cost,
    unit_leakage,
    unit_level,
    wandering,
    within,
)


def test_the_unit_case_is_closed():
    value, level = UNIT.value, UNIT.value.level
    assert UNIT.F([0.1, 1.0, 7.0]) == pytest.approx([10.0, 1.0, 1 / 7], rel=1e-12)
    assert (
        unit_cost(level) == pytest.approx(0.5, rel=1e-12) == unit_cost(unit_level(0.5))
    )
    assert value.leakage == pytest.approx(unit_leakage(level), rel=1e-8)
    step = 1e-3
    around = [unit_leakage(unit_level(0.5 + k * step)) for k in (-1, 0, 1)]
    assert (around[2] - around[0]) / (2 * step) == pytest.approx(
        -value.price, rel=1e-5
    )  # Phi'
    curvature = (around[0] - 2 * around[1] + around[2]) / step**2
    assert curvature * value.spread / 2 == pytest.approx(
        value.log_coefficient, rel=1e-4
    )  # A = Phi'' s^2 / 2


@BOTH
def test_surplus_accounts_for_every_policy(case):
    rng, value, F = np.random.default_rng(1), case.value, case.F
    floor = case.law.draw(rng, 100, 200)
    steady = np.maximum(value.level, floor)
    spend = (
        rng.exponential(size=floor.shape)
        * case.nu
        * (1 + (floor[:, ::-1] < value.level))
    )
    extra = surplus(F, value, floor, floor + spend)
    assert extra.min() > -1e-12 * F(steady).max()
    node, weight = np.polynomial.legendre.leggauss(
        40
    )  # the integral of F' + mu from the level to the energy
    energy, width = floor[0] + spend[0], floor[0] + spend[0] - steady[0]
    slopes = F.slope(steady[0] + width * (node[:, None] + 1) / 2) + value.price
    assert extra[0] == pytest.approx(
        width / 2 * (weight @ slopes), rel=1e-6, abs=1e-9 * F(energy).max()
    )

    def chance(
        believed,
    ):  # what is left over: the priced regret of each path less its surplus
        over = spend.sum(axis=1) - 200 * case.nu
        paths = (
            F(floor + spend).sum(axis=1)
            - 200 * believed.leakage
            + believed.price * over
        )
        return paths - surplus(F, believed, floor, floor + spend).sum(axis=1)

    assert within(chance(value), 0.0)
    assert not within(
        chance(case._replace(law=RayleighFloors(2 * case.law.scale)).value), 0.0
    )
    # below a floor, where no policy can go, it can be negative
    below = np.maximum(floor - 0.3 * value.level, 0.3 * value.level)
    assert surplus(F, value, floor, below).min() < -1e-3 * value.price * value.level


@BOTH
def test_offline_optimum_leaks_A_more_than_the_level(case):
    value, rounds = case.value, 1000
    floor = case.law.draw(np.random.default_rng(3), 2000, rounds)
    best = np.maximum(water_level(floor, case.nu)[:, None], floor)
    assert within(
        surplus(case.F, value, floor, best).sum(axis=1), value.log_coefficient
    )
    spent = np.maximum(value.level - floor, 0)
    variance = value.spread + (value.level - case.nu) * 0.1 * case.nu / 3
    bound = {t: np.exp(-t * 0.01 * case.nu**2 / (2 * variance)) for t in (100, 1000)}
    for t in (100, 1000):
        assert (spent[:, :t].mean(axis=1) > 1.1 * case.nu).mean() <= bound[t]
    assert (spent[:, 0] > 1.1 * case.nu).mean() > 5 * bound[
        1000
    ]  # one floor for all rounds


def unit_parts(floor, energy):
    """What each round of UNIT adds to the cost of a hard budget, shape (lanes, T); the last spends what is left."""
    spend, rounds = energy - floor, floor.shape[1]
    n = np.arange(rounds, 0, -1)
    left = rounds * UNIT.nu - np.cumsum(spend, axis=1) + spend
    rate, after = left / n, (left - spend) / np.maximum(n - 1, 1)
    level = unit_level(rate)
    steady = np.maximum(level, floor)
    return (
        1 / energy
        - 1 / steady
        + (energy - steady) / level**2
        + (n - 1) * np.where(n > 1, wandering(rate, after), 0)
    )


def programmed(floor):
    """The noise energies of the dynamic programme of UNIT: one table for all lanes."""
    lanes, rounds = floor.shape
    problem = UNIT.problem(floor)
    policy = policies.DynamicProgramme(law=UNIT.law)
    state, energy = (
        policy.start(problem.scenario, np.full(lanes, UNIT.nu)),
        np.empty(floor.shape),
    )
    for t in range(rounds):
        state, energy[:, t] = policy.decide(state, problem.min_noise_energy[:, t])
    return energy


def test_programme_and_re_solving_pay_A_per_factor_e():
    floor, A = (
        UNIT.law.draw(np.random.default_rng(5), 200, 400),
        UNIT.value.log_coefficient,
    )
    re_solving = policies.ReSolve(law=UNIT.law, budget_mode="hard", safety_margin=0)
    # the totals are those of a dynamic programme on another grid, by another recursion
    for energy, total in (
        (programmed(floor), 6.486),
        (UNIT.energy(re_solving, floor), 6.662),
    ):
        assert (energy - floor).sum(axis=1) == pytest.approx(
            np.full(200, 200.0), rel=1e-9
        )
        parts = unit_parts(floor, energy)
        assert within(parts.sum(axis=1), total * A)
        assert parts[:, :350].sum(axis=1).mean() == pytest.approx(
            A * np.log(8), rel=0.02
        )  # from 400 to 50 rounds left


def lost(case, floor, penalty, start):
    """AdaScale's surplus on every path, from a queue."""
    energy, _ = adascale_energies(floor, case.nu, penalty, case.F, start)
    return surplus(case.F, case.value, floor, energy).sum(axis=1)


@BOTH
def test_adascale_is_within_its_bound_from_any_start(case):
    value, rounds = case.value, 500
    floor = case.law.draw(np.random.default_rng(11), 200, rounds)
    for settled in case.nu * np.array([1.0, 5.0, 40.0, 300.0]):  # V mu
        V = settled / value.price
        for queue in (0.0, 0.5 * settled, settled - case.nu, settled, 2 * settled):
            regret = lost(case, floor, V, queue)
            assert regret.min() >= 0
            assert regret.mean() <= (
                rounds * value.spread + (queue + case.nu - settled) ** 2
            ) / (2 * V)
