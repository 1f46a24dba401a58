"""Augmentation from a list of words, "crop,flip,jitter": for pictures of any kind.

Whatever the order of the list, what moves pixels is done first, as one affine resampling, then what changes their values, then
what covers them. Amounts are gentle: pictures keep their class. `mixup`, which changes classes too, is in `mixing`.

Letters: B batch, C x H x W image.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, UInt8
from torch import Generator, Tensor

from capsnet.data.preprocessing import Preprocessing
from capsnet.data.warp import cover, rotation, scaling, shearing, warp

MAX_SHIFT = 0.08
MAX_DEGREES = 15.0
MAX_SHEAR = 0.15
MAX_ZOOM = 1.15
MAX_BRIGHTNESS = 0.15
MAX_CONTRAST = 1.4
MAX_COLOUR = 1.15
ERASED_SIDE = 0.15
CUT_SIDE = 0.5
SMALLEST_CROP = 0.4
MAX_ASPECT = 4 / 3
MAX_JITTER = 1.4
MAX_HUE = 18.0

OPERATIONS = {
    "shift": "by up to 8 % of each side",
    "rotate": "by up to 15 degrees",
    "shear": "by up to 0.15",
    "zoom": "in or out by up to 15 %",
    "crop": "a random part of 40 % to 100 % of the area, resized, its aspect changed by up to 4/3",
    "flip": "mirrored left to right, half the time",
    "flip_vertical": "mirrored top to bottom, half the time",
    "brightness": "up or down by up to 15 %",
    "contrast": "by a factor of up to 1.4 or its inverse",
    "colour": "each channel by a factor of up to 1.15 or its inverse",
    "jitter": "brightness, contrast and saturation by a factor of up to 1.4 or its inverse, hue by up to 18 degrees",
    "erase": "a square of 15 % of the side becomes the ground",
    "cutout": "a square of half the side becomes the ground; it may reach beyond the border",
}
MOVING = ("shift", "rotate", "shear", "zoom", "crop", "flip", "flip_vertical")


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
        crop = torch.rand(b, 4, generator=generator, device=device)
        upside = torch.rand(b, generator=generator, device=device)
        jitter = 2 * torch.rand(b, 4, generator=generator, device=device) - 1
        centre = torch.rand(b, 2, generator=generator, device=device)
        x = images.float()
        if any(name in MOVING for name in self.operations):
            x = self._moved(x, move, side, upside, crop)
        x = self._revalued(x, value)
        if "jitter" in self.operations:
            x = jittered(x, jitter)
        size = torch.tensor(x.shape[-2:], device=device)
        if "erase" in self.operations:
            square = max(1, round(ERASED_SIDE * int(size.min())))
            x = self._covered(x, (corner * (size - square + 1)).floor(), square)
        if "cutout" in self.operations:
            square = max(1, round(CUT_SIDE * int(size.min())))
            x = self._covered(x, (centre * size).floor() - square // 2, square)
        # Quantities stay those of stored pixels, so that the rest is what evaluation does too.
        return self.preprocessing.apply(x.clamp_(0, 255))

    def _moved(
        self,
        x: Float[Tensor, "b c h w"],
        move: Float[Tensor, "b 5"],
        side: Float[Tensor, "b"],
        upside: Float[Tensor, "b"],
        crop: Float[Tensor, "b 4"],
    ) -> Float[Tensor, "b c h w"]:
        height, width = x.shape[-2:]
        matrix = torch.eye(2, device=x.device).expand(len(x), 2, 2)
        if "zoom" in self.operations:
            factor = MAX_ZOOM ** move[:, 4]
            matrix = scaling(factor, factor) @ matrix
        if "flip" in self.operations:
            matrix = scaling(torch.where(side < 0.5, -1.0, 1.0), torch.ones_like(side)) @ matrix
        if "flip_vertical" in self.operations:
            matrix = scaling(torch.ones_like(upside), torch.where(upside < 0.5, -1.0, 1.0)) @ matrix
        if "shear" in self.operations:
            matrix = shearing(MAX_SHEAR * move[:, 3]) @ matrix
        if "rotate" in self.operations:
            matrix = rotation(math.radians(MAX_DEGREES) * move[:, 2]) @ matrix
        scale = MAX_SHIFT if "shift" in self.operations else 0.0
        size = torch.tensor([width, height], device=x.device)
        translation = scale * move[:, :2] * size
        if "crop" in self.operations:
            # First of all: the part's middle goes to the image's.
            share = crop_sides(crop)
            middle = (crop[:, 2:] - 0.5) * (1 - share) * size
            matrix = matrix @ scaling(1 / share[:, 0], 1 / share[:, 1])
            translation = translation - (matrix @ middle[:, :, None])[:, :, 0]
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

    def _covered(
        self, x: Float[Tensor, "b c h w"], first: Float[Tensor, "b 2"], side: int
    ) -> Float[Tensor, "b c h w"]:
        ground = torch.zeros(1, device=x.device)
        if not self.preprocessing.light_on_dark:
            ground = x.mean(dim=(2, 3), keepdim=True)
        return cover(x, first, side, ground)


def crop_sides(crop: Float[Tensor, "b 4"]) -> Float[Tensor, "b 2"]:
    """The width and height of random crops as shares of the image's, neither above one; from two uniform draws."""
    area = SMALLEST_CROP + (1 - SMALLEST_CROP) * crop[:, 0]
    aspect = MAX_ASPECT ** (2 * crop[:, 1] - 1)
    return torch.stack([(area * aspect).sqrt(), (area / aspect).sqrt()], dim=1).clamp_max(1)


def jittered(x: Float[Tensor, "b c h w"], amount: Float[Tensor, "b 4"]) -> Float[Tensor, "b c h w"]:
    """Brightness and contrast and, of images with three channels, saturation and hue; amounts lie between -1 and 1.

    Saturation scales what makes a pixel differ from grey, and hue turns it about the grey axis.
    """
    brightness, contrast, saturation = (MAX_JITTER ** amount[:, :3]).T[:, :, None, None, None]
    x = x * brightness
    mean = x.mean(dim=(1, 2, 3), keepdim=True)
    x = (x - mean) * contrast + mean
    if x.shape[1] != 3:
        return x
    angle = math.radians(MAX_HUE) * amount[:, 3, None, None, None]
    grey = x.mean(dim=1, keepdim=True)
    colour = x - grey
    across = (colour.roll(1, dims=1) - colour.roll(-1, dims=1)) / math.sqrt(3)
    return grey + saturation * (angle.cos() * colour + angle.sin() * across)
