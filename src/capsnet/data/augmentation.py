"""Ways to vary a training image at random, a batch at a time, from one generator: the same seed gives the same bits.

`byerly` is the MNIST augmentation of Byerly et al. 2020 that the paper uses: rotate, shift as far as the ink allows,
squish, erase a square. The first three compose into one affine map, so each pixel is interpolated once. The authors'
program goes through three stages instead; `byerly_literal` is that order, with its whole degrees about index (14, 14), its
bilinear rotation and its Lanczos squish.

Letters: B batch, C x H x W image; n is a half-normal draw cut at 0.9999.
"""

from functools import lru_cache, partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Generator, Tensor
from torch.nn import functional as F

from capsnet.data.base import Augmentation
from capsnet.data.handwriting import AFFINE, BOLD, GENTLE, LIVELY, STRONG, handwriting
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.warp import cover

DEVIATION = 0.33
CUT = 0.9999
MAX_DEGREES = 30.0
MAX_SQUISH = 7
ERASE = 4
DIVISOR = 256.0


class Draws(NamedTuple):
    """All that is random in `byerly`, in the order in which it is drawn."""

    degrees: Float[Tensor, "b"]
    backwards: Tensor
    shift: Float[Tensor, "b 2"]
    narrower: Float[Tensor, "b"]
    pad: Float[Tensor, "b"]
    erase: Int[Tensor, "b 2"]


def draw_byerly(b: int, height: int, width: int, generator: Generator) -> Draws:
    """One uniform and one normal call, then the erased squares' corners (column, row), uniform in 4..size-6."""
    device = generator.device
    uniform = torch.rand(b, 5, generator=generator, device=device)
    normal = (DEVIATION * torch.randn(b, 5, generator=generator, device=device)).clamp(-CUT, CUT)
    n = normal.abs()
    degrees = MAX_DEGREES * normal[:, 0] * (uniform[:, 0] < 0.5)
    narrower = (MAX_SQUISH * n[:, 3] + 1).floor()
    pad = (narrower / 2).floor() + (2 * n[:, 4]).floor()
    choices = torch.tensor([width, height], device=device) - (2 * ERASE + 1)
    erase = (uniform[:, 3:] * choices).long().clamp_max(choices - 1) + ERASE
    return Draws(degrees, uniform[:, 1:3] < 0.5, n[:, 1:3], narrower, pad, erase)


def byerly(
    images: UInt8[Tensor, "b 1 h w"], generator: Generator, *, interpolation: str = "bicubic"
) -> Float[Tensor, "b 1 h w"]:
    """Rotation, shift and squish as one resampling; pixels / 256, in [0, 1)."""
    b, _, height, width = images.shape
    draws = draw_byerly(b, height, width, generator)
    grid = F.affine_grid(byerly_map(images, draws), [b, 1, height, width], align_corners=False)
    pixels = images.float() / DIVISOR
    moved = F.grid_sample(pixels, grid, mode=interpolation, padding_mode="zeros", align_corners=False)
    return _erase(moved.clamp_(0, 255 / DIVISOR), draws.erase)


def byerly_map(images: UInt8[Tensor, "b 1 h w"], draws: Draws) -> Float[Tensor, "b 2 3"]:
    """Where each output pixel comes from, for `affine_grid`: unsquished, then unshifted, then unrotated about the centre."""
    b, _, height, width = images.shape
    theta = torch.deg2rad(draws.degrees)
    cos, sin = theta.cos(), theta.sin()
    shift = _shift(draws, _rotated_margins(images, cos, sin))
    stretch = width / (width - draws.narrower)
    # in pixels from the image's centre
    middle = (width - draws.narrower) / 2 + draws.pad - width / 2
    dx, dy = stretch * middle + shift[:, 0], shift[:, 1]
    return torch.stack(
        [cos * stretch, sin * height / width, -(cos * dx + sin * dy) * (2 / width),
         -sin * stretch * width / height, cos, (sin * dx - cos * dy) * (2 / height)], dim=1,
    ).view(b, 2, 3)  # fmt: skip


