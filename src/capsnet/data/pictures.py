"""An image file, whatever its size and colours, as the pixels that a data set would have stored.

Nothing here needs torch. The size is read from the file's header and judged before a pixel is decoded.

Letters: C x H x W image.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageOps

from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError

# Formats that decode without calling another program, as some of Pillow's others do.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
MAX_PIXELS = 50_000_000
DIGIT_BOX = 20
# A digit ends up in a box of 20 pixels: finding it in more than this many a side would only take memory.
ENOUGH_PIXELS = 2048
# Less contrast than this (of 255) is a blank sheet, not ink.
LEAST_CONTRAST = 12.0
GREY_MODES = ("1", "L", "LA", "I", "F")
ORIENTATION = 274

# Pillow warns from a size on that is refused here anyway. Not a filter around each call: those are not safe in threads.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

Source = str | Path | BufferedIOBase


def read_picture(
    source: Source, preprocessing: Preprocessing, image_shape: tuple[int, int, int]
) -> UInt8[np.ndarray, "c h w"]:
    """The file in the stored form, ready for `preprocessing.apply` to make a model's input of `image_shape`."""
    return prepare_picture(open_picture(source), preprocessing, image_shape, source)


def prepare_picture(
    picture: Image.Image,
    preprocessing: Preprocessing,
    image_shape: tuple[int, int, int],
    source: Source = "The picture",
) -> UInt8[np.ndarray, "c h w"]:
    """A decoded picture in the stored form; `source` is what an error calls it."""
    channels, height, width = image_shape
    if preprocessing.kind == "digit":
        picture = picture.reduce(max(1, math.ceil(max(picture.size) / ENOUGH_PIXELS)))
        return np.broadcast_to(
            centre_digit(grey_levels(picture), (height, width)), (channels, height, width)
        ).copy()
    ground = 0 if preprocessing.light_on_dark else 255
    stored = fit_picture(
        picture, channels, preprocessing.resize or (height, width), ground=ground, source=source
    )
    if preprocessing.light_on_dark and np.median(_border(stored.mean(axis=0))) > 127:
        stored = 255 - stored
    return stored


class Header(NamedTuple):
    """What a file says of its picture before a pixel is decoded."""

    height: int
    width: int
    grey: bool


def read_header(source: Source) -> Header:
    """Size, the right way up, and whether there is colour."""
    with _opened(source) as file:
        turned = file.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
        height, width = (file.width, file.height) if turned else (file.height, file.width)
        return Header(height, width, file.mode in GREY_MODES or file.mode.startswith("I;"))


def open_picture(source: Source, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """A decoded picture the right way up, in mode L, RGB or their kinds with alpha."""
    with _opened(source, max_pixels) as file:
        return _plain_mode(ImageOps.exif_transpose(file))


@contextmanager
def _opened(source: Source, max_pixels: int = MAX_PIXELS) -> Iterator[Image.Image]:
    """The file with its size judged; what goes wrong then and later is one sentence."""
    name = _name(source)
    try:
        with Image.open(cast(Any, source), formats=FORMATS) as file:
            if file.width * file.height > max_pixels:
                raise CapsNetError(
                    f"{name} is {file.width} x {file.height} pixels; at most {max_pixels / 1e6:.3g} million are read."
                )
            yield file
    except CapsNetError:
        raise
    except FileNotFoundError as error:
        raise CapsNetError(f"There is no file {name}.") from error
    except IsADirectoryError as error:
        raise CapsNetError(f"{name} is a folder, not a picture.") from error
    except PermissionError as error:
        raise CapsNetError(f"{name} may not be read: permission denied.") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise CapsNetError(
            f"{name} has more than {MAX_PIXELS // 10**6} million pixels; it is not read."
        ) from error
    except Image.UnidentifiedImageError as error:
        raise CapsNetError(f"{name} is not a picture ({', '.join(FORMATS)} are read).") from error
    # A damaged file makes Pillow's decoders raise almost anything.
    except Exception as error:
        raise CapsNetError(f"{name} is a damaged picture: {error}".rstrip(".") + ".") from error


def fit_picture(
    picture: Image.Image,
    channels: int,
    size: tuple[int, int],
    *,
    ground: int = 255,
    source: Source = "The picture",
) -> UInt8[np.ndarray, "c h w"]:
    """The whole picture at `size` (height, width), in as many channels: 1 grey, 2 a stereo pair side by side, 3 RGB."""
    height, width = size
    if "A" in picture.getbands():
        sheet = Image.new("RGBA", picture.size, (ground, ground, ground, 255))
        picture = Image.alpha_composite(sheet, picture.convert("RGBA"))
    if channels == 3:
        resized = picture.convert("RGB").resize((width, height), Image.Resampling.BICUBIC)
        return np.asarray(resized).transpose(2, 0, 1).copy()
    picture = picture.convert("L")
    if channels == 1:
        return np.asarray(picture.resize((width, height), Image.Resampling.BICUBIC))[None].copy()
    if channels == 2:
        half = picture.width // 2
        if abs(half - picture.height) > 0.1 * picture.height:
            raise CapsNetError(f"{_name(source)} must be a stereo pair: two square pictures side by side.")
        eyes = [picture.crop((x, 0, x + half, picture.height)) for x in (0, picture.width - half)]
        return np.stack([np.asarray(eye.resize((width, height), Image.Resampling.BICUBIC)) for eye in eyes])
    raise CapsNetError(f"A picture file cannot be read as {channels} channels; 1, 2 or 3 can.")


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
    border = _border(grey)
    ground = float(np.median(border))
    dark, light = np.maximum(ground - grey, 0), np.maximum(grey - ground, 0)
    ink = dark if dark.sum() > light.sum() else light
    peak = float(ink.max())
    if peak < LEAST_CONTRAST:
        return None
    # Paper has a grain and a shadow; most of what the border differs from the ground is that.
    spread = np.quantile(_border(ink), 0.9)
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


def _border(image: np.ndarray) -> np.ndarray:
    return np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])


def _plain_mode(picture: Image.Image) -> Image.Image:
    if picture.mode in ("L", "LA", "RGB", "RGBA"):
        picture.load()
        return picture
    if picture.mode.startswith(("I", "F")):
        levels = np.nan_to_num(np.asarray(picture, dtype=np.float64), posinf=0.0, neginf=0.0)
        # 16-bit files use their own range; `convert("L")` would cut it off at 255.
        top = 65535.0 if picture.mode.startswith("I") and levels.max() > 255 else max(levels.max(), 255.0)
        return Image.fromarray(np.clip(np.rint(levels * (255 / top)), 0, 255).astype(np.uint8))
    if picture.mode == "1":
        return picture.convert("L")
    has_alpha = "transparency" in picture.info or "A" in picture.getbands()
    return picture.convert("RGBA" if has_alpha else "RGB")


def _name(source: Any) -> str:
    return str(source) if isinstance(source, str | Path) else str(getattr(source, "name", "The picture"))
