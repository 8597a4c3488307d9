"""The mutation tester on a small project; results/mutation.md says what came of `make mutants`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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


def test_a_verdict_holds_until_what_it_rests_on_changes(tried, tmp_path):
    verdicts, said = tried("--jobs", "2")
    noticed = ("killed", "tests/test_count.py::test_half"), ("late", "tests/test_count.py::test_down")
    assert sorted(verdicts, key=str) == sorted([*noticed, ("left", None)], key=str)
    assert "count.py:11 Test\n  -    return 7\n  +    return 8 \n  no test runs it" in said
    assert "| together | 3 | 3 | 1 | 1 | 1 | 1 | 0 |" in said
    page = (tmp_path / "project/results/mutation.md").read_text()
    table = said[said.index("| group") :].rstrip("\n")
    assert page == PROJECT["results/mutation.md"].replace("| group |\n| --- |\n", f"{table}\n")
    more = "\ndef test_more():\n    assert count.half(0) == 0\n"
    assert tried(count=lambda text: f"# a remark\n{text}", test_count=lambda text: text + more)[0] == []
    more = "\ndef test_unused():\n    assert count.unused() == 7\n"
    verdicts, said = tried(test_count=lambda text: text.replace("half(3) == 1.5", "half(5) == 2.5") + more)
    assert sorted(verdicts) == [noticed[0], ("killed", "tests/test_count.py::test_unused")]
    assert "| together | 3 | 3 | 2 | 1 | 0 | 0 | 0 |" in said


def test_nothing_is_tried_by_tests_that_fail_without_a_change(tried):
    verdicts, said = tried(test_count=lambda text: text.replace("1.5", "1.6"))
    assert verdicts == []
    assert "without a change, tests/test_count.py::test_half fails" in said
