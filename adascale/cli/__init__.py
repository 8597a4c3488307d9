"""The command ``adascale``: one module a subcommand, imported when it is the one that was asked for."""

from __future__ import annotations

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
from adascale.cli.common import naming_own_code, one_line

COMMANDS = {
    "leakage": "leakage of the methods against nu",
    "schedule": "receive scalings for a channel trace",
    "stream": "receive scalings round by round, for a server",
    "train": "train over the simulated air",
    "sweep": "many trainings, resumable, on many machines",
    "audit": "a lower bound on epsilon, from canaries in a training",
    "epsilon": "the exact epsilon of noise multipliers, between bounds",
    "download": "fetch a data set for train",
}
"""The subcommands and what they do; each is a module here with ``DESCRIPTION``, ``EXAMPLE``, ``add`` and
``run``, and with ``stopped`` where something can be said when ``run`` is interrupted."""


INTERRUPTED, PIPE_CLOSED = 130, 141
"""Exit codes where a signal ended the work, as a shell gives them: 128 and its number."""


BLOCKED_SECONDS, GRACE_SECONDS = 0.3, 0.7
"""How long a command may run after a signal: in code that does not return to Python, and in all."""

if sys.platform != "win32":
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # a child's signals do not end its parent


class Stopped(KeyboardInterrupt):
    """SIGTERM or Ctrl-C, of a class of its own: after the other one Python may end with its own exit code."""


class _Stop:
    """How a command ends after SIGTERM or Ctrl-C: by what it says first, in this thread or another."""

    def __init__(self, line: str) -> None:
        self.line, self.code, self.said = line, 0, threading.Lock()


def main(arguments: list[str] | None = None) -> int:
    """Run the command.

    Returns
    -------
    int
        0 on success, 2 on bad input, 1 where the work could not be done; 130 after Ctrl-C, 143 after SIGTERM, and 141
        where nobody reads what is printed.
    """
    given = sys.argv[1:] if arguments is None else arguments
    command = next((f"{name}: " for name in given if name in COMMANDS), "")
    stop = _Stop(f"{command}stopped")
    with _as_told(stop), _visible():
        try:
            try:
                return _run(given, stop)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # here, where it can still be said that it failed
        except KeyboardInterrupt:
            stop.said.acquire()  # for ever, where the other thread ends the process
            _say(stop.line)
            return stop.code or INTERRUPTED
        except BrokenPipeError:
            _discard_output()
            return PIPE_CLOSED
        except OSError as error:  # standard output is on a full disk
            _discard_output()
            _say(f"{command}error: {_reason(error)}")
            return 2


def _run(given: list[str], stop: _Stop) -> int:
    options = _parser(given).parse_args(given)
    stop.line += f"; {left}" if (left := options.stopped(options)) else ""
    try:
        try:
            with naming_own_code():
                options.run(options)
        except Exception:
            if stop.code:  # what the exception of the signal has become, as in an import
                raise Stopped from None
            raise
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        _say(f"{options.command}: error: {_reason(error)}")
        return 2
    except (RuntimeError, ArithmeticError, MemoryError) as error:
        _say(f"{options.command}: error: {_reason(error)}")
        return 1
    return 0


def _reason(error: Exception) -> str:
    """In one line, what went wrong."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return one_line(error) or type(error).__name__


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        print(f"adascale {' '.join(line.split())}", file=sys.stderr)  # a file's name may have a line break


@contextlib.contextmanager
def _visible() -> Iterator[None]:
    """Whatever is printed has its control characters shown; and what the package logs is a note."""
    out = None if sys.stdout is None else _Visible(sys.stdout)
    err = None if sys.stderr is None else _Visible(sys.stderr, "\r")
    logger, handler = logging.getLogger("adascale"), logging.StreamHandler(err)
    handler.setFormatter(logging.Formatter("note: %(message)s"))
    logger.addHandler(handler)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
    finally:
        logger.removeHandler(handler)


class _Visible:
    """A stream that shows control characters, all but line breaks and what begins the line of a progress bar."""

    def __init__(self, stream: Any, begin: str = ""):
        self._stream, self._begin = stream, begin

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        begin = self._begin if self._begin and text.startswith(self._begin) else ""
        self._stream.write(begin + "\n".join(map(common.visible, text[len(begin) :].split("\n"))))
        return len(text)


def _discard_output() -> None:
    """Nothing of what is left to print is tried again when the interpreter ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _as_told(stop: _Stop) -> Iterator[None]:
    """SIGTERM is as Ctrl-C, and a warning a line that begins with ``note:``; afterwards as it was."""

    def stopped(number: int, _: object) -> NoReturn:
        for each in handled:  # sent twice, it still ends in one line
            signal.signal(each, signal.SIG_IGN)
        stop.code = 128 + number
        raise Stopped

    def watch() -> None:
        while number := os.read(signals, 1):
            if number[0] in handled:
                time.sleep(BLOCKED_SECONDS)
                if stop.code:  # the main thread has seen the signal, and may save what it has
                    time.sleep(GRACE_SECONDS - BLOCKED_SECONDS)
                if stop.said.acquire(blocking=False):
                    _say(stop.line)
                    os._exit(128 + number[0])
        os.close(signals)

    handled = {}
    with warnings.catch_warnings():  # what it keeps includes how they are shown
        before = warnings.formatwarning
        warnings.formatwarning = lambda message, *_, **__: f"note: {' '.join(str(message).split())}\n"
        in_main = threading.current_thread() is threading.main_thread()
        if in_main:
            signals, sent = os.pipe()
            os.set_blocking(sent, False)
            threading.Thread(target=watch, daemon=True).start()
            woken = signal.set_wakeup_fd(sent, warn_on_full_buffer=False)
            for number in (signal.SIGTERM, signal.SIGINT):
                if number == signal.SIGTERM or signal.getsignal(number) is signal.default_int_handler:
                    handled[number] = signal.signal(number, stopped)
        try:
            yield
        finally:
            stop.said.acquire(blocking=False)
            warnings.formatwarning = before
            if in_main:
                for number, handler in handled.items():
                    signal.signal(number, handler or signal.SIG_DFL)
                signal.set_wakeup_fd(woken)
                os.close(sent)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, exit code 2; the usage is what --help is for."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def _parser(given: list[str]) -> argparse.ArgumentParser:
    """The parser, with the arguments of the subcommand that is named; importing all of them would take a second."""
    root = _Parser(prog="adascale", description="Adaptive receive scaling for over-the-air federated learning.")
    root.add_argument("--version", action="version", version=f"adascale {__version__}")
    added = root.add_subparsers(dest="command", required=True, metavar=f"{{{','.join(COMMANDS)}}}")
    for name, summary in COMMANDS.items():
        parser = added.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name in given:
            module = importlib.import_module(f"adascale.cli.{name}")
            parser.description, parser.epilog = module.DESCRIPTION, f"example:\n  {module.EXAMPLE}"
            module.add(parser)
            parser.set_defaults(run=module.run, stopped=getattr(module, "stopped", lambda _: ""))
    root.prog = " ".join(["adascale", *(name for name in given if name in COMMANDS)][:2])  # in its errors
    return root
