"""Methods: what they see, what they are tuned on, how they are found by name; and their leakage in a tidy table."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest

from adascale import (
    Problem,
    Scenario,
    accounting,
    channel,
    policies,
    registry,
)
from adascale.channel import (
    Beamforming,
    Rayleigh,
    RayleighFloors,
    Rician,
)
from adascale.comparison import (
    PAPER,
    TunedOnModel,
    TunedOnRealisation,
    as_method,
    find_method,
    leakage_table,
)
from adascale.comparison.methods import SEED
from adascale.comparison.shi_tuning import best_lyapunov
from adascale.errors import BudgetNotReached
from companion.causal.fresh import CAUSAL, TUNED
from companion.methods import METHODS

from ..problems import FullPower, drawn

leakage: Any = import_module("adascale.comparison.leakage")
SMALL = Scenario("small", 3, 40, 1000, 20, 400, 1.0, 0.2, 1e-12)
SHORT = replace(Scenario.mnist(), num_rounds=100)
BUDGETS = np.array([2e-3, 8e-3])
PROBLEM, MEAN_GAIN = drawn(SMALL, BUDGETS[:, None], [0, 1])
FRESH, _ = drawn(SMALL, BUDGETS[:, None], [11, 12])
OPTIMAL_RATE = float(PROBLEM.eta(policies.Optimal().schedule(PROBLEM)).mean())


def other_gains(problem):
    """The same devices in another realisation."""
    factor = np.random.default_rng(7).exponential(size=problem.min_gain.shape)
    return Problem(problem.scenario, problem.min_gain * factor, problem.budget)


def decide_alike(policy, other):
    return np.array_equal(policy.schedule(FRESH), other.schedule(FRESH))


@pytest.mark.parametrize("name", CAUSAL)
def test_no_gain_of_the_realisation_is_seen(name):
    policy = CAUSAL[name](PROBLEM, MEAN_GAIN)
    assert decide_alike(policy, CAUSAL[name](other_gains(PROBLEM), MEAN_GAIN))


@pytest.mark.parametrize("name", TUNED)
def test_control_tuning_on_the_realisation_sees_its_gains(name):
    policy = TUNED[name](PROBLEM, MEAN_GAIN)
    assert not decide_alike(policy, TUNED[name](other_gains(PROBLEM), MEAN_GAIN))


def test_on_fresh_realisations_the_mean_cost_is_nu():
    assert SEED > 10**6  # the draws are no realisation of the table
    chosen = {
        "AdaScale": TunedOnModel(policies.AdaScale, from_law=False),
        "PowerControl": TunedOnModel(policies.PowerControl),
    }
    table = leakage_table(SHORT, [0.02, 0.16], range(300, 330), chosen)
    spent = (table.cost / table.nu).groupby([table.policy, table.nu])
    assert (spent.std() > 1e-3).all()  # none is tuned on the realisation itself
    error = np.sqrt(2 / 30) * spent.std()  # of the draws and of the realisations
    assert (abs(spent.mean() - 1) < 4 * error).all()


def test_the_channel_of_a_table_is_assumed_unless_the_method_has_one():
    levels = {
        "the table's": policies.ConstantLevel,
        "its own": TunedOnModel(policies.ConstantLevel, channel=Rayleigh()),
    }
    table = leakage_table(SHORT, [0.04], range(30), levels, channel=Rician(K=10))
    right, wrong = (table.cost[table.policy == name] for name in levels)
    error = right.std() / np.sqrt(30)
    assert abs(right.mean() - 0.04) < 4 * error
    assert wrong.mean() - 0.04 > 8 * error  # the control


class Undeclared(policies.EqualAlloc):
    def __init__(self, level):
        self.level = level


REFUSED = [
    ("penalty, rate", lambda: TunedOnModel(policies.LyapunovPowerControl)),
    ("subclass of .*Policy", lambda: TunedOnModel(dict)),
    ("Undeclared: .*level.*`tuned`", lambda: TunedOnModel(Undeclared)(PROBLEM)),
    ("needs mean_gain", lambda: TunedOnModel(policies.EstimFuture)(PROBLEM)),
    ("needs the law", lambda: TunedOnRealisation(policies.ReSolve)),
    ("Optimal", lambda: TunedOnModel(policies.Optimal)),
    ("takes no parameters", lambda: find_method("LyapunovPowerControl:rate=1")),
]


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_a_method_that_cannot_be_is_refused(message, call):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("policy", "fixed"),
    [
        (policies.AdaScale, {}),
        (policies.PowerControl, {"contraction": 0.99, "estimate": "minimum"}),
        (policies.LyapunovPowerControl, {"rate": OPTIMAL_RATE}),
    ],
)
def test_the_parameter_that_is_not_fixed_brings_the_cost_to_nu(policy, fixed):
    tuned = TunedOnRealisation(policy, **fixed)(PROBLEM, MEAN_GAIN)
    cost = PROBLEM.cost(tuned.schedule(PROBLEM))
    np.testing.assert_allclose(cost / PROBLEM.budget, np.ones((2, 2)), rtol=1e-9)
    assert vars(tuned).items() >= fixed.items()


def test_a_class_without_a_free_parameter_is_used_as_it_is():
    fixed = TunedOnRealisation(policies.AdaScale, penalty=0.5)(PROBLEM)
    assert fixed.penalty == 0.5
    policy = TunedOnModel(policies.EstimFuture, estimate="devices")(PROBLEM, MEAN_GAIN)
    assert policy.estimate == "devices"
    np.testing.assert_array_equal(policy.mean_gain, MEAN_GAIN)


KNOWN = [
    (policies.Optimal, ("optimum", "gains to come")),
    (policies.AdaScale, ("hindsight", "gains to come")),
    (TunedOnModel(policies.AdaScale), ("causal", "law")),
    (TunedOnRealisation(policies.AdaScale, penalty=1.0), ("causal", "nothing")),
    (policies.EstimFuture, ("causal", "law")),
    (policies.Learn, ("causal", "nothing")),
    (TunedOnRealisation(policies.Learn, prior=RayleighFloors(1)), ("causal", "law")),
    (TunedOnRealisation(policies.Best, number=2, level=0.0), ("causal", "nothing")),
    (find_method("LyapunovPowerControl")[1], ("reconstruction", "gains to come")),
    (best_lyapunov, ("hindsight", "gains to come")),  # as any function
]


@pytest.mark.parametrize(("policy", "expected"), KNOWN)
def test_kind_and_knowledge_follow_from_what_is_tuned_and_needed(policy, expected):
    method = as_method(policy)
    assert (method.kind, method.knows) == expected


@pytest.fixture(scope="module")
def table():
    return leakage_table(SMALL, BUDGETS, range(3), METHODS)


def test_default_policies_are_the_paper_s_and_cost_nu():
    table = leakage_table(SMALL, BUDGETS, [0])
    assert list(table.policy.unique()) == list(PAPER)
    assert (abs(table.cost / table.nu - 1) < 1e-9).all()


def test_the_optimum_leaks_least_and_rows_are_in_order(table):
    assert list(dict.fromkeys(table.policy)) == list(METHODS)
    for _, rows in table.groupby("policy"):
        assert rows.nu.is_monotonic_increasing
    rdp = table.pivot(index=["nu", "seed"], columns="policy", values="rdp")
    assert (rdp["Optimal"] <= rdp["AdaScale"]).all()
    assert (rdp["Optimal"] < rdp["EqualAlloc"]).all()


def test_a_row_does_not_depend_on_other_realisations(table):
    alone = leakage_table(SMALL, BUDGETS, [2], METHODS)
    row = table[table.seed == 2].reset_index(drop=True)
    # the tuned V ends anywhere within 1e-9 of the budget
    pd.testing.assert_frame_equal(alone, row, rtol=1e-7)


def only_small_budgets(problem, mean_gain):
    if (problem.budget > problem.min_noise_energy.mean(axis=-1)).any():
        raise BudgetNotReached
    return policies.EqualAlloc()


def test_a_budget_out_of_reach_leaves_the_other_rows():
    rows = leakage_table(SMALL, [0.2, 0.6], range(9), {"small": only_small_budgets})
    missing = rows[["cost", "rdp", "epsilon", "full_power"]].isna().T
    assert (missing == (rows.nu > rows.floor)).all(axis=None)
    assert missing.loc["cost"].sum() == 2 + 5  # of nine at each budget
    assert abs(rows.cost / rows.nu - 1).max() < 1e-9


EVERY = {*registry.names("policies"), "best:number=2", "privacybudget:epsilon=2"}
EVERY -= {"Best", "PrivacyBudget"}


@pytest.mark.parametrize(
    ("target", "level", "names"),
    [("nu", 0.5, EVERY), ("total", 5.0, {"Optimal", "Truncated", "Learn"})],
)
def test_executor_gives_the_same_table_to_the_last_bit(
    target, level, names, monkeypatch
):
    monkeypatch.setattr(leakage, "_BLOCK", 1)
    methods = dict(map(find_method, sorted(names)))
    methods["a function"] = as_method(best_lyapunov)
    arguments: Any = SMALL, [level], range(2), methods
    alone = leakage_table(*arguments, target=target)
    with ThreadPoolExecutor(2) as executor:
        together = leakage_table(*arguments, target=target, executor=executor)
    pd.testing.assert_frame_equal(alone, together, check_exact=True)
    assert alone.attrs == together.attrs
    assert alone["epsilon"].notna().any()


BAD = [
    ("nu", {"levels": [0.0]}),
    ("nu", {"levels": [0.1, 0.1]}),
    ("delta", {"delta": 0}),
    ("seed", {"seeds": [2, 2]}),
    ("seed", {"seeds": [-1]}),
]


@pytest.mark.parametrize(("message", "bad"), BAD)
def test_bad_arguments_are_refused(message, bad):
    arguments = {"levels": BUDGETS[:1], "seeds": [0]} | bad
    with pytest.raises(ValueError, match=message):
        leakage_table(SMALL, **arguments)


RENYI = accounting.RenyiAccountant(accounting.order_grid(4096))
EQUAL = replace(Scenario.mnist(), num_rounds=40)
UNEQUAL = replace(
    EQUAL, batch_size=(60,) * 6 + (90,) * 4, max_power=(0.2,) * 9 + (0.1,)
)
SENDERS = {
    "Truncated": policies.Truncated,
    "Best": TunedOnRealisation(policies.Best, number=8),
}
ALL = {name: METHODS[name] for name in ("Optimal", "AdaScale", "EqualAlloc")} | SENDERS


def test_equal_total_is_equal_noise_and_below_the_floor_only_some_can_send():
    problem, _ = drawn(EQUAL, 1.0, range(4))
    floor = problem.min_noise_energy.mean(axis=-1)
    totals = [2 * floor.max(), np.median(floor)]  # the second is too little for two
    options = {"target": "total", "accountant": RENYI}
    table = leakage_table(EQUAL, totals, range(4), ALL, **options)
    can_send = (table.target_total > floor[table.seed]) | table.policy.isin(SENDERS)
    assert (~can_send).sum() == 2 * 3
    for name in ("total", "nu", "epsilon"):
        np.testing.assert_array_equal(table[name].notna(), can_send)
    sent = table[can_send]
    np.testing.assert_allclose(sent.total, sent.target_total, rtol=1e-9)
    own = sent.total - floor[sent.seed]
    np.testing.assert_allclose(sent.nu, own, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("scenario", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_equal_epsilon_is_the_least_noise_that_no_device_exceeds(scenario):
    table = leakage_table(scenario, [0.5], [0], ALL, target="epsilon", accountant=RENYI)
    assert (table.epsilon <= 0.5).all()
    assert (table.epsilon >= 0.9999 * 0.5).all()
    for row in table.itertuples():
        alone = {row.policy: ALL[row.policy]}
        less = [0.9995 * row.total], [0], alone
        found = leakage_table(scenario, *less, target="total", accountant=RENYI)
        assert found.epsilon[0] > 0.5


def test_an_epsilon_out_of_reach_is_nan_and_one_at_full_power_needs_no_budget():
    full_power = {"full": FullPower}
    own = leakage_table(EQUAL, [1.0], range(3), full_power, accountant=RENYI).epsilon
    targets = [own.min() / 2, 2 * own.max()]
    options = {"target": "epsilon", "accountant": RENYI}
    table = leakage_table(EQUAL, targets, range(3), full_power, **options)
    for name in ("total", "nu"):
        assert table[name].isna().tolist() == [True] * 3 + [False] * 3
    assert (table.nu[3:] < 1e-3).all()


@pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
@pytest.mark.parametrize("model", [channel.Rayleigh(), Beamforming(antennas=2)])
def test_a_row_accounts_for_each_device_and_its_exposure(model):
    chosen = {"Optimal": policies.Optimal, "Best": SENDERS["Best"]}
    options = {"target": "total", "channel": model, "accountant": RENYI}
    optimal, best = leakage_table(UNEQUAL, [3.0], [0], chosen, **options).itertuples()
    drawn = model.draw(UNEQUAL.num_devices, UNEQUAL.num_rounds, 0)
    problem = Problem(UNEQUAL, UNEQUAL.min_gain(drawn.gain), optimal.nu, drawn.exposure)
    w = policies.Optimal().schedule(problem)
    policy = policies.Best.of_total(UNEQUAL, drawn.gain, 3.0, number=8)
    exposure = 1.0 if drawn.exposure is None else drawn.exposure
    selection = policy.select(UNEQUAL, drawn.gain)._replace(exposure=exposure)
    assert best.participation == selection.participation.mean()
    assert best.participation_min == selection.participation.min()
    for row, epsilons, sigma in (
        (optimal, problem.epsilons(w, RENYI), problem.noise_multiplier(w)),
        (best, selection.epsilons(RENYI), selection.noise_multiplier),
    ):
        assert row.epsilon == pytest.approx(epsilons.max(), rel=1e-9)
        assert row.epsilon_mean == pytest.approx(epsilons.mean(), rel=1e-9)
        sigma[sigma == np.inf] = 1e100  # idle: leaks nothing
        rdp = accounting.rdp(UNEQUAL.sampling_rate[:, None], sigma, 3).sum(axis=-1)
        assert row.rdp == pytest.approx(rdp.mean(), rel=1e-12)
