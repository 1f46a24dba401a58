"""Convolutional primary capsules: one strided convolution whose channels, at each position, are capsules.

Sabour et al. 2017. As in their program, the pre-activation is the convolution divided by the number of capsule types, plus
a bias that all positions share: there a primary capsule is routed to evenly by all types, which is what the division is.

Letters: B batch, C channels, H x W maps, T types, D pose size, I = positions x T capsules.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from capsnet.errors import CapsNetError
from capsnet.functional.squashing import get_squash


class ConvPrimaryCapsules(nn.Module):
    """Capsule (row, column, type) is number (row * columns + column) * T + type; its channels are type * D + d.

    Args:
        channels: feature maps coming in.
        maps: their height and width.
        types, size: T and D.
        kernel, stride: of the convolution, which has no padding.
        squash: a name from `capsnet.functional.squashing.SQUASHES`.

    Shapes: (B, C, H, W) -> (B, I, D).
    """

    def __init__(
        self,
        channels: int,
        maps: tuple[int, int],
        *,
        types: int = 32,
        size: int = 8,
        kernel: int = 9,
        stride: int = 2,
        squash: str = "sabour",
    ) -> None:
        super().__init__()
        if min(maps) < kernel:
            raise CapsNetError(
                f"Primary capsules with {kernel}x{kernel} kernels need maps of at least that size; "
                f"got {maps[0]}x{maps[1]}."
            )
        self.types, self.size, self.stride = types, size, stride
        self.squash = get_squash(squash)
        self.capsules = types * ((maps[0] - kernel) // stride + 1) * ((maps[1] - kernel) // stride + 1)
        self.weight = nn.Parameter(torch.empty(types * size, channels, kernel, kernel))
        self.bias = nn.Parameter(torch.full((types, size), 0.1))
        # Cut at two deviations and not widened, as the original program's framework does.
        nn.init.trunc_normal_(self.weight, std=0.1, a=-0.2, b=0.2)

    def forward(self, features: Float[Tensor, "b c h w"]) -> Float[Tensor, "b i d"]:
        return self.as_capsules(F.conv2d(features, self.weight, stride=self.stride))

    def as_capsules(self, convolved: Float[Tensor, "b o h2 w2"]) -> Float[Tensor, "b i d"]:
        """All but the convolution."""
        by_type = convolved.permute(0, 2, 3, 1).unflatten(3, (self.types, self.size))
        return self.squash(by_type / self.types + self.bias).flatten(1, 3)
