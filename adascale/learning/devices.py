"""Where the arithmetic of a training is done."""

from __future__ import annotations

import torch
from torch import Tensor


def find_device(device: str | torch.device) -> torch.device:
    """The device of that name, if this machine has it.

    Parameters
    ----------
    device : str or torch.device
        ``cpu``, ``cuda``, or ``cuda:1`` for the second GPU.
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu' or 'cuda', got {str(device)!r}")
    if found.type == "cuda" and not (found.index or 0) < torch.cuda.device_count():
        raise ValueError(
            f"device {str(device)!r} is not available: this machine has {torch.cuda.device_count()} CUDA "
            "devices that PyTorch can use; expected cpu"
        )
    return found


def random_state(device: torch.device) -> Tensor:
    """The state of the generator that layers on a device draw from."""
    state: Tensor = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
    return state


def set_random_state(device: torch.device, state: Tensor) -> None:
    """The inverse of :func:`random_state`."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
