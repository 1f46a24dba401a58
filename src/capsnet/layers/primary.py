"""Primary capsules: from feature maps to the first vectors, by one depthwise convolution.

Efficient-CapsNet, section "Efficient-CapsNet" (figure 3). Each channel is seen by one filter of its own that covers the
map, so a channel becomes a number: place-coded features become rate-coded pose elements. Capsule n owns the channels
nD to nD + D - 1.

Letters: B batch, C channels, I capsules, D pose size.
"""

import math

from jaxtyping import Float
from torch import Tensor, nn

from capsnet.errors import CapsNetError
from capsnet.functional.squashing import get_squash


class PrimaryCapsules(nn.Module):
    """A depthwise convolution whose output, one number per channel, is read as capsules and squashed (eq. 2).

    Args:
        channels: feature maps coming in.
        kernel: the filters' height and width; usually the whole map.
        size: elements of a capsule's pose; must divide `channels`.
        stride: the filters' step; matters only where the kernel does not cover the map.

    Shapes: (B, C, H, W) -> (B, I, D) with I = C/D times the positions that the kernel takes (one, if it covers the map).
    """

    def __init__(
        self,
        channels: int,
        kernel: tuple[int, int],
        *,
        size: int = 8,
        stride: tuple[int, int] = (1, 1),
        squash: str = "efficient",
    ) -> None:
        super().__init__()
        if channels % size:
            raise CapsNetError(f"{channels} channels do not divide into capsules of {size} elements.")
        self.size = size
        self.squash = get_squash(squash)
        self.depthwise = nn.Conv2d(channels, channels, kernel, stride, groups=channels)
        # The authors' framework counts the fans of a depthwise kernel as k*k in and k*k*channels out.
        bound = math.sqrt(6 / ((channels + 1) * kernel[0] * kernel[1]))
        nn.init.uniform_(self.depthwise.weight, -bound, bound)
        assert self.depthwise.bias is not None
        nn.init.zeros_(self.depthwise.bias)

    def forward(self, features: Float[Tensor, "b c h w"]) -> Float[Tensor, "b i d"]:
        return self.as_capsules(self.depthwise(features))

    def as_capsules(self, numbers: Float[Tensor, "b c h w"]) -> Float[Tensor, "b i d"]:
        """Read the convolution's output, one number per channel at each position, as squashed capsules."""
        batch, channels = numbers.shape[:2]
        poses = numbers.reshape(batch, channels // self.size, self.size, -1)
        return self.squash(poses.movedim(3, 1).reshape(batch, -1, self.size))
