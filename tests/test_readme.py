"""What the README shows a stranger works as shown."""

import json
import re
from base64 import b64decode
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


def test_headline_figure_is_the_one_that_the_committed_notebook_drew():
    notebook = json.loads((ROOT / "notebooks" / "09_mnist.ipynb").read_text())
    (cell,) = (cell for cell in notebook["cells"] if "headline" in cell["metadata"].get("tags", []))
    (picture,) = (output["data"]["image/png"] for output in cell["outputs"] if "data" in output)
    assert b64decode("".join(picture)) == (ROOT / "book" / "_static" / "headline.png").read_bytes()
