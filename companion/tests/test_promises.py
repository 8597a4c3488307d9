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
    return pd.DataFrame(parts, columns=["policy", "nu", "seed", "cost", "rdp", "epsilon"])


BEST = [(0.1, 2.0, 1.0), (0.1, 4.0, 2.0), (0.1, 8.0, 4.0)]


def test_cost_and_leakage_by_hand():
    best, row = promises(table(Optimal=BEST, A=[(0.09, 3.0, 1.1), (0.12, 4.0, 2.2), (0.1, 32.0, 4.4)])).itertuples()
    assert (best.cost, best.over, best.excess, best.rdp, best.epsilon) == pytest.approx((1, 0, 0, 1, 1))
    assert (row.policy, row.nu, row.realisations) == ("A", 0.1, 3)
    assert row.cost == pytest.approx(0.31 / 0.3)
    assert row.spread == pytest.approx(np.std([0.9, 1.2, 1.0], ddof=1))
    assert row.over == pytest.approx(1 / 3)
    assert row.excess == pytest.approx(0.2)
    assert (row.rdp, row.rdp_median, row.rdp_worst) == pytest.approx((6.5 / 3, 1.5, 4.0))
    assert (row.rdp_low, row.rdp_high) == pytest.approx(interval([1.5, 1.0, 4.0])[1:])
    assert (row.epsilon, row.epsilon_worst) == pytest.approx((1.1, 1.1))


ratios = st.lists(st.tuples(st.floats(0.5, 2), st.floats(0.1, 50)), min_size=2, max_size=8)


@given(ratios)
def test_every_figure_is_that_of_a_plain_loop(drawn):
    best = [(0.1, 2.0 + i, 1.0 + i) for i in range(len(drawn))]
    made = [(0.1 * c, b[1] * r, b[2] * r) for (c, r), b in zip(drawn, best, strict=True)]
    row = promises(table(Optimal=best, A=made)).iloc[1]
    assert row.cost == pytest.approx(sum(c for c, _ in drawn) / len(drawn))
    assert row.over == pytest.approx(
        sum(c > 1 + 1e-6 for c, _ in drawn) / len(drawn),
        abs=1.01 / len(drawn) * any(abs(c - 1 - 1e-6) < 1e-12 for c, _ in drawn),
    )
    assert row.excess == pytest.approx(max(max(c for c, _ in drawn) - 1, 0), abs=2e-6)
    assert row.rdp_worst == pytest.approx(max(r for _, r in drawn))
    assert row.epsilon_median == pytest.approx(float(np.median([r for _, r in drawn])))


def test_a_realisation_without_a_cost_is_left_out():
    row = promises(table(Optimal=BEST, A=[(np.nan, np.nan, np.nan), *BEST[1:]])).iloc[1]
    assert (row.realisations, row.rdp) == (2, 1)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (table(A=BEST), "Optimal has no row for nu = 0.1, seed = 0"),
        (table(Optimal=BEST[:1], A=BEST), "Optimal has no row for nu = 0.1, seed = 1"),
    ],
)
def test_what_is_missing_is_named(made, said):
    with pytest.raises(ValueError, match=said):
        promises(made)
