"""The first page's figure and what it says: exact epsilon over the optimum's, with and without the future."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from adascale import ReceiveScalingProblem, presets
from adascale.accounting import exact_epsilon
from adascale.comparison import leakage_table
from companion.causal import fresh as causal
from companion.figures.headline import LEARNING, headline, ratios
from companion.leakage import exact

STORED = Path(__file__).parents[2] / "results" / "exact" / "headline.csv"


@pytest.fixture(scope="module")
def table():
    return exact.read(STORED)


def test_its_schedules_are_those_of_the_chapter_without_the_future(table):
    """By the Rényi epsilon, which both tables hold."""
    keys = ["policy", "nu", "seed"]
    stored = causal.read(STORED.parents[1] / "causal" / "mnist.csv")
    both = table.merge(stored, on=keys, suffixes=("", "_causal"), validate="one_to_one")
    assert len(both) == len(table)
    np.testing.assert_allclose(both["epsilon"], both["epsilon_causal"], rtol=3e-6)


def test_learning_never_exceeds_the_allowance_and_its_epsilon_is_exact(table):
    scenario, seed, nu = presets.load("mnist").scenario, 70_101, 0.01
    chosen = {LEARNING: exact.HEADLINE[LEARNING]}
    row = leakage_table(scenario, [nu], [seed], chosen).iloc[0]
    assert row["cost"] <= nu * (1 + 1e-9)
    drawn = causal.Rayleigh().draw(scenario.num_devices, scenario.num_rounds, seed=seed)
    problem = ReceiveScalingProblem(scenario, scenario.min_gain(drawn.gain), nu)
    eta = chosen[LEARNING](problem, scenario.mean_gain(drawn.path_loss)).schedule(problem)
    found = exact_epsilon(scenario.sampling_rate, problem.noise_multiplier(eta)[0], 1e-5)  # devices are alike
    stored = table.set_index(["policy", "nu", "seed"]).exact[LEARNING, nu, seed]
    assert found.lower * (1 - 1e-6) <= stored <= found.upper * (1 + 1e-6)


def test_a_ratio_is_the_geometric_mean_over_paired_realisations(table):
    found = ratios(table)
    by = table[table["nu"] == 0.04].pivot(index="seed", columns="policy", values="exact")
    expected = stats.gmean(by["EqualAlloc"] / by["Optimal"])
    assert found.centre["EqualAlloc", 0.04] == pytest.approx(expected, rel=1e-12)
    assert (found.low < found.centre).all()
    assert (found.centre < found.high).all()


def test_what_the_first_page_says_holds(table):
    """Without the future within 5 %, at every level; spread evenly, more than twice as much at the smallest."""
    found = ratios(table)
    assert found.high[LEARNING].max() < 1.05
    assert found.low["EqualAlloc", 0.01] > 2


def test_the_figure_draws_each_method_once_and_says_which_saw_the_future(table):
    figure = headline(ratios(table))
    words = [each.get_text() for each in figure.axes[0].get_legend().get_texts()]
    assert len({*words}) == len(words) == 6
    assert sum(each.endswith("in hindsight") for each in words) == len(causal.TUNED)
    assert "learning, without the future" in words
    plt.close(figure)
