"""Time the gradient of a round next to its peers: ``python tools/bench_training.py results/benchmarks``

Two rounds: MNIST's, ten devices of 60 samples and the CNN of 26,010 parameters, and CIFAR-10's, ten devices of 400
samples and the Tanh CNN, of which the batches of three devices are measured and the seconds scaled to ten.  First every
peer is checked to compute the same sum.  Then peers take turns, and the best call counts: the machine may be busy
otherwise.  Peak memory is that of a fresh process for each peer.

Writes ``training.csv``; ``over_sgd`` and ``over_opacus`` compare with the fastest of these in the round.
"""

import multiprocessing
import re
import resource
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from bench import write
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from torch.func import functional_call, grad, vmap

from adascale.learning import clipped_sum
from adascale.learning.models import build

THREADS = 2
DEVICES = 10  # of a round
# samples on which peers are compared with a float64 backward pass for each
CHECKED = 100


class Workload(NamedTuple):
    """What is measured: standard normal images, of so many of the round's devices."""

    model: str
    shape: tuple[int, ...]
    clip_norm: float
    size: int  # of a device's batch
    devices: int
    turns: int

    def batch(self):
        generator = torch.Generator().manual_seed(0)
        size = self.size * self.devices
        images = torch.randn(size, *self.shape, generator=generator)
        return images, torch.randint(10, (size,), generator=generator)


WORKLOADS = {
    "mnist": Workload("mnist_cnn", (1, 28, 28), 1.0, 60, DEVICES, turns=25),
    "cifar10": Workload("tanh_cnn", (3, 32, 32), 2.0, 400, 3, turns=8),
}


# ---------------------------------------------------------------------------------------------------------------------
# Peers: functions of images, labels and the norm at which sample gradients are clipped.


def total_loss(model, images, labels):
    return F.cross_entropy(model(images), labels, reduction="sum")


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
        return backward(model, total_loss(model, images, labels))

    return step


def opacus_hooks(model):
    model = GradSampleModule(model, loss_reduction="sum")

    def step(images, labels, clip):
        model.zero_grad()
        total_loss(model, images, labels).backward()
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


KINDS = {
    "non-private SGD": sgd,
    "Opacus hooks": opacus_hooks,
    "Opacus ghost clipping": opacus_ghost,
    "vmap(grad)": functional,
}
PEERS = {
    "mnist": [
        "non-private SGD, contiguous",
        "non-private SGD, channels_last",
        "Opacus hooks, device by device",
        "Opacus hooks, union",
        "Opacus ghost clipping, union",
        "vmap(grad), union",
        "adascale, contiguous",
        "adascale, channels_last",
        "adascale, channels_last, chunks of 64",
    ],
    "cifar10": [
        "non-private SGD, contiguous, chunks of 64",
        "non-private SGD, contiguous, device by device",
        "non-private SGD, channels_last, chunks of 64",
        "non-private SGD, channels_last, device by device",
        "Opacus hooks, chunks of 64",
        "Opacus hooks, device by device",
        "vmap(grad), chunks of 64",
        "adascale, channels_last, chunks of 32",
    ],
}
"""Each is contiguous (in channels_last Opacus' convolution gradients are wrong) and takes the union, or as it says."""


def peer(of, name):
    """Return what a name of ``PEERS`` says, as a function of images, labels and the clip norm."""
    model = build(of.model, 0)
    if "channels_last" not in name:
        model = model.to(memory_format=torch.contiguous_format)
    chunk = of.size if "device by device" in name else None
    if match := re.search(r"chunks of (\d+)", name):
        chunk = int(match[1])
    kind = name.partition(",")[0]
    if kind == "adascale":
        options = {"chunk": chunk} if chunk else {}
        return lambda *batch: clipped_sum(model, *batch, **options).gradient
    step = KINDS[kind](model)

    def in_chunks(images, labels, clip):
        size = chunk or len(labels)
        parts = zip(images.split(size), labels.split(size), strict=True)
        return sum(step(*part, clip) for part in parts)

    return in_chunks


# ---------------------------------------------------------------------------------------------------------------------
# Measurements


def error(of, name, step):
    """Return how far a peer's sum is from that of a backward pass per sample in float64; half of them are clipped."""
    images, labels = (tensor[:CHECKED] for tensor in of.batch())
    model = build(of.model, 0).double()
    losses = (
        F.cross_entropy(model(x[None]), y[None])
        for x, y in zip(images.double(), labels, strict=True)
    )
    rows = torch.stack([backward(model, loss) for loss in losses])
    norm = rows.norm(dim=1)
    clip = float(norm.median())
    factor = (clip / norm).clamp_max(1)
    expected = rows.sum(0) if name.startswith("non-private") else factor @ rows
    difference = step(images, labels, clip) - expected
    relative = float(difference.norm() / expected.norm())
    assert relative < 1e-5, f"{name} computes something else: {relative:.2g}"
    return relative


def peak(workload, name):
    """Return what the batch adds to the largest size that this process ever had, in MB."""
    unit = 1e-6 if sys.platform == "darwin" else 1024e-6  # bytes there, KiB on Linux
    of = WORKLOADS[workload]
    step = peer(of, name)
    batch = of.batch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step(*batch, of.clip_norm)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit


def measured(workload, peaks):
    """Return a row per peer of a round."""
    of = WORKLOADS[workload]
    peers = {name: peer(of, name) for name in PEERS[workload]}
    errors = [error(of, name, step) for name, step in peers.items()]
    batch = of.batch()
    best = dict.fromkeys(peers, float("inf"))
    for _ in range(of.turns):
        for name, step in peers.items():
            start = time.perf_counter()
            step(*batch, of.clip_norm)
            seconds = (time.perf_counter() - start) * DEVICES / of.devices
            best[name] = min(best[name], seconds)
    table = pd.DataFrame({"round": workload, "name": peers, "seconds": best.values()})
    for column, prefix in ("over_sgd", "non-private"), ("over_opacus", "Opacus"):
        is_peer = table.name.str.startswith(prefix)
        table[column] = table.seconds / table.seconds[is_peer].min()
    return table.assign(peak_mb=peaks, error=errors)


warnings.simplefilter("ignore")  # Opacus' hooks warn at every call
torch.set_num_threads(THREADS)

if __name__ == "__main__":
    # first of all, while this process is small: on Linux the record of a new one starts at its parent's
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, fresh, max_tasks_per_child=1) as pool:
        peaks = {
            workload: [*pool.map(peak, [workload] * len(peers), peers)]
            for workload, peers in PEERS.items()
        }
    table = pd.concat([measured(workload, peaks[workload]) for workload in WORKLOADS])
    write(table, "training", "torch", "opacus", threads=THREADS)
