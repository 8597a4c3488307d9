"""A file that only grows: each line is on the disk before the next thing is done, and none can be changed unnoticed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import warnings
from pathlib import Path

from adascale.files import in_turn, write_atomically

if sys.platform != "win32":
    import fcntl

_DIGITS = 16


class Journal:
    """Lines of text with a heading, held by one process alone.

    Each line ends in a digest of itself and of all lines before it, and has a line break once what it says is done.
    What a killed process has left of a line is dropped: nothing was done on its account.  The file begins with its last
    digest, so that lines cut off its end are missed (not in a file of 0.2); an older copy of it is not recognised.

    Parameters
    ----------
    path : path-like
        The file; it is made if there is none, and the folder has to be there.
    heading : str
        The first line of a new file.

    Raises
    ------
    ValueError
        If another process holds the file, or a line is not as it was written; it names the file and the line.
    OSError
        If it cannot be read or written; nothing new is left then.
    """

    def __init__(self, path: str | os.PathLike[str], heading: str) -> None:
        self.path = Path(path)
        self._file, self._new, self._digest = -1, False, ""
        self.heading = heading
        """The first line, without its digest."""
        self.lines: list[str] = []
        """The lines behind it, without theirs."""
        self.pending = False
        """Whether it is not known that what the last line says was done."""
        try:
            self._open(heading)
            self._read()
        except BaseException:
            self.close()
            raise

    def _open(self, heading: str) -> None:
        if sys.platform == "win32":
            raise ValueError("a journal needs file locks, which this system does not have")
        folder = Path(os.path.realpath(self.path)).parent
        while self._file < 0:
            try:
                self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                with in_turn(folder):
                    if not self.path.exists():  # nobody ever sees it without its whole heading
                        write_atomically(self.path, f"{self._next(heading)} {self._sealed(heading).decode()}\n")
                        self._new = True
                continue
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise ValueError(f"{self.path} is no regular file")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._new = False  # it is the other process's now
                raise ValueError(f"{self.path} is in use by another process") from None
            if not self._is_in_place():  # its maker has taken it back, before it was held here
                self.close()
        entry = os.open(folder, os.O_RDONLY)
        with contextlib.suppress(OSError):  # where a folder cannot be synchronised, its entries are on the disk
            os.fsync(entry)
        os.close(entry)

    def _is_in_place(self) -> bool:
        """Whether the path still leads to the file that is held."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def _read(self) -> None:
        with open(os.dup(self._file), "rb") as file:
            data = file.read()
        *whole, rest = data.split(b"\n")
        remedy = "restore the whole file, or use another one for a new start"
        if not whole:
            raise ValueError(f"{self.path} is {'cut off in its first line' if data else 'empty'}; {remedy}")
        mark, _, first = whole[0].partition(b" ")
        self._size, before = len(data) - len(rest), ""
        self._marked = len(mark) == _DIGITS and self._is_sealed(first)
        for number, line in enumerate([first, *whole[1:]] if self._marked else whole, start=1):
            if not self._is_sealed(line):
                what = "is no journal" if number == 1 else "is damaged"
                raise ValueError(f"{self.path} {what}: line {number} is not as it was written")
            before = self._take(line)
        if self._is_sealed(rest):
            before, self.pending, self._size = self._take(rest), True, len(data)
        self.heading = self.lines.pop(0)
        # the mark is that of the last line or the one before, or was on its way from this to that
        marks = [self._digest[:n] + before[n:] for n in range(_DIGITS + 1)]
        if self._marked and mark.decode(errors="replace") not in marks:
            raise ValueError(f"{self.path} is cut off: lines behind line {len(self.lines) + 1} are missing; {remedy}")
        if not (self.lines or self._new):
            warnings.warn(f"{self.path} has a heading and nothing behind it; it begins at the start", stacklevel=4)
        if self._size < len(data):
            os.ftruncate(self._file, self._size)
        self._mark()

    def _is_sealed(self, line: bytes) -> bool:
        """Whether a line is as it was written, behind the lines so far."""
        return line == self._sealed(line.decode(errors="replace").rpartition(" ")[0])

    def _take(self, line: bytes) -> str:
        """Read one more line; the digest of the one before."""
        text, _, digest = line.decode().rpartition(" ")
        self.lines.append(text)
        before, self._digest = self._digest, digest
        return before

    def _next(self, text: str) -> str:
        return hashlib.sha256(f"{self._digest}\n{text}".encode()).hexdigest()[:_DIGITS]

    def _sealed(self, text: str) -> bytes:
        return f"{text} {self._next(text)}".encode()

    def append(self, text: str) -> None:
        """One more line, of any characters but line breaks; it is on the disk, and pending, when this returns.

        Raises
        ------
        OSError
            If it cannot be written, and the file is as it was; or if it was removed, replaced or written to by
            somebody else.
        """
        same = self._is_in_place()
        if not same or os.fstat(self._file).st_size != self._size:
            raise OSError(f"{self.path} was {'changed' if same else 'removed or replaced'} by another process")
        line, before = b"\n" * self.pending + self._sealed(text), self._digest
        try:
            self._put(line, self._size, sync=True)
            self._digest = self._next(text)
            self._mark()
        except OSError:
            self._digest = before
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)
        self.pending = True
        self.lines.append(text)

    def done(self) -> None:
        """Record that what the last line says is done, without waiting for the disk."""
        if self.pending:
            self._put(b"\n", self._size)
            self._size += 1
            self.pending = False

    def _mark(self) -> None:
        """Put the last line's digest at the very start, where a cut of the end leaves it."""
        if self._marked:
            self._put(self._digest.encode(), 0)

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
        """Let others have the file; a heading that was written here alone, without a line, is taken back."""
        if self._file >= 0:
            if self._new and not self.lines:
                self._new = False
                with contextlib.suppress(OSError):
                    if self._is_in_place():
                        os.unlink(os.path.realpath(self.path))
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
