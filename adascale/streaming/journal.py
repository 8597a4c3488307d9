"""An append-only file in which each line is on the disk before the next step."""

import contextlib
import os
import stat
import sys
import zlib
from pathlib import Path
from typing import BinaryIO

from adascale.errors import InvalidFile

if sys.platform != "win32":
    import fcntl

_DONE = b"."


class Journal:
    """Lines of text after a heading, locked by the process that opened the file.

    Each line ends in the CRC of all lines so far.  The line after one that is done begins with a dot, which is there as
    soon as this is known.  A last line without its line break is dropped, as a killed process leaves it.  Lines that
    are missing at the end, as in an older copy of the file, are not noticed.

    Parameters
    ----------
    path : path-like, in an existing folder; a missing file is created, and one that is still empty at the end removed
    heading : str
        First line of a new file, which is written with the first line that is appended.
    """

    def __init__(self, path: str | os.PathLike[str], heading: str) -> None:
        self.path, self.heading = Path(path), heading
        self.lines: list[str] = []
        """The lines after the heading when the file was opened."""
        self.pending = False
        """Whether the last line is not done yet."""
        self._place, self._owner = os.path.abspath(path), os.getpid()
        self._size = self._crc = 0
        self._file = _open_locked(self.path)
        try:
            self._read()
        except BaseException:
            self.close()
            raise
        self.count = len(self.lines)
        """The number of lines after the heading."""

    def _read(self) -> None:
        """Check every line, and drop one that is not finished."""
        self._file.seek(0)
        data = self._file.read()
        *lines, rest = data.split(b"\n")
        if not lines and not _sealed(self.heading, 0)[0].startswith(data):
            raise self._damaged("is no journal", 1)
        for number, line in enumerate(lines, start=1):
            text = line.removeprefix(_DONE).rpartition(b" ")[0].decode(errors="replace")
            sealed, self._crc = _sealed(text, self._crc)
            if sealed != line.removeprefix(_DONE) + b"\n":
                what = "is no journal" if number == 1 else "is damaged"
                raise self._damaged(f"{what}: line {number} was altered", number)
            self.lines.append(text)
        if lines:
            self.heading = self.lines.pop(0)
        is_done = rest.startswith(_DONE)
        self.pending = bool(self.lines) and not is_done
        self._size = len(data) - len(rest) + is_done
        os.ftruncate(self._file.fileno(), self._size)

    def _damaged(self, message: str, line: int) -> InvalidFile:
        return InvalidFile(f"{self.path} {message}", str(self.path), line)

    @property
    def usable(self) -> bool:
        """Whether this process opened the file and has not closed it."""
        return self._owner == os.getpid() and not self._file.closed

    def check_usable(self) -> None:
        """Raise an error unless this process opened the file and has not closed it."""
        if self._owner != os.getpid():
            raise RuntimeError(
                f"{self.path} belongs to the process {self._owner}, which opened it; "
                "a process that was forked from it must open its own"
            )
        if self._file.closed:
            raise ValueError(f"{self.path} is closed")

    def append(self, text: str) -> None:
        """Add a line, which is on the disk and pending on return; after an ``OSError`` the file has no such line."""
        self.check_usable()
        if not self._is_in_place():
            raise OSError(
                f"{self.path} was removed, replaced or changed by another process"
            )
        data, crc = (b"", self._crc) if self._size else _sealed(self.heading, 0)
        line, crc = _sealed(text, crc)
        data += _DONE * self.pending + line
        try:
            self._write(data)
        except BaseException:
            # if this fails, the file has another size than is known here, and takes no more lines
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), self._size)
            raise
        self._size += len(data)
        self._crc, self.count, self.pending = crc, self.count + 1, True

    def done(self) -> None:
        """Record that the last line is done."""
        self.check_usable()
        if self.pending:
            os.write(self._file.fileno(), _DONE)
            self._size += 1
            self.pending = False

    def _is_in_place(self) -> bool:
        """Check that the file is where it was opened, and as it was left here."""
        here = os.fstat(self._file.fileno())
        try:
            there = os.stat(self._place)
        except OSError:
            return False
        return os.path.samestat(here, there) and here.st_size == self._size

    def _write(self, data: bytes) -> None:
        """Write to the disk, and name the file in an ``OSError``."""
        try:
            while data:
                data = data[os.write(self._file.fileno(), data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise OSError(error.errno, reason, str(self.path)) from None

    def close(self) -> None:
        """Unlock the file, which goes if it is empty; in a forked process, nothing that its parent would notice."""
        if self.usable:  # also for a process that was forked, and knows nothing of it
            if not self._size and self._is_in_place():
                os.unlink(self._place)
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._file.close()


def _sealed(text: str, crc: int) -> tuple[bytes, int]:
    """Return a line with the CRC of all lines up to it, and that CRC."""
    data = text.encode()
    crc = zlib.crc32(data + b"\n", crc)
    return data + b" %08x\n" % crc, crc


def _open_locked(path: Path) -> BinaryIO:
    """Open or create a file, lock it, and see to it that its folder has it."""
    if sys.platform == "win32":
        raise ValueError("a journal needs file locks, which this system does not have")
    with open(path, "a+b", buffering=0) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise ValueError(f"{path} is not a regular file")
        # not the number of a standard stream that is closed, to which a library may print
        number = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 3)
    file = os.fdopen(number, "a+b", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ValueError(f"{path} is in use by another process or stream") from None
    folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)
    with contextlib.suppress(OSError):  # some file systems cannot do this, and need not
        os.fsync(folder)
    os.close(folder)
    return file