def byerly_literal(images: UInt8[Tensor, "b 1 h w"], generator: Generator) -> Float[Tensor, "b 1 h w"]:
    """The same draws, through the program's own stages."""
    b, _, height, width = images.shape
    draws = draw_byerly(b, height, width, generator)
    theta = torch.deg2rad(draws.degrees.trunc())
    cos, sin = theta.cos(), theta.sin()
    # Index (w/2, h/2) lies half a pixel off the centre on both axes: turning about it moves the centre.
    off_x, off_y = 0.5 - 0.5 * (cos + sin), 0.5 - 0.5 * (cos - sin)
    inverse = torch.stack([cos, sin * height / width, off_x * 2 / width,
                           -sin * width / height, cos, off_y * 2 / height], dim=1).view(b, 2, 3)  # fmt: skip
    grid = F.affine_grid(inverse, [b, 1, height, width], align_corners=False)
    turned = F.grid_sample(images.float() / DIVISOR, grid, padding_mode="zeros", align_corners=False)
    # Above rounding: where nothing turns, a neighbour may still get a ten-millionth of a pixel.
    shift = _shift(draws, _margins(turned > 1e-4)).long()
    rows = torch.arange(height, device=images.device) - shift[:, 1:]
    shifted = turned[:, 0].gather(1, rows.clamp(0, height - 1)[:, :, None].expand(-1, -1, width))
    shifted = shifted * ((rows >= 0) & (rows < height))[:, :, None]
    # Columns: the shift by whole pixels, then the squish, as one matrix an image.
    columns = torch.arange(width, device=images.device) + shift[:, :1]
    squish = lanczos_squish(width).to(images.device)[draws.narrower.long() - 1]
    padded = F.pad(squish, (0, 1))
    outside = (columns < 0) | (columns >= width)
    squish = padded.gather(2, columns.masked_fill(outside, width)[:, None].expand(-1, width, -1))
    to = torch.arange(width, device=images.device) - draws.pad.long()[:, None]
    squish = (
        squish.gather(1, to.clamp(0, width - 1)[:, :, None].expand(-1, -1, width)) * (to >= 0)[:, :, None]
    )
    moved = torch.bmm(shifted, squish.transpose(1, 2))[:, None]
    return _erase(moved.clamp_(0, 255 / DIVISOR), draws.erase)


@lru_cache
def lanczos_squish(width: int, lobes: int = 3) -> Float[Tensor, "k w w"]:
    """For 1..7 pixels narrower: the antialiased Lanczos resize of a row, rows past the narrower width zero."""
    squish = torch.zeros(MAX_SQUISH, width, width, device="cpu")
    for narrower in range(1, MAX_SQUISH + 1):
        new = width - narrower
        scale = width / new
        centres = (torch.arange(new, device="cpu") + 0.5) * scale - 0.5
        distance = (torch.arange(width, device="cpu") - centres[:, None]) / scale
        weights = torch.sinc(distance) * torch.sinc(distance / lobes) * (distance.abs() < lobes)
        squish[narrower - 1, :new] = weights / weights.sum(dim=1, keepdim=True)
    return squish


def _shift(draws: Draws, margins: Float[Tensor, "b 2 2"]) -> Float[Tensor, "b 2"]:
    """Whole pixels right and down; `margins` are (axis, before or after) the ink."""
    before, after = margins[:, :, 0], margins[:, :, 1]
    return torch.where(
        draws.backwards, -(draws.shift * before).ceil(), (draws.shift * (1 + after)).floor()
    ).clamp(-before, after)


def _margins(ink: Tensor) -> Float[Tensor, "b 2 2"]:
    """Empty columns left and right, empty rows above and below."""
    sides = []
    for filled in (ink.any(dim=2)[:, 0], ink.any(dim=3)[:, 0]):
        size = filled.shape[1]
        place = torch.arange(size, dtype=torch.float32, device=ink.device)
        first = torch.where(filled, place, size).amin(dim=1)
        last = torch.where(filled, place, -1.0).amax(dim=1)
        sides.append(torch.stack([first, size - 1 - last], dim=1))
    return torch.stack(sides, dim=1)


def _rotated_margins(
    images: UInt8[Tensor, "b 1 h w"], cos: Float[Tensor, "b"], sin: Float[Tensor, "b"]
) -> Float[Tensor, "b 2 2"]:
    """The margins that the images will have when turned, from where their ink pixels go.

    A turned pixel spreads over |cos| + |sin| to each side. Below zero where turning carries ink out of the image: then
    the shift must bring it back.
    """
    b, _, height, width = images.shape
    x = torch.arange(width, device=images.device) - (width - 1) / 2
    y = torch.arange(height, device=images.device) - (height - 1) / 2
    cos, sin = cos.view(b, 1, 1), sin.view(b, 1, 1)
    blank = images[:, 0] == 0
    reach = (cos.abs() + sin.abs()).view(b)
    sides = []
    for place, size in ((cos * x - sin * y[:, None], width), (sin * x + cos * y[:, None], height)):
        first = place.masked_fill(blank, size).amin(dim=(1, 2)) + (size - 1) / 2
        last = place.masked_fill(blank, -size).amax(dim=(1, 2)) + (size - 1) / 2
        sides.append(torch.stack([(first - reach).floor() + 1, size - (last + reach).ceil()], dim=1))
    return torch.stack(sides, dim=1)


