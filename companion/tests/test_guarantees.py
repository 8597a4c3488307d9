"""The scaling experiment: the loop it runs is AdaScale, and its committed table is what its command makes."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, channel, policies
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
from adascale.statistics import interval
from companion import bounds
from companion.bounds import level_value
from companion.causal.which_guarantee import GUARANTEES, guarantees_table
from companion.results import load
from companion.theory import scaling as guarantees
from companion.theory.correlated import block_floors
from tests.problems import MNIST, with_floors

from .counterexamples import COUNTEREXAMPLES

COMMITTED = load("guarantees/scaling")


def end_limits(rows):
    """The four limits of :func:`companion.bounds.queue_limits` on the last queue of every row of the table."""
    nu, (T, V, least) = (
        guarantees.BUDGET,
        (rows[name].to_numpy(float) for name in ("T", "penalty", "least_floor")),
    )
    slope = -RoundLeakage(MNIST).slope(nu + least)
    return bounds.QueueLimits(
        full_power=np.sqrt(2 * V * T * rows["full_power"].to_numpy() + T * nu**2),
        equal=np.sqrt(nu**2 + 2 * V * T * rows["equal"].to_numpy()) - nu,
        threshold=np.maximum(V * slope - nu, 0),
        growth=np.cbrt(2.25 * V * (nu + least) ** 2 * slope * T**2),
    )


def test_a_row_holds_the_sides_of_the_bounds():
    table, nu = (
        guarantees.scaling_table([(20.0, 0.5), (20.0, 1.5)], (100, 250), [2]),
        guarantees.BUDGET,
    )
    gain = MNIST.min_gain(channel.draw(10, 250, 2).gain)
    assert table["T"].tolist() == [100, 100, 250, 250]
    assert table["penalty"][3] / table["penalty"][1] == pytest.approx(2.5**1.5)
    ends = end_limits(table)
    for row in table.itertuples():
        problem = ReceiveScalingProblem(MNIST, gain[: row.T], nu)
        w, floor = (
            policies.AdaScale(row.penalty).schedule(problem),
            problem.min_noise_energy,
        )
        best = np.maximum(policies.water_level(floor, nu), floor) - floor
        found = (
            row.violation,
            row.leakage - row.optimum,
            row.above,
            row.square,
            row.least_floor,
        )
        left = [
            float(bound(problem, w, row.penalty).left)
            for bound in (bounds.violation_bound, bounds.regret_bound)
        ]
        expected = (
            *left,
            np.maximum(best - nu, 0).mean(),
            (best**2).mean(),
            floor.min(),
        )
        assert found == pytest.approx(expected, rel=1e-9)
        for end, limit in zip(
            ends, bounds.queue_limits(problem, row.penalty), strict=True
        ):
            assert end[row.Index] == pytest.approx(float(limit[-1]))


def test_leakage_is_never_below_that_of_the_optimum_at_the_same_cost():
    # the printed table has nine digits
    assert (COMMITTED["leakage"] >= COMMITTED["optimum_at_cost"] * (1 - 1e-8)).all()


def test_every_row_keeps_every_bound():
    nu, T, V = guarantees.BUDGET, COMMITTED["T"], COMMITTED["penalty"]
    regret = COMMITTED["leakage"] - COMMITTED["optimum"]
    ends = end_limits(COMMITTED)
    for limit in ends:
        assert (COMMITTED["queue"] <= limit).all()
    assert (
        COMMITTED["violation"] <= COMMITTED["queue"] / T * (1 + 1e-7) + 1e-9
    ).all()  # nine digits are stored
    assert (regret <= (ends.full_power * nu + T * nu**2 / 2 + nu**2 / 2) / V).all()
    least = np.min(ends, axis=0)
    assert (
        regret <= (least * COMMITTED["above"] + COMMITTED["square"] / 2) / V
    ).all()  # (y - nu)^2 >= (y - nu)_+^2
    # control: limits that are a tenth of the sharp ones are broken
    assert (COMMITTED["queue"] > least / 10).any()


def test_measured_exponents_are_those_of_the_theorem():
    near, far = (COMMITTED[COMMITTED["start"] == start] for start in (20.0, 2e7))
    for beta in (0.5, 1.0):
        slope = guarantees.end_slope(near[near["beta"] == beta], "violation")
        assert slope.low < beta - 1 < slope.high
    for beta in (1.25, 1.5, 1.75):
        slope = guarantees.end_slope(far[far["beta"] == beta], "violation")
        assert abs(slope.centre - (beta - 1) / 3) < 0.003
        assert slope.high < (beta - 1) / 2  # the paper's
        rows = near[near["beta"] == beta]
        late, early = (
            guarantees.end_slope(rows, "violation", guarantees.HORIZONS[k : k + 3])
            for k in (6, 2)
        )
        assert (
            (beta - 1) / 3 < late.low < late.high < early.low
        )  # steeper, and falling with T
    assert (
        guarantees.exponents(COMMITTED)
        .set_index("start")
        .loc[2e7, "constant"]
        .between(0.98, 1)
        .all()
    )


def test_a_slope_is_the_exponent_of_a_power():
    rows = pd.DataFrame(
        [(seed, T, -seed * T**0.75) for seed in (1, 2, 3) for T in (10, 100, 1000)],
        columns=["seed", "T", "size"],
    )
    slope = guarantees.end_slope(rows, "size", (10, 100, 1000))
    assert slope.centre == pytest.approx(0.75)
    assert slope.high - slope.low == pytest.approx(0, abs=1e-9)


def test_the_regret_is_negative_in_every_row_and_bought_by_the_budget():
    assert (COMMITTED["leakage"] < COMMITTED["optimum"])[
        COMMITTED["start"] == 20.0
    ].all()
    assert (COMMITTED["violation"] > 0).all()
    last = COMMITTED[COMMITTED["T"] == guarantees.HORIZONS[-1]]
    dearer = last["leakage"] / last["optimum_at_cost"]
    for beta in (1.25, 1.5, 1.75):
        assert (
            dearer[(last["start"] == 2e7) & (last["beta"] == beta)] - 9 / 8
        ).abs().max() < 0.002
    assert dearer[last["beta"] == 0.5].max() < 1.003  # below one, both vanish


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_a_counterexample_breaks_the_bound_and_its_control_keeps_it(name):
    most, found, control = COUNTEREXAMPLES[name]
    assert interval(control()).high <= most < interval(found()).low


def said(verdict):
    cells = [cell.split(": ") for cell in guarantees_table().to_numpy().ravel()]
    return {why for found, why in cells if found == verdict}


def test_every_failing_guarantee_has_a_run_and_every_run_a_guarantee():
    assert said("fails") == {*COUNTEREXAMPLES}


def test_every_proof_is_in_the_book():
    pages = (Path(__file__).parents[2] / "notebooks").glob("*.md")
    labels = set(
        re.findall(
            r"^:label: (\S+)", "\n".join(path.read_text() for path in pages), re.M
        )
    )
    assert said("holds") | {label for label, *_ in GUARANTEES.values()} <= labels
    assert "thm-no-such" not in labels  # the control


def test_the_mean_of_a_constant_level_needs_one_law_of_a_round_and_no_independence():
    """The proof of thm-constant-level, 1, has expectations of single rounds alone."""
    law, nu = RayleighFloors(0.037), 0.04
    floor = block_floors(0.037, 10, (1000, 500), np.random.default_rng(20))
    problem = with_floors(MNIST, floor, nu)
    energy = policies.ConstantLevel(law=law).schedule(problem)
    cost, leaked = (
        interval((energy - floor).mean(-1) / nu),
        interval(RoundLeakage(MNIST)(energy).mean(-1)),
    )
    assert cost.low < 1 < cost.high
    assert leaked.low < level_value(RoundLeakage(MNIST), law, nu).leakage < leaked.high
    assert cost.high - cost.low < 0.03
