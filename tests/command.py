"""The command ``adascale``, run in this process."""

import re
import subprocess

from adascale.cli import main


def run(*arguments):
    """Exit code of the command in this process."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return stop.code


def overridden(usual, *more):
    """The words of a command line in which later options take the place of usual ones."""
    for word in map(str, more):
        if word.startswith("--"):
            usual = re.sub(rf" {word.partition('=')[0]} \S+", "", usual)
    return [*usual.split(), *more]


def refused(capsys, command, *arguments, code=2, heading=False):
    """The one line that a command says, but for notes; it ends with this code and prints no more than its heading."""
    assert run(command, *arguments) == code
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert out.count("\n") <= heading
    assert len(lines) == 1, err
    assert lines[0].startswith(f"adascale {command}: error: ")
    return lines[0]


def alive(group):
    """How many processes of a group are alive."""
    found = subprocess.run(
        ["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
    )
    rows = map(str.split, found.stdout.splitlines())
    return sum(number == str(group) and state[0] != "Z" for number, state in rows)
