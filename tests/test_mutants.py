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
        "problem.py",
        "np.mean(self.noise_energy(eta) - self.floor, axis=-1)",
        "np.mean(self.noise_energy(eta), axis=-1)",
        "tests/test_problem.py::test_cost_is_the_left_hand_side_of_the_paper_s_constraint",
    ),
    "the noise multiplier forgets the number of devices": Mutant(
        "problem.py",
        "scenario.num_devices * kinds[:, 1]",
        "kinds[:, 1]",
        "tests/test_problem.py::test_round_leakage_is_the_sum_over_devices",
    ),
    "one term of Lemma 1 is off by one": Mutant(
        "accounting/kernels.py",
        "weight[kind, i] * math.expm1(0.5 * (i + 2) * (i + 1) * s)",
        "weight[kind, i] * math.expm1(0.5 * (i + 2) * (i + 2) * s)",
        "tests/accounting/test_kernels.py::test_integer_orders_have_the_digits_of_mpmath",
    ),
    "the conversion to DP has a wrong sign": Mutant(
        "accounting/renyi.py",
        "np.log1p(-1 / orders)",
        "np.log1p(1 / orders)",
        "tests/accounting/test_renyi.py::test_conversion_agrees_with_opacus",
    ),
    "the derivative has another power of the noise": Mutant(
        "accounting/renyi.py",
        "-2 * s**1.5",
        "-2 * s**1.0",
        "tests/accounting/test_kernels.py::test_derivative_agrees_with_finite_differences",
    ),
    "AdaScale's queue forgets the budget": Mutant(
        "policies/adascale.py",
        "Q + (before - least) - budget[lane]",
        "Q + (before - least)",
        "tests/policies/test_policies.py::test_adascale_is_its_rounds_and_its_queue_written_out",
    ),
    "the optimum lies under the water": Mutant(
        "policies/optimal.py",
        "np.maximum(level, problem.floor)",
        "np.minimum(level, problem.floor)",
        "tests/policies/test_policies.py::test_optimum_spends_the_budget_and_never_exceeds_a_cap",
    ),
    "power control knows no budget": Mutant(
        "policies/power_control.py",
        "min(tau, cap[lane, t])",
        "cap[lane, t]",
        "tests/policies/test_benchmark_policies.py::test_online_power_control_plans_like_a_plain_loop",
    ),
    "the estimate of the minimum is a mean": Mutant(
        "policies/estim_future.py",
        "1 / (1 / gain).sum(axis=-1)",
        "1 / (1 / gain).mean(axis=-1)",
        "tests/policies/test_benchmark_policies.py::test_the_two_readings_estimate_what_they_say",
    ),
    "a budget that is not met is taken for met": Mutant(
        "tuning.py",
        "np.abs(found.residual) <= tolerance",
        "np.abs(found.residual) <= 1e9",
        "tests/test_tuning.py::test_a_cost_that_jumps_over_the_budget_is_no_match",
    ),
    "clipping lengthens short gradients": Mutant(
        "learning/gradients/api.py",
        ".clamp_max(1) * weights",
        " * weights",
        "tests/learning/gradients/test_api.py::test_without_clipping_it_is_the_gradient_of_the_weighted_loss",
    ),
    "a norm is its square's": Mutant(
        "learning/gradients/api.py",
        "square.clamp_min(0).sqrt()",
        "square.clamp_min(0)",
        "tests/learning/gradients/test_api.py::test_no_sample_counts_for_more_than_the_clip_norm",
    ),
}


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
    shutil.copy(ROOT / "conftest.py", folder)
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


PROJECT = {
    "pyproject.toml": "[tool.pytest.ini_options]\n",
    "adascale/__init__.py": "",
    "adascale/count.py": """
def half(number):
    return number / 2

def down(number):
    while number > 0:
        number -= 1
    return number

def unused():
    return 7
""",
    "tests/conftest.py": """
from hypothesis import settings
settings.register_profile("unshrunk")
""",
    "tests/test_count.py": """
from adascale import count

def test_half():
    assert count.half(3) == 1.5

def test_down():
    assert count.down(3) == 0
""",
    "results/mutation.md": """
| group |
| --- |

## Argued

| change | why |
| --- | --- |
| `count.py`: 8 for 7 | nobody asks |
""",
}
REPLACED = {"/": "*", "-=": "+=", "7": "8"}


