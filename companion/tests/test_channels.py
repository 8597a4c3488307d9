"""Which policy on which channel: the committed tables are what their command makes, and what they say."""

import numpy as np

from companion.causal import worlds
from companion.results import load
from companion.theory.correlated import BLOCK_OPTIMUM, BLOCK_PREDICTED


def test_nobody_leaks_less_in_the_mean_than_the_optimum_of_blocks():
    """In ratios of means; single realisations scatter.  What has the length of the blocks comes close at 0.04."""
    blocks = load("channels/table_blocks")
    mean = (
        blocks[blocks["nu"] == worlds.MIDDLE]
        .groupby(["block", "policy"])
        .ratio.mean()
        .unstack("policy")
    )
    others = mean.drop(columns=[BLOCK_OPTIMUM, BLOCK_PREDICTED])
    assert (others.min(axis=1) > 0.99 * mean[BLOCK_OPTIMUM]).all()
    assert mean[BLOCK_OPTIMUM].is_monotonic_increasing  # longer blocks, fewer chances
    assert (mean["ReSolve, coherence known, hard"] < 1.15 * mean[BLOCK_OPTIMUM]).all()
    # the control: who does not know of them
    assert (mean.loc[25:, "ReSolve, hard"] > 5 * mean.loc[25:, BLOCK_OPTIMUM]).all()
    short = mean.loc[[1, 5]]
    np.testing.assert_allclose(short[BLOCK_OPTIMUM], short[BLOCK_PREDICTED], atol=0.01)
