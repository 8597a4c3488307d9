"""The certified accountant for Google's ``dp_accounting``."""

import math
from collections import Counter
from collections.abc import Iterator
from functools import cache

import dp_accounting as dp
import numpy as np
from dp_accounting.dp_event import DiscreteLaplaceDpEvent

from adascale.accounting.exact.certify import delta, epsilon
from adascale.accounting.losses import DiscreteLoss, from_pmf

Relation = dp.NeighboringRelation
_Mechanism = tuple[float, float] | tuple[DiscreteLoss]
"""A sampling rate and a noise multiplier, 0 without noise, or a discrete loss: an event without its count."""
_NOTHING, _EVERYTHING = (0.0, 1.0), (1.0, 0.0)
"""A mechanism that says nothing of the sample, and one without noise."""


class CertifiedAccountant(dp.PrivacyAccountant):  # type: ignore[misc]
    """An accountant whose epsilon and delta are upper bounds of :func:`~adascale.accounting.epsilon` and ``delta``.

    It composes Gaussian mechanisms, several on one batch as well, with or without Poisson sampling, and single-epoch
    trees, randomised response and discrete Laplace noise without sampling. With REPLACE_ONE, nothing may be sampled. As
    in dp_accounting, trees need REPLACE_SPECIAL, randomised response needs one of both kinds of replacement, and
    discrete Laplace noise must not have REPLACE_ONE.
    """

    def __init__(
        self, relation: dp.NeighboringRelation = Relation.ADD_OR_REMOVE_ONE
    ) -> None:
        super().__init__(relation)
        self._counts = Counter[_Mechanism]()

    def _maybe_compose(
        self, event: dp.DpEvent, count: int, do_compose: bool
    ) -> dp.PrivacyAccountant.CompositionErrorDetails | None:
        counts = Counter[_Mechanism]()
        for part, number in _parts(event, count):
            mechanism = _mechanism(part, self.neighboring_relation)
            if mechanism is None:
                reason = f"not composed exactly for {self.neighboring_relation}"
                return self.CompositionErrorDetails(part, reason)
            if mechanism != _NOTHING:
                counts[mechanism] += number
        if do_compose:
            self._counts += counts
        return None

    def _is_private(self) -> bool:
        return all(mechanism[-1] != 0.0 for mechanism in self._counts)

    def _events(self) -> list[tuple[float | DiscreteLoss, ...]]:
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


def _mechanism(
    event: dp.DpEvent, relation: dp.NeighboringRelation
) -> _Mechanism | None:
    """Return the mechanism of an event, and None if it is not composed exactly."""
    replaces = relation is Relation.REPLACE_ONE
    if isinstance(event, dp.RandomizedResponseDpEvent):
        return _response(event.noise_parameter, event.num_buckets, relation)
    if isinstance(event, DiscreteLaplaceDpEvent):
        return _discrete_laplace(event.noise_parameter, event.sensitivity, relation)
    is_tree = isinstance(event, dp.SingleEpochTreeAggregationDpEvent)
    if is_tree and relation is Relation.REPLACE_SPECIAL:
        height = math.ceil(math.log2(np.max(event.step_counts) + 1))
        return 1.0, event.noise_multiplier / math.sqrt(height)
    rate = 1.0
    while isinstance(event, dp.PoissonSampledDpEvent):
        rate = rate * event.sampling_probability
        event = event.event
    sigma = _noise_multiplier(event)
    if sigma is None or (replaces and rate < 1):
        return None
    if rate == 0 or sigma == math.inf:
        return _NOTHING
    return rate, sigma / 2 if replaces else sigma


def _noise_multiplier(event: dp.DpEvent) -> float | None:
    """Return the noise multiplier of Gaussian mechanisms on one batch, which are one together; None for others."""
    if isinstance(event, dp.NonPrivateDpEvent):
        return 0.0
    energy = 0.0
    for part, count in _parts(event, 1):
        if not isinstance(part, dp.GaussianDpEvent):
            return None
        sigma = part.noise_multiplier
        energy += count / sigma**2 if sigma else math.inf
    return 1 / math.sqrt(energy) if energy else math.inf


@cache
def _response(
    p: float, size: int, relation: dp.NeighboringRelation
) -> _Mechanism | None:
    """Return randomised response, which answers at random among ``size`` with probability p."""
    if p == 0:
        return _EVERYTHING
    if relation is Relation.ADD_OR_REMOVE_ONE:
        return None
    if size == 1:
        return _NOTHING
    truth = 1 - p + p / size
    if relation is Relation.REPLACE_SPECIAL:  # the other answer is uniform
        losses = [math.log(size * truth), math.log(p)]
        return (from_pmf(losses, [truth, (size - 1) * p / size]),)
    loss = math.log(size * truth / p)
    masses = [truth, p / size, (size - 2) * p / size]
    return (from_pmf([loss, -loss, 0.0], masses),)


@cache
def _discrete_laplace(
    a: float, sensitivity: int, relation: dp.NeighboringRelation
) -> _Mechanism | None:
    """Return noise with masses e^(-a |x|) tanh(a / 2); losses are equal up to 0, and from the sensitivity on."""
    if a == 0:
        return _EVERYTHING
    if relation is Relation.REPLACE_ONE:
        return None
    x = np.arange(sensitivity + 1)
    mass = np.exp(-a * x) * math.tanh(a / 2)
    mass[[0, -1]] /= -math.expm1(-a)
    return (from_pmf(a * (sensitivity - 2 * x), mass),)
