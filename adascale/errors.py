"""The exceptions of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


class AdaScaleError(Exception):
    """Base class of the exceptions of this package."""


class InvalidInput(AdaScaleError, ValueError):
    """An argument outside its documented range; ``argument`` is its name."""

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class InvalidFile(AdaScaleError, ValueError):
    """A file with invalid content at ``path`` and ``line`` (from 1; None: the whole file)."""

    def __init__(self, message: str, path: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.path, self.line = path, line


class BudgetNotReached(AdaScaleError, RuntimeError):
    """No parameter of a policy brings its cost to the budget."""


class CannotCertify(AdaScaleError, ArithmeticError):
    """No interval within one per cent is certified, or the moments are out of range."""


class RoundingFloor(CannotCertify):
    """Rounding errors are not small compared with delta."""


class Diverged(AdaScaleError, RuntimeError):
    """A training whose model is no longer finite."""

    history: pd.DataFrame
    """The completed rounds, see :class:`adascale.learning.training.Trained`; their last loss is finite."""


class Busy(AdaScaleError):
    """Another process is working on this run."""