@pytest.fixture
def tried(tmp_path):
    """Write the project with a text of it changed, try its changes, and return the new verdicts and what was said."""
    folder = tmp_path / "verdicts"
    interpreter = tmp_path / "python"
    interpreter.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f'print(open("{tmp_path}/changes").read() if sys.stdin.read() else "", end="")\n'
    )
    interpreter.chmod(0o755)
    tool = "import sys, mutants; from pathlib import Path; mutants.ROOT = Path(sys.argv.pop())\n"
    tool += "mutants.TABLE, mutants.COPIED = mutants.ROOT / 'results/mutation.md', ('adascale', 'tests')\n"
    tool += "mutants.IMPORTED, mutants.GROUPS = (), {'all': ('adascale/*.py', ['tests'])}; mutants.main()"

    def call(*options, **edited):
        for name, text in PROJECT.items():
            place = tmp_path / "project" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(edited.get(place.stem, lambda text: text)(text))
        source = (tmp_path / "project/adascale/count.py").read_text()
        with (tmp_path / "changes").open("w") as file:
            for number, (old, new) in enumerate(REPLACED.items()):
                start = source.index(old)
                line = source[:start].count("\n") + 1
                print(json.dumps(["core/Test", number, line, 9, start, start + len(old), new]), file=file)
        kept = folder / "verdicts.jsonl"
        before = len(kept.read_text().splitlines()) if kept.exists() else 0
        done = subprocess.run(
            [sys.executable, "-c", tool, folder, *options, "--cosmic-ray", interpreter, tmp_path / "project"],
            cwd=ROOT / "tools",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or edited, done.stderr
        new = [json.loads(line) for line in kept.read_text().splitlines()[before:]] if kept.exists() else []
        return [(each["verdict"], each["test"]) for each in new], done.stdout + done.stderr

    return call


def test_a_change_is_noticed_or_late_or_left_and_its_verdict_holds_until_what_it_rests_on_changes(tried):
    verdicts, said = tried("--jobs", "2")
    noticed = ("killed", "tests/test_count.py::test_half"), ("late", "tests/test_count.py::test_down")
    assert sorted(verdicts, key=str) == sorted([*noticed, ("left", None)], key=str)
    assert "count.py:11 Test\n  -    return 7\n  +    return 8 \n  no test runs it" in said
    assert "| together | 3 | 3 | 1 | 1 | 1 | 0 | 1 | 0 |" in said

    def more(text):
        return f"{text}\ndef test_more():\n    assert count.half(0) == 0\n"

    def others(text):
        return (
            f"{text.replace('half(3) == 1.5', 'half(5) == 2.5')}\ndef test_unused():\n    assert count.unused() == 7\n"
        )

    assert tried(count=lambda text: f"# a remark\n{text}", test_count=more)[0] == []
    verdicts, said = tried(test_count=others)
    assert sorted(verdicts) == [noticed[0], ("killed", "tests/test_count.py::test_unused")]
    assert "| together | 3 | 3 | 1 | 1 | 1 | 1 | 0 | 0 |" in said


def test_a_change_of_a_constant_is_tried_first_by_those_that_use_it(tried, monkeypatch):
    monkeypatch.setitem(REPLACED, "BY = 2", "BY = 3")
    verdicts, _ = tried(
        count=lambda text: "BY = 2\n" + text.replace("number / 2", "number / BY"),
        test_count=lambda text: (
            text.replace("assert count.half", "assert sum(range(10**6)) and count.half")
            + "def test_quick():\n    assert count.BY == 2\n"
        ),
    )
    assert [test for _, test in verdicts].count("tests/test_count.py::test_half") == 2  # by the constant, and by `/`


def test_nothing_is_tried_by_tests_that_fail_without_a_change(tried):
    verdicts, said = tried(test_count=lambda text: text.replace("1.5", "1.6"))
    assert verdicts == []
    assert "without a change, tests/test_count.py::test_half fails" in said


def test_the_report_writes_the_table_alone(tried, tmp_path):
    _, said = tried("--report")
    page = (tmp_path / "project/results/mutation.md").read_text()
    table = said[said.index("| group") :]
    assert page == PROJECT["results/mutation.md"].replace("| group |\n| --- |\n", table.rstrip("\n") + "\n")
