"""What chapters 12 and 13 say in words of the committed tables, and that their numbers are read off as they say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adascale import Scenario
from adascale.comparison import promises
from adascale.problem import RoundLeakage
from companion import bounds
from companion.causal import fresh as causal
from companion.causal import growth as causal_growth
from companion.causal import worlds as channels
from companion.causal import wrong_laws as causal_beliefs
from companion.figures.headline import ratios
from companion.formatting import rounded_down, rounded_up
from companion.leakage import exact
from companion.privacy import observers as listeners
from companion.reported import causal as told
from companion.reported import observers as told_of_listeners

RESULTS = Path(__file__).parents[3] / "results"
CHAPTERS = Path(__file__).parents[3] / "notebooks"
MNIST = Scenario.mnist()


@pytest.fixture(scope="module")
def without_future():
    return {name: causal.read(RESULTS / f"causal/{name}.csv") for name in causal.DATASETS}


# Chapter 12 -----------------------------------------------------------------------------------------------------------


def test_numbers_of_the_causal_tables_are_those_of_a_plain_loop(without_future):
    texts, rows = told.of_causal(without_future), without_future["mnist"]
    least = rows[rows.nu == rows.nu.min()]
    ratios = []
    for seed in least.seed.unique():
        one = least[least.seed == seed].set_index("policy").rdp
        ratios.append(one["ConstantLevel"] / one["Optimal"])
    assert texts["level-first"] == f"{sum(ratios) / len(ratios):.3f}"
    level = least[least.policy == "ConstantLevel"]
    over = sum(row.cost > row.nu * (1 + 1e-6) for row in level.itertuples())
    assert texts["level-over"] == f"{100 * over / len(level):.0f}"
    assert texts["fresh"] == str(len(causal.SEEDS))


def test_the_dynamic_programme_is_the_reference_of_a_hard_promise(without_future):
    for table in without_future.values():
        rdp = promises(table).set_index(["policy", "nu"]).rdp
        assert (rdp["ReSolve, hard"] > 0.99 * rdp["DynamicProgramme, hard"]).all()


def test_the_first_page_tells_the_geometric_means_of_the_headline():
    table = exact.read(RESULTS / "exact/headline.csv")
    texts, centre = told.of_headline(table), ratios(table).centre
    assert float(texts["learning-most"]) == pytest.approx(centre["Learn, hard"].max(), abs=0.005)
    assert float(texts["equal-most"]) == pytest.approx(centre["EqualAlloc"].max(), abs=0.05)
    assert texts["headline-seeds"] == str(len(causal.SEEDS))
    own = table[table.policy == "Learn, hard"]
    for name, nu in (("tight", own.nu.min()), ("loose", own.nu.max())):
        assert float(texts[f"learning-{name}"]) == pytest.approx(np.median(own[own.nu == nu].exact), rel=0.05)


def test_the_first_table_names_the_best_policy_of_each_world_or_one_as_good():
    kept = channels.kept(channels.read(RESULTS / "channels/table.csv"))
    exact = channels.exactly(channels.read_exact(RESULTS / "channels/exact.csv"))
    texts, middle = told.of_decisions(kept, exact), kept[kept.nu == channels.MIDDLE].set_index(["world", "policy"])
    for name, (world, policy) in told.DECISIONS.items():
        rdp = middle.rdp[world]
        assert texts[f"decide-{name}"] == f"{rdp[policy]:.2f}"
        assert texts[f"decide-{name}-ratio"] == f"{exact.ratio[world, policy]:.2f}"
        rivals = (
            ["ReSolve, hard", "Learn, hard", "ReSolve, coherent, hard"] if "hard" in policy else ["ReSolve", "Learn"]
        )
        if name not in ("learn", "learn-hard", "learn-coherent"):  # there the law is not given
            assert rdp[policy] < 1.01 * rdp[rivals].min()


def test_a_wrong_law_and_slow_fading_single_out_learning_and_a_warm_queue():
    both = told.believed()
    believed, wrong, slow = causal_beliefs.WORLDS
    for rows in both:
        assert rows.worst[slow, "AdaScale, warm"] == rows.worst[slow].min()
    assert both.middle.worst[wrong, "Learn"] < both.middle.worst[wrong, "AdaScale, warm"]
    assert both.small["median"][believed, "Learn"] > both.small["median"][believed, "AdaScale, warm"]
    spent = both.middle.cost[wrong, "ConstantLevel"]
    assert told.of_beliefs(both)["wrong-level"] == f"{100 * (spent - 1):.0f}"


def test_slopes_are_fitted_in_units_of_a():
    """A made table, whose slopes are known."""
    horizons, A = np.array([50, 500, 5_000]), 0.25
    rows = [("offline optimum", T, A, A) for T in horizons]
    rows += [(name, T, A * (k * np.log(T) + 3), A) for name, (_, k) in told.PLANNERS.items() for T in horizons]
    rows += [("AdaScale, empty queue", T, A * T**0.5, A * T**0.5 / 0.8) for T in horizons]
    rows += [("AdaScale, warm queue", T, A * T / 100, A) for T in horizons]
    growth = pd.DataFrame(rows, columns=["policy", "T", "regret", "predicted"]).assign(half=0.01, cost=1.01, draws=400)
    law = causal_growth.cell_law(MNIST, 5)
    texts = told.of_growth(growth, bounds.level_value(RoundLeakage(MNIST), law, 0.04), 500)
    assert texts["slope-learn"].startswith("2.00 ±")
    assert texts["slope-past"].startswith("1.00 ±")
    assert texts["constant-resolve"] == "3.0"
    spread = float(bounds.level_value(RoundLeakage(MNIST), law, 0.04).spread)
    assert float(texts["past-half"]) == pytest.approx(196 * (spread / 400 / 500) ** 0.5 / 0.04, abs=0.05)
    assert (texts["cold-low"], texts["cold-exponent"], texts["warm-end"]) == ("0.80", "0.50", "50")


# Chapter 13 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "said"), [(17.99, "17.9"), (49.0, "49.0"), (0.049, "0.0")])
def test_a_lower_bound_is_not_rounded_up(value, said):
    assert rounded_down(value) == said
    assert rounded_down(value, 0) == said.partition(".")[0]


@pytest.mark.parametrize(("value", "digits", "said"), [(0.034, 2, "0.04"), (5.61, 0, "6"), (1.4, 1, "1.4")])
def test_an_upper_bound_is_not_rounded_down(value, digits, said):
    assert rounded_up(value, digits) == said


def test_the_server_keeps_its_promise_and_a_stranger_has_none():
    table = listeners.listeners_table(seeds=range(5))
    at, loose = table.set_index(["listener", "nu"]), table.nu.max()
    assert (at.epsilon["server"] == at.epsilon["model"]).all()
    assert at.beyond["stranger", loose]
    assert at.beyond["neighbour", loose]
    assert not at.beyond["server", loose]
    texts = told_of_listeners.of_listeners(table)
    assert float(texts["eps-server"]) < 1
    assert 10 < float(texts["eps-stranger"]) < float(texts["eps-neighbour"])


def test_beside_the_victim_a_power_meter_is_as_good_as_a_receiver():
    sigma = {nu: listeners.realisations(MNIST, nu, [0])[0].sigma for nu in (0.01, 0.16)}
    near = float(np.median(sigma[0.16])) * (listeners.NEAR / listeners.FAR) ** 1.76
    texts = told_of_listeners.of_other_promises(MNIST, sigma, near)
    assert near <= float(texts["meter-near"]) < 1.01 * near + 1e-4
    assert float(texts["meter"]) > 2
    assert float(texts["one-tight"]) < float(texts["replaced-tight"]) < 6 * float(texts["one-tight"])


def test_no_honest_audit_is_above_the_account_and_faults_are():
    audits = pd.read_csv(RESULTS / "audit/mnist.csv")
    pairs = pd.read_csv(RESULTS / "audit/paired.csv")
    for rows in (audits, pairs):
        claimed = rows[rows.setting == "as claimed"]
        assert (claimed[[*told_of_listeners.BOUNDS]].max(axis=1) <= claimed.accounted).all()
        assert (claimed.accounted <= claimed.renyi).all()
        broken = rows[rows.setting.isin(["no noise", "not clipped"])]
        assert (broken.scaled > broken.accounted).all()
    largest = pairs[pairs.setting.isin(["no noise", "not clipped"]) & (pairs.nu == pairs.nu.max())]
    assert largest[["one_run", "rates"]].gt(largest.accounted, axis=0).all(axis=None)
    honest = pd.concat([rows[rows.setting == "as claimed"] for rows in (audits, pairs)])
    assert (honest[["one_run", "rates"]].max(axis=1) < honest.accounted / 3).all()  # a third of epsilon would pass
    texts = told_of_listeners.of_audits(audits, pairs)
    row = audits.iloc[0]
    assert texts["mnist-first-near"] == f"{100 * row.scaled / row.accounted:.0f}"
