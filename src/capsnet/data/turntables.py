"""Photographs of objects on a turntable, whose file names say object and viewpoint: what ETH-80 and COIL-100 share.

Letters: N images, C x H x W image.
"""

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from capsnet.data.files import data_folders
from capsnet.errors import CapsNetError

if TYPE_CHECKING:
    import torch

    from capsnet.data.viewpoints import ViewDataSet


class Subject(NamedTuple):
    """What a file name says; angles in degrees."""

    category: str
    number: int
    elevation: int
    azimuth: int


class Photograph(NamedTuple):
    """A picture file. Sorted, photographs are in the order of their subjects, wherever the files lie."""

    subject: Subject
    path: Path


def find_photographs(names: Sequence[str], first: str, data_dir: Path | None) -> Path | None:
    """Return the first folder with a file `first` at most two folders deep: a data folder, or in it one of `names`."""
    for folder in data_folders(data_dir):
        for place in (*(folder / name for name in names), folder):
            if any(next(place.glob(f"{depth}{first}"), None) for depth in ("", "*/", "*/*/")):
                return place
    return None


def list_photographs(
    folder: Path, pattern: str, read_name: Callable[["re.Match[str]"], Subject]
) -> list[Photograph]:
    """Return the files under `folder` whose whole name matches, sorted; refuse two of the same view."""
    found = []
    for path in folder.rglob("*.png"):
        if match := re.fullmatch(pattern, path.name):
            found.append(Photograph(read_name(match), path))
    found.sort()
    for one, other in pairwise(found):
        if one.subject == other.subject:
            raise CapsNetError(f"{one.path} and {other.path} are the same view of the same object: keep one.")
    return found


def read_photographs(
    paths: Sequence[Path], channels: int, size: int, masks: Sequence[Path] | None = None
) -> "torch.Tensor":
    """Return uint8 (N, C, size, size); what a mask leaves out is black."""
    import numpy as np
    import torch

    from capsnet.data.pictures import read_pixels

    images = np.empty((len(paths), channels, size, size), dtype=np.uint8)

    def read(index: int) -> None:
        mask = masks[index] if masks else None
        images[index] = read_pixels(paths[index], channels, (size, size), background=0, mask=mask)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for _ in pool.map(read, range(len(paths))):
            pass
    return torch.from_numpy(images)


def make_turntable_set(
    name: str,
    class_names: Sequence[str],
    photographs: Sequence[Photograph],
    labels: "torch.Tensor",
    train: "torch.Tensor",
    *,
    grey: bool,
    masks: Sequence[Path] | None = None,
    preprocessing: str,
    image_size: int | None,
) -> "ViewDataSet":
    """Read the pictures and divide them; `train` says which of them train."""
    import torch

    from capsnet.data.base import Split
    from capsnet.data.own import split_digest
    from capsnet.data.view_input import make_view_dataset, stored_size
    from capsnet.data.viewpoints import Views

    side = stored_size(preprocessing, image_size)
    images = read_photographs([p.path for p in photographs], 1 if grey else 3, side, masks)
    subjects = [p.subject for p in photographs]
    elevation, azimuth = (torch.tensor([s[column] for s in subjects]) for column in (2, 3))
    seen = Views(object_numbers(photographs, labels), elevation, azimuth, torch.zeros_like(labels))
    training, testing = (rows.nonzero().flatten() for rows in (train, ~train))
    whole = Split(images, labels)
    splits = {"train": whole.select(training), "test": whole.select(testing)}
    return make_view_dataset(
        name,
        class_names,
        splits["train"],
        splits["test"],
        seen.select(training),
        seen.select(testing),
        preprocessing=preprocessing,
        image_size=image_size,
        digests={part: split_digest(split) for part, split in splits.items()},
    )


def object_numbers(photographs: Sequence[Photograph], labels: "torch.Tensor") -> "torch.Tensor":
    """Return a number for each photograph's object that no two objects share."""
    return 1000 * labels + labels.new_tensor([p.subject.number for p in photographs])
