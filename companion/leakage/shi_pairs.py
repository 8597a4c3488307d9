r"""The pairs of Shi et al. that cost the budget: cost against V, what each leaks, and what a filled queue changes."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import gmean

from adascale.comparison.shi_tuning import LyapunovMatch, match_lyapunov
from adascale.policies import LyapunovPowerControl, Optimal
from adascale.problem import Problem
from adascale.scenario import FloatArray
from adascale.tuning import match_budget
from companion.shi import capped_level, filled_lyapunov


def penalty_scan(
    problem: Problem,
    relative_rates: ArrayLike,
    relative_penalties: ArrayLike,
) -> FloatArray:
    r"""Cost over :math:`\nu` of Shi et al., from an empty queue, of one lane on a grid, shape (R, P).

    The R rates :math:`\bar\eta` are relative to the optimum's mean scaling, and the P penalties are
    :math:`V / \bar\eta^3`.
    """
    relative = np.asarray(relative_rates)[:, None]
    multiple = np.asarray(relative_penalties)
    rate = np.broadcast_to(
        relative * problem.eta(Optimal().schedule(problem)).mean(),
        (relative.size, multiple.size),
    )
    grid = Problem(
        problem.scenario, problem.min_gain, np.full(rate.shape, problem.budget)
    )
    return (
        grid.cost(LyapunovPowerControl(multiple * rate**3, rate).schedule(grid))
        / problem.budget
    )


def pair_table(problem: Problem, matched: LyapunovMatch) -> pd.DataFrame:
    r"""Add ``nu``; ``relative_penalty``, :math:`V / \bar\eta^3`; and ``over``, epsilon over Optimal's, to all pairs."""
    pairs = matched.pairs
    optimal = problem.epsilon(Optimal().schedule(problem)).ravel()
    return pairs.assign(
        nu=np.broadcast_to(problem.budget, problem.batch_shape).ravel()[
            pairs["instance"]
        ],
        relative_penalty=pairs["penalty"] / pairs["rate"] ** 3,
        over=pairs["epsilon"] / optimal[pairs["instance"]],
    )


def lyapunov_starts(
    problem: Problem, matched: LyapunovMatch | None = None
) -> pd.DataFrame:
    r"""Shi et al. with its queue empty and filled, at equal cost: what the start explains, and what re-tuning V adds.

    ``"empty"`` is the kindest pair.  ``"filled"`` keeps its :math:`V / \bar\eta^3` in every lane and fills the queue to
    where it would rest if no cap bound, ``"at rest"`` to where it rests under the caps; the rate is tuned to the budget
    again.  ``"empty, k"``, ``"filled, k"`` and ``"at rest, k"`` have :math:`V = k\,\bar\eta^3` in all lanes, and the
    rate is tuned; an empty queue is tried with 30 alone, since with less the cost may jump over the budget.

    The lanes are (budgets, realisations), and a row is a start and budget: ``start, nu``; ``ratio``, epsilon over the
    optimum's (geometric mean); ``gone``, the share of the kindest pair's excess of that mean over 1 that goes, negative
    where leakage grows; and ``fill``, the queue at the start over what it holds at rest, a geometric mean.
    """
    match = match_lyapunov(problem) if matched is None else matched
    mean_eta = problem.eta(Optimal().schedule(problem)).mean(axis=-1)
    multiples = match.penalty / match.rate**3

    def empty(rate):
        return LyapunovPowerControl(30 * rate**3, rate)

    policies = {
        "empty": LyapunovPowerControl(match.penalty, match.rate),
        "filled": filled_lyapunov(problem, multiple=multiples),
        "at rest": filled_lyapunov(problem, multiple=multiples, capped=True),
        "empty, 30": empty(match_budget(empty, problem, guess=mean_eta)),
        **{
            f"filled, {k}": filled_lyapunov(problem, multiple=k)
            for k in (3, 10, 30, 100)
        },
        "at rest, 30": filled_lyapunov(problem, multiple=30.0, capped=True),
    }
    optimal = problem.epsilon(Optimal().schedule(problem))
    rows = []
    for name, policy in policies.items():
        ratio = problem.epsilon(policy.schedule(problem)) / optimal
        rest = policy.penalty / capped_level(problem.max_eta, policy.rate) ** 2
        fill = policy.initial_queue / rest
        columns = {
            "start": name,
            "nu": np.ravel(problem.budget),
            "ratio": gmean(ratio, axis=-1),
            "fill": 0.0 if name.startswith("empty") else gmean(fill, axis=-1),
        }
        rows.append(pd.DataFrame(columns))
    table = pd.concat(rows, ignore_index=True)
    excess = table.ratio.to_numpy().reshape(len(policies), -1) - 1
    return table.assign(gone=(1 - excess / excess[0]).ravel())
