"""MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey (LeCun, Cortes, Burges). Its four files are part of the package,
and with them the writer of each image (Yadav and Bottou 2019).

| split | images | classes | pixels     |
|-------|--------|---------|------------|
| train | 60,000 | 10      | 1x28x28    |
| test  | 10,000 | 10      | 1x28x28    |
"""

from pathlib import Path
from typing import TYPE_CHECKING

from capsnet.data.idx import read_idx
from capsnet.data.preprocessing import Preprocessing
from capsnet.data.registry import register_dataset
from capsnet.errors import CapsNetError

if TYPE_CHECKING:
    import torch

    from capsnet.data.base import DataSet, Split

BUNDLED = Path(__file__).parent / "bundled" / "mnist"
FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
WRITERS = Path(__file__).parent / "bundled" / "qmnist"
WRITERS_SHA256 = {
    "train": "d35a9f2f67cffc42cffa71f2ea3836057010e277931851a38fa1d336c9b60df4",
    "test": "73ea42627e35f032384d76b5a63c6aaadec08acaa425def0f7321e13231927ca",
}
CLASS_NAMES = tuple("0123456789")
PREPROCESSING = Preprocessing(kind="digit", divisor=256.0, light_on_dark=True)


@register_dataset(
    train_images=60_000,
    test_images=10_000,
    image_shape=(1, 28, 28),
    class_names=CLASS_NAMES,
    licence="CC BY-SA 3.0",
    find=lambda data_dir: BUNDLED,
)
def mnist(data_dir: Path | None = None) -> "DataSet":
    """Handwritten digits (LeCun, Cortes, Burges)."""
    from capsnet.data.augmentation import MNIST_AUGMENTATIONS
    from capsnet.data.base import DataSet

    train, test, digests = read_mnist_like(BUNDLED, FILES)
    return DataSet(
        "mnist",
        train,
        test,
        CLASS_NAMES,
        PREPROCESSING,
        (1, 28, 28),
        MNIST_AUGMENTATIONS,
        digests,
        groups={"writers": read_writers("train")},
        test_groups={"writers": read_writers("test")},
    )


def read_writers(part: str) -> "torch.Tensor":
    """Return the number of the writer of each image; the images of a writer are not stored together.

    Numbers from 2000 on are high-school students (NIST's series hsf_4), the others employees of the Census Bureau (hsf_0).
    """
    import torch

    file = WRITERS / f"{part}-writers-idx1-short.gz"
    return torch.from_numpy(read_idx(file, ndim=1, sha256=WRITERS_SHA256[part], kind="shorts").array).long()


def read_mnist_like(folder: Path, files: dict[str, str]) -> "tuple[Split, Split, dict[str, str]]":
    """The two splits of a set that is laid out as MNIST is, and the digests of its files; `files` has what they must be."""
    import torch

    from capsnet.data.base import Split
    from capsnet.data.files import find_file

    arrays, digests = {}, {}
    for name, sha256 in files.items():
        path = find_file(folder, name)
        if path is None:
            raise CapsNetError(f"{folder / name}.gz is missing.")
        arrays[name], digests[name] = read_idx(path, ndim=3 if "images" in name else 1, sha256=sha256)
    splits = []
    for part in ("train", "t10k"):
        images, labels = arrays[f"{part}-images-idx3-ubyte"], arrays[f"{part}-labels-idx1-ubyte"]
        if len(images) != len(labels):
            raise CapsNetError(f"{folder} has {len(images)} pictures but {len(labels)} labels in '{part}'.")
        splits.append(Split(torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels).long()))
    return splits[0], splits[1], digests
