"""A digit in a picture of any size, found and centred as MNIST was made. Nothing here needs torch.

All work is on at most `ENOUGH_PIXELS` a side, so that a scan of a whole page takes little memory.
"""

import math

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

DIGIT_BOX = 20
# A digit ends up in a box of 20 pixels: finding it in more than this many a side would only take memory.
ENOUGH_PIXELS = 1024
# Less contrast than this (of 255) is a blank sheet, not ink.
LEAST_CONTRAST = 12.0


def read_digit(picture: Image.Image, size: tuple[int, int]) -> UInt8[np.ndarray, "h w"]:
    """Return the digit of a decoded picture as light ink on black."""
    smaller = picture.reduce(max(1, math.ceil(max(picture.size) / ENOUGH_PIXELS)))
    return centre_digit(grey_levels(smaller), size)


def grey_levels(picture: Image.Image) -> Float[np.ndarray, "h w"]:
    """Grey 0..255; what is transparent becomes the opposite of what is drawn, so that drawn ink stands out."""
    if "A" not in picture.getbands():
        return np.asarray(picture.convert("L"), dtype=np.float64)
    alpha = np.asarray(picture.getchannel("A"), dtype=np.float64) / 255
    grey = np.asarray(picture.convert("RGBA").convert("RGB").convert("L"), dtype=np.float64)
    drawn = (grey * alpha).sum() / max(alpha.sum(), 1e-9)
    ground = 255.0 if drawn < 128 else 0.0
    return grey * alpha + ground * (1 - alpha)


def centre_digit(
    grey: Float[np.ndarray, "h0 w0"], size: tuple[int, int] = (28, 28)
) -> UInt8[np.ndarray, "h w"]:
    """As MNIST was made: light ink on black, its box fitted into 20 x 20, its centre of mass at the middle (index 14 of 28).

    A blank sheet gives zeros.
    """
    height, width = size
    sheet = np.zeros(size, dtype=np.uint8)
    ink = find_ink(grey)
    if ink is None:
        return sheet
    small = _fit_box(ink, min(DIGIT_BOX, height, width))
    mass = small.sum()
    rows, columns = np.arange(small.shape[0]), np.arange(small.shape[1])
    top = round(height / 2 - float((small.sum(axis=1) * rows).sum() / mass))
    left = round(width / 2 - float((small.sum(axis=0) * columns).sum() / mass))
    top = min(max(top, 0), height - small.shape[0])
    left = min(max(left, 0), width - small.shape[1])
    sheet[top : top + small.shape[0], left : left + small.shape[1]] = np.rint(small)
    return sheet


def find_ink(grey: Float[np.ndarray, "h w"]) -> Float[np.ndarray, "h2 w2"] | None:
    """The box around the ink, as how much each pixel differs from the ground (0..255); None for a blank sheet.

    The border tells the ground. Ink is darker or lighter than it, whichever there is more of.
    """
    ground = float(np.median(border(grey)))
    dark, light = np.maximum(ground - grey, 0), np.maximum(grey - ground, 0)
    ink = dark if dark.sum() > light.sum() else light
    peak = float(ink.max())
    if peak < LEAST_CONTRAST:
        return None
    # Paper has a grain and a shadow; most of what the border differs from the ground is that.
    spread = np.quantile(border(ink), 0.9)
    ink = np.where(ink > min(spread, peak / 2), ink, 0.0)
    boxed = ink[_box(ink > 0)]
    if max(boxed.shape) > DIGIT_BOX:
        # A large picture is going to be shrunk: specks of compression must not widen its box.
        boxed = ink[_box(ink > min(max(0.1 * peak, spread), peak / 2))]
    return boxed * (255 / peak)


def _box(mask: np.ndarray) -> tuple[slice, slice]:
    """Rows and columns between which the mask holds something."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def _fit_box(ink: Float[np.ndarray, "h w"], box: int) -> Float[np.ndarray, "h2 w2"]:
    """The larger side becomes `box`, the aspect stays; thin lines that shrinking made faint are made strong again."""
    scale = box / max(ink.shape)
    if scale == 1:
        return ink
    height, width = (max(1, round(n * scale)) for n in ink.shape)
    resized = Image.fromarray(ink.astype(np.float32)).resize((width, height), Image.Resampling.BICUBIC)
    small = np.clip(np.asarray(resized, dtype=np.float64), 0, 255)
    return small * (255 / max(small.max(), 1e-9))


def border(image: np.ndarray) -> np.ndarray:
    """The pixels around a picture, in one row."""
    return np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
