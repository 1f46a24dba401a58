"""The transformations that are looked for in the capsules, each with one parameter.

x, y: shifts in pixels. rotation: degrees, clockwise. scale: a factor. thickness: from -1 (a pixel's ring thinner, by a grey
erosion) through 0 (as it is) to 1 (a ring thicker, by a dilation), blended in between.

Letters: B batch, C x H x W image.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from capsnet.data.warp import rotation, scaling, warp


class Transformation(NamedTuple):
    """`apply(images, values)` takes one value per image; `low` to `high` is the range that is measured."""

    name: str
    apply: Callable[[Tensor, Tensor], Tensor]
    low: float
    high: float
    unit: str


def move(images: Tensor, matrix: Tensor | None, shift: Tensor | None) -> Tensor:
    """Apply a 2x2 matrix, then a shift (x, y), both one per image, on the same canvas."""
    b, _, height, width = images.shape
    if matrix is None:
        matrix = torch.eye(2, dtype=images.dtype, device=images.device).expand(b, 2, 2)
    return warp(images, matrix, images.new_zeros(b, 2) if shift is None else shift, (height, width))


def shift_x(images: Tensor, pixels: Tensor) -> Tensor:
    return move(images, None, torch.stack([pixels, torch.zeros_like(pixels)], dim=1))


def shift_y(images: Tensor, pixels: Tensor) -> Tensor:
    return move(images, None, torch.stack([torch.zeros_like(pixels), pixels], dim=1))


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    return move(images, rotation(degrees * (math.pi / 180)), None)


def resize(images: Tensor, factor: Tensor) -> Tensor:
    return move(images, scaling(factor, factor), None)


def thicken(images: Tensor, amount: Tensor) -> Tensor:
    fat = F.max_pool2d(images, 3, stride=1, padding=1)
    thin = -F.max_pool2d(-images, 3, stride=1, padding=1)
    t = amount.view(-1, 1, 1, 1)
    return images + t.clamp(min=0) * (fat - images) + (-t).clamp(min=0) * (thin - images)


X = Transformation("x", shift_x, -5, 5, "pixels")
Y = Transformation("y", shift_y, -5, 5, "pixels")
ROTATION = Transformation("rotation", rotate, -25, 25, "degrees")
SCALE = Transformation("scale", resize, 0.75, 1.25, "factor")
THICKNESS = Transformation("thickness", thicken, -0.5, 1.0, "rings of a pixel")
# The paper's table: how many evenly spaced values of each.
TABLE = ((X, 11), (Y, 11), (ROTATION, 51))
LINEAR = (X, Y, ROTATION, SCALE, THICKNESS)
