"""Read the committed results of the chapters, in a checkout and in an installed package, and compare policies."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from adascale.workers import map_tasks
from companion.claims import averaged

__all__ = ["Ratio", "Rows", "folder", "load", "ratio", "stand_in", "tabulate", "wide"]


Rows = Iterable[dict[str, Any]]
"""What a study yields for each of its tasks: the rows of a table."""


def folder() -> Path:
    """Return the folder of the committed results: ``results/`` of a checkout, or the copy in every wheel."""
    return Path(__file__).parent / "tables"  # in a checkout, a link


def tabulate(
    rows: Callable[..., Rows],
    tasks: Iterable[Any],
    executor: Executor | None = None,
) -> pd.DataFrame:
    """Return the rows that a function yields for each task, a tuple of arguments or a single one."""
    parts = map_tasks(partial(_listed, rows), tasks, executor)
    return pd.DataFrame([row for part in parts for row in part])


def _listed(rows, task):
    return [*(rows(*task) if isinstance(task, tuple) else rows(task))]


def load(name: str) -> pd.DataFrame:
    """Read one committed table by its path below :func:`folder` without the ending, such as ``"mnist/accuracy"``.

    One row per training, or per policy and realisation; a policy without a result in a realisation has none.
    """
    path = folder() / f"{name}.csv"
    if not path.is_file():
        names = sorted(
            str(table.relative_to(folder()).with_suffix(""))
            for table in folder().glob("*/*.csv")
        )
        raise ValueError(f"name must be one of {', '.join(names)}, got {name!r}")
    with path.open(encoding="utf-8") as file:
        heads = file.readline().split(",")
    is_wide = heads[:2] == ["policy", ""]
    return _read_wide(path, heads.count("") + 1) if is_wide else pd.read_csv(path)


def _read_wide(path, levels):
    """Read what :func:`wide` arranges: ``policy``, the columns of the row, and what is stored of each."""
    table = pd.read_csv(path, header=[0, 1], index_col=[*range(levels)])
    policies, columns = (
        list(dict.fromkeys(table.columns.get_level_values(level))) for level in (0, 1)
    )
    parts = [
        table[name].dropna(how="all").reset_index().assign(policy=name)
        for name in policies
    ]
    return pd.concat(parts, ignore_index=True)[["policy", *table.index.names, *columns]]


def wide(
    table: pd.DataFrame, columns: Sequence[str], row: Sequence[str] = ("nu", "seed")
) -> pd.DataFrame:
    """Arrange these columns, where they have a value: a line a ``row``, under two lines, policy and column."""
    order = list(dict.fromkeys(table["policy"]))
    arranged = table.pivot(
        index=[*row], columns="policy", values=list(columns)
    ).swaplevel(axis=1)
    named = [(name, value) for name in order for value in columns]
    return arranged[named].dropna(axis=1, how="all")


class Ratio(NamedTuple):
    """A ratio averaged over realisations, and the ends of its 95 % confidence interval."""

    estimate: float
    low: float
    high: float


def ratio(
    table: pd.DataFrame,
    policy: str,
    reference: str = "Optimal",
    column: str = "rdp",
    mean: str = "geometric",
    **where: Any,
) -> Ratio:
    r"""Average one policy's values over another's on the same realisations, with the paired 95 % interval.

    ``mean`` is one of :func:`companion.claims.averaged`.  A seed names a realisation, and ``where`` selects rows by
    further columns, such as ``nu=0.04``.
    """
    for name, value in where.items():
        table = _rows(table, name, value)
    sides = []
    for name in (policy, reference):
        values = _rows(table, "policy", name).set_index("seed")[column]
        if values.index.has_duplicates:
            counts = f"{len(values)} rows for {values.index.nunique()}"
            raise ValueError(
                f"{name} must have one row per seed, got {counts}; nu=... selects some"
            )
        sides.append(values)
    top, bottom = pd.concat(sides, axis=1, join="inner").to_numpy().T
    return Ratio(*(float(end) for end in averaged([top], [bottom], mean)[1:4]))


def _rows(table, name, value):
    """Return the rows with a value in a column, or an error that says which values there are."""
    rows = table[table[name] == value]
    if rows.empty:
        values = ", ".join(map(str, table[name].unique()))
        raise ValueError(f"no row has {name} = {value!r}, only {values}")
    return rows


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
