"""Every random number of a run comes from its seed and its place: (seed, "order", epoch), (seed, "augment", step), ...

So no random state has to be stored to resume at any step, and what one part draws never shifts another's numbers.
"""

import hashlib

import torch


def derive_seed(seed: int, *place: str | int) -> int:
    """Return a 63-bit seed for one place of a run; the same on every machine."""
    digest = hashlib.sha256(repr((seed, *place)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator(seed: int, *place: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator for one place of a run."""
    return torch.Generator(device).manual_seed(derive_seed(seed, *place))


def seed_dropout(device: torch.device, seed: int) -> None:
    """Seed the generator that modules draw from on this device, and no other; torch.manual_seed would seed all."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        getattr(torch, device.type).manual_seed(seed)
