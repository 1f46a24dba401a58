"""COIL-100: photographs of 100 objects on a turntable, 72 each, 5 degrees apart (Nene, Nayar and Murase 1996).

A file `obj12__340.png` is object 12 at an azimuth of 340 degrees. Each object is a class, so the test objects are those of
training: training has every second azimuth (0, 10, ...), the test those between. With `views=azimuth` the familiar third of
the training azimuths trains and the novel test azimuths test. The files are not downloaded; see
https://www.cs.columbia.edu/CAVE/software/softlib/coil-100.php.

| split | images | classes | pixels  |
|-------|--------|---------|---------|
| train | 3,600  | 100     | 3x48x48 |
| test  | 3,600  | 100     | 3x48x48 |
"""

from pathlib import Path
from typing import TYPE_CHECKING

from capsnet.data.files import data_folders
from capsnet.data.registry import register_dataset
from capsnet.data.turntables import Subject, find_photographs, list_photographs, make_turntable_set
from capsnet.errors import CapsNetError, unknown_name

if TYPE_CHECKING:
    from capsnet.data.base import DataSet

FOLDER = "coil100"
VIEWS = ("azimuth", "azimuth_familiar")
CLASS_NAMES = tuple(f"obj{number}" for number in range(1, 101))
NAME = r"obj(\d{1,3})__(\d{1,3})\.png"
SOURCE = "https://www.cs.columbia.edu/CAVE/software/softlib/coil-100.php"


def find(data_dir: Path | None = None) -> Path | None:
    """The folder that has the photographs, if there is one."""
    return find_photographs((FOLDER, "coil-100"), "obj1__0.png", data_dir)


@register_dataset(
    train_images=3600,
    test_images=3600,
    image_shape=(3, 48, 48),
    class_names=CLASS_NAMES,
    licence="research only",
    find=find,
)
def coil100(
    data_dir: Path | None = None,
    image_size: int | None = None,
    grey: bool = False,
    preprocessing: str = "whole",
    views: str | None = None,
) -> "DataSet":
    """Photographs of objects on a turntable, each object a class (Nene, Nayar and Murase 1996).

    Args:
        image_size: the side of the network's images; 48 when left out, or the pre-processing's own.
        grey: one channel in place of three.
        preprocessing: "whole", "paper" or "hinton"; see `capsnet.data.view_input`.
        views: "azimuth" or "azimuth_familiar"; see `capsnet.data.viewpoints`.
    """
    import torch

    from capsnet.data.viewpoints import choose_protocol

    if views not in (None, *VIEWS):
        raise unknown_name("viewpoint protocol", str(views), VIEWS, "for 'coil100'")
    folder = find(data_dir)
    if folder is None:
        where = data_folders(data_dir)[0] / FOLDER
        raise CapsNetError(
            f"COIL-100 is not in {where}: get its pictures from {SOURCE} and put them there, "
            "or name the folder that has them with --data-dir."
        )
    photographs = list_photographs(folder, NAME, lambda m: Subject("obj", int(m[1]), 0, int(m[2]) % 360))
    numbers, labels = torch.tensor([p.subject.number for p in photographs]).unique(return_inverse=True)
    train = torch.tensor([p.subject.azimuth % 10 == 0 for p in photographs])
    for part, rows in (("training", train), ("test", ~train)):
        if len(labels[rows].unique()) < len(numbers):
            raise CapsNetError(f"{folder} is not the whole of COIL-100: an object has no {part} pictures.")
    whole = make_turntable_set(
        "coil100",
        [f"obj{number}" for number in numbers.tolist()],
        photographs,
        labels,
        train,
        grey=grey,
        preprocessing=preprocessing,
        image_size=image_size,
    )
    return choose_protocol(whole, views=views)
