"""The certified accountant for Opacus: importing this module registers it as ``adascale``."""

import math
from importlib.util import find_spec
from typing import Any

from adascale.accounting.exact.certify import epsilon

try:
    from opacus.accountants import IAccountant, register_accountant
except ImportError as error:
    got = "got an older one" if find_spec("opacus") else "which is not installed"
    raise ImportError(
        f"adascale.accounting.opacus needs Opacus 1.6 or later, {got}"
    ) from error


class CertifiedAccountant(IAccountant):  # type: ignore[misc]
    """An accountant of Opacus whose epsilon is the upper bound of :func:`~adascale.accounting.epsilon`."""

    def __init__(self) -> None:
        super().__init__()

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step of training."""
        mechanism = (float(noise_multiplier), float(sample_rate))
        count = 1
        if self.history and tuple(self.history[-1][:2]) == mechanism:
            count += self.history.pop()[2]
        self.history.append((*mechanism, count))

    def get_epsilon(self, delta: float, alphas: Any = None, **_: Any) -> float:
        """Return the upper bound of epsilon, inf after a step without noise; ``alphas`` are for Renyi accountants."""
        events = [(rate, sigma, n) for sigma, rate, n in self.history if rate and n]
        if not all(sigma for _, sigma, _ in events):
            return math.inf
        return float(epsilon(events, delta))

    def __len__(self) -> int:
        return int(sum(count for *_, count in self.history))

    @classmethod
    def mechanism(cls) -> str:
        """Return the name of the accountant."""
        return "adascale"


register_accountant("adascale", CertifiedAccountant, force=True)
