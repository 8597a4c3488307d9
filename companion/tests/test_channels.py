"""Which policy on which channel: the committed tables are what their command makes, and what they say."""

from pathlib import Path

import numpy as np
import pytest

from companion.causal.worlds import (
    HARD,
    KNOWN,
    MIDDLE,
    SEEDS,
    WORLDS,
    against,
    exactly,
    kept,
    read,
    read_blocks,
    read_exact,
    worlds_table,
)
from companion.theory.correlated import BLOCK_OPTIMUM, BLOCK_PREDICTED, block_table

FOLDER = Path(__file__).parents[2] / "results" / "channels"
SLOW = "Gauss-Markov, r = 0.99"


@pytest.fixture(scope="module")
def table():
    return read(FOLDER / "table.csv")


@pytest.fixture(scope="module")
def promised(table):
    return kept(table).set_index(["world", "policy", "nu"])


@pytest.fixture(scope="module")
def blocks():
    return read_blocks(FOLDER / "table_blocks.csv")


def test_worlds_of_two_beliefs_are_refused():
    with pytest.raises(ValueError, match=r"^worlds must have one belief, got 6$"):
        worlds_table(WORLDS, [0])


def test_a_hard_promise_is_kept_in_every_world(promised):
    for name in HARD:
        assert (promised.xs(name, level="policy").over == 0).all()
    assert promised.loc[(SLOW, "ConstantLevel", MIDDLE)].over > 0.2  # the control


def test_in_slow_fading_the_coherence_seen_saves_a_hard_budget(promised, table):
    """Where rounds are independent it costs next to nothing."""
    for name in ("ReSolve", "Learn"):
        plain, seen = (promised.loc[(SLOW, f"{name}{how}, hard", MIDDLE)] for how in ("", ", coherent"))
        assert seen.rdp < plain.rdp / 4
        assert seen.rdp_worst < plain.rdp_worst / 4
        for world in KNOWN:
            pair = against(table[table["world"] == world], f"{name}, coherent, hard", f"{name}, hard")
            assert (pair.ratio < 1.02).all()


@pytest.fixture(scope="module")
def accounted():
    return read_exact(FOLDER / "exact.csv")


def test_the_exact_table_has_the_schedules_of_the_table_of_worlds(accounted, table):
    """The same RDP, realisation by realisation; and the exact value is below that of the Rényi conversion."""
    both = accounted.merge(table, on=["world", "policy", "nu", "seed"], suffixes=("", "_stored"), validate="one_to_one")
    assert len(both) == len(accounted)
    np.testing.assert_allclose(both.rdp, both.rdp_stored, rtol=3e-6)  # seven digits are stored
    assert (both.exact < both.epsilon).all()


def test_means_of_exact_ratios_are_those_of_a_plain_loop(accounted):
    found = exactly(accounted)
    rows = accounted[accounted.world == SLOW].set_index(["policy", "seed"]).exact
    ratios = [rows["EqualAlloc", seed] / rows["Optimal", seed] for seed in SEEDS]
    assert found.ratio[SLOW, "EqualAlloc"] == pytest.approx(sum(ratios) / len(ratios))
    assert found.exact[SLOW, "EqualAlloc"] == pytest.approx(rows["EqualAlloc"].mean())
    assert (found.ratio.xs("Optimal", level="policy") == 1).all()


def test_nobody_leaks_less_in_the_mean_than_the_optimum_of_blocks(blocks):
    """In ratios of means; single realisations scatter.  What has the length of the blocks comes close at MIDDLE."""
    mean = blocks[blocks["nu"] == MIDDLE].groupby(["block", "policy"]).ratio.mean().unstack("policy")
    others = mean.drop(columns=[BLOCK_OPTIMUM, BLOCK_PREDICTED])
    assert (others.min(axis=1) > 0.99 * mean[BLOCK_OPTIMUM]).all()
    assert mean[BLOCK_OPTIMUM].is_monotonic_increasing  # longer blocks, fewer chances
    assert (mean["ReSolve, coherence known, hard"] < 1.15 * mean[BLOCK_OPTIMUM]).all()
    assert (
        mean.loc[25:, "ReSolve, hard"] > 5 * mean.loc[25:, BLOCK_OPTIMUM]
    ).all()  # the control: who does not know of them
    kept_ = kept(read(FOLDER / "table.csv")).set_index(["nu", "world", "policy"])
    warm = kept_.loc[0.01, "moving at 1.5 m/s", "AdaScale, warm"]
    assert warm.rdp > 2 * warm.rdp_median  # a few draws make the mean
    short = mean.loc[[1, 5]]
    np.testing.assert_allclose(short[BLOCK_OPTIMUM], short[BLOCK_PREDICTED], atol=0.01)


def test_blocks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"^block must divide the 500 rounds, got 7$"):
        block_table(0.04, (7,), [0])
