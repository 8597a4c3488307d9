r"""Audits of the book's trainings: ``python -m companion make audit-mnist`` and ``audit-paired``.

Gradient canaries in trainings as the accountant believes them to be, without the receiver's noise, and on a device that
does not clip; mislabelled scans, told from the final model alone; and the same of short trainings of the digits with
and without one sample (:ref:`sec-audit`).
"""

import pandas as pd
import torch

from adascale.audit import audit_gradients
from adascale.learning import data
from adascale.policies import Optimal
from adascale.runs.execution import problem_of
from adascale.runs.specification import make_run
from companion.privacy.black_box import audit_samples
from companion.privacy.paired_audit import Audited, audit_paired

BUDGETS = {"digits": (0.16, 2.56), "mnist": (0.04, 0.16), "paired": (0.16, 0.64)}
"""Two budgets for each table; on the book's grid the digits have little privacy, so their second is beyond it."""
SETTINGS = ("as claimed", "no noise", "not clipped", "final model")
"""Three audits by gradient canaries and one by mislabelled scans."""
POLICY = "Optimal"
SIZES = {"digits": (8000, 1, 280, None), "mnist": (20_000, 2, 2000, 100)}
"""Canaries in each training as claimed, such trainings, mislabelled scans, and the rounds of a broken training.

What is leaked at once needs no more than a thousand canaries, nor the whole horizon.
"""
PAIRED_ROUNDS, PAIRED_RUNS, BROKEN_RUNS = 20, 1000, 400
"""Each paired run is one trial, so it takes many, and short ones."""


def _audited(dataset: str, nu: float, rounds: int | None) -> Audited:
    """Return a training of a preset at seed 0 with the optimum's schedule."""
    run = make_run(dataset, POLICY, nu, 0, rounds=rounds)
    problem, _ = problem_of(run)
    w = Optimal().schedule(problem)
    loaded = data.load(run.training.dataset, run.training.input_scaling)
    return Audited(problem, w, run.training, loaded, 0)


def _with_canaries(dataset, nu):
    """Return what is audited in each of the settings, and the audits."""
    canaries, runs, scans, rounds = SIZES[dataset]
    whole, short = (_audited(dataset, nu, number) for number in (None, rounds))
    return [
        (whole, audit_gradients(*whole, canaries, runs=runs)),
        (short, audit_gradients(*short, 1000, noise=False)),
        (short, audit_gradients(*short, 1000, norm=10.0)),
        (whole, audit_samples(*whole, scans)),
    ]


def _in_pairs(nu):
    """Return the same of paired runs on the digits."""
    audited = _audited("digits", nu, PAIRED_ROUNDS)
    heard, final = audit_paired(audited, PAIRED_RUNS)
    silent, _ = audit_paired(audited, BROKEN_RUNS, noise=False)
    loud, _ = audit_paired(audited, BROKEN_RUNS, norm=10.0)
    return [(audited, audit) for audit in (heard, silent, loud, final)]


def committed(name: str) -> pd.DataFrame:
    """Return a committed table: of a data set, or ``paired``."""
    torch.set_num_threads(1)
    rows = []
    for nu in BUDGETS[name]:
        audits = _in_pairs(nu) if name == "paired" else _with_canaries(name, nu)
        for setting, (audited, audit) in zip(SETTINGS, audits, strict=True):
            row = {
                "dataset": audited.training.dataset,
                "nu": nu,
                "setting": setting,
                "policy": POLICY,
                "rounds": audited.problem.num_rounds,
                **audit._asdict(),
                "refuted": " ".join(audit.refuted),
            }
            rows.append(row)
    return pd.DataFrame(rows)
