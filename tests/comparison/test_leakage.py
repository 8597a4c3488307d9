"""The tidy leakage table."""

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario, accounting, channel, policies
from adascale.comparison import leakage_table
from companion.methods import METHODS

from ..problems import OnlySome

BUDGETS = [2e-3, 8e-3]  # OnlySome reaches the first


@pytest.fixture(scope="module")
def scenario():
    """Large enough to have fades, small enough for a moment."""
    return Scenario("small", 3, 40, 1000, 20, 400, 1.0, 0.2, 1e-12)


@pytest.fixture(scope="module")
def table(scenario):
    return leakage_table(scenario, BUDGETS, range(12), METHODS)


def test_a_row_is_what_the_problem_says_of_that_realisation(scenario, table):
    gain = scenario.min_gain(channel.draw(3, 40, 11).gain)
    problem = ReceiveScalingProblem(scenario, gain, BUDGETS[1])
    eta = policies.EqualAlloc().schedule(problem)
    row = table[(table.policy == "EqualAlloc") & (table.seed == 11) & (table.nu == BUDGETS[1])].iloc[0]
    # 1e-9: epsilon may come from a table of eleven digits when many schedules are accounted at once
    assert row.rdp == pytest.approx(float(problem.rdp(eta)), rel=1e-12)
    assert row.epsilon == pytest.approx(float(problem.dp_epsilon(eta)), rel=1e-9)
    assert row.floor_max == problem.min_noise_energy.max()
    assert row.floor_max_round == problem.min_noise_energy.argmax()


def test_rows_are_ordered_spend_the_budget_and_do_not_depend_on_each_other(scenario, table):
    assert (abs(table.cost / table.nu - 1) <= 1e-9).all()
    rdp = table.pivot(index=["nu", "seed"], columns="policy", values="rdp")
    assert (rdp["Optimal"] <= rdp["AdaScale"]).all()
    assert (rdp["Optimal"] < rdp["EqualAlloc"]).all()
    assert list(dict.fromkeys(table.policy)) == list(METHODS)
    assert table.groupby("policy", sort=False).nu.apply(lambda nu: nu.is_monotonic_increasing).all()
    alone = leakage_table(scenario, BUDGETS, [11], METHODS)
    beside = table[table.seed == 11].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, beside, rtol=1e-7)  # the tuned V ends anywhere within 1e-9 of the budget


def test_a_policy_of_ones_own_joins_the_table_and_the_figures(scenario):
    class Cautious(policies.EqualAlloc):
        """Leaves half of every budget unspent."""

        def start(self, scenario, budget):
            return super().start(scenario, budget / 2)

    table = leakage_table(scenario, BUDGETS, range(3), {"Optimal": policies.Optimal, "Mine": Cautious})
    assert set(table.policy) == {"Optimal", "Mine"}
    mine = table[table.policy == "Mine"]
    np.testing.assert_allclose(mine.cost, mine.nu / 2, rtol=1e-9)


def test_what_a_policy_cannot_reach_is_said_and_not_drawn(scenario):
    table = leakage_table(scenario, BUDGETS, range(3), {"Optimal": policies.Optimal, "OnlySome": OnlySome})
    some = table[table.policy == "OnlySome"]
    assert some[some.nu == BUDGETS[1]][["cost", "rdp", "epsilon", "full_power"]].isna().all(axis=None)
    reached = some[some.nu == BUDGETS[0]]
    np.testing.assert_allclose(reached.cost, BUDGETS[0], rtol=1e-9)
    np.testing.assert_array_equal(reached.seed, range(3))


class Shadows(OnlySome):
    tuned = ("cost",)

    def __init__(self, cost):
        super().__init__(cost)
        self.cost = cost


BAD = [("nu", [0.0], [0], 1e-5), ("nu", [0.1, 0.1], [0], 1e-5), ("nu", ["x"], [0], 1e-5), ("delta", [0.1], [0], 0)]
BAD += [("seed", [0.1], [2, 2], 1e-5), ("seed", [0.1], [-1], 1e-5), ("seeds", [0.1], range(1_000_001), 1e-5)]


@pytest.mark.parametrize(("name", "budgets", "seeds", "delta"), BAD)
def test_bad_arguments_are_refused(scenario, name, budgets, seeds, delta):
    with pytest.raises(ValueError, match=name):
        leakage_table(scenario, budgets, seeds, delta=delta)
    with pytest.raises(ValueError, match="must not tune 'cost'"):  # the name of another column
        leakage_table(scenario, BUDGETS[:1], [0], {"Shadows": Shadows})


def test_every_registered_policy_is_the_default(scenario, table):
    every = leakage_table(scenario, BUDGETS[:1], [11])
    assert {*every.policy} == {*METHODS}
    of = table[(table.seed == 11) & (table.nu == BUDGETS[0])]
    both = every.merge(of, on="policy", suffixes=("", "_chosen"))
    np.testing.assert_allclose(both.rdp, both.rdp_chosen, rtol=1e-6)  # tuned to within 1e-9 of the budget


def test_a_column_stands_for_every_tuned_parameter_and_for_nothing_else(scenario, table):
    names = [name for name in ("penalty", "privacy_budget", "rate") if name in table]
    assert table[table.policy == "LyapunovPowerControl"][["penalty", "rate"]].notna().all(axis=None)
    assert table[table.policy == "PowerControl"]["privacy_budget"].notna().all()
    assert table[table.policy == "Optimal"][names].isna().all(axis=None)
    plain = leakage_table(scenario, BUDGETS, [0], {"Optimal": policies.Optimal})
    assert not {*names} & {*plain}


# its channel is so good that epsilon is in the thousands, where an order below 1.1 is best
@pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
def test_another_channel_and_another_accountant_are_used(scenario):
    class Doubled:
        def epsilon(self, sampling_rate, noise_multiplier, delta):
            return 2 * accounting.RenyiAccountant().epsilon(sampling_rate, noise_multiplier, delta)

    chosen = {"EqualAlloc": policies.EqualAlloc}
    near = channel.Rayleigh(distance_range=(10.0, 20.0))
    plain, doubled = (
        leakage_table(scenario, BUDGETS, [3], chosen, channel=near, accountant=each) for each in (None, Doubled())
    )
    np.testing.assert_allclose(doubled.epsilon, 2 * plain.epsilon, rtol=1e-12)
    far = leakage_table(scenario, BUDGETS, [3], chosen)
    assert (plain.floor_max < far.floor_max).all()
