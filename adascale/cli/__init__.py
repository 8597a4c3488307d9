"""The command ``adascale``: one module per subcommand, imported only when it is run."""

import argparse
import contextlib
import importlib
import logging
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

from adascale import __version__
from adascale.cli import common
from adascale.cli.options import Parser
from adascale.errors import PolicyFailed

COMMANDS = {
    "leakage": "compare the leakage of policies on simulated channels or on a trace",
    "benchmark": "compare policies in the frozen scenarios of a benchmark",
    "plot": "draw a table as a figure of a paper",
    "schedule": "choose the receive scalings for a channel trace",
    "stream": "choose the receive scalings round by round, for a server",
    "train": "train over the simulated air",
    "sweep": "run many trainings, resumable and on many machines",
    "audit": "find a lower bound on epsilon from canaries in a training",
    "epsilon": "compute the exact epsilon of noise multipliers, with proven bounds",
    "delta": "compute delta at a given epsilon",
    "calibrate": "find the noise multiplier for an epsilon",
    "steps": "find how many steps an epsilon allows",
    "beta": "bound the miss rate of a membership test",
    "advantage": "bound the advantage of a membership test",
}
"""The subcommands: each is a module with functions ``add_options`` and ``run``, and its docstring is the help text."""

_MOST_CHARACTERS = 1600  # of an error, which may quote a whole file
_EXTRAS = {
    "dask": "cluster",
    "pandas": "federated",
    "tqdm": "federated",
    "matplotlib": "plot",
    "filelock": "sweep",
    "opacus": "learn",
    "sklearn": "learn",
    "torch": "learn",
    "torchvision": "learn",
}
"""The extra that installs a package."""


class Stop(KeyboardInterrupt):
    """SIGTERM or Ctrl-C.

    A plain ``KeyboardInterrupt`` that has passed an ``exec`` of text, as in dataclasses, makes Python exit with 130,
    although it is handled; one of a subclass does not.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    The code is 0 on success, 2 on bad input, 1 if the work could not be done, 130 after Ctrl-C, 143 after SIGTERM, and
    141 if the reader of standard output has gone.
    """
    words = sys.argv[1:] if arguments is None else arguments
    # code that calls this function keeps its signal handlers, and Numba
    options = argparse.Namespace(own_process=arguments is None)
    signals: list[int] = []

    def stop(number: int, _: object) -> NoReturn:
        signals.append(number)
        raise Stop

    with _visible():
        try:
            try:
                for number in (signal.SIGTERM, signal.SIGINT):
                    is_ignored = signal.getsignal(number) is signal.SIG_IGN
                    if options.own_process and not is_ignored:
                        signal.signal(number, stop)
                _parser(words).parse_args(words, options)
                options.run(options)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # here, where a failure can still be reported
        except (Exception, KeyboardInterrupt) as error:
            if signals or isinstance(error, KeyboardInterrupt):
                # a stopped import raises an error of its own, so the signals count; without one it was a plain Ctrl-C
                _say(words, f"stopped{_how_to_resume(options)}")
                return 128 + [*signals, signal.SIGINT][0]
            return _failed(words, options, error)
    return 0


def _how_to_resume(options: argparse.Namespace) -> str:
    """Say what a stopped command has kept, "" if it never keeps anything."""
    values = vars(options)
    place = values.get("store") or values.get("state")
    if place:
        return f"; the same command goes on from what {place} holds"
    if "store" in values:
        return "; nothing was kept; with --store DIR the same command would go on from here"
    return ""


