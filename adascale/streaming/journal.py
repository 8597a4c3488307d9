"""An append-only file in which each line is on the disk before the next step."""

import contextlib
import os
import stat
import sys
import zlib
from pathlib import Path
from typing import BinaryIO

from adascale.errors import InvalidFile
from adascale.files import synchronise

if sys.platform != "win32":
    import fcntl

_DONE = b"."


class Journal:
    """Lines of text after a heading, in a file that no other process can open meanwhile.

    Each line ends in the CRC of all lines so far.  When a line is :meth:`done`, a dot is written after its line break,
    so that the next line begins with it.  A last line without its line break, as a killed process leaves it, is
    dropped.  Lines that are missing at the end, as in an older copy of the file, are not noticed.

    Parameters
    ----------
    path : path-like, in an existing folder; a missing file is created, and one that is still empty at the end removed
    heading : str
        First line of a new file, written with the first line that is appended; then that of the file, which may differ.
    """

    def __init__(self, path: str | os.PathLike[str], heading: str) -> None:
        self.path, self.heading = Path(path), heading
        self.lines: list[str] = []
        """The lines after the heading when the file was opened."""
        self.pending = False
        """Whether the last line is not done yet."""
        self._place = self.path.absolute()  # the working directory may change
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
        self._size = len(data)
        *lines, rest = data.split(b"\n")
        # without one whole line, the file must be a heading that is cut off
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
        # of what follows the last line break, a dot is kept
        is_done = rest.startswith(_DONE)
        self.pending = bool(self.lines) and not is_done
        self._size += is_done - len(rest)
        os.ftruncate(self._file.fileno(), self._size)

    def _damaged(self, message: str, line: int) -> InvalidFile:
        return InvalidFile(f"{self.path} {message}", str(self.path), line)

    def append(self, text: str) -> None:
        """Add a line, which is on the disk and pending on return; after an error the file has no such line."""
        if self._file.closed:
            raise ValueError(f"{self.path} is closed")
        data, crc = (b"", self._crc) if self._size else _sealed(self.heading, 0)
        line, crc = _sealed(text, crc)
        data += _DONE * self.pending + line
        try:
            self._write(data)
        except BaseException:
            try:
                os.ftruncate(self._file.fileno(), self._size)
            except OSError:  # a part of the line is there, and no other may follow it
                self._file.close()
            raise
        self._size += len(data)
        self._crc, self.count, self.pending = crc, self.count + 1, True

    def done(self) -> None:
        """Record that the last line is done; it is no longer pending."""
        if self.pending and not self._file.closed:
            self._file.write(_DONE)
            self._size += 1
            self.pending = False

    def _write(self, data: bytes) -> None:
        """Write to the disk, and name the file in an ``OSError``."""
        try:
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise OSError(error.errno, reason, str(self.path)) from None

    def close(self) -> None:
        """Release the file, which goes if it is empty."""
        if not self._file.closed and not self._size:
            self._place.unlink(missing_ok=True)
        self._file.close()


def _sealed(text: str, crc: int) -> tuple[bytes, int]:
    """Return a line with the CRC of all lines up to it, and that CRC."""
    data = text.encode()
    crc = zlib.crc32(data + b"\n", crc)
    return data + b" %08x\n" % crc, crc


def _open_locked(path: Path) -> BinaryIO:
    """Open or create a file, lock it, and bring its entry in the folder to the disk."""
    if sys.platform == "win32":
        raise ValueError("a journal needs file locks, which this system does not have")
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(open(path, "a+b", buffering=0))
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a regular file")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"{path} is in use by another process or stream"
            raise ValueError(message) from None
        opened.pop_all()
    synchronise(path.absolute().parent)
    return file
