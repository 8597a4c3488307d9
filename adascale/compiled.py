"""Numba's ``njit`` that tolerates a damaged, full or unavailable cache, and does nothing without Numba."""

import contextlib
import inspect
import logging
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

_numba: Any = None
_FunctionCache: Any = object
try:
    import numba as _numba
    from numba.core import caching
    from numba.core.runtime import nrt

    _FunctionCache = caching.FunctionCache
except ModuleNotFoundError:  # the extra "fast" is not installed
    pass

Compiled = TypeVar("Compiled", bound=Callable[..., Any])
_LOGGER = logging.getLogger("adascale.compiled")


def njit(*, cache: bool, **options: Any) -> Callable[[Compiled], Compiled]:
    """Compile as ``numba.njit`` does, even if the cache fails, and log the first compilation."""
    if _numba is None:
        return lambda function: function

    def decorate(function: Compiled) -> Compiled:
        dispatcher: Any = _numba.njit(**options)(function)
        # with NUMBA_DISABLE_JIT, the plain function comes back
        if cache and hasattr(dispatcher, "py_func"):
            dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate


def compiled(function: Compiled) -> Compiled:
    """Compile a loop, which may run beside other threads and divides by 0 as NumPy does."""
    return njit(cache=True, nogil=True, error_model="numpy")(function)


def inlined(function: Compiled) -> Compiled:
    """Compile a step of a loop into each loop that calls it."""
    return njit(cache=True, inline="always")(function)


def _has_home() -> bool:
    """Check that the user has a home; without one, Numba would write to a folder ``~`` in the current one."""
    return os.path.isabs(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~")))


def _is_private(folder: str, source: str) -> bool:
    """Check that nobody else can put files into a folder, as whoever can runs code: a cached function is a pickle.

    The owner of the source can do so anyway.
    """
    if sys.platform == "win32":
        return True
    # root, this user and the owner of the source
    trusted = {0, os.geteuid(), os.stat(source).st_uid}
    innermost, *parents = (Path(folder).resolve(), *Path(folder).resolve().parents)
    if innermost.stat().st_mode & stat.S_IWOTH:
        return False
    for place in (innermost, *parents):
        status = place.stat()
        replaceable = (
            status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        )
        if replaceable or status.st_uid not in trusted:
            return False
    return True


class _Cache(_FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function; disabled where no folder can be written, or where others can write as well."""

    def __init__(self, function: Callable[..., Any]):
        self.disable()
        if not (os.environ.get("NUMBA_CACHE_DIR") or _has_home()):
            return
        with contextlib.suppress(RuntimeError):  # if no folder can be found
            super().__init__(function)
            if not _is_private(self._cache_path, inspect.getfile(function)):
                self.disable()

    def load_overload(self, signature: Any, target: Any) -> Any:
        overload = None
        try:
            # all that loaded code needs; Numba's own method also prepares to compile, which takes ten times as long
            nrt.rtsys.initialize(target)
            overload = self._load_overload(signature, target)
        except Exception:  # unpickling a damaged file may raise anything
            with contextlib.suppress(OSError):
                self.flush()
        if overload is None:
            often = "once"
            if not self._enabled:
                often = "(at every start, unless NUMBA_CACHE_DIR names a folder of your own)"
            _LOGGER.debug(f"compiling {often}, for up to a minute")
            _LOGGER.addFilter(lambda _: False)  # says it once
        return overload

    def save_overload(self, signature: Any, overload: Any) -> None:
        # no space or permission: it is compiled again next time
        with contextlib.suppress(Exception):
            super().save_overload(signature, overload)
