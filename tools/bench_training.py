"""Time the gradient of a round next to its peers: ``python tools/bench_training.py results/benchmarks``

Two rounds: MNIST's, ten devices of 60 samples and the CNN of 26,010 parameters, and CIFAR-10's, ten devices of 400
samples and the Tanh CNN, of which the batches of three devices are measured and the seconds scaled to ten.  Every peer
is checked to compute the same sum.  Peak memory is that of a fresh process for each peer.

Writes ``training.csv``; ``over_sgd`` and ``over_opacus`` compare with the fastest of these in the round.
"""

import multiprocessing
import resource
import sys
import warnings
from functools import partial
from typing import NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from bench import timed, write
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from torch.func import functional_call, grad, vmap

from adascale.learning import clipped_sum
from adascale.learning.models import build

THREADS = 2


class Workload(NamedTuple):
    """What is measured: standard normal images, a part of the round's."""

    model: str
    shape: tuple[int, ...]
    clip_norm: float
    samples: int
    part: float
    chunk: int  # samples at once
    own_chunk: int

    def batch(self):
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(self.samples, *self.shape, generator=generator)
        return images, torch.randint(10, (self.samples,), generator=generator)


WORKLOADS = {
    "mnist": Workload("mnist_cnn", (1, 28, 28), 1.0, 600, 1.0, 600, 160),
    "cifar10": Workload("tanh_cnn", (3, 32, 32), 2.0, 1200, 0.3, 64, 32),
}


# Peers: functions of images, labels and the norm at which sample gradients are clipped.


def clip_and_sum(rows, clip):
    """Clip and add up sample gradients that were written out, as every peer has them."""
    norm = torch.stack([row.flatten(1).norm(dim=1) for row in rows]).norm(dim=0)
    factor = (clip / norm).clamp_max(1)
    return torch.cat([factor @ row.flatten(1) for row in rows])


def backward(model, loss):
    """Return the gradient of a loss."""
    model.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def sgd(model):
    def step(images, labels, clip):
        scores = model(images)
        return backward(model, F.cross_entropy(scores, labels, reduction="sum"))

    return step


def opacus_hooks(model):
    model = GradSampleModule(model, loss_reduction="sum")

    def step(images, labels, clip):
        model.zero_grad()
        F.cross_entropy(model(images), labels, reduction="sum").backward()
        return clip_and_sum([each.grad_sample for each in model.parameters()], clip)

    return step


def opacus_ghost(model):
    model = GradSampleModuleFastGradientClipping(
        model, loss_reduction="sum", max_grad_norm=1.0
    )

    def step(images, labels, clip):
        model.zero_grad()
        model.enable_hooks()
        loss = F.cross_entropy(model(images), labels, reduction="none")
        loss.sum().backward(retain_graph=True)
        factor = (clip / model.get_norm_sample()).clamp_max(1)
        model.disable_hooks()
        return backward(model, (factor * loss).sum())

    return step


def functional(model):
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(values, image, label):
        scores = functional_call(model, values, (image[None],))
        return F.cross_entropy(scores, label[None])

    gradients = vmap(grad(loss), (None, 0, 0))
    return lambda images, labels, clip: clip_and_sum(
        list(gradients(parameters, images, labels).values()), clip
    )


PEERS = {
    "non-private SGD": sgd,
    "Opacus hooks": opacus_hooks,
    "Opacus ghost clipping": opacus_ghost,
    "vmap(grad)": functional,
    "adascale": None,
}
MEASURED = [("mnist", name) for name in PEERS]
MEASURED += [("cifar10", name) for name in PEERS if "ghost" not in name]


def peer(of, name):
    """Return a peer as a function of images, labels and the clip norm."""
    model = build(of.model, 0)
    if name == "adascale":
        own = partial(clipped_sum, model, chunk=of.own_chunk)
        return lambda *batch: own(*batch).gradient
    if name != "non-private SGD":  # in channels_last Opacus' gradients are wrong
        model = model.to(memory_format=torch.contiguous_format)
    step = PEERS[name](model)

    def in_chunks(images, labels, clip):
        parts = zip(images.split(of.chunk), labels.split(of.chunk), strict=True)
        return sum(step(*part, clip) for part in parts)

    return in_chunks


def peak(workload, name):
    """Return what the batch adds to the largest size that this process ever had, in MB."""
    unit = 1e-6 if sys.platform == "darwin" else 1024e-6  # bytes there, KiB on Linux
    of = WORKLOADS[workload]
    step = peer(of, name)
    batch = of.batch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step(*batch, of.clip_norm)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit


def measured(workload, name):
    """Return the seconds of a round, and how far the sum is from ours in double precision."""
    of = WORKLOADS[workload]
    images, labels = of.batch()
    seconds, result = timed(partial(peer(of, name), images, labels, of.clip_norm))
    clip = float("inf") if name == "non-private SGD" else of.clip_norm
    exact = build(of.model, 0).double()
    expected = clipped_sum(exact, images.double(), labels, clip).gradient
    error = float((result - expected).norm() / expected.norm())
    assert error < 1e-5, f"{name} computes something else: {error:.2g}"
    return seconds / of.part, error


warnings.simplefilter("ignore")  # Opacus' hooks warn at every call
torch.set_num_threads(THREADS)

if __name__ == "__main__":
    # first of all, while this process is small: on Linux the record of a new one starts at its parent's
    fresh = multiprocessing.get_context("spawn")
    with fresh.Pool(1, maxtasksperchild=1) as pool:
        peaks = pool.starmap(peak, MEASURED, chunksize=1)
    table = pd.DataFrame(MEASURED, columns=["round", "name"])
    seconds, errors = zip(*(measured(*each) for each in MEASURED), strict=True)
    table["seconds"] = seconds
    for column, prefix in ("over_sgd", "non-private"), ("over_opacus", "Opacus"):
        of_peer = table.seconds.where(table.name.str.startswith(prefix))
        best = of_peer.groupby(table["round"]).transform("min")
        table[column] = table.seconds / best
    table = table.assign(peak_mb=peaks, error=errors)
    write(table, "training", "torch", "opacus", threads=THREADS)
