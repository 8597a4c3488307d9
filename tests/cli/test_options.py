"""Options are what they are called: no abbreviations, one value for each, and numbers as in tables."""

import argparse
import importlib

import pytest

from adascale.cli import COMMANDS
from adascale.cli.options import Parser

from ..command import refused, run

NUMBERS = ["1_0", "٣", "nan", "1e999", "", "1" * 800]


def options(command):
    """The parser of a command, and its options, each with its action."""
    parser = Parser(exit_on_error=False)
    importlib.import_module(f"adascale.cli.{command}").add_options(parser)
    actions = parser._actions  # noqa: SLF001
    return parser, {name: a for a in actions for name in a.option_strings}


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_with_one_value_is_given_once(command):
    _, names = options(command)
    for name, action in names.items():
        if action.nargs == 0 or isinstance(action, argparse._AppendAction):  # noqa: SLF001
            continue
        parser, _ = options(command)
        value = action.choices[0] if action.choices else "1"
        with pytest.raises(argparse.ArgumentError, match="may be given once"):
            parser.parse_args([f"{name}={value}", name, value])


@pytest.mark.parametrize("text", NUMBERS)
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("epsilon --delta={}", "--delta: expected a finite number"),
        ("sweep a.toml --jobs={}", "--jobs: expected a whole number"),
        ("train --nu=1 --seed={}", "--seed: must be a whole number"),
        ("epsilon --event=1,1,{},", "--event: expected Q,SIGMA"),
        ("leakage --orders=1,{},", "--orders: expected MAX"),
    ],
)
def test_an_option_reads_a_number_as_a_table_does(capsys, command, message, text):
    words = [word.format(text) for word in command.split()]
    assert message in refused(capsys, *words)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_description_and_an_example(capsys, command):
    assert run(command, "--help") == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: adascale {command} ")
    assert f"example:\n  adascale {command} " in out
    assert "SUPPRESS" not in out + err


@pytest.mark.parametrize("command", COMMANDS)
def test_no_prefix_of_an_option_is_taken_for_it(capsys, command):
    *_, name = options(command)[1]
    assert run(command, f"{name[:-1]}=1") == 2
    assert "usage" not in capsys.readouterr().out
