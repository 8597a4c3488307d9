"""The certified accountant for Google's ``dp_accounting``."""

import math
from collections import Counter

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
        self._events: Counter[tuple[float, float]] = Counter()
        self._private = True

    def _maybe_compose(
        self, event: dp.DpEvent, count: int, do_compose: bool
    ) -> dp.PrivacyAccountant.CompositionErrorDetails | None:
        if isinstance(event, dp.NoOpDpEvent):
            return None
        if isinstance(event, dp.SelfComposedDpEvent):
            return self._maybe_compose(event.event, count * event.count, do_compose)
        if isinstance(event, dp.ComposedDpEvent):
            found = (
                self._maybe_compose(each, count, do_compose) for each in event.events
            )
            return next((error for error in found if error), None)
        is_sampled = isinstance(event, dp.PoissonSampledDpEvent)
        rate, inner = (
            (event.sampling_probability, event.event) if is_sampled else (1.0, event)
        )
        if isinstance(inner, dp.GaussianDpEvent) and inner.noise_multiplier > 0:
            if do_compose:
                self._events[rate, inner.noise_multiplier] += count
        elif isinstance(inner, dp.GaussianDpEvent | dp.NonPrivateDpEvent):
            if do_compose and rate * count > 0:
                self._private = False
        else:
            return self.CompositionErrorDetails(
                event, "neither Gaussian nor sampled Gaussian"
            )
        return None

    def _composed(self) -> list[tuple[float, float, int]]:
        return [
            (*event, count)
            for event, count in self._events.items()
            if event[0] * count > 0
        ]

    def get_epsilon(self, target_delta: float) -> float:
        """Return the upper bound of epsilon."""
        if not self._private:
            return math.inf
        if (
            not 0 < target_delta < 1
        ):  # no Gaussian mechanism has delta 0, and every mechanism has delta 1
            return math.inf if target_delta <= 0 and self._composed() else 0.0
        return float(epsilon(self._composed(), target_delta))

    def get_delta(self, target_epsilon: float) -> float:
        """Return the upper bound of delta."""
        if not self._private:
            return 1.0
        return (
            0.0
            if math.isinf(target_epsilon)
            else float(delta(self._composed(), target_epsilon))
        )
