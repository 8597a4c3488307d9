r"""Audits of the book's trainings: ``python -m companion make audit-mnist`` and ``audit-paired``.

Gradient canaries in trainings as the accountant believes them to be, without the receiver's noise, and on a device that
does not clip; mislabelled scans, told from the final model alone; and the same of short trainings of the digits with
and without one sample (:ref:`sec-audit`).
"""

from typing import NamedTuple

import pandas as pd
import torch

from adascale.audit import audit_gradients
from adascale.comparison import find_method
from adascale.learning import data
from adascale.runs.execution import problem_of
from adascale.runs.specification import make_run
from companion.privacy.black_box import audit_samples
from companion.privacy.paired_audit import Audited, audit_paired
from companion.results import Rows

BUDGETS = {"digits": (0.16, 2.56), "mnist": (0.04, 0.16), "paired": (0.16, 0.64)}
"""Two budgets for each table; on the book's grid the digits have little privacy, so their second is beyond it."""
SETTINGS = ("as claimed", "no noise", "not clipped", "final model")
"""Three audits by gradient canaries and one by mislabelled scans."""
POLICY = "Optimal"


class Size(NamedTuple):
    """How many canaries a data set's audits have, and in how many trainings.

    ``broken`` canaries are in the one training without noise, or without clipping; there ``broken_rounds`` is a shorter
    horizon, as what is leaked at once needs no more.  ``scans`` are mislabelled ones.
    """

    canaries: int
    runs: int
    broken: int
    scans: int
    broken_rounds: int | None = None


SIZES = {"digits": Size(8000, 1, 1000, 280), "mnist": Size(20_000, 2, 1000, 2000, 100)}


def audit_rows(dataset: str, nu: float, size: Size) -> Rows:
    """Audit the training of a preset at seed 0 with the optimum's schedule: a row for each of :data:`SETTINGS`."""
    whole_horizon = _arguments(dataset, nu, None)
    short = _arguments(dataset, nu, size.broken_rounds)
    claimed = audit_gradients(*whole_horizon, size.canaries, runs=size.runs)
    broken = [
        audit_gradients(*short, size.broken, noise=False),
        audit_gradients(*short, size.broken, norm=10.0),
    ]
    return _rows(
        dataset,
        nu,
        [whole_horizon, short, short, whole_horizon],
        [claimed, *broken, audit_samples(*whole_horizon, size.scans)],
    )


def paired_rows(
    nu: float, runs: int = 1000, broken_runs: int = 400, rounds: int = 20
) -> Rows:
    """Audit paired runs on the digits: what the server hears in three settings, and the final model.

    Each run is one trial, so it takes many, and short ones.
    """
    audited = _arguments("digits", nu, rounds)
    heard, final = audit_paired(audited, runs)
    broken = [
        audit_paired(audited, broken_runs, **how)[0]
        for how in ({"noise": False}, {"norm": 10.0})
    ]
    return _rows("digits", nu, [audited] * 4, [heard, *broken, final])


def _arguments(dataset: str, nu: float, rounds: int | None) -> Audited:
    """Return what every audit takes first."""
    run = make_run(dataset, POLICY, nu, 0, rounds=rounds)
    problem, mean_gain = problem_of(run)
    w = find_method(run.policy)[1](problem, mean_gain, run.channel).schedule(problem)
    return Audited(
        problem,
        w,
        run.training,
        data.load(run.training.dataset, run.training.input_scaling),
        0,
    )


def _rows(dataset, nu, audited, audits):
    for setting, arguments, audit in zip(SETTINGS, audited, audits, strict=True):
        yield {
            "dataset": dataset,
            "nu": nu,
            "setting": setting,
            "policy": POLICY,
            "rounds": arguments.problem.num_rounds,
            **audit._asdict(),
            "refuted": " ".join(audit.refuted),
        }


def committed(name: str) -> pd.DataFrame:
    """Return a committed table: of a data set, or ``paired``."""
    torch.set_num_threads(1)
    tables = [
        paired_rows(nu) if name == "paired" else audit_rows(name, nu, SIZES[name])
        for nu in BUDGETS[name]
    ]
    return pd.DataFrame([row for rows in tables for row in rows])
