"""Add the noise of a schedule to the mean gradient of your own simulation, in NumPy or PyTorch."""

import numpy as np

NOISE_POWER = 1e-12  # of your scenario, in watts
eta = np.genfromtxt("eta.csv", delimiter=",", names=True)["eta"]
deviation = np.sqrt(NOISE_POWER / (2 * eta))  # of each entry, one number per round


def received(mean, t, rng=np.random.default_rng()):  # noqa: B008 (one for all rounds)
    """Return the mean of the clipped gradients as the server receives it in round t."""
    noise = deviation[t] * rng.standard_normal(tuple(mean.shape))
    return mean + (noise if isinstance(mean, np.ndarray) else mean.new_tensor(noise))
