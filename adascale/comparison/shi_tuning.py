"""The two parameters of Shi et al. for a noise budget, by a search over pairs."""

import math
import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check
from adascale.accounting import OrdersTooFew
from adascale.compiled import njit
from adascale.errors import BudgetNotReached
from adascale.policies import LyapunovPowerControl, Optimal, water_level
from adascale.policies.power_control import check_contraction
from adascale.problem import ReceiveScalingProblem
from adascale.rootfind import find_roots
from adascale.tuning import Lanes

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]
Index = NDArray[np.intp]

_RATES = np.array(
    [0.05, 0.2, 0.5, 0.7, 0.85, 0.95, 1.0, 1.05, 1.15, 1.3, 1.7, 3.0, 6.0]
)
_PENALTIES = np.geomspace(
    1e-5, 1e4, 19
)  # in units of the cubed scaling at the water level
_ZOOMS = 2
_TOLERANCE = 1e-9  # largest relative difference of a cost from its budget
_TOGETHER = 16  # pairs computed at once, so that roots and quotients are vectorised


class LyapunovMatch(NamedTuple):
    """The pair with the smallest epsilon for each instance, and a table of all pairs found."""

    penalty: FloatArray
    rate: FloatArray
    pairs: "pd.DataFrame"


def best_lyapunov(
    problem: ReceiveScalingProblem,
    mean_gain: FloatArray | None = None,
    relative_rates: ArrayLike | None = None,
) -> LyapunovPowerControl:
    """Return the policy of Shi et al. with the smallest epsilon at delta = 1e-5 (:func:`match_lyapunov`)."""
    found = match_lyapunov(problem, relative_rates)
    return LyapunovPowerControl(found.penalty, found.rate)


def match_lyapunov(
    problem: ReceiveScalingProblem,
    relative_rates: ArrayLike | None = None,
    *,
    contraction: float = 1.0,
    delta: float = 1e-5,
) -> LyapunovMatch:
    r"""Find the pairs :math:`(V, \bar\eta)` of Shi et al. that cost :math:`\nu`.

    For rates :math:`\bar\eta` around the mean scaling of the optimum (:prf:ref:`prop-least-scaling`), every crossing of
    :math:`\nu` on a grid of :math:`V` is refined, since the cost is not monotone.  This **sees the whole future**.

    Parameters
    ----------
    problem : ReceiveScalingProblem
    relative_rates : array_like, > 0, optional
        Rates relative to the optimum's mean scaling; default: thirteen from 0.05 to 6, then finer ones.
    contraction : float, in (0, 1]
    delta : float, in (0, 1)

    Raises
    ------
    BudgetNotReached
        If some instance has no pair on the grid.
    """
    check_contraction(contraction, problem.num_rounds)
    lanes = Lanes(problem)
    mean_eta = problem.eta(Optimal().schedule(problem)).mean(axis=-1).ravel()
    natural = (
        problem.scenario.noise_scale
        / water_level(problem.min_noise_energy, problem.budget)
    ).ravel() ** 3
    rates = (
        _RATES
        if relative_rates is None
        else np.atleast_1d(check.positive("relative_rates", relative_rates))
    )
    relative = np.broadcast_to(rates, (lanes.index.size, rates.size))
    import pandas as pd  # slow to import

    found: list[pd.DataFrame] = []
    for _ in range(_ZOOMS + 1 if relative_rates is None else 1):
        found.append(_crossings(lanes, natural, mean_eta, relative, contraction, delta))
        pairs = pd.concat(found, ignore_index=True)
        best = pairs.loc[pairs.groupby("lane")["epsilon"].idxmin()].set_index("lane")
        missed = np.setdiff1d(lanes.index, best.index)
        if missed.size:
            raise BudgetNotReached(
                f"no pair of V and rate brings {lanes.name(int(missed[0]))} to its budget"
            )
        best = best.loc[lanes.index]
        relative = _between(pairs, best["relative_rate"].to_numpy())
    penalty, rate = (
        best[name].to_numpy().reshape(problem.lanes) for name in ("penalty", "rate")
    )
    return LyapunovMatch(penalty, rate, pairs)


