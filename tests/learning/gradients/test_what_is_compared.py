"""What a first batch is compared for, and whose label is named: small losses are no excuse."""

import math

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


class Stretched(nn.Module):
    """Gives (x, 0) for a sample alone, and a little more of x for one of several."""

    def __init__(self, more):
        super().__init__()
        self.head, self.more = nn.Linear(1, 2, bias=False), more
        nn.init.constant_(self.head.weight[:1].data, 1.0)
        nn.init.constant_(self.head.weight[1:].data, 0.0)

    def forward(self, x):
        return self.head(x) * (1 + self.more * (len(x) > 1))


@pytest.mark.parametrize("loss", [0.1, 10.0])
def test_a_loss_may_be_off_by_a_share_of_itself(loss):
    def margin(loss):
        """The x with ln(1 + exp(-x)) = loss."""
        return -math.log(math.expm1(loss))

    model = Stretched(margin(loss * (1 + 3e-6)) / margin(loss) - 1).double()  # and 1e-6 is allowed
    images = torch.full((2, 1), margin(loss), dtype=torch.double)
    with pytest.raises(ValueError, match=r"a sample has the loss .* in a batch and .* alone"):
        clipped_sum(model, images, torch.tensor([0, 0]), 1.0)


def test_a_batch_without_a_gradient_vouches_for_no_other():
    torch.manual_seed(0)
    model = Centred()
    model.head.bias.requires_grad_(False)
    labels = torch.tensor([0, 1, 0])
    assert clipped_sum(model, torch.ones(3, 4), labels, 1.0).norm.max() == 0
    with pytest.raises(ValueError, match="every sample by itself"):
        clipped_sum(model, torch.randn(3, 4), labels, 1.0)


def test_a_label_of_minus_one_is_none():
    with pytest.raises(ValueError, match=r"labels must be in 0 \.\.\. 1, the model's classes, got -1"):
        clipped_sum(nn.Linear(4, 2), torch.randn(3, 4), torch.tensor([0, -1, 1]), 1.0)


def test_a_batch_of_one_does_not_vouch_for_two():
    torch.manual_seed(0)
    model, images, labels = Centred(), torch.randn(2, 4), torch.tensor([0, 1])
    clipped_sum(model, images[:1], labels[:1], 1.0)  # whose mean is itself
    with pytest.raises(ValueError, match="every sample by itself"):
        clipped_sum(model, images, labels, 1.0)


def test_in_half_precision_a_loss_may_be_off_by_half_of_itself():
    images, labels = torch.full((2, 1), -1.0, dtype=torch.bfloat16), torch.tensor([0, 0])
    found = clipped_sum(Stretched(0.0).bfloat16(), images, labels, 1.0)
    assert float(found.loss[0]) == pytest.approx(1.31, abs=0.01)  # ln(1 + e)
    with pytest.raises(ValueError, match=r"a sample has the loss .* in a batch and .* alone"):
        clipped_sum(Stretched(1.0).bfloat16(), images, labels, 1.0)  # ln(1 + exp(2)), 1.62 times as much


def test_what_a_model_draws_in_evaluation_mode_is_not_drawn_by_the_comparison():
    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.randn_like(x)

    model, images, labels = nn.Sequential(nn.Linear(4, 2), Noisy()), torch.ones(3, 4), torch.tensor([0, 1, 0])
    states = []
    for _ in ("compared", "not any more"):
        torch.manual_seed(0)
        clipped_sum(model, images, labels, 1.0)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_the_least_clipping_norm_that_is_named_is_allowed():
    least = (torch.finfo(torch.float).tiny / torch.finfo(torch.float).eps) ** 0.5
    found = clipped_sum(nn.Linear(4, 2), torch.randn(3, 4), torch.tensor([0, 1, 1]), least)
    assert torch.isfinite(found.gradient).all()
    with pytest.raises(ValueError, match="clip_norm must be >= 3e-16"):
        clipped_sum(nn.Linear(4, 2), torch.randn(3, 4), torch.tensor([0, 1, 1]), 0.99 * least)
