"""The certified accountant for Google's ``dp_accounting``."""

import math
from collections import Counter
from collections.abc import Iterator

import dp_accounting as dp

from adascale.accounting.certified import delta, epsilon


class CertifiedAccountant(dp.PrivacyAccountant):  # type: ignore[misc]
    """An accountant whose epsilon and delta are upper bounds of :func:`~adascale.accounting.epsilon` and ``delta``.

    It is for Gaussian mechanisms, with or without Poisson sampling, that add or remove one sample.
    """

    def __init__(
        self,
        relation: dp.NeighboringRelation = dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        if relation is not dp.NeighboringRelation.ADD_OR_REMOVE_ONE:
            raise ValueError(f"relation must be ADD_OR_REMOVE_ONE, got {relation}")
        super().__init__(relation)
        self._counts = Counter[tuple[float, float]]()  # of (rate, noise multiplier)

    def _maybe_compose(
        self, event: dp.DpEvent, count: int, do_compose: bool
    ) -> dp.PrivacyAccountant.CompositionErrorDetails | None:
        counts = Counter[tuple[float, float]]()
        for part, number in _parts(event, count):
            mechanism = _rate_and_sigma(part)
            if mechanism is None:
                return self.CompositionErrorDetails(
                    part, "neither Gaussian nor sampled Gaussian"
                )
            if mechanism[0] > 0:
                counts[mechanism] += number
        if do_compose:
            self._counts += counts
        return None

    def _is_private(self) -> bool:
        return all(sigma > 0 for _, sigma in self._counts)

    def _events(self) -> list[tuple[float, float, int]]:
        return [(*mechanism, count) for mechanism, count in self._counts.items()]

    def get_epsilon(self, target_delta: float) -> float:
        """Return the upper bound of epsilon."""
        if not self._is_private():
            return math.inf
        if target_delta <= 0 and self._counts:  # no Gaussian mechanism has delta 0
            return math.inf
        if not 0 < target_delta < 1:  # every mechanism has delta 1
            return 0.0
        return float(epsilon(self._events(), target_delta))

    def get_delta(self, target_epsilon: float) -> float:
        """Return the upper bound of delta."""
        if not self._is_private():
            return 1.0
        if math.isinf(target_epsilon):
            return 0.0
        return float(delta(self._events(), target_epsilon))


def _parts(event: dp.DpEvent, count: int) -> Iterator[tuple[dp.DpEvent, int]]:
    """Yield the events of which an event is composed, and how often each occurs."""
    if isinstance(event, dp.SelfComposedDpEvent):
        yield from _parts(event.event, count * event.count)
    elif isinstance(event, dp.ComposedDpEvent):
        for part in event.events:
            yield from _parts(part, count)
    elif not isinstance(event, dp.NoOpDpEvent):
        yield event, count


def _rate_and_sigma(event: dp.DpEvent) -> tuple[float, float] | None:
    """Return sampling rate and noise multiplier of a Gaussian mechanism, and None for any other."""
    rate = 1.0
    if isinstance(event, dp.PoissonSampledDpEvent):
        rate, event = event.sampling_probability, event.event
    if isinstance(event, dp.NonPrivateDpEvent):
        return rate, 0.0
    return (
        (rate, event.noise_multiplier)
        if isinstance(event, dp.GaussianDpEvent)
        else None
    )
