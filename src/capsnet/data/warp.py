"""Affine maps of a batch of images: one inverse map an image, one resampling.

Coordinates are pixels from the image's centre, x to the right, y down; a 2x2 matrix A takes a point of the original to
its place in the result.

Letters: B batch, C x H x W image, S x T the result's height and width.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def warp(
    images: Float[Tensor, "b c h w"],
    matrix: Float[Tensor, "b 2 2"],
    translation: Float[Tensor, "b 2"],
    size: tuple[int, int],
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Float[Tensor, "b c s t"]:
    """Each image under its matrix, then moved by `translation` (x, y), on a canvas of `size` (height, width)."""
    b, c, height, width = images.shape
    inverse = torch.linalg.inv(matrix)
    offset = -(inverse @ translation[:, :, None])
    # affine_grid counts in halves of each canvas.
    result = torch.tensor([size[1], size[0]], dtype=images.dtype, device=images.device) / 2
    original = torch.tensor([width, height], dtype=images.dtype, device=images.device) / 2
    theta = torch.cat([inverse * result, offset], dim=2) / original[:, None]
    grid = F.affine_grid(theta, [b, c, *size], align_corners=False)
    return F.grid_sample(images, grid, mode=mode, padding_mode=padding_mode, align_corners=False)


def rotation(radians: Float[Tensor, "b"]) -> Float[Tensor, "b 2 2"]:
    """Turns clockwise on the screen, since y points down."""
    cos, sin = radians.cos(), radians.sin()
    return torch.stack([cos, -sin, sin, cos], dim=1).view(-1, 2, 2)


def scaling(x: Float[Tensor, "b"], y: Float[Tensor, "b"]) -> Float[Tensor, "b 2 2"]:
    """Stretches along the axes; -1 mirrors."""
    return torch.diag_embed(torch.stack([x, y], dim=1))


def shearing(x: Float[Tensor, "b"]) -> Float[Tensor, "b 2 2"]:
    """Moves rows sideways, by `x` pixels a pixel down."""
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    return torch.stack([one, x, zero, one], dim=1).view(-1, 2, 2)


def cover(
    images: Float[Tensor, "b c h w"], first: Float[Tensor, "b 2"], side: int, ground: Tensor
) -> Float[Tensor, "b c h w"]:
    """A square from the given row and column on becomes the ground; what lies outside the image is left out."""
    height, width = images.shape[-2:]
    row = torch.arange(height, device=images.device) - first[:, :1]
    column = torch.arange(width, device=images.device) - first[:, 1:]
    inside = ((row >= 0) & (row < side))[:, :, None] & ((column >= 0) & (column < side))[:, None]
    return torch.where(inside[:, None], ground, images)


def ink_extent(ink: Tensor, matrix: Float[Tensor, "b 2 2"]) -> Float[Tensor, "b 2 2"]:
    """The smallest and largest x and y that the ink (B, H, W, true where ink) covers under the matrix: (axis, low or high).

    A pixel is taken as the square of two pixels' side that bilinear interpolation spreads it over. No ink: a point.
    """
    b, height, width = ink.shape
    x = torch.arange(width, device=ink.device) - (width - 1) / 2
    y = torch.arange(height, device=ink.device) - (height - 1) / 2
    sides = []
    for axis in range(2):
        place = matrix[:, axis, 0].view(b, 1, 1) * x + matrix[:, axis, 1].view(b, 1, 1) * y[:, None]
        reach = matrix[:, axis].abs().sum(dim=1)
        low = place.masked_fill(~ink, float("inf")).amin(dim=(1, 2)) - reach
        high = place.masked_fill(~ink, float("-inf")).amax(dim=(1, 2)) + reach
        sides.append(torch.stack([low, high], dim=1))
    return torch.stack(sides, dim=1).nan_to_num(posinf=0.0, neginf=0.0)
