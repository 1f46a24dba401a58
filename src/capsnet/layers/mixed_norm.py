"""Batch and instance normalisation mixed, each channel in its own learned proportion.

Nam and Kim 2018, "Batch-Instance Normalization", eq. 2 and 3: y = (rho * batch + (1 - rho) * instance) * scale + shift, with
rho kept in [0, 1]. It starts at a half here, at 1 in the paper.

Letters: B batch, C channels, H x W feature maps.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class MixedNorm(nn.Module):
    """Normalise by the batch and by each image, and mix the two.

    Shapes: (B, C, H, W) -> (B, C, H, W).
    """

    def __init__(self, channels: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.by_batch = nn.BatchNorm2d(channels, eps=eps, momentum=momentum, affine=False)
        self.by_image = nn.InstanceNorm2d(channels, eps=eps)
        self.share = nn.Parameter(torch.full((channels,), 0.5))
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, maps: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        share, weight, bias = (v.view(-1, 1, 1) for v in (self.share.clamp(0, 1), self.weight, self.bias))
        return (share * self.by_batch(maps) + (1 - share) * self.by_image(maps)) * weight + bias
