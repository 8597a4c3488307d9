"""Functions of the user's, called by their names."""

from __future__ import annotations

from typing import Any

from adascale import registry


def call(kind: str, name: str) -> Any:
    """What the function or class returns that a name stands for, called without arguments.

    Parameters
    ----------
    kind : str
        ``datasets`` or ``models``.
    name : str
        See :func:`adascale.registry.find`.

    Raises
    ------
    ValueError
        If there is nothing of that name and kind, or it raises an error: with the name and that error.
    FileNotFoundError
        If it raises one; the message says which file.
    """
    found = registry.find(kind, name).value
    what = f"{kind.removesuffix('s')} {name!r}"
    try:
        return found()
    except FileNotFoundError as error:
        if error.filename is None:  # a reader's own message, which says what to do
            raise
        raise FileNotFoundError(f"{what}: {error}") from error
    except registry.FAILURES as error:  # whatever the user's code does
        raise ValueError(f"{what} failed: {registry.own_place(error)}{type(error).__name__}: {error}") from error
