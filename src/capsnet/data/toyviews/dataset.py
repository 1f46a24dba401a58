"""toyviews as a data set: the same reader interface, pre-processing and protocols as smallNORB."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from capsnet.data.files import data_folders, find_folder
from capsnet.data.registry import register_dataset
from capsnet.errors import CapsNetError

if TYPE_CHECKING:
    from capsnet.data.base import DataSet

FOLDER = "toyviews"
FILES = ("toyviews.json", "train.npz", "test.npz")
CLASS_NAMES = ("animal", "human", "airplane", "truck", "car")


def find(data_dir: Path | None = None) -> Path | None:
    """The folder that has the generated files, if there is one."""
    return find_folder(FOLDER, FILES, data_dir)


def make(data_dir: Path | None = None, progress: Callable[[int, int], None] | None = None) -> Path:
    """Generates the set in the first data folder; what an earlier call finished is kept."""
    from capsnet.data.toyviews import generate

    return generate.make(data_folders(data_dir)[0] / FOLDER, progress=progress)


@register_dataset(
    train_images=24_300,
    test_images=24_300,
    image_shape=(2, 48, 48),
    class_names=CLASS_NAMES,
    licence="Apache-2.0",
    find=find,
    hold_out="objects",
    make=make,
)
def toyviews(
    data_dir: Path | None = None,
    preprocessing: str = "paper",
    image_size: int | None = None,
    objects: str = "new",
    views: str | None = None,
) -> "DataSet":
    """Synthetic toys from many viewpoints, stereo, in the design of smallNORB.

    Args:
        preprocessing: "paper" (2x48x48), "hinton" (2x32x32) or "whole"; see `capsnet.data.view_input`.
        image_size: the side of the network's images, in place of those.
        objects, views: which objects and viewpoints train and test; see `capsnet.data.viewpoints`.
    """
    import torch

    from capsnet.data.base import Split
    from capsnet.data.toyviews.store import load, read_manifest
    from capsnet.data.view_input import make_view_dataset
    from capsnet.data.viewpoints import choose_protocol, norb_views

    folder = find(data_dir)
    if folder is None:
        where = data_folders(data_dir)[0] / FOLDER
        raise CapsNetError(
            f"toyviews is not in {where}: run `capsnet data make toyviews`, which takes some minutes."
        )
    (train, train_info), (test, test_info) = (
        (
            Split(torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"]).long()),
            torch.from_numpy(arrays["info"]).long(),
        )
        for arrays in load(folder).values()
    )
    digests = {f"{name}.npz": kept["sha256"] for name, kept in read_manifest(folder)["splits"].items()}
    whole = make_view_dataset(
        "toyviews",
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
