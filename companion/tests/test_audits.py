"""The book's audits: what the committed table says, and that its command makes such rows."""

from pathlib import Path

import pandas as pd
import pytest

from companion.privacy.audits import BUDGETS, PAIRS, SETTINGS, SIZES, Pairs, Size, audit_row, paired_table

RESULTS = Path(__file__).parents[2] / "results/audit"
KEPT = pd.read_csv(RESULTS / "mnist.csv", keep_default_na=False)
PAIRED = pd.read_csv(RESULTS / "paired.csv", keep_default_na=False)
BOUNDS = ["one_run", "rates", "scaled"]


def test_the_committed_table_has_every_budget_and_setting():
    claimed = KEPT[KEPT.setting == "as claimed"]
    assert (claimed.canaries == SIZES["mnist"].canaries * SIZES["mnist"].runs).all()
    assert (claimed.rounds == 500).all()


@pytest.mark.parametrize(("table", "sure"), [(KEPT, ["rates", "scaled"]), (PAIRED, ["scaled"])])
def test_no_honest_training_is_refuted_and_every_broken_one_is(table, sure):
    bounds = table[BOUNDS].apply(pd.to_numeric, errors="coerce")
    refuted = bounds.gt(table.accounted, axis=0)
    broken, claimed = table.setting.isin(["no noise", "not clipped"]), table.setting == "as claimed"
    assert not refuted[~broken].any(axis=None)
    assert refuted[broken][sure].all(axis=None)
    assert ((table.refuted != "") == broken).all()
    assert (table.accounted <= table.renyi)[claimed].all()
    assert bounds[claimed][["one_run", "rates"]].lt(table.accounted[claimed] / 3, axis=0).all(axis=None)
    if table is PAIRED:
        assert refuted[broken & (table.nu == table.nu.max())].all(axis=None)


def test_on_mnist_the_white_box_comes_near_and_the_black_box_does_not():
    rows = KEPT.set_index(["setting", "nu"])
    for nu in BUDGETS["mnist"]:
        claimed, black = rows.loc[("as claimed", nu)], rows.loc[("final model", nu)]
        assert float(claimed.scaled) > 0.6 * claimed.accounted
        assert black.one_run < 0.05 * black.accounted


@pytest.mark.parametrize("setting", ["no noise", "not clipped"])
def test_a_row_says_how_it_came_about(setting):
    row = audit_row("digits", 2.56, setting, size=Size(50, 1, 50, 20, 5))
    assert (row["dataset"], row["nu"], row["setting"], row["rounds"]) == ("digits", 2.56, setting, 5)
    assert (row["kind"], row["canaries"]) == ("gradients", 50)


def test_the_committed_paired_runs_have_every_budget_and_setting():
    broken = PAIRED.setting.isin(["no noise", "not clipped"])
    assert (PAIRED.runs == broken.map({True: PAIRS.broken, False: PAIRS.runs})).all()
    assert (PAIRED.rounds == PAIRS.rounds).all()


def test_the_paired_table_is_made_by_its_command():
    made = paired_table([0.64], pairs=Pairs(10, 10, 1))
    assert list(made.columns) == list(PAIRED.columns)
    assert list(made.setting) == list(SETTINGS)
    assert list(made.kind) == ["paired"] * 3 + ["paired samples"]
    assert (made.runs == 10).all()
    assert made.accounted.nunique() == 1


def test_another_setting_is_refused():
    with pytest.raises(ValueError, match="setting must be one of as claimed, no noise"):
        audit_row("digits", 2.56, "no clip")
