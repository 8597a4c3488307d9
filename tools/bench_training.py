"""Time the gradient of a round beside its peers: ``python tools/bench_training.py results/benchmarks``

Two rounds: MNIST's, ten devices of 60 samples and the CNN of 26,010 parameters, and CIFAR-10's, ten devices of 400
samples and the Tanh CNN, of which the batches of three devices are measured and the seconds scaled to ten.  First every
peer is checked to compute the same sum.  Then peers take turns, short ones and many, and the best call counts: the
machine may be busy otherwise.  Peak memory is that of a fresh process for each peer.

Writes ``training.csv`` (a row a peer; ``over_sgd`` and ``over_opacus`` compare with the fastest of these in the round)
and ``training.provenance.toml`` (where and with what it ran).
"""

import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from bench import significant
from torch.func import functional_call, grad, vmap

from adascale.files import write_atomically
from adascale.learning import Training, clipped_sum
from adascale.learning.models import build
from adascale.runs.provenance import write_provenance

THREADS = 2
DEVICES = 10  # of a round
CHECKED = 100  # samples on which peers are compared with a float64 backward pass for each


class Workload(NamedTuple):
    """What is measured: standard normal images, of so many of the round's devices."""

    model: str
    shape: tuple[int, ...]
    clip_norm: float
    size: int  # of a device's batch
    devices: int
    turns: int
    calls: int  # in a turn

    def batch(self):
        generator = torch.Generator().manual_seed(0)
        size = self.size * self.devices
        images = torch.randn(size, *self.shape, generator=generator)
        return images, torch.randint(10, (size,), generator=generator)


WORKLOADS = {
    "mnist": Workload("mnist_cnn", (1, 28, 28), 1.0, 60, DEVICES, turns=5, calls=5),
    "cifar10": Workload("tanh_cnn", (3, 32, 32), 2.0, 400, 3, turns=8, calls=1),
}


# ---------------------------------------------------------------------------------------------------------------------
# Peers: functions of images, labels and the norm at which sample gradients are clipped.


def contiguous(name):
    return build(name, 0).to(memory_format=torch.contiguous_format)


def clip_and_sum(rows, clip):
    """The sum of clipped sample gradients that were written out, as every peer has them."""
    norm = torch.stack([row.flatten(1).norm(dim=1) for row in rows]).norm(dim=0)
    factor = (clip / norm).clamp_max(1)
    return torch.cat([torch.einsum("i,i...->...", factor, row).flatten() for row in rows])


def by(chunk, step):
    """The same, so many samples at a time."""
    return lambda images, labels, clip: sum(
        step(*part, clip) for part in zip(images.split(chunk), labels.split(chunk), strict=True)
    )


def sgd(model):
    def step(images, labels, clip):
        for parameter in model.parameters():
            parameter.grad = None
        F.cross_entropy(model(images), labels, reduction="sum").backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    return step


def opacus_hooks(name):
    """In contiguous layout: in channels_last Opacus' convolution gradients are wrong."""
    from opacus import GradSampleModule

    model = GradSampleModule(contiguous(name), loss_reduction="sum")

    def step(images, labels, clip):
        for parameter in model.parameters():
            parameter.grad = parameter.grad_sample = None
        F.cross_entropy(model(images), labels, reduction="sum").backward()
        return clip_and_sum([parameter.grad_sample for parameter in model.parameters()], clip)

    return step


def opacus_ghost(name):
    from opacus.grad_sample import GradSampleModuleFastGradientClipping

    model = GradSampleModuleFastGradientClipping(contiguous(name), loss_reduction="sum", max_grad_norm=1.0)

    def step(images, labels, clip):
        for parameter in model.parameters():
            parameter.grad = parameter.grad_sample = None
        model.enable_hooks()
        loss = F.cross_entropy(model(images), labels, reduction="none")
        loss.sum().backward(retain_graph=True)
        factor = (clip / model.get_norm_sample()).clamp_max(1)
        for parameter in model.parameters():
            parameter.grad = None
        model.disable_hooks()
        (factor * loss).sum().backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    return step


def functional(model):
    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def loss(values, image, label):
        return F.cross_entropy(functional_call(model, values, (image[None],)), label[None])

    gradients = vmap(grad(loss), (None, 0, 0))
    return lambda images, labels, clip: clip_and_sum(list(gradients(parameters, images, labels).values()), clip)


def own(model, **options):
    return lambda images, labels, clip: clipped_sum(model, images, labels, clip, **options).gradient


