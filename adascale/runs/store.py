"""A store of runs, which survives a kill at any time: one folder per run, named by its address.

=============== ====================================================================================================
``spec.json``   the specification whose SHA-256 is the address
``checkpoint``  the state and history of an unfinished run
``history.csv`` one row per round of a finished run
``row.json``    the result with its provenance and checksums; written last, so a run that has it is finished
``lock``        held by the process that works on the run, until it ends
=============== ====================================================================================================
"""

import contextlib
import hashlib
import io
import json
import os
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
from adascale.files import json_text, write_atomically
from adascale.learning import Trained
from adascale.learning.devices import find_device
from adascale.learning.fedsgd import State
from adascale.learning.training import COLUMNS
from adascale.runs.execution import Finished, digests, perform
from adascale.runs.specification import Run

MAGIC = b"adascale checkpoint 2\n"
"""First bytes of every checkpoint."""


class OtherVersion(UserWarning):
    """Warning that a result was made by another version of this package."""


class NotCompared(UserWarning):
    """Warning that a result or checkpoint has no digests of the data it was made from."""


class Checkpoint:
    """The state of an unfinished run in one file with a checksum, to be resumed under the same conditions only."""

    def __init__(self, path: Path, run: Run, device: str = "cpu"):
        self.path, self.run = path, run
        self.conditions: dict[str, Any] = {"run": run.address, "device": device}
        self.conditions |= {"threads": torch.get_num_threads(), "torch": torch.__version__, "version": __version__}

    def write(self, trained: Trained, seconds: float) -> None:
        """Replace the file; ``seconds`` is the wall time spent so far."""
        buffer, (round_index, parameters, velocity) = io.BytesIO(), trained.state
        arrays: dict[str, Any] = {"conditions": json.dumps(self.conditions), "seconds": seconds, "round": round_index}
        arrays |= {"parameters": parameters.cpu().numpy(), "velocity": velocity.cpu().numpy()}
        arrays |= {f"history_{name}": trained.history[name].to_numpy() for name in COLUMNS}
        # one array after the other, as np.load reads them; an interrupted zip file would raise a second error
        np.save(buffer, [*arrays])
        for array in arrays.values():
            np.save(buffer, array, allow_pickle=False)
        content = buffer.getvalue()
        write_atomically(self.path, MAGIC + hashlib.sha256(content).digest() + content)

    def read(self, anywhere: bool = False) -> tuple[Trained | None, float]:
        """Return the last training written and its seconds, or None and 0; do not check conditions if ``anywhere``."""
        try:
            whole = self.path.read_bytes()
        except FileNotFoundError:
            return None, 0.0
        content = whole[len(MAGIC) + 32 :]
        if whole != MAGIC + hashlib.sha256(content).digest() + content:
            raise ValueError(f"checkpoint {self.path} is cut off or altered; delete it to start the run again")
        stream = io.BytesIO(content)
        arrays = {str(name): np.load(stream, allow_pickle=False) for name in np.load(stream, allow_pickle=False)}
        found = {"version": __version__} | json.loads(str(arrays["conditions"]))  # 0.2.0 stored none
        for key, now in self.conditions.items():
            if not anywhere and (then := found.get(key)) != now:
                remedy = "continue it so, or delete it to start the run again"
                raise ValueError(f"checkpoint {self.path} was made with {key} {then!r}, not {now!r}; {remedy}")
        self.conditions["made"] = found.get("made")
        history = pd.DataFrame({name: arrays[f"history_{name}"] for name in COLUMNS})
        values = (torch.as_tensor(arrays[name]).to(self.conditions["device"]) for name in ("parameters", "velocity"))
        return Trained(State(int(arrays["round"]), *values), history), float(arrays["seconds"])


