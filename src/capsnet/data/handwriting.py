"""Digits varied as hands vary them: turned, slanted, sized and moved, their strokes wobbling, thicker or thinner.

The affine part and the wobble, a smooth field of displacements between a few random ones, are one resampling of the whole
batch. Amounts are normal draws cut at 2.5 deviations, so that most images stay near what was written.

Letters: B batch, H x W image, K x K knots of the displacement field, P = H W pixels, N = 3 + K K terms of a place.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Generator, Tensor
from torch.nn import functional as F

from capsnet.data.mnist import PREPROCESSING

DIVISOR = PREPROCESSING.divisor
CUT = 2.5
KNOTS = 5
ERASED_SIDE = 4


class Amounts(NamedTuple):
    """How much digits vary: deviations, but for the most that strokes are `thicker` and `thinner` and the share of images with
    an erased square."""

    degrees: float = 7.0
    slant: float = 0.12
    """pixels across per pixel down"""
    size: float = 0.07
    """log factor, on each axis by itself"""
    shift: float = 1.0
    """pixels"""
    wobble: float = 0.9
    """pixels"""
    thicker: float = 0.5
    thinner: float = 0.5
    erased: float = 0.5


MILD = Amounts()
GENTLE = Amounts(
    degrees=5.0, slant=0.08, size=0.05, shift=0.7, wobble=0.6, thicker=0.35, thinner=0.35, erased=0.0
)
BOLD = GENTLE._replace(thicker=1.0)
LIVELY = MILD._replace(thicker=1.0, erased=0.0)
AFFINE = Amounts(degrees=8.0, slant=0.15, size=0.08, shift=1.0, wobble=0.4, erased=0.0)
STRONG = Amounts(degrees=10.0, slant=0.18, size=0.1, shift=1.3, wobble=1.2, thicker=0.7, thinner=0.7)


def handwriting(
    images: UInt8[Tensor, "b 1 h w"], generator: Generator, amounts: Amounts = MILD
) -> Float[Tensor, "b 1 h w"]:
    """Pixels / 256, in [0, 1)."""
    b, _, height, width = images.shape
    device = generator.device
    normal = torch.randn(b, 7, generator=generator, device=device).clamp_(-CUT, CUT)
    knots = torch.randn(b, 2, KNOTS, KNOTS, generator=generator, device=device).clamp_(-CUT, CUT)
    uniform = torch.rand(b, 4, generator=generator, device=device)
    pixels = torch.tensor([2 / width, 2 / height], device=device).view(2, 1)
    terms = torch.cat(
        [_affine(normal, amounts, height, width), amounts.wobble * pixels * knots.flatten(2)], dim=2
    )
    grid = (terms @ _places(height, width).to(device)).view(b, 2, height, width).movedim(1, 3)
    moved = F.grid_sample(
        images.float() / DIVISOR, grid, mode="bicubic", padding_mode="zeros", align_corners=False
    )
    ink = 2 * uniform[:, 0] - 1
    ink = amounts.thicker * ink.clamp_min(0) + amounts.thinner * ink.clamp_max(0)
    inked = _thickness(moved.clamp_(0, 255 / DIVISOR), ink)
    return _erased(inked, uniform[:, 1:], amounts.erased) if amounts.erased else inked


@lru_cache
def _places(height: int, width: int) -> Float[Tensor, "n p"]:
    """For each of P = H W pixels what its place is a sum of: x, y and 1, and what each of K x K knots counts there."""
    y, x = torch.meshgrid(
        *((2 * torch.arange(side, device="cpu") + 1) / side - 1 for side in (height, width)), indexing="ij"
    )
    affine = torch.stack([x, y, torch.ones_like(x)]).flatten(1)
    return torch.cat([affine, torch.kron(_between_knots(height), _between_knots(width)).T])


def _between_knots(side: int) -> Float[Tensor, "s k"]:
    """How much each of K knots, evenly over `side` pixels, counts at each pixel: bicubic interpolation as a matrix."""
    alone = torch.eye(KNOTS, device="cpu")[:, None, :, None].expand(-1, -1, -1, KNOTS)
    return F.interpolate(alone, (side, KNOTS), mode="bicubic", align_corners=True)[:, 0, :, 0].T


def _affine(
    normal: Float[Tensor, "b 7"], amounts: Amounts, height: int, width: int
) -> Float[Tensor, "b 2 3"]:
    """Where each output pixel comes from, in halves of the image: a turn, a slant and a size about the centre, then a shift."""
    theta = math.radians(amounts.degrees) * normal[:, 0]
    cos, sin, slant = theta.cos(), theta.sin(), amounts.slant * normal[:, 1]
    wide, high = (amounts.size * normal[:, 2]).exp(), (amounts.size * normal[:, 3]).exp()
    across, down = amounts.shift * normal[:, 4] * 2 / width, amounts.shift * normal[:, 5] * 2 / height
    return torch.stack(
        [wide * cos, wide * (sin + slant) * height / width, across,
         -high * sin * width / height, high * cos, down], dim=1,
    ).view(-1, 2, 3)  # fmt: skip


def _thickness(images: Float[Tensor, "b 1 h w"], amount: Float[Tensor, "b"]) -> Float[Tensor, "b 1 h w"]:
    """Strokes move towards their dilation where the amount is above zero, towards their erosion below, as bright as before."""
    thick = _over_neighbours(images, torch.maximum)
    thin = _over_neighbours(images, torch.minimum)
    share = amount.view(-1, 1, 1, 1)
    inked = images + share.clamp_min(0) * (thick - images) + share.clamp_max(0) * (images - thin)
    brightest = images.amax(dim=(2, 3), keepdim=True), inked.amax(dim=(2, 3), keepdim=True)
    return inked * (brightest[0] / brightest[1].clamp_min(1 / DIVISOR))


def _over_neighbours(
    images: Float[Tensor, "b 1 h w"], of_two: Callable[[Tensor, Tensor], Tensor]
) -> Float[Tensor, "b 1 h w"]:
    """The largest or smallest of each pixel's 3x3 neighbourhood; six operations on whole images are faster than pooling."""
    padded = F.pad(images, (1, 1, 1, 1), mode="replicate")
    rows = of_two(of_two(padded[..., :-2, :], padded[..., 1:-1, :]), padded[..., 2:, :])
    return of_two(of_two(rows[..., :-2], rows[..., 1:-1]), rows[..., 2:])


def _erased(
    images: Float[Tensor, "b 1 h w"], uniform: Float[Tensor, "b 3"], some: float
) -> Float[Tensor, "b 1 h w"]:
    """A square of zeros somewhere in the middle of some of the images."""
    height, width = images.shape[-2:]
    corner = ERASED_SIDE + uniform[:, :2] * (
        torch.tensor([height, width], device=images.device) - 3 * ERASED_SIDE + 1
    )
    row = torch.arange(height, device=images.device) - corner[:, :1].floor()
    column = torch.arange(width, device=images.device) - corner[:, 1:].floor()
    inside = ((row >= 0) & (row < ERASED_SIDE))[:, :, None] & ((column >= 0) & (column < ERASED_SIDE))[
        :, None
    ]
    chosen = (uniform[:, 2] < some).view(-1, 1, 1)
    return images.masked_fill((inside & chosen)[:, None], 0.0)
