"""CIFAR-10 as 1,536 fixed features per image, for a linear classifier: see ``results/cifar10/features.toml``.

The filters do not depend on the data, so they cost no privacy (Tramèr and Boneh 2021, arXiv:2011.11660).
"""

from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adascale.checks import FloatArray
from adascale.learning.data import RawDataset, read_cifar10

COLOURS = [[1, 1, 1], [1, -1, 0], [1, 1, -2]]
"""Brightness, red against green, and yellow against blue."""


def filters() -> FloatArray:
    """Return Gabor filters of mean 0: 3 colours, 2 phases, 2 periods and 4 directions, shape (48, 3, 7, 7)."""
    y, x = np.mgrid[-3:4, -3:4]
    period = np.array([4, 8])[:, None, None, None]
    angle = np.arange(4)[:, None, None] * np.pi / 4
    along = (x * np.cos(angle) + y * np.sin(angle)) / period
    wave = np.exp(2j * np.pi * along - 2 * (x**2 + y**2) / period**2)
    wave -= wave.mean((2, 3), keepdims=True)
    phases = [wave.real, wave.imag]
    return np.einsum("oc,pktyx->opktcyx", COLOURS, phases).reshape(48, 3, 7, 7)


def features(images: Tensor) -> Tensor:
    """Return features of images (n, 32, 32, 3), of norm 10: roots of the means of both signs in 4 x 4 cells."""
    bank = torch.as_tensor(filters(), dtype=images.dtype)
    seen = F.conv2d(images.permute(0, 3, 1, 2), bank, stride=2)
    means = F.adaptive_avg_pool2d(torch.cat([seen, -seen], 1).relu(), 4)
    roots = means.flatten(1).sqrt()
    return 10 * F.normalize(roots - roots.mean(1, keepdim=True))


@cache
def cifar10() -> RawDataset:
    """Read CIFAR-10, with features for images."""
    raw = read_cifar10()
    images, test_images = (
        torch.cat([features(part) for part in torch.as_tensor(array).split(100)])
        for array in (raw.images, raw.test_images)
    )
    return RawDataset(images, raw.labels, test_images, raw.test_labels)


def linear() -> nn.Module:
    """Build the classifier, which has 15,370 parameters."""
    return nn.Linear(1536, 10)
