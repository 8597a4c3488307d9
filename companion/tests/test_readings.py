"""What the chapter on accuracy concludes, for the committed trainings; and how it reads its tables."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from adascale import ReceiveScalingProblem, Scenario, channel
from adascale.runs.sweep import read_sweep
from adascale.statistics import interval, log_interval
from companion.claims import CLOSE, QUOTED_ACCURACY
from companion.methods import METHODS
from companion.summary import by_seed
from companion.training.accuracy import accuracy_claims, reading_table, reading_verdicts
from companion.training.weighted_trainings import SETTINGS

from .shared import RESULTS

QUOTED = QUOTED_ACCURACY["mnist"]
PAIR = "momentum 0.9, budget 2 nu"
BUDGETS = ["as stated", "budget M nu", "budget M^2 nu / 2", "budget M^2 nu"]
CALM = ["clipping norm 0.3", "learning rate 0.1", "Glorot initialisation", "pixels in [0, 1]", "clipping norm 3"]
CALM += ["as stated", "floors times 2", "distances uniform in area"]


@pytest.fixture(scope="module")
def results():
    return pd.concat([pd.read_csv(RESULTS / "mnist" / f"{name}.csv") for name in ("accuracy", "readings")])


@pytest.fixture(scope="module")
def entries():
    return [each for name in ("accuracy", "readings") for each in read_sweep(RESULTS / "mnist" / f"{name}.toml")]


@pytest.fixture(scope="module")
def readings(entries, results):
    return reading_table(entries, results, range(20))


@pytest.fixture(scope="module")
def marks(readings):
    return reading_verdicts(readings, QUOTED)


def at(readings, nu):
    return readings[readings.nu == nu].set_index("reading")


def test_accuracy_is_lost_where_there_is_no_gap_left(readings, results):
    curve = readings[readings.reading.isin(BUDGETS)].sort_values("budget")
    accuracy = by_seed(results[results.policy == "AdaScale"], arm=("reading", "nu"))
    quiet = by_seed(results[results.reading == "without noise"], arm=("reading",))["without noise"]
    lost = [(quiet - accuracy[row.reading, row.nu]).mean() for row in curve.itertuples()]
    assert np.interp(0.5, curve.budget, lost) < 0.5 < 1 < lost[-1]
    assert results.floor_mean[results.reading == "as stated"].mean() > 0.16
    assert curve.budget.is_monotonic_increasing
    assert curve.gap.is_monotonic_decreasing
    assert max(each for each, budget in zip(lost, curve.budget, strict=True) if budget < 0.5) < 0.5


def test_no_single_change_gives_both_headlines(marks):
    assert marks.loc["as stated"].tolist() == ["holds", "fails", "fails", "holds", "holds", "fails"]
    assert set(marks.both.drop(PAIR)) == {"fails"}
    assert marks.loc["budget M^2 nu / 2", ["fall", "gap"]].tolist() == ["holds", "fails"]
    assert marks.loc["momentum 0.9", ["fall", "gap"]].tolist() == ["fails", "holds"]


def test_what_rescales_has_no_gap_where_there_is_a_fall(readings, marks):
    large = at(readings, 0.16)
    rescaled = ["budget d nu", "floors times M^2", "floors times 2", "distances uniform in area"]
    for name in (*BUDGETS[1:], *rescaled):
        assert marks.gap[name] == "fails" or large.fall_high[name] < 1.5, name
    assert marks.loc["floors and budget times M^2", ["small", "large", "gap"]].tolist() == ["fails", "fails", "holds"]
    assert set(marks.index[marks.narrows == "fails"]) == {"clipping norm 3", "floors times M^2"}
    half = marks.loc["budget M^2 nu / 2"]
    assert half.small == half.fall == "holds" != half.large != "fails" == half.gap


def test_by_ratios_of_means_no_gap_is_evaluated_otherwise(readings, marks):
    small, large = at(readings, 0.01), at(readings, 0.16)
    assert ((small.gap_means > CLOSE) == (marks.gap == "holds")).all()
    assert ((small.gap_means > large.gap_means) == (marks.narrows == "holds"))[marks.narrows != "not settled"].all()
    assert small.gap_means["as stated"] < 0.5 * small.gap["as stated"]  # and yet another number


def test_only_larger_steps_are_felt_and_they_leave_the_gap_as_it_is(readings, marks):
    small, large = at(readings, 0.01), at(readings, 0.16)
    assert (large.fall_high[CALM] < 0.5).all()
    assert (large.fall_low[["learning rate 5", "momentum 0.9"]] > 1).all()
    assert large.fall_low["learning rate 2"] > 0
    trained = ["learning rate 0.1", "learning rate 2", "learning rate 5", "momentum 0.9", "Glorot initialisation"]
    np.testing.assert_allclose(small.gap[trained], small.gap["as stated"], rtol=1e-9)
    assert small.accuracy[["clipping norm 0.3", "learning rate 0.1"]].max() < 90
    assert marks.both[PAIR] == "not settled"
    assert large.fall_high[PAIR] < 100 * (QUOTED[0] - QUOTED[1])  # within two points of it, and yet below
    assert marks.loc[PAIR, ["fall", "gap", "narrows"]].tolist() == ["holds"] * 3
    assert abs(large.accuracy[PAIR] - 90) < 1 > abs(small.accuracy[PAIR] - 95)


def test_under_m_squared_nu_all_methods_learn_the_same(results):
    claims = accuracy_claims(results[results.reading == "budget M^2 nu"], QUOTED)
    assert set(claims[claims.claim == "same"].verdict) == {"holds"}


@pytest.fixture(scope="module")
def momentum(results):
    return by_seed(results[results.reading == "momentum 0.9"], arm=("policy", "nu"))


def test_with_momentum_the_fall_is_in_proportion_to_nu_and_the_floors_are_felt(momentum, results):
    own = momentum["AdaScale"]
    fall = np.array([(own[0.01] - own[nu]).mean() / (nu - 0.01) for nu in (0.02, 0.04, 0.08, 0.16)])
    assert fall.max() / fall.min() < 1.3
    quiet = by_seed(results[results.reading == "momentum 0.9, without noise"], arm=("policy",))["NoiseFree"]
    cost, floor = quiet - own[0.01], results[results.reading == "momentum 0.9"].groupby("seed").floor_mean.first()
    assert interval(cost).low > 0.5 * (own[0.01] - own[0.16]).mean()
    assert stats.spearmanr(floor, cost).pvalue < 0.05
    assert (own[0.01][floor < 0.1] > 96.5).all()


def test_estim_future_alone_learns_less_at_the_same_nu(momentum):
    others = [name for name in METHODS if name != "AdaScale"]
    ends = {name: interval(momentum[name, 0.16] - momentum["AdaScale", 0.16]) for name in others}
    own = ends.pop("EstimFuture")
    assert own.low < own.high < 0
    assert all(-1 < each.low < 0.3 and each.high > -0.3 for each in ends.values())


def test_estim_future_alone_spends_late():
    scenario, last = Scenario.mnist(), {}
    drawn = [channel.draw(scenario.num_devices, scenario.num_rounds, seed) for seed in range(10)]
    for name in ("Optimal", "PowerControl", "LyapunovPowerControl", "EstimFuture"):
        shares = []
        for each in drawn:
            problem = ReceiveScalingProblem(scenario, scenario.min_gain(each.gain), 0.16)
            eta = METHODS[name](problem, scenario.mean_gain(each.path_loss)).schedule(problem)
            spent = problem.spend(eta)
            shares.append(100 * spent[-166:].sum() / spent.sum())
        last[name] = interval(shares)
    assert last["EstimFuture"].low > 38 > max(each.high for name, each in last.items() if name != "EstimFuture")
    assert last["PowerControl"].centre < last["Optimal"].centre < last["LyapunovPowerControl"].centre


def read(name):
    return pd.read_csv(RESULTS / "weights" / f"{name}.csv")


def test_late_noise_costs_more_and_even_noise_what_the_thirds_do_on_average():
    thirds = read("thirds")
    loss = thirds.pivot(index=["setting", "seed"], columns="noise", values="test_loss")
    for setting in SETTINGS:
        own = loss.loc[setting]
        assert interval(own["late"] - own["early"]).low > 0.1
        apart = interval(own["even"] - own[["early", "middle", "late"]].mean(axis=1))
        assert apart.low < 0 < apart.high
    ends = thirds.pivot(index=["setting", "seed"], columns="noise", values="test_accuracy").loc["no momentum"]
    early = interval(ends["early"] - ends["none"])
    assert early.low < 0 < early.high


def test_the_response_rises_first_with_momentum_alone():
    responses = read("response")
    wide = responses.pivot(index="seed", columns=["setting", "later"], values="response")
    heavy, plain = (wide[name] for name in SETTINGS)
    assert interval((heavy[16] - heavy[0]).dropna()).low > 0 > interval((plain[16] - plain[0]).dropna()).high
    assert heavy[16].mean() / heavy[0].mean() < 100  # what momentum 0.9 allows


def test_one_of_four_weightings_gains_a_little_and_reversed_ones_lose():
    contest = read("contest")
    met = contest.pivot(index=["setting", "seed"], columns="schedule", values="test_accuracy")
    names = [(setting, name) for setting in SETTINGS for name in ("response", "thirds", "reversed")]
    gains = {(setting, name): interval(met.loc[setting][name] - met.loc[setting]["flat"]) for setting, name in names}
    _, plain = SETTINGS
    assert 0 < gains[plain, "response"].low < gains[plain, "response"].centre < 0.02
    assert all(gains[setting, "reversed"].high < 0 for setting in SETTINGS)
    rest = [
        each for (setting, name), each in gains.items() if name != "reversed" and (setting, name) != (plain, "response")
    ]
    assert all(each.low < 0 < each.high for each in rest)


def test_on_quadratics_weights_save_rdp_and_may_cost_epsilon():
    quadratic = read("quadratic")
    assert (quadratic[["leakage", "excess"]] < 1).all(axis=None)
    worse = quadratic[(quadratic.nu == 0.16) & (quadratic.forgetting == 6)]
    assert log_interval(worse.epsilon).low > 1 > log_interval(worse.best_epsilon).high
