"""The device that a training runs on."""

import torch


def find_device(device: str | torch.device) -> torch.device:
    """Return ``cpu``, ``cuda`` or ``cuda:N`` as a device; raise ``ValueError`` if this machine does not have it."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu' or 'cuda', got {str(device)!r}")
    if found.type == "cuda" and not (found.index or 0) < (
        count := torch.cuda.device_count()
    ):
        expected = f"expected cpu{' or cuda:0' * (count > 0)}{f' ... cuda:{count - 1}' * (count > 1)}"
        raise ValueError(
            f"device {str(device)!r} is not available: CUDA devices here: {count}; {expected}"
        )
    return found
