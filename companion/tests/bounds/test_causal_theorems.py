"""Theorems on policies that know or learn the law and not the future, each with a control that must fail."""

import numpy as np
import pytest

from adascale import policies
from adascale.channel import RayleighFloors
from adascale.policies import adascale_energies, water_level
from companion import bounds
from companion.causal.growth import surplus

from .unit_case import (
    BOTH,
    UNIT,
    mean_surplus,
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
def test_hard_budget_costs_the_sum_of_its_rounds(case):
    rng, F, lanes, rounds = np.random.default_rng(2), case.F, 60, 25
    floor = case.law.draw(rng, lanes, rounds)
    left = np.full(lanes, rounds * case.nu)
    added, chance, wrong, leaked = np.zeros((4, lanes))
    other = RayleighFloors(2 * case.law.scale)
    for n in range(rounds, 0, -1):
        w, rate = floor[:, rounds - n], left / n
        value = bounds.level_value(F, case.law, rate)
        steady = np.maximum(value.level, w)
        # any policy: coins, and a last round that leaves a third
        coins, some = (
            rng.uniform(0.3, 1.7, lanes),
            0.2 * case.nu * (rng.random(lanes) < 0.3),
        )
        spend = (
            np.minimum(0.7 * left, (steady - w) * coins + some)
            if n > 1
            else 2 * left / 3
        )
        after = (left - spend) / max(n - 1, 1)
        leaked += F(w + spend)
        added += F(w + spend) - F(steady) + value.price * (w + spend - steady)
        if n > 1:
            later = (
                bounds.level_value(F, case.law, after).leakage
                - value.leakage
                + value.price * (after - rate)
            )
            assert later.min() > -1e-7 * value.leakage.max()
            added += (n - 1) * later
        else:
            unspent = value.price * (rate - spend)
            added += unspent
        chance += F(steady) - value.leakage + value.price * (steady - w - rate)
        believed = bounds.level_value(F, other, rate)
        steady = np.maximum(believed.level, w)
        wrong += F(steady) - believed.leakage + believed.price * (steady - w - rate)
        left = left - spend
    total = leaked - rounds * case.value.leakage
    assert total == pytest.approx(added + chance, rel=1e-10, abs=1e-10 * leaked.max())
    assert (
        np.abs(total - (added - unspent + chance)).max() > 1e-3 * case.value.leakage
    )  # the unspent must be paid
    assert within(chance, 0.0)
    assert not within(wrong, 0.0)


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


def test_a_round_of_re_solving_adds_A_over_n():
    share = (np.arange(20_000) + 0.5) / 20_000
    floor, value, scaled = -1 / np.log(share), UNIT.value, []
    for n in (10, 100, 1000):
        level = UNIT.law.shared_level(np.full(floor.shape, n * 0.5), floor, n - 1)
        spend = np.maximum(level - floor, 0)
        steady = np.maximum(value.level, floor)
        assert np.abs(spend - (steady - floor)).max() <= 4 / n
        part = 1 / (floor + spend) - 1 / steady + (floor + spend - steady) * value.price
        part += (n - 1) * wandering(0.5, (n * 0.5 - spend) / (n - 1))
        scaled.append(n * (n * part.mean() / value.log_coefficient - 1))
    assert np.abs(scaled).max() < 2  # so n times a round's part is A + O(1/n)


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


def test_frozen_end_costs_A_times_log_of_T_over_K():
    value, rounds, kept = UNIT.value, 400, 40
    floor = UNIT.law.draw(np.random.default_rng(6), 1000, rounds)
    energy = UNIT.energy(policies.ReSolve(law=UNIT.law, hold=kept / rounds), floor)
    over = (energy - floor).sum(axis=1) - rounds * UNIT.nu
    assert within(over, 0.0)
    assert over.std() == pytest.approx(np.sqrt(value.spread * kept), rel=0.1)
    cost = unit_parts(floor, energy)[:, : rounds - kept].sum(axis=1)
    assert cost.mean() == pytest.approx(
        value.log_coefficient * np.log(rounds / kept), abs=0.05 * value.log_coefficient
    )
    hard = UNIT.energy(
        policies.ReSolve(law=UNIT.law, budget_mode="hard", safety_margin=0), floor
    )
    assert (
        np.abs((hard - floor).sum(axis=1) - rounds * UNIT.nu).max() < 1e-9 * rounds
    )  # nothing frozen, nothing over


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


def test_only_an_empty_queue_costs_the_root_of_T():
    value, lowest, warm = UNIT.value, [], []
    for rounds in (125, 500, 2000):
        floor = UNIT.law.draw(np.random.default_rng(12), 100, rounds)
        penalties = np.geomspace(0.5, 4 * rounds, 10)
        cold = [lost(UNIT, floor, V, 0.0).mean() for V in penalties]
        order = np.array(cold) / (penalties + rounds / penalties)
        middle = (penalties >= 2) & (penalties <= rounds)
        assert order[middle].max() / order[middle].min() < 3  # V + T/V, from both sides
        lowest.append(min(cold) / np.sqrt(rounds))
        warm.append(lost(UNIT, floor, float(rounds), rounds * value.price).mean())
    assert max(lowest) / min(lowest) < 1.3
    assert max(warm) < 0.08


def controlled(floor, step, aim_at_rest):
    """What the price controller overspends: lambda <- lambda + (y - target) step_n, of UNIT."""
    rounds, settled = floor.shape[1], UNIT.value.price
    price = np.full(len(floor), settled)
    left = np.full(len(floor), rounds * UNIT.nu)
    for t in range(rounds):
        spend = np.maximum(1 / np.sqrt(price) - floor[:, t], 0)
        target = left / (rounds - t) if aim_at_rest else UNIT.nu
        price = np.clip(
            price + (spend - target) * step(rounds - t), settled / 20, settled * 20
        )
        left = left - spend
    return -left


def test_price_must_aim_at_what_is_left_per_round():
    value, rounds = UNIT.value, 2000
    curvature, s = 2 * value.log_coefficient / value.spread, np.sqrt(value.spread)
    floor = UNIT.law.draw(np.random.default_rng(13), 300, rounds)

    def as_stiff_as_re_solving(n):
        return curvature / (n - 1) if n > 10 else 0.0

    kept, lagging = (
        controlled(floor, as_stiff_as_re_solving, aim).std() for aim in (True, False)
    )
    assert kept < 2 * s * np.sqrt(10)  # the last ten rounds are frozen
    assert lagging == pytest.approx(0.5 * s * np.sqrt(rounds), rel=0.15)
    assert controlled(floor, lambda n: 0.0, True).std() == pytest.approx(
        s * np.sqrt(rounds), rel=0.15
    )


def test_level_of_the_past_costs_A_over_t():
    value, nu = UNIT.value, UNIT.nu
    for t in (50, 500):
        past = UNIT.law.draw(np.random.default_rng(t), 5000, t)
        level = water_level(past, nu)
        assert within(t * mean_surplus(level), value.log_coefficient)
        # the mean spending of the next round, less a term of mean zero
        over = (
            unit_cost(level)
            - nu
            - (nu - np.maximum(value.level - past, 0).mean(axis=1))
        )
        assert within(t * over, nu * (1 - value.wet) / value.wet)
        assert not within(t * over, 0.0)
