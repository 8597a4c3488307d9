"""What the chapter on the benchmarks computes: two protocols, late and needless leakage, orders and choices."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel, policies
from adascale.comparison import Hindsight, leakage_table
from adascale.problem import RoundLeakage
from companion.causal import fresh as causal
from companion.leakage.benchmarks import CHOICES, both_protocols, choices_table, full_power, late_share, order_table
from companion.methods import METHODS

MNIST = Scenario.mnist()
STORED = Path(__file__).parents[2] / "results" / "causal" / "mnist.csv"


@pytest.fixture(scope="module")
def problem():
    gain = channel.draw(MNIST.num_devices, MNIST.num_rounds, [0, 1, 2]).gain
    return ReceiveScalingProblem(MNIST, MNIST.min_gain(gain), np.array([0.01, 0.16])[:, None])


def test_both_protocols_are_means_over_the_same_realisations():
    stored = causal.read(STORED)
    table = both_protocols(stored, [0.04])
    wide = stored[stored.nu == 0.04].pivot(index="seed", columns="policy", values="epsilon")
    over = wide.div(wide["Optimal"], axis=0).mean()
    for name in ("AdaScale", "PowerControl", "LyapunovPowerControl"):
        assert table.in_hindsight[name, 0.04] == pytest.approx(over[name + causal.HINDSIGHT], rel=1e-12)
        assert table.unseen[name, 0.04] == pytest.approx(over[name], rel=1e-12)
    assert table.in_hindsight["ConstantLevel", 0.04] == 1  # water-filling
    untuned = table.loc[["EstimFuture", "EqualAlloc"]]
    assert (untuned.in_hindsight == untuned.unseen).all()
    assert (abs(untuned.cost - 1) < 1e-8).all()


def test_late_leakage_is_the_share_of_the_last_rounds(problem):
    eta = policies.EqualAlloc().schedule(problem)
    loss = RoundLeakage(MNIST)(problem.noise_energy(eta))
    expected = [[sum(row[-5:]) / sum(row) for row in block] for block in loss.tolist()]
    np.testing.assert_allclose(late_share(problem, eta, 5), expected, rtol=1e-12)
    np.testing.assert_allclose(late_share(problem, eta, MNIST.num_rounds), 1, rtol=1e-12)
    with pytest.raises(ValueError, match="rounds"):
        late_share(problem, eta, 0)


def test_the_optimum_has_no_needless_full_power_and_full_power_has_all_of_it(problem):
    best = full_power(problem, policies.Optimal().schedule(problem))
    assert (best.needless == 0).all()
    assert (best.carried == 0).all()
    assert (best.rounds > 0).all()
    every = full_power(problem, problem.max_eta * np.ones((2, 1, 1)))
    assert (every.rounds == 1).all()
    np.testing.assert_allclose(every.needless, 1 - best.rounds)
    loss = RoundLeakage(MNIST)(problem.floor)
    np.testing.assert_allclose(every.first, np.broadcast_to(loss[:, 0] / loss.sum(axis=-1), (2, 3)), rtol=1e-12)
    assert (every.early < every.carried).all()


def test_orders_are_compared_with_the_first_of_them():
    table = order_table("mnist", [0.04], range(2), (3, 8))
    assert (table[3] == 1).all()
    alone = {}
    for order in (3, 8):
        found = leakage_table(replace(MNIST, order=order), [0.04], [1], {"AdaScale": METHODS["AdaScale"]})
        alone[order] = found.epsilon.item()
    assert table.loc[(0.04, 1), 8] == pytest.approx(alone[8] / alone[3], rel=1e-9)
    assert alone[8] != pytest.approx(alone[3], rel=1e-4)  # the control


def test_a_choice_is_divided_by_the_method_it_changes_and_every_choice_is_there():
    table = choices_table("mnist", [0.04], range(3)).set_index("choice")
    assert [*table.index[: len(CHOICES)]] == [*CHOICES]
    assert len(table) == len(CHOICES) + 6
    assert ((table.low <= table.ratio) & (table.ratio <= table.high)).all()
    made = leakage_table(
        MNIST,
        [0.04],
        range(3),
        {"drawn": METHODS["PowerControl"], "other": Hindsight(policies.PowerControl, contraction=0.99)},
    ).pivot(index="seed", columns="policy", values="epsilon")
    expected = np.exp(np.log(made["other"] / made["drawn"]).mean())
    assert table.ratio["PowerControl: r = 0.99"] == pytest.approx(expected, rel=1e-9)
    assert table.ratio["LyapunovPowerControl: worst pair on the grid"] > 2
