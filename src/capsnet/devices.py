"""Where torch computes: the device and the number of CPU threads."""

import torch

from capsnet.errors import CapsNetError


def choose_device(name: str) -> torch.device:
    """Return the device called `name`; `auto` takes CUDA, else MPS, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:  # whose sentence lists twenty kinds of hardware
        raise CapsNetError(
            f"The device '{name}' is not usable here: --device is auto, cpu, cuda or mps."
        ) from None
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise CapsNetError(
            f"The device '{name}' is not usable here ({reason}); leave --device out."
        ) from None
    return device


def set_threads(threads: int | None) -> int:
    """Set the number of CPU threads, if one is given; return the number in use."""
    if threads:
        torch.set_num_threads(threads)
    return torch.get_num_threads()
