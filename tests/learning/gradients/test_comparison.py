"""Models that mix samples, which no structure shows: one sample alone is compared with the batch."""

import math
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from adascale.learning import clipped_sum
from adascale.learning.gradients import control

from .sample_by_sample import VECTOR, Layers, batch, centred, filled, loop, mlp, relative, two


def rarely(m, x):
    """Samples with a large number change the others' loss."""
    z, large = F.relu(m.first(x)), (x.abs().amax(1) > 10).to(x)[:, None]
    return m.last(z + (large * z).sum(0) * (1 - large))


def dropping(m, x):
    return m.last(F.dropout(m.first(x), 0.5, m.training))


def dropping_and_mixing(m, x):
    x = F.dropout(m.first(x), 0.5, m.training)
    return m.last(x - x.mean(0))


def batch_centred(bias=True):
    torch.manual_seed(0)
    return Layers(lambda m, x: m.head(x - x.mean(0)), head=nn.Linear(4, 2, bias))


def test_a_batch_of_one_does_not_vouch_for_two():
    model = filled(two(centred))
    images, labels, _ = batch(VECTOR, 3, 6)
    clipped_sum(model, images[:1], labels[:1], 1.0)
    with pytest.raises(ValueError, match="expected a model that takes every sample by itself"):
        clipped_sum(model, images[:2], labels[:2], 1.0)


@pytest.mark.parametrize("first", [nn.Identity, nn.PReLU])
@pytest.mark.filterwarnings("ignore::adascale.learning.gradients.GeneralPath")
def test_mixing_in_later_batches_is_found(first):
    torch.manual_seed(0)
    model = nn.Sequential(first(), Layers(rarely, first=nn.Linear(4, 6), last=nn.Linear(6, 3)))

    def rounds(count, large):
        for _ in range(count):
            images = torch.randn(40, 4)
            images[0] *= large
            clipped_sum(model, images, torch.randint(3, (40,)), 1.0)

    rounds(100, 1)
    with pytest.raises(ValueError, match=r"every sample by itself.*; .* so far have no guarantee"):
        rounds(400, 40)  # of which 6 are compared


def test_the_comparison_keeps_no_model_alive(monkeypatch):
    model = filled(mlp())
    images, labels, _ = batch(VECTOR, 3, 6)
    calls = []
    hook = model.register_forward_hook(lambda *_: calls.append(1))
    monkeypatch.setattr(control, "EVERY", math.inf)
    for _ in range(3):
        clipped_sum(model, images, labels, 1.0)
    assert len(calls) == 4  # of the first batch
    monkeypatch.setattr(control, "EVERY", 1)
    for _ in range(3):
        clipped_sum(model, images, labels, 1.0)
    assert len(calls) == 10
    hook.remove()
    gone = weakref.ref(model)
    del model
    assert gone() is None


def test_a_batch_of_small_losses_is_not_compared_as_rounding_is_all_there_is():
    """In single precision the gradient of a sure sample is a difference of nearly equal numbers."""
    model = nn.Linear(4, 3)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([8.0, -8.0, -8.0])[:, None].expand(3, 4))
    images, labels = torch.rand(5, 4, generator=torch.Generator().manual_seed(0)) + 1, torch.zeros(5, dtype=torch.long)
    assert float(clipped_sum(model, images, labels, 1.0).loss.max()) < control.LEAST_LOSS
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    clipped_sum(model, images, labels, 1.0)
    assert len(calls) == 1
    clipped_sum(model, images, labels + 1, 1.0)
    assert len(calls) == 3  # it is made up for later


# Dropout -------------------------------------------------------------------------------------------------------------


def test_a_model_with_dropout_is_compared_in_evaluation_mode():
    images, labels, _ = batch(VECTOR, 3, 6)
    clipped_sum(filled(two(dropping)), images, labels, 1.0)
    with pytest.raises(ValueError, match="expected a model that takes every sample by itself"):
        clipped_sum(filled(two(dropping_and_mixing)), images, labels, 1.0)


def test_the_comparison_draws_no_random_number_and_leaves_every_mode_as_it_was():
    images, labels, _ = batch(VECTOR, 3, 6)
    model = filled(two(dropping))
    model.last.eval()
    torch.manual_seed(0)
    first = clipped_sum(model, images, labels, 1.0)
    after = torch.get_rng_state()
    torch.manual_seed(0)
    assert torch.equal(clipped_sum(model, images, labels, 1.0).gradient, first.gradient)
    assert torch.equal(after, torch.get_rng_state())
    assert [layer.training for layer in model.modules()] == [True, True, False]


def test_the_sum_with_dropout_is_that_of_the_masks_that_were_drawn():
    def masked(m, x):
        masks.append(torch.ones(len(x), 4).double().bernoulli(0.5))
        return m.last(m.first(x) * masks[-1])

    masks, given_masks = [], two(lambda m, x: m.last(m.first(x[:, :4]) * x[:, 4:]))
    images, labels, weights = batch(VECTOR, 3, 6)
    found = clipped_sum(filled(two(masked)), images, labels, 1.0, weights).gradient
    given = torch.cat([images, masks[0]], 1)
    assert relative(found, loop(filled(given_masks), given, labels, 1.0, weights)) < 1e-12
    given[:, 4:] = 1
    assert relative(found, loop(filled(given_masks), given, labels, 1.0, weights)) > 1e-2


def test_a_model_that_mixes_samples_is_found_out_by_short_gradients():
    model = batch_centred(bias=False)
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
    model = batch_centred(bias=False)
    labels = torch.tensor([0, 1, 0])
    assert clipped_sum(model, torch.ones(3, 4), labels, 1.0).norm.max() == 0
    with pytest.raises(ValueError, match="every sample by itself"):
        clipped_sum(model, torch.randn(3, 4), labels, 1.0)
