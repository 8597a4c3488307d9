"""Numba's ``njit`` that tolerates a damaged, full or unavailable cache, and does nothing without Numba."""

import contextlib
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

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
        return cast("Compiled", dispatcher)

    return decorate


def compiled(function: Compiled) -> Compiled:
    """Compile a loop, which may run beside other threads and divides by 0 as NumPy does."""
    return njit(cache=True, nogil=True, error_model="numpy")(function)


def inlined(function: Compiled) -> Compiled:
    """Compile a step of a loop into each loop that calls it."""
    return njit(cache=True, inline="always")(function)


class _Cache(_FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, disabled where no folder can be written."""

    def __init__(self, function: Callable[..., Any]):
        self.disable()
        with contextlib.suppress(RuntimeError):  # if no folder can be found
            super().__init__(function)

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
            often = (
                "once" if self._enabled else "(at every start: no cache can be written)"
            )
            _LOGGER.debug(f"compiling {often}, for up to a minute")
            _LOGGER.addFilter(lambda _: False)
        return overload

    def save_overload(self, signature: Any, overload: Any) -> None:
        # no space or permission: it is compiled again next time
        with contextlib.suppress(Exception):
            super().save_overload(signature, overload)
