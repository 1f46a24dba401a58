"""Several crops of an image, over whose predictions a test averages.

Hinton's program takes 13: the centre, and (+-k, +-k) for k = 1, 2, 3. The paper says 40 without saying which; any other
number here is an even grid: r = floor(sqrt(n)) rows, at the middles of r equal bands of all possible offsets; the n crops
shared out among the rows as evenly as they go, each row's at the middles of as many equal bands. So the crops stand for the
uniformly random ones of training.

Letters: N crops, B batch, C x H x W image.
"""

import math

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from capsnet.data.preprocessing import Preprocessing, standardise_each
from capsnet.errors import CapsNetError

HINTON = 13


def crop_offsets(image: tuple[int, int], crop: tuple[int, int], n: int) -> list[tuple[int, int]]:
    """`n` places (top, left) of a crop in an image; one is the centre."""
    spare_y, spare_x = image[0] - crop[0], image[1] - crop[1]
    if n < 1 or min(spare_y, spare_x) < 0:
        raise CapsNetError(
            f"{n} crops of {crop[0]}x{crop[1]} cannot be taken from {image[0]}x{image[1]} pixels."
        )
    top, left = spare_y // 2, spare_x // 2
    if n == HINTON:
        steps = [(0, 0)] + [(y * k, x * k) for k in (1, 2, 3) for y in (-1, 1) for x in (-1, 1)]
        if min(spare_y, spare_x) < 6:
            raise CapsNetError(f"Hinton's 13 crops need 6 spare pixels; there are {min(spare_y, spare_x)}.")
        return [(top + y, left + x) for y, x in steps]
    rows = math.isqrt(n)
    offsets = []
    for row in range(rows):
        columns = n // rows + (row < n % rows)
        y = _middle(row, rows, spare_y)
        offsets += [(y, _middle(column, columns, spare_x)) for column in range(columns)]
    return offsets


def _middle(index: int, parts: int, spare: int) -> int:
    """The middle of one of `parts` equal bands of the offsets 0..spare; exact halves go down, as the centre crop does."""
    return math.ceil((2 * index + 1) * spare / (2 * parts) - 0.5)


def patches(
    images: UInt8[Tensor, "b c h0 w0"], preprocessing: Preprocessing, n: int
) -> Float[Tensor, "n b c h w"]:
    """The model's inputs for `n` crops of each image; `n = 1` is what `preprocessing.apply` gives."""
    if preprocessing.crop is None:
        raise CapsNetError("These images are not cropped, so there is only one patch of each.")
    resized = preprocessing.resized(images)
    h, w = preprocessing.crop
    places = crop_offsets((resized.shape[-2], resized.shape[-1]), (h, w), n)
    crops = [resized[..., y : y + h, x : x + w] for y, x in places]
    if preprocessing.per_image:
        crops = [standardise_each(crop) for crop in crops]
    return torch.stack(crops)
