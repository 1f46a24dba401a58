"""The one decoder: an image file of any size, depth and colour as the pixels that a data set stores. No torch.

Training, prediction and the server read pictures through this file, in two steps:

- `read_header(source)` gives the size without decoding a pixel, and `Header.memory`, the bytes that reading may take at its
  peak. A server reserves these, a folder divides its memory by them.
- `read_picture(source, preprocessing, image_shape, max_pixels=...)` decodes once and gives uint8 pixels (C, H, W), ready for
  `Preprocessing.apply`. `source` is a path or a binary file; an attribute `name` of it is what errors call it by.

Both raise `CapsNetError` with one sentence for whatever is wrong with a file. What comes out is what a person sees: turned
as EXIF says, the first frame of an animation, palettes and CMYK as RGB, transparency over the data set's background. Deep
pictures are brought to 8 bits: whole numbers by the fewest bits that hold their brightest pixel (12 for a maximum of 4095),
floats up to 1 or 255 as such, any others from their darkest to their brightest. 16-bit colour keeps its upper 8 bits.

Large JPEGs are decoded at a half, a quarter or an eighth, never below `ENLARGED` times the size wanted.

Letters: C x H x W image.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from capsnet.data.digits import ENOUGH_PIXELS, border, read_digit
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError

# Formats that decode without calling another program, as some of Pillow's others do.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
MAX_PIXELS = 50_000_000
ENLARGED = 2
# The peak of every format and mode, measured by tests/data/test_decoder_memory.py: a decoder's own buffers, the decoded
# picture, one copy in another mode; and the search for a digit.
BYTES_PER_PIXEL = 12
WEBP_BYTES_PER_PIXEL = 20
BYTES_PER_SEARCHED_PIXEL = 64
STRIP_PIXELS = 1 << 18
GREY_MODES = ("1", "L", "LA", "I", "F")
ORIENTATION = 274

# Sizes are refused here anyway, and damaged EXIF is ignored. Not a filter around each call: those are not safe in threads.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", message="Corrupt EXIF data", category=UserWarning)

Source = str | Path | BufferedIOBase


class Header(NamedTuple):
    """What a file says about its picture before a pixel is decoded; height and width are those of the upright picture."""

    height: int
    width: int
    grey: bool
    format: str

    @property
    def pixels(self) -> int:
        return self.height * self.width

    @property
    def memory(self) -> int:
        """The bytes that reading the picture takes at most, beside those of the result."""
        per_pixel = WEBP_BYTES_PER_PIXEL if self.format == "WEBP" else BYTES_PER_PIXEL
        return per_pixel * self.pixels + BYTES_PER_SEARCHED_PIXEL * min(self.pixels, ENOUGH_PIXELS**2)


def read_header(source: Source, max_pixels: int = MAX_PIXELS) -> Header:
    """Read the size of the upright picture and whether it is grey; refuse it when it has more than `max_pixels`."""
    with _opened(source, max_pixels) as file:
        # Pillow turns TIFFs by itself, and asking a PNG for EXIF that it has not met yet would decode it.
        known = file.format != "TIFF" and (file.format != "PNG" or "exif" in file.info)
        height, width = file.height, file.width
        if known and _orientation(file) in (5, 6, 7, 8):
            height, width = width, height
        return Header(height, width, file.mode in GREY_MODES or file.mode.startswith("I;"), str(file.format))


def read_picture(
    source: Source,
    preprocessing: Preprocessing,
    image_shape: tuple[int, int, int],
    *,
    max_pixels: int = MAX_PIXELS,
) -> UInt8[np.ndarray, "c h w"]:
    """Read a file in the stored form, ready for `preprocessing.apply` to make a model's input of `image_shape`."""
    channels, height, width = image_shape
    if preprocessing.kind == "digit":
        picture = decode(source, (ENOUGH_PIXELS, ENOUGH_PIXELS), max_pixels=max_pixels)
        return np.broadcast_to(read_digit(picture, (height, width)), image_shape).copy()
    size = preprocessing.resize or (height, width)
    background = 0 if preprocessing.light_on_dark else 255
    stored = read_pixels(source, channels, size, background=background, max_pixels=max_pixels)
    if preprocessing.light_on_dark and np.median(border(stored.mean(axis=0))) > 127:
        stored = 255 - stored
    return stored


def read_pixels(
    source: Source,
    channels: int,
    size: tuple[int, int],
    *,
    background: int = 255,
    mask: Source | None = None,
    max_pixels: int = MAX_PIXELS,
) -> UInt8[np.ndarray, "c h w"]:
    """Read the whole picture at `size` (height, width) with 1 channel (grey), 2 (a stereo pair side by side) or 3 (RGB).

    What is black in the picture file `mask` becomes the background.
    """
    if channels not in (1, 2, 3):
        raise CapsNetError(f"A picture file cannot be read as {channels} channels; 1, 2 or 3 can.")
    height, width = size
    picture = decode(source, (height, width * (2 if channels == 2 else 1)), max_pixels=max_pixels)
    if mask is not None:
        picture = _masked(picture, mask, max_pixels)
    if channels != 2:
        return _fit(picture, channels, size, background)
    half = picture.width // 2
    if abs(half - picture.height) > 0.1 * picture.height:
        raise CapsNetError(f"{_name(source)} must be a stereo pair: two square pictures side by side.")
    eyes = [picture.crop((x, 0, x + half, picture.height)) for x in (0, picture.width - half)]
    return np.concatenate([_fit(eye, 1, size, background) for eye in eyes])


