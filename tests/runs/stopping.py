"""A run that is stopped under way."""

import pytest

from adascale.runs import store as module
from adascale.runs.execution import perform
from adascale.runs.store import Checkpoint


class Stopped(BaseException):
    """As sudden as a signal, for what does not survive it."""


def begin(store, run, rounds=1, stopped=Stopped, save_seconds=0):
    """Stop the run after so many rounds, a checkpoint having been written after each; the checkpoint."""

    def stopping(run, *, keep, **options):
        def until(state, rows):
            keep(state, rows)
            if len(rows) == rounds:
                raise stopped

        return perform(run, keep=until, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "perform", stopping)
        with pytest.raises(stopped):
            store.run(run, save_seconds=save_seconds)
    return Checkpoint(store.place(run) / "checkpoint", run)
