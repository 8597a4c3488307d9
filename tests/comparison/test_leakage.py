"""The tidy leakage table."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario, accounting, channel, policies
from adascale.channel import AntennaSelection, Beamforming
from adascale.comparison import TunedOnRealisation, leakage_table
from companion.methods import METHODS

from ..problems import FullPower, OnlySome

BUDGETS = [2e-3, 8e-3]  # OnlySome reaches the first


@pytest.fixture(scope="module")
def scenario():
    """Large enough to have fades, small enough for a moment."""
    return Scenario("small", 3, 40, 1000, 20, 400, 1.0, 0.2, 1e-12)


@pytest.fixture(scope="module")
def table(scenario):
    return leakage_table(scenario, BUDGETS, range(3), METHODS)


def test_a_row_is_what_the_problem_says_of_that_realisation(scenario, table):
    gain = scenario.min_gain(channel.draw(3, 40, 2).gain)
    problem = ReceiveScalingProblem(scenario, gain, BUDGETS[1])
    eta = policies.EqualAlloc().schedule(problem)
    row = table[(table.policy == "EqualAlloc") & (table.seed == 2) & (table.nu == BUDGETS[1])].iloc[0]
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
    alone = leakage_table(scenario, BUDGETS, [2], METHODS)
    beside = table[table.seed == 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, beside, rtol=1e-7)  # the tuned V ends anywhere within 1e-9 of the budget


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


RENYI = accounting.RenyiAccountant(accounting.order_grid(4096))
EQUAL = replace(Scenario.mnist(), num_rounds=40)
UNEQUAL = replace(EQUAL, batch_size=(60,) * 6 + (90,) * 4, max_power=(0.2,) * 9 + (0.1,))
SENDERS = {"Truncated": policies.Truncated, "Best": TunedOnRealisation(policies.Best, number=8)}
ALL = {name: METHODS[name] for name in ("Optimal", "AdaScale", "EqualAlloc")} | SENDERS


def drawn(scenario, seeds):
    """Gains of realisations, and their mean floors."""
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, seeds).gain
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(gain), 1.0)
    return gain, problem.min_noise_energy.mean(axis=-1)


def test_equal_total_is_equal_noise_and_below_the_floor_only_some_can_send():
    floor = drawn(EQUAL, range(4))[1]
    low, high = float(np.sort(floor)[1:3].mean()), 2 * float(floor.max())
    table = leakage_table(EQUAL, [high, low], range(4), ALL, target="total", accountant=RENYI)
    can = (table.target_total > floor[table.seed]) | table.policy.isin(SENDERS)
    assert can.tolist() == table.total.notna().tolist() == table.nu.notna().tolist() == table.epsilon.notna().tolist()
    assert (~can).sum() == 2 * 3
    some = table[can]
    np.testing.assert_allclose(some.total, some.target_total, rtol=1e-9)
    np.testing.assert_allclose(some.nu, some.total - floor[some.seed], rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(table.floor, floor[table.seed])
    assert table.policy.drop_duplicates().tolist() == [*ALL]
    own = leakage_table(EQUAL, [high - floor[2]], [2], ALL, accountant=RENYI)  # the same nu, given
    beside = table[(table.seed == 2) & (table.target_total == high)]
    np.testing.assert_allclose(beside.epsilon, own.epsilon, rtol=1e-6)


@pytest.mark.parametrize("scenario", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_equal_epsilon_is_the_least_noise_that_no_device_exceeds(scenario):
    table = leakage_table(scenario, [0.5], [0], ALL, target="epsilon", accountant=RENYI)
    assert (table.epsilon_max <= table.target_epsilon).all()
    assert (table.epsilon_max >= 0.9999 * table.target_epsilon).all()
    everyone = table[~table.policy.isin(SENDERS)]
    assert ((everyone.epsilon_max > 1.0001 * everyone.epsilon) == (scenario is UNEQUAL)).all()
    for row in table.itertuples():  # a little less noise is too little
        target, level = ("total", row.total) if row.policy in SENDERS else ("nu", row.nu)
        of = {row.policy: ALL[row.policy]}
        less = leakage_table(scenario, [level * 0.9995], [0], of, target=target, accountant=RENYI)
        assert less.epsilon_max[0] > row.target_epsilon


def test_an_epsilon_out_of_reach_is_nan_and_one_at_full_power_needs_no_budget():
    own = leakage_table(EQUAL, [1.0], range(3), {"full": FullPower}, accountant=RENYI).epsilon_max
    levels = [float(own.min()) / 2, 2 * float(own.max())]
    full = leakage_table(EQUAL, levels, range(3), {"full": FullPower}, target="epsilon", accountant=RENYI)
    assert full.total.isna().tolist() == full.nu.isna().tolist() == [True] * 3 + [False] * 3
    assert (full.nu[3:] < 1e-3).all()


def accounted(row, gain, exposure):
    """Epsilon of each device and the mean Renyi leakage of a row's policy, device by device."""
    if row.policy == "Optimal":
        problem = ReceiveScalingProblem(UNEQUAL, UNEQUAL.min_gain(gain), row.nu)
        sigma, senders = problem.noise_multiplier(policies.Optimal().schedule(problem)), np.ones(gain.shape, dtype=bool)
    else:
        policy = {
            "fixed": lambda total: policies.Truncated(epsilon=8.0),
            "Truncated": partial(policies.Truncated.of_total, UNEQUAL, gain),
            "Best": partial(policies.Best.of_total, UNEQUAL, gain, number=8),
        }[row.policy](total=row.target_total)
        found = policy.select(UNEQUAL, gain)
        sigma, senders = found.noise_multiplier, found.senders
        assert (row.total, row.floor + row.cost) == pytest.approx((float(found.total),) * 2, rel=1e-9)
        assert (row.participation, row.participation_min) == (found.participation.mean(), found.participation.min())
    rates = np.broadcast_to(UNEQUAL.sampling_rate, UNEQUAL.num_devices)
    devices = [(q, s[on]) for q, s, on in zip(rates, sigma / np.sqrt(exposure), senders, strict=True)]
    rdp = [accounting.rdp(q, s, UNEQUAL.order).sum() for q, s in devices]
    return [RENYI.epsilon(q, s, 1e-5) for q, s in devices], np.mean(rdp)


