"""Time the gradient of a round beside its peers, on the same batch: ``python tools/bench_training.py [OUT.csv]``

The batch is a round of the MNIST experiment: ten devices, 60 samples each, the CNN of 26,010 parameters.  Peers take
turns, several calls at a time, and the best turn counts: the machine may be busy otherwise.  First every private peer
is checked to compute the same clipped sum.
"""

import sys
import time
import warnings

import pandas as pd
import torch
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

from adascale.learning import clipped_sum
from adascale.learning.models import build

DEVICES, PER_DEVICE, CLIP, TURNS, CALLS = 10, 60, 1.0, 8, 5


def clip_and_sum(rows):
    """The weighted sum of sample gradients that were written out, as every peer has them."""
    norm = torch.stack([row.flatten(1).norm(dim=1) for row in rows]).norm(dim=0)
    factor = (CLIP / norm).clamp_max(1) / (DEVICES * PER_DEVICE)
    return torch.cat([torch.einsum("i,i...->...", factor, row).flatten() for row in rows])


def contiguous(model):
    return model.to(memory_format=torch.contiguous_format)


class Opacus:
    """Opacus' hooks, in contiguous layout: in channels_last their convolution gradients are wrong."""

    def __init__(self, mode, parts):
        from opacus import GradSampleModule
        from opacus.grad_sample import GradSampleModuleFastGradientClipping

        self.parts = parts
        kind = GradSampleModule if mode == "hooks" else GradSampleModuleFastGradientClipping
        options = {"loss_reduction": "sum"} | ({} if mode == "hooks" else {"max_grad_norm": CLIP})
        self.mode, self.model = mode, kind(contiguous(build("mnist_cnn", 0)), **options)

    def __call__(self, images, labels):
        return sum(self.part(images[i :: self.parts], labels[i :: self.parts]) for i in range(self.parts))

    def part(self, images, labels):
        for parameter in self.model.parameters():
            parameter.grad = parameter.grad_sample = None
        if self.mode == "hooks":
            F.cross_entropy(self.model(images), labels, reduction="sum").backward()
            return clip_and_sum([parameter.grad_sample for parameter in self.model.parameters()])
        self.model.enable_hooks()
        loss = F.cross_entropy(self.model(images), labels, reduction="none")
        loss.sum().backward(retain_graph=True)
        factor = (CLIP / self.model.get_norm_sample()).clamp_max(1) / (DEVICES * PER_DEVICE)
        for parameter in self.model.parameters():
            parameter.grad = None
        self.model.disable_hooks()
        (factor * loss).sum().backward()
        return torch.cat([parameter.grad.flatten() for parameter in self.model.parameters()])


def functional(model):
    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def loss(values, image, label):
        return F.cross_entropy(functional_call(model, values, (image[None],)), label[None])

    gradients = vmap(grad(loss), (None, 0, 0))
    return lambda images, labels: clip_and_sum(list(gradients(parameters, images, labels).values()))


def sgd(model):
    def step(images, labels):
        for parameter in model.parameters():
            parameter.grad = None
        F.cross_entropy(model(images), labels).backward()

    return step


def own(model, **options):
    def step(images, labels):
        weights = images.new_full((len(images),), 1 / (DEVICES * PER_DEVICE))
        return clipped_sum(model, images, labels, CLIP, weights, **options).gradient

    return step


def main(out=None):
    warnings.simplefilter("ignore")  # Opacus' hooks warn at every call
    torch.set_num_threads(2)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(DEVICES * PER_DEVICE, 1, 28, 28, generator=generator)
    labels = torch.randint(10, (len(images),), generator=generator)
    last, first = build("mnist_cnn", 0), contiguous(build("mnist_cnn", 0))
    peers = {
        "non-private SGD, contiguous": sgd(first),
        "non-private SGD, channels_last": sgd(last),
        "Opacus hooks, device by device": Opacus("hooks", DEVICES),
        "Opacus hooks, union": Opacus("hooks", 1),
        "Opacus ghost clipping, union": Opacus("ghost", 1),
        "vmap(grad), union": functional(first),
        "adascale, contiguous": own(first),
        "adascale, channels_last": own(last),
        "adascale, channels_last, chunks of 64": own(last, chunk=64),
    }
    expected = own(build("mnist_cnn", 0).double())(images.double(), labels)
    differ, best = {}, dict.fromkeys(peers, float("inf"))
    for name, step in peers.items():
        found = step(images, labels)
        differ[name] = float("nan") if found is None else float((found - expected).norm() / expected.norm())
        assert found is None or differ[name] < 1e-5, f"{name} computes something else"
    for _ in range(TURNS):
        for name, step in peers.items():
            step(images, labels)
            start = time.perf_counter()
            for _ in range(CALLS):
                step(images, labels)
            best[name] = min(best[name], 1000 * (time.perf_counter() - start) / CALLS)
    table = pd.DataFrame({"name": list(best), "ms_per_round": list(best.values())})
    for column, peer in (
        ("over_sgd_contiguous", "non-private SGD, contiguous"),
        ("over_sgd_channels_last", "non-private SGD, channels_last"),
        ("over_opacus_by_device", "Opacus hooks, device by device"),
        ("over_opacus_union", "Opacus hooks, union"),
    ):
        table[column] = table.ms_per_round / best[peer]
    table["relative_difference"] = list(differ.values())
    if out:
        table.to_csv(out, index=False, float_format="%.3g")
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3g}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
