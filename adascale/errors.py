"""The exceptions of this package, all of them subclasses of :class:`AdaScaleError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


class AdaScaleError(Exception):
    """What is raised where this package cannot do what was asked for."""


class InvalidInput(AdaScaleError, ValueError):
    """A value that is not what its argument takes; the message has the name, the value and what was expected."""

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument
        """The name of the argument, where it is one."""


class InvalidFile(AdaScaleError, ValueError):
    """A file that is not what it is read as; the message has the file and the line."""

    def __init__(self, message: str, path: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.path, self.line = path, line
        """The file as it was named, and the number of its line, from 1; None where it is the whole file."""


class BudgetNotReached(AdaScaleError, RuntimeError):
    """No parameter of a policy brings its cost to the budget."""


class CannotCertify(AdaScaleError, ArithmeticError):
    """The bracket of an epsilon or a delta is wider than one per cent, or its moments are beyond floating point."""


class RoundingFloor(CannotCertify):
    """What double precision may be off is no longer small beside delta."""


class Diverged(AdaScaleError, RuntimeError):
    """A training whose model has left the finite numbers; the message names the round and what to try."""

    history: pd.DataFrame
    """The rounds before, see :class:`adascale.learning.training.Trained`; the last of them still had a finite loss."""


class Busy(AdaScaleError):
    """Another process is working on this run."""
