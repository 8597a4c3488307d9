"""The exact accountant behind the protocol of all accountants."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adascale import checks as check
from adascale.accounting.exact.epsilon import exact_epsilon
from adascale.accounting.exact.sharp import WRONG, sharp_epsilon


@dataclass(frozen=True)
class ExactAccountant:
    r"""The exact :math:`\varepsilon` of Poisson-sampled Gaussians with distinct noise, add/remove adjacency.

    Parameters
    ----------
    certified : bool
        True: :meth:`epsilon` is the proven upper end of :func:`~adascale.accounting.exact_epsilon`, within 1e-3 of
        the exact value for a schedule of the paper and within one per cent for any other, or an error.  False is
        deprecated: a value that nothing proves, and that is wrong on rare samples.
    """

    certified: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.certified, bool):
            raise ValueError(f"certified must be True or False, got {self.certified!r}")
        if not self.certified:
            warnings.warn(f"certified=False is deprecated: it {WRONG}", DeprecationWarning, stacklevel=3)

    def epsilon(self, sampling_rate: float, noise_multiplier: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
        """See :class:`~adascale.accounting.Accountant`; errors as the two functions."""
        if not self.certified:
            return sharp_epsilon(sampling_rate, noise_multiplier, delta)
        sigma = check.positive("noise_multiplier", noise_multiplier)
        out = np.empty(sigma.shape[:-1])
        for lane in np.ndindex(out.shape):
            out[lane] = exact_epsilon(sampling_rate, sigma[lane], delta).upper
        return out
