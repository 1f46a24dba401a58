"""Pictures that weights know nothing of, made here from a seed: letters, shapes, scribbles, noise, and test images spoilt.

Drawn pictures go the way of a picture file: `capsnet.predict` would see the same pixels. Those made from test images are
changed as they are stored. What needs other data comes from `others`: data sets that are on this machine, or folders.

Letters: N images, C x H x W image.
"""

import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from capsnet.data.base import DataSet, Split
from capsnet.data.listing import find_pictures
from capsnet.data.pictures import read_picture
from capsnet.data.registry import is_path, load_dataset
from capsnet.errors import CapsNetError

SIDE = 112
# Capitals and small letters that nobody reads as a digit.
LETTERS = "ACEFGHKMNPRTUVWXYadefhkmnrtuvwxy"

Draw = Callable[[np.random.Generator, int], Image.Image]


def letters(rng: np.random.Generator, n: int) -> Image.Image:
    """A letter of Pillow's own font, in several sizes and weights, slightly turned."""
    font = ImageFont.load_default(size=int(rng.integers(60, 90)))
    sheet = Image.new("L", (SIDE, SIDE))
    ImageDraw.Draw(sheet).text(
        (SIDE / 2, SIDE / 2),
        LETTERS[n % len(LETTERS)],
        fill=255,
        font=font,
        anchor="mm",
        stroke_width=int(rng.integers(0, 4)),
    )
    return sheet.rotate(float(rng.normal(0, 6)), Image.Resampling.BICUBIC)


def shapes(rng: np.random.Generator, n: int) -> Image.Image:
    """A triangle, square, star, cross, filled hexagon, disc, or three bars; turned as it likes."""
    sheet = Image.new("L", (SIDE, SIDE))
    pen = ImageDraw.Draw(sheet)
    width, reach, turn = int(rng.integers(6, 14)), int(rng.integers(25, 45)), rng.uniform(0, 2 * math.pi)
    x, y = SIDE / 2 + rng.integers(-8, 9, 2)

    def corners(count: int, step: int = 1) -> list[tuple[float, float]]:
        angles = [turn + 2 * math.pi * k * step / count for k in range(count)]
        return [(x + reach * math.cos(a), y + reach * math.sin(a)) for a in angles]

    def stroke(*points: tuple[float, float]) -> None:
        pen.line(points, fill=255, width=width, joint="curve")

    def outline(points: list[tuple[float, float]]) -> None:
        stroke(*points, *points[:2])

    def cross() -> None:
        for k in (0, 1):
            stroke(*corners(4)[k::2])

    def bars() -> None:
        for k in (-1, 0, 1):
            stroke((x - reach, y + k * reach * 0.6), (x + reach, y + k * reach * 0.6))

    kinds: list[Callable[[], None]] = [
        lambda: outline(corners(3)),
        lambda: outline(corners(4)),
        lambda: outline(corners(5, step=2)),
        cross,
        lambda: pen.polygon(corners(6), fill=255),
        lambda: pen.ellipse([x - reach, y - reach, x + reach, y + reach], fill=255),
        bars,
    ]
    kinds[n % len(kinds)]()
    return sheet


def scribbles(rng: np.random.Generator, n: int) -> Image.Image:
    """A smooth line through five to eleven random points."""
    points = rng.uniform(15, SIDE - 15, (int(rng.integers(5, 12)), 2))
    at = np.linspace(0, len(points) - 1, 60)
    smooth = [
        np.convolve(np.interp(at, np.arange(len(points)), p), np.ones(7) / 7, "valid") for p in points.T
    ]
    sheet = Image.new("L", (SIDE, SIDE))
    line = list(zip(*(p.tolist() for p in smooth), strict=True))
    ImageDraw.Draw(sheet).line(line, fill=255, width=int(rng.integers(6, 12)), joint="curve")
    return sheet


def noise(rng: np.random.Generator, n: int) -> Image.Image:
    """Uniform, Gaussian, smooth or sparse noise."""
    if n % 4 == 2:
        coarse = Image.fromarray(rng.normal(size=(7, 7)).astype(np.float32))
        field = 128 + 100 * np.asarray(coarse.resize((28, 28), Image.Resampling.BICUBIC))
    elif n % 4 == 3:
        field = 255 * (rng.random((28, 28)) < rng.uniform(0.05, 0.3))
    else:
        field = rng.integers(0, 256, (28, 28)) if n % 4 == 0 else rng.normal(60, 60, (28, 28))
    return Image.fromarray(field.clip(0, 255).astype(np.uint8))


