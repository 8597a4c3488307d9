"""The command ``adascale``: one module per subcommand, imported only when it is run."""

import argparse
import contextlib
import importlib
import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

from adascale import __version__
from adascale.cli import common
from adascale.cli.options import Parser, add_options

COMMANDS = {
    "leakage": "compare the leakage of policies over simulated channels",
    "benchmark": "compare policies in the frozen scenarios of a benchmark",
    "plot": "draw a table as a figure of a paper",
    "schedule": "choose the receive scalings for a channel trace",
    "stream": "choose the receive scalings round by round, for a server",
    "train": "train over the simulated air",
    "sweep": "run many trainings, resumable and on many machines",
    "audit": "find a lower bound on epsilon from canaries in a training",
    "accounting": "compute epsilon, delta, noise multipliers or miss rates of sampled Gaussian mechanisms",
    "epsilon": "compute the exact epsilon of noise multipliers, with proven bounds",
}
"""The subcommands: each is a module with a function ``run``, and its docstring is the help text."""

GRACE_SECONDS = 0.7
"""Seconds that a command may run after a signal, to save what it has."""

_MOST_SAID = 1600  # characters of an error, which may quote what a library of somebody else quotes whole
_EXTRAS = {
    "pandas": "federated",
    "tqdm": "federated",
    "matplotlib": "plot",
}  # not in the core
_EXTRAS |= {"filelock": "sweep"} | dict.fromkeys(
    ("opacus", "sklearn", "torch", "torchvision"), "learn"
)

if sys.platform != "win32":
    os.register_at_fork(
        after_in_child=lambda: signal.set_wakeup_fd(-1)
    )  # a child's signals do not end its parent


