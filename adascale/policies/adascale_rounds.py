"""AdaScale's rounds, compiled: every round of every lane in one loop."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale.accounting.kernels import are_few
from adascale.compiled import njit
from adascale.policies.base import in_rows
from adascale.problem import LeakageTerms, RoundLeakage, few_leakage_slopes, leakage_slopes
from adascale.rootfind import Search, power_law_step, search_from

FloatArray = NDArray[np.float64]


class NoRoot(RuntimeError):
    """A round of AdaScale whose equation has no root in floating point."""


def run_rounds(
    floor: FloatArray,
    queue: ArrayLike,
    start: ArrayLike,
    budget: ArrayLike,
    penalty: ArrayLike,
    leakage: RoundLeakage,
) -> tuple[FloatArray, FloatArray]:
    r"""The noise energies of whole horizons and the queue after them; what both public functions run.

    Parameters
    ----------
    floor : numpy.ndarray
        :math:`w_{\min,t} > 0`, shape (..., T).
    queue, start : array_like
        :math:`Q \ge 0` before the first round, and where the search of that round starts.
    budget, penalty : array_like
        :math:`\nu` and :math:`V`; with ``queue`` and ``start`` they broadcast against the leading axes of ``floor``.
    leakage : RoundLeakage
        :math:`F`.

    Returns
    -------
    tuple of numpy.ndarray
        :math:`w_t`, shape (..., T), and the last queue, shape (...).

    Raises
    ------
    RuntimeError
        If a round has no root: the message names the lane, the round and the values.
    """
    *outer, T = floor.shape
    lanes = np.broadcast_shapes(outer, *(np.shape(each) for each in (queue, start, budget, penalty)))
    rows, last = in_rows(floor, lanes, T), in_rows(queue, lanes)
    before, nu, V = (in_rows(one, lanes) for one in (start, budget, penalty))
    energy, lane, t = _rounds(rows, last, before, nu, V, leakage.terms, are_few(leakage.terms.moments))
    if lane >= 0:
        where = tuple(int(i) for i in np.unravel_index(lane, lanes))
        raise NoRoot(
            f"no root found in round {t}{f' of lane {where}' if where else ''}: floor {rows[lane, t]}, "
            f"queue {last[lane]}, penalty {V[lane]}"
        )
    return energy.reshape(*lanes, T), last.reshape(lanes)


@njit(cache=True, nogil=True, error_model="numpy")
def _rounds(
    floor: FloatArray,
    queue: FloatArray,
    start: FloatArray,
    budget: FloatArray,
    penalty: FloatArray,
    terms: LeakageTerms,
    few: bool,
) -> tuple[FloatArray, int, int]:
    """Every round of every lane; ``queue`` is left as the last round leaves it."""
    energy = np.empty(floor.shape)
    for lane in range(floor.shape[0]):
        V, before = penalty[lane], start[lane]
        for t in range(floor.shape[1]):
            Q, least = queue[lane], floor[lane, t]
            if few:
                search = search_from(before, 0.0)
                for _ in range(100):
                    if not search.x < np.inf:  # V F' overflows
                        break
                    slope, curvature = few_leakage_slopes(max(search.x, least), terms)
                    search = _advance(search, V * slope, V * curvature, Q, least)
                    if search.converged:
                        break
            else:
                search = _any_round(before, V, Q, least, terms)
            if not search.converged:
                return energy, lane, t
            energy[lane, t] = before = max(search.x, least)
            queue[lane] = max(Q + (before - least) - budget[lane], 0.0)
    return energy, -1, -1


@njit(cache=True, nogil=True, error_model="numpy")
def _any_round(before: float, V: float, Q: float, least: float, terms: LeakageTerms) -> Search:
    """One round; it stands in the loop of :func:`_rounds` once more, where a call would take longer than the round."""
    search = search_from(before, 0.0)
    for _ in range(100):
        if not search.x < np.inf:
            break
        slope, curvature = leakage_slopes(max(search.x, least), terms)
        search = _advance(search, V * slope, V * curvature, Q, least)
        if search.converged:
            break
    return search


@njit(cache=True, inline="always")
def _advance(search: Search, slope: float, curvature: float, Q: float, least: float) -> Search:
    """One step towards the zero of V F'(w) + Q + w - floor, given V F' and V F'' at ``search.x``, or at the floor."""
    if search.x <= least:
        # the sum is concave: a Newton step from the floor stays below its root; none upwards if that is no root above
        if -np.inf < slope < -Q and curvature == np.inf:  # V F'' overflows: there is a root above, and no Newton step
            following = Search(2 * least, least, np.inf, np.inf, False)
        else:
            step = least + max(-slope - Q, 0.0) / (1 + curvature)
            following = Search(step, least, np.inf, np.inf, step == least)
    else:
        against = Q + (search.x - least)
        following = power_law_step(search, -slope / against, search.x * (1 / against - curvature / slope))
    return following
