"""Data sets and how they are dealt to the devices.

MNIST and CIFAR-10 are read through torchvision from a folder on this machine, and fetched only by :func:`download`.
The digits (1,797 scans of 8 x 8) come with scikit-learn and need neither.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from adascale import checks as check
from adascale import registry
from adascale.learning.streams import PARTITION, stream

FOLDERS = {"mnist": "MNIST/raw", "cifar10": "cifar-10-batches-py"}
"""Where the data sets that are downloaded lie below :func:`root`."""
MNIST_FILES = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
"""The files of MNIST and their MD5 sums."""
_DIGITS_TEST = 297


class RawDataset(NamedTuple):
    """What the reader of a data set returns: a function without arguments, registered or called ``module:function``."""

    images: ArrayLike
    """Training images in [0, 1], shape (n, height, width, channels); arrays of another shape stay as they are."""
    labels: ArrayLike
    """Their classes 0, 1, ..., shape (n,)."""
    test_images: ArrayLike
    test_labels: ArrayLike
    mean: tuple[float, ...] = (0.0,)
    """What ``input_scaling = "standard"`` takes off the pixels, colour by colour"""
    deviation: tuple[float, ...] = (1.0,)
    """What it divides them by"""


class Dataset(NamedTuple):
    """Images and labels, scaled."""

    name: str
    images: Tensor
    """Training images, float32, shape (n, channels, height, width), channels last in memory."""
    labels: Tensor
    """Their classes 0 ... 9, int64, shape (n,)."""
    test_images: Tensor
    test_labels: Tensor


def root() -> Path:
    """The folder of the data sets: ``ADASCALE_DATA`` where that is set, else ``adascale`` in the user's cache."""
    if chosen := os.environ.get("ADASCALE_DATA"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adascale"


def load(name: str, input_scaling: str = "standard") -> Dataset:
    r"""A data set, from this machine; nothing is downloaded.

    Parameters
    ----------
    name : str
        ``digits``, ``mnist``, ``cifar10`` or another registered one, or ``module:function`` for a reader of one's own,
        which returns a :class:`RawDataset`.
    input_scaling : str
        ``unit``: pixels in [0, 1].  ``standard``: then less their mean, over their standard deviation, by the usual
        constants of the data set.  The paper says nothing about it.

    Returns
    -------
    Dataset
        On the CPU.

    Raises
    ------
    ValueError
        If there is no such data set or scaling.
    FileNotFoundError
        If the files are not there, or are not what their checksums say; it says what to do.
    """
    if input_scaling not in ("unit", "standard"):
        raise ValueError(f"input_scaling must be 'unit' or 'standard', got {input_scaling!r}")
    found = registry.find("datasets", name)
    raw = found.value()
    if not isinstance(raw, RawDataset):
        raise ValueError(f"dataset {name!r} must be read as a RawDataset, got {type(raw).__name__}")
    labels, test_labels = (torch.as_tensor(np.asarray(each)).long() for each in (raw.labels, raw.test_labels))

    def scaled(given: ArrayLike) -> Tensor:  # images to (n, channels, height, width) in the same memory
        pixels = torch.as_tensor(np.asarray(given), dtype=torch.float32).contiguous()
        if input_scaling == "standard":
            mean, deviation = torch.tensor(raw.mean), torch.tensor(raw.deviation)
            pixels = (pixels - mean) / deviation
        return pixels.permute(0, 3, 1, 2) if pixels.ndim == 4 else pixels

    images, test_images = scaled(raw.images), scaled(raw.test_images)
    for part, size in ((images, labels), (test_images, test_labels)):
        if size.shape != part.shape[:1]:
            raise ValueError(f"dataset {name!r} must have a label for each image, got shapes {tuple(part.shape)} and "
                             f"{tuple(size.shape)}")  # fmt: skip
    return Dataset(found.name, images, labels, test_images, test_labels)


def download(name: str) -> Path:
    """Fetch MNIST or CIFAR-10 into :func:`root`; torchvision checks the checksums.  Nothing else ever downloads.

    Returns
    -------
    pathlib.Path
        The folder that now holds it.

    Raises
    ------
    ValueError
        If the data set is not one that is downloaded.
    OSError
        If no mirror delivers it; it says what to do instead.
    """
    if name not in FOLDERS:
        raise ValueError(f"dataset {name!r} is not downloaded; expected one of {', '.join(FOLDERS)}")
    folder = root() / FOLDERS[name]
    try:
        _open(name, train=True, download=True)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise OSError(
            f"could not download {name} ({reason}); mirrors fail for months at a time: put the files of any copy into "
            f"{folder}, where their checksums are verified, or let ADASCALE_DATA name a folder that holds "
            f"{FOLDERS[name]}"
        ) from error
    return folder


def partition(labels: ArrayLike, num_devices: int, kind: str, seed: int) -> list[NDArray[np.intp]]:
    r"""Deal the training samples to the devices.

    Parameters
    ----------
    labels : array_like
        Classes of all samples, shape (n,).
    num_devices : int
        :math:`M \ge 1`.
    kind : str
        ``iid``: shuffled and cut into M parts.  ``two-classes``: the classes are put on a ring in random order, and
        device m gets half of its own class and half of the next one's, so that each class is on exactly two devices;
        it needs as many devices as classes.
    seed : int
        The realisation.

    Returns
    -------
    list of numpy.ndarray
        Positions of each device's samples, ascending; the parts are disjoint and cover everything.

    Raises
    ------
    ValueError
        If the kind is another one, or the classes do not go round.
    """
    check.whole("num_devices", num_devices)
    labels = np.asarray(labels)
    rng = stream(seed, PARTITION)
    if kind == "iid":
        return [np.sort(part) for part in np.array_split(rng.permutation(labels.size), num_devices)]
    if kind != "two-classes":
        raise ValueError(f"partition must be 'iid' or 'two-classes', got {kind!r}")
    classes = rng.permutation(np.unique(labels))
    if classes.size != num_devices or num_devices < 3:  # two devices would both get the same two classes
        raise ValueError(f"two-classes needs as many devices as classes, 3 at least; got {num_devices} devices "
                         f"and {classes.size} classes")  # fmt: skip
    halves = [np.array_split(rng.permutation(np.flatnonzero(labels == each)), 2) for each in classes]
    return [np.sort(np.concatenate([halves[m][0], halves[m - 1][1]])) for m in range(num_devices)]


def read_digits() -> RawDataset:
    """The digits of scikit-learn, split once and for all, by a fixed shuffle: 1,500 scans to train on, 297 to test."""
    from sklearn.datasets import load_digits

    scans = load_digits()
    order = np.random.default_rng(0).permutation(scans.target.size)  # the one split of the digits, not a realisation
    images, labels = scans.images[order, :, :, None] / 16, scans.target[order]
    train, test = slice(-_DIGITS_TEST), slice(labels.size - _DIGITS_TEST, None)
    return RawDataset(images[train], labels[train], images[test], labels[test], (0.3050,), (0.3760,))


def read_mnist() -> RawDataset:
    """MNIST from :func:`root`; ``FileNotFoundError`` where it is not, which says what to do."""
    return RawDataset(*_from_torchvision("mnist"), (0.1307,), (0.3081,))


def read_cifar10() -> RawDataset:
    """CIFAR-10 from :func:`root`; ``FileNotFoundError`` where it is not, which says what to do."""
    return RawDataset(*_from_torchvision("cifar10"), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


def _from_torchvision(name: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Images and labels to train on, then those to test on."""
    folder = root() / FOLDERS[name]
    try:
        if name == "mnist":
            for file, expected in MNIST_FILES.items():
                if hashlib.md5((folder / file).read_bytes(), usedforsecurity=False).hexdigest() != expected:
                    raise RuntimeError(f"{file} has another checksum than the original")
        train, test = (_open(name, train, download=False) for train in (True, False))
    except (OSError, RuntimeError) as error:
        reason = "a file is missing" if isinstance(error, OSError) else " ".join(str(error).split())
        raise FileNotFoundError(
            f"no usable {name} in {folder} ({reason}); run 'adascale download {name}' once, or let ADASCALE_DATA name "
            f"a folder that holds {FOLDERS[name]}"
        ) from error
    return _pixels(train), np.asarray(train.targets), _pixels(test), np.asarray(test.targets)


def _pixels(part: Any) -> NDArray[Any]:
    pixels = np.asarray(part.data)
    return (pixels if pixels.ndim == 4 else pixels[..., None]) / np.float32(255)


def _open(name: str, train: bool, download: bool) -> Any:
    from torchvision import datasets

    kind = {"mnist": datasets.MNIST, "cifar10": datasets.CIFAR10}[name]
    return kind(str(root()), train=train, download=download)
