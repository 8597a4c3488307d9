"""The tests notice a wrong package: each of these changes to a copy of the source must make the test beside it fail.

`make mutants` tries every small change there is; results/mutation.md says what came of it.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]


class Mutant(NamedTuple):
    """A text that stands once in a file, what takes its place, and a test that must fail then."""

    file: str
    text: str
    instead: str
    test: str


MUTANTS = {
    "the cost leaves out the floor": Mutant(
        "problem.py", "np.mean(self.noise_energy(eta) - self.floor, axis=-1)",
        "np.mean(self.noise_energy(eta), axis=-1)",
        "tests/test_problem.py::test_cost_is_the_left_hand_side_of_the_paper_s_constraint",
    ),
    "the noise multiplier forgets the number of devices": Mutant(
        "problem.py", "scenario.num_devices * kinds[:, 1]", "kinds[:, 1]",
        "tests/test_problem.py::test_round_leakage_is_the_sum_over_devices",
    ),
    "one term of Lemma 1 is off by one": Mutant(
        "accounting/kernels.py", "weight[kind, i] * math.expm1(0.5 * (i + 2) * (i + 1) * s)",
        "weight[kind, i] * math.expm1(0.5 * (i + 2) * (i + 2) * s)",
        "tests/accounting/test_kernels.py::test_integer_orders_have_the_digits_of_mpmath",
    ),
    "the conversion to DP has a wrong sign": Mutant(
        "accounting/renyi.py", "np.log1p(-1 / orders)", "np.log1p(1 / orders)",
        "tests/accounting/test_renyi.py::test_conversion_agrees_with_opacus",
    ),
    "the derivative has another power of the noise": Mutant(
        "accounting/renyi.py", "-2 * s**1.5", "-2 * s**1.0",
        "tests/accounting/test_kernels.py::test_derivative_agrees_with_finite_differences",
    ),
    "AdaScale's queue forgets the budget": Mutant(
        "policies/adascale_rounds.py", "Q + (before - least) - budget[lane]", "Q + (before - least)",
        "tests/policies/test_policies.py::test_adascale_is_its_rounds_and_its_queue_written_out",
    ),
    "the optimum lies under the water": Mutant(
        "policies/optimal.py", "np.maximum(level, problem.floor)", "np.minimum(level, problem.floor)",
        "tests/policies/test_policies.py::test_optimum_spends_the_budget_and_never_exceeds_a_cap",
    ),
    "power control knows no budget": Mutant(
        "policies/power_control.py", "min(tau, cap[lane, t])", "cap[lane, t]",
        "tests/policies/test_benchmark_policies.py::test_online_power_control_plans_like_a_plain_loop",
    ),
    "the estimate of the minimum is a mean": Mutant(
        "policies/estim_future.py", "1 / (1 / gain).sum(axis=-1)", "1 / (1 / gain).mean(axis=-1)",
        "tests/policies/test_benchmark_policies.py::test_the_two_readings_estimate_what_they_say",
    ),
    "a budget that is not met is taken for met": Mutant(
        "tuning.py", "np.abs(found.residual) <= tolerance", "np.abs(found.residual) <= 1e9",
        "tests/test_tuning.py::test_a_cost_that_jumps_over_the_budget_is_no_match",
    ),
    "clipping lengthens short gradients": Mutant(
        "learning/gradients/api.py", ".clamp_max(1) * weights", " * weights",
        "tests/learning/gradients/test_api.py::test_without_clipping_it_is_the_gradient_of_the_weighted_loss",
    ),
    "a norm is its square's": Mutant(
        "learning/gradients/api.py", "square.clamp_min(0).sqrt()", "square.clamp_min(0)",
        "tests/learning/gradients/test_api.py::test_no_sample_counts_for_more_than_the_clip_norm",
    ),
}  # fmt: skip


# In one process, as most of a short test run is imports: the changed package and its tests are imported anew each time.
DRIVER = """
import contextlib, io, json, pathlib, sys
import pytest
folder, verdicts = pathlib.Path.cwd(), {}
for name, file, text, instead, tests in json.load(sys.stdin):
    path = folder / "adascale" / file
    source = path.read_text()
    path.write_text(source.replace(text, instead))
    for module, each in [*sys.modules.items()]:
        if str(getattr(each, "__file__", None)).startswith(f"{folder}/"):
            del sys.modules[module]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = pytest.main([*sys.argv[1:], *tests])
    path.write_text(source)
    verdicts[name] = int(status), sys.modules["adascale"].__file__, said.getvalue()
json.dump(verdicts, sys.stdout)
"""
UNCHANGED = "as it is"


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Of each change to a copy of the package, and of none: pytest's exit status, what was imported, what was said."""
    folder = tmp_path_factory.mktemp("mutants").resolve()
    for name in ("adascale", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    tests = list(dict.fromkeys(mutant.test for mutant in MUTANTS.values()))
    work = [(UNCHANGED, "problem.py", "", "", tests)]
    work += [(name, mutant.file, mutant.text, mutant.instead, [mutant.test]) for name, mutant in MUTANTS.items()]
    options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile", "unshrunk")
    # compiled functions run uncompiled, or each change would be compiled
    done = subprocess.run(
        [sys.executable, "-B", "-c", DRIVER, *options, "-W", "ignore::pytest.PytestAssertRewriteWarning"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "NUMBA_DISABLE_JIT": "1"},
        input=json.dumps(work),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(Path(imported).is_relative_to(folder) for _, imported, _ in found.values())
    return found


def test_as_it_is_the_package_passes(verdicts):
    status, _, said = verdicts[UNCHANGED]
    assert status == 0, said


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_package_is_noticed(verdicts, name):
    mutant = MUTANTS[name]
    times = (ROOT / "adascale" / mutant.file).read_text().count(mutant.text)
    assert times == 1, f"{mutant.text!r} stands {times} times in {mutant.file}: the change must be written anew"
    status, _, said = verdicts[name]
    assert status == 1, said  # 0 is a pass, and 2 or more no verdict of a test
