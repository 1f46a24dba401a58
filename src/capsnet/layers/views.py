"""Views of an image: itself, and itself moved, turned, slanted or sized a little, for an average over them at test time.

A network that has learned from varied images answers slightly differently to each view; the mean of the answers is wrong less
often than any of them (Krizhevsky et al. 2012 average ten crops). The views are fixed: nothing is drawn at random.

Letters: B batch, C x H x W image, V views.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from capsnet.errors import CapsNetError, unknown_name

# What each word adds to the plain image, and by how much when no number is given.
KINDS = {
    "shift": (1.0, "left, right, up and down by so many pixels"),
    "turn": (4.0, "to both sides by so many degrees"),
    "slant": (0.1, "to both sides by so many pixels across per pixel down"),
    "zoom": (0.05, "larger and smaller by this share"),
}
LARGEST = {"shift": 8.0, "turn": 45.0, "slant": 0.5, "zoom": 0.5}
Affine = tuple[
    float, float, float, float, float, float
]  # a pixel's source is (a x + b y + c, d x + e y + f), in pixels


class Views(nn.Module):
    """Give every image in all its views, one view of the whole batch after the other.

    Args:
        views: words of `KINDS` with commas between them, each with a number of its own if you like: "shift,turn=5".

    Shapes: (B, C, H, W) -> (V B, C, H, W), the plain images first.
    """

    def __init__(self, views: str) -> None:
        super().__init__()
        self.affines = parse_views(views)

    def __len__(self) -> int:
        return 1 + len(self.affines)

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "vb c h w"]:
        return torch.cat([images, *(look(images, affine) for affine in self.affines)])


def parse_views(text: str) -> list[Affine]:
    """Return the affine map of each view but the plain one."""
    affines: list[Affine] = []
    for word in (word.strip() for word in text.split(",")):
        kind, equals, number = word.partition("=")
        if kind not in KINDS:
            raise unknown_name("view", kind, KINDS)
        amount = KINDS[kind][0]
        if equals:
            try:
                amount = float(number)
            except ValueError:
                amount = math.nan
        if not 0 < amount <= LARGEST[kind]:
            raise CapsNetError(
                f"The view {kind} takes a number above 0, at most {LARGEST[kind]:g}, not '{number}'."
            )
        affines += affines_of(kind, amount)
    return affines


def affines_of(kind: str, amount: float) -> list[Affine]:
    """Return the maps that one word stands for."""
    if kind == "shift":
        moves = (amount, 0.0), (-amount, 0.0), (0.0, amount), (0.0, -amount)
        return [(1.0, 0.0, dx, 0.0, 1.0, dy) for dx, dy in moves]
    if kind == "turn":
        angles = math.radians(amount), -math.radians(amount)
        return [(math.cos(a), math.sin(a), 0.0, -math.sin(a), math.cos(a), 0.0) for a in angles]
    if kind == "slant":
        return [(1.0, slant, 0.0, 0.0, 1.0, 0.0) for slant in (amount, -amount)]
    return [(scale, 0.0, 0.0, 0.0, scale, 0.0) for scale in (1 / (1 + amount), 1 + amount)]


def look(images: Float[Tensor, "b c h w"], affine: Affine) -> Float[Tensor, "b c h w"]:
    """Resample images by one affine map about their middle; beyond the border the border goes on."""
    height, width = images.shape[-2:]
    a, b, c, d, e, f = affine
    theta = torch.tensor(
        [[a, b * height / width, c * 2 / width], [d * width / height, e, f * 2 / height]], dtype=torch.float32
    )
    grid = F.affine_grid(theta[None], [1, 1, height, width], align_corners=False).to(images.device)
    grid = grid.expand(images.shape[0], -1, -1, -1)  # len() would make a traced batch a constant
    moved = F.grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return moved.to(images.dtype)
