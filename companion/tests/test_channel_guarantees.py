"""What is promised on which channel: every cell has its proof or a run that breaks it."""

import re
from pathlib import Path

import numpy as np
import pytest

from adascale import ReceiveScalingProblem, Scenario, policies
from adascale.channel import RayleighFloors
from adascale.problem import RoundLeakage
from adascale.statistics import interval
from companion.bounds import level_value
from companion.causal.which_guarantee import COUNTEREXAMPLES, GUARANTEES, KINDS, guarantees_table
from companion.theory.correlated import block_floors

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_a_counterexample_breaks_what_is_promised_and_its_control_keeps_it(name):
    run = COUNTEREXAMPLES[name]()
    assert run.control.high <= run.most < run.found.low


def test_every_promise_that_fails_has_a_run_and_every_run_a_promise():
    failing = {cell.why for each in GUARANTEES for cell in each.cells.values() if cell.verdict == "fails"}
    assert failing == {*COUNTEREXAMPLES}


def test_every_proof_is_in_the_book():
    labels = set(re.findall(r"^:label: (\S+)", "\n".join(path.read_text() for path in NOTEBOOKS.glob("*.md")), re.M))
    proofs = {cell.why for each in GUARANTEES for cell in each.cells.values() if cell.verdict == "holds"}
    assert proofs | {each.label for each in GUARANTEES} <= labels
    assert "thm-no-such" not in labels  # the control


def test_the_table_has_a_verdict_in_every_cell():
    table = guarantees_table()
    assert list(table.columns) == list(KINDS.values())
    assert len(table) == len(GUARANTEES)
    assert table.map(lambda cell: re.match(r"(holds|fails|open): \S", cell) is not None).all(axis=None)
    for each in GUARANTEES:  # on the paper's own channel everything holds
        assert each.cells["known"].verdict == "holds"


def test_the_mean_of_a_constant_level_needs_one_law_of_a_round_and_no_independence():
    """The proof of thm-constant-level, 1, has expectations of single rounds alone."""
    scenario, law, nu = Scenario.mnist(), RayleighFloors(0.037), 0.04
    floor = block_floors(0.037, 10, (1000, 500), np.random.default_rng(20))
    problem = ReceiveScalingProblem(scenario, scenario.noise_scale / (scenario.x_max * floor), nu)
    energy = problem.noise_energy(policies.ConstantLevel(law=law).schedule(problem))
    cost, leaked = interval((energy - floor).mean(-1) / nu), interval(RoundLeakage(scenario)(energy).mean(-1))
    assert cost.low < 1 < cost.high
    assert leaked.low < level_value(RoundLeakage(scenario), law, nu).leakage < leaked.high
    assert cost.high - cost.low < 0.03
