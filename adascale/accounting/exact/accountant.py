"""The exact accountant behind the protocol of all accountants."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale.accounting.exact.epsilon import exact_epsilon


@dataclass(frozen=True)
class ExactAccountant:
    r"""The exact :math:`\varepsilon` of Poisson-sampled Gaussians with distinct noise, add/remove adjacency.

    Parameters
    ----------
    certified : bool
        Deprecated, with no effect: :meth:`epsilon` is always the proven upper end of
        :func:`~adascale.accounting.exact_epsilon`, within one per cent of the exact value, or an error.
    """

    certified: bool = True

    def __post_init__(self) -> None:
        if self.certified is not True:
            warnings.warn("certified is deprecated, and always True", DeprecationWarning, stacklevel=3)

    def epsilon(self, sampling_rate: float, noise_multiplier: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
        """See :class:`~adascale.accounting.Accountant`; errors as the function."""
        sigma = check.positive("noise_multiplier", noise_multiplier)
        out = np.empty(sigma.shape[:-1])
        for lane in np.ndindex(out.shape):
            out[lane] = exact_epsilon(sampling_rate, sigma[lane], delta).upper
        return out
