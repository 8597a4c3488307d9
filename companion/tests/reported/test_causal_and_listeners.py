"""What chapters 12 and 13 say in words of the committed tables, and that their numbers are read off as they say."""

from pathlib import Path

import pytest

from adascale import Scenario
from companion.causal import worlds as channels
from companion.causal import wrong_laws as causal_beliefs
from companion.formatting import rounded_down, rounded_up
from companion.reported import causal as told

RESULTS = Path(__file__).parents[3] / "results"
CHAPTERS = Path(__file__).parents[3] / "notebooks"
MNIST = Scenario.mnist()


# Chapter 12


def test_the_first_table_names_the_best_policy_of_each_world_or_one_as_good():
    kept = channels.kept(channels.read(RESULTS / "channels/table.csv"))
    middle = kept[kept.nu == channels.MIDDLE].set_index(["world", "policy"])
    for name, (world, policy) in told.DECISIONS.items():
        rdp = middle.rdp[world]
        hard = ["ReSolve, hard", "Learn, hard", "ReSolve, coherent, hard"]
        rivals = hard if "hard" in policy else ["ReSolve", "Learn"]
        if name not in ("learn", "learn-hard", "learn-coherent"):  # there the law is not given
            assert rdp[policy] < 1.01 * rdp[rivals].min()


def test_a_wrong_law_and_slow_fading_single_out_learning_and_a_warm_queue():
    both = told.believed()
    believed, wrong, slow = causal_beliefs.WORLDS
    for rows in both:
        assert rows.worst[slow, "AdaScale, warm"] == rows.worst[slow].min()
    assert both.middle.worst[wrong, "Learn"] < both.middle.worst[wrong, "AdaScale, warm"]
    assert both.small["median"][believed, "Learn"] > both.small["median"][believed, "AdaScale, warm"]
    assert both.middle.cost[wrong, "ConstantLevel"] > 1.5


# Chapter 13


@pytest.mark.parametrize(("value", "said"), [(17.99, "17.9"), (49.0, "49.0"), (0.049, "0.0")])
def test_a_lower_bound_is_not_rounded_up(value, said):
    assert rounded_down(value) == said
    assert rounded_down(value, 0) == said.partition(".")[0]


@pytest.mark.parametrize(("value", "digits", "said"), [(0.034, 2, "0.04"), (5.61, 0, "6"), (1.4, 1, "1.4")])
def test_an_upper_bound_is_not_rounded_down(value, digits, said):
    assert rounded_up(value, digits) == said