class Store:
    """Runs and their results in a folder, which processes can share if the file system supports ``flock``."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"store {str(folder)!r} must be a folder")
        self._session = ""

    def session(self) -> "Store":
        """Return the same store by its full path, for many runs that read each data set only once."""
        found = Store(self.folder.resolve())
        found._session = secrets.token_hex(8)
        return found

    def place(self, run: Run) -> Path:
        """Return the folder of a run."""
        return self.folder / run.address

    def finished(self, run: Run) -> Finished | None:
        """Return the result of a run, or None; warn with :class:`OtherVersion` or :class:`NotCompared`."""
        if (found := self._read(run)) is None:
            return None
        self._compare(run, self.place(run), found[1])
        return found[0]

    def _compare(self, run: Run, place: Path, kept: Mapping[str, str] | None) -> dict[str, str]:
        """Return the digests of what your own code gives to a run; refuse a result that was made from other data."""
        made, remedy = digests(run, self._session), "delete the folder or use another --store"
        if kept is None and made:
            text = f"{place} has no digest of what {', '.join(made)} gave; if this may have changed, {remedy}"
            warnings.warn(text, NotCompared, stacklevel=4)
        for name, digest in (kept or {}).items():
            if digest != made[name]:
                other = f"what {name} gave had the digest {digest}, and has {made[name]} now"
                raise ValueError(f"{place} was made from other data: {other}; {remedy}")
        return made

    def _read(self, run: Run) -> tuple[Finished, dict[str, str] | None] | None:
        """Return the result of a run and the digests that it was made from."""
        place, remedy = self.place(run), "delete the folder to run it again"
        if not (place / "row.json").exists():
            return None
        try:
            sealed, history = ((place / name).read_bytes() for name in ("row.json", "history.csv"))
            stored = json.loads(sealed)
            row = stored["row"]
            # the rows of version 0.2 have no checksum
            if {*stored} != {"row", "history_sha256"} and sealed != _sealed(sealed.rpartition(_SEAL)[0]):
                raise ValueError("its row was altered or truncated")
            if (place / "spec.json").read_bytes() != run.specification.encode() or row["run"] != run.address:
                raise ValueError("it is the result of another run")
            if hashlib.sha256(history).hexdigest() != stored["history_sha256"]:
                raise ValueError("its history was altered or truncated")
            row |= {name: float(row[name]) for name in ("epsilon", "epsilon_mean")}  # the values that may be infinite
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{place} is not a result as it was written ({error}); {remedy}") from None
        if (version := row.get("version")) != __version__:
            text = f"{place} was made by adascale {version}, this is {__version__}; {remedy}"
            warnings.warn(text, OtherVersion, stacklevel=3)
        # through text, as Python reads a float exactly as it was written, which pandas did not always
        texts = pd.read_csv(io.BytesIO(history), dtype=str).astype(float)
        return Finished(row, texts.astype({"round": int, "batch_size": int})), stored.get("made")

    def under_way(self, run: Run) -> pd.DataFrame | None:
        """Return the history of a run up to its checkpoint, one row per round; None without a checkpoint."""
        checkpoint = Checkpoint(self.place(run) / "checkpoint", run)
        if (trained := checkpoint.read(anywhere=True)[0]) is None:
            return None
        self._compare(run, checkpoint.path, checkpoint.conditions["made"])
        return trained.history

    def run(
        self, run: Run, *, device: str = "cpu", progress: bool = False, wait: bool = True, save_seconds: float = 30
    ) -> Finished:
        """Return the result of a run: read it if finished, else run from the last checkpoint on.

        Save every ``save_seconds``.  Without ``wait``, raise :class:`~adascale.errors.Busy` if another process runs it.
        """
        place, on = self.place(run), find_device(device)
        if (found := self.finished(run)) is not None:  # then nothing has to be written, and the store may be read-only
            with contextlib.suppress(OSError):  # it exists only if the process was killed between its last two steps
                (place / "checkpoint").unlink(missing_ok=True)
            return found
        with locked_folder(place, wait):
            if (found := self.finished(run)) is not None:
                return found
            checkpoint = Checkpoint(place / "checkpoint", run, on.type)
            try:
                return self._perform(run, checkpoint, device, progress, save_seconds)
            except BaseException:
                if not checkpoint.path.exists() and not (place / "row.json").exists():
                    with contextlib.suppress(OSError):  # the folder of a run that saved nothing
                        for name in ("spec.json", "history.csv", "lock"):
                            (place / name).unlink(missing_ok=True)
                        place.rmdir()
                raise

    def _perform(self, run: Run, checkpoint: Checkpoint, device: str, progress: bool, save_seconds: float) -> Finished:
        place = self.place(run)
        for half in place.glob(".*"):  # files that a process was writing when it was killed
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
        except KeyboardInterrupt:  # a signal that leaves time to save
            save()
            raise
        row["wall_seconds"] = round(before + row["wall_seconds"], 3)
        text = history.to_csv(index=False).encode()
        write_atomically(place / "history.csv", text)
        stored = {"row": row, "history_sha256": hashlib.sha256(text).hexdigest(), "made": made}
        write_atomically(place / "row.json", _sealed(json_text(stored).removesuffix("\n}").encode()))
        checkpoint.path.unlink(missing_ok=True)
        done = self._read(run)
        assert done is not None, f"{place} was removed while it was written"
        return done[0]


_SEAL = b',\n "sha256": "'


def _sealed(content: bytes) -> bytes:
    """Complete the text of a row, which lacks its last brace, by a checksum."""
    return content + _SEAL + hashlib.sha256(content).hexdigest().encode() + b'"\n}\n'


def locked_folder(place: Path, wait: bool) -> contextlib.AbstractContextManager[Any]:
    """Lock the folder of a run for this process."""
    for _ in range(100):
        place.mkdir(parents=True, exist_ok=True)
        try:
            return FileLock(place / "lock", timeout=-1 if wait else 0).acquire()
        except Timeout:
            raise Busy(f"another process is working on {place}") from None
        except FileNotFoundError:  # the run of the other process failed, and its folder is gone
            continue
    raise OSError(f"{place / 'lock'} cannot be made")
