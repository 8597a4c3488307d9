r"""A store of runs: a folder for each, named by its address, that survives whatever happens to the process.

=============== ====================================================================================================
``spec.json``   the specification whose SHA-256 is the address
``checkpoint``  how far the run has come, while it is under way
``history.csv`` one row a round, once it is finished
``row.json``    the result with its provenance, the SHA-256 of the history, and :func:`~adascale.runs.execution.digests`
                of what it was made from; written last: it *is* "finished"
``lock``        held by the process that works on the run; the system frees it when that process dies
``.identity``   beside the folders: a random word by which the workers of a cluster recognise the store
=============== ====================================================================================================

Every file is written whole or not at all, and every byte of it is under a checksum: what was altered or cut off is
refused, and so is what was made from other data.  ``row.json`` ends in the SHA-256 of what precedes it; a row without
one, as they were before, is read as it is.  A run that fails before its first checkpoint leaves nothing.  It needs the
extra ``learn``.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import re
import secrets
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from filelock import FileLock, Timeout

from adascale import __version__
from adascale.errors import Busy as Busy
from adascale.files import in_turn, json_text, write_atomically
from adascale.learning import Trained
from adascale.learning.fedsgd import State
from adascale.learning.training import COLUMNS
from adascale.runs.execution import Finished, digests, perform
from adascale.runs.specification import Run

MAGIC = b"adascale checkpoint 2\n"
"""What every checkpoint starts with."""

SEAL = ',\n "sha256": "'
"""What the checksum of a row follows."""


class OtherVersion(UserWarning):
    """A result was made by another version of this package."""


class NotCompared(UserWarning):
    """It is not known what a result or checkpoint was made from."""


class Store:
    """Runs and their results in a folder.

    Parameters
    ----------
    folder : path-like
        Made where it is not there.  Several processes and machines may share it, as far as its file system knows
        locks (``flock``).

    Raises
    ------
    ValueError
        If it is a file.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"store {str(folder)!r} must be a folder")
        self._identity, self._session = "", ""

    def session(self, shared: bool = False) -> Store:
        """The same store by its full path, for many runs of which each data set is read once.

        Where it is shared, it runs nothing on a machine that does not see the same folder.
        """
        found = Store(self.folder.resolve())
        found._session = secrets.token_hex(8)
        if shared:
            found.folder.mkdir(parents=True, exist_ok=True)
            with in_turn(found.folder):
                if not (known := found.folder / ".identity").exists():
                    write_atomically(known, found._session)
            found._identity = known.read_text()
        return found

    def place(self, run: Run) -> Path:
        """The folder of a run."""
        return self.folder / run.address

    def owns(self, path: Path) -> bool:
        """Whether a file lies in the folder of a run, where nobody else should write."""
        parent = path.resolve().parent
        return parent.parent == self.folder.resolve() and re.fullmatch("[0-9a-f]{16}", parent.name) is not None

    def finished(self, run: Run) -> Finished | None:
        """The result of a run, or None if it has not been finished.

        Warns
        -----
        OtherVersion
            If another version of this package made it.
        NotCompared
            If code of one's own may have given other data to it.

        Raises
        ------
        ValueError
            If what lies there was altered, or made from other data: it names the file and says what to do.
        """
        if (found := self._read(run)) is not None:
            self._compare(run, self.place(run), found[1])
        return None if found is None else found[0]

    def _compare(self, run: Run, place: Path, kept: Mapping[str, str] | None) -> dict[str, str]:
        """The digests of now; a ``ValueError`` if they are not those that were kept."""
        made, remedy = digests(run, self._session), "delete the folder or use another --store"
        if kept is None and made:
            text = f"{place} has no digest of what {', '.join(made)} gave; if that may have changed, {remedy}"
            warnings.warn(text, NotCompared, stacklevel=4)
        for name, digest in (kept or {}).items():
            if digest != made[name]:
                other = f"what {name} gave had the digest {digest}, and has {made[name]} now"
                raise ValueError(f"{place} was made from other data: {other}; {remedy}")
        return made

    def _read(self, run: Run) -> tuple[Finished, dict[str, str] | None] | None:
        place = self.place(run)
        if not (place / "row.json").exists():
            return None
        try:
            row, digest, made = _unsealed((place / "row.json").read_bytes())
            history = (place / "history.csv").read_bytes()
            if (place / "spec.json").read_bytes() != run.specification.encode() or row["run"] != run.address:
                raise ValueError("it is the result of another run")
            if hashlib.sha256(history).hexdigest() != digest:
                raise ValueError("its history was altered or cut off")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{place} is not a result as it was written ({error}); delete the folder to run it again"
            ) from None
        if row.get("version") != __version__:
            warnings.warn(
                f"{place} was made by adascale {row.get('version')}, this is {__version__}; delete the "
                "folder to run it again",
                OtherVersion,
                stacklevel=3,
            )
        # by way of text: Python reads a float exactly as it was written, pandas did not always
        texts = pd.read_csv(io.BytesIO(history), dtype=str).astype(float)
        return Finished(row, texts.astype({"round": int, "batch_size": int})), made

    def under_way(self, run: Run) -> pd.DataFrame | None:
        """The history of a run as far as its checkpoint knows it, one row a round; None where there is no checkpoint.

        Raises
        ------
        ValueError
            If the checkpoint was cut off or altered, or made from other data.
        """
        checkpoint = Checkpoint(self.place(run) / "checkpoint", run)
        if (content := checkpoint.content()) is None:
            return None
        self._compare(run, checkpoint.path, json.loads(str(content["conditions"])).get("made"))
        return _history_of(content)

    def run(
        self, run: Run, *, device: str = "cpu", progress: bool = False, wait: bool = True, save_seconds: float = 30
    ) -> Finished:
        """The result of a run: read if it is finished, else run from the last checkpoint on.

        Parameters
        ----------
        run : Run
            What is wanted.
        device, progress
            As for :func:`~adascale.runs.execution.perform`.
        wait : bool
            What to do while another process works on this run: wait for it, or raise
            :class:`~adascale.errors.Busy`.
        save_seconds : float
            A checkpoint is written after the first round that ends so long after the last one.

        Raises
        ------
        Busy
            See ``wait``.
        ValueError
            If the result or the checkpoint there was altered, cut off or made under other conditions; or as
            ``perform``.
        """
        place, known = self.place(run), self.folder / ".identity"
        if self._identity and not (known.exists() and known.read_text() == self._identity):
            raise ValueError(f"{platform.node()} does not see the store {str(self.folder)!r} that the sweep is to fill")
        if (found := self.finished(run)) is not None:  # nothing has to be written then: the store may be read-only
            with contextlib.suppress(OSError):  # there only if the process was killed between its last two steps
                (place / "checkpoint").unlink(missing_ok=True)
            return found
        with _locked(place, wait):
            if (found := self.finished(run)) is not None:
                return found
            checkpoint = Checkpoint(place / "checkpoint", run, device)
            try:
                return self._perform(run, checkpoint, device, progress, save_seconds)
            except BaseException:
                if not checkpoint.path.exists() and not (place / "row.json").exists():
                    _remove(place)
                raise

    def _perform(self, run: Run, checkpoint: Checkpoint, device: str, progress: bool, save_seconds: float) -> Finished:
        """Run what is left of it, in a folder that is locked."""
        place = self.place(run)
        for half in place.glob(".*"):  # what a process was writing when it was killed
            half.unlink()
        write_atomically(place / "spec.json", run.specification.encode())
        resume, before = checkpoint.read()
        made = self._compare(run, checkpoint.path, checkpoint.conditions.get("made", {}))
        made = checkpoint.conditions.setdefault("made", made)
        start = last = time.monotonic()
        reached: tuple[State, list[dict[str, Any]]] | None = None

        def save() -> None:
            if reached is not None:
                state, rows = reached
                trained = Trained(state, pd.DataFrame(rows[: state.round], columns=COLUMNS))
                checkpoint.write(trained, before + time.monotonic() - start)

        def keep(state: State, rows: list[dict[str, Any]]) -> None:
            nonlocal last, reached
            reached = state, rows
            if time.monotonic() - last >= save_seconds:
                save()
                last = time.monotonic()

        try:
            row, history = perform(run, device=device, progress=progress, resume=resume, keep=keep)
        except KeyboardInterrupt:  # a signal that leaves time for it
            save()
            raise
        row["wall_seconds"] = round(before + row["wall_seconds"], 3)
        text = history.to_csv(index=False).encode()
        write_atomically(place / "history.csv", text)
        write_atomically(place / "row.json", _sealed(row, hashlib.sha256(text).hexdigest(), made))
        checkpoint.path.unlink(missing_ok=True)
        done = self._read(run)
        assert done is not None, f"{place} was removed while it was written"
        return done[0]


