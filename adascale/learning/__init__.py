"""Learning over the air: data, networks, clipped gradients, the channel and FedSGD; needs the extra ``learn``."""

from adascale.learning.data import Dataset, load, partition
from adascale.learning.fedsgd import FedSGD
from adascale.learning.gradients import ClippedSum, clipped_sum
from adascale.learning.settings import Training
from adascale.learning.training import Diverged, Trained, train

__all__ = [
    "ClippedSum",
    "Dataset",
    "Diverged",
    "FedSGD",
    "Trained",
    "Training",
    "clipped_sum",
    "load",
    "partition",
    "train",
]
