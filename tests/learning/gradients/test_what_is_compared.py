"""What a first batch is compared for, and whose label is named: small losses are no excuse."""

import pytest
import torch
from torch import nn

from adascale.learning.gradients import clipped_sum


class Centred(nn.Module):
    """Takes the mean over the batch off, so that no sample is by itself."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(x - x.mean(0))


def test_a_model_that_mixes_samples_is_found_out_at_losses_below_one():
    torch.manual_seed(0)
    images, labels = 0.3 * torch.randn(3, 4), torch.tensor([0, 1, 0])
    model = Centred()
    with torch.no_grad():
        assert nn.functional.cross_entropy(model(images), labels, reduction="none").max() < 1
    with pytest.raises(ValueError, match="every sample by itself"):
        clipped_sum(model, images, labels, 1.0)


def test_the_first_of_several_bad_labels_is_named():
    with pytest.raises(ValueError, match=r"labels must be in 0 \.\.\. 1, the model's classes, got 5"):
        clipped_sum(nn.Linear(4, 2), torch.randn(3, 4), torch.tensor([0, 5, 7]), 1.0)


def test_a_model_that_mixes_samples_is_found_out_by_short_gradients():
    torch.manual_seed(0)
    model = Centred()
    model.head.bias.requires_grad_(False)
    images, labels = 1e-4 * torch.randn(3, 4), torch.tensor([0, 1, 0])
    with pytest.raises(ValueError, match="gradient of a sample is not that of plain autograd"):
        clipped_sum(model, images, labels, 1.0)
