r"""The pairs of Shi et al. that cost the budget: cost against V, what each leaks, and what a filled queue changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.comparison.shi_tuning import LyapunovMatch, match_lyapunov
from adascale.policies import LyapunovPowerControl, Optimal
from adascale.problem import ReceiveScalingProblem
from adascale.statistics import log_interval
from adascale.tuning import match_budget
from companion.shi import capped_level, filled_lyapunov

FloatArray = NDArray[np.float64]

_RESAMPLES = 10_000


def penalty_scan(
    problem: ReceiveScalingProblem, relative_rates: ArrayLike, relative_penalties: ArrayLike
) -> FloatArray:
    r"""Cost over :math:`\nu` of Shi et al., from an empty queue, on a grid of rates and penalties.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        One lane.
    relative_rates : array_like
        :math:`\bar\eta` over the optimum's mean scaling, shape (R,).
    relative_penalties : array_like
        :math:`V / \bar\eta^3`, shape (P,).

    Returns
    -------
    numpy.ndarray
        Shape (R, P).
    """
    if problem.lanes != ():
        raise ValueError(f"problem must have no lanes, got {problem.lanes}")
    relative = check.positive("relative_rates", relative_rates)[:, None]
    multiple = check.positive("relative_penalties", relative_penalties)
    rate = np.broadcast_to(relative * Optimal().schedule(problem).mean(), (relative.size, multiple.size))
    lanes = ReceiveScalingProblem(problem.scenario, problem.min_gain, np.full(rate.shape, problem.budget))
    cost: FloatArray = lanes.cost(LyapunovPowerControl(multiple * rate**3, rate).schedule(lanes))
    return cost / problem.budget


def pair_table(problem: ReceiveScalingProblem, matched: LyapunovMatch) -> pd.DataFrame:
    r"""All pairs found, beside the optimum.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        What was matched.
    matched : LyapunovMatch
        Of :func:`~adascale.comparison.shi_tuning.match_lyapunov`.

    Returns
    -------
    pandas.DataFrame
        ``matched.pairs`` with ``nu``; ``relative_penalty``, :math:`V / \bar\eta^3`; and ``over``, the epsilon over the
        optimum's.
    """
    pairs, optimal = matched.pairs, problem.dp_epsilon(Optimal().schedule(problem)).ravel()
    budget = np.broadcast_to(problem.budget, problem.lanes).ravel()
    return pairs.assign(
        nu=budget[pairs["lane"]],
        relative_penalty=pairs["penalty"] / pairs["rate"] ** 3,
        over=pairs["epsilon"] / optimal[pairs["lane"]],
    )


def lyapunov_starts(
    problem: ReceiveScalingProblem,
    matched: LyapunovMatch | None = None,
    multiples: tuple[float, ...] = (3.0, 10.0, 30.0, 100.0),
) -> pd.DataFrame:
    r"""Shi et al. with its queue empty and filled, at equal cost: what the start explains, and what re-tuning V adds.

    ``"empty"`` is the kindest pair.  ``"filled"`` keeps its :math:`V / \bar\eta^3` in every lane and fills the queue to
    where it would rest if no cap bound, ``"at rest"`` to where it rests under the caps; the rate is tuned to the budget
    again.  ``"empty, k"``, ``"filled, k"`` and ``"at rest, k"`` have :math:`V = k\,\bar\eta^3` in all lanes, and the
    rate is tuned; an empty queue is tried with 30 alone, since with less the cost may jump over the budget.

    Parameters
    ----------
    problem : ReceiveScalingProblem
        Lanes (budgets, realisations).
    matched : LyapunovMatch, optional
        Of the same problem; default: found here.
    multiples : tuple of float
        The k of a filled queue.

    Returns
    -------
    pandas.DataFrame
        A row a start and budget: ``start, nu``; ``ratio, low, high``, epsilon over the optimum's (geometric mean and
        95 % t interval); ``gone, gone_low, gone_high``, the share of the kindest pair's excess of that mean over 1 that
        goes (95 % paired bootstrap interval), negative where leakage grows; and ``fill``, the queue at the start over
        what it holds at rest, a geometric mean.

    Raises
    ------
    ValueError
        If the problem does not have two axes of lanes.
    BudgetNotReached
        If some lane's cost cannot be brought to its budget.
    """
    if len(problem.lanes) != 2:
        raise ValueError(f"problem must have lanes (budgets, realisations), got {problem.lanes}")
    found = match_lyapunov(problem) if matched is None else matched
    mean_eta = Optimal().schedule(problem).mean(axis=-1)
    kept = found.penalty / found.rate**3

    def empty(rate: FloatArray) -> LyapunovPowerControl:
        return LyapunovPowerControl(30 * rate**3, rate)

    chosen = {
        "empty": LyapunovPowerControl(found.penalty, found.rate),
        "filled": filled_lyapunov(problem, multiple=kept),
        "at rest": filled_lyapunov(problem, multiple=kept, capped=True),
        "empty, 30": empty(match_budget(empty, problem, guess=mean_eta)),
        **{f"filled, {multiple:g}": filled_lyapunov(problem, multiple=multiple) for multiple in multiples},
        "at rest, 30": filled_lyapunov(problem, multiple=30.0, capped=True),
    }
    caps = np.broadcast_to(problem.max_eta, (*problem.lanes, problem.num_rounds))
    fill = {
        name: np.asarray(policy.initial_queue) * capped_level(caps, policy.rate) ** 2 / np.asarray(policy.penalty)
        for name, policy in chosen.items()
        if not name.startswith("empty")
    }
    optimal = problem.dp_epsilon(Optimal().schedule(problem))
    over = {name: problem.dp_epsilon(policy.schedule(problem)) / optimal for name, policy in chosen.items()}
    count = problem.lanes[1]
    weight = np.random.default_rng(0).multinomial(count, [1 / count] * count, _RESAMPLES) / count
    rows = []
    for name, ratios in over.items():
        filled = np.exp(np.log(fill[name]).mean(axis=-1)) if name in fill else np.zeros(problem.lanes[0])
        each = zip(np.ravel(problem.budget), np.log(over["empty"]), np.log(ratios), filled, strict=True)
        for nu, before, after, queue in each:
            gone = 1 - np.expm1(after.mean()) / np.expm1(before.mean())
            ends = np.quantile(1 - np.expm1(weight @ after) / np.expm1(weight @ before), [0.025, 0.975])
            rows.append((name, nu, *log_interval(np.exp(after)), gone, *ends, queue))
    return pd.DataFrame(rows, columns=["start", "nu", "ratio", "low", "high", "gone", "gone_low", "gone_high", "fill"])
