"""The committed results that the chapters read, in a checkout and in an installed package."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["folder", "stand_in"]

Made = Iterator[tuple[str, dict[str, Any]]]
"""What makes committed files yields: the text of each, and what its provenance states."""


def folder() -> Path:
    """The committed results: ``results/`` of a checkout, or the copy that every wheel brings.

    Returns
    -------
    pathlib.Path
        A folder with one folder a topic, such as ``mnist/accuracy.csv``.
    """
    return Path(__file__).parent / "tables"  # in a checkout, a link


def stand_in() -> None:
    """Make ``../results`` the committed results, for a notebook that is run away from its repository.

    Where ``../results`` has them already, nothing happens.  Elsewhere the process goes to an empty folder of its own
    with :func:`folder` beside it; the folder goes when the process ends.
    """
    if (Path("../results") / "mnist").is_dir():
        return
    place = Path(tempfile.mkdtemp(prefix="adascale-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    (place / "results").symlink_to(folder())
    (place / "notebooks").mkdir()
    os.chdir(place / "notebooks")
