"""Time the gradient of a round next to its peers: ``python tools/bench_training.py results/benchmarks``

Two rounds: MNIST's, ten devices of 60 samples and the CNN of 26,010 parameters, and CIFAR-10's, ten devices of 400
samples and the Tanh CNN, of which the batches of three devices are measured and the seconds scaled to ten.  First every
peer is checked to compute the same sum.  Then peers take turns, and the best call counts: the machine may be busy
otherwise.  Peak memory is that of a fresh process for each peer.

Writes ``training.csv``; ``over_sgd`` and ``over_opacus`` compare with the fastest of these in the round.
"""

import multiprocessing
import resource
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from bench import significant, timed, write
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from torch.func import functional_call, grad, vmap

from adascale.learning import Training, clipped_sum
from adascale.learning.models import build

THREADS = 2
DEVICES = 10  # of a round
CHECKED = (
    100  # samples on which peers are compared with a float64 backward pass for each
)


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


def contiguous(name):
    return build(name, 0).to(memory_format=torch.contiguous_format)


def clip_and_sum(rows, clip):
    """Clip and add up sample gradients that were written out, as every peer has them."""
    norm = torch.stack([row.flatten(1).norm(dim=1) for row in rows]).norm(dim=0)
    factor = (clip / norm).clamp_max(1)
    return torch.cat(
        [torch.einsum("i,i...->...", factor, row).flatten() for row in rows]
    )


def by(chunk, step):
    """The same, so many samples at a time."""
    return lambda images, labels, clip: sum(
        step(*part, clip)
        for part in zip(images.split(chunk), labels.split(chunk), strict=True)
    )


def backward(model, loss):
    """Return the gradient of a loss."""
    model.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def sgd(model):
    return lambda images, labels, clip: backward(
        model, F.cross_entropy(model(images), labels, reduction="sum")
    )


def opacus_hooks(name):
    """In contiguous layout: in channels_last Opacus' convolution gradients are wrong."""
    model = GradSampleModule(contiguous(name), loss_reduction="sum")

    def step(images, labels, clip):
        model.zero_grad()
        F.cross_entropy(model(images), labels, reduction="sum").backward()
        return clip_and_sum(
            [parameter.grad_sample for parameter in model.parameters()], clip
        )

    return step


def opacus_ghost(name):
    model = GradSampleModuleFastGradientClipping(
        contiguous(name), loss_reduction="sum", max_grad_norm=1.0
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
        return F.cross_entropy(
            functional_call(model, values, (image[None],)), label[None]
        )

    gradients = vmap(grad(loss), (None, 0, 0))
    return lambda images, labels, clip: clip_and_sum(
        list(gradients(parameters, images, labels).values()), clip
    )


def own(model, **options):
    return lambda images, labels, clip: (
        clipped_sum(model, images, labels, clip, **options).gradient
    )


LAYOUTS = {"contiguous": contiguous, "channels_last": lambda name: build(name, 0)}
CHUNKS = {"chunks of 64": 64, "device by device": 400}
OWN_CHUNK = Training.preset("cifar10").chunk
SGD = {
    f"non-private SGD, {layout}": lambda name, make=make: sgd(make(name))
    for layout, make in LAYOUTS.items()
}
PEERS = {
    "mnist": SGD
    | {
        "Opacus hooks, device by device": lambda name: by(60, opacus_hooks(name)),
        "Opacus hooks, union": opacus_hooks,
        "Opacus ghost clipping, union": opacus_ghost,
        "vmap(grad), union": lambda name: functional(contiguous(name)),
        **{
            f"adascale, {layout}": lambda name, make=make: own(make(name))
            for layout, make in LAYOUTS.items()
        },
        "adascale, channels_last, chunks of 64": lambda name: own(
            build(name, 0), chunk=64
        ),
    },
    "cifar10": {
        **{
            f"{peer}, {chunk}": lambda name, make=make, size=size: by(size, make(name))
            for peer, make in (SGD | {"Opacus hooks": opacus_hooks}).items()
            for chunk, size in CHUNKS.items()
        },
        "vmap(grad), chunks of 64": lambda name: by(64, functional(contiguous(name))),
        f"adascale, channels_last, chunks of {OWN_CHUNK}": lambda name: own(
            build(name, 0), chunk=OWN_CHUNK
        ),
    },
}
"""What makes a peer of the name of a model."""


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
    expected = (
        rows.sum(0)
        if name.startswith("non-private")
        else (clip / norm).clamp_max(1) @ rows
    )
    difference = step(images, labels, clip) - expected
    relative = float(difference.norm() / expected.norm())
    assert relative < 1e-5, f"{name} computes something else: {relative:.2g}"
    return relative


def peak(workload, name):
    """Return what the batch adds to the largest size that this process ever had, in MB."""
    unit = 1e-6 if sys.platform == "darwin" else 1024e-6  # bytes there, KiB on Linux
    of = WORKLOADS[workload]
    step = PEERS[workload][name](of.model)
    batch = of.batch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step(*batch, of.clip_norm)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit


def measured(workload, peaks):
    """Return a row per peer of a round."""
    of = WORKLOADS[workload]
    peers = {name: make(of.model) for name, make in PEERS[workload].items()}
    errors = [error(of, name, step) for name, step in peers.items()]
    batch = of.batch()
    best = dict.fromkeys(peers, float("inf"))
    for _ in range(of.turns):
        for name, step in peers.items():
            seconds, _ = timed(lambda step=step: step(*batch, of.clip_norm))
            best[name] = min(best[name], seconds * DEVICES / of.devices)
    table = pd.DataFrame(
        {"round": workload, "name": best.keys(), "seconds": best.values()}
    )
    for kind, prefix in {"sgd": "non-private", "opacus": "Opacus"}.items():
        table[f"over_{kind}"] = (
            table.seconds / table.seconds[table.name.str.startswith(prefix)].min()
        )
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
    formats = dict.fromkeys(
        ("seconds", "over_sgd", "over_opacus", "peak_mb"), significant
    )
    path = Path(sys.argv[1], "training.csv")
    write(table, path, "torch", "opacus", formats=formats, threads=THREADS)
