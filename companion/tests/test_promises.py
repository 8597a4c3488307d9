"""What is kept of a budget, and what leaks beside the optimum at the budget."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale.statistics import interval
from companion.summary import promises


def table(nu=(0.1,), **rows):
    """Policies with (cost, rdp, epsilon) a realisation."""
    parts = []
    for policy, values in rows.items():
        for level in nu:
            for seed, (cost, rdp, epsilon) in enumerate(values):
                parts.append((policy, level, seed, cost, rdp, epsilon))
    return pd.DataFrame(
        parts, columns=["policy", "nu", "seed", "cost", "rdp", "epsilon"]
    )


BEST = [(0.1, 2.0, 1.0), (0.1, 4.0, 2.0), (0.1, 8.0, 4.0)]


costs = st.floats(0.5, 2).filter(
    lambda cost: abs(cost - 1 - 1e-6) > 1e-12
)  # on either side of what counts
ratios = st.lists(st.tuples(costs, st.floats(0.1, 50)), min_size=2, max_size=8)


@given(ratios)
def test_every_figure_is_that_of_a_plain_loop(drawn):
    best = [(0.1, 2.0 + i, 1.0 + i) for i in range(len(drawn))]
    made = [
        (0.1 * c, b[1] * r, b[2] * r) for (c, r), b in zip(drawn, best, strict=True)
    ]
    optimal, row = promises(table(Optimal=best, A=made)).itertuples()
    cost, leaked = np.transpose(drawn)
    assert (
        optimal.cost,
        optimal.over,
        optimal.excess,
        optimal.rdp,
        optimal.epsilon,
    ) == pytest.approx((1, 0, 0, 1, 1))
    assert (row.policy, row.nu, row.realisations) == ("A", 0.1, len(drawn))
    assert (row.cost, row.spread) == pytest.approx(
        (sum(cost) / len(drawn), np.std(cost, ddof=1)), abs=1e-12
    )
    assert row.over == pytest.approx(sum(c > 1 + 1e-6 for c in cost) / len(drawn))
    assert row.excess == pytest.approx(max(max(cost) - 1, 0), abs=2e-6)
    for name in ("rdp", "epsilon"):
        found = [
            getattr(row, name + end)
            for end in ("", "_low", "_high", "_median", "_worst")
        ]
        assert found == pytest.approx(
            [*interval(leaked), np.median(leaked), max(leaked)], rel=1e-9, abs=1e-9
        )


def test_a_realisation_without_a_cost_is_left_out():
    row = promises(table(Optimal=BEST, A=[(np.nan, np.nan, np.nan), *BEST[1:]])).iloc[1]
    assert (row.realisations, row.rdp) == (2, 1)


def test_what_is_missing_is_named():
    for made, seed in ((table(A=BEST), 0), (table(Optimal=BEST[:1], A=BEST), 1)):
        with pytest.raises(
            ValueError, match=f"Optimal has no row for nu = 0.1, seed = {seed}"
        ):
            promises(made)
