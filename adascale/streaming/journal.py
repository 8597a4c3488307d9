"""A file that only grows: each line is on the disk before the next thing is done, and none can be changed unnoticed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_DIGITS = 16


class Journal:
    """Lines of text with a heading, held by one process alone.

    Each line ends in a digest of itself and of all lines before it, and has a line break once what it says is done.
    What a killed process has left of a line is dropped: nothing was done on its account.

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
        self._file, self._new = -1, False
        self.heading = heading
        """The first line, without its digest."""
        self.lines: list[str] = []
        """The lines behind it, without theirs."""
        self.pending = False
        """Whether it is not known that what the last line says was done."""
        try:
            self._open()
            self._read(heading)
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        if sys.platform == "win32":
            raise ValueError("a journal needs file locks, which this system does not have")
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        while self._file < 0:
            self._file = os.open(self.path, flags, 0o666)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{self.path} is in use by another process") from None
            found = os.fstat(self._file)
            if not stat.S_ISREG(found.st_mode):
                raise ValueError(f"{self.path} is no regular file")
            if not found.st_nlink:  # removed by who could not write its heading, before it was held here
                self.close()

    def _read(self, heading: str) -> None:
        with open(os.dup(self._file), "rb") as file:
            data = file.read()
        *whole, rest = data.split(b"\n")
        self._size, self._digest = len(data) - len(rest), ""
        if whole:
            self.heading, *self.lines = (self._checked(i, line) for i, line in enumerate(whole, start=1))
        elif not self._sealed(heading).startswith(data):
            raise ValueError(f"{self.path} is no journal")
        text = rest.decode(errors="replace").rpartition(" ")[0]
        if whole and rest and rest == self._sealed(text):
            self.pending, self._size, self._digest = True, len(data), self._next(text)
            self.lines.append(text)
        elif rest:
            os.ftruncate(self._file, self._size)
        if not whole:
            self._new = True
            self._write(self._sealed(heading) + b"\n")
            self._digest = self._next(heading)
            folder = os.open(self.path.parent, os.O_RDONLY)
            with contextlib.suppress(OSError):  # where a folder cannot be synchronised, its entries are on the disk
                os.fsync(folder)
            os.close(folder)

    def _checked(self, number: int, line: bytes) -> str:
        """A line without its digest, which has to be right."""
        text, space, digest = line.decode(errors="replace").rpartition(" ")
        if not space or digest != self._next(text):
            what = "is no journal" if number == 1 else "is damaged"
            raise ValueError(f"{self.path} {what}: line {number} is not as it was written")
        self._digest = digest
        return text

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
        try:
            same = os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except FileNotFoundError:
            same = False
        if not same or os.fstat(self._file).st_size != self._size:
            raise OSError(f"{self.path} was {'changed' if same else 'removed or replaced'} by another process")
        self._write(b"\n" * self.pending + self._sealed(text))
        self._digest, self.pending = self._next(text), True
        self.lines.append(text)

    def done(self) -> None:
        """What the last line says is done; this need not wait for the disk.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        if self.pending:
            self._size += os.write(self._file, b"\n")
            self.pending = False

    def _write(self, line: bytes) -> None:
        try:
            done = 0
            while done < len(line):
                done += os.write(self._file, line[done:])
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise OSError(error.errno, os.strerror(error.errno or 0), str(self.path)) from None
        self._size += len(line)

    def close(self) -> None:
        """Let others have the file; a heading that was written here alone, without a line, is taken back."""
        if self._file >= 0:
            if self._new and not self.lines:
                self._new = False
                with contextlib.suppress(OSError):
                    self.path.unlink()
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
