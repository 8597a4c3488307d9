"""Learning over the air: data, networks, clipped gradients, the channel and FedSGD; needs the extra ``learn``.

Devices send the gradient of one batch.  There is no FedAvg, in which a device takes several local steps and sends the
difference of its model, clipped as a whole to C, because its privacy is another one.  One sample can change every later
local step, and so the difference by up to 2C, where it changes a mean of B gradients of norm at most G by G / B: for
C = G, the noise multiplier of a sample is 2B times smaller in the same noise (120 times for MNIST), and with E local
batches its sampling rate is 1 - (1 - q)^E instead of q.  What carries over is the protection of a whole device, with
sensitivity C and without sampling: its epsilon is that of a scenario with ``batch_size`` and ``dataset_size`` 1, which
is above 100,000 in the paper's MNIST experiment.
"""

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
