"""One's own pictures: a folder with one sub-folder a class, of picture files of any sizes.

With sub-folders `train` and `test` these are the two parts; otherwise a fifth of each class is set aside as the test set, the
same fifth every time. Files that cannot be read are told of and left out, unless that leaves a class empty. Pictures are
fitted to one size: `image_size`, else their own when they all share one that networks take, else 64 x 64. They are grey when
all of them are.
"""

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from capsnet.data.base import DataSet, Split
from capsnet.data.own import make_own, set_aside
from capsnet.data.pictures import read_header, read_pixels
from capsnet.errors import CapsNetError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
DEFAULT_SIZE = 64
OWN_SIZES = range(20, 257)
MAX_BYTES = 8 << 30
TOLD = 5

logger = logging.getLogger("capsnet.data")
R = TypeVar("R")


class PictureFile(NamedTuple):
    """A file and the class that its folder stands for."""

    path: Path
    label: int


@dataclass(frozen=True)
class FolderDataSet(DataSet):
    """`unreadable` has the files that were left out, each with the reason."""

    unreadable: tuple[tuple[str, str], ...] = ()


def load_folder(
    folder: Path, image_size: int | Sequence[int] | None = None, channels: int | None = None
) -> FolderDataSet:
    """Reads all pictures into memory.

    Args:
        image_size: height and width, or one number for both.
        channels: 1 for grey, 3 for colour; as the files are when left out.
    """
    if channels not in (None, 1, 3):
        raise CapsNetError(f"Pictures have 1 channel (grey) or 3 (colour), not {channels}.")
    parts = [folder / name for name in ("train", "test")]
    parts = parts if all(part.is_dir() for part in parts) else [folder]
    class_names = list_classes(parts[0])
    files = [list_pictures(part, class_names) for part in parts]
    problems: dict[Path, str] = {}
    headers = _for_each([f for part in files for f in part], read_header, problems)
    size = _choose_size(image_size, {(h.height, h.width) for h in headers.values()})
    channels = channels or (1 if all(h.grey for h in headers.values()) else 3)
    if len(headers) * channels * size[0] * size[1] > MAX_BYTES:
        raise CapsNetError(
            f"{folder} has {len(headers)} pictures, too many for memory at {size[0]}x{size[1]}: give a smaller image size."
        )
    splits = [_decode([f for f in part if f.path in headers], (channels, *size), problems) for part in files]
    _tell(folder, problems)
    for part, split in zip(parts, splits, strict=True):
        _refuse_empty(part, class_names, split, problems)
    train, test = splits if len(splits) == 2 else set_aside(splits[0], folder)
    own = make_own(str(folder), train, test, class_names)
    return FolderDataSet(**vars(own), unreadable=tuple((str(path), why) for path, why in problems.items()))


def list_classes(folder: Path) -> list[str]:
    """The sub-folders' names, sorted; hidden ones are not classes."""
    try:
        entries = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except OSError as error:
        raise CapsNetError(f"{folder} cannot be read: {error.strerror}.") from error
    classes = [name for name in entries if not name.startswith((".", "__"))]
    if len(classes) < 2:
        raise CapsNetError(
            f"{folder} needs a sub-folder of pictures for each class, at least two; it has {len(classes)}."
        )
    return classes


def list_pictures(folder: Path, class_names: Sequence[str]) -> list[PictureFile]:
    """The picture files under each class's folder, sorted; links to folders inside it are not followed, so none can loop."""
    unknown = [name for name in list_classes(folder) if name not in class_names]
    if unknown:
        raise CapsNetError(f"{folder / unknown[0]} is a class that the training pictures don't have.")
    found = []
    for label, name in enumerate(class_names):
        place = folder / name
        if folder.resolve().is_relative_to(place.resolve()):
            raise CapsNetError(f"{place} is a link to a folder that it lies in; it cannot be a class.")
        for where, inner, names in os.walk(place):
            inner.sort()
            pictures = sorted(n for n in names if n.lower().endswith(SUFFIXES) and not n.startswith("."))
            found += [PictureFile(Path(where, n), label) for n in pictures]
    return found


def _for_each(
    files: Sequence[PictureFile], read: Callable[[Path], R], problems: dict[Path, str]
) -> dict[Path, R]:
    """What `read` gives for each file, read in parallel; what it refuses goes to `problems`."""

    def attempt(file: PictureFile) -> R | CapsNetError:
        try:
            return read(file.path)
        except CapsNetError as error:
            return error

    done: dict[Path, R] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for file, result in zip(files, pool.map(attempt, files), strict=True):
            if isinstance(result, CapsNetError):
                problems[file.path] = str(result)
            else:
                done[file.path] = result
    return done


def _decode(files: Sequence[PictureFile], shape: tuple[int, int, int], problems: dict[Path, str]) -> Split:
    channels, *size = shape
    images = np.empty((len(files), *shape), dtype=np.uint8)
    slots = {file.path: slot for slot, file in enumerate(files)}

    def read(path: Path) -> int:
        images[slots[path]] = read_pixels(path, channels, (size[0], size[1]))
        return slots[path]

    kept = sorted(_for_each(files, read, problems).values())
    labels = torch.tensor([files[slot].label for slot in kept], dtype=torch.long)
    return Split(torch.from_numpy(images if len(kept) == len(files) else images[kept]), labels)


def _choose_size(asked: int | Sequence[int] | None, seen: set[tuple[int, int]]) -> tuple[int, int]:
    if asked is None:
        only = next(iter(seen)) if len(seen) == 1 else (0, 0)
        return only if all(side in OWN_SIZES for side in only) else (DEFAULT_SIZE, DEFAULT_SIZE)
    sides = (asked, asked) if isinstance(asked, int) else tuple(asked)
    if len(sides) != 2 or not all(1 <= side <= 4096 for side in sides):
        raise CapsNetError(f"An image size is one number or two, of 1 to 4096 pixels, not {asked}.")
    return int(sides[0]), int(sides[1])


def _tell(folder: Path, problems: dict[Path, str]) -> None:
    if problems:
        more = f"\n  and {len(problems) - TOLD} more" if len(problems) > TOLD else ""
        some = "".join(f"\n  {why}" for why in list(problems.values())[:TOLD])
        logger.warning("%s: %d files cannot be read and are left out:%s%s", folder, len(problems), some, more)


def _refuse_empty(folder: Path, class_names: Sequence[str], split: Split, problems: dict[Path, str]) -> None:
    counts = torch.bincount(split.labels, minlength=len(class_names)).tolist()
    for name, count in zip(class_names, counts, strict=True):
        place = folder / name
        # A test folder may lack a class, but one that is there must not be empty.
        if count == 0 and (place.is_dir() or folder.name != "test"):
            broken = sum(path.is_relative_to(place) for path in problems)
            why = f"none of its {broken} pictures can be read" if broken else "it has no pictures"
            raise CapsNetError(f"The class folder {place} is empty: {why}.")
