"""What the chapter on the benchmarks says of MNIST and CIFAR-10, computed as there."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale import ReceiveScalingProblem, Scenario, channel, policies, presets
from adascale.comparison import Hindsight, leakage_table
from adascale.comparison.shi_tuning import match_lyapunov
from adascale.policies import water_level
from companion.causal import fresh as causal
from companion.claims import compare
from companion.leakage.benchmarks import both_protocols, full_power, late_share, order_table
from companion.leakage.published import STOP, Published
from companion.leakage.shi_pairs import lyapunov_starts, pair_table
from companion.methods import METHODS
from companion.reported import benchmarks as benchmarked

RESULTS = Path(__file__).parents[2] / "results"
SEEDS = np.arange(100)
MNIST = Scenario.mnist()


def lanes(dataset, nus=None):
    preset = presets.load(dataset)
    drawn = channel.draw(preset.scenario.num_devices, preset.scenario.num_rounds, SEEDS)
    levels = np.array(preset.levels if nus is None else nus)
    problem = ReceiveScalingProblem(preset.scenario, preset.scenario.min_gain(drawn.gain), levels[:, None])
    return problem, preset.scenario.mean_gain(drawn.path_loss)


@pytest.fixture(scope="module")
def many():
    return lanes("mnist", [0.01, 0.04, 0.16])


def test_a_constant_that_sees_no_future_is_within_half_a_per_cent_and_nothing_else_is():
    stored = causal.read(RESULTS / "causal" / "mnist.csv")
    protocols = both_protocols(stored, [0.01, 0.16])
    told = benchmarked.of_protocols(protocols)
    assert stored.seed.nunique() == 200
    assert float(told["constant"]) < 0.5
    assert (abs(protocols.cost - 1) < 0.03).all()
    assert protocols.unseen.drop(index="ConstantLevel", level="policy").min() > 1.01
    assert [float(told[f"loss-{name}"]) for name in ("ada", "power", "queue")] < [0.5, 2, 8]


def test_the_authors_scripts_agree_where_the_multiplier_is_found_and_stop_short_elsewhere():
    published = pd.read_csv(RESULTS / "benchmarks" / "matlab.csv")
    online = published[published.what == "online plans"]
    assert (STOP[1], Published().rice) == (1e-8, 5)
    assert published.solved.max() < 1e-12
    assert online.spent_low.min() > 1.3
    assert online.stopped_high.max() < 1.1
    assert (online[online.rounds == 10].stopped_low > 0.999).all()


@pytest.mark.slow
def test_estim_future_starts_too_low_and_releases_late(many):
    problem, mean_gain = many
    later = {
        name: MNIST.noise_scale / (MNIST.x_max * policies.estimated_min_gain(mean_gain, name))
        for name in ("devices", "minimum")
    }
    below = {name: (problem.floor < each[:, None]).mean() for name, each in later.items()}
    assert abs(below["minimum"] - np.exp(-1)) < 0.01  # 50,000 floors: four standard errors
    told = benchmarked.of_estim_future(problem, mean_gain, later, 0.54, SEEDS)
    low = [float(told[f"ef-{name}-low"]) for name in ("minimum", "devices")]
    high = [float(told[f"ef-{name}-high"]) for name in ("minimum", "devices")]
    assert low[0] < low[1]
    assert high[0] < high[1]
    assert low[0] > high[0]
    assert low[1] > high[1]
    assert float(told["ef-late"]) > 20


@pytest.mark.slow
def test_the_power_control_leaks_late_and_its_aim_never_falls(many):
    problem, mean_gain = many
    eta = Hindsight(policies.PowerControl)(problem, mean_gain).schedule(problem)
    aim = eta[1, 0][eta[1, 0] < problem.max_eta[0] if problem.max_eta.ndim > 1 else eta[1, 0] < problem.max_eta]
    assert (np.diff(aim) > -1e-12 * aim[1:]).all()
    last = late_share(problem, eta, MNIST.num_rounds // 100)
    median = np.median(last, axis=-1)
    assert last[1, 0] > 0.5
    assert (median[:2] > 0.05).all()
    assert median[2] < 0.03
    told = benchmarked.of_late_release(problem, eta)
    assert float(told["spared-without"]) - 1 < 0.3 * (float(told["spared-with"]) - 1)


@pytest.fixture(scope="module")
def queues():
    problem, _ = lanes("mnist")
    matched = match_lyapunov(problem)
    starts = {"mnist": lyapunov_starts(problem, matched), "cifar10": lyapunov_starts(lanes("cifar10")[0])}
    return problem, matched, pd.concat(starts, names=["data"]).reset_index("data")


@pytest.mark.slow
def test_the_kindest_pair_runs_at_the_optimum_s_mean_scaling(queues):
    problem, matched, _ = queues
    pairs = pair_table(problem, matched)
    rounds = full_power(problem, policies.LyapunovPowerControl(matched.penalty, matched.rate).schedule(problem))
    told = benchmarked.of_pairs(pairs, rounds)
    assert float(told["at-one"]) > 85
    assert float(told["spread-min"]) >= 1.5
    own = full_power(problem, policies.Optimal().schedule(problem))
    np.testing.assert_array_equal(rounds.optimal, own.rounds)
    assert (abs(rounds.rounds.mean(axis=1) - rounds.optimal.mean(axis=1)) < 0.02).all()
    assert (own.needless == 0).all()


@pytest.mark.slow
def test_most_of_the_excess_is_the_empty_queue_s_on_mnist_and_not_at_the_smallest_nu_of_cifar10(queues):
    _, matched, cells = queues
    row = cells.set_index(["data", "start", "nu"]).sort_index()
    kept, cifar_kept = row.loc["mnist", "filled"], row.loc["cifar10", "filled"]
    thirty, three, late_v = (row.loc["mnist", name] for name in ("filled, 30", "filled, 3", "empty, 30"))
    assert (kept.gone_low > 0.5).all()
    assert kept.gone.is_monotonic_increasing
    assert (thirty.gone > kept.gone).all()
    assert (late_v.gone_high < 0).all()
    assert (row.loc["cifar10", "empty, 30"].gone_high < 0).all()
    assert cifar_kept.gone_high[0.01] < 0 < cifar_kept.gone_low[0.02]
    assert cifar_kept.gone_low[0.32] > 0.9
    others = [start for start in cells.start.unique() if start.startswith("filled") or start == "empty, 30"]
    assert (row.gone_high.loc["cifar10", others, 0.01] < 0).all()
    assert (row.gone_low.loc["cifar10", ["at rest", "at rest, 30"], 0.01] > 0).all()
    assert (row.fill.loc[["mnist", "cifar10"], "filled", 0.01] > [1.5, 3]).all()
    assert (row.loc["mnist", "at rest"].gone > kept.gone).all()
    np.testing.assert_allclose(row.fill.loc[:, ["at rest", "at rest, 30"]], 1, rtol=1e-9)
    assert (three.gone_high[:0.02] < 0).all()
    assert three.gone_low[0.08] > 0
    some = {name: METHODS[name] for name in ("Optimal", "AdaScale")}
    own = leakage_table(MNIST, presets.load("mnist").levels, SEEDS, some)
    ada = compare(own, "epsilon", "AdaScale", "Optimal").ratio
    assert (thirty.ratio.to_numpy() < ada).tolist() == [False, False, True, True, True]
    assert row.ratio["mnist", "filled, 10", 0.04] > ada[2]
    told = benchmarked.of_starts(cells, matched, own)
    assert told["thirty-04"] < told["ada-04"] < told["ten-04"]


def test_the_order_moves_adascale_by_little_next_to_three_and_more_far_away():
    by_order = pd.concat({"mnist": order_table("mnist", [0.01, 0.16], range(6), (3, 2, 4, 32))}, names=["data"])
    some = {name: METHODS[name] for name in ("Optimal", "AdaScale")}
    own = leakage_table(MNIST, [0.01, 0.16], range(6), some)
    told = benchmarked.of_orders(by_order, own)
    assert float(told["order-near"]) < float(told["order-worst"]) < 20
    assert benchmarked.orders_table(by_order).index.tolist() == ["α = 3", "α = 2", "α = 4", "α = 32"]
    assert benchmarked.orders_table(by_order).columns.tolist() == ["MNIST, ν = 0.01", "MNIST, ν = 0.16"]


@pytest.mark.parametrize("name", ["Optimal", "EqualAlloc", "EstimFuture", "PowerControl"])
def test_the_schedules_of_the_others_do_not_contain_the_order(name):
    from dataclasses import replace

    drawn = channel.draw(10, MNIST.num_rounds, range(3))
    gains, mean_gain = MNIST.min_gain(drawn.gain), MNIST.mean_gain(drawn.path_loss)
    one, other = (ReceiveScalingProblem(replace(MNIST, order=order), gains, 0.04) for order in (3, 8))
    policy = METHODS[name](one, mean_gain)
    assert np.array_equal(policy.schedule(other), policy.schedule(one))
    assert float(water_level(one.floor[0], 0.04)) > 0
