"""The page on reproducing the book names what there is: targets, commands, files, and what makes each table."""

import re
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

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
REPRODUCE = re.findall(r"-m (companion\.[\w.]+(?: [\w./ -]+)?)$", MAKEFILE, re.MULTILINE)


def test_every_target_it_names_is_one():
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    named = set(re.findall(r"`make (?:PYTHON=\S+ )?([a-z]+)", PAGE)) | {
        word for line in SHELL if line.startswith("make ") for word in line.split()[1:] if "=" not in word
    }
    assert {"book", "test", "notebooks", "reproduce", "quick", "bench", "twice", "lock", "venv"} <= named <= targets


def test_every_variable_it_gives_to_make_is_read_there():
    given = re.findall(r"^make .*?([A-Z]+)=", "\n".join(SHELL), re.MULTILINE)
    assert {"JOBS", "SAMPLE", "UPGRADE"} <= set(given)
    for name in given:
        assert re.search(rf"\$\({name}\)|ifdef {name}", MAKEFILE), name


def test_every_file_it_names_is_there():
    named = re.findall(r"`((?:results|notebooks|tools)/[\w./-]*)`", PAGE)
    named += re.findall(r"\{committed\} \.\./(\S+)", PAGE)
    named += re.findall(r"`(requirements\.lock|pyproject\.toml|environment\.yml|postBuild|_config\.yml)`", PAGE)
    assert len(named) > 10
    for name in named:
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("line", [line for line in SHELL if line.startswith("adascale ")])
def test_every_command_of_adascale_has_these_options(line, capsys):
    command, *options = shlex.split(line)[1:]
    assert run(command, "--help") == 0
    said = capsys.readouterr().out
    assert all(option in said for option in options if option.startswith("--"))


def test_the_python_on_the_page_compiles():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    compile(code, "page", "exec")


def test_each_committed_table_is_made_by_make_reproduce_or_named_as_one_that_is_not():
    commands = {
        path: tomllib.loads(path.read_text())["command"] for path in (ROOT / "results").rglob("*.provenance.toml")
    }
    assert len(commands) > 20
    for path, command in commands.items():
        module = command.removeprefix("python -m ")
        elsewhere = (
            f"`results/{path.parent.name}`, which needs" in PAGE or f"`{path.stem.partition('.')[0]}.csv` in" in PAGE
        )
        assert module in REPRODUCE or f"`{command}`" in PAGE or elsewhere, f"{path.name}: {command}"
        if command.startswith("python -m"):
            assert find_spec(module.split()[0]), command
