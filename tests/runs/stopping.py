"""A run that is stopped under way."""

import pytest

from adascale.runs import store as module
from adascale.runs.execution import perform


class Stopped(BaseException):
    """As sudden as a signal, for what does not survive it."""


def begin(store, run, rounds=1):
    """Stop the run after so many rounds, with a checkpoint after each, and return the checkpoint's path."""

    def stopping(run, *, keep, **options):
        def until(state, rows):
            keep(state, rows)
            if len(rows) == rounds:
                raise Stopped

        return perform(run, keep=until, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "perform", stopping)
        patch.setattr(module, "SAVE_SECONDS", 0)
        with pytest.raises(Stopped):
            store.run(run)
    return store.place(run) / "checkpoint"
