"""The exceptions of this package, and the collection of warnings."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
    """Failure to find a parameter of a policy whose cost is the budget."""


class PolicyFailed(AdaScaleError, RuntimeError):
    """An error in a policy of your own, which is the cause; ``frames`` is the traceback of your code."""

    def __init__(self, message: str, frames: str = "") -> None:
        super().__init__(message)
        self.frames = frames


class CannotCertify(AdaScaleError, ArithmeticError):
    """Failure to certify an interval within one per cent, for example because moments are out of range."""


class RoundingFloor(CannotCertify):
    """Failure because rounding errors are not small compared with delta."""


class Diverged(AdaScaleError, RuntimeError):
    """Failure of a training whose model is no longer finite."""

    history: "pd.DataFrame"
    """The completed rounds, see :class:`adascale.learning.training.Trained`; their last loss is finite."""


class Busy(AdaScaleError, RuntimeError):
    """Failure because another process is writing this store."""


class OtherCode(AdaScaleError, RuntimeError):
    """Failure because a worker has other code of this package, and so may compute other results."""


class WorkerLost(AdaScaleError, RuntimeError):
    """Failure because two workers, one after the other, were lost during the same task."""


@contextlib.contextmanager
def collected(kind: type[Warning], caught: list[Any]) -> Iterator[None]:
    """Append every warning of a kind to a list inside the context, instead of showing it; others are shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", kind)
        show = warnings.showwarning
        warnings.showwarning = lambda message, *about, **more: (
            caught.append(message)
            if isinstance(message, kind)
            else show(message, *about, **more)
        )
        yield