class Checkpoint:
    """How far a run has come, in one file: a checksum and NumPy arrays, no pickle.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    run : Run
        The only run that the file can serve.
    device : str
        ``cpu`` or ``cuda``: what is resumed elsewhere, or with another number of threads, would not be the same
        history to the last bit.
    """

    def __init__(self, path: Path, run: Run, device: str = "cpu"):
        self.path, self.run = path, run
        self.conditions: dict[str, Any] = {
            "run": run.address,
            "device": torch.device(device).type,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "version": __version__,
        }

    def write(self, trained: Trained, seconds: float) -> None:
        """Replace the file; ``seconds`` is the wall time spent so far."""
        buffer = io.BytesIO()
        arrays = {
            "conditions": np.array(json.dumps(self.conditions)),
            "seconds": np.array(seconds),
            "round": np.array(trained.state.round),
            "parameters": trained.state.parameters.cpu().numpy(),
            "velocity": trained.state.velocity.cpu().numpy(),
        } | {f"history_{name}": trained.history[name].to_numpy() for name in COLUMNS}
        # one after the other, as np.load reads them: what stops a zip file half-way ends in an error of its own
        np.save(buffer, [*arrays])
        for array in arrays.values():
            np.save(buffer, array, allow_pickle=False)
        content = buffer.getvalue()
        write_atomically(self.path, MAGIC + hashlib.sha256(content).digest() + content)

    def read(self) -> tuple[Trained | None, float]:
        """What was written last and its seconds; None and 0 where there is no file.

        Raises
        ------
        ValueError
            If the file was cut off or altered, or is of another run, device, version or number of threads.
        """
        if (arrays := self.content()) is None:
            return None, 0.0
        found = {"version": __version__} | json.loads(str(arrays["conditions"]))  # 0.2.0 kept none
        if differs := next((key for key in self.conditions if found.get(key) != self.conditions[key]), None):
            raise ValueError(
                f"checkpoint {self.path} was made with {differs} {found.get(differs)!r}, not "
                f"{self.conditions[differs]!r}; continue it so, or delete it to start the run again"
            )
        self.conditions["made"] = found.get("made")
        device = self.conditions["device"]
        parameters, velocity = (torch.as_tensor(arrays[name]).to(device) for name in ("parameters", "velocity"))
        state = State(int(arrays["round"]), parameters, velocity)
        return Trained(state, _history_of(arrays)), float(arrays["seconds"])

    def content(self) -> dict[str, Any] | None:
        """The arrays of the file, whatever the conditions; None where there is no file.

        Raises
        ------
        ValueError
            If the file was cut off or altered.
        """
        try:
            whole = self.path.read_bytes()
        except FileNotFoundError:
            return None
        magic, digest, content = whole[: len(MAGIC)], whole[len(MAGIC) :][:32], whole[len(MAGIC) + 32 :]
        if magic != MAGIC or hashlib.sha256(content).digest() != digest:
            raise ValueError(f"checkpoint {self.path} is cut off or altered; delete it to start the run again")
        stream = io.BytesIO(content)
        return {str(name): np.load(stream, allow_pickle=False) for name in np.load(stream, allow_pickle=False)}


