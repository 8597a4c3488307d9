"""The log-moments of a round at every Rényi order in one call."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adascale.accounting.kernels import MomentTerms, log_moment, moment_terms
from adascale.compiled import njit
from adascale.scenario import FloatArray

Terms = tuple[FloatArray, FloatArray, FloatArray, FloatArray, NDArray[np.int64]]


def joined_terms(rate: FloatArray, orders: FloatArray) -> Terms:
    """Return the rates, the orders, and the :class:`MomentTerms` of all orders in one row, with their ends."""
    terms = [moment_terms(rate, float(order)) for order in orders]
    ends = np.cumsum([0, *(term.weight.size for term in terms)])
    weight = np.concatenate([term.weight.ravel() for term in terms])
    log_weight = np.concatenate([term.log_weight.ravel() for term in terms])
    return np.array(rate), orders, weight, log_weight, ends


@njit(cache=True, nogil=True)
def log_moments(
    s: FloatArray,
    rate: FloatArray,
    orders: FloatArray,
    weight: FloatArray,
    log_weight: FloatArray,
    ends: Any,
) -> FloatArray:
    """Compute the log-moment of every kind of device, with its inverse squared noise multiplier, at every order."""
    moments = np.zeros((s.size, orders.size))
    for j in range(orders.size):
        shape = (rate.size, (ends[j + 1] - ends[j]) // rate.size)
        row, log_row = weight[ends[j] : ends[j + 1]], log_weight[ends[j] : ends[j + 1]]
        terms = MomentTerms(orders[j], rate, row.reshape(shape), log_row.reshape(shape))
        last = -1  # the kind before that sends
        for kind in range(s.size):
            if s[kind] > 0:
                if last >= 0 and s[kind] == s[last] and rate[kind] == rate[last]:
                    moments[kind, j] = moments[last, j]
                else:
                    moments[kind, j] = log_moment(s[kind], terms, kind)
                last = kind
    return moments
