"""Options are what they are called: no abbreviations, one value for each, and numbers as in tables."""

import argparse

import pytest

from adascale.cli import COMMANDS
from adascale.cli.options import Parser, add_options
from adascale.text import to_number

from ..command import refused, run

REQUIRED = {
    "accounting": ["epsilon"],
    "audit": ["--nu=1"],
    "benchmark": ["--version=1", "--out=x"],
    "plot": ["a.csv", "a.pdf"],
    "schedule": ["--gains=a.csv"],
    "stream": ["--state=s"],
    "sweep": ["a.toml"],
    "train": ["--nu=1"],
}
NUMBERS = [
    "1_0",
    "٣",
    "１",
    "0x10",
    "inf",
    "-inf",
    "nan",
    "1e999",
    "",
    " ",
    "1,5",
    "1d5",
    "true",
    "None",
    "1" * 800,
]


def options(command):
    """The options of a command, each with its action."""
    parser = Parser()
    add_options(parser, command)
    return {
        name: action
        for action in parser._actions  # noqa: SLF001
        for name in action.option_strings
    }


def given_once(command):
    """The options that take one value, each with a value that its parser accepts."""
    for name, action in options(command).items():
        if action.nargs != 0 and not isinstance(action, argparse._AppendAction):  # noqa: SLF001
            yield name, action, action.choices[0] if action.choices else "1"


def said(capsys, *arguments):
    assert run(*arguments) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_no_prefix_of_an_option_is_taken_for_it(capsys, command):
    names = options(command)
    prefixes = {
        name[:end] for name in names for end in range(3, len(name))
    } - names.keys()
    line = said(capsys, command, *REQUIRED.get(command, []), *sorted(prefixes))
    assert line.split("unrecognized arguments: ")[1].split() == sorted(prefixes)
    assert len(prefixes) > len(names)


@pytest.mark.parametrize("prefix", ["--ver", "--he"])
def test_no_prefix_of_an_option_of_all_commands_is_taken_for_it(capsys, prefix):
    assert "adascale: error: " in said(capsys, prefix)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_with_one_value_is_given_once(capsys, command):
    for name, _, value in given_once(command):
        required = [
            each
            for each in REQUIRED.get(command, [])
            if not each.startswith(f"{name}=")
        ]
        line = said(capsys, command, *required, f"{name}={value}", name, value)
        assert f"argument {name}: may be given once" in line


@pytest.mark.parametrize("text", NUMBERS)
def test_an_option_reads_a_number_as_a_table_does(capsys, text):
    assert "--delta: expected a finite number" in refused(
        capsys, "accounting", "epsilon", f"--delta={text}"
    )
    assert "--jobs: expected a whole number" in refused(
        capsys, "sweep", "a.toml", f"--jobs={text}"
    )
    assert "--seed: must be a whole number" in refused(
        capsys, "train", "--nu=1", f"--seed={text}"
    )
    assert "--event: expected Q,SIGMA" in refused(
        capsys, "accounting", "epsilon", f"--event=1,1,{text},"
    )
    assert "--orders: expected MAX" in refused(capsys, "leakage", f"--orders=1,{text},")


def test_what_a_number_may_look_like_is_read():
    assert [to_number(text) for text in ("1", "+.5", " 2. ", "1e-5", "-1E+2")] == [
        1,
        0.5,
        2,
        1e-5,
        -100,
    ]
