"""Methods: what they see, what they are tuned on, how they are found by name; and their leakage in a tidy table."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from adascale import (
    ReceiveScalingProblem,
    Scenario,
    accounting,
    channel,
    comparison,
    policies,
    registry,
)
from adascale.channel import (
    AntennaSelection,
    Beamforming,
    Rayleigh,
    RayleighFloors,
    Rician,
)
from adascale.comparison import (
    TunedOnModel,
    TunedOnRealisation,
    find_method,
    knowledge,
    leakage_table,
)
from adascale.comparison.methods import SEED
from adascale.comparison.shi_tuning import best_lyapunov
from companion.causal.fresh import CAUSAL, TUNED
from companion.methods import METHODS

from ..problems import FullPower, OnlySome

SMALL = Scenario("small", 3, 40, 1000, 20, 400, 1.0, 0.2, 1e-12)
SHORT = replace(Scenario.mnist(), num_rounds=100)
BUDGETS = np.array([2e-3, 8e-3])  # OnlySome reaches the first


def lanes(seeds=(0, 1), scenario=SMALL):
    drawn = channel.draw(scenario.num_devices, scenario.num_rounds, list(seeds))
    problem = ReceiveScalingProblem(
        scenario, scenario.min_gain(drawn.gain), BUDGETS[:, None]
    )
    return problem, scenario.mean_gain(drawn.path_loss)


def another(problem, seed=7):
    """The same devices in another realisation."""
    factor = np.random.default_rng(seed).exponential(size=problem.min_gain.shape)
    return ReceiveScalingProblem(
        problem.scenario, problem.min_gain * factor, problem.budget
    )


def same(one, other):
    """Whether two policies decide alike on the same gains."""
    problem, _ = lanes((11, 12))
    return np.array_equal(one.schedule(problem), other.schedule(problem))


@pytest.mark.parametrize("name", CAUSAL)
def test_no_gain_of_the_realisation_is_seen(name):
    problem, mean_gain = lanes()
    policy = CAUSAL[name](problem, mean_gain)
    assert isinstance(policy, policies.OnlinePolicy)
    assert same(policy, CAUSAL[name](another(problem), mean_gain))
    if name in TUNED:  # the control
        assert not same(
            TUNED[name](problem, mean_gain), TUNED[name](another(problem), mean_gain)
        )


def test_on_fresh_realisations_the_mean_cost_is_nu():
    chosen = {
        name: TunedOnModel(getattr(policies, name), draws=30, **more)
        for name, more in (("AdaScale", {"from_law": False}), ("PowerControl", {}))
    }
    assert SEED > 10**6  # the draws are no realisation of the table
    for _, rows in leakage_table(SHORT, [0.02, 0.16], range(300, 330), chosen).groupby(
        ["policy", "nu"]
    ):
        spent = rows.cost / rows.nu
        assert spent.std() > 1e-3  # none is brought to nu on the realisation itself
        assert (
            abs(spent.mean() - 1) < 4 * np.sqrt(2 / 30) * spent.std()
        )  # of the draws and of the realisations


def test_a_class_with_from_law_is_built_by_it_unless_told_otherwise():
    problem, mean_gain = lanes()
    law = RayleighFloors.of(SMALL, mean_gain)
    built = TunedOnModel(policies.AdaScale, stiffness=10.0)(problem, mean_gain)
    expected = policies.AdaScale.from_law(
        SMALL, BUDGETS[:, None], law=law, stiffness=10.0
    )
    np.testing.assert_array_equal(built.penalty, expected.penalty)
    np.testing.assert_array_equal(built.initial_queue, expected.initial_queue)
    cold = TunedOnModel(policies.AdaScale, from_law=False)(problem, mean_gain)
    assert cold.initial_queue == 0
    assert not np.allclose(cold.penalty, built.penalty, rtol=0.1)
    assert (
        TunedOnModel(policies.AdaScale, penalty=0.5)(problem, mean_gain).penalty == 0.5
    )
    given = TunedOnModel(policies.AdaScale, law=law, stiffness=10.0)(problem)
    np.testing.assert_array_equal(given.penalty, expected.penalty)
    assert same(
        TunedOnModel(policies.ReSolve, law=law)(problem),
        TunedOnModel(policies.ReSolve)(problem, mean_gain),
    )


def test_the_table_s_channel_is_believed_and_a_given_one_wins():
    def cost(method):
        return leakage_table(
            SHORT, [0.04], range(30), {"Level": method}, channel=Rician(K=10)
        ).cost.to_numpy()

    own = cost(policies.ConstantLevel)
    np.testing.assert_array_equal(cost(TunedOnModel(policies.ConstantLevel)), own)
    np.testing.assert_array_equal(
        cost(TunedOnModel(policies.ConstantLevel, channel=Rician(K=10))), own
    )
    wrong = cost(TunedOnModel(policies.ConstantLevel, channel=Rayleigh()))
    error = own.std() / np.sqrt(30)
    assert abs(own.mean() - 0.04) < 4 * error
    assert wrong.mean() - 0.04 > 8 * error  # the control


def test_the_default_of_a_table_leaves_out_who_keeps_a_promise_of_its_own(monkeypatch):
    own = [
        f"adascale.policies:{each}" for each in ("ConstantLevel", "ReSolve", "Learn")
    ]
    assert all(comparison.keeps_its_own_promise(find_method(each)[1]) for each in own)
    paper = [
        each
        for each in registry.names("policies")
        if not comparison.keeps_its_own_promise(find_method(each)[1])
    ]
    assert {*paper} >= {*METHODS}
    monkeypatch.setattr(registry, "names", lambda kind: (*paper, *own))
    table = leakage_table(SMALL, BUDGETS, [0])
    assert list(table.policy.unique()) == paper
    assert (abs(table.cost / table.nu - 1) < 1e-9).all()


class Undeclared(policies.EqualAlloc):
    def __init__(self, level):
        self.level = level


class Forgets(Undeclared):
    tuned = ("extra",)

    def __init__(self, extra):
        pass


Misspelt = type("Misspelt", (Undeclared,), {"tuned": "level"})
Both = type(
    "Both", (policies.ReSolve,), {"tuned": ("safety_margin",)}
)  # needs the law and has a parameter to tune


def refusals():
    for method in (TunedOnModel, TunedOnRealisation):
        yield (
            "penalty, rate",
            lambda method=method: method(policies.LyapunovPowerControl),
        )
        yield "subclass of .*Policy", lambda method=method: method(dict)
        yield "tuned", lambda method=method: method(Misspelt)
        yield (
            "Undeclared: .*level.*`tuned`",
            lambda method=method: method(Undeclared)(*lanes()),
        )
        yield (
            "AdaScale: .*depth",
            lambda method=method: method(policies.AdaScale, depth=3)(*lanes()),
        )
        yield (
            "needs mean_gain",
            lambda method=method: method(policies.EstimFuture)(lanes()[0]),
        )
    yield "Forgets .*'extra'", lambda: TunedOnRealisation(Forgets)(*lanes())
    yield "needs the law", lambda: TunedOnRealisation(policies.ReSolve)(*lanes())
    yield "Optimal", lambda: TunedOnModel(policies.Optimal)
    yield "draws", lambda: TunedOnModel(policies.AdaScale, draws=0)
    yield "seed", lambda: TunedOnModel(policies.AdaScale, seed=-1)
    yield "channel", lambda: TunedOnModel(policies.AdaScale, channel=3)
    yield "from_law", lambda: TunedOnModel(Both)(*lanes())
    yield "takes no parameters", lambda: find_method("LyapunovPowerControl:rate=1")


@pytest.mark.parametrize(("said", "call"), [*refusals()])
def test_what_cannot_be_is_refused_in_one_line(said, call):
    with pytest.raises(ValueError, match=said) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_method_tunes_what_its_class_declares_and_is_not_given():
    problem, mean_gain = lanes()
    made = TunedOnRealisation(
        policies.PowerControl, contraction=0.99, estimate="minimum"
    )
    assert made.tuned == ("privacy_budget",)
    policy = made(problem, mean_gain)
    assert (policy.contraction, policy.estimate) == (0.99, "minimum")
    one = ReceiveScalingProblem(SMALL, problem.min_gain[0], BUDGETS[0])
    assert TunedOnRealisation(policies.AdaScale, penalty=0.5)(one).penalty == 0.5
    rate = float(one.eta(policies.Optimal().schedule(one)).mean())
    tuned = TunedOnRealisation(policies.LyapunovPowerControl, rate=rate)(one)
    for of, found in ((problem, policy), (one, tuned)):
        np.testing.assert_allclose(
            of.cost(found.schedule(of)) / of.budget, 1, rtol=1e-9
        )
    np.testing.assert_array_equal(
        TunedOnRealisation(FullPower)(one).schedule(one), one.min_noise_energy
    )
    assert TunedOnModel(policies.Learn, budget_mode="hard")(problem) == policies.Learn(
        "hard"
    )
    made = TunedOnModel(policies.EstimFuture, estimate="devices")(problem, mean_gain)
    assert made.estimate == "devices"
    np.testing.assert_array_equal(made.mean_gain, mean_gain)


def test_a_method_is_found_however_its_name_is_written():
    for name in ("EqualAlloc", "equal-alloc", "equal_alloc", "equalalloc"):
        label, found = find_method(name)
        assert (label, found.policy) == ("EqualAlloc", policies.EqualAlloc)
    assert find_method("LyapunovPowerControl") == (
        "LyapunovPowerControl",
        best_lyapunov,
    )  # a function


KNOWLEDGE = {
    policies.Optimal: ("optimum", "gains to come"),
    policies.AdaScale: ("hindsight", "gains to come"),
    TunedOnModel(policies.AdaScale): ("causal", "law"),
    TunedOnRealisation(policies.AdaScale, penalty=1.0): ("causal", "nothing"),
    policies.EstimFuture: ("causal", "law"),
    policies.Learn: ("causal", "nothing"),
    TunedOnRealisation(policies.Learn, prior=RayleighFloors(1.0)): ("causal", "law"),
    policies.ReSolve: ("causal", "law"),
    policies.Truncated: ("hindsight", "gains to come"),
    TunedOnRealisation(policies.Truncated, threshold=1.0): ("causal", "nothing"),
    TunedOnRealisation(policies.Truncated, epsilon=1.0): ("causal", "nothing"),
    TunedOnRealisation(policies.Best, number=2): ("hindsight", "gains to come"),
    TunedOnRealisation(policies.Best, number=2, level=0.0): ("causal", "nothing"),
    best_lyapunov: ("reconstruction", "gains to come"),
    partial(best_lyapunov, relative_rates=0.5): ("reconstruction", "gains to come"),
    TunedOnRealisation(policies.LyapunovPowerControl, rate=1.0, penalty=1.0): (
        "reconstruction",
        "nothing",
    ),
    lambda problem, mean_gain: policies.EqualAlloc(): ("hindsight", "gains to come"),
}


@pytest.mark.parametrize("method", KNOWLEDGE)
def test_kind_and_knowledge_follow_from_what_is_tuned_and_needed(method):
    assert knowledge(method) == KNOWLEDGE[method]


@pytest.fixture(scope="module")
def table():
    return leakage_table(SMALL, BUDGETS, range(3), METHODS)


def test_rows_are_ordered_spend_the_budget_and_do_not_depend_on_each_other(table):
    assert (abs(table.cost / table.nu - 1) <= 1e-9).all()
    rdp = table.pivot(index=["nu", "seed"], columns="policy", values="rdp")
    assert (rdp["Optimal"] <= rdp["AdaScale"]).all()
    assert (rdp["Optimal"] < rdp["EqualAlloc"]).all()
    assert list(dict.fromkeys(table.policy)) == list(METHODS)
    assert (
        table.groupby("policy", sort=False)
        .nu.apply(lambda nu: nu.is_monotonic_increasing)
        .all()
    )
    alone = leakage_table(SMALL, BUDGETS, [2], METHODS)
    beside = table[table.seed == 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        alone, beside, rtol=1e-7
    )  # the tuned V ends anywhere within 1e-9 of the budget
    some = leakage_table(
        SMALL, BUDGETS, [2], {"OnlySome": OnlySome}
    )  # which cannot reach the second
    assert some[["cost", "rdp", "epsilon", "full_power"]].isna().all(
        axis=1
    ).tolist() == [False, True]


class Shadows(OnlySome):
    tuned = ("cost",)

    def __init__(self, cost):
        super().__init__(cost)
        self.cost = cost


BAD = [
    ("nu", [0.0], [0], 1e-5),
    ("nu", [0.1, 0.1], [0], 1e-5),
    ("nu", ["x"], [0], 1e-5),
    ("delta", [0.1], [0], 0),
]
BAD += [
    ("seed", [0.1], [2, 2], 1e-5),
    ("seed", [0.1], [-1], 1e-5),
    ("seeds", [0.1], range(1_000_001), 1e-5),
]


@pytest.mark.parametrize(("name", "budgets", "seeds", "delta"), BAD)
def test_bad_arguments_are_refused(name, budgets, seeds, delta):
    with pytest.raises(ValueError, match=name):
        leakage_table(SMALL, budgets, seeds, delta=delta)
    with pytest.raises(
        ValueError, match="must not tune 'cost'"
    ):  # the name of another column
        leakage_table(SMALL, BUDGETS[:1], [0], {"Shadows": Shadows})


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


def drawn(scenario, seeds):
    """Gains of realisations, and their mean floors."""
    gain = channel.draw(scenario.num_devices, scenario.num_rounds, seeds).gain
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(gain), 1.0)
    return gain, problem.min_noise_energy.mean(axis=-1)


def test_equal_total_is_equal_noise_and_below_the_floor_only_some_can_send():
    floor = drawn(EQUAL, range(4))[1]
    low, high = float(np.sort(floor)[1:3].mean()), 2 * float(floor.max())
    table = leakage_table(
        EQUAL, [high, low], range(4), ALL, target="total", accountant=RENYI
    )
    can = (table.target_total > floor[table.seed]) | table.policy.isin(SENDERS)
    assert (
        can.tolist()
        == table.total.notna().tolist()
        == table.nu.notna().tolist()
        == table.epsilon.notna().tolist()
    )
    assert (~can).sum() == 2 * 3
    some = table[can]
    np.testing.assert_allclose(some.total, some.target_total, rtol=1e-9)
    np.testing.assert_allclose(
        some.nu, some.total - floor[some.seed], rtol=1e-6, atol=1e-12
    )
    np.testing.assert_array_equal(table.floor, floor[table.seed])
    assert table.policy.drop_duplicates().tolist() == [*ALL]
    own = leakage_table(
        EQUAL, [high - floor[2]], [2], ALL, accountant=RENYI
    )  # the same nu, given
    beside = table[(table.seed == 2) & (table.target_total == high)]
    np.testing.assert_allclose(beside.epsilon, own.epsilon, rtol=1e-6)


@pytest.mark.parametrize("scenario", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_equal_epsilon_is_the_least_noise_that_no_device_exceeds(scenario):
    table = leakage_table(scenario, [0.5], [0], ALL, target="epsilon", accountant=RENYI)
    assert (table.epsilon <= table.target_epsilon).all()
    assert (table.epsilon >= 0.9999 * table.target_epsilon).all()
    everyone = table[~table.policy.isin(SENDERS)]
    assert (
        (everyone.epsilon > 1.0001 * everyone.epsilon_mean) == (scenario is UNEQUAL)
    ).all()
    for row in table.itertuples():  # a little less noise is too little
        target, level = (
            ("total", row.total) if row.policy in SENDERS else ("nu", row.nu)
        )
        of = {row.policy: ALL[row.policy]}
        less = leakage_table(
            scenario, [level * 0.9995], [0], of, target=target, accountant=RENYI
        )
        assert less.epsilon[0] > row.target_epsilon


def test_an_epsilon_out_of_reach_is_nan_and_one_at_full_power_needs_no_budget():
    own = leakage_table(
        EQUAL, [1.0], range(3), {"full": FullPower}, accountant=RENYI
    ).epsilon
    levels = [float(own.min()) / 2, 2 * float(own.max())]
    full = leakage_table(
        EQUAL, levels, range(3), {"full": FullPower}, target="epsilon", accountant=RENYI
    )
    assert (
        full.total.isna().tolist()
        == full.nu.isna().tolist()
        == [True] * 3 + [False] * 3
    )
    assert (full.nu[3:] < 1e-3).all()


def accounted(row, gain, exposure):
    """Epsilon of each device and the mean Renyi leakage of a row's policy, device by device."""
    if row.policy == "Optimal":
        problem = ReceiveScalingProblem(UNEQUAL, UNEQUAL.min_gain(gain), row.nu)
        sigma, senders = (
            problem.noise_multiplier(policies.Optimal().schedule(problem)),
            np.ones(gain.shape, dtype=bool),
        )
    else:
        policy = {
            "fixed": lambda total: policies.Truncated(epsilon=8.0),
            "Truncated": partial(policies.Truncated.of_total, UNEQUAL, gain),
            "Best": partial(policies.Best.of_total, UNEQUAL, gain, number=8),
        }[row.policy](total=row.target_total)
        found = policy.select(UNEQUAL, gain)
        sigma, senders = found.noise_multiplier, found.senders
        assert (row.total, row.floor + row.cost) == pytest.approx(
            (float(found.total),) * 2, rel=1e-9
        )
        assert (row.participation, row.participation_min) == (
            found.participation.mean(),
            found.participation.min(),
        )
    rates = np.broadcast_to(UNEQUAL.sampling_rate, UNEQUAL.num_devices)
    devices = [
        (q, s[on])
        for q, s, on in zip(rates, sigma / np.sqrt(exposure), senders, strict=True)
    ]
    rdp = [accounting.rdp(q, s, UNEQUAL.order).sum() for q, s in devices]
    return [RENYI.epsilon(q, s, 1e-5) for q, s in devices], np.mean(rdp)


