"""Data sets and their partition among the devices."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from adascale import checks as check
from adascale import registry
from adascale.checks import IndexArray
from adascale.learning.seeding import PARTITION, stream
from adascale.text import shown

_LARGEST = 100.0
"""Largest sample after scaling; pixels from 0 to 255 are beyond it."""


class RawDataset(NamedTuple):
    """The result of a reader, which is a function without arguments, registered or named ``module:function``."""

    images: ArrayLike
    """Training images in [0, 1] or of order 1, shape (n, height, width, channels), or other samples, as float32."""
    labels: ArrayLike
    """Classes of the training images, integers >= 0, shape (n,)."""
    test_images: ArrayLike
    test_labels: ArrayLike
    mean: tuple[float, ...] = (0.0,)
    """Mean of the pixels for ``input_scaling = "standard"``: one number, or one per colour."""
    deviation: tuple[float, ...] = (1.0,)
    """Standard deviation of the pixels, in the same form."""


class Dataset(NamedTuple):
    """Scaled images and their labels."""

    name: str
    images: Tensor
    """Training images, float32, shape (n, channels, height, width), channels last in memory."""
    labels: Tensor
    """Classes of the training images, int64, shape (n,)."""
    test_images: Tensor
    test_labels: Tensor


def root() -> Path:
    """Return the folder of the data sets: ``ADASCALE_DATA`` if set, else ``adascale`` in the user's cache."""
    if folder := os.environ.get("ADASCALE_DATA"):
        return Path(folder)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "adascale"


def load(name: str, input_scaling: str = "standard") -> Dataset:
    """Read a data set from this machine to the CPU; raise ``FileNotFoundError`` if a file is missing.

    Raises ``ValueError`` unless samples are finite and of order 1, and labels are classes >= 0.

    Parameters
    ----------
    name : str
        A registered name such as ``digits``, or ``module:function`` that returns a :class:`RawDataset`.
    input_scaling : {"standard", "unit"}
        Pixels with mean 0 and deviation 1, or in [0, 1].
    """
    check.one_of("input_scaling", input_scaling, "unit", "standard")
    raw = registry.find("datasets", name).value()
    if not isinstance(raw, RawDataset):
        raise ValueError(
            f"dataset {name!r} must be read as a RawDataset, got {type(raw).__name__}"
        )
    if input_scaling == "unit":
        raw = raw._replace(mean=(0.0,), deviation=(1.0,))
    try:
        images = scaled_samples(raw, "images")
        labels = class_labels("labels", raw.labels, len(images))
        test_images = scaled_samples(raw, "test_images")
        test_labels = class_labels("test_labels", raw.test_labels, len(test_images))
    except ValueError as error:
        raise ValueError(f"dataset {name!r}: {error}") from None
    own_name = registry.canonical("datasets", name)
    return Dataset(own_name, images, labels, test_images, test_labels)


def scaled_samples(raw: RawDataset, name: str) -> Tensor:
    """Return the field ``name`` of a data set minus the mean and over the deviation, as float32.

    Images come out with the axis of colours before height and width.
    """
    array = np.array(getattr(raw, name), np.float32, order="C")
    mean = np.asarray(raw.mean, np.float32)
    scaled = (array - mean) / np.asarray(raw.deviation, np.float32)
    if scaled.shape != array.shape or not np.isfinite(scaled).all():
        got = f"got shape {array.shape}, mean {raw.mean} and deviation {raw.deviation}"
        raise ValueError(f"{name} divided by their deviation must be finite, {got}")
    largest = np.abs(scaled).max(initial=0)
    if largest > _LARGEST:
        raise ValueError(
            f"{name} divided by their deviation must be of order 1, got {largest:g}; are pixels from 0 to 255?"
        )
    tensor = torch.as_tensor(scaled)
    return tensor.permute(0, 3, 1, 2) if tensor.ndim == 4 else tensor


def class_labels(name: str, labels: ArrayLike, count: int) -> Tensor:
    """Return classes as int64, shape (count,)."""
    array = np.asarray(labels)
    with np.errstate(invalid="ignore"):  # of infinity
        classes = array.astype(np.int64)
    if array.shape != (count,) or (classes != array).any() or (classes < 0).any():
        got = f"shape {array.shape}, {shown(array)}"
        raise ValueError(f"{name} must be {count} whole numbers >= 0, got {got}")
    return torch.as_tensor(classes)


def partition(
    labels: ArrayLike,
    num_devices: int,
    kind: str,
    seed: int,
    least: ArrayLike = 1,
    sizes: ArrayLike | None = None,
) -> list[IndexArray]:
    """Split the training samples among M devices; return the ascending positions for each.

    Parameters
    ----------
    labels : array_like, shape (n,)
    kind : {"iid", "two-classes", "dirichlet:concentration=A"}
        M shuffled parts; or, of M classes on a ring in random order, half of class m and half of the one before it for
        device m; or shares of every class from the symmetric Dirichlet law with A in 0.001 ... 1e6, drawn again, at
        most 1,000 times, until every device has ``least`` samples (Li et al. 2022, arXiv:2102.02079, with ``least``
        10).
    seed : int, >= 0
    least : array_like, shape () or (M,)
        Smallest number of samples of a device, such as its batch size; only for ``dirichlet``.
    sizes : array_like, shape () or (M,), optional
        Number of samples of each device, at most n together; only for ``iid``.  By default these are equal, or differ
        by one.
    """
    labels = np.asarray(labels)
    rng = stream(seed, PARTITION)
    name, options = registry.parse_options(kind)
    if kind == "iid":
        ends = num_devices if sizes is None else _ends(sizes, num_devices, labels.size)
        # the part behind the last end is for nobody
        parts = np.array_split(rng.permutation(labels.size), ends)[:num_devices]
    elif kind == "two-classes":
        parts = two_classes(rng, labels, num_devices)
    elif name == "dirichlet" and {*options} == {"concentration"}:
        shape = check.number("concentration", options["concentration"], 1e-3, 1e6)
        parts = dirichlet_shares(rng, labels, num_devices, shape, least)
    else:
        raise ValueError(
            f"partition must be 'iid', 'two-classes' or 'dirichlet:concentration=A', got {kind!r}"
        )
    return [np.sort(part) for part in parts]


