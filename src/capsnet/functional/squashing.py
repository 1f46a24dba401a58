"""Squashing: keeps a capsule's direction and brings its length into [0, 1), so that the length can be a probability.

Efficient-CapsNet eq. 2 (`squash`; Xi et al. 2017 proposed it), Sabour et al. 2017 eq. 1 (`squash_sabour`). Written as a
factor times the vector, and that factor as a function of the squared length with its own limit at zero: s/|s| would give
NaN gradients there.

Letters: D pose size.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from capsnet.errors import unknown_name

_TINY = 1e-12  # squared lengths below this are treated by the factor's limit at zero


def squash(s: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """Eq. 2: (1 - exp(-|s|)) s/|s|. Its Jacobian at zero is the identity."""
    wide = _widened(s)
    squared = wide.square().sum(dim=-1, keepdim=True)
    nonzero = squared > _TINY
    # The inner `where` keeps sqrt away from zero, whose infinite slope would turn 0 * inf into NaN in the backward pass.
    norm = torch.where(nonzero, squared, 1.0).sqrt()
    return (wide * torch.where(nonzero, -torch.expm1(-norm) / norm, 1.0)).type_as(s)


def squash_sabour(s: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """Sabour et al. 2017 eq. 1: |s|^2/(1 + |s|^2) s/|s|. Flat at zero, so weak votes learn slowly."""
    wide = _widened(s)
    squared = wide.square().sum(dim=-1, keepdim=True)
    nonzero = squared > _TINY
    norm = torch.where(nonzero, squared, 1.0).sqrt()
    return (wide * torch.where(nonzero, norm / (1 + squared), 0.0)).type_as(s)


def length(poses: Float[Tensor, "*b d"], *, epsilon: float = 1e-7) -> Float[Tensor, "*b"]:
    """sqrt(sum of squares + epsilon): the probability that a capsule's entity is present."""
    return (_widened(poses).square().sum(dim=-1) + epsilon).sqrt().type_as(poses)


def _widened(s: Tensor) -> Tensor:
    """float16 as float32: the square of a vector longer than 256 is too large for 16 bits."""
    return s.float() if s.dtype == torch.float16 else s


Squash = Callable[[Tensor], Tensor]
SQUASHES: dict[str, Squash] = {"efficient": squash, "sabour": squash_sabour, "xi": squash}


def get_squash(name: str) -> Squash:
    """Return a squash by its name."""
    if name not in SQUASHES:
        raise unknown_name("squash", name, SQUASHES)
    return SQUASHES[name]