DRAWN: dict[str, Draw] = {"letters": letters, "shapes": shapes, "scribbles": scribbles, "noise": noise}


def draw(dataset: DataSet, name: str, count: int, seed: int = 0) -> UInt8[Tensor, "n c h w"]:
    """Draw `count` pictures of one kind, read as picture files are."""
    rng = np.random.default_rng([seed, list(DRAWN).index(name)])
    return read_all(dataset, [DRAWN[name](rng, n) for n in range(count)])


def read_all(dataset: DataSet, pictures: Sequence[Image.Image | Path]) -> UInt8[Tensor, "n c h w"]:
    """Read pictures as `capsnet predict` reads files; for stereo pairs, the same picture for both eyes."""
    read = []
    for picture in pictures:
        source: io.BytesIO | Path
        if isinstance(picture, Path):
            source = picture
        else:
            source = io.BytesIO()
            (beside_itself(picture) if dataset.image_shape[0] == 2 else picture).save(source, "PNG")
            source.seek(0)
        read.append(read_picture(source, dataset.preprocessing, dataset.image_shape))
    return torch.from_numpy(np.stack(read))


def beside_itself(picture: Image.Image) -> Image.Image:
    """Return a picture twice, side by side, each square."""
    side = max(picture.size)
    both = Image.new(picture.mode, (2 * side, side))
    for x in (0, side):
        both.paste(picture.resize((side, side)), (x, 0))
    return both


def of_others(dataset: DataSet, name: str, count: int, seed: int, data_dir: Path | None) -> dict[str, Tensor]:
    """Return pictures of another data set, or of a folder, by what to call them.

    A data set's test images go the way of a picture file; those of the same kind and size as they are stored, too.
    """
    rng = np.random.default_rng(seed)
    if is_path(name):
        files = find_pictures(Path(name))
        if not files:
            raise CapsNetError(f"There are no pictures in '{name}'.")
        chosen = rng.permutation(len(files))[:count]
        return {Path(name).name: read_all(dataset, [files[n] for n in chosen.tolist()])}
    other = load_dataset(name, data_dir=data_dir)
    rows = torch.from_numpy(rng.permutation(len(other.test.labels))[:count])
    stored = other.test.images[rows]
    pictures = [
        Image.fromarray(image[0] if len(image) < 3 else image.transpose(1, 2, 0)) for image in stored.numpy()
    ]
    sets = {name: read_all(dataset, pictures)}
    if stored.shape[1:] == dataset.test.images.shape[1:]:
        sets[f"{name}, as stored"] = stored
    return sets


def rotated(split: Split, generator: torch.Generator) -> UInt8[Tensor, "n c h w"]:
    """A quarter turn; of digits all but the zeros and ones, which may still be read."""
    return split.images.rot90(1, dims=(2, 3))


def occluded(split: Split, generator: torch.Generator) -> UInt8[Tensor, "n c h w"]:
    """A grey square over three sevenths of each side, anywhere around the middle."""
    images = split.images.clone()
    height, width = images.shape[2:]
    for image in images:
        h, w = height * 3 // 7, width * 3 // 7
        top, left = (
            int(torch.randint(s // 7, s - s * 3 // 7 - s // 7 + 1, (), generator=generator))
            for s in (height, width)
        )
        image[:, top : top + h, left : left + w] = 128
    return images


def pairs(split: Split, generator: torch.Generator) -> UInt8[Tensor, "n c h w"]:
    """Two test images of different classes, the second shifted by up to a seventh of each side, added and cut at white."""
    count = len(split.labels)
    other = torch.randperm(count, generator=generator)
    differs = split.labels != split.labels[other]
    shifts = torch.randint(-4, 5, (count, 2), generator=generator).tolist()
    moved = torch.stack(
        [torch.roll(image, shift, (1, 2)) for image, shift in zip(split.images[other], shifts, strict=True)]
    )
    whole = (split.images.int() + moved.int()).clamp(max=255).to(torch.uint8)
    return whole[differs]


SPOILT: dict[str, Callable[[Split, torch.Generator], Tensor]] = {
    "rotated": rotated,
    "occluded": occluded,
    "pairs": pairs,
}


def spoil(split: Split, name: str, seed: int = 0) -> UInt8[Tensor, "n c h w"]:
    """Spoil test images so that they are none of the classes any more."""
    return SPOILT[name](split, torch.Generator().manual_seed(seed))
