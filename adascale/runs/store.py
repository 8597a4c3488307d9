"""A store of runs, which survives a kill at any time: one folder per run, named by its address.

=============== ====================================================================================================
``lock``        held by the process that writes the store, until it ends
``spec.json``   of a run: the specification whose SHA-256 is the address
``checkpoint``  the state and history of an unfinished run
``history.csv`` one row per round of a finished run
``row.json``    the result with its provenance; written last, so a run that has it is finished
=============== ====================================================================================================
"""

import contextlib
import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from filelock import FileLock, Timeout

from adascale import __version__
from adascale.errors import Busy as Busy
from adascale.files import json_text, write_atomically, write_together
from adascale.learning import Trained
from adascale.learning.devices import find_device
from adascale.learning.fedsgd import State
from adascale.learning.training import COLUMNS
from adascale.runs.execution import Finished, perform
from adascale.runs.specification import Run

SAVE_SECONDS = 30.0
"""Seconds between the checkpoints of a run, the most that a kill loses."""

_WHOLE = {"round": int, "batch_size": int}
"""Columns of a history that hold whole numbers."""


class Store:
    """Runs and their results in a folder, which one process at a time writes and any number may read."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"store {str(folder)!r} must be a folder")

    def place(self, run: Run) -> Path:
        """Return the folder of a run."""
        return self.folder / run.address

    def has(self, run: Run) -> bool:
        """Return whether a run is finished, without reading its result."""
        return (self.place(run) / "row.json").exists()

    def finished(self, run: Run) -> Finished | None:
        """Read the result of a run; None if it is not finished."""
        place = self.place(run)
        if not self.has(run):
            return None
        try:
            row = json.loads((place / "row.json").read_text())
            for name in ("epsilon", "epsilon_mean"):
                row[name] = float(row[name])  # "Infinity" is text in JSON
            texts = pd.read_csv(place / "history.csv", dtype=str)
            # every field is a number, exactly as written: some of pandas' parsers round
            history = texts.astype(float).astype(_WHOLE)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{place} cannot be read ({error}); delete the folder to run it again"
            ) from error
        return Finished(row, history)

    def rounds_done(self, run: Run) -> int:
        """Return how many rounds of a run are finished, up to its checkpoint."""
        if self.has(run):
            return run.scenario.num_rounds
        checkpoint = _read_checkpoint(self.place(run) / "checkpoint")
        return 0 if checkpoint is None else len(checkpoint["history"])

    def run(self, run: Run, *, device: str = "cpu", progress: bool = False) -> Finished:
        """Return the result of a run: read it if finished, else continue from the last checkpoint and store it."""
        find_device(device)
        result = self.finished(run)
        if result is not None:
            return result
        with self.locked():
            result = resume(run, self.folder, device=device, progress=progress)
            self.write(run, result)
        return result

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the store for writing; raise :class:`~adascale.errors.Busy` if another process has locked it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = FileLock(self.folder / "lock", timeout=0).acquire()
        except Timeout:
            raise Busy(
                f"store {str(self.folder)!r} is in use by another process"
            ) from None
        with lock:
            yield

    def write(self, run: Run, result: Finished) -> None:
        """Write the result of a run, and remove its checkpoint."""
        place = self.place(run)
        place.mkdir(exist_ok=True)
        files = {
            "spec.json": run.specification,
            "history.csv": result.history,
            "row.json": json_text(result.row),
        }
        write_together({place / name: content for name, content in files.items()})
        (place / "checkpoint").unlink(missing_ok=True)


def resume(
    run: Run, folder: Path, *, device: str = "cpu", progress: bool = False
) -> Finished:
    """Perform a run from its last checkpoint on, and save one every :data:`SAVE_SECONDS`.

    Checkpoints are kept in the store ``folder``.  A machine that does not see this folder keeps none.
    """
    path = folder / run.address / "checkpoint"
    trained, seconds_before = _trained(path, device)
    start = saved = time.monotonic()

    def keep(state: State, rows: list[dict[str, Any]]) -> None:
        nonlocal saved
        now = time.monotonic()
        if now - saved >= SAVE_SECONDS and folder.is_dir():
            path.parent.mkdir(exist_ok=True)
            _write_checkpoint(path, state, rows, device, seconds_before + now - start)
            saved = now

    how: dict[str, Any] = {"device": device, "progress": progress}
    row, history = perform(run, resume=trained, keep=keep, **how)
    row["wall_seconds"] = round(seconds_before + row["wall_seconds"], 3)
    return Finished(row, history)


def _write_checkpoint(
    path: Path, state: State, rows: list[dict[str, Any]], device: str, seconds: float
) -> None:
    """Write the state and the history of the rounds so far, and the seconds that they took."""
    history = [[*row.values()] for row in rows]
    buffer = io.BytesIO()
    content = {
        "conditions": _conditions(device),
        "seconds": seconds,
        "state": (state.round, state.parameters.cpu(), state.velocity.cpu()),
        "history": torch.tensor(history, dtype=torch.float64),
    }
    torch.save(content, buffer)
    write_atomically(path, buffer.getvalue())


def _read_checkpoint(path: Path) -> dict[str, Any] | None:
    """Return what :func:`_write_checkpoint` wrote; None if there is no checkpoint."""
    if not path.exists():
        return None
    try:
        checkpoint: dict[str, Any] = torch.load(path, weights_only=True)
    except Exception as error:  # torch.load raises many kinds
        raise ValueError(
            f"checkpoint {path} cannot be read; delete it to start the run again"
        ) from error
    return checkpoint


def _trained(path: Path, device: str) -> tuple[Trained | None, float]:
    """Return the training up to the checkpoint and its seconds; raise ``ValueError`` under other conditions."""
    checkpoint = _read_checkpoint(path)
    if checkpoint is None:
        return None, 0.0
    for name, now in _conditions(device).items():
        then = checkpoint["conditions"][name]
        if then != now:
            raise ValueError(
                f"checkpoint {path} was made with {name} {then!r}, not {now!r}; "
                "continue it so, or delete it to start the run again"
            )
    history = pd.DataFrame(checkpoint["history"].numpy(), columns=COLUMNS)
    trained = Trained(State(*checkpoint["state"]), history.astype(_WHOLE))
    return trained, checkpoint["seconds"]


def _conditions(device: str) -> dict[str, Any]:
    """Return the conditions that a training has to share with its checkpoint, as others could change its last bits."""
    return {
        "device": torch.device(device).type,
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "version": __version__,
    }