PEERS = {
    "mnist": {
        "non-private SGD, contiguous": lambda: sgd(contiguous("mnist_cnn")),
        "non-private SGD, channels_last": lambda: sgd(build("mnist_cnn", 0)),
        "Opacus hooks, device by device": lambda: by(60, opacus_hooks("mnist_cnn")),
        "Opacus hooks, union": lambda: opacus_hooks("mnist_cnn"),
        "Opacus ghost clipping, union": lambda: opacus_ghost("mnist_cnn"),
        "vmap(grad), union": lambda: functional(contiguous("mnist_cnn")),
        "adascale, contiguous": lambda: own(contiguous("mnist_cnn")),
        "adascale, channels_last": lambda: own(build("mnist_cnn", 0)),
        "adascale, channels_last, chunks of 64": lambda: own(build("mnist_cnn", 0), chunk=64),
    },
    "cifar10": {
        "non-private SGD, contiguous, chunks of 64": lambda: by(64, sgd(contiguous("tanh_cnn"))),
        "non-private SGD, channels_last, chunks of 64": lambda: by(64, sgd(build("tanh_cnn", 0))),
        "non-private SGD, contiguous, device by device": lambda: by(400, sgd(contiguous("tanh_cnn"))),
        "non-private SGD, channels_last, device by device": lambda: by(400, sgd(build("tanh_cnn", 0))),
        "Opacus hooks, chunks of 64": lambda: by(64, opacus_hooks("tanh_cnn")),
        "Opacus hooks, device by device": lambda: by(400, opacus_hooks("tanh_cnn")),
        "vmap(grad), chunks of 64": lambda: by(64, functional(contiguous("tanh_cnn"))),
        f"adascale, channels_last, chunks of {Training.cifar10().chunk}": lambda: own(
            build("tanh_cnn", 0), chunk=Training.cifar10().chunk
        ),
    },
}


# ---------------------------------------------------------------------------------------------------------------------
# Measurements


def sample_gradients(name, images, labels):
    """One sample after the other in float64, shape (B, d)."""
    model = build(name, 0).double()
    losses = (F.cross_entropy(model(x[None]), y[None]) for x, y in zip(images.double(), labels, strict=True))
    rows = (torch.autograd.grad(loss, list(model.parameters())) for loss in losses)
    return torch.stack([torch.cat([each.flatten() for each in row]) for row in rows])


def differences(of, peers):
    """How far each peer's sum is from the reference, relatively; half of the samples are clipped."""
    images, labels = (each[:CHECKED] for each in of.batch())
    rows = sample_gradients(of.model, images, labels)
    norm = rows.norm(dim=1)
    clip = float(norm.median())
    expected, plain = (clip / norm).clamp_max(1) @ rows, rows.sum(0)
    found = {}
    for name, step in peers.items():
        target = plain if name.startswith("non-private") else expected
        found[name] = float((step(images, labels, clip) - target).norm() / target.norm())
        assert found[name] < 1e-5, f"{name} computes something else: {found[name]:.2g}"
    return found


def seconds(of, peers):
    """Of a round, by the best of all calls."""
    images, labels = of.batch()
    best = dict.fromkeys(peers, float("inf"))
    for _ in range(of.turns):
        for name, step in peers.items():
            for _ in range(of.calls):
                start = time.perf_counter()
                step(images, labels, of.clip_norm)
                best[name] = min(best[name], DEVICES / of.devices * (time.perf_counter() - start))
    return best


def print_peak(round_name, name):
    """What the batch adds to the largest size that this process ever had, in MB."""
    unit = 1e-6 if sys.platform == "darwin" else 1024e-6  # bytes there, KiB on Linux
    of, step = WORKLOADS[round_name], PEERS[round_name][name]()
    images, labels = of.batch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step(images, labels, of.clip_norm)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)


def peak(round_name, name):
    command = [sys.executable, "-W", "ignore", __file__, "peak", round_name, name]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main(folder):
    # first of all, while this process is small: on Linux the record of a new one starts at its parent's
    peaks = {name: {peer: peak(name, peer) for peer in PEERS[name]} for name in WORKLOADS}
    rows = []
    for name, of in WORKLOADS.items():
        peers = {peer: make() for peer, make in PEERS[name].items()}
        differ, best = differences(of, peers), seconds(of, peers)
        sgd_best, opacus_best = (
            min(took for peer, took in best.items() if peer.startswith(kind)) for kind in ("non-private", "Opacus")
        )
        for peer, took in best.items():
            compared = (took / sgd_best, took / opacus_best, peaks[name][peer], differ[peer])
            rows.append((name, peer, took, *compared))
    columns = ["round", "name", "seconds", "over_sgd", "over_opacus", "peak_mb", "error"]
    table = pd.DataFrame(rows, columns=columns)
    folder.mkdir(parents=True, exist_ok=True)
    plain = table.copy()
    for column in ("seconds", "over_sgd", "over_opacus", "peak_mb"):
        plain[column] = table[column].map(significant)
    write_atomically(folder / "training.csv", plain.to_csv(index=False, float_format="%.1g"))
    write_provenance(folder / "training.csv", "make bench", "numpy", "torch", "opacus", threads=THREADS)
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3g}"))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Opacus' hooks warn at every call
    torch.set_num_threads(THREADS)
    if sys.argv[1] == "peak":
        print_peak(*sys.argv[2:])
    else:
        main(Path(sys.argv[1]))
