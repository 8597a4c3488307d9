"""What is kept of a budget, and what leaks beside the optimum at the budget."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.summary import promises


def table(**rows):
    """Policies with (cost, rdp, epsilon) a realisation."""
    parts = [
        (policy, 0.1, seed, *values)
        for policy, found in rows.items()
        for seed, values in enumerate(found)
    ]
    names = ["policy", "nu", "seed", "cost", "rdp", "epsilon"]
    return pd.DataFrame(parts, columns=names)


# on either side of what counts
costs = st.floats(0.5, 2).filter(lambda cost: abs(cost - 1 - 1e-6) > 1e-12)
ratios = st.lists(st.tuples(costs, st.floats(0.1, 50)), min_size=2, max_size=8)


@given(ratios)
def test_every_figure_is_that_of_a_plain_loop(drawn):
    cost, leaked = np.transpose(drawn)
    best = [(0.1, 2.0 + i, 1.0 + i) for i in range(len(drawn))]
    rows = np.column_stack([0.1 * cost, leaked[:, None] * np.array(best)[:, 1:]])
    _, row = promises(table(Optimal=best, A=rows)).to_dict("records")
    centre = leaked.mean()
    expected = {
        "realisations": len(drawn),
        "cost": cost.mean(),
        "spread": np.std(cost, ddof=1),
        "over": np.mean(cost > 1 + 1e-6),
        "rdp": centre,
        "epsilon": centre,
        "rdp_worst": leaked.max(),
    }
    shown = {name: row[name] for name in expected}
    assert shown == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert row["excess"] == pytest.approx(max(cost.max() - 1, 0), abs=2e-6)
