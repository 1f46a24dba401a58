"""Ink in a standard form: handwriting without its slant, and as wide as any other.

Members of an ensemble that see their digits in different forms make different mistakes: Ciresan, Meier, Schmidhuber 2012
normalise the width to 10, 12, ... 20 pixels, each for some of their networks. LeCun et al. 1998 deskew: the rows of an image
are moved sideways until the main axis of its ink is upright.

Both are one resampling along the rows, about the ink's centre of mass, which stays where it is. Nothing is learned.

Letters: B batch, C x H x W image, V source columns.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

MOST_SLANT = 1.0  # pixels across per pixel down
MOST_STRETCH = 2.0  # a 1 is not made as wide as a 0
INK = 0.1  # of the brightest pixel; what is darker does not count for the width


class EvenInk(nn.Module):
    """Take the slant from light ink on black, or bring it to a width, or both.

    Args:
        deskew: move rows sideways until the main axis of the ink is upright.
        width: pixels from the first to the last column with ink, reached by a stretch of at most 2, or its inverse.
    """

    def __init__(self, *, deskew: bool = False, width: int | None = None) -> None:
        super().__init__()
        self.deskew, self.width = deskew, width

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        ink = images.float().mean(dim=1)
        height, width = ink.shape[1:]
        y = torch.arange(height, dtype=torch.float32, device=ink.device)[:, None]
        x = torch.arange(width, dtype=torch.float32, device=ink.device)
        mass = ink.sum(dim=(1, 2), keepdim=True).clamp_min(1e-6)
        down = y - (ink * y).sum(dim=(1, 2), keepdim=True) / mass
        middle = (ink * x).sum(dim=(1, 2), keepdim=True) / mass
        across = x - middle
        if self.deskew:
            slant = (ink * across * down).sum(dim=(1, 2), keepdim=True) / (
                (ink * down.square()).sum(dim=(1, 2), keepdim=True).clamp_min(1e-6)
            )
            slant = slant.clamp(-MOST_SLANT, MOST_SLANT)
        else:
            slant = torch.zeros_like(mass)
        stretch = torch.ones_like(mass)
        if self.width is not None:
            upright = across - slant * down
            inked = ink > INK * ink.amax(dim=(1, 2), keepdim=True)
            right = torch.where(inked, upright, -torch.inf).amax(dim=(1, 2), keepdim=True)
            left = torch.where(inked, upright, torch.inf).amin(dim=(1, 2), keepdim=True)
            now = torch.where(right >= left, right - left + 1, self.width)
            stretch = (self.width / now).clamp(1 / MOST_STRETCH, MOST_STRETCH)
        # For each output pixel (B, H, W) the column that it is read from, then how much of each source column it takes.
        source = middle + across / stretch + slant * down
        share = (1 - (source[..., None] - x).abs()).clamp_min(0)
        even = (share[:, None] * images.float()[:, :, :, None, :]).sum(dim=-1)
        return even.to(images.dtype)