def decode(
    source: Source, enough: tuple[int, int] | None = None, *, max_pixels: int = MAX_PIXELS
) -> Image.Image:
    """Decode a picture upright, in mode L, LA, RGB or RGBA; a JPEG much larger than `enough` (height, width) at a fraction."""
    with _opened(source, max_pixels) as file:
        if enough and file.format in ("JPEG", "MPO"):
            height, width = enough if _orientation(file) < 5 else enough[::-1]
            file.draft(None, (ENLARGED * width, ENLARGED * height))
        file.load()
        if _orientation(file) != 1:
            ImageOps.exif_transpose(file, in_place=True)
        return _plain_mode(file)


@contextmanager
def _opened(source: Source, max_pixels: int) -> Iterator[Image.Image]:
    """Open a file whose size is within bounds; what goes wrong then and later becomes one sentence."""
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
            f"{name} has more than {max_pixels / 1e6:.3g} million pixels; it is not read."
        ) from error
    except Image.UnidentifiedImageError as error:
        why = "the file is empty" if _is_empty(source) else f"{', '.join(FORMATS)} are read"
        raise CapsNetError(f"{name} is not a picture ({why}).") from error
    # A damaged file makes Pillow's decoders raise almost anything.
    except Exception as error:
        raise CapsNetError(f"{name} is a damaged picture: {error}".rstrip(".") + ".") from error


def _orientation(file: Image.Image) -> int:
    """EXIF's orientation, 1 to 8; viewers show a picture with damaged EXIF as it is stored."""
    try:
        value = file.getexif().get(ORIENTATION, 1)
    except Exception:
        return 1
    return value if value in range(1, 9) else 1


def _masked(picture: Image.Image, mask: Source, max_pixels: int) -> Image.Image:
    """Make transparent what is black in the mask."""
    shape = decode(mask, max_pixels=max_pixels).convert("L")
    if shape.size != picture.size:
        raise CapsNetError(
            f"The mask {_name(mask)} is {shape.width} x {shape.height} pixels, its picture {picture.width} x {picture.height}."
        )
    picture = picture.convert("RGB")
    picture.putalpha(shape)
    return picture


def _fit(
    picture: Image.Image, channels: int, size: tuple[int, int], background: int
) -> UInt8[np.ndarray, "c h w"]:
    """Resize first, so that everything else works on few pixels, then lay transparency over the background."""
    mode = "RGB" if channels == 3 else "L"
    if "A" not in picture.getbands():
        picture = picture.convert(mode)
    picture = picture.resize(size[::-1], Image.Resampling.BICUBIC)
    if "A" in picture.getbands():
        sheet = Image.new("RGBA", picture.size, (background, background, background, 255))
        picture = Image.alpha_composite(sheet, picture.convert("RGBA")).convert(mode)
    return np.asarray(picture).reshape(*size, channels).transpose(2, 0, 1).copy()


def _plain_mode(picture: Image.Image) -> Image.Image:
    if picture.mode in ("L", "LA", "RGB", "RGBA"):
        return picture
    if picture.mode.startswith(("I", "F")):
        return Image.fromarray(_eight_bits(picture))
    if picture.mode == "1":
        return picture.convert("L")
    has_alpha = "transparency" in picture.info or "A" in picture.getbands()
    return picture.convert("RGBA" if has_alpha else "RGB")


def _eight_bits(picture: Image.Image) -> UInt8[np.ndarray, "h w"]:
    """Bring deep grey to 0..255, a strip at a time: as a whole the picture in floats would take four times its own memory."""
    finite = (levels[np.isfinite(levels)] for _, levels in _strips(picture))
    ranges = [(float(levels.min()), float(levels.max())) for levels in finite if levels.size]
    low, high = min((r[0] for r in ranges), default=0.0), max((r[1] for r in ranges), default=0.0)
    dark, bright = _shown_range(low, high, whole=picture.mode != "F")
    shown = np.zeros((picture.height, picture.width), dtype=np.uint8)
    for rows, levels in _strips(picture):
        scaled = (np.nan_to_num(levels, nan=dark, posinf=dark, neginf=dark) - dark) * (255 / (bright - dark))
        shown[rows] = np.clip(np.rint(scaled), 0, 255)
    return shown


def _shown_range(low: float, high: float, *, whole: bool) -> tuple[float, float]:
    """The levels that become black and white."""
    if whole and low >= 0 and high < 65536:
        return 0.0, float(2 ** max(8, int(high).bit_length()) - 1)
    if low >= 0 and high <= 255:
        return 0.0, 1.0 if high <= 1 and not whole else 255.0
    return low, max(high, low + 1e-9 * max(1.0, abs(low)))


def _strips(picture: Image.Image) -> Iterator[tuple[slice, np.ndarray]]:
    """A few rows after the other, in float64."""
    step = max(1, STRIP_PIXELS // picture.width)
    for top in range(0, picture.height, step):
        bottom = min(top + step, picture.height)
        strip = picture.crop((0, top, picture.width, bottom))
        yield slice(top, bottom), np.asarray(strip, dtype=np.float64)


def _is_empty(source: Source) -> bool:
    if isinstance(source, str | Path):
        return Path(source).stat().st_size == 0
    return not source.seek(0, 2)


def _name(source: Any) -> str:
    return str(source) if isinstance(source, str | Path) else str(getattr(source, "name", "The picture"))
