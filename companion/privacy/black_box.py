"""Black-box audits: mislabelled samples, observed only in their loss under the final model."""

from dataclasses import dataclass
from functools import cached_property

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from adascale.audit import Audit, observe, one_run_bound
from adascale.audit.canaries import AUDIT, PLACES, coins, unit
from adascale.audit.conclusions import Claim, claimed, right_guesses
from adascale.checks import BoolArray, FloatArray, IndexArray
from adascale.learning import Dataset, Training, clipped_sum, models
from adascale.learning.seeding import stream
from adascale.problem import Problem
from adascale.scenario import Scenario


@dataclass(frozen=True)
class SampleCanaries:
    """Mislabelled samples, whose gradients are computed and clipped like all others."""

    images: Tensor
    labels: Tensor
    present: BoolArray
    training: Training

    def signal(
        self, scenario: Scenario, included: IndexArray, parameters: Tensor
    ) -> Tensor:
        r"""Return what the chosen canaries add to :math:`\mathbf s_t`, shape (d,)."""
        if not included.size:
            return torch.zeros_like(parameters)
        weight = unit(scenario) / scenario.clip_norm
        models.assign(self._network, parameters)
        return clipped_sum(
            self._network,
            self.images[included],
            self.labels[included],
            scenario.clip_norm,
            parameters.new_full((included.size,), weight),
            self.training.chunk,
        ).gradient

    def losses(self, parameters: Tensor) -> FloatArray:
        """Return the cross entropy of each canary in nats, shape (k,)."""
        models.assign(self._network, parameters)
        with torch.no_grad(), models.evaluation(self._network):
            loss = torch.nn.functional.cross_entropy(
                self._network(self.images), self.labels, reduction="none"
            )
        return loss.double().numpy()

    @cached_property
    def _network(self):
        return models.build(self.training.model, 0, self.training.initialisation)


def from_losses(
    kind: str,
    runs: int,
    claim: Claim,
    loss: FloatArray,
    present: BoolArray,
    accuracy: float,
) -> Audit:
    """Compute the bound of a black box: guess the quarter of least loss to be in, and that of largest loss out."""
    quarter = loss.size // 4
    right = right_guesses(-loss, present, quarter)
    right += right_guesses(loss, ~present, quarter)
    counted = loss.size, 2 * quarter, right
    bound = one_run_bound(*counted, claim.delta, claim.confidence)
    return Audit(kind, runs, *counted, *claim[2:], bound, None, None, accuracy)


def audit_samples(
    problem: Problem,
    w: ArrayLike,
    training: Training,
    dataset: Dataset,
    seed: int,
    canaries: int,
) -> Audit:
    """Audit with mislabelled test samples; for the parameters see :func:`~adascale.audit.audit_gradients`."""
    claim = claimed(problem, w, delta=1e-5, confidence=0.95)
    rng = stream(seed, AUDIT, PLACES)
    place = rng.permutation(len(dataset.test_labels))[:canaries]
    classes = int(dataset.labels.max()) + 1
    shift = torch.as_tensor(rng.integers(1, classes, canaries))
    wrong = (dataset.test_labels[place] + shift) % classes
    present = coins(canaries, seed)
    samples = SampleCanaries(dataset.test_images[place], wrong, present, training)
    accuracy, last, _ = observe(problem, w, training, dataset, seed, samples)
    return from_losses(
        "samples", 1, claim, samples.losses(last.parameters), present, accuracy
    )