def _erase(images: Float[Tensor, "b 1 h w"], corner: Int[Tensor, "b 2"]) -> Float[Tensor, "b 1 h w"]:
    height, width = images.shape[-2:]
    column = torch.arange(width, device=images.device) - corner[:, :1]
    row = torch.arange(height, device=images.device) - corner[:, 1:]
    inside = ((row >= 0) & (row < ERASE))[:, :, None] & ((column >= 0) & (column < ERASE))[:, None]
    return images.masked_fill_(inside[:, None], 0.0)


def shift(
    images: UInt8[Tensor, "b c h w"],
    generator: Generator,
    *,
    pixels: int = 2,
    flip: bool = False,
    divisor: float = DIVISOR,
) -> Float[Tensor, "b c h w"]:
    """By up to `pixels` whole pixels on each axis, zeros coming in (Sabour et al. 2017); mirrored half the time with `flip`."""
    b, _, height, width = images.shape
    device = images.device
    by = torch.randint(-pixels, pixels + 1, (b, 2), generator=generator, device=device)
    columns = torch.arange(width, device=device) + pixels - by[:, :1]
    rows = torch.arange(height, device=device) + pixels - by[:, 1:]
    if flip:
        mirrored = torch.rand(b, 1, generator=generator, device=device) < 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
    padded = F.pad(images, (pixels,) * 4).movedim(1, -1)
    moved = padded[torch.arange(b, device=device)[:, None, None], rows[:, :, None], columns[:, None]]
    return moved.movedim(-1, 1).to(torch.float32, memory_format=torch.contiguous_format) / divisor


def crop_flip(
    images: UInt8[Tensor, "b c h w"],
    generator: Generator,
    *,
    preprocessing: Preprocessing,
    share: float = 1 / 8,
    cut: float = 0.0,
) -> Float[Tensor, "b c2 h2 w2"]:
    """What small photographs are trained with: mirrored half the time, and moved by whole pixels, up to `share` of each side;
    what comes in at a border is the picture mirrored there. With `cut`, a square of that share of the side becomes the mean
    (DeVries, Taylor 2017)."""
    b, _, height, width = images.shape
    device = images.device
    u = torch.rand(b, 5, generator=generator, device=device)

    def places(size: int, u: Float[Tensor, "b"]) -> Int[Tensor, "b n"]:
        most = int(share * size)
        moved = torch.arange(size, device=device) - most + (u * (2 * most + 1)).long()[:, None]
        return (size - 1) - ((size - 1) - moved.abs()).abs()

    rows, columns = places(height, u[:, 0]), places(width, u[:, 1])
    columns = torch.where(u[:, 2:3] < 0.5, columns.flip(1), columns)
    moved = images.movedim(1, -1)[
        torch.arange(b, device=device)[:, None, None], rows[:, :, None], columns[:, None]
    ]
    images = moved.movedim(-1, 1)
    if cut:
        side = round(cut * min(height, width))
        first = (u[:, 3:] * torch.tensor([height, width], device=device)).floor() - side // 2
        images = cover(images.float(), first, side, images.float().mean(dim=(2, 3), keepdim=True))
    return preprocessing.apply(images)


MNIST_AUGMENTATIONS: dict[str, Augmentation] = {
    "byerly": byerly,
    "byerly_bilinear": partial(byerly, interpolation="bilinear"),
    "byerly_literal": byerly_literal,
    "handwriting": handwriting,
    "handwriting_affine": partial(handwriting, amounts=AFFINE),
    "handwriting_bold": partial(handwriting, amounts=BOLD),
    "handwriting_gentle": partial(handwriting, amounts=GENTLE),
    "handwriting_lively": partial(handwriting, amounts=LIVELY),
    "handwriting_strong": partial(handwriting, amounts=STRONG),
    "shift": shift,
}
FASHION_AUGMENTATIONS: dict[str, Augmentation] = {
    "shift_flip": partial(shift, flip=True),
    **MNIST_AUGMENTATIONS,
}