class Stop(KeyboardInterrupt):
    """SIGTERM or Ctrl-C: the thread that acquires ``said`` first prints the line and ends the command.

    A subclass, because Python may exit with its own code after a plain ``KeyboardInterrupt``.
    """

    def __init__(self, line: str) -> None:
        super().__init__()
        self.line, self.code, self.said = line, 0, threading.Lock()


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code.

    The code is 0 on success, 2 on bad input, 1 if the work could not be done, 130 after Ctrl-C, 143 after SIGTERM, and
    141 if the reader of standard output has gone.
    """
    given = sys.argv[1:] if arguments is None else arguments
    command = next((f"{name}: " for name in given if name in COMMANDS), "")
    stop = Stop(f"{command}stopped")
    with _handling_signals(stop), _visible():
        try:
            return _run(given, command, stop, arguments is None)
        except KeyboardInterrupt:
            stop.said.acquire()  # blocks for ever if the watching thread is ending the process
            _say(stop.line)
            return stop.code or 128 + signal.SIGINT
        except OSError as error:
            if (
                error.filename is None
            ):  # standard output is closed or full, and Python must not try again at exit
                with contextlib.suppress(OSError, ValueError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if isinstance(error, BrokenPipeError):
                return 141  # 128 plus the number of SIGPIPE, as in a shell
            _say(f"{command}error: {_reason(error)}")
            return 2


def _run(given: list[str], command: str, stop: Stop, own_process: bool) -> int:
    options = argparse.Namespace()
    try:
        options = _parser(given).parse_args(given)
        options.own_process = own_process
        _check_working_directory()
        if kept := vars(options).get("store") or vars(options).get("state"):
            stop.line += f"; the same command goes on from what {kept} holds"
        elif "store" in options:
            stop.line += "; nothing was kept; with --store DIR the same command would go on from here"
        options.run(options)
    except Exception as error:
        if stop.code:  # the signal's exception has become another one, as in an import
            raise stop from None
        if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
            extra = f"pip install 'adascale[{_EXTRAS[error.name]}]'"
            _say(f"{command}error: {error}; this command needs the extra: {extra}")
            return 2
        if not isinstance(
            error, ValueError | RuntimeError | ArithmeticError | MemoryError
        ):
            raise
        _say(f"{command}error: {_option(error, options)}{_reason(error)}")
        return 2 if isinstance(error, ValueError) else 1
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()  # flushed here, where a failure can still be reported
    return 0


def _check_working_directory() -> None:
    try:
        os.getcwd()
    except OSError:
        raise ValueError(
            "the working directory was removed; change to another one"
        ) from None


def _option(error: Exception, options: argparse.Namespace) -> str:
    """Name the option that set the argument of an error, unless the error does."""
    name = str(getattr(error, "argument", None))
    given, option = vars(options).get(name), f"--{name.replace('_', '-')}"
    return (
        ""
        if given is None or given is False or option in str(error)
        else f"argument {option}: "
    )


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return common.one_line(error) or type(error).__name__


def _say(line: str) -> None:
    line = " ".join(line.split())  # a file name may contain a line break
    line = (
        line
        if len(line) <= _MOST_SAID
        else f"{line[: _MOST_SAID - 400]} ... {line[-395:]}"
    )
    common.say(f"adascale {line}")


@contextlib.contextmanager
def _visible() -> Iterator[None]:
    """Print control characters as escapes, and warnings and the package's log as notes, inside the context."""
    out, err = (
        each and _Visible(each, begin)
        for each, begin in ((sys.stdout, ""), (sys.stderr, "\r"))
    )
    logger, handler, before = (
        logging.getLogger("adascale"),
        logging.StreamHandler(err),
        warnings.formatwarning,
    )
    handler.setFormatter(logging.Formatter("note: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
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

    def __init__(self, stream: Any, begin: str):
        self._stream, self._begin = stream, begin

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        begin = self._begin if text.startswith(self._begin) else ""
        self._stream.write(
            begin + "\n".join(map(common.visible, text[len(begin) :].split("\n")))
        )
        return len(text)


@contextlib.contextmanager
def _handling_signals(stop: Stop) -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C inside the context, and end the process if the main thread does not."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled: dict[int, Any] = {}

    def stopped(number: int, _: object) -> NoReturn:
        for each in handled:  # a second signal changes nothing
            signal.signal(each, signal.SIG_IGN)
        stop.code = 128 + number
        raise stop

    def watch() -> None:
        while number := os.read(signals, 1):
            if number[0] in handled:
                time.sleep(GRACE_SECONDS)
                if stop.said.acquire(blocking=False):
                    _say(stop.line)
                    os._exit(128 + number[0])
        os.close(signals)

    signals, sent = os.pipe()
    os.set_blocking(sent, False)
    threading.Thread(target=watch, daemon=True).start()
    woken = signal.set_wakeup_fd(sent, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        if (
            number == signal.SIGTERM
            or signal.getsignal(number) is signal.default_int_handler
        ):
            handled[number] = signal.signal(number, stopped)
    try:
        yield
    finally:
        stop.said.acquire(blocking=False)
        for each, handler in handled.items():
            signal.signal(each, handler or signal.SIG_DFL)
        signal.set_wakeup_fd(woken)
        os.close(sent)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = action.default not in (None, False, argparse.SUPPRESS)
        return f"{action.help} (default: %(default)s)" if shown else action.help


def _parser(given: list[str]) -> argparse.ArgumentParser:
    """Make the parser, with arguments only for the given subcommand, as importing all of them takes a second."""
    root = Parser(
        prog="adascale",
        description="Adaptive receive scaling for over-the-air federated learning.",
    )
    root.add_argument("--version", action="version", version=f"adascale {__version__}")
    added = root.add_subparsers(
        dest="command", required=True, metavar=f"{{{','.join(COMMANDS)}}}"
    )
    for name, summary in COMMANDS.items():
        parser = added.add_parser(name, help=summary, formatter_class=_Formatter)
        if name in given:
            module = importlib.import_module(f"adascale.cli.{name}")
            parser.description, example, command = (module.__doc__ or "").partition(
                "example:"
            )
            parser.epilog = example + command
            add_options(parser, name)
            parser.set_defaults(run=module.run)
    root.prog = " ".join(
        ["adascale", *(name for name in given if name in COMMANDS)][:2]
    )  # for its error messages
    return root