def _history_of(content: Mapping[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: content[f"history_{name}"] for name in COLUMNS})


def _sealed(row: dict[str, Any], history_digest: str, made: dict[str, str] | None) -> bytes:
    """The content of ``row.json``."""
    content = json_text({"row": row, "history_sha256": history_digest, "made": made}).removesuffix("\n}").encode()
    return content + f'{SEAL}{hashlib.sha256(content).hexdigest()}"\n}}\n'.encode()


def _unsealed(stored: bytes) -> tuple[dict[str, Any], str, dict[str, str] | None]:
    """Row, history's SHA-256, digests; ``ValueError``, ``KeyError`` or ``TypeError`` if they are not as written."""
    read = json.loads(stored)
    if {*read} != {"row", "history_sha256"}:  # as it was before there was a checksum
        content = stored.rpartition(SEAL.encode())[0]
        if stored != content + f'{SEAL}{hashlib.sha256(content).hexdigest()}"\n}}\n'.encode():
            raise ValueError("its row was altered or cut off")
    row = read["row"]
    row["epsilon"] = float(row["epsilon"])  # the one value that may be infinite
    return row, read["history_sha256"], read.get("made")


def _locked(place: Path, wait: bool) -> contextlib.AbstractContextManager[Any]:
    """The folder of a run, for this process alone."""
    for _ in range(100):
        place.mkdir(parents=True, exist_ok=True)
        try:
            return FileLock(place / "lock", timeout=-1 if wait else 0).acquire()
        except Timeout:
            raise Busy(f"another process is working on {place}") from None
        except FileNotFoundError:  # the other's run has failed, and its folder is gone
            continue
    raise OSError(f"{place / 'lock'} cannot be made")


def _remove(place: Path) -> None:
    """The folder of a run that has kept nothing."""
    with contextlib.suppress(OSError):
        for name in ("spec.json", "history.csv", "lock"):
            (place / name).unlink(missing_ok=True)
        place.rmdir()
