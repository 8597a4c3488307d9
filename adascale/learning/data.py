"""Data sets and their partition among the devices."""

import contextlib
import hashlib
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from adascale import checks as check
from adascale import registry
from adascale.learning.seeding import PARTITION, stream

Index = NDArray[np.intp]
FOLDERS = {"mnist": "MNIST/raw", "cifar10": "cifar-10-batches-py"}
"""Folders of the downloaded data sets, below :func:`root`."""
FILES = {
    "mnist": {
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    "cifar10": {
        "batches.meta": "f962466ef690d46b226450fb9aadc74ba4bc64a76aa526b5827fe4bc5c7125cb",
        "data_batch_1": "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd",
        "data_batch_2": "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8",
        "data_batch_3": "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9",
        "data_batch_4": "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b",
        "data_batch_5": "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154",
        "test_batch": "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831",
    },
}
"""Files of the downloaded data sets, with the SHA-256 of each."""


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
    if chosen := os.environ.get("ADASCALE_DATA"):
        return Path(chosen)
    try:
        return (
            Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            / "adascale"
        )
    except RuntimeError:
        raise FileNotFoundError(
            "this user has no home folder; let ADASCALE_DATA name the folder of data sets"
        ) from None


def load(name: str, input_scaling: str = "standard") -> Dataset:
    """Read a data set from this machine to the CPU; raise ``FileNotFoundError`` if a file is missing or altered.

    Parameters
    ----------
    name : str
        A registered name such as ``digits``, or ``module:function`` that returns a :class:`RawDataset`.
    input_scaling : {"standard", "unit"}
        Pixels with mean 0 and deviation 1, or in [0, 1].
    """
    check.one_of("input_scaling", input_scaling, "unit", "standard")
    raw = registry.call("datasets", name)
    if not isinstance(raw, RawDataset):
        raise ValueError(
            f"dataset {name!r} must be read as a RawDataset, got {type(raw).__name__}"
        )
    try:
        scaling = _scaling(raw) if input_scaling == "standard" else None
        images, test_images = (
            _scaled(key, getattr(raw, key), scaling)
            for key in ("images", "test_images")
        )
        labels, test_labels = (
            _classes(key, getattr(raw, key)) for key in ("labels", "test_labels")
        )
    except ValueError as error:
        raise ValueError(f"dataset {name!r}: {error}") from None
    found = Dataset(
        registry.find("datasets", name).name, images, labels, test_images, test_labels
    )
    check_samples(found)
    return found


def check_samples(dataset: Dataset) -> None:
    """Raise ``ValueError`` unless samples are finite, of one shape and of order 1, and labels are classes >= 0."""
    for key in ("", "test_"):
        samples, labels = (
            getattr(dataset, f"{key}images"),
            getattr(dataset, f"{key}labels"),
        )
        what, shape = f"dataset {dataset.name!r}: {key}images", tuple(samples.shape)
        if samples.ndim < 2 or not samples.numel():
            raise ValueError(
                f"{what} must be samples, shape (n, ...), none of them empty, got {shape}"
            )
        if labels.shape != samples.shape[:1]:
            raise ValueError(
                f"{what} must have a label each, got shapes {shape} and {tuple(labels.shape)}"
            )
        if not samples.is_floating_point() or labels.dtype != torch.int64:
            types = f"{samples.dtype} and {labels.dtype}"
            raise ValueError(
                f"{what} must be floating-point numbers with labels of torch.int64, got {types}"
            )
        low, high = map(float, samples.aminmax())
        if not (math.isfinite(low) and math.isfinite(high)):
            bad = int((~torch.isfinite(samples)).flatten(1).any(1).int().argmax())
            raise ValueError(
                f"{what} must be finite numbers, got NaN or infinity in sample {bad}"
            )
        typical = float(torch.linalg.vector_norm(samples)) / math.sqrt(samples.numel())
        if samples.ndim == 4 and max(-low, high - 1) > 0 and typical > 3:
            pixels = f"pixels from {low:g} to {high:g} after mean and deviation"
            raise ValueError(
                f"{what} must be in [0, 1] or of order 1, got {pixels}; divide them"
            )
        if (labels < 0).any():
            raise ValueError(f"{what} must have labels >= 0, got {int(labels.min())}")
    what = f"dataset {dataset.name!r}: test_"
    if (first := tuple(dataset.images.shape[1:])) != (
        second := tuple(dataset.test_images.shape[1:])
    ):
        raise ValueError(
            f"{what}images and images must be of one shape, got {second} and {first}"
        )
    if unknown := sorted(
        set(dataset.test_labels.tolist()) - set(dataset.labels.tolist())
    ):
        raise ValueError(
            f"{what}labels must be classes of the training set, got {unknown[0]}"
        )


def _scaled(
    key: str, given: ArrayLike, scaling: tuple[Tensor, Tensor] | None
) -> Tensor:
    array = _numbers(key, given)
    if (
        array.ndim == 4
        and array.dtype.kind in "iu"
        and array.size
        and (array.min() < 0 or array.max() > 1)
    ):
        raise ValueError(
            f"{key} must be in [0, 1], got whole numbers from {array.min()} to {array.max()}; divide them"
        )
    samples = torch.as_tensor(array, dtype=torch.float32).contiguous()
    if scaling is not None:
        for which, each in zip(("mean", "deviation"), scaling, strict=True):
            if each.numel() != 1 and (
                samples.ndim != 4 or each.numel() != samples.shape[3]
            ):
                expected = f"one number, or one for each colour of {key}, shape {tuple(samples.shape)}"
                raise ValueError(f"{which} must have {expected}, got {each.numel()}")
        samples = (samples - scaling[0]) / scaling[1]
    return samples.permute(0, 3, 1, 2) if samples.ndim == 4 else samples


def _scaling(raw: RawDataset) -> tuple[Tensor, Tensor]:
    mean, deviation = (
        check.as_floats("mean", raw.mean),
        check.positive("deviation", raw.deviation),
    )
    if not np.isfinite(mean).all() or mean.ndim > 1 or deviation.ndim > 1:
        raise ValueError(
            f"mean and deviation must be finite, with one per colour, got {raw.mean} and {raw.deviation}"
        )
    return torch.as_tensor(mean, dtype=torch.float32), torch.as_tensor(
        deviation, dtype=torch.float32
    )


def _classes(key: str, given: ArrayLike) -> Tensor:
    array = _numbers(key, given)
    if array.dtype.kind == "f" and not (array == np.round(array)).all():
        raise ValueError(
            f"{key} must be whole numbers, got {array[array != np.round(array)].flat[0]}"
        )
    return torch.as_tensor(array.astype(np.int64))


def _numbers(key: str, given: ArrayLike) -> NDArray[Any]:
    with contextlib.suppress(ValueError):  # a ragged sequence
        array = np.asarray(given)
        if array.dtype.kind in "biuf" and not np.ma.is_masked(given):
            return array
    raise ValueError(
        f"{key} must be an array of numbers without masked entries, got {type(given).__name__}"
    )


def partition(
    labels: ArrayLike, num_devices: int, kind: str, seed: int, least: ArrayLike = 1
) -> list[Index]:
    """Split the training samples among M devices; return the ascending positions for each.

    Parameters
    ----------
    labels : array_like, shape (n,)
    kind : {"iid", "two-classes", "dirichlet:concentration=A"}
        M shuffled parts; or, of M classes on a ring in random order, half of class m and of the next for device m; or
        shares of every class from the symmetric Dirichlet law with A in 0.001 ... 1e6, drawn again, at most 1,000
        times, until every device has ``least`` samples (Li et al. 2022, arXiv:2102.02079, with ``least`` 10).
    seed : int, >= 0
    least : array_like, shape () or (M,)
        Smallest number of samples of a device, such as its batch size; only for ``dirichlet``.
    """
    check.whole("num_devices", num_devices)
    labels = np.asarray(labels)
    rng = stream(seed, PARTITION)
    name, options = registry.parse_options(kind)
    if name == "dirichlet" and {*options} == {"concentration"}:
        return _dirichlet(rng, labels, num_devices, options["concentration"], least)
    if kind == "iid":
        return [
            np.sort(part)
            for part in np.array_split(rng.permutation(labels.size), num_devices)
        ]
    if kind != "two-classes":
        raise ValueError(
            f"partition must be 'iid', 'two-classes' or 'dirichlet:concentration=A', got {kind!r}"
        )
    classes = rng.permutation(np.unique(labels))
    if (
        classes.size != num_devices or num_devices < 3
    ):  # with two devices, both would get the same two classes
        got = f"{num_devices} devices and {classes.size} classes"
        raise ValueError(
            f"two-classes needs as many devices as classes, at least 3; got {got}"
        )
    halves = [
        np.array_split(rng.permutation(np.flatnonzero(labels == each)), 2)
        for each in classes
    ]
    return [
        np.sort(np.concatenate([halves[m][0], halves[m - 1][1]]))
        for m in range(num_devices)
    ]


def _dirichlet(
    rng: np.random.Generator,
    labels: NDArray[Any],
    num_devices: int,
    concentration: float,
    least: ArrayLike,
) -> list[Index]:
    given = check.number("concentration", concentration, 1e-3, 1e6)
    classes = [
        rng.permutation(np.flatnonzero(labels == each)) for each in np.unique(labels)
    ]
    sizes = np.array([[each.size] for each in classes])
    for _ in range(1000):
        shares = rng.dirichlet(np.full(num_devices, given), len(classes))
        ends = np.rint(sizes * shares.cumsum(axis=1)[:, :-1]).astype(int)
        if (np.diff(ends, prepend=0, append=sizes).sum(axis=0) >= least).all():
            split = (
                np.split(each, cuts) for each, cuts in zip(classes, ends, strict=True)
            )
            return [np.sort(np.concatenate(part)) for part in zip(*split, strict=True)]
    wanted = f"{labels.size} samples and {num_devices} devices, which need {np.max(np.asarray(least)):g} each or fewer"
    raise ValueError(
        f"partition: 1,000 draws left a device too few of {wanted}; try a larger concentration"
    )


def read_digits() -> RawDataset:
    """Read scikit-learn's digits, split by a fixed shuffle into 1,500 training and 297 test images."""
    from sklearn.datasets import load_digits

    scans = load_digits()
    order = np.random.default_rng(0).permutation(scans.target.size)
    images, labels = scans.images[order, :, :, None] / 16, scans.target[order]
    return RawDataset(
        images[:1500], labels[:1500], images[1500:], labels[1500:], (0.3050,), (0.3760,)
    )


def read_mnist() -> RawDataset:
    """Read MNIST from :func:`root`."""
    return RawDataset(*_from_torchvision("mnist"), (0.1307,), (0.3081,))


def read_cifar10() -> RawDataset:
    """Read CIFAR-10 from :func:`root`."""
    return RawDataset(
        *_from_torchvision("cifar10"),
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
    )


def _from_torchvision(
    name: str,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    from torchvision import datasets

    kind, folder = (
        {"mnist": datasets.MNIST, "cifar10": datasets.CIFAR10}[name],
        root() / FOLDERS[name],
    )
    try:
        for file, expected in FILES[
            name
        ].items():  # CIFAR-10's are pickles, which can run code
            if hashlib.sha256((folder / file).read_bytes()).hexdigest() != expected:
                raise RuntimeError(f"{file} has another checksum than the original")
        train, test = (kind(str(root()), train=each) for each in (True, False))
    except (OSError, RuntimeError) as error:
        reason = (
            "a file is missing"
            if isinstance(error, OSError)
            else " ".join(str(error).split())
        )
        once = f"from torchvision.datasets import {kind.__name__}; {kind.__name__}({str(root())!r}, download=True)"
        how = f'download it once, python -c "{once}", or let ADASCALE_DATA name a folder that holds {FOLDERS[name]}'
        raise FileNotFoundError(
            f"no usable {name} in {folder} ({reason}); {how}"
        ) from error
    pixels = [np.asarray(part.data) / np.float32(255) for part in (train, test)]
    images, test_images = (
        each if each.ndim == 4 else each[..., None] for each in pixels
    )
    return images, np.asarray(train.targets), test_images, np.asarray(test.targets)
