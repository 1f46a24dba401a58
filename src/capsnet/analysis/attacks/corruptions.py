"""Pictures spoilt at random, at five strengths each: noise, blur, shear, a covered square. No network is asked.

Letters: B batch, C x H x W image.
"""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from capsnet.analysis.attacks.gradient import Bounds

STRENGTHS = (1, 2, 3, 4, 5)
NOISE = (0.1, 0.2, 0.3, 0.4, 0.5)  # the deviation, as a share of a pixel's range
BLUR = (0.5, 1.0, 1.5, 2.0, 2.5)  # the deviation in 28ths of the side
SHEAR = (0.2, 0.4, 0.6, 0.8, 1.0)  # columns per row
OCCLUSION = (0.2, 0.3, 0.4, 0.5, 0.6)  # the square's side, as a share of the picture's


def noise(images: Tensor, strength: int, bounds: Bounds, generator: Generator) -> Tensor:
    """Add normal noise, and cut at the range's ends."""
    drawn = torch.randn(images.shape, generator=generator).to(images)
    return (images + NOISE[strength - 1] * (bounds.high - bounds.low) * drawn).clamp(bounds.low, bounds.high)


def blur(images: Tensor, strength: int, bounds: Bounds, generator: Generator) -> Tensor:
    """Blur by a normal kernel; the border's pixels go on outside."""
    channels, *size = images.shape[1:]
    for axis, side in zip((2, 3), size, strict=True):
        deviation = BLUR[strength - 1] * side / 28
        reach = min(math.ceil(3 * deviation), side - 1)
        at = torch.arange(-reach, reach + 1, device=images.device)
        kernel = torch.exp(-0.5 * (at / deviation).square()).to(images)
        kernel = (kernel / kernel.sum()).view(1, 1, *((-1, 1) if axis == 2 else (1, -1)))
        padding = (0, 0, reach, reach) if axis == 2 else (reach, reach, 0, 0)
        images = F.conv2d(
            F.pad(images, padding, mode="replicate"), kernel.repeat(channels, 1, 1, 1), groups=channels
        )
    return images


def shear(images: Tensor, strength: int, bounds: Bounds, generator: Generator) -> Tensor:
    """Shear to the left or to the right; what comes in is the darkest value."""
    way = torch.randint(0, 2, (len(images),), generator=generator).to(images) * 2 - 1
    affine = torch.eye(2, 3).to(images).repeat(len(images), 1, 1)
    affine[:, 0, 1] = SHEAR[strength - 1] * way * images.shape[2] / images.shape[3]
    grid = F.affine_grid(affine, list(images.shape), align_corners=False)
    return F.grid_sample(images - bounds.low, grid, align_corners=False) + bounds.low


def occlusion(images: Tensor, strength: int, bounds: Bounds, generator: Generator) -> Tensor:
    """Cover a square anywhere in the picture with the middle of the range."""
    height, width = images.shape[2:]
    h, w = (round(OCCLUSION[strength - 1] * side) for side in (height, width))
    corners = torch.rand(len(images), 2, generator=generator) * torch.tensor([height - h + 1, width - w + 1])
    corners = corners.long().to(images.device)
    rows = torch.arange(height, device=images.device) - corners[:, :1]
    columns = torch.arange(width, device=images.device) - corners[:, 1:]
    inside = ((rows >= 0) & (rows < h))[:, :, None] & ((columns >= 0) & (columns < w))[:, None]
    return torch.where(inside[:, None], (bounds.low + bounds.high) / 2, images)


CORRUPTIONS: dict[str, Callable[[Tensor, int, Bounds, Generator], Tensor]] = {
    "noise": noise,
    "blur": blur,
    "shear": shear,
    "occlusion": occlusion,
}
