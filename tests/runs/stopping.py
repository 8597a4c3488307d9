"""A run that is stopped under way."""

import pytest

from adascale.runs import store as module
from adascale.runs.execution import perform


class Stopped(BaseException):
    """As sudden as a signal, for what does not survive it."""


def begin(store, run, rounds=1, stopped=Stopped, save_seconds=0):
    """Stop the run after so many rounds, with a checkpoint after each, and return the checkpoint's path."""

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
    return store.place(run) / "checkpoint"
