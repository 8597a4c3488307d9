"""The scaling experiment: the loop it runs is AdaScale, and its committed table is what its command makes."""

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, channel, policies
from adascale.problem import RoundLeakage
from adascale.statistics import interval
from companion import bounds
from companion.causal.which_guarantee import guarantees_table
from companion.results import load
from companion.theory import scaling as guarantees
from tests.problems import MNIST

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


def test_a_slope_is_the_exponent_of_a_power():
    rows = pd.DataFrame(
        [(seed, T, -seed * T**0.75) for seed in (1, 2, 3) for T in (10, 100, 1000)],
        columns=["seed", "T", "size"],
    )
    slope = guarantees.end_slope(rows, "size", (10, 100, 1000))
    assert slope.centre == pytest.approx(0.75)
    assert slope.high - slope.low == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_a_counterexample_breaks_the_bound_and_its_control_keeps_it(name):
    most, found, control = COUNTEREXAMPLES[name]
    assert interval(control()).high <= most < interval(found()).low


def said(verdict):
    cells = [cell.split(": ") for cell in guarantees_table().to_numpy().ravel()]
    return {why for found, why in cells if found == verdict}


def test_every_failing_guarantee_has_a_run_and_every_run_a_guarantee():
    assert said("fails") == {*COUNTEREXAMPLES}
