"""The figures under exact accounting: the committed tables are what their command makes, and what they say."""

import pytest

from adascale import presets
from adascale.accounting import exact_epsilon
from adascale.comparison import leakage_table
from companion.leakage.exact import DATASETS, with_exact
from companion.methods import METHODS
from companion.results import load
from tests.problems import drawn

TABLES = {dataset: load(f"exact/{dataset}") for dataset in DATASETS}


@pytest.mark.parametrize(
    ("dataset", "policy", "nu", "seed"),
    # the loosest of all
    [
        ("mnist", "PowerControl", 0.16, 3),
        ("mnist", "LyapunovPowerControl", 0.16, 53),
    ]
    + [("cifar10", "AdaScale", 0.08, 7)],
)
def test_certified_interval_contains_the_stored_value(dataset, policy, nu, seed):
    stored = TABLES[dataset].set_index(["policy", "nu", "seed"]).exact[policy, nu, seed]
    problem, mean_gain = drawn(presets.load(dataset).scenario, nu, seed)
    sigma = problem.noise_multiplier(
        METHODS[policy](problem, mean_gain).schedule(problem)
    )[0]
    proven = exact_epsilon(problem.scenario.sampling_rate, sigma)
    lower = proven.lower
    upper = proven.upper
    assert lower * (1 - 1e-6) <= stored <= upper * (1 + 1e-6)  # seven digits are stored
    assert upper - lower <= 1e-3 * upper


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
