"""The command ``adascale``, run in this process."""

from adascale.cli import main


def run(*arguments):
    """Exit code of the command in this process."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return stop.code