def _between(pairs: "pd.DataFrame", best: FloatArray) -> FloatArray:
    between, share = [], np.array([1, 2]) / 3
    for (_, tried), middle in zip(
        pairs.groupby("lane")["relative_rate"], best, strict=True
    ):
        rates = np.unique(tried)
        rates = np.concatenate([rates[:1] / 2, rates, rates[-1:] * 2])
        at = np.searchsorted(rates, middle)
        low, high = middle - rates[at - 1], rates[at + 1] - middle
        between.append(
            np.concatenate([rates[at - 1] + low * share, middle + high * share])
        )
    return np.reshape(between, (best.size, 4))


def _crossings(
    lanes: Lanes,
    natural: FloatArray,
    mean_eta: FloatArray,
    relative: FloatArray,
    contraction: float,
    delta: float,
) -> "pd.DataFrame":
    every = lanes.problem(lanes.index)
    weight = np.array([contraction ** -float(t) for t in range(every.num_rounds)])
    mean_floor = every.min_noise_energy.mean(axis=-1)

    def excess(lane: Index, penalty: FloatArray, rate: FloatArray) -> FloatArray:
        energy = (
            mean_inverse(every.max_eta, weight, lane, penalty, rate)
            * every.scenario.noise_scale
        )
        return np.asarray((energy - mean_floor[lane]) / every.budget[lane] - 1)

    rates, penalties = (
        (relative * mean_eta[:, None])[..., None],
        natural[:, None, None] * _PENALTIES,
    )
    grid = np.broadcast_arrays(lanes.index[:, None, None], penalties, rates)
    seen = excess(*(each.ravel() for each in grid)).reshape(grid[0].shape)
    i, j, k = np.nonzero((seen[..., 1:] > 0) != (seen[..., :-1] > 0))
    lane, rate, low = lanes.index[i], rates[i, j, 0], np.log(penalties[i, 0, k])
    high = low + np.log(_PENALTIES[1] / _PENALTIES[0])
    log_root, residual = find_roots(
        lambda x, n: excess(lane[n], np.exp(x), rate[n]), low, high, _TOLERANCE / 2
    )
    met = (
        np.abs(residual) <= _TOLERANCE
    )  # at other crossings the cost jumps over its budget
    lane, penalty, rate = lane[met], np.exp(log_root[met]), rate[met]
    chosen = lanes.problem(lane)
    w = LyapunovPowerControl(penalty, rate, contraction).schedule(chosen)
    with (
        warnings.catch_warnings()
    ):  # warnings are mostly about pairs that are not chosen
        warnings.simplefilter("ignore", OrdersTooFew)
        epsilon = chosen.epsilon(w, delta=delta)
    import pandas as pd

    full = (w <= chosen.min_noise_energy).mean(axis=-1)
    columns = {
        "penalty": penalty,
        "rate": rate,
        "relative_rate": relative[i, j][met],
        "epsilon": epsilon,
    }
    return pd.DataFrame({"lane": lane, **columns, "full_power": full})


@njit(cache=True, nogil=True, error_model="numpy")
def mean_inverse(
    caps: FloatArray,
    scale: FloatArray,
    lane: Index,
    penalty: FloatArray,
    rate: FloatArray,
) -> FloatArray:
    r"""Return the mean of :math:`1/\eta_t` of Shi et al. for N pairs, shape (N,), with :math:`Q_0 = 0`.

    ``caps`` has a row per instance, and ``scale`` is :math:`r^{-t}`.
    """
    mean, rounds = np.empty(lane.size), caps.shape[1]
    V, step, cap = np.ones(_TOGETHER), np.ones(_TOGETHER), np.ones(_TOGETHER)
    queue, total = np.zeros(_TOGETHER), np.zeros(_TOGETHER)
    for first in range(0, lane.size, _TOGETHER):
        count = min(_TOGETHER, lane.size - first)
        queue[:], total[:] = 0.0, 0.0
        V[:count], step[:count] = (
            penalty[first : first + count],
            rate[first : first + count],
        )
        for t in range(rounds):
            for n in range(count):
                cap[n] = caps[lane[first + n], t]
            for n in range(_TOGETHER):
                eta = math.sqrt(V[n] * scale[t] / queue[n])
                eta = eta if eta < cap[n] else cap[n]
                total[n] += 1 / eta
                longer = queue[n] + eta - step[n]
                queue[n] = longer if longer > 0 else 0.0
        mean[first : first + count] = total[:count] / rounds
    return mean