MODELS = [
    channel.Rayleigh(),
    Beamforming(antennas=2),
    AntennaSelection(antennas=2, chains="all"),
]


@pytest.mark.filterwarnings("ignore::adascale.accounting.OrdersTooFew")
@pytest.mark.parametrize("model", MODELS)
def test_a_row_accounts_for_each_device_and_exposure_raises_leakage_alone(model):
    chosen = {
        "fixed": TunedOnRealisation(policies.Truncated, epsilon=8.0),
        "Optimal": policies.Optimal,
    } | SENDERS
    given = (
        UNEQUAL,
        [1e-3, 3.0],
        [0],
        chosen,
    )  # the first is out of reach of the optimum
    found = leakage_table(*given, target="total", channel=model, accountant=RENYI)
    drawn = model.draw(UNEQUAL.num_devices, UNEQUAL.num_rounds, [0])
    exposure = np.ones(drawn.gain.shape) if drawn.exposure is None else drawn.exposure
    reached = found.dropna(subset=["total"])
    for row in reached.itertuples():
        each, rdp = accounted(row, drawn.gain[row.seed], exposure[row.seed])
        assert (row.epsilon_mean, row.epsilon) == pytest.approx(
            (np.mean(each), max(each)), rel=1e-9
        )
        assert row.rdp == pytest.approx(rdp, rel=1e-12)
        floor = UNEQUAL.noise_scale / (
            UNEQUAL.x_max * UNEQUAL.min_gain(drawn.gain[row.seed])
        )
        assert (row.floor_max, row.floor_max_round) == (
            pytest.approx(floor.max()),
            floor.argmax(),
        )
    assert len(reached) < len(found)
    assert (
        found[found.policy == "fixed"].groupby("seed").total.nunique().eq(1).all()
    )  # the target plays no part
    assert reached[reached.policy == "Truncated"].threshold.notna().all()
    assert reached[reached.policy == "Best"].level.notna().all()
    if model is not MODELS[0]:
        one = leakage_table(
            *given,
            target="total",
            channel=replace(model, chains="one"),
            accountant=RENYI,
        )
        leaking = ["rdp", "epsilon", "epsilon_mean"]
        pd.testing.assert_frame_equal(
            found.drop(columns=leaking), one.drop(columns=leaking)
        )
        assert (found[leaking] > one[leaking])[found.total.notna()].all(axis=None)
