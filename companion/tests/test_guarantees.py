"""The scaling experiment: the loop it runs is AdaScale, and its committed table is what its command makes."""

import numpy as np
import pytest

from adascale import Problem, channel, policies
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
    nu = guarantees.BUDGET
    cases = [(20.0, 0.5), (20.0, 1.5)]
    table = guarantees.scaling_table(cases, (100, 250), [2])
    gain = MNIST.min_gain(channel.draw(10, 250, 2).gain)
    ends = end_limits(table)
    for row in table.itertuples():
        problem = Problem(MNIST, gain[: row.T], nu)
        w = policies.AdaScale(row.penalty).schedule(problem)
        floor = problem.min_noise_energy
        spend = policies.Optimal().schedule(problem) - floor
        expected = {
            "violation": bounds.violation_bound(problem, w, row.penalty).left,
            "above": np.maximum(spend - nu, 0).mean(),
            "square": (spend**2).mean(),
        }
        for name, value in expected.items():
            assert getattr(row, name) == pytest.approx(float(value), rel=1e-9)
        regret = bounds.regret_bound(problem, w, row.penalty).left
        assert row.leakage - row.optimum == pytest.approx(float(regret), rel=1e-9)
        last = [limit[-1] for limit in bounds.queue_limits(problem, row.penalty)]
        assert [end[row.Index] for end in ends] == pytest.approx(last)


def test_every_row_keeps_every_bound():
    nu = guarantees.BUDGET
    T = COMMITTED["T"]
    V = COMMITTED["penalty"]
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


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_counterexample_breaks_bound_and_control_keeps_it(name):
    most, found, control = COUNTEREXAMPLES[name]
    assert interval(control()).high <= most < interval(found()).low


def said(verdict):
    cells = [cell.split(": ") for cell in guarantees_table().to_numpy().ravel()]
    return {why for found, why in cells if found == verdict}


def test_failing_guarantees_and_counterexamples_match():
    assert said("fails") == {*COUNTEREXAMPLES}


def test_measured_exponents_are_those_of_the_theorem():
    near, far = (COMMITTED[COMMITTED["start"] == start] for start in (20.0, 2e7))
    for beta in (0.5, 1.0):
        slope = guarantees.end_slope(near[near["beta"] == beta])
        assert slope.low < beta - 1 < slope.high
    for beta in (1.25, 1.5, 1.75):
        slope = guarantees.end_slope(far[far["beta"] == beta])
        assert abs(slope.centre - (beta - 1) / 3) < 0.003
        assert slope.high < (beta - 1) / 2  # the paper's
    exponents = guarantees.exponents(COMMITTED).set_index("start")
    assert exponents.constant[2e7].between(0.98, 1).all()
