"""ETH-80: photographs of 80 objects of 8 categories from 41 viewpoints on the upper half sphere (Leibe and Schiele 2003).

A file `car14-066-117.png` is car 14 seen from 66 degrees off the vertical at an azimuth of 117; folders do not matter.
`maps/car14-066-117-map.png` beside it is white where the object is. Pictures may have any size (256x256 in the original). No
licence is stated, so the files are not downloaded; https://github.com/chenchkx/ETH-80 has them in this layout.

| split | images | classes | pixels                   |
|-------|--------|---------|--------------------------|
| train | 1,640  | 8       | 3x48x48, or another size |
| test  | 1,640  | 8       | 3x48x48, or another size |
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from capsnet.data.files import data_folders
from capsnet.data.registry import register_dataset
from capsnet.data.turntables import (
    Photograph,
    Subject,
    find_photographs,
    list_photographs,
    make_turntable_set,
    object_numbers,
)
from capsnet.errors import CapsNetError

if TYPE_CHECKING:
    import torch

    from capsnet.data.base import DataSet

FOLDER = "eth80"
PICTURES = 3280
CLASS_NAMES = ("apple", "car", "cow", "cup", "dog", "horse", "pear", "tomato")
NAME = rf"({'|'.join(CLASS_NAMES)})(\d{{1,2}})-(\d{{3}})-(\d{{3}})\.png"
SOURCE = "https://github.com/chenchkx/ETH-80"

logger = logging.getLogger("capsnet.data")


def find(data_dir: Path | None = None) -> Path | None:
    """The folder that has the photographs, if there is one."""
    return find_photographs((FOLDER, "ETH-80"), "apple1-000-000.png", data_dir)


@register_dataset(
    train_images=1640,
    test_images=1640,
    image_shape=(3, 48, 48),
    class_names=CLASS_NAMES,
    licence="not stated",
    find=find,
    hold_out="objects",
)
def eth80(
    data_dir: Path | None = None,
    image_size: int | None = None,
    grey: bool = False,
    masked: bool = False,
    preprocessing: str = "whole",
    objects: str = "new",
    views: str | None = None,
    draw: int = 0,
) -> "DataSet":
    """Photographs of objects from many viewpoints (Leibe and Schiele 2003).

    Args:
        image_size: the side of the network's images; the pre-processing's own when left out, which is 48.
        grey: one channel in place of three.
        masked: what is not the object is black.
        preprocessing: "whole", "paper" or "hinton"; see `capsnet.data.view_input`.
        objects, views: which objects and viewpoints train and test; see `capsnet.data.viewpoints`.
        draw: which random half of each category's objects trains. An odd number takes the other half of the number before it.
    """
    import torch

    from capsnet.data.viewpoints import choose_protocol

    if draw < 0:
        raise CapsNetError(f"The option draw of 'eth80' is at least 0, not {draw}.")
    photographs = list_all(data_dir)
    labels = torch.tensor([CLASS_NAMES.index(p.subject.category) for p in photographs])
    whole = make_turntable_set(
        "eth80",
        CLASS_NAMES,
        photographs,
        labels,
        choose_half(labels, object_numbers(photographs, labels), draw),
        grey=grey,
        masks=[mask_of(p.path) for p in photographs] if masked else None,
        preprocessing=preprocessing,
        image_size=image_size,
    )
    return choose_protocol(whole, objects, views)


def list_all(data_dir: Path | None) -> list[Photograph]:
    """Return all photographs, category by category, object by object; some may be missing, but not whole categories."""
    folder = find(data_dir)
    if folder is None:
        where = data_folders(data_dir)[0] / FOLDER
        raise CapsNetError(
            f"ETH-80 is not in {where}: get its pictures from {SOURCE} and put them there, "
            "or name the folder that has them with --data-dir."
        )
    photographs = list_photographs(
        folder, NAME, lambda m: Subject(m[1], int(m[2]), 90 - int(m[3]), int(m[4]) % 360)
    )
    missing = sorted(set(CLASS_NAMES) - {p.subject.category for p in photographs})
    if missing:
        raise CapsNetError(
            f"{folder} is not the whole of ETH-80: it has no pictures of class '{missing[0]}'."
        )
    if len(photographs) != PICTURES:
        logger.warning("%s has %d of ETH-80's %d pictures.", folder, len(photographs), PICTURES)
    return photographs


def mask_of(path: Path) -> Path:
    """Return where the mask of a picture is."""
    return path.parent / "maps" / f"{path.stem}-map.png"


def choose_half(labels: "torch.Tensor", objects: "torch.Tensor", draw: int) -> "torch.Tensor":
    """Return which images train: those of a random half of each class's objects; an odd draw takes the other half."""
    import torch

    generator = torch.Generator().manual_seed(draw // 2)
    chosen = []
    for label in labels.unique():
        own = objects[labels == label].unique()
        if len(own) < 2:
            raise CapsNetError(
                f"ETH-80's class '{CLASS_NAMES[label]}' has only one object; two halves need two."
            )
        chosen.append(own[torch.randperm(len(own), generator=generator)[: len(own) // 2]])
    first = torch.isin(objects, torch.cat(chosen))
    return ~first if draw % 2 else first
