"""An append-only file in which each line is on the disk before the next step."""

import contextlib
import hashlib
import os
import stat
import sys
import warnings
from pathlib import Path

from adascale.errors import InvalidFile
from adascale.files import in_turn, write_atomically

if sys.platform != "win32":
    import fcntl

_DIGITS = 16


class Journal:
    """Lines of text after a heading, locked by one process.

    Each line ends in a digest of all lines so far, and in a line break once it is done; the file begins with the last
    digest.  An unfinished line is dropped.  An older copy of the file is not recognised.

    Parameters
    ----------
    path : path-like, in an existing folder; a missing file is created
    heading : str, first line of a new file
    """

    def __init__(self, path: str | os.PathLike[str], heading: str) -> None:
        self.path, self.heading = Path(path), heading
        self.lines: list[str] = []
        """Lines after the heading, without digests."""
        self.pending = False
        """Whether the last line may still have to be done."""
        self._file, self._new, self._digest = -1, False, b""
        try:
            self._open()
            self._read()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        if sys.platform == "win32":
            raise ValueError("a journal needs file locks, which this system does not have")
        folder = Path(os.path.realpath(self.path)).parent
        while self._file < 0:
            try:
                self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                with in_turn(folder):
                    if not self.path.exists():  # other processes never see it without its whole heading
                        first = self._sealed(self.heading.encode())
                        write_atomically(self.path, first[-_DIGITS:] + b" " + first + b"\n")
                        self._new = True
                continue
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise ValueError(f"{self.path} is not a regular file")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._new = False  # it belongs to the other process now
                raise ValueError(f"{self.path} is in use by another process") from None
            if not self._is_in_place():  # its creator removed it before it was locked here
                self.close()
        entry = os.open(folder, os.O_RDONLY)
        with contextlib.suppress(OSError):  # where a folder cannot be synchronised, its entries are on the disk
            os.fsync(entry)
        os.close(entry)

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def _read(self) -> None:
        """Check the digests, and drop an unfinished line."""

        def damaged(message: str, line: int) -> InvalidFile:
            return InvalidFile(f"{self.path} {message}", str(self.path), line)

        with open(os.dup(self._file), "rb") as file:
            data = file.read()
        *whole, rest = data.split(b"\n")
        remedy = "restore the whole file, or use another one for a new start"
        if not whole:
            raise damaged(f"is {'cut off in its first line' if data else 'empty'}; {remedy}", 1)
        mark, _, first = whole[0].partition(b" ")
        self._marked = len(mark) == _DIGITS and self._take(first)  # a file of version 0.2 does not begin with a digest
        for number, line in enumerate(whole, start=1):
            if not ((number == 1 and self._marked) or self._take(line)):
                raise damaged(f"{'is no journal' if number == 1 else 'is damaged'}: line {number} was altered", number)
        self.pending = self._take(rest)
        self._size = len(data) - (0 if self.pending else len(rest))
        self.heading = self.lines.pop(0)
        # the mark is the digest of the last line or the one before, or a partly written mixture of both
        if self._marked and mark not in [self._digest[:n] + self._before[n:] for n in range(_DIGITS + 1)]:
            last = len(self.lines) + 1
            raise damaged(f"is cut off: lines after line {last} are missing; {remedy}", last)
        if not (self.lines or self._new):
            warnings.warn(f"{self.path} has a heading and nothing behind it; it begins at the start", stacklevel=4)
        if self._size < len(data):
            os.ftruncate(self._file, self._size)
        self._mark(self._digest)

    def _take(self, line: bytes) -> bool:
        """Take one more line if its digest is right; return whether it is."""
        text = line.rpartition(b" ")[0]
        if line != self._sealed(text):
            return False
        self.lines.append(text.decode())
        self._before, self._digest = self._digest, line[-_DIGITS:]
        return True

    def _sealed(self, text: bytes) -> bytes:
        """Return the next line: its text, and the digest of all lines including it."""
        return text + b" " + hashlib.sha256(self._digest + b"\n" + text).hexdigest()[:_DIGITS].encode()

    def append(self, text: str) -> None:
        """Add a line, which is on the disk and pending on return; an ``OSError`` leaves the file unchanged."""
        same = self._is_in_place()
        if not same or os.fstat(self._file).st_size != self._size:
            raise OSError(f"{self.path} was {'changed' if same else 'removed or replaced'} by another process")
        line = b"\n" * self.pending + self._sealed(text.encode())
        try:
            self._put(line, self._size, sync=True)
            self._mark(line[-_DIGITS:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)
        self._digest, self.pending = line[-_DIGITS:], True
        self.lines.append(text)

    def done(self) -> None:
        """Record that the last line is done, without waiting for the disk."""
        if self.pending:
            self._put(b"\n", self._size)
            self._size += 1
            self.pending = False

    def _mark(self, digest: bytes) -> None:
        """Write the last digest at the start, where truncation leaves it."""
        if self._marked:
            self._put(digest, 0)

    def _put(self, data: bytes, place: int, sync: bool = False) -> None:
        try:
            while data:
                done = os.pwrite(self._file, data, place)
                data, place = data[done:], place + done
            if sync:
                os.fsync(self._file)
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), str(self.path)) from None

    def close(self) -> None:
        """Unlock the file, and remove it if it was created here and has no lines."""
        if self._file < 0:
            return
        if self._new and not self.lines:
            with contextlib.suppress(OSError):
                if self._is_in_place():
                    os.unlink(os.path.realpath(self.path))
        os.close(self._file)
        self._file, self._new = -1, False
