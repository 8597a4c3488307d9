"""An append-only file in which each line is on the disk before the next step."""

import contextlib
import os
import stat
import sys
import warnings
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path

from adascale.errors import InvalidFile
from adascale.files import in_turn, write_atomically

if sys.platform != "win32":
    import fcntl

_DIGITS = 8
_NO_LINES = b"0" * _DIGITS
_PENDING, _DONE = b"?", b"."
_REMEDY = "restore the whole file, or use another one for a new start"


class Journal:
    """Lines of text after a heading, locked by the process that opened the file.

    Each line ends in the CRC of all lines so far, and in "?" until it is done, or "." afterwards.  The file begins with
    the CRC of its last line, by which missing lines are noticed.  A last line without its line break is dropped, as a
    killed process leaves it.  An older copy of the file is not recognised.

    Parameters
    ----------
    path : path-like, in an existing folder; a missing file is created
    heading : str, first line of a new file
    """

    def __init__(self, path: str | os.PathLike[str], heading: str) -> None:
        self.path, self.heading = Path(path), heading
        self.lines: list[str] = []
        """The lines after the heading when the file was opened."""
        self.count = 0
        """The number of lines after the heading."""
        self.pending = False
        """Whether the last line is not done yet."""
        self._place, self._owner = os.path.abspath(path), os.getpid()
        self._new, self._whole, self._size, self._mark = False, True, 0, b""
        self._open()
        _OPEN.add(self)
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Lock the file, or create it with its heading."""
        if sys.platform == "win32":
            raise ValueError(
                "a journal needs file locks, which this system does not have"
            )
        folder = os.path.dirname(os.path.realpath(self._place))
        while True:
            try:
                number = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                with in_turn(Path(folder)):
                    if not os.path.exists(
                        self._place
                    ):  # other processes never see it without its whole heading
                        mark, line = _sealed(self.heading.encode(), _NO_LINES, _DONE)
                        write_atomically(self.path, mark + b" " + line)
                        self._new = True
                continue
            if (
                number < 3
            ):  # what is printed to a closed standard stream would go into the file
                number, closed = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3), number
                os.close(closed)
            self._file = os.fdopen(number, "r+b", buffering=0)
            try:
                self._lock()
            except BaseException:
                self._file.close()
                raise
            if self._is_in_place():
                break
            self._file.close()  # its creator removed it before it was locked here
        entry = os.open(folder, os.O_RDONLY)
        with contextlib.suppress(
            OSError
        ):  # where a folder cannot be synchronised, its entries are on the disk
            os.fsync(entry)
        os.close(entry)

    def _lock(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            raise ValueError(f"{self.path} is not a regular file")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{self.path} is in use by another process or stream"
            ) from None

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._place), os.fstat(self._file.fileno()))
        except OSError:
            return False

    def _read(self) -> None:
        """Check every line, and drop one that is not finished."""
        data = self._file.read()
        *whole, rest = data.split(b"\n")
        if not whole:
            raise self._damaged(
                f"is {'cut off in its first line' if data else 'empty'}; {_REMEDY}", 1
            )
        mark, _, whole[0] = whole[0].partition(b" ")
        marks = [_NO_LINES, _NO_LINES]  # of the line before the last, and of the last
        for number, line in enumerate(whole, start=1):
            text, sign = line[: -_DIGITS - 2], line[-1:]
            mark_here, sealed = _sealed(text, marks[-1], sign)
            last_pending = sign == _PENDING and number == len(whole) > 1
            if sealed != line + b"\n" or not (sign == _DONE or last_pending):
                what = "is no journal" if number == 1 else "is damaged"
                raise self._damaged(f"{what}: line {number} was altered", number)
            marks = [marks[-1], mark_here]
            self.lines.append(text.decode())
        before, self._mark = marks
        if mark not in [
            self._mark[:n] + before[n:] for n in range(_DIGITS + 1)
        ]:  # a kill may leave a mixture
            last = len(whole)
            raise self._damaged(
                f"is cut off: lines after line {last} are missing; {_REMEDY}", last
            )
        self.heading, self.count = self.lines.pop(0), len(self.lines)
        self.pending = whole[-1].endswith(_PENDING)
        if not (self.lines or self._new):
            warnings.warn(
                f"{self.path} has a heading and nothing behind it; it begins at the start",
                stacklevel=4,
            )
        self._size = len(data) - len(rest)
        if rest:
            os.ftruncate(self._file.fileno(), self._size)
        self._put(self._mark, 0)

    def _damaged(self, message: str, line: int) -> InvalidFile:
        return InvalidFile(f"{self.path} {message}", str(self.path), line)

    @property
    def usable(self) -> bool:
        """Whether this process opened the file and has not closed it."""
        return self._owner == os.getpid() and not self._file.closed

    def check_owner(self) -> None:
        """Raise an error unless this process opened the file."""
        if self._owner != os.getpid():
            advice = "a process that was forked from it must open its own"
            raise RuntimeError(
                f"{self.path} belongs to the process {self._owner}, which opened it; {advice}"
            )

    def check_usable(self) -> None:
        """Raise an error unless this process opened the file, has not closed it, and knows what it holds."""
        self.check_owner()
        if self._file.closed:
            raise ValueError(f"{self.path} is closed")
        if not self._whole:
            raise RuntimeError(
                f"{self.path} was interrupted while a line was written; close it and open it again"
            )

    def append(self, text: str) -> None:
        """Add a line, which is on the disk and pending on return; after an ``OSError`` the file has no such line."""
        self.done()
        same = self._is_in_place()
        if not same or os.fstat(self._file.fileno()).st_size != self._size:
            raise OSError(
                f"{self.path} was {'changed' if same else 'removed or replaced'} by another process"
            )
        mark, line = _sealed(text.encode(), self._mark, _PENDING)
        self._whole = False
        try:
            self._put(line, self._size)
            self._sync()
            self._put(mark, 0)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), self._size)
                self._put(self._mark, 0)
                self._whole = True
            raise
        self._mark, self._size, self.count, self.pending = (
            mark,
            self._size + len(line),
            self.count + 1,
            True,
        )
        self._whole = True

    def done(self) -> None:
        """Record that the last line is done, without waiting for the disk."""
        self.check_usable()
        if self.pending:
            self._put(_DONE, self._size - 2)
            self.pending = False

    def _put(self, data: bytes, place: int) -> None:
        with self._naming():
            while data:
                done = os.pwrite(self._file.fileno(), data, place)
                data, place = data[done:], place + done

    def _sync(self) -> None:
        with self._naming():
            os.fsync(self._file.fileno())

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Name the file in an ``OSError``."""
        try:
            yield
        except OSError as error:
            raise OSError(
                error.errno, os.strerror(error.errno or 0), str(self.path)
            ) from None

    def close(self) -> None:
        """Unlock the file, and remove it if it was created here and has no lines; nothing in a forked process."""
        if self._file.closed or self._owner != os.getpid():
            return
        if self._new and not self.count and self._is_in_place():
            with contextlib.suppress(OSError):
                os.unlink(os.path.realpath(self._place))
        with contextlib.suppress(OSError):
            fcntl.flock(
                self._file, fcntl.LOCK_UN
            )  # also for a process that holds the file without knowing
        self._file.close()

    def leave(self) -> None:
        """Close in a forked process what its parent has locked, so that the lock ends with the parent."""
        self._file.close()


_OPEN: "weakref.WeakSet[Journal]" = weakref.WeakSet()


def _sealed(text: bytes, before: bytes, sign: bytes) -> tuple[bytes, bytes]:
    """Return the CRC of all lines including this one, and the line."""
    mark = b"%08x" % zlib.crc32(text + b"\n", int(before, 16))
    return mark, text + b" " + mark + sign + b"\n"


def _leave_all() -> None:
    for journal in list(_OPEN):
        journal.leave()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_leave_all)