def _ends(sizes: ArrayLike, num_devices: int, num_samples: int) -> IndexArray:
    """Return the position behind the last sample of each device; refuse more samples than there are."""
    counts = np.broadcast_to(sizes, num_devices)
    ends = np.cumsum(counts)
    if (counts % 1).any() or ends[-1] > num_samples:
        expected = (
            f"dataset_size must be whole numbers with a sum of at most {num_samples}"
        )
        raise ValueError(
            f"{expected}, the samples of the data set, got {counts.tolist()}"
        )
    return ends.astype(int)


def two_classes(
    rng: np.random.Generator, labels: NDArray[Any], num_devices: int
) -> list[IndexArray]:
    """Give device m half of class m and half of the class before it, on a ring of the classes in random order."""
    classes = rng.permutation(np.unique(labels))
    if len(classes) != num_devices or num_devices < 3:  # two would get the same classes
        raise ValueError(
            "two-classes needs as many devices as classes, at least 3; "
            f"got {num_devices} devices and {len(classes)} classes"
        )
    halves = [
        np.array_split(positions, 2)
        for positions in shuffled_classes(rng, labels, classes)
    ]
    return [
        np.concatenate([halves[m][0], halves[m - 1][1]]) for m in range(num_devices)
    ]


def dirichlet_shares(
    rng: np.random.Generator,
    labels: NDArray[Any],
    num_devices: int,
    concentration: float,
    least: ArrayLike,
) -> list[IndexArray]:
    """Give every device a random share of each class, drawn again until each has ``least`` samples."""
    classes = shuffled_classes(rng, labels, np.unique(labels))
    # a class per row, and a device per column
    sizes = np.array([[positions.size] for positions in classes])
    for _ in range(1000):
        shares = rng.dirichlet(np.full(num_devices, concentration), len(classes))
        ends = np.rint(sizes * shares.cumsum(axis=1)[:, :-1]).astype(int)
        counts = np.diff(ends, prepend=0, append=sizes)
        if (counts.sum(axis=0) >= least).all():
            parts_by_class = map(np.split, classes, ends)
            return [np.concatenate(part) for part in zip(*parts_by_class, strict=True)]
    raise ValueError(
        f"partition: 1,000 draws left a device fewer than {np.max(least):g} of {labels.size} samples"
    )


def shuffled_classes(
    rng: np.random.Generator, labels: NDArray[Any], classes: NDArray[Any]
) -> list[IndexArray]:
    """Return the positions of the samples of each of these ``classes``, in random order."""
    return [rng.permutation(np.flatnonzero(labels == label)) for label in classes]


def read_digits() -> RawDataset:
    """Read scikit-learn's digits, split by a fixed shuffle into 1,500 training and 297 test images.

    The mean and the deviation of their pixels, and those of the other data sets, are rounded.
    """
    from sklearn.datasets import load_digits

    scans = load_digits()
    order = np.random.default_rng(0).permutation(scans.target.size)
    images = scans.images[order, :, :, None] / 16
    labels = scans.target[order]
    return RawDataset(
        images[:1500], labels[:1500], images[1500:], labels[1500:], (0.3050,), (0.3760,)
    )


def read_mnist() -> RawDataset:
    """Read MNIST from :func:`root`."""
    return read_torchvision("mnist", (0.1307,), (0.3081,))


def read_cifar10() -> RawDataset:
    """Read CIFAR-10 from :func:`root`."""
    return read_torchvision(
        "cifar10", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    )


def read_torchvision(
    name: str, mean: tuple[float, ...], deviation: tuple[float, ...]
) -> RawDataset:
    """Read a data set that torchvision has downloaded before."""
    from torchvision import datasets

    kind, folder = name.upper(), str(root())
    try:
        train, test = (
            getattr(datasets, kind)(folder, train=is_train)
            for is_train in (True, False)
        )
    except RuntimeError:
        once = f"from torchvision.datasets import {kind}; {kind}({folder!r}, download=True)"
        raise FileNotFoundError(
            f'no usable {name} in {folder}; download it once, python -c "{once}", '
            "or let ADASCALE_DATA name a folder that holds it"
        ) from None
    arrays = [np.asarray(part.data) / np.float32(255) for part in (train, test)]
    # MNIST has no axis of colours
    images, test_images = (array.reshape(*array.shape[:3], -1) for array in arrays)
    return RawDataset(images, train.targets, test_images, test.targets, mean, deviation)
