r"""Audits of the book's trainings: ``python -m companion make audit-mnist`` and ``audit-paired``.

Gradient canaries in trainings as the accountant believes them to be, without the receiver's noise, and on a device that
does not clip; mislabelled scans, told from the final model alone; and the same of short trainings of the digits with
and without one sample (:ref:`chap-how-private`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd
import torch

from adascale.audit import Audit, audit_gradients
from adascale.comparison import as_method, find_method
from adascale.learning import data
from adascale.runs.execution import problem_of
from adascale.runs.specification import make_run
from companion.privacy.black_box import audit_samples
from companion.privacy.paired_audit import Audited, audit_paired
from companion.results import Made

BUDGETS = {"digits": (0.16, 2.56), "mnist": (0.04, 0.16)}
"""Two budgets for each data set; on the book's grid the digits have little privacy, so their second is beyond it."""
SETTINGS = ("as claimed", "no noise", "not clipped", "final model")
"""Three audits by gradient canaries and one by mislabelled scans."""
POLICY = "Optimal"


class Size(NamedTuple):
    """How many canaries a data set's audits have."""

    canaries: int
    """Of gradients, in each training."""
    runs: int
    """Trainings."""
    broken: int
    """Of gradients, in the one training without noise, or without clipping."""
    scans: int
    """Mislabelled ones."""
    broken_rounds: int | None = None
    """A shorter horizon where noise or clipping is missing, as what is leaked at once needs no more."""


SIZES = {"digits": Size(8000, 1, 1000, 280), "mnist": Size(20_000, 2, 1000, 2000, 100)}


class Pairs(NamedTuple):
    """How many paired runs there are."""

    runs: int
    """Trainings as claimed."""
    broken: int
    """Trainings without noise, or without clipping."""
    rounds: int
    """Of each of them."""


PAIRED_BUDGETS = (0.16, 0.64)
"""Each training is one trial, so it takes many, and a short one of the digits."""
PAIRS = Pairs(1000, 400, 20)


def audit_row(
    dataset: str, nu: float, setting: str, *, policy: str = POLICY, size: Size | None = None
) -> dict[str, Any]:
    r"""One audit: the training of a preset, at seed 0, with a policy's schedule for :math:`\nu`.

    Parameters
    ----------
    dataset : str
        A preset.
    nu : float, > 0
    setting : str
        One of :data:`SETTINGS`.
    policy : str
        A name for :func:`adascale.comparison.find_method`.
    size : Size, optional
        How many canaries; default that of the data set.

    Returns
    -------
    dict
        ``dataset, nu, setting, policy, rounds``, the fields of :class:`~adascale.audit.Audit`, and ``refuted``: the
        names of the bounds that exceed what is accounted for.
    """
    if setting not in SETTINGS:
        raise ValueError(f"setting must be one of {', '.join(SETTINGS)}, got {setting!r}")
    size = SIZES[dataset] if size is None else size
    broken = setting in ("no noise", "not clipped")
    given = _given(dataset, nu, policy, size.broken_rounds if broken else None)
    audit: Audit
    if setting == "as claimed":
        audit = audit_gradients(*given, size.canaries, runs=size.runs)
    elif setting == "no noise":
        audit = audit_gradients(*given, size.broken, noise=False)
    elif setting == "not clipped":
        audit = audit_gradients(*given, size.broken, norm=10.0)
    else:
        audit = audit_samples(*given, size.scans)
    return _row(dataset, nu, setting, policy, given, audit)


def audit_table(dataset: str, budgets: Iterable[float] | None = None, **how: Any) -> pd.DataFrame:
    """A row a budget and setting, see :func:`audit_row`, which takes what else is given."""
    chosen = BUDGETS[dataset] if budgets is None else budgets
    return pd.DataFrame([audit_row(dataset, nu, setting, **how) for nu in chosen for setting in SETTINGS])


def paired_table(budgets: Iterable[float] = PAIRED_BUDGETS, *, pairs: Pairs = PAIRS) -> pd.DataFrame:
    """The same table of paired runs on the digits: what the server hears in three settings, and the final model."""
    rows = []
    for nu in budgets:
        given = _given("digits", nu, POLICY, pairs.rounds)
        heard, final = audit_paired(given, pairs.runs)
        broken = [audit_paired(given, pairs.broken, **how)[0] for how in ({"noise": False}, {"norm": 10.0})]
        for setting, audit in zip(SETTINGS, (heard, *broken, final), strict=True):
            rows.append(_row("digits", nu, setting, POLICY, given, audit))
    return pd.DataFrame(rows)


def _given(dataset: str, nu: float, policy: str, rounds: int | None) -> Audited:
    """What every audit takes first."""
    run = make_run(dataset, policy, nu, 0, rounds=rounds)
    problem, mean_gain = problem_of(run)
    eta = as_method(find_method(run.policy)[1], run.channel)(problem, mean_gain).schedule(problem)
    return Audited(problem, eta, run.training, data.load(run.training.dataset, run.training.input_scaling), 0)


def _row(dataset: str, nu: float, setting: str, policy: str, given: Audited, audit: Audit) -> dict[str, Any]:
    about = {"dataset": dataset, "nu": nu, "setting": setting, "policy": policy, "rounds": given.problem.num_rounds}
    return about | audit._asdict() | {"refuted": " ".join(audit.refuted)}


def committed(name: str) -> Made:
    """A committed table: of a data set, or ``paired``."""
    torch.set_num_threads(1)
    table = paired_table() if name == "paired" else audit_table(name)
    yield table.to_csv(index=False, float_format="%.7g"), {"seed": 0, "threads": 1}
