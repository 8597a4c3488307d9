"""Write a channel trace of a street, 3GPP UMi from Sionna, in the form that adascale reads."""

import sys

import numpy as np
import torch
from sionna.phy import config
from sionna.phy.channel.tr38901 import PanelArray, UMi


def trace(
    num_devices=10,
    num_rounds=500,
    round_time=0.26,
    speed=1.0,
    carrier=2e9,
    reach=(10.0, 200.0),
    seed=0,
):
    """Draw h, complex of shape (T, M): one narrow-band sample per round, with path loss and shadowing."""
    config.seed, rng = seed, np.random.default_rng(seed)
    antenna = PanelArray(1, 1, "single", "V", "omni", carrier, device="cpu")
    street = UMi(carrier, "low", antenna, antenna, "uplink", device="cpu")
    distance, angle, heading = (
        rng.uniform(*reach, num_devices),
        *rng.uniform(0, 2 * np.pi, (2, num_devices)),
    )
    still = np.zeros((num_devices, 3))
    devices = still + np.stack(
        [distance * np.cos(angle), distance * np.sin(angle), np.full(num_devices, 1.5)],
        1,
    )
    velocity = speed * np.stack(
        [np.cos(heading), np.sin(heading), np.zeros(num_devices)], 1
    )
    topology = devices, [[0.0, 0.0, 10.0]], still, [[0.0, 0.0, 0.0]], velocity
    street.set_topology(
        *(torch.tensor(np.array([each]), dtype=torch.float32) for each in topology),
        torch.zeros(1, num_devices, dtype=torch.bool),  # all devices are outdoors
    )
    paths, _ = street(num_rounds, 1 / round_time)  # shape (1, 1, 1, M, 1, paths, T)
    return paths.sum(-2).reshape(num_devices, num_rounds).numpy().T


if __name__ == "__main__":
    h = trace()
    header = ",".join(f"h_{m + 1}" for m in range(h.shape[1]))
    np.savetxt(
        sys.argv[1],
        h,
        ",".join(["%.9e%+.9ej"] * h.shape[1]),
        header=header,
        comments="",
    )
