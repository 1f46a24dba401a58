"""A contact sheet: many small pictures with their names, as one image.

Letters: N images, C x H x W image.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFont

LEAST_SIDE = 84
GAP = 6
CAPTION = 16
GROUND, TEXT = (255, 255, 255), (40, 40, 40)


def contact_sheet(
    images: Float[np.ndarray, "n c h w"], captions: Sequence[str], columns: int = 10
) -> Image.Image:
    """Images of any range, together stretched to black and white; a stereo pair is shown side by side."""
    n, channels, height, width = images.shape
    low, high = float(images.min(initial=0)), float(images.max(initial=0))
    pixels = ((images - low) * (255 / max(high - low, 1e-9))).round().astype(np.uint8)
    if channels == 2:
        pixels, width = np.concatenate([pixels[:, :1], pixels[:, 1:]], axis=3), 2 * width
    pixels = np.broadcast_to(pixels, (n, 3, height, width)) if pixels.shape[1] != 3 else pixels
    scale = max(1, math.ceil(LEAST_SIDE / height))
    cell_width, cell_height = width * scale + GAP, height * scale + CAPTION + GAP
    rows = math.ceil(n / columns)
    sheet = Image.new("RGB", (columns * cell_width + GAP, rows * cell_height + GAP), GROUND)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(12)
    for index, (picture, caption) in enumerate(zip(pixels, captions, strict=True)):
        x, y = GAP + index % columns * cell_width, GAP + index // columns * cell_height
        cell = Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0)))
        sheet.paste(cell.resize((width * scale, height * scale), Image.Resampling.NEAREST), (x, y))
        draw.text((x, y + height * scale + 1), _fit(caption, draw, font, width * scale), TEXT, font)
    return sheet


def _fit(
    text: str, draw: ImageDraw.ImageDraw, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int
) -> str:
    """The caption, cut where it would run into the next one."""
    text = " ".join(text.split())
    while len(text) > 1 and draw.textlength(text, font) > width:
        text = text.removesuffix("…")[:-1] + "…"
    return text
