"""The two parameters of Shi et al. for a noise budget, by a search over pairs."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adascale import checks as check
from adascale.accounting import OrdersTooFew
from adascale.checks import FloatArray, IndexArray
from adascale.comparison.methods import Method, of_function
from adascale.compiled import njit
from adascale.errors import BudgetNotReached
from adascale.policies import LyapunovPowerControl, Optimal, water_level
from adascale.policies.power_control import check_contraction
from adascale.problem import Problem
from adascale.rootfind import bounded, find_roots
from adascale.tuning import of_instance

if TYPE_CHECKING:
    import pandas as pd


# in units of the mean scaling of the optimum
_RATES = np.array(
    [0.05, 0.2, 0.5, 0.7, 0.85, 0.95, 1.0, 1.05, 1.15, 1.3, 1.7, 3.0, 6.0]
)
# in units of the cubed scaling at the water level
_PENALTIES = np.geomspace(1e-5, 1e4, 19)
_ZOOMS = 2  # times that the rates around the best one are made finer
_TOLERANCE = 1e-9  # largest relative difference of a cost from its budget
_TOGETHER = 16  # pairs computed at once, so that roots and quotients are vectorised


class LyapunovMatch(NamedTuple):
    """The pair with the smallest epsilon for each instance, and a table of all pairs found."""

    penalty: FloatArray
    rate: FloatArray
    pairs: "pd.DataFrame"


def best_lyapunov(
    problem: Problem, *_: Any, relative_rates: ArrayLike | None = None
) -> LyapunovPowerControl:
    """Return the policy of Shi et al. with the smallest epsilon at delta = 1e-5 (:func:`match_lyapunov`).

    Mean gains, which every function that builds a policy is given, play no role.
    """
    match = match_lyapunov(problem, relative_rates)
    return LyapunovPowerControl(match.penalty, match.rate)


BEST_LYAPUNOV = Method(partial(of_function, best_lyapunov), LyapunovPowerControl)
"""The method of :func:`best_lyapunov`."""


def match_lyapunov(
    problem: Problem,
    relative_rates: ArrayLike | None = None,
    *,
    contraction: float = 1.0,
) -> LyapunovMatch:
    r"""Find the pairs :math:`(V, \bar\eta)` of Shi et al. that cost :math:`\nu`.

    For rates :math:`\bar\eta` around the mean scaling of the optimum (:prf:ref:`prop-least-scaling`), every crossing of
    :math:`\nu` on a grid of :math:`V` is refined, since the cost is not monotone.  This **sees the whole future**.

    Parameters
    ----------
    problem : Problem
    relative_rates : array_like, > 0, optional
        Rates relative to the optimum's mean scaling; default: thirteen from 0.05 to 6, then finer ones.
    contraction : float, in (0, 1]

    Raises
    ------
    BudgetNotReached
        If some instance has no pair on the grid.
    """
    import pandas as pd  # slow to import

    check_contraction(contraction, problem.num_rounds)
    batch, T = problem.batch_shape, problem.num_rounds
    gain = np.broadcast_to(problem.min_gain, (*batch, T)).reshape(-1, T)
    budget = np.broadcast_to(problem.budget, batch).ravel()
    whole = Problem(problem.scenario, gain, budget)
    rates = _RATES
    zooms = _ZOOMS
    if relative_rates is not None:
        rates = np.atleast_1d(check.positive("relative_rates", relative_rates))
        zooms = 0
    relative = np.broadcast_to(rates, (budget.size, rates.size))
    pairs = _pairs_at_budget(whole, relative, contraction)
    best = _least_epsilon(pairs, batch)
    for _ in range(zooms):
        relative = _rates_between(pairs, best["relative_rate"].to_numpy())
        finer = _pairs_at_budget(whole, relative, contraction)
        pairs = pd.concat([pairs, finer], ignore_index=True)
        best = _least_epsilon(pairs, batch)
    penalty, rate = (
        best[name].to_numpy().reshape(batch) for name in ("penalty", "rate")
    )
    return LyapunovMatch(penalty, rate, pairs)


def _least_epsilon(pairs: "pd.DataFrame", batch: tuple[int, ...]) -> "pd.DataFrame":
    """Return the row of each instance with its smallest epsilon."""
    instances = np.arange(math.prod(batch))
    best = pairs.loc[pairs.groupby("instance")["epsilon"].idxmin()]
    best = best.set_index("instance")
    missed = np.setdiff1d(instances, best.index)
    if missed.size:
        instance = of_instance(int(missed[0]), batch)
        raise BudgetNotReached(
            f"no pair of V and rate brings the cost{instance} to its budget"
        )
    return best.loc[instances]


def _rates_between(pairs: "pd.DataFrame", best: FloatArray) -> FloatArray:
    """Return four rates per instance: at thirds of the way from its best rate to the next lower and higher ones."""
    thirds = np.array([1, 2]) / 3
    finer = []
    tried_rates = pairs.groupby("instance")["relative_rate"].unique()
    for tried, middle in zip(tried_rates, best, strict=True):
        rates = np.sort(tried)
        # the best rate may be the lowest or the highest one
        rates = np.concatenate([rates[:1] / 2, rates, rates[-1:] * 2])
        at = np.searchsorted(rates, middle)
        low = middle - rates[at - 1]
        high = rates[at + 1] - middle
        finer.append([*(rates[at - 1] + low * thirds), *(middle + high * thirds)])
    return np.array(finer)


def _pairs_at_budget(
    problem: Problem, relative: FloatArray, contraction: float
) -> "pd.DataFrame":
    """Return the pairs that cost their budget, for rates relative to the optimum's mean scaling, (instances, rates)."""
    import pandas as pd

    noise_scale = problem.scenario.noise_scale
    floor = problem.min_noise_energy
    weight = np.array([contraction ** -float(t) for t in range(problem.num_rounds)])
    mean_floor = floor.mean(axis=-1)

    def excess(index: IndexArray, penalty: FloatArray, rate: FloatArray) -> FloatArray:
        mean = mean_inverse(problem.max_eta, weight, index, penalty, rate)
        cost = mean * noise_scale - mean_floor[index]
        return bounded(cost / problem.budget[index] - 1)

    mean_eta = problem.eta(Optimal().schedule(problem)).mean(axis=-1)
    rates = relative * mean_eta[:, None]
    natural = (noise_scale / water_level(floor, problem.budget)) ** 3
    penalties = natural[:, None] * _PENALTIES
    i, j, penalty = crossings(excess, penalties, rates, _TOLERANCE)
    rate = rates[i, j]
    crossing = Problem(problem.scenario, problem.min_gain[i], problem.budget[i])
    w = LyapunovPowerControl(penalty, rate, contraction).schedule(crossing)
    with warnings.catch_warnings():
        # warnings are mostly about pairs that are not chosen
        warnings.simplefilter("ignore", OrdersTooFew)
        epsilon = crossing.epsilon(w)
    columns = {
        "instance": i,
        "penalty": penalty,
        "rate": rate,
        "relative_rate": relative[i, j],
        "epsilon": epsilon,
        "full_power": (w <= crossing.min_noise_energy).mean(axis=-1),
    }
    return pd.DataFrame(columns)


