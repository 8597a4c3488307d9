"""Methods: what they see, what they are tuned on, and how they are found by name."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import ncx2

from adascale import ReceiveScalingProblem, Scenario, channel, policies, registry, tuning
from adascale.channel import Rayleigh, RayleighFloors
from adascale.comparison import (
    TunedOnModel,
    TunedOnRealisation,
    find_method,
    keeps_its_own_promise,
    knowledge,
    leakage_table,
)
from adascale.comparison.methods import SEED
from adascale.comparison.shi_tuning import best_lyapunov
from companion.causal.fresh import CAUSAL, TUNED
from companion.methods import METHODS

from ..problems import FullPower

SMALL = Scenario("small", 3, 40, 1000, 20, 400, 1.0, 0.2, 1e-12)
SHORT = replace(Scenario.mnist(), num_rounds=100)
BUDGETS = np.array([2e-3, 8e-3])


def lanes(seeds=(0, 1), scenario=SMALL):
    drawn = channel.draw(scenario.num_devices, scenario.num_rounds, list(seeds))
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), BUDGETS[:, None])
    return problem, scenario.mean_gain(drawn.path_loss)


def another(problem, seed=7):
    """The same devices in another realisation."""
    factor = np.random.default_rng(seed).exponential(size=problem.min_gain.shape)
    return ReceiveScalingProblem(problem.scenario, problem.min_gain * factor, problem.budget)


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
        assert not same(TUNED[name](problem, mean_gain), TUNED[name](another(problem), mean_gain))


@pytest.mark.parametrize("name", ["AdaScale", "PowerControl"])
def test_a_tuned_policy_spends_nu_on_average_over_draws_of_its_own_law(name):
    problem, mean_gain = lanes()
    made = TunedOnModel(getattr(policies, name), from_law=False, draws=12, seed=5)(problem, mean_gain)
    law = Rayleigh().floor_law(SMALL, mean_gain)
    floor = tuning.draw_floors(SMALL, law, 12, 5)
    cost = np.zeros((2, 2))
    for draw in range(12):  # one draw at a time, in the lanes of the policy
        gain = SMALL.noise_scale / (SMALL.x_max * floor[:, draw])
        each = ReceiveScalingProblem(SMALL, gain, BUDGETS[:, None])
        cost += each.cost(made.schedule(each)) / 12
    np.testing.assert_allclose(cost, np.broadcast_to(BUDGETS[:, None], (2, 2)), rtol=1e-6)  # what is promised


def test_on_fresh_realisations_the_mean_cost_is_nu():
    chosen = {
        name: TunedOnModel(getattr(policies, name), draws=30, **more)
        for name, more in (("AdaScale", {"from_law": False}), ("PowerControl", {}))
    }
    assert SEED > 10**6  # the draws are no realisation of the table
    for _, rows in leakage_table(SHORT, [0.02, 0.16], range(300, 330), chosen).groupby(["policy", "nu"]):
        spent = rows.cost / rows.nu
        assert spent.std() > 1e-3  # none is brought to nu on the realisation itself
        assert abs(spent.mean() - 1) < 4 * np.sqrt(2 / 30) * spent.std()  # of the draws and of the realisations


def test_a_class_with_from_law_is_built_by_it_unless_told_otherwise():
    problem, mean_gain = lanes()
    law = RayleighFloors.of(SMALL, mean_gain)
    built = TunedOnModel(policies.AdaScale, stiffness=10.0)(problem, mean_gain)
    expected = policies.AdaScale.from_law(SMALL, BUDGETS[:, None], law=law, stiffness=10.0)
    np.testing.assert_array_equal(built.penalty, expected.penalty)
    np.testing.assert_array_equal(built.initial_queue, expected.initial_queue)
    cold = TunedOnModel(policies.AdaScale, from_law=False)(problem, mean_gain)
    assert cold.initial_queue == 0
    assert not np.allclose(cold.penalty, built.penalty, rtol=0.1)
    assert TunedOnModel(policies.AdaScale, penalty=0.5)(problem, mean_gain).penalty == 0.5
    given = TunedOnModel(policies.AdaScale, law=law, stiffness=10.0)(problem)
    np.testing.assert_array_equal(given.penalty, expected.penalty)
    assert same(TunedOnModel(policies.ReSolve, law=law)(problem), TunedOnModel(policies.ReSolve)(problem, mean_gain))


@dataclass(frozen=True)
class Rician(channel.ChannelModel):
    """A line of sight, ten times as strong as what is scattered."""

    def fading(self, rng, num_rounds):
        return np.sqrt(10 / 11) + rng.standard_normal((num_rounds, 2)).view(complex)[:, 0] / np.sqrt(22)

    def survival(self, power):
        return ncx2.sf(22 * power, 2, 20)


def test_the_table_s_channel_is_believed_and_a_given_one_wins():
    def cost(method):
        return leakage_table(SHORT, [0.04], range(30), {"Level": method}, channel=Rician()).cost.to_numpy()

    own = cost(policies.ConstantLevel)
    np.testing.assert_array_equal(cost(TunedOnModel(policies.ConstantLevel)), own)
    np.testing.assert_array_equal(cost(TunedOnModel(policies.ConstantLevel, channel=Rician())), own)
    wrong = cost(TunedOnModel(policies.ConstantLevel, channel=Rayleigh()))
    error = own.std() / np.sqrt(30)
    assert abs(own.mean() - 0.04) < 4 * error
    assert wrong.mean() - 0.04 > 8 * error  # the control


def test_lanes_side_by_side_are_tuned_each_on_its_own():
    problem, mean_gain = lanes((0, 1, 2))
    method = TunedOnModel(policies.PowerControl)
    together = method(problem, mean_gain).privacy_budget
    for r in range(3):
        alone = ReceiveScalingProblem(SMALL, problem.min_gain[[r]], problem.budget)
        single = method(alone, mean_gain[[r]]).privacy_budget
        np.testing.assert_allclose(single[:, 0], together[:, r], rtol=1e-6)  # each meets the cost to 1e-6


def test_the_default_of_a_table_leaves_out_who_keeps_a_promise_of_its_own(monkeypatch):
    own = [f"adascale.policies:{each}" for each in ("ConstantLevel", "ReSolve", "Learn")]
    assert all(keeps_its_own_promise(find_method(each)[1]) for each in own)
    paper = [each for each in registry.names("policies") if not keeps_its_own_promise(find_method(each)[1])]
    assert {*paper} >= {*METHODS}
    monkeypatch.setattr(registry, "names", lambda kind: (*paper, *own))
    table = leakage_table(SMALL, BUDGETS, [0])
    assert list(table.policy.unique()) == paper
    assert (abs(table.cost / table.nu - 1) < 1e-9).all()


class Undeclared(policies.EqualAlloc):
    def __init__(self, level):
        self.level = level


class Misspelt(policies.EqualAlloc):
    tuned = "level"


class Forgets(policies.EqualAlloc):
    tuned = ("extra",)

    def __init__(self, extra):
        pass


@dataclass(frozen=True)
class Both(policies.ReSolve):
    """Needs the law and has a parameter to tune."""

    tuned = ("safety_margin",)


def refusals():
    for method in (TunedOnModel, TunedOnRealisation):
        yield "penalty, rate", lambda method=method: method(policies.LyapunovPowerControl)
        yield "start and step", lambda method=method: method(dict)
        yield "tuned", lambda method=method: method(Misspelt)
        yield "Undeclared: .*level.*`tuned`", lambda method=method: method(Undeclared)(*lanes())
        yield "AdaScale: .*depth", lambda method=method: method(policies.AdaScale, depth=3)(*lanes())
        yield "needs mean_gain", lambda method=method: method(policies.EstimFuture)(lanes()[0])
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
    made = TunedOnRealisation(policies.PowerControl, contraction=0.99, estimate="minimum")
    assert made.tuned == ("privacy_budget",)
    policy = made(problem, mean_gain)
    assert (policy.contraction, policy.estimate) == (0.99, "minimum")
    one = ReceiveScalingProblem(SMALL, problem.min_gain[0], BUDGETS[0])
    assert TunedOnRealisation(policies.AdaScale, penalty=0.5)(one).penalty == 0.5
    rate = float(policies.Optimal().schedule(one).mean())
    tuned = TunedOnRealisation(policies.LyapunovPowerControl, rate=rate)(one)
    for of, found in ((problem, policy), (one, tuned)):
        np.testing.assert_allclose(of.cost(found.schedule(of)) / of.budget, 1, rtol=1e-9)
    np.testing.assert_array_equal(TunedOnRealisation(FullPower)(one).schedule(one), one.max_eta)
    assert TunedOnModel(policies.Learn, budget_mode="hard")(problem) == policies.Learn("hard")
    made = TunedOnModel(policies.EstimFuture, estimate="devices")(problem, mean_gain)
    assert made.estimate == "devices"
    np.testing.assert_array_equal(made.mean_gain, mean_gain)


def test_a_method_is_found_however_its_name_is_written():
    for name in ("EqualAlloc", "equal-alloc", "equal_alloc", "equalalloc"):
        label, found = find_method(name)
        assert (label, found.policy) == ("EqualAlloc", policies.EqualAlloc)
    assert find_method("LyapunovPowerControl") == ("LyapunovPowerControl", best_lyapunov)  # a function


def best_of_pairs(problem, mean_gain=None) -> policies.LyapunovPowerControl:
    return best_lyapunov(problem)


KNOWLEDGE = {
    policies.Optimal: ("optimum", "gains to come"),
    policies.AdaScale: ("hindsight", "gains to come"),
    TunedOnModel(policies.AdaScale): ("causal", "law"),
    TunedOnRealisation(policies.AdaScale, penalty=1.0): ("causal", "nothing"),
    policies.EqualAlloc: ("causal", "nothing"),
    policies.EstimFuture: ("causal", "law"),
    policies.PowerControl: ("hindsight", "gains to come"),
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
    best_of_pairs: ("reconstruction", "gains to come"),
    TunedOnRealisation(policies.LyapunovPowerControl, rate=1.0, penalty=1.0): ("reconstruction", "nothing"),
    lambda problem, mean_gain: policies.EqualAlloc(): ("hindsight", "gains to come"),
}


@pytest.mark.parametrize("method", KNOWLEDGE)
def test_kind_and_knowledge_follow_from_what_is_tuned_and_needed(method):
    assert knowledge(method) == KNOWLEDGE[method]