def _failed(words: list[str], options: argparse.Namespace, error: Exception) -> int:
    """Report an expected error in one line and return the exit code; raise any other again."""
    reason = common.one_line(error) or type(error).__name__
    code = 2
    if isinstance(error, OSError):
        if error.filename is None:
            # standard output is closed or full, and Python must not try again at exit
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        elif error.strerror:
            reason = f"{error.filename}: {error.strerror}"
        if isinstance(error, BrokenPipeError):
            return 141  # 128 plus the number of SIGPIPE, as in a shell
    elif isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        extra = f"pip install 'adascale[{_EXTRAS[error.name]}]'"
        reason += f"; this command needs the extra: {extra}"
    elif isinstance(error, ValueError):
        reason = _by_options(reason, error, options)
    elif isinstance(error, RuntimeError | ArithmeticError | MemoryError):
        code = 1
    else:
        raise error
    _say(words, f"error: {reason}")
    if isinstance(error, PolicyFailed) and error.frames:
        common.say(error.frames)
    return code


def _by_options(reason: str, error: Exception, options: argparse.Namespace) -> str:
    """Replace arguments in a message, where "must" or "is" follows, by the options that give them.

    The argument that the error names stands first if its option is not in the message.
    """
    argument = getattr(error, "argument", None)
    if argument is None:
        return reason
    # those that were given, and the two whose absence may be the error
    options_of = {
        name: f"--{name.replace('_', '-')}"
        for name, value in vars(options).items()
        if value not in (None, False) or name in ("transmit_power", "sensitivity")
    }
    if "nu" in options_of:
        options_of["budget"] = "--nu"  # as the library calls it
    reason = re.sub(
        r"(?<![-\w])\w+(?= must | is )",
        lambda match: options_of.get(match[0], match[0]),
        reason,
    )
    option = options_of.get(argument, "")  # without one, the message stays
    return reason if option in reason else f"argument {option}: {reason}"


def _say(words: list[str], text: str) -> None:
    """Print a line that begins with the name of the command on standard error."""
    command = next((f"{word}: " for word in words if word in COMMANDS), "")
    line = " ".join(f"adascale {command}{text}".split())
    if len(line) > _MOST_CHARACTERS:
        # its end says what was expected
        line = f"{line[: _MOST_CHARACTERS - 400]} ... {line[-395:]}"
    common.say(line)


@contextlib.contextmanager
def _visible() -> Iterator[None]:
    """Print control characters as escapes, and warnings and the package's log as notes, inside the context."""
    out = sys.stdout and _Visible(sys.stdout)
    err = sys.stderr and _Visible(sys.stderr, "\r")
    handler = logging.StreamHandler(err)
    handler.setFormatter(logging.Formatter("note: %(message)s"))
    logger = logging.getLogger("adascale")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: (
        f"note: {' '.join(str(message).split())}\n"
    )
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            yield
    finally:
        warnings.formatwarning = before
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


class _Visible:
    """A stream that escapes control characters, except line breaks and the one that begins a progress bar's line."""

    def __init__(self, stream: Any, begin: str = "") -> None:
        self._stream, self._begin = stream, begin

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        begin = self._begin if text.startswith(self._begin) else ""
        lines = text.removeprefix(begin).split("\n")
        self._stream.write(begin + "\n".join(map(common.visible, lines)))
        return len(text)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = action.default not in (None, False, [], argparse.SUPPRESS)
        return f"{action.help} (default: %(default)s)" if shown else action.help


def _parser(words: list[str]) -> argparse.ArgumentParser:
    """Make the parser, with arguments only for the subcommand in ``words``, as importing all of them takes a second."""
    root = Parser(
        prog="adascale",
        description="Adaptive receive scaling for over-the-air federated learning.",
    )
    root.add_argument("--version", action="version", version=f"adascale {__version__}")
    subparsers = root.add_subparsers(
        dest="command", required=True, metavar=f"{{{','.join(COMMANDS)}}}"
    )
    for name, summary in COMMANDS.items():
        parser = subparsers.add_parser(name, help=summary, formatter_class=_Formatter)
        if name in words:
            module = importlib.import_module(f"adascale.cli.{name}")
            parser.description, example, command = str(module.__doc__).partition(
                "example:"
            )
            parser.epilog = example + command
            module.add_options(parser)
            parser.set_defaults(run=module.run)
            root.prog = f"adascale {name}"  # for its error messages
    return root
