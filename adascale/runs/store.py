"""A store of runs, which survives a kill at any time: one folder per run, named by its address.

=============== ====================================================================================================
``spec.json``   the specification whose SHA-256 is the address
``checkpoint``  the state and history of an unfinished run
``history.csv`` one row per round of a finished run
``row.json``    the result with its provenance; written last, so a run that has it is finished
``lock``        held by the process that works on the run, until it ends
=============== ====================================================================================================
"""

import contextlib
import io
import json
import os
import time
from pathlib import Path
from typing import Any

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
from adascale.runs.execution import Finished, perform
from adascale.runs.specification import Run

WHOLE = {"round": int, "batch_size": int}
"""Columns of a history that hold whole numbers."""


class Store:
    """Runs and their results in a folder, which processes can share if the file system supports ``flock``."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"store {str(folder)!r} must be a folder")

    def place(self, run: Run) -> Path:
        """Return the folder of a run."""
        return self.folder / run.address

    def finished(self, run: Run) -> Finished | None:
        """Return the result of a run, or None."""
        place = self.place(run)
        if not (place / "row.json").exists():
            return None
        try:
            row = json.loads((place / "row.json").read_text())
            row |= {
                name: float(row[name]) for name in ("epsilon", "epsilon_mean")
            }  # may be infinite
            history = pd.read_csv(place / "history.csv", dtype=str).astype(
                float
            )  # through text, exactly as written
            history = history.astype(WHOLE)
            if len(history) != row["rounds"]:
                raise ValueError(
                    f"history.csv has {len(history)} of {row['rounds']} rounds"
                )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{place} cannot be read ({error}); delete the folder to run it again"
            ) from error
        return Finished(row, history)

    def under_way(self, run: Run) -> pd.DataFrame | None:
        """Return the history of a run up to its checkpoint, one row per round; None without a checkpoint."""
        content = self._read_checkpoint(run)
        return None if content is None else _history(content)

    def run(
        self,
        run: Run,
        *,
        device: str = "cpu",
        progress: bool = False,
        wait: bool = True,
        save_seconds: float = 30,
    ) -> Finished:
        """Return the result of a run: read it if finished, else run from the last checkpoint on.

        Save every ``save_seconds``.  Without ``wait``, raise :class:`~adascale.errors.Busy` if another process runs it.
        """
        find_device(device)
        place, result = self.place(run), self.finished(run)
        if result is not None:
            with contextlib.suppress(
                OSError
            ):  # a process killed between its last two steps left it; or read-only
                (place / "checkpoint").unlink(missing_ok=True)
            return result
        place.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(place / "lock", timeout=-1 if wait else 0):
                return self.finished(run) or self._perform(
                    run, device, progress, save_seconds
                )
        except Timeout:
            raise Busy(f"another process is working on {place}") from None

    def _perform(
        self, run: Run, device: str, progress: bool, save_seconds: float
    ) -> Finished:
        place = self.place(run)
        write_atomically(place / "spec.json", run.specification)
        resume, seconds_before = self._resume(run, device)
        start = saved = time.monotonic()
        reached: tuple[State, list[dict[str, Any]]] | None = None

        def save() -> None:
            if reached is None:
                return
            state, rows = reached
            values = [[row[name] for name in COLUMNS] for row in rows[: state.round]]
            content = {
                "conditions": _conditions(device),
                "seconds": seconds_before + time.monotonic() - start,
                "round": state.round,
                "parameters": state.parameters.cpu(),
                "velocity": state.velocity.cpu(),
                "history": torch.tensor(values, dtype=torch.float64),
            }
            buffer = io.BytesIO()
            torch.save(content, buffer)
            write_atomically(place / "checkpoint", buffer.getvalue())

        def keep(state: State, rows: list[dict[str, Any]]) -> None:
            nonlocal saved, reached
            reached = state, rows
            if time.monotonic() - saved >= save_seconds:
                save()
                saved = time.monotonic()

        try:
            row, history = perform(
                run, device=device, progress=progress, resume=resume, keep=keep
            )
        except KeyboardInterrupt:  # a signal that leaves time to save
            save()
            raise
        row["wall_seconds"] = round(seconds_before + row["wall_seconds"], 3)
        write_atomically(place / "history.csv", history)
        write_atomically(place / "row.json", json_text(row))
        (place / "checkpoint").unlink(missing_ok=True)
        result = self.finished(run)
        assert result is not None, f"{place} was removed while it was written"
        return result

    def _read_checkpoint(self, run: Run) -> dict[str, Any] | None:
        path = self.place(run) / "checkpoint"
        if not path.exists():
            return None
        try:
            content: dict[str, Any] = torch.load(path, weights_only=True)
        except Exception as error:  # torch.load raises many kinds
            raise ValueError(
                f"checkpoint {path} cannot be read; delete it to start the run again"
            ) from error
        return content

    def _resume(self, run: Run, device: str) -> tuple[Trained | None, float]:
        """Return the training up to the checkpoint and its seconds, to go on under the same conditions only."""
        content = self._read_checkpoint(run)
        if content is None:
            return None, 0.0
        for name, now in _conditions(device).items():
            if (then := content["conditions"][name]) != now:
                path = self.place(run) / "checkpoint"
                remedy = "continue it so, or delete it to start the run again"
                raise ValueError(
                    f"checkpoint {path} was made with {name} {then!r}, not {now!r}; {remedy}"
                )
        state = State(content["round"], content["parameters"], content["velocity"])
        return Trained(state, _history(content)), content["seconds"]


def _history(content: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(content["history"].numpy(), columns=COLUMNS).astype(WHOLE)


def _conditions(device: str) -> dict[str, Any]:
    """Return what a training has to share with its checkpoint."""
    return {
        "device": torch.device(device).type,
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "version": __version__,
    }
