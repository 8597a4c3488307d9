"""The device that a training runs on."""

import torch


def find_device(device: str | torch.device) -> torch.device:
    """Return ``cpu``, ``cuda`` or ``cuda:N`` as a device; raise ``ValueError`` if this machine does not have it."""
    count = torch.cuda.device_count()
    # cuda, the current GPU, if there is any
    names = ["cpu", *["cuda"][:count], *(f"cuda:{i}" for i in range(count))]
    if str(device) not in names:
        raise ValueError(
            f"device must be one of {', '.join(names)} on this machine, got {str(device)!r}"
        )
    return torch.device(device)
