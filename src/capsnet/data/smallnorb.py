"""smallNORB: 24,300 + 24,300 stereo pairs of toys, 96x96 grey (LeCun, Huang, Bottou 2004). Found on this machine or downloaded.

Five categories, five instances of each in train and five others in test, 9 elevations, 18 azimuths, 6 lightings.

| split | pairs  | classes | pixels  |
|-------|--------|---------|---------|
| train | 24,300 | 5       | 2x96x96 |
| test  | 24,300 | 5       | 2x96x96 |
"""

import itertools
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capsnet.data.download import Progress, Remote, fetch_all
from capsnet.data.files import data_folders, find_file, find_folder
from capsnet.data.norb_format import read_matrix
from capsnet.data.registry import register_dataset
from capsnet.errors import CapsNetError

if TYPE_CHECKING:
    from capsnet.data.base import DataSet

FOLDER = "smallnorb"
SOURCES = ("https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/{}",)
TRAIN, TEST = "smallnorb-5x46789x9x18x6x2x96x96-training", "smallnorb-5x01235x9x18x6x2x96x96-testing"
# The SHA-256 of the unpacked pictures. None are published for the labels: a download of them is compared with the design.
FILES: dict[str, str | None] = {
    f"{TRAIN}-dat.mat": "4813bf104d229583fea8ed57fdc3e9258c927b8dfb43d75412e854a7a9588067",
    f"{TRAIN}-cat.mat": None,
    f"{TRAIN}-info.mat": None,
    f"{TEST}-dat.mat": "2b1de646c57ffdc259b8fb973a6453e90915248a8fdb4d9df948786bdae72b34",
    f"{TEST}-cat.mat": None,
    f"{TEST}-info.mat": None,
}
LAYOUT: dict[str, dict[str, Any]] = {
    "dat": {"ndim": 4, "dtype": "u1"},
    "cat": {"ndim": 1, "dtype": "i4"},
    "info": {"ndim": 2, "dtype": "i4"},
}
MAX_BYTES = 450_000_000
PAIRS = 24_300
CLASS_NAMES = ("animal", "human", "airplane", "truck", "car")


def find(data_dir: Path | None = None) -> Path | None:
    """The folder that has the six files, if there is one."""
    return find_folder(FOLDER, FILES, data_dir)


def fetch(data_dir: Path | None = None, progress: Progress | None = None) -> Path:
    """Downloads the files into the first data folder."""
    remotes = [
        Remote(
            f"{name}.gz",
            tuple(s.format(f"{name}.gz") for s in SOURCES),
            MAX_BYTES,
            partial(check_download, name=name),
        )
        for name in FILES
    ]
    return fetch_all("smallNORB", remotes, data_folders(data_dir)[0] / FOLDER, progress)


def check_download(path: Path, name: str) -> None:
    """Refuse a file that cannot be the one of this name.

    Every category has every instance at every elevation, azimuth and lighting once, and the file's name says which instances
    those are; so the labels' counts are known, though not their order.
    """
    array = _read(path, name).array
    if name.endswith("-cat.mat"):
        right = array.shape == (PAIRS,) and np.array_equal(
            np.unique_counts(array).counts, [PAIRS // len(CLASS_NAMES)] * len(CLASS_NAMES)
        )
        right = right and array.min() == 0
    elif name.endswith("-info.mat"):
        instances = [int(digit) for digit in name.split("x")[1]]
        design = itertools.product(instances, range(9), range(0, 36, 2), range(6))
        right = array.shape == (PAIRS, 4)
        right = right and np.array_equal(
            np.unique(array, axis=0), np.array(sorted(design), dtype=array.dtype)
        )
        right = right and set(np.unique_counts(array @ [10**6, 10**4, 100, 1]).counts) == {len(CLASS_NAMES)}
    else:
        right = array.shape == (PAIRS, 2, 96, 96)
    if not right:
        raise CapsNetError(f"{path} does not hold the labels of smallNORB's design.")


def _read(path: Path, name: str) -> Any:
    kind = name.removesuffix(".mat").rpartition("-")[2]
    return read_matrix(path, **LAYOUT[kind], sha256=FILES[name])


@register_dataset(
    train_images=24_300,
    test_images=24_300,
    image_shape=(2, 48, 48),
    class_names=CLASS_NAMES,
    licence="research only",
    find=find,
    hold_out="objects",
    fetch=fetch,
)
def smallnorb(
    data_dir: Path | None = None,
    preprocessing: str = "paper",
    image_size: int | None = None,
    objects: str = "new",
    views: str | None = None,
) -> "DataSet":
    """Toys from many viewpoints, stereo (LeCun, Huang, Bottou 2004).

    Args:
        preprocessing: "paper" (2x48x48), "hinton" (2x32x32) or "whole"; see `capsnet.data.view_input`.
        image_size: the side of the network's images, in place of those.
        objects, views: which objects and viewpoints train and test; see `capsnet.data.viewpoints`.
    """
    import torch

    from capsnet.data.base import Split
    from capsnet.data.view_input import make_view_dataset
    from capsnet.data.viewpoints import choose_protocol, norb_views

    folder = find(data_dir) or fetch(data_dir)
    splits, infos, digests = [], [], {}
    for part in (TRAIN, TEST):
        arrays = {}
        for kind in LAYOUT:
            name = f"{part}-{kind}.mat"
            path = find_file(folder, name)
            if path is None:
                raise CapsNetError(f"{folder / name} is missing.")
            arrays[kind], digests[name] = _read(path, name)
        images, labels, info = arrays["dat"], arrays["cat"], arrays["info"]
        n = len(images)
        if images.shape[1:] != (2, 96, 96) or labels.shape != (n,) or info.shape != (n, 4):
            raise CapsNetError(
                f"{folder} is not smallNORB: the sizes of its {part} files don't fit together."
            )
        if n == 0 or labels.min() < 0 or labels.max() >= len(CLASS_NAMES):
            raise CapsNetError(f"{folder} is not smallNORB: {part}-cat.mat has other categories than 0 to 4.")
        splits.append(Split(torch.from_numpy(images), torch.from_numpy(labels).long()))
        infos.append(torch.from_numpy(info).long())
    (train, test), (train_info, test_info) = splits, infos
    whole = make_view_dataset(
        "smallnorb",
        CLASS_NAMES,
        train,
        test,
        norb_views(train.labels, train_info),
        norb_views(test.labels, test_info),
        preprocessing=preprocessing,
        image_size=image_size,
        digests=digests,
    )
    return choose_protocol(whole, objects, views)