def crossings(
    excess: Callable[[IndexArray, FloatArray, FloatArray], FloatArray],
    penalties: FloatArray,
    rates: FloatArray,
    tolerance: float,
) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Find the penalties at which costs cross their budgets, between neighbours on a grid of penalties.

    Parameters
    ----------
    excess : callable
        Of instances, penalties and rates, shape (N,) each, the relative excess of the costs.
    penalties, rates : numpy.ndarray, shape (instances, K), ascending, and (instances, R)
    tolerance : float
        Largest excess: where the cost jumps over its budget, there is no pair.

    Returns
    -------
    tuple of numpy.ndarray, shape (N,)
        The instance of each pair, the position of its rate, and its penalty.
    """
    instance = np.arange(len(rates))[:, None, None]
    grid = np.broadcast_arrays(instance, penalties[:, None], rates[..., None])
    values = excess(*(axis.ravel() for axis in grid)).reshape(grid[0].shape)
    i, j, k = np.nonzero((values[..., 1:] > 0) != (values[..., :-1] > 0))
    rate = rates[i, j]
    log_root, residual = find_roots(
        lambda x, n: excess(i[n], np.exp(x), rate[n]),
        np.log(penalties[i, k]),
        np.log(penalties[i, k + 1]),
        tolerance / 2,
    )
    is_root = np.abs(residual) <= tolerance
    return i[is_root], j[is_root], np.exp(log_root[is_root])


@njit(cache=True, nogil=True, error_model="numpy")
def mean_inverse(
    caps: FloatArray,
    weight: FloatArray,
    instance: IndexArray,
    penalty: FloatArray,
    rate: FloatArray,
) -> FloatArray:
    r"""Return the mean of :math:`1/\eta_t` of Shi et al. for N pairs, shape (N,), with :math:`Q_0 = 0`.

    ``caps``, shape (instances, T), are the largest scalings, ``weight`` is :math:`r^{-t}`, and each pair of ``penalty``
    and ``rate`` is for the instance with the number in ``instance``.
    """
    mean = np.empty(instance.size)
    rounds = caps.shape[1]
    V = np.ones(_TOGETHER)
    eta_bar = np.ones(_TOGETHER)
    cap = np.ones(_TOGETHER)
    queue = np.zeros(_TOGETHER)
    total = np.zeros(_TOGETHER)
    for first in range(0, instance.size, _TOGETHER):
        count = min(_TOGETHER, instance.size - first)
        for n in range(_TOGETHER):  # slices would take 4 s more to compile
            queue[n], total[n] = 0.0, 0.0
        for n in range(count):
            V[n], eta_bar[n] = penalty[first + n], rate[first + n]
        for t in range(rounds):
            for n in range(count):
                cap[n] = caps[instance[first + n], t]
            for n in range(_TOGETHER):
                eta = math.sqrt(V[n] * weight[t] / queue[n])
                eta = eta if eta < cap[n] else cap[n]
                total[n] += 1 / eta
                longer = queue[n] + eta - eta_bar[n]
                queue[n] = longer if longer > 0 else 0.0
        for n in range(count):
            mean[first + n] = total[n] / rounds
    return mean
