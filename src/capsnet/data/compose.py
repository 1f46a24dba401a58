"""Augmentation from a list of words, "shift,rotate,flip": for pictures of any kind.

Whatever the order of the list, what moves pixels is done first, as one affine resampling, then what changes their values.
Amounts are gentle: pictures keep their class.

Letters: B batch, C x H x W image.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, UInt8
from torch import Generator, Tensor

from capsnet.data.preprocessing import Preprocessing
from capsnet.data.warp import rotation, scaling, shearing, warp

MAX_SHIFT = 0.08
MAX_DEGREES = 15.0
MAX_SHEAR = 0.15
MAX_ZOOM = 1.15
MAX_BRIGHTNESS = 0.15
MAX_CONTRAST = 1.4
MAX_COLOUR = 1.15
ERASED_SIDE = 0.15

OPERATIONS = {
    "shift": "by up to 8 % of each side",
    "rotate": "by up to 15 degrees",
    "shear": "by up to 0.15",
    "zoom": "in or out by up to 15 %",
    "flip": "mirrored left to right, half the time",
    "brightness": "up or down by up to 15 %",
    "contrast": "by a factor of up to 1.4 or its inverse",
    "colour": "each channel by a factor of up to 1.15 or its inverse",
    "erase": "a square of 15 % of the side becomes the ground",
}
MOVING = ("shift", "rotate", "shear", "zoom", "flip")


def parse_operations(text: str) -> tuple[str, ...] | None:
    """The words of a list, or None when one of them is no operation."""
    words = tuple(word.strip() for word in text.split(","))
    return words if all(word in OPERATIONS for word in words) else None


def unknown_operation(text: str) -> str:
    """The first word of a list that is no operation."""
    return next(word for word in (w.strip() for w in text.split(",")) if word not in OPERATIONS)


class Compose:
    """An augmentation made of operations; every one draws its numbers whether others are there or not, in a fixed order."""

    def __init__(self, operations: Sequence[str], preprocessing: Preprocessing) -> None:
        self.operations = tuple(operations)
        self.preprocessing = preprocessing

    def __call__(self, images: UInt8[Tensor, "b c h w"], generator: Generator) -> Float[Tensor, "b c2 h2 w2"]:
        b, channels = images.shape[:2]
        device = generator.device
        move = 2 * torch.rand(b, 5, generator=generator, device=device) - 1
        side = torch.rand(b, generator=generator, device=device)
        value = 2 * torch.rand(b, 2 + channels, generator=generator, device=device) - 1
        corner = torch.rand(b, 2, generator=generator, device=device)
        x = images.float()
        if any(name in MOVING for name in self.operations):
            x = self._moved(x, move, side)
        x = self._revalued(x, value)
        if "erase" in self.operations:
            x = self._erased(x, corner)
        # Quantities stay those of stored pixels, so that the rest is what evaluation does too.
        return self.preprocessing.apply(x.clamp_(0, 255))

    def _moved(
        self, x: Float[Tensor, "b c h w"], move: Float[Tensor, "b 5"], side: Float[Tensor, "b"]
    ) -> Float[Tensor, "b c h w"]:
        height, width = x.shape[-2:]
        matrix = torch.eye(2, device=x.device).expand(len(x), 2, 2)
        if "zoom" in self.operations:
            factor = MAX_ZOOM ** move[:, 4]
            matrix = scaling(factor, factor) @ matrix
        if "flip" in self.operations:
            matrix = scaling(torch.where(side < 0.5, -1.0, 1.0), torch.ones_like(side)) @ matrix
        if "shear" in self.operations:
            matrix = shearing(MAX_SHEAR * move[:, 3]) @ matrix
        if "rotate" in self.operations:
            matrix = rotation(math.radians(MAX_DEGREES) * move[:, 2]) @ matrix
        scale = MAX_SHIFT if "shift" in self.operations else 0.0
        translation = scale * move[:, :2] * torch.tensor([width, height], device=x.device)
        # Pictures go on beyond their border, black grounds are black there anyway.
        padding = "zeros" if self.preprocessing.light_on_dark else "border"
        return warp(x, matrix, translation, (height, width), padding_mode=padding)

    def _revalued(self, x: Float[Tensor, "b c h w"], value: Float[Tensor, "b k"]) -> Float[Tensor, "b c h w"]:
        b = len(x)
        if "contrast" in self.operations:
            mean = x.mean(dim=(1, 2, 3), keepdim=True)
            x = (x - mean) * (MAX_CONTRAST ** value[:, 1]).view(b, 1, 1, 1) + mean
        if "brightness" in self.operations:
            x = x + (255 * MAX_BRIGHTNESS * value[:, 0]).view(b, 1, 1, 1)
        if "colour" in self.operations:
            x = x * (MAX_COLOUR ** value[:, 2:]).view(b, -1, 1, 1)
        return x

    def _erased(self, x: Float[Tensor, "b c h w"], corner: Float[Tensor, "b 2"]) -> Float[Tensor, "b c h w"]:
        height, width = x.shape[-2:]
        size = max(1, round(ERASED_SIDE * min(height, width)))
        top = (corner[:, :1] * (height - size + 1)).floor()
        left = (corner[:, 1:] * (width - size + 1)).floor()
        row = torch.arange(height, device=x.device) - top
        column = torch.arange(width, device=x.device) - left
        inside = ((row >= 0) & (row < size))[:, :, None] & ((column >= 0) & (column < size))[:, None]
        ground = torch.zeros(len(x), x.shape[1], 1, 1, device=x.device)
        if not self.preprocessing.light_on_dark:
            ground = x.mean(dim=(2, 3), keepdim=True)
        return torch.where(inside[:, None], ground, x)
