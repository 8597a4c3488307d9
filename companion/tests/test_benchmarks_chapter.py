"""The chapter on the benchmarks: sums of scalings, their epsilon, Shi et al.'s queue, a policy of one's own."""

import re
import shlex
import sys
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adascale import Scenario, cli
from companion.leakage import published
from companion.leakage.liu_simeone import scaling_budget
from companion.leakage.published import (
    Plan,
    our_first,
    published_budget,
    published_plan,
    training,
)

MNIST = Scenario.mnist()
CHAPTER = Path(__file__).parents[2] / "notebooks/07_benchmarks.md"


UNIT = MNIST.noise_power * (MNIST.num_devices * MNIST.batch_size / MNIST.clip_norm) ** 2


def test_policy_of_the_chapter_runs_from_the_command_line(
    tmp_path, monkeypatch, capsys
):
    notebook = nbformat.read(CHAPTER.with_suffix(".ipynb"), as_version=4)
    (cell,) = (
        cell for cell in notebook.cells if "own-policy" in cell.metadata.get("tags", [])
    )
    (tmp_path / "my_module.py").write_text(cell.source)
    (command,) = re.findall(
        r"^adascale (leakage .*my_module:MyPolicy.*)$",
        CHAPTER.read_text(),
        re.MULTILINE,
    )
    monkeypatch.chdir(tmp_path)
    try:
        assert (
            cli.main([*shlex.split(command), "--realisations", "2", "--out", "own.csv"])
            == 0
        )
    finally:
        sys.modules.pop("my_module", None)
    assert "MyPolicy" in capsys.readouterr().out
    rdp = pd.read_csv("own.csv").set_index("policy").rdp
    # which is the optimum, tuned to 1e-9 of the budget
    np.testing.assert_allclose(rdp["MyPolicy"], rdp["Optimal"], rtol=1e-6)


@pytest.fixture(scope="module")
def data():
    """A least-squares problem like theirs, in small."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((400, 3)) / np.sqrt(3)
    return features, features @ np.array([1.0, -2.0, 0.5]) + 0.2 * rng.standard_normal(
        400
    )


@given(st.floats(0.1, 1e3), st.floats(1e-12, 0.3))
def test_the_published_budget_is_ours(epsilon, delta):
    ours = float(scaling_budget(MNIST, epsilon, delta)) / UNIT
    # two differences of like numbers
    assert published_budget(epsilon, delta) == pytest.approx(ours, rel=1e-11)


@given(
    st.floats(0.01, 10),
    st.floats(0.01, 10),
    st.integers(1, 40),
    st.floats(0.05, 0.99),
    st.floats(0.05, 1.0),
)
def test_published_plan_begins_as_ours(now, later, n, share, r):
    caps = np.array([now] + [later] * (n - 1))
    weights = r ** ((n - np.arange(1, n + 1)) / 2)
    plan = Plan(caps, weights, 0.0)
    budget = share * caps.sum()
    theirs = published_plan(caps, weights, budget, stop=(1e80, 0.0))
    assert theirs.sum() == pytest.approx(budget, rel=1e-9)
    # steps of the sum, 40 rounds apart
    assert theirs[0] == pytest.approx(our_first(plan, budget, r), rel=1e-8)


def test_their_training_learns_and_spends_more_than_its_budget(data):
    settings = {"rounds": 12, "devices": 4}
    row = published.online(*data, 0.3, 2, 5.0, **settings)
    assert row["compared"] == 24
    assert row["solved"] < 1e-9
    assert row["spent_low"] > 1.05  # nothing is subtracted
    settings["epsilon"] = 1e9
    plans = list(training(*data, 0.3, np.random.default_rng(0), **settings))
    # the control: a budget that never binds
    assert all(plan.spent == plan.caps[0] for plan in plans)
    assert [plan.caps.size for plan in plans] == list(range(12, 0, -1))
