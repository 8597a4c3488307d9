"""The page on reproducing the book names what there is: targets, commands, files, and what makes each table."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from companion.__main__ import RESULTS

from .command import run

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "book" / "reproducibility.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
SHELL = [
    line.partition("  #")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line and not line.startswith("#")
]


def test_every_variable_it_gives_to_make_is_read_there():
    given = re.findall(r"^make .*?([A-Z]+)=", "\n".join(SHELL), re.MULTILINE)
    assert {"JOBS", "SAMPLE", "UPGRADE"} <= set(given)
    for name in given:
        assert re.search(rf"\$\({name}\)|ifdef {name}", MAKEFILE), name


@pytest.mark.parametrize("line", [line for line in SHELL if line.startswith("adascale ")])
def test_every_command_of_adascale_has_these_options(line, capsys):
    command, *options = shlex.split(line)[1:]
    assert run(command, "--help") == 0
    said = capsys.readouterr().out
    assert all(option in said for option in options if option.startswith("--"))


def test_the_python_on_the_page_compiles():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert compile(code, "page", "exec").co_names


def test_each_committed_table_has_a_command():
    """`make bench`, a name of `python -m companion make`, or a command that the page gives."""
    made = {Path(each.folder, file.partition(".")[0]) for each in RESULTS.values() for file in each.files.split()}
    tables = {path: tomllib.loads(path.read_text())["command"] for path in ROOT.glob("results/**/*.provenance.toml")}
    assert len(tables) > 20
    for path, command in tables.items():
        name = path.relative_to(ROOT).with_name(path.name.partition(".")[0])
        assert name in made or "bench" in command or f"`{command}`" in PAGE, f"{name}: {command}"