MODELS = [channel.Rayleigh(), Beamforming(antennas=2), AntennaSelection(antennas=2, chains="all")]


@pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
@pytest.mark.parametrize("model", MODELS)
def test_a_row_accounts_for_each_device_and_exposure_raises_leakage_alone(model):
    chosen = {"fixed": TunedOnRealisation(policies.Truncated, epsilon=8.0), "Optimal": policies.Optimal} | SENDERS
    given = (UNEQUAL, [1e-3, 3.0], range(2), chosen)  # the first is out of reach of the optimum
    found = leakage_table(*given, target="total", channel=model, accountant=RENYI)
    drawn = model.draw(UNEQUAL.num_devices, UNEQUAL.num_rounds, [0, 1])
    exposure = np.ones(drawn.gain.shape) if drawn.exposure is None else drawn.exposure
    reached = found.dropna(subset=["total"])
    for row in reached.itertuples():
        each, rdp = accounted(row, drawn.gain[row.seed], exposure[row.seed])
        assert (row.epsilon, row.epsilon_max) == pytest.approx((np.mean(each), max(each)), rel=1e-9)
        assert row.rdp == pytest.approx(rdp, rel=1e-12)
    assert len(reached) < len(found)
    assert found[found.policy == "fixed"].groupby("seed").total.nunique().eq(1).all()  # the target plays no part
    assert reached[reached.policy == "Truncated"].threshold.notna().all()
    assert reached[reached.policy == "Best"].level.notna().all()
    if model is not MODELS[0]:
        one = leakage_table(*given, target="total", channel=replace(model, chains="one"), accountant=RENYI)
        leaking = ["rdp", "epsilon", "epsilon_max"]
        pd.testing.assert_frame_equal(found.drop(columns=leaking), one.drop(columns=leaking))
        assert (found[leaking] > one[leaking])[found.total.notna()].all(axis=None)
