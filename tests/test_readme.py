"""What the README shows a stranger works as shown."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_example_runs_and_adascale_leaks_at_least_what_the_optimum_does():
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(example, names)
    assert 1 <= names["problem"].rdp(names["eta"]) / names["problem"].rdp(names["best"]) < 2


def test_every_file_and_target_it_names_exists():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z]+)", README)) <= set(targets)
    for path in re.findall(r"\]\(([^):]+)\)", README):
        assert (ROOT / path).exists(), path
