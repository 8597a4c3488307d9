"""The table of trainings: written as it grows, taken up where it was left."""

import pandas as pd
import pytest

from adascale.experiments import accuracy

WANTED = [("EqualAlloc", 0.5, 0), ("AdaScale", 0.5, 0), ("EqualAlloc", 2.0, 1)]


def test_a_table_is_taken_up_where_it_was_left(tmp_path, monkeypatch):
    target = tmp_path / "new" / "accuracy.csv"
    whole = accuracy.accuracy_table(tmp_path / "whole.csv", "digits", WANTED, rounds=4)
    ran = []

    def stopped(dataset, policy, nu, seed, **settings):
        if ran[1:]:
            raise KeyboardInterrupt
        ran.append((policy, nu, seed))
        return accuracy_run(dataset, policy, nu, seed, **settings)

    accuracy_run = accuracy.training_run
    monkeypatch.setattr(accuracy, "training_run", stopped)
    with pytest.raises(KeyboardInterrupt):
        accuracy.accuracy_table(target, "digits", WANTED, rounds=4)
    assert len(pd.read_csv(target)) == 2
    monkeypatch.setattr(accuracy, "training_run", accuracy_run)
    resumed = accuracy.accuracy_table(target, "digits", WANTED, rounds=4)
    assert ran == WANTED[:2]
    columns = ["policy", "nu", "seed", "rounds", "shortened", "rdp", "epsilon", "test_accuracy", "test_loss"]
    pd.testing.assert_frame_equal(resumed[columns], whole[columns])
    assert list(target.parent.iterdir()) == [target]  # nothing half-written beside it


def test_a_table_of_another_data_set_is_refused(tmp_path):
    target = tmp_path / "accuracy.csv"
    accuracy.accuracy_table(target, "digits", WANTED[:1], rounds=1)
    with pytest.raises(ValueError, match="holds trainings of digits, expected mnist alone"):
        accuracy.accuracy_table(target, "mnist", WANTED[:1])


def test_the_committed_table_is_the_paper_s_budgets_and_the_seeds_promised():
    wanted = accuracy.specs()
    assert len(wanted) == len(set(wanted)) == 5 * (10 + 3 + 3)
    assert [seed for _, _, seed in wanted] == sorted(seed for _, _, seed in wanted)
