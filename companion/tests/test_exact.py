"""The figures under exact accounting: the committed tables are what their command makes, and what they say."""

import pytest

from adascale import presets
from adascale.comparison import leakage_table
from companion.leakage.exact import DATASETS, with_exact
from companion.methods import METHODS
from companion.results import load

TABLES = {dataset: load(f"exact/{dataset}") for dataset in DATASETS}


def test_the_exact_value_is_joined_to_the_row_of_the_same_schedule():
    table = leakage_table(
        presets.load("mnist").scenario,
        [0.04],
        [5, 2],
        {"EqualAlloc": METHODS["EqualAlloc"]},
    )
    joined = with_exact(table, TABLES["mnist"])
    stored = TABLES["mnist"].set_index(["policy", "nu", "seed"]).exact
    assert list(joined.exact) == [
        stored["EqualAlloc", 0.04, seed] for seed in table.seed
    ]
    assert joined.attrs["labels"] == table.attrs["labels"]
    # not the stored schedule
    for wrong in (
        table.assign(epsilon=1.001 * table.epsilon),
        table.assign(seed=table.seed + 1000),
    ):
        with pytest.raises(ValueError, match="schedules differ"):
            with_exact(wrong, TABLES["mnist"])
