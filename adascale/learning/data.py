"""Data sets and their partition among the devices."""

import math
import os
from hashlib import sha256
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

FILES = {
    "mnist": {
        "MNIST/raw/train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "MNIST/raw/train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "MNIST/raw/t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "MNIST/raw/t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    "cifar10": {
        "cifar-10-batches-py/batches.meta": "f962466ef690d46b226450fb9aadc74ba4bc64a76aa526b5827fe4bc5c7125cb",
        "cifar-10-batches-py/data_batch_1": "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd",
        "cifar-10-batches-py/data_batch_2": "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8",
        "cifar-10-batches-py/data_batch_3": "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9",
        "cifar-10-batches-py/data_batch_4": "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b",
        "cifar-10-batches-py/data_batch_5": "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154",
        "cifar-10-batches-py/test_batch": "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831",
    },
}
"""Files of the downloaded data sets below :func:`root`, with the SHA-256 of each."""


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
    if folder := os.environ.get("ADASCALE_DATA"):
        return Path(folder)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "adascale"


def load(name: str, input_scaling: str = "standard") -> Dataset:
    """Read a data set from this machine to the CPU; raise ``FileNotFoundError`` if a file is missing or altered.

    Raises ``ValueError`` unless samples are finite, of one shape and of order 1, and labels are classes >= 0.

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
        labels = class_labels(raw, "labels", len(images))
        test_images = scaled_samples(raw, "test_images")
        test_labels = class_labels(raw, "test_labels", len(test_images))
        check_alike(images, labels, test_images, test_labels)
    except ValueError as error:
        raise ValueError(f"dataset {name!r}: {error}") from None
    own_name = registry.canonical("datasets", name)
    return Dataset(own_name, images, labels, test_images, test_labels)


def scaled_samples(raw: RawDataset, key: str) -> Tensor:
    """Return a field of samples minus their mean and over their deviation; images get their colours first."""
    array = np.asarray(getattr(raw, key), np.float32)
    if not array.size:
        raise ValueError(f"{key} must not be empty, got shape {array.shape}")
    samples = torch.as_tensor(array).contiguous()
    is_image = samples.ndim == 4
    colours = samples.shape[3] if is_image else 1
    deviation = check.positive("deviation", raw.deviation)
    samples = samples - per_colour("mean", raw.mean, colours)  # raw stays as it is
    samples = samples / per_colour("deviation", deviation, colours)
    low, high = map(float, samples.aminmax())
    if not math.isfinite(high - low):
        raise ValueError(f"{key} must be finite, got {low:g} to {high:g}")
    is_large = torch.linalg.vector_norm(samples) > 3 * math.sqrt(samples.numel())
    if is_image and is_large and (low < 0 or high > 1):
        raise ValueError(
            f"{key} must be in [0, 1] or of order 1, got pixels from {low:g} to {high:g} after mean and deviation"
        )
    return samples.permute(0, 3, 1, 2) if is_image else samples


def per_colour(name: str, value: ArrayLike, colours: int) -> Tensor:
    """Return one finite number, or one for each colour, as float32."""
    values = check.as_floats(name, value)
    if not np.isfinite(values).all() or values.shape not in ((), (1,), (colours,)):
        raise ValueError(
            f"{name} must be one finite number, or one for each of {colours} colours, got {value!r}"
        )
    return torch.as_tensor(values, dtype=torch.float32)


def class_labels(raw: RawDataset, key: str, count: int) -> Tensor:
    """Return a field of classes as int64, shape (count,)."""
    labels = np.asarray(getattr(raw, key))
    if labels.shape != (count,):
        raise ValueError(
            f"{key} must have one class for each of {count} samples, got shape {labels.shape}"
        )
    with np.errstate(invalid="ignore"):  # of infinity
        is_class = (labels >= 0) & (labels % 1 == 0)
    if not is_class.all():
        raise ValueError(
            f"{key} must be whole numbers >= 0, got {labels[~is_class][0]}"
        )
    return torch.as_tensor(labels.astype(np.int64))


def check_alike(
    images: Tensor, labels: Tensor, test_images: Tensor, test_labels: Tensor
) -> None:
    """Raise ``ValueError`` unless test samples have the shape and the classes of the training samples."""
    shape, test_shape = tuple(images.shape[1:]), tuple(test_images.shape[1:])
    if test_shape != shape:
        raise ValueError(
            f"test_images must have samples of shape {shape}, got {test_shape}"
        )
    unknown = test_labels[~torch.isin(test_labels, labels)]
    if len(unknown):
        raise ValueError(
            f"test_labels must be classes of the training set, got {int(unknown[0])}"
        )


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
        M shuffled parts; or, of M classes on a ring in random order, half of class m and of the next for device m; or
        shares of every class from the symmetric Dirichlet law with A in 0.001 ... 1e6, drawn again, at most 1,000
        times, until every device has ``least`` samples (Li et al. 2022, arXiv:2102.02079, with ``least`` 10).
    seed : int, >= 0
    least : array_like, shape () or (M,)
        Smallest number of samples of a device, such as its batch size; only for ``dirichlet``.
    sizes : array_like, shape () or (M,), optional
        Number of samples of each device, at most n together; only for ``iid``.  By default the parts are alike.
    """
    labels = np.asarray(labels)
    rng = stream(seed, PARTITION)
    name, options = registry.parse_options(kind)
    if kind == "iid":
        ends = num_devices if sizes is None else _ends(sizes, num_devices, labels.size)
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
    """Return the position behind the last sample of each device, if there are ``most`` samples."""
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
    sizes = np.array([[positions.size] for positions in classes])
    for _ in range(1000):
        shares = rng.dirichlet(np.full(num_devices, concentration), len(classes))
        ends = np.rint(sizes * shares.cumsum(axis=1)[:, :-1]).astype(int)
        counts = np.diff(ends, prepend=0, append=sizes)
        if (counts.sum(axis=0) >= least).all():
            parts_by_class = map(np.split, classes, ends)
            return [np.concatenate(part) for part in zip(*parts_by_class, strict=True)]
    raise ValueError(
        f"partition: 1,000 draws left a device too few of {labels.size} samples and {num_devices} devices, "
        f"which need {np.max(least):g} each or fewer; try a larger concentration"
    )


def shuffled_classes(
    rng: np.random.Generator, labels: NDArray[Any], classes: NDArray[Any]
) -> list[IndexArray]:
    """Return the positions of the samples of each class, in random order."""
    return [rng.permutation(np.flatnonzero(labels == label)) for label in classes]


def read_digits() -> RawDataset:
    """Read scikit-learn's digits, split by a fixed shuffle into 1,500 training and 297 test images."""
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
    """Read a data set that torchvision has downloaded before, if its files are the original ones."""
    from torchvision import datasets

    folder = root()
    kind = name.upper()
    for file, digest in FILES[name].items():  # CIFAR-10's are pickles, which run code
        path = folder / file
        if not path.is_file() or sha256(path.read_bytes()).hexdigest() != digest:
            once = f"from torchvision.datasets import {kind}; {kind}({str(folder)!r}, download=True)"
            raise FileNotFoundError(
                f"no usable {name} in {folder} ({file} is missing or not the original); "
                f'download it once, python -c "{once}", or let ADASCALE_DATA name a folder that holds it'
            )
    train, test = (
        getattr(datasets, kind)(str(folder), train=is_train)
        for is_train in (True, False)
    )
    arrays = [np.asarray(part.data) / np.float32(255) for part in (train, test)]
    # MNIST has no axis of colours
    images, test_images = (array.reshape(*array.shape[:3], -1) for array in arrays)
    return RawDataset(images, train.targets, test_images, test.targets, mean, deviation)
